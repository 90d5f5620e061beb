"""What each head writes about each example into the answers: weights times values, signed."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.design import Floats
from analysis.inference import Interval
from analysis.layer_readout import LEAST_UNITS, ridge_readout
from analysis.number_text import share_text
from hatlens import stored_rows
from hatlens.cells import TRAINED
from hatlens.config import StudyConfig
from hatlens.sets import MAIN, StudySets, load_set
from hatlens.stages.chosen_heads import used_contexts
from hatlens.stages.contribution_tables import concluded
from hatlens.stages.reading import mean_answers
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage, index_of
from hatlens.store import RunFolder
from probes.answer_step import answer_step
from probes.attention_routes import attention_routes
from probes.contribution import contributions, digit_direction
from probes.model_facts import the_module
from probes.residuals import residual_stream
from prompts.refusal import Refusal

READOUT, DIGITS = "ridge read-out", "digits of the unembedding"


def place(config: StudyConfig, contexts: int) -> str:
    """Where the cells lie: the read-out depends on the contexts and on how answers are read."""
    return f"contributions/{config.reading}-{min(config.cause_contexts, contexts)}"


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """The direction, then one cell a context; none where causes were not asked for."""
    if not config.cause:
        return []
    return cell_names(config, len(study.sets[MAIN].contexts))


def cell_names(config: StudyConfig, contexts: int) -> list[str]:
    """The direction's cell, then those of the contexts."""
    here, used = place(config, contexts), min(config.cause_contexts, contexts)
    return [f"{here}/direction", *(f"{here}/{index}" for index in range(used))]


def run(bench: Bench, name: str) -> Arrays:
    """The arrays of one cell; `refused` alone, a sentence, where the family cannot be read."""
    began = time.perf_counter()
    try:
        found = direction(bench) if name.endswith("/direction") else of_context(bench, name)
    except Refusal as refusal:
        found = {"refused": np.array(str(refusal))}
    return {**found, "seconds": np.array(time.perf_counter() - began)}


def direction(bench: Bench) -> Arrays:
    """The numeric direction of each context (context, dim), fitted to the others' answers.

    The ridge read-out of the stream's end; where it has too few contexts, or tells the answers no
    better than their mean does, the direction in which the digits' logits rise.
    """
    used = used_contexts(bench.config, bench.folder)
    steps = [answer_step(the_module(bench.loaded), one) for one in bench.tokens[MAIN][:used]]
    states = np.stack([residual_stream(step).states[:, -1].double().numpy() for step in steps])
    answers = own_answers(bench.config, bench.folder)[:used]
    blocks = bench.folder.manifest()["contexts"]["blocks"][:used]
    known = np.isfinite(answers).any(axis=1)
    if len(set(np.asarray(blocks)[known])) > LEAST_UNITS:
        rng = np.random.default_rng([bench.config.seed, 21])
        readout = ridge_readout(states[:, :, None], answers, rng=rng, blocks=blocks)
        along = np.stack([readout.direction(c) for c in range(used)])
        if readout.explained[0].estimate > 0 and np.isfinite(along).all():
            explained = np.array(readout.explained[0])
            return {"along": along, "kind": np.array(READOUT), "explained": explained}
    along = np.tile(digit_direction(bench.loaded, steps[0]), (used, 1))
    return {"along": along, "kind": np.array(DIGITS), "explained": np.full(3, np.nan)}


def own_answers(config: StudyConfig, folder: RunFolder) -> Floats:
    """The model's answers (C, M) in codec units: means where they were read, else as printed."""
    _, printed = stored_rows.answers(folder, TRAINED)
    means = mean_answers(config, folder)
    if means is not None:
        printed = np.where(np.isnan(means), printed, means)
    main = load_set(folder, MAIN)
    assert main is not None
    return main.codec_y(printed)


def of_context(bench: Bench, name: str) -> Arrays:
    """Contributions of one context, float32 (query, layer, head, part, example)."""
    given = bench.folder.read_arrays(f"{name.rpartition('/')[0]}/direction")
    if "refused" in given:
        return {"refused": given["refused"]}
    index = index_of(name)
    step = answer_step(the_module(bench.loaded), bench.tokens[MAIN][index])
    if "routes" not in bench.held:
        bench.held["routes"] = attention_routes(step)
    found = contributions(
        bench.loaded,
        bench.tokens[MAIN][index],
        given["along"][index],
        routes=bench.held["routes"],
        step=step,
    )
    return {"rows": found.rows.astype(np.float32), "whole": found.whole.astype(np.float32)}


def conclude(evidence: Evidence) -> Found | None:
    """The row test on the contributions, unchanged, and the heads beside rows of hypotheses."""
    if not evidence.config.cause:
        return None
    names = cell_names(evidence.config, len(evidence.arrays.x))
    if not all(evidence.folder.has(name) for name in names):
        return None
    given, *each = [evidence.folder.read_arrays(name) for name in names]
    seconds = float(sum(one["seconds"] for one in (given, *each)))
    facts: dict[str, Any] = {"contexts": len(each), "seconds": seconds}
    refused = next((str(one["refused"]) for one in (given, *each) if "refused" in one), "")
    if refused:
        words = f"What heads write into the answers was not measured: {refused}"
        return Found({**facts, "refused": refused}, {}, words)
    found = concluded(evidence, np.stack([one["rows"] for one in each]))
    facts |= {
        "refused": "",
        "direction": str(given["kind"]),
        "readout_explains": Interval(*given["explained"].tolist()),
    }
    return Found({**facts, **found.result}, found.tables, direction_words(facts) + found.sentence)


def direction_words(facts: Mapping[str, Any]) -> str:
    """Along what contributions are measured."""
    if facts["direction"] == DIGITS:
        return "Contributions are along the direction in which the digits' logits rise. "
    share = facts["readout_explains"].estimate
    return (
        "Contributions are along a ridge read-out of the end of the residual stream, which "
        f"explains {share_text(share)} of the answers of contexts that it was not fitted to. "
    )


CONTRIBUTIONS = Stage("contributions", "contributions of heads", cells, run, conclude)
