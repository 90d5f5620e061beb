"""Simulated contexts, and the rates of the row test on simulated heads."""

import numpy as np
import pytest

from analysis.bank import hypothesis_named
from analysis.planted import HEADS, INVERSE, RIVALS, Scene, unit_rows
from analysis.simulate import (
    PRINTED_HALF,
    PRINTED_MIDDLE,
    SimulatedDesign,
    simulate_contexts,
    simulate_pairs,
    simulate_replicate,
)
from analysis.validate import (
    FULL,
    STANDING,
    Setting,
    is_rival,
    noisy_scores,
    simulate_run,
    standing_heads,
    validate,
)


def test_numbers_are_what_is_printed() -> None:
    contexts = simulate_contexts(SimulatedDesign(contexts=9), rng=np.random.default_rng(0))
    for values, texts in ((contexts.x, contexts.x_text), (contexts.queries, contexts.query_text)):
        printed = values * PRINTED_HALF + PRINTED_MIDDLE
        np.testing.assert_allclose(texts.astype(float), printed, atol=1e-9)
        assert set(np.char.str_len(texts).ravel()) == {4}
    assert np.abs(contexts.x).max() <= 1
    assert np.abs(contexts.y).max() <= 1


def test_x_and_y_have_the_spread_that_was_asked_for() -> None:
    """In units of sd: variances 1 and 1/100 along the axes, y of sd 1, b within .5."""
    design = SimulatedDesign(contexts=400, noise=0.5)
    contexts = simulate_contexts(design, rng=np.random.default_rng(1))
    x = contexts.x - contexts.x.mean(axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(x.swapaxes(1, 2) @ x).mean(axis=0) / 19 * 3.5**2
    # the sample's own axes take a little from the population's: within a tenth
    np.testing.assert_allclose(eigenvalues, [0.01, 1.0], rtol=0.1)
    within = contexts.y.var(axis=1, ddof=1).mean() * 3.5**2
    np.testing.assert_allclose(within, 1.0, rtol=0.1)
    middle = (contexts.y.mean(axis=1) * 3.5).var()
    np.testing.assert_allclose(middle, 1 / 12 + 1 / 20, rtol=0.25)  # of b, and of the mean of y


def test_the_same_seed_draws_the_same_contexts() -> None:
    one, two = (
        simulate_contexts(SimulatedDesign(contexts=3), rng=np.random.default_rng(5))
        for _ in range(2)
    )
    for part, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(part, other)


def test_a_replicate_has_the_same_x_in_another_order_and_fresh_y() -> None:
    design = SimulatedDesign(contexts=5)
    contexts = simulate_contexts(design, rng=np.random.default_rng(0))
    again, order = simulate_replicate(contexts, design, rng=np.random.default_rng(1))
    for c in range(5):
        assert sorted(order[c]) == list(range(20))
        np.testing.assert_array_equal(again.x[c], contexts.x[c, order[c]])
        np.testing.assert_array_equal(again.x_text[c], contexts.x_text[c, order[c]])
    np.testing.assert_array_equal(again.queries, contexts.queries)
    assert not np.allclose(np.sort(again.y, axis=1), np.sort(contexts.y, axis=1))


def test_fillers_answer_to_the_same_weights_and_noise() -> None:
    """y = w'x + b + noise: where only the last feature of an example changes, y changes by w_last
    times that, so that all fillers of a context give the same w_last."""
    first, second = simulate_pairs(
        SimulatedDesign(condition=1.0), pairs=6, rng=np.random.default_rng(2)
    )
    moved = second.x[:, 10:, 1] - first.x[:, 10:, 1]
    changed = second.y[:, 10:] - first.y[:, 10:]
    for c in range(6):
        clear = np.abs(moved[c]) > 0.1
        slopes = changed[c][clear] / moved[c][clear]
        assert slopes.std() < 0.06  # rounding to .002 on .1


@pytest.fixture(scope="module")
def scene() -> Scene:
    contexts = simulate_contexts(SimulatedDesign(contexts=12), rng=np.random.default_rng(0))
    return Scene(contexts, rng=np.random.default_rng(1))


def test_every_head_is_named_once() -> None:
    names = [head.name for head in HEADS]
    assert len(names) == len(set(names))
    assert len(RIVALS) >= 100
    assert INVERSE[0].name == "ols"


@pytest.mark.parametrize("head", HEADS, ids=[head.name for head in HEADS])
def test_every_head_sees_the_query_and_is_finite(head: object, scene: Scene) -> None:
    row = unit_rows(head, scene)  # type: ignore[arg-type]
    assert row.shape == scene.shape
    assert np.isfinite(row).all()
    np.testing.assert_allclose((row**2).mean(), 1.0)


def test_banked_heads_are_hypotheses_of_the_bank() -> None:
    for head in HEADS:
        if head.banked:
            assert hypothesis_named(head.banked).name


def test_noise_is_shared_by_the_queries_as_asked(scene: Scene) -> None:
    """Two queries' noise correlates .8; 240 places of each of two rows."""
    heads = [INVERSE[0]] * 2
    for shared in (0.0, 0.8):
        setting = Setting(1.0, contexts=12, rows=2, shared=shared)
        scores = noisy_scores(heads, scene, setting, np.random.default_rng(0))
        noise = scores - unit_rows(INVERSE[0], scene)[:, :, None]
        flat = noise.transpose(1, 0, 2, 3).reshape(8, -1)
        off = np.asarray(np.corrcoef(flat))[np.triu_indices(8, k=1)].mean()
        np.testing.assert_allclose(off, shared, atol=0.06)
        np.testing.assert_allclose(noise.std(), 1.0, atol=0.05)


def test_the_rows_of_a_run_hold_every_inverse_head_once_and_rivals() -> None:
    heads = standing_heads(150, np.random.default_rng(0))
    assert len(heads) == 150
    assert heads[: len(INVERSE)] == list(INVERSE)
    assert len({head.name for head in heads}) == 150
    many = standing_heads(1080, np.random.default_rng(0))
    assert len(many) == 1080
    assert {head.name for head in many} == {head.name for head in HEADS}


def test_grids() -> None:
    assert (Setting(1.0), Setting(0.3)) == STANDING
    assert len(FULL) == 16
    assert {setting.contexts for setting in FULL} == {64, 256}


@pytest.fixture(scope="module")
def found() -> object:
    return validate(runs=8, seed=7, processes=1)


def test_rivals_are_not_named_and_least_squares_is(found: object) -> None:
    """The bar is 4 of 200 runs with a false "contains" and 188 of 200 found; eight runs of a test
    at that bar would mostly have none (.98^8 = .85) and all found. One of each is let pass."""
    for setting in found.settings:  # type: ignore[attr-defined]
        assert setting.false_contains <= 1, setting.false_kinds
        assert setting.ols_found >= 7
        assert setting.rejection["gd(4)"] == 0.0
    assert found.power["ols"].low > 0.5  # type: ignore[attr-defined]


def test_a_run_depends_on_its_seed_only() -> None:
    setting = Setting(1.0, contexts=16, rows=30)
    one, two = (simulate_run(setting, np.random.default_rng([3, 0, 1])) for _ in range(2))
    assert one == two
    assert set(one.named) <= set(one.stood)
    assert set(one.false) <= set(one.named)


@pytest.mark.parametrize(
    ("name", "rival"),
    [("centred dot", True), ("L1 row norm", True), ("pcr(1)", True), ("ols", False)]
    + [("ridge(0.1)", False), ("ridge(0.01)", False), ("momentum(0.8)", True)],
)
def test_what_is_an_error_to_name(name: str, rival: bool, scene: Scene) -> None:
    """A head of the bank by its own row's index: ridge(0.1) lies between .1 and .5 and is neither
    right nor wrong; every other head is a rival."""
    head = next(head for head in HEADS if head.name == name)
    assert is_rival(head, scene.contexts) is rival


def test_processes_change_nothing() -> None:
    settings = (Setting(0.3, contexts=12, rows=20),)
    alone, two = (validate(settings, runs=6, seed=1, processes=count) for count in (1, 2))
    assert alone == two


def test_no_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 run; came 0"):
        validate(runs=0)
