"""Whether heads cause the answers: changed at the answer position, beside random heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.cause import KIND_WORDS, NOT_ASSESSABLE, Cause, Changed, Effect, cause
from analysis.inference import Interval
from hatlens import tables
from hatlens.config import StudyConfig
from hatlens.sets import StudySets
from hatlens.stages.cause_answers import (
    ANSWERS,
    cell_name,
    concluded_heads,
    restored,
    run_answers,
)
from hatlens.stages.cause_rows import names_of, run_rows, stored_rows
from hatlens.stages.chosen_heads import HeadChoice, chosen_heads, used_contexts
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from probes.cause import BASE, Caused
from prompts.refusal import Refusal

LEAST_CONTEXTS = 2
NAMED = "named"
SHOWN_NAMES = 8


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """None before anything is concluded."""
    return []


def after(config: StudyConfig, folder: RunFolder) -> list[str]:
    """The answers of all contexts, and the rows of those whose behavioural row was measured."""
    heads = concluded_heads(config, folder) if config.cause else ()
    if not heads or used_contexts(config, folder) < LEAST_CONTEXTS:
        return []
    answers = cell_name(config, folder, heads)
    return [answers, *names_of(config, folder, answers)]


def run(bench: Bench, name: str) -> Arrays:
    """The arrays of one cell; `refused` alone, a sentence, where heads cannot be changed."""
    try:
        if name.endswith(f"/{ANSWERS}"):
            return run_answers(bench)
        answers = bench.folder.read_arrays(f"{name.partition('/row/')[0]}/{ANSWERS}")
        return answers if "refused" in answers else run_rows(bench, name, answers)
    except Refusal as refusal:
        return {"refused": np.array(str(refusal))}


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
    caused = restored(stored, head_grid(folder))
    found = compared(evidence, caused, name)
    size = float(evidence.main.half_range[-1])
    return Found(
        result_of(found, choice, caused),
        {"cause": conditions_table(found, caused, size)},
        f"Heads changed: {short_list(choice.names)} ({choice.words}). {found.sentence}",
    )


def without(choice: HeadChoice, why: str) -> Found:
    """A finding without answers, and why."""
    heads = short_list(choice.names) or "none"
    label = f"{NOT_ASSESSABLE}: {why}"
    result = {"heads": choice.names, "named": choice.named, "own": choice.own, "label": label}
    return Found(result, {}, f"Whether heads ({heads}) cause the answers is {label}.")


def short_list(names: Sequence[str]) -> str:
    """The names, of many the first."""
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def compared(evidence: Evidence, caused: Caused, name: str) -> Cause:
    """The statement on stored answers, in codec coordinates."""
    used = caused.answers.shape[1]
    in_codec = evidence.main.codec_y
    changed = {
        kind: Changed(in_codec(caused.of(kind)), in_codec(caused.of_random(kind)))
        for kind in KIND_WORDS
    }
    return cause(
        in_codec(caused.of(BASE)),
        changed,
        evidence.main.targets[:used],
        blocks=evidence.blocks[:used],
        unit=evidence.unit,
        printed_size=float(evidence.main.half_range[-1]),
        rows=stored_rows(evidence, name),
        row_name=evidence.test.hypotheses[0],
        short=caused.short,
    )


def result_of(found: Cause, choice: HeadChoice, caused: Caused) -> dict[str, Any]:
    """The `cause` object of the result; errors in codec units."""
    return {
        "heads": choice.names,
        "named": choice.named,
        "own": choice.own,
        "label": found.label,
        "error": found.error,
        "effects": [effect_of(one) for one in found.effects],
        "row": found.row,
        "contexts": caused.answers.shape[1],
        "sets": found.sets,
        "short": caused.short,
        "seconds": sum(caused.seconds.values()),
    }


def effect_of(one: Effect) -> dict[str, Any]:
    """One way of changing heads."""
    random = [each.estimate for each in one.random]
    return {
        **{key: value for key, value in one._asdict().items() if key != "random"},
        "random_mean": float(np.mean(random)) if random else None,
    }


def conditions_table(found: Cause, caused: Caused, size: float) -> pd.DataFrame:
    """The change of the error under every condition, in printed units of y."""
    sets = [" ".join(map(str, heads)) for heads in (caused.named, *caused.sets)]
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
