"""Ridge read-outs: against scikit-learn, without leaks, and through depth."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from analysis.bank import hypothesis_named, predict
from analysis.design import ContextArrays
from analysis.layer_readout import PENALTIES, best_penalty, ridge_readout, through_depth
from analysis.ridge import fit_ridge

C, M, L, SIZE = 20, 4, 3, 30


def drawn(seed: int) -> tuple[Any, Any]:
    """States whose middle layer holds the value along one direction, the last beside noise."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(C, M, L, SIZE))
    values = rng.normal(size=(C, M)) + 3
    along = rng.normal(size=SIZE)
    states[:, :, 1] = 0.01 * states[:, :, 1] + values[..., None] * along
    states[:, :, 2] += 0.5 * values[..., None] * along
    states[:, :, 0] = 5.0
    return states, values


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 99),
    count=st.integers(3, 40),
    size=st.integers(1, 40),
    penalty=st.sampled_from(PENALTIES),
)
def test_ridge_is_scikit_learn_s(seed: int, count: int, size: int, penalty: float) -> None:
    """On columns of unit sd, its alpha is the penalty times the mean eigenvalue over n."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, size)) * rng.uniform(0.1, 50, size=size) + 7
    values, new = rng.normal(size=count), rng.normal(size=(5, size))
    scaler = StandardScaler().fit(x)
    scaled = scaler.transform(x)
    alpha = penalty * np.trace(scaled.T @ scaled) / count
    expected = Ridge(alpha=alpha).fit(scaled, values).predict(scaler.transform(new))
    fit = fit_ridge(x, values)
    tolerance = 1e-6 * np.abs(expected).max()
    found = fit.predict(new, np.array([penalty]))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=tolerance)
    coefficient, intercept = fit.line(penalty)
    np.testing.assert_allclose(new @ coefficient + intercept, expected, rtol=1e-5, atol=tolerance)


def test_constant_columns_get_no_weight() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 3))
    x[:, 1] = 1e4 + 1e-5 * rng.normal(size=9)
    coefficient, _ = fit_ridge(x, rng.normal(size=9)).line(0.1)
    assert coefficient[1] == 0
    assert (coefficient[[0, 2]] != 0).all()
    coefficient, intercept = fit_ridge(np.ones((4, 2)), np.array([1.0, 2, 3, 6])).line(0.1)
    assert coefficient.tolist() == [0, 0]
    assert intercept == 3


def test_the_penalty_is_that_of_scikit_learn_over_the_same_folds() -> None:
    """Each candidate fitted anew for every fold; of equals (a constant state) the largest."""
    states, values = drawn(1)
    groups = np.arange(C) % 4
    for layer in (1, 2):
        x, errors = states[:, :, layer], []
        for penalty in PENALTIES:
            missed = 0.0
            for group in range(4):
                inside = groups == group
                scaler = StandardScaler().fit(x[~inside].reshape(-1, SIZE))
                train = scaler.transform(x[~inside].reshape(-1, SIZE))
                alpha = penalty * np.trace(train.T @ train) / len(train)
                model = Ridge(alpha=alpha).fit(train, values[~inside].ravel())
                held = scaler.transform(x[inside].reshape(-1, SIZE))
                missed += ((model.predict(held) - values[inside].ravel()) ** 2).sum()
            errors.append(missed)
        assert best_penalty(x, values, groups, PENALTIES) == PENALTIES[int(np.argmin(errors))]
    assert best_penalty(states[:, :, 0], values, groups, PENALTIES) == PENALTIES[-1]


def test_a_layer_that_holds_the_value_is_found() -> None:
    states, values = drawn(3)
    found = ridge_readout(states, values, rng=np.random.default_rng(0))
    # A constant state can only give the mean of the other folds.
    assert found.explained[0].estimate == pytest.approx(0)
    assert found.explained[1].low > 0.99
    assert found.explained[0].high < found.explained[2].estimate < found.explained[1].low
    np.testing.assert_allclose(found.predictions[1], values, atol=0.1)
    for c in (0, 7):
        line = found.direction(c, 1)
        expected = states[c, :, 1] @ line + found.intercept[found.fold[c], 1]
        np.testing.assert_allclose(found.predictions[1, c], expected)


def test_a_context_is_never_in_its_own_fit() -> None:
    """Another value there leaves the predictions of its fold as they are, and moves the others."""
    states, values = drawn(4)
    plain = ridge_readout(states, values, rng=np.random.default_rng(0))
    others_moved = 0
    for c in range(0, C, 5):
        changed = values.copy()
        changed[c] += 100
        found = ridge_readout(states, changed, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(found.fold, plain.fold)
        same_fold = plain.fold == plain.fold[c]
        np.testing.assert_array_equal(
            found.predictions[:, same_fold], plain.predictions[:, same_fold]
        )
        others_moved += not np.allclose(
            found.predictions[:, ~same_fold], plain.predictions[:, ~same_fold]
        )
    assert others_moved == 4


def test_values_of_other_contexts_cannot_be_read() -> None:
    """A ridge fit that saw its own contexts explains a third of 80 shuffled values by 30 columns.

    Held out it explains nothing, up to chance.
    """
    rng = np.random.default_rng(5)
    held_out, seen = [], []
    states, values = drawn(6)
    for _ in range(8):
        shuffled = values[rng.permutation(C)][:, rng.permutation(M)]
        found = ridge_readout(states[:, :, 2:], shuffled, rng=rng)
        held_out.append(found.explained[0].estimate)
        x, y = states[:, :, 2].reshape(-1, SIZE), shuffled.ravel()
        own = fit_ridge(x, y).predict(x, np.array([0.1]))[0]
        seen.append(1 - ((own - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert np.mean(seen) > 0.3
    assert np.mean(held_out) < 0.1


def test_blocks_stay_together_and_missing_values_are_left_out() -> None:
    states, values = drawn(7)
    blocks = [c // 2 for c in range(C)]
    values[3, 1], values[4] = np.nan, np.nan
    found = ridge_readout(states, values, rng=np.random.default_rng(0), blocks=blocks)
    assert (found.fold[::2] == found.fold[1::2]).all()
    assert (found.units, found.unread) == (10, 5)
    assert np.isfinite(found.predictions).all()
    assert found.explained[1].low > 0.99


def test_too_few_contexts_and_unlike_shapes_are_refused() -> None:
    states, values = drawn(8)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="at least 3 contexts with a value; came 2"):
        ridge_readout(states[:2], values[:2], rng=rng)
    with pytest.raises(ValueError, match=r"values of the shape \(20, 3\); came"):
        ridge_readout(states, values[:, :3], rng=rng)
    with pytest.raises(ValueError, match="blocks needed one entry for each of 20; came 1"):
        ridge_readout(states, values, rng=rng, blocks=[0])
    with pytest.raises(ValueError, match="states needed finite numbers"):
        ridge_readout(states * np.nan, values, rng=rng)
    few = ridge_readout(states[:3], values[:3], rng=rng)
    assert np.isfinite(few.predictions).all()


def contexts() -> ContextArrays:
    rng = np.random.default_rng(9)
    x, queries = rng.normal(size=(C, 10, 2)), rng.normal(size=(C, M, 2))
    y = x @ [1.0, -0.5] + 0.3 * rng.normal(size=(C, 10))
    text = [np.full(part.shape, "1.0") for part in (x, queries)]
    return ContextArrays(x, y, queries, text[0], text[1], np.full((C, M), np.nan))


def test_agreement_is_followed_through_depth() -> None:
    """Layer 0 holds the least-squares answer, layer 1 that of the nearest example."""
    arrays = contexts()
    known = [hypothesis_named(name) for name in ("ols", "nearest(1)", "uniform")]
    answers = [predict(one, arrays) for one in known[:2]]
    rng = np.random.default_rng(10)
    states = np.stack([rng.normal(size=(C, M, 6)) * 1e-4 + one[..., None] for one in answers], 2)
    found = [ridge_readout(states, one, rng=rng) for one in answers]
    depth = [through_depth(one, arrays, answers[0], known) for one in found]
    assert depth[0][0][0].hypothesis == "ols"
    assert depth[1][1][0].hypothesis == "nearest(1)"
    assert depth[0][0][0].spd.estimate < 1e-3 < depth[0][1][0].spd.estimate
