"""What holds for every claim that is judged on sets and queries."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from analysis.claims.attention_maps import MEASURES, attention_maps_finding
from analysis.claims.attention_outputs import attention_outputs_finding
from analysis.claims.beside_twins import BesideTwins
from analysis.claims.finding import Finding
from analysis.claims.output_change import Variation, output_change_finding
from analysis.claims.recovered_answers import Answers, recovered_answers_finding
from analysis.similarity.resampling import Resamples, paired
from tests.analysis.claims.planted import ABOVE, answers, likeness, resamples, variation

Judge = Callable[[tuple[Any, ...], Resamples], Finding]


def outputs(sides: tuple[Any, ...], rng: Resamples) -> Finding:
    return attention_outputs_finding(BesideTwins(paired(*sides, rng=rng), {"twin": ABOVE}))


def maps(sides: tuple[Any, ...], rng: Resamples) -> Finding:
    found = paired(*sides, rng=rng)
    return attention_maps_finding({key: BesideTwins(found, {"twin": ABOVE}) for key in MEASURES})


JUDGED: Mapping[str, tuple[tuple[Any, ...], Judge]] = MappingProxyType(
    {
        "C5": (likeness(0.2, 0.1), outputs),
        "C6": (likeness(0.2, 0.1), maps),
        "C7": (
            tuple(answers(2.0, queries=60)),
            lambda given, rng: recovered_answers_finding(Answers(*given), rng=rng),
        ),
        "C10": (
            tuple(variation(0.5)),
            lambda given, rng: output_change_finding(Variation(*given), rng=rng),
        ),
    }
)


@pytest.mark.parametrize("claim", JUDGED)
def test_the_order_of_sets_and_queries_does_not_matter(claim: str) -> None:
    given, judge = JUDGED[claim]
    drawn, rng = resamples(), np.random.default_rng(0)
    sets, queries = rng.permutation(5), rng.permutation(60)
    moved = tuple(one[sets][:, queries] for one in given)
    plain = judge(given, drawn)
    other = judge(moved, Resamples(drawn.sets[:, sets], drawn.queries[:, queries]))
    np.testing.assert_allclose(other.effect, plain.effect)
    assert (other.p, other.beats, other.reason) == (plain.p, plain.beats, "")


@pytest.mark.parametrize("claim", JUDGED)
def test_nothing_is_written_into_what_is_given(claim: str) -> None:
    given, judge = JUDGED[claim]
    before = [one.copy() for one in given]
    for one in given:
        one.setflags(write=False)
    judge(given, resamples())
    for one, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(one, old)


@pytest.mark.parametrize("claim", JUDGED)
def test_a_finding_is_whole(claim: str) -> None:
    """Effect inside its interval, p in (0, 1], a margin worth a claim, figures in words."""
    given, judge = JUDGED[claim]
    found = judge(given, resamples())
    assert found.effect.low <= found.effect.estimate <= found.effect.high
    assert 0 < found.p <= 1
    assert found.margin > 0
    assert found.figures
    assert not found.figures.endswith(".")
