"""What the examples of one prompt say about the metric Omega in q' Omega X' y (2504.09663)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.bank import BANK, hypothesis_named, predict, rows
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned


def about_the_mean(contexts: ContextArrays) -> tuple[Floats, Floats, Floats]:
    """x, y and queries of the first context about the means of its examples."""
    x, y, queries = contexts.x[0], contexts.y[0], contexts.queries[0]
    return x - x.mean(axis=0), y - y.mean(), queries - x.mean(axis=0)


def equations(x: Floats, z: Floats) -> Floats:
    """x_j' Omega z = y_j as linear equations in the entries of Omega, (N, P * P)."""
    return np.asarray(np.einsum("np,q->npq", x, z).reshape(len(x), -1))


def symmetric_basis(features: int) -> Floats:
    """A basis of the symmetric matrices, (P * P, P (P + 1) / 2)."""
    columns = []
    for i in range(features):
        for j in range(i + 1):
            one = np.zeros((features, features))
            one[i, j] = one[j, i] = 1.0
            columns.append(one.ravel())
    return np.array(columns).T


@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_least_squares_on_one_y_leaves_directions_of_omega_free(features: int) -> None:
    x, y, _ = about_the_mean(conditioned(features=features, examples=15))
    system = equations(x, x.T @ y)
    basis = symmetric_basis(features)
    free = features**2 - np.linalg.matrix_rank(system)
    symmetric = basis.shape[1] - np.linalg.matrix_rank(system @ basis)
    assert free == features * (features - 1)
    assert symmetric == features * (features - 1) // 2


@pytest.mark.parametrize("features", [2, 3, 4])
def test_ys_that_span_all_directions_leave_none_free(features: int) -> None:
    x, _, _ = about_the_mean(conditioned(features=features, examples=15))
    ys = np.random.default_rng(0).standard_normal((features, 15))
    system = np.concatenate([equations(x, x.T @ (y - y.mean())) for y in ys])
    assert np.linalg.matrix_rank(system) == features**2
    answers = np.concatenate([y - y.mean() for y in ys])
    omega = np.linalg.lstsq(system, answers, rcond=None)[0].reshape(features, features)
    assert_allclose(omega, np.linalg.inv(x.T @ x), rtol=1e-6)


def test_descent_on_omega_from_zero_reaches_rank_one_and_the_predictions() -> None:
    contexts = conditioned(features=3, condition=10.0)
    x, y, queries = about_the_mean(contexts)
    product, z = x.T @ x, x.T @ y
    step = 1.9 / (np.linalg.eigvalsh(product)[-1] * (z @ z))
    omega = np.zeros((3, 3))
    for _ in range(2000):
        omega -= step * np.outer(x.T @ (x @ omega @ z - y), z)
    assert_allclose(omega, np.outer(np.linalg.solve(product, z), z) / (z @ z), atol=1e-9)
    reached = contexts.y[0].mean() + queries @ omega @ z
    assert_allclose(reached, predict(BANK["ols"], contexts)[0], atol=1e-9)


@pytest.mark.parametrize("kept", [1, 2])
def test_truncating_the_inverse_keeps_what_pcr_drops(kept: int) -> None:
    """Eckart-Young on Sc^-1 keeps its largest values: the weakest directions of Sc."""
    contexts = conditioned(features=3, condition=1e3)
    x, _, queries = about_the_mean(contexts)
    left, values, right = np.linalg.svd(np.linalg.inv(x.T @ x))
    truncated = left[:, :kept] * values[:kept] @ right[:kept]
    strong = hypothesis_named(f"pcr({3 - kept})")
    left_over = rows(BANK["ols"], contexts)[0] - rows(strong, contexts)[0]
    assert_allclose(queries @ truncated @ x.T, left_over, atol=1e-7)
