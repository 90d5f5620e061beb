"""The behavioural row of the main contexts, in two sizes and two orders, and of every control."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.assessable import not_assessable
from analysis.behavioural_row import BehaviouralRow, behavioural_row
from analysis.design import ContextArrays, Floats
from analysis.row_runs import RowRuns, row_test_scores, rows_of_changes
from analysis.row_test import RowTest, row_test
from hatlens.config import StudyConfig
from hatlens.sets import CONTROL_SETS, MAIN, StudySets, load_set
from hatlens.stages import behavioural_row_tables as made
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage, index_of
from hatlens.store import RunFolder
from probes import behavioural_row as probe
from probes.overhead import plain_forward
from prompts.contexts import ContextSet

SHARES = (0.05, 0.10)
"""By how much a y is moved to either side, as shares of its half range."""


class Measured(NamedTuple):
    """The stored rows of one set of contexts, with those contexts.

    `sizes` (D,) as printed; `seconds` (C, D, O, 2): forwards and readings; `plain` (C,): one plain
    forward of the prompt; `shifted` (C, D, O, N); `unexplored`: the largest mass left out.
    """

    runs: RowRuns
    contexts: ContextArrays
    sizes: Floats
    seconds: Floats
    plain: Floats
    shifted: NDArray[np.bool_]
    unexplored: float


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """One a context and set; none where the setting is 0."""
    main = study.sets[MAIN].contexts
    queries = len(main[0].queries)
    sets = [MAIN, *(name for name in CONTROL_SETS if name in study.sets)]
    return [one for name in sets for one in names_of(config, name, len(main), queries)]


def names_of(config: StudyConfig, name: str, contexts: int, queries: int) -> list[str]:
    """The cells of one set that has so many contexts and queries."""
    asked = min(config.behavioural_queries, queries)
    return [
        f"behavioural_row/{name}/{asked}-queries/{index}"
        for index in range(min(config.behavioural_row, contexts))
    ]


def run(bench: Bench, name: str) -> Arrays:
    """Mean answers with each y moved, for every size and order.

    plus, minus (size, order, example, query), base (order, query), printed units; sizes, orders
    (order, example); seconds (size, order, 2), plain_seconds, shifted (size, order, example),
    unexplored (size, order). A control is run with the larger size, in its own order.
    """
    _, of_set, asked, _ = name.split("/")
    index, queries = index_of(name), int(asked.partition("-")[0])
    drawn = with_first_queries(bench.study.sets[of_set], queries)
    sizes, orders = sizes_of(drawn), orders_of(bench.config, index, len(drawn.contexts[0].y))
    if of_set != MAIN:
        sizes, orders = sizes[-1:], orders[:1]
    runs = [[moved(bench, of_set, drawn, index, d, order) for order in orders] for d in sizes]
    return {
        "plus": each(runs, "plus"),
        "minus": each(runs, "minus"),
        "base": each(runs, "base")[0],
        "sizes": np.array(sizes),
        "orders": np.stack(orders),
        "seconds": np.array([[list(one.seconds.values()) for one in row] for row in runs]),
        "plain_seconds": np.array(plain_seconds(bench, of_set, index)),
        "shifted": each(runs, "shifted"),
        "unexplored": each(runs, "unexplored"),
    }


def moved(
    bench: Bench,
    of_set: str,
    drawn: ContextSet,
    index: int,
    size: float,
    order: NDArray[np.int64],
) -> probe.Perturbed:
    """One run of a context: one size, one order."""
    return probe.behavioural_row(
        bench.loaded, drawn, index, bench.asking(of_set), size=size, order=order
    )


def each(runs: Sequence[Sequence[probe.Perturbed]], field: str) -> NDArray[Any]:
    """One field of every run, (size, order, ...)."""
    return np.array([[getattr(one, field) for one in row] for row in runs])


def with_first_queries(contexts: ContextSet, queries: int) -> ContextSet:
    """The same contexts asked at their first queries only."""
    cut = (
        replace(one, queries=one.queries[:queries], targets=one.targets[:queries])
        for one in contexts.contexts
    )
    return replace(contexts, contexts=tuple(cut))


def sizes_of(contexts: ContextSet) -> list[float]:
    """Two sizes on the printed grid, about `SHARES` of the half range of y, at least one step."""
    step = 10.0**-contexts.codec.decimals
    steps = [round(share * float(contexts.half_range[-1]) / step) for share in SHARES]
    first = max(steps[0], 1)
    second = max(steps[1], first + 1)
    return [float(contexts.codec.round(count * step)) for count in (first, second)]


def orders_of(config: StudyConfig, index: int, examples: int) -> list[NDArray[np.int64]]:
    """The main order, and one that is drawn for each context from the study's seed."""
    rng = np.random.default_rng([config.seed, 11, index])
    return [np.arange(examples), rng.permutation(examples)]


def plain_seconds(bench: Bench, of_set: str, index: int) -> float:
    """One plain forward of the prompt with one query, run twice and the second timed.

    NaN where the family cannot give the logits of a few places alone.
    """
    tokens = bench.tokens[of_set][index]
    one = replace(tokens, suffixes=tokens.suffixes[:1])
    try:
        plain_forward(bench.loaded, one)
        began = time.perf_counter()
        plain_forward(bench.loaded, one)
    except TypeError:
        return float("nan")
    return time.perf_counter() - began


def measured(config: StudyConfig, folder: RunFolder, name: str = MAIN) -> Measured | None:
    """The stored rows of a set; None where it was not asked for or is not all there."""
    stored = load_set(folder, name)
    if stored is None:
        return None
    names = names_of(config, name, *stored.queries.shape[:2])
    if not names or not all(folder.has(one) for one in names):
        return None
    every = [folder.read_arrays(one) for one in names]
    found = {key: np.stack([one[key] for one in every]) for key in every[0]}
    sizes = found["sizes"][0]
    count, queries = len(every), found["base"].shape[-1]
    part = stored._replace(
        x=stored.x[:count],
        y=stored.y[:count],
        queries=stored.queries[:count, :queries],
        x_text=stored.x_text[:count],
        query_text=stored.query_text[:count, :queries],
    )
    values = np.stack(
        [
            np.moveaxis(rows_of_changes(found["plus"][:, d], found["minus"][:, d], size), 0, 1)
            for d, size in enumerate(sizes)
        ]
    )
    return Measured(
        runs=RowRuns(values, sizes / stored.half_range[-1], np.moveaxis(found["orders"], 0, 1)),
        contexts=part.arrays(found["base"][:, 0]),
        sizes=sizes,
        seconds=found["seconds"],
        plain=found["plain_seconds"],
        shifted=found["shifted"],
        unexplored=float(found["unexplored"].max()),
    )


def conclude(evidence: Evidence) -> Found | None:
    """Whose row it is, what the row test says of it, what it cost, and the same on controls."""
    main = measured(evidence.config, evidence.folder)
    if main is None:
        return None
    found = judged(evidence, main)
    tested = tested_row(evidence, main)
    controls = {}
    for name in CONTROL_SETS if evidence.config.controls else ():
        one = measured(evidence.config, evidence.folder, name)
        if one is not None:
            controls[name] = (one, judged(evidence, one))
    result = {
        **made.statement(found),
        "contexts": len(main.contexts.x),
        "queries": main.contexts.queries.shape[1],
        "sizes": main.sizes,
        "orders": len(main.runs.orders),
        "shifted": float(main.shifted.mean()),
        "unexplored": main.unexplored,
        "row_test": made.row_test_entry(tested),
        "cost": made.cost(main.seconds, main.plain, main.sizes),
        "controls": [
            {"kind": name, "expected": made.EXPECTED[name], **made.statement(says)}
            for name, (_, says) in controls.items()
        ],
    }
    tables = {
        "behavioural_row": made.agreement_table(
            {MAIN: found, **{name: says for name, (_, says) in controls.items()}}
        ),
        "behavioural_cells": made.cells_table(main.runs, main.contexts),
    }
    return Found(result, tables, made.sentence(result, found.sentence))


def judged(evidence: Evidence, one: Measured) -> BehaviouralRow:
    """The statement on one set's rows."""
    return behavioural_row(
        one.runs,
        one.contexts,
        evidence.hypotheses,
        blocks=evidence.blocks[: len(one.contexts.x)],
        unit=evidence.unit,
    )


def tested_row(evidence: Evidence, one: Measured) -> RowTest | str:
    """The row test of attention, on the mean behavioural row; or why it is not assessable."""
    tested = [h for h in evidence.hypotheses if h.name in evidence.test.hypotheses]
    blocks = np.asarray(evidence.blocks[: len(one.contexts.x)])
    _, examples, features = one.contexts.x.shape
    units, queries = len(np.unique(blocks)), one.contexts.queries.shape[1]
    if why := not_assessable(units, queries, examples, features):
        return why
    return row_test(
        row_test_scores(one.runs),
        one.contexts,
        tested,
        rng=np.random.default_rng([evidence.config.seed, 12]),
        flips=evidence.config.flips,
        blocks=np.unique(blocks, return_inverse=True)[1],
    )


BEHAVIOURAL_ROW = Stage("behavioural_row", "behavioural rows", cells, run, conclude)
