"""Data on which the question cannot be answered is described, and says why; it is never refused."""

import numpy as np
import pytest

from analysis.bank import hypothesis_named, rows
from analysis.centring import double_centred
from analysis.row_result import CANNOT_IDENTIFY, RowTest
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign, simulate_contexts


def described(
    design: SimulatedDesign, names: tuple[str, ...] = ("ols", "edit distance")
) -> RowTest:
    contexts = simulate_contexts(design, rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((design.contexts, design.queries, 2, design.examples))
    scores[:, :, 0] += 20 * double_centred(rows(hypothesis_named("ols"), contexts))
    return row_test(scores, contexts, rng=rng, resamples=50)


@pytest.mark.parametrize(
    ("design", "reason"),
    [
        (SimulatedDesign(contexts=3), "smallest p by sign flips is 1/8; needed at least 5"),
        (SimulatedDesign(contexts=1), "smallest p by sign flips is 1/2"),
        (SimulatedDesign(contexts=12, features=1), "needed at least 2 features"),
        (SimulatedDesign(contexts=12, features=3, examples=8), "needed at least 9 examples"),
        (SimulatedDesign(contexts=12, features=2, examples=1), "only the minimum-norm row exists"),
        (SimulatedDesign(contexts=12, features=3, examples=3), "only the minimum-norm row exists"),
        (SimulatedDesign(contexts=12, queries=1), "1 query a context"),
    ],
)
def test_what_cannot_be_assessed_is_described_and_never_refused(
    design: SimulatedDesign, reason: str
) -> None:
    found = described(design)
    assert reason in found.not_assessable
    assert found.status.shape == (2,)
    if design.queries > 1 and design.examples > 1:
        assert found.tested == 2
        assert [str(said) for said in found.says[:, 0]] == ["not assessable"] * 2
        assert found.chosen[0].says == "not assessable"
    else:
        assert found.blind == 2


def test_isotropic_examples_cannot_identify() -> None:
    found = described(SimulatedDesign(condition=1.0, contexts=40))
    assert found.not_assessable == ""
    assert not found.design.identifies
    assert found.design.attainable.high < 0.2
    assert found.says[0, 0] == CANNOT_IDENTIFY


def test_fewer_contexts_or_queries_are_a_preview() -> None:
    assert described(SimulatedDesign(contexts=16)).preview == (
        "16 independent contexts where a verdict needs 64"
    )
    assert "3 queries" in described(SimulatedDesign(contexts=8, queries=3)).preview
