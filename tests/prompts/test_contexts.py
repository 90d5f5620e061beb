from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prompts.contexts import ContextSet, draw_contexts, draw_pairs, draw_sets, replicate
from prompts.design import Design
from prompts.functions import FUNCTIONS
from prompts.numerals import CODECS
from prompts.refusal import Refusal

DECIMAL, UNSIGNED = CODECS["decimal"], CODECS["unsigned-decimal"]


def drawn(codec: Any = UNSIGNED, *, seed: int = 0, **knobs: Any) -> ContextSet:
    return draw_contexts(Design(**knobs), codec, rng=np.random.default_rng(seed))


def z(contexts: ContextSet, name: str) -> np.ndarray[Any, Any]:
    """One array of all contexts in codec coordinates."""
    column = slice(None, -1) if name in ("x", "queries") else -1
    printed = np.array([getattr(context, name) for context in contexts.contexts])
    return np.asarray((printed - contexts.middle[column]) / contexts.half_range[column])


@pytest.mark.parametrize("codec", [DECIMAL, UNSIGNED, CODECS["unsigned-integer"]])
def test_shapes_and_the_printed_grid(codec: Any) -> None:
    contexts = drawn(codec, contexts=3)
    for context in contexts.contexts:
        assert [a.shape for a in (context.x, context.y)] == [(20, 2), (20,)]
        assert [a.shape for a in (context.queries, context.targets)] == [(8, 2), (8,)]
        for array in (context.x, context.y, context.queries, context.targets):
            assert array.dtype == np.float64
            assert_array_equal(array, codec.round(array))
            assert (array >= codec.low).all()
            assert (array <= codec.high).all()


def test_codec_coordinates_do_not_depend_on_the_codec() -> None:
    plain, affine = drawn(DECIMAL, contexts=2), drawn(UNSIGNED, contexts=2)
    # One printed step is .01 of 3.5, or 7 / 9.99 of .01: both roundings together stay below .003.
    assert_allclose(z(plain, "x"), z(affine, "x"), atol=0.003)
    assert_array_equal(plain.middle, [0, 0, 0])
    assert_allclose(affine.middle, [4.995] * 3)
    assert np.abs(z(affine, "y")).max() <= 1


def test_population_moments() -> None:
    contexts = drawn(DECIMAL, contexts=400, condition=100.0, noise=1.0)
    y = np.array([context.y for context in contexts.contexts])
    # sd(y) is 1 about an offset of variance 1/12; 8,000 draws, each context sharing its w and b.
    assert_allclose(y.std(axis=1).mean(), 1, atol=0.04)
    x = np.array([context.x for context in contexts.contexts])
    spectra = np.linalg.eigvalsh(np.einsum("cni,cnj->cij", x, x) / 20).mean(axis=0)
    assert_allclose(spectra, [0.01, 1], rtol=0.1)
    for context in contexts.contexts[:5]:
        assert context.root is not None
        assert_allclose(np.linalg.eigvalsh(context.root @ context.root.T), [0.01, 1], rtol=1e-9)


def test_rotations_are_uniform() -> None:
    roots = [context.root for context in drawn(DECIMAL, contexts=600).contexts]
    strongest = np.array([np.linalg.svd(root)[0][:, 0] for root in roots if root is not None])
    angle = np.arctan2(strongest[:, 1], strongest[:, 0])
    # The doubled angle of a uniform direction has mean cosine and sine 0, sd .71 / sqrt(600) = .03.
    assert_allclose([np.cos(2 * angle).mean(), np.sin(2 * angle).mean()], [0, 0], atol=0.1)


def test_without_noise_a_linear_y_is_linear_in_x_as_printed() -> None:
    contexts = drawn(CODECS["decimal"], contexts=5, noise=0.0)
    for context in contexts.contexts:
        points = np.column_stack([np.ones(20), context.x])
        fit = np.linalg.lstsq(points, context.y, rcond=None)[0]
        # What is left is the rounding of y: at most .005 each.
        assert np.abs(points @ fit - context.y).max() < 0.0075
        assert (
            np.abs(np.column_stack([np.ones(8), context.queries]) @ fit - context.targets).max()
            < 0.02
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_sd_one_and_its_own_context(name: str) -> None:
    contexts = drawn(DECIMAL, contexts=60, function=name, noise=0.0, queries=20)
    targets = np.array([context.targets for context in contexts.contexts])
    assert 0.7 < targets.std(axis=1).mean() < 1.1
    assert len({tuple(context.targets) for context in contexts.contexts}) == 60


def test_outliers_reach_examples_and_never_targets() -> None:
    plain = drawn(DECIMAL, contexts=40, noise=0.0)
    wild = drawn(DECIMAL, contexts=40, noise=0.0, function="linear-outliers")
    for contexts, many in ((plain, False), (wild, True)):
        off = on_target = 0
        for context in contexts.contexts:
            points = np.column_stack([np.ones(28), np.concatenate([context.x, context.queries])])
            y = np.concatenate([context.y, context.targets])
            fit = np.linalg.lstsq(points[20:], y[20:], rcond=None)[0]
            far = np.abs(points @ fit - y) > 1
            off, on_target = off + far[:20].sum(), on_target + far[20:].sum()
        assert (off > 20) == many
        assert on_target == 0


def test_a_context_does_not_depend_on_how_many_are_drawn() -> None:
    few, many = drawn(contexts=2), drawn(contexts=4)
    for one, other in zip(few.contexts, many.contexts, strict=False):
        assert_array_equal(one.x, other.x)
        assert_array_equal(one.targets, other.targets)


def test_contexts_outside_the_range_are_drawn_again_and_counted() -> None:
    wide = drawn(DECIMAL, contexts=30, condition=1.0)
    tight = drawn(DECIMAL, contexts=30, condition=1.0, x_half_range=2.2)
    assert tight.redrawn > 10 * max(wide.redrawn, 1)
    assert max(np.abs(context.x).max() for context in tight.contexts) <= 2.2
    low = drawn(DECIMAL, contexts=30, y_half_range=1.8)
    assert low.redrawn > 0
    assert max(np.abs([*c.y, *c.targets]).max() for c in low.contexts) <= 1.8
    with pytest.raises(Refusal, match="no context within the printed range"):
        drawn(DECIMAL, contexts=1, x_half_range=0.1)


def test_drawing_a_context_again_does_not_change_the_next_one() -> None:
    wide, tight = drawn(DECIMAL, contexts=30), drawn(DECIMAL, contexts=30, x_half_range=2.2)
    same = [
        np.array_equal(one.x, two.x) for one, two in zip(wide.contexts, tight.contexts, strict=True)
    ]
    assert True in same[same.index(False) :]


def test_scaling_x_doubles_what_is_printed_where_the_range_is_kept() -> None:
    plain = drawn(DECIMAL, contexts=4, x_half_range=7.0, noise=0.0)
    double = drawn(DECIMAL, contexts=4, x_scale=2.0, noise=0.0)
    assert_allclose(double.half_range, [7, 7, 3.5])
    for one, two in zip(plain.contexts, double.contexts, strict=True):
        assert_allclose(two.x, 2 * one.x, atol=0.02)


def test_scaling_w_scales_the_signal() -> None:
    plain = drawn(DECIMAL, contexts=4, y_half_range=7.0)
    double = drawn(DECIMAL, contexts=4, w_scale=2.0)
    for one, two in zip(plain.contexts, double.contexts, strict=True):
        ratio = np.std(two.y) / np.std(one.y)
        assert 1.9 < ratio < 2.1


def test_queries_are_pushed_along_the_weakest_direction() -> None:
    # Wide ranges, so that no push leads to another draw.
    plain, pushed = (
        drawn(DECIMAL, contexts=3, query_push=push, x_half_range=7.0, y_half_range=9.0)
        for push in (0.0, 0.5)
    )
    for one, two in zip(plain.contexts, pushed.contexts, strict=True):
        assert_array_equal(one.x, two.x)
        centred = one.x - one.x.mean(axis=0)
        weakest = np.linalg.eigh(centred.T @ centred)[1][:, 0]
        moved = two.queries - one.queries
        assert_allclose(np.abs(moved @ weakest), 0.5, atol=0.02)
        assert_allclose(np.linalg.norm(moved, axis=1), 0.5, atol=0.02)


def test_a_replicate_keeps_x_and_queries_and_nothing_else() -> None:
    main = drawn(contexts=6)
    again, order = replicate(main, rng=np.random.default_rng(1))
    assert order.shape == (6, 20)
    for c, (one, two) in enumerate(zip(main.contexts, again.contexts, strict=True)):
        assert_array_equal(np.sort(order[c]), np.arange(20))
        assert_array_equal(two.x, one.x[order[c]])
        assert_array_equal(two.queries, one.queries)
        assert abs(np.corrcoef(two.y, one.y[order[c]])[0, 1]) < 1 - 1e-6
        assert (two.targets != one.targets).any()
    assert (order != np.arange(20)).any(axis=1).all()


def test_a_replicates_slope_is_fresh() -> None:
    main = drawn(DECIMAL, contexts=100, noise=0.0)
    again, order = replicate(main, rng=np.random.default_rng(1))
    pairs = zip(main.contexts, again.contexts, order, strict=True)
    r = [np.corrcoef(two.y, one.y[o])[0, 1] for one, two, o in pairs]
    # Two random slopes: the correlation's mean over contexts is 0, its sd below .1.
    assert abs(np.mean(r)) < 0.3


def test_twins_are_equal_but_for_the_fillers_pairing() -> None:
    a_set, b_set = draw_pairs(Design(), UNSIGNED, pairs=12, rng=np.random.default_rng(0))
    assert len(a_set.contexts) == len(b_set.contexts) == 12
    for a, b in zip(a_set.contexts, b_set.contexts, strict=True):
        assert_array_equal(a.x[:10], b.x[:10])
        assert_array_equal(a.y[:10], b.y[:10])
        assert_array_equal(a.queries, b.queries)
        assert_array_equal(a.targets, b.targets)
        assert_array_equal(a.x[:, 0], b.x[:, 0])
        assert_array_equal(np.sort(a.x[:, 1]), np.sort(b.x[:, 1]))
        ranks_a, ranks_b = (np.argsort(np.argsort(side.x[10:, 1])) for side in (a, b))
        if len(set(a.x[10:, 1])) == 10:
            assert_array_equal(ranks_a + ranks_b, 9)
        crossed = [np.cov(side.x[10:].T)[0, 1] for side in (a, b)]
        assert crossed[0] * crossed[1] < 0
        assert (a.y[10:] != b.y[10:]).any()


def test_twins_share_function_offset_and_noise() -> None:
    # Noise that is drawn once cancels: y_A - y_B of the fillers is linear in x_A - x_B.
    a_set, b_set = draw_pairs(
        Design(noise=1.0, features=3), DECIMAL, pairs=5, rng=np.random.default_rng(0)
    )
    for a, b in zip(a_set.contexts, b_set.contexts, strict=True):
        moved, change = a.x[10:, -1] - b.x[10:, -1], a.y[10:] - b.y[10:]
        slope = moved @ change / (moved @ moved)
        assert_allclose(change, slope * moved, atol=0.011)


def test_all_cross_products_of_the_last_feature_change_sign() -> None:
    a_set, b_set = draw_pairs(
        Design(features=4), DECIMAL, pairs=30, fillers=11, rng=np.random.default_rng(3)
    )
    for a, b in zip(a_set.contexts, b_set.contexts, strict=True):
        assert a.x.shape == (21, 4)
        crossed = [np.cov(side.x[10:].T)[-1, :-1] for side in (a, b)]
        assert (crossed[0] * crossed[1] < 0).all()
        assert_array_equal(a.x[:, :-1], b.x[:, :-1])


def test_sets_hold_everything_and_repeat_with_the_seed() -> None:
    first, second = (
        draw_sets(Design(contexts=2), UNSIGNED, pairs=2, rng=np.random.default_rng(5))
        for _ in range(2)
    )
    for one, two in zip(first.pairs_b.contexts, second.pairs_b.contexts, strict=True):
        assert_array_equal(one.y, two.y)
    assert_array_equal(first.order, second.order)
    more_pairs = draw_sets(Design(contexts=2), UNSIGNED, pairs=4, rng=np.random.default_rng(5))
    assert_array_equal(more_pairs.main.contexts[1].y, first.main.contexts[1].y)
    longer = draw_sets(Design(contexts=3), UNSIGNED, pairs=2, rng=np.random.default_rng(5))
    assert_array_equal(longer.replicate.contexts[1].y, first.replicate.contexts[1].y)
    assert_array_equal(longer.pairs_a.contexts[1].y, first.pairs_a.contexts[1].y)


def test_one_feature_has_no_twins() -> None:
    with pytest.raises(Refusal, match="need 2 features; came 1"):
        draw_pairs(Design(features=1), UNSIGNED, rng=np.random.default_rng(0))
    sets = draw_sets(Design(features=1, contexts=2), UNSIGNED, rng=np.random.default_rng(0))
    assert sets.pairs_a.contexts == ()


def test_a_table_has_no_replicate() -> None:
    with pytest.raises(Refusal, match="only synthetic contexts"):
        replicate(replace(drawn(contexts=1), design=None), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"features": 0}, "features must be a number at least 1; came 0"),
        ({"condition": 0.5}, "condition must be a number at least 1; came 0.5"),
        ({"noise": float("nan")}, "noise must be a number at least 0; came nan"),
        ({"x_scale": 0.0}, "x_scale must be a number above 0; came 0.0"),
        ({"function": "quadratics"}, "near names: quadratic"),
    ],
)
def test_bad_knobs_are_refused(knobs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        Design(**knobs)
    assert sentence in refused.value.sentence
