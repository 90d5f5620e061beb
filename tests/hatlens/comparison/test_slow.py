"""A whole cell against plain loops: every measure under every comparison, every label's score.

Fused projections (GPT-2), grouped heads under rotation (Llama), and XGLM, all in float64, at both
recorded positions. What is stored of measures is float32.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from tests.hatlens.comparison.slow import (
    Measured,
    Plain,
    by_layer,
    delta_w,
    head_cosines,
    kendalls,
    plain_measures,
)
from tests.hatlens.comparison.slow_cell import LAYERS, PROMPTS, ByHand, float64, stored_cell

NAMES, POSITIONS = ("gpt2", "llama", "xglm"), ("answer", "label0")
QUERIES = range(len(PROMPTS.queries))
UPDATES = {MATCHED: "ft", "other demonstrations": "ft-other", "other task": "ft-task"}
RUNS = ("icl", "zsl", "ft", "ft-other", "ft-task", "irrelevant", "icl-wrong", "icl-order")
IN_ORDER = sorted(QUERIES, key=lambda query: len(PROMPTS.queries[query]))
"""Queries are run shortest first; each is held against the one before, the first against the last.
"""


@cache
def stored(name: str) -> Any:
    return stored_cell(name, position="both")


@cache
def by_hand(name: str) -> ByHand:
    rates = {run: float(stored(name)[f"fit/{run}/rate"]) for run in UPDATES.values()}
    with float64():
        return ByHand(name, rates)


@cache
def runs_of(name: str, position: str) -> list[dict[str, Plain]]:
    """Every run of every query, those with updates drawn at random too, in the order they came."""
    hand, rng = by_hand(name), np.random.default_rng((0,))
    with float64():
        every = [
            {
                run: hand.plain(run, query, label0=position == "label0")
                for run in (*RUNS, "zsl-matched")
            }
            for query in QUERIES
        ]
    for query in IN_ORDER:
        zsl, ft = every[query]["zsl"], every[query]["ft"]
        uniform = [rng.random(np.shape(part)) for part in (zsl.h, zsl.s)]
        every[query]["random-uniform"] = moved(zsl, *uniform)
        gaussian = []
        for before, after in ((zsl.h, ft.h), (zsl.s, ft.s)):
            drawn = rng.standard_normal(np.shape(before))
            sizes = np.sqrt(((np.array(after) - np.array(before)) ** 2).sum(-1, keepdims=True))
            gaussian.append(drawn / np.sqrt((drawn**2).sum(-1, keepdims=True)) * sizes)
        every[query]["random-gaussian"] = moved(zsl, *gaussian)
    for place, query in enumerate(IN_ORDER):
        other = every[IN_ORDER[place - 1]]
        change = np.array(other["ft"].h) - np.array(other["zsl"].h)
        lent = moved(every[query]["zsl"], change, np.zeros(np.shape(every[query]["zsl"].s)))
        every[query]["ft-next"] = lent._replace(p=other["ft"].p, q=other["ft"].q, x=other["ft"].x)
    return every


def moved(zsl: Plain, h: Any, s: Any) -> Plain:
    return zsl._replace(
        h=[a + b for a, b in zip(zsl.h, h, strict=True)],
        s=[a + b for a, b in zip(zsl.s, s, strict=True)],
    )


@cache
def wanted(name: str, position: str, query: int) -> dict[tuple[str, str], list[float]]:
    """By comparison and measure."""
    hand, runs = by_hand(name), runs_of(name, position)[query]
    context = hand.context_made
    found: dict[tuple[str, str], list[float]] = {}
    for condition, one in CONDITIONS.items():
        icl, zsl, ft = (runs[run] for run in (one.icl, one.zsl, one.ft))
        made: Measured = plain_measures(icl, zsl, ft, lacks=" ".join(one.lacks))
        if condition in (MATCHED, "other query"):
            made |= by_layer(LAYERS, lambda i: kendalls(icl, ft, hand.learnt, i))  # noqa: B023
        if condition in UPDATES:
            made |= by_layer(LAYERS, lambda i: delta_w(context[i], zsl, ft, i))  # noqa: B023
        found |= {(condition, key): values for key, values in made.items()}
    return found


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_measure_under_every_comparison(name: str, position: str) -> None:
    """To 1e-6. A measure or comparison without its slow twin is missing on one of the sides."""
    cell = stored(name)
    for query in QUERIES:
        by_slow = wanted(name, position, query)
        assert {key for condition, key in by_slow if condition == MATCHED} == set(DESCRIBED)
        assert {f"{position}/{a}/{b}" for a, b in by_slow} == {
            key for key in cell if key.startswith(f"{position}/")
        }
        for (condition, key), values in by_slow.items():
            np.testing.assert_allclose(
                cell[f"{position}/{condition}/{key}"][query],
                values,
                atol=1e-6,
                rtol=1e-6,
                err_msg=f"{condition}, {key}",
            )


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_labels(name: str) -> None:
    """Sums and means of whole labels, one of which has one token and two have three or two."""
    for run in (*RUNS, "zsl-matched"):
        for query in QUERIES:
            with float64():
                found = by_hand(name).label_logp(run, query)
            ours = stored(name)[f"labels/{run}"][query]
            np.testing.assert_allclose(ours, found, atol=2e-6, rtol=1e-6, err_msg=run)


@pytest.mark.parametrize("name", NAMES)
def test_heads_and_norms(name: str) -> None:
    """Sums over queries of each head's cosine of updates; norms are means over queries."""
    context, cell = by_hand(name).context_made, stored(name)
    every = runs_of(name, "label0")
    for condition, run in UPDATES.items():
        for i in range(LAYERS):
            cosines = [head_cosines(context[i], one["zsl"], one[run], i) for one in every]
            sums, counts = cell[f"heads/{condition}"][:, i]
            np.testing.assert_allclose(sums, np.sum(cosines, axis=0), atol=1e-6)
            assert (counts == len(every)).all()
        key = (condition, "update norm (FT)")
        norms = np.mean([wanted(name, "answer", query)[key] for query in QUERIES], axis=0)
        np.testing.assert_allclose(cell[f"fit/{run}/norms"], norms, rtol=1e-6)
