"""Whether heads cause the answers: changed at the answer position, beside random heads."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.cause import KIND_WORDS, NOT_ASSESSABLE, Cause, Changed, Effect, cause
from analysis.inference import Interval
from hatlens import tables
from hatlens.config import StudyConfig
from hatlens.sets import MAIN, StudySets
from hatlens.stages.chosen_heads import HeadChoice, chosen_heads, own_heads, used_contexts
from hatlens.stages.reading import was_read
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from probes import cause as measured
from probes.head_names import Head, parse_heads
from probes.memory import parse_bytes
from prompts.refusal import Refusal

LEAST_CONTEXTS = 2
NAMED = "named"


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """None before anything is concluded."""
    return []


def after(config: StudyConfig, folder: RunFolder) -> list[str]:
    """One cell for all contexts, named by heads, sets, contexts and reading."""
    heads = concluded_heads(config, folder) if config.cause else ()
    if not heads or used_contexts(config, folder) < LEAST_CONTEXTS:
        return []
    return [cell_name(config, folder, heads)]


def concluded_heads(config: StudyConfig, folder: RunFolder) -> tuple[Head, ...]:
    """The heads to change: own ones, or those of the stored conclusion."""
    if config.heads:
        return own_heads(config, folder)
    return parse_heads(folder.read_results()["cause"]["heads"], head_grid(folder))


def cell_name(config: StudyConfig, folder: RunFolder, heads: Sequence[Head]) -> str:
    """Other heads, sets, contexts or readings are other cells."""
    reading = f"exact {config.mass:g}" if was_read(config, folder) else "greedy"
    names = [str(head) for head in sorted(heads)]
    what = [names, config.random_sets, used_contexts(config, folder), reading]
    return f"cause/{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]}/answers"


def run(bench: Bench, name: str) -> Arrays:
    """Answers (condition, context, query) as printed, and what was changed; see `Caused`.

    `refused` alone, a sentence, where the family's heads cannot be changed.
    """
    config, used = bench.config, used_contexts(bench.config, bench.folder)
    hold = measured.HOLD_BYTES if config.memory is None else parse_bytes(config.memory)
    try:
        found = measured.cause(
            bench.loaded,
            bench.tokens[MAIN][:used],
            [str(head) for head in concluded_heads(config, bench.folder)],
            answer_reader(bench),
            rng=np.random.default_rng([config.seed, 22]),
            draws=config.random_sets,
            progress=lambda done, total: bench.report("contexts with heads changed", done, total),
            hold_bytes=hold,
        )
    except Refusal as refusal:
        return {"refused": np.array(str(refusal))}
    return {
        "answers": found.answers,
        "kinds": np.array([condition.kind for condition in found.conditions]),
        "draws": np.array([condition.draw for condition in found.conditions]),
        "heads": np.array([str(head) for head in found.named]),
        "sets": np.array([" ".join(map(str, one)) for one in found.sets], dtype=np.str_),
        "short": np.array(found.short),
        "mean_layers": np.array(list(found.means)),
        "means": np.stack([mean.double().numpy() for mean in found.means.values()]),
        "seconds": np.array([found.seconds["forward"], found.seconds["reading"]]),
    }


def answer_reader(bench: Bench) -> measured.Read:
    """Answers are read as the study reads them."""
    if was_read(bench.config, bench.folder):
        return measured.reads_exactly(bench.grammar(), mass=bench.config.mass)
    codec = bench.study.sets[MAIN].codec
    return measured.reads_greedily(bench.loaded, codec.parse_answer)


def conclude(evidence: Evidence) -> Found | None:
    """What changing the heads does beside changing random ones."""
    config, folder = evidence.config, evidence.folder
    if not config.cause:
        return None
    choice = chosen_heads(config, folder, evidence.test)
    if not choice.heads:
        return without(choice, "no row of a head sees the query")
    if used_contexts(config, folder) < LEAST_CONTEXTS:
        return without(choice, "1 context, at least 2 are needed to take a mean over")
    name = cell_name(config, folder, choice.heads)
    if not folder.has(name):
        return without(choice, "not measured yet; the same `hatlens probe` command measures it")
    stored = folder.read_arrays(name)
    if "refused" in stored:
        return without(choice, str(stored["refused"]))
    found = compared(evidence, stored)
    size = float(evidence.main.half_range[-1])
    return Found(
        result_of(found, choice, stored),
        {"cause": conditions_table(found, choice, stored, size)},
        f"Heads changed: {', '.join(choice.names)} ({choice.words}). {found.sentence}",
    )


def without(choice: HeadChoice, why: str) -> Found:
    """A finding without answers, and why."""
    heads = ", ".join(choice.names) or "none"
    label = f"{NOT_ASSESSABLE}: {why}"
    result = {"heads": choice.names, "named": choice.named, "own": choice.own, "label": label}
    return Found(result, {}, f"Whether heads ({heads}) cause the answers is {label}.")


def compared(evidence: Evidence, stored: Arrays) -> Cause:
    """The statement on stored answers, in codec coordinates."""
    answers = evidence.main.codec_y(stored["answers"])
    used = answers.shape[1]
    kinds, draws = stored["kinds"], stored["draws"]
    changed = {
        kind: Changed(
            answers[(kinds == kind) & (draws == measured.NAMED)][0],
            answers[(kinds == kind) & (draws != measured.NAMED)],
        )
        for kind in KIND_WORDS
    }
    return cause(
        answers[kinds == measured.BASE][0],
        changed,
        evidence.main.targets[:used],
        blocks=evidence.blocks[:used],
        unit=evidence.unit,
        printed_size=float(evidence.main.half_range[-1]),
        short=str(stored["short"]),
    )


def result_of(found: Cause, choice: HeadChoice, stored: Arrays) -> dict[str, Any]:
    """The `cause` object of the result; errors in codec units."""
    return {
        "heads": choice.names,
        "named": choice.named,
        "own": choice.own,
        "label": found.label,
        "error": found.error,
        "effects": [effect_of(one) for one in found.effects],
        "row": found.row,
        "contexts": stored["answers"].shape[1],
        "sets": found.sets,
        "short": str(stored["short"]),
        "seconds": float(stored["seconds"].sum()),
    }


def effect_of(one: Effect) -> dict[str, Any]:
    """One way of changing heads."""
    random = [each.estimate for each in one.random]
    return {
        **{key: value for key, value in one._asdict().items() if key != "random"},
        "random_mean": float(np.mean(random)) if random else None,
    }


def conditions_table(found: Cause, choice: HeadChoice, stored: Arrays, size: float) -> pd.DataFrame:
    """The change of the error under every condition, in printed units of y."""
    sets = [" ".join(choice.names), *stored["sets"].tolist()]
    lines = [
        condition_line(one, draw, heads, size)
        for one in found.effects
        for draw, heads in enumerate(sets)
    ]
    return pd.DataFrame(lines)


def condition_line(one: Effect, draw: int, heads: str, size: float) -> Mapping[str, Any]:
    """One condition; `draw` 0 is that of the named heads."""
    change = one.change if draw == 0 else one.random[draw - 1]
    share = one.as_much / len(one.random) if draw == 0 and one.random else np.nan
    return {
        "kind": one.kind,
        "draw": f"random {draw}" if draw else NAMED,
        "heads": heads,
        **tables.interval_columns("change", Interval(*(bound * size for bound in change))),
        "as_much": share,
    }


CAUSE = Stage("cause", "heads changed", cells, run, conclude, after)
