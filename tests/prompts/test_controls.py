"""Contexts with one thing changed, and everything else as it was."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prompts.contexts import ContextSet, draw_contexts
from prompts.controls import other_surface, permuted_order, permuted_y
from prompts.design import Design
from prompts.numerals import codec_named


def drawn(codec: str = "unsigned-decimal", contexts: int = 5) -> ContextSet:
    design = Design(features=2, examples=9, queries=3, contexts=contexts)
    return draw_contexts(design, codec_named(codec), rng=np.random.default_rng(1))


def test_permuted_y_keeps_x_and_the_numerals() -> None:
    main = drawn()
    changed = permuted_y(main, rng=np.random.default_rng(2))
    for before, after in zip(main.contexts, changed.contexts, strict=True):
        assert_array_equal(after.x, before.x)
        assert_array_equal(after.queries, before.queries)
        assert_array_equal(after.targets, before.targets)
        assert_array_equal(np.sort(after.y), np.sort(before.y))
    moved = [(a.y != b.y).mean() for a, b in zip(main.contexts, changed.contexts, strict=True)]
    assert np.mean(moved) > 0.5


def test_permuted_order_moves_each_example_whole_and_says_where_from() -> None:
    main = drawn()
    changed, order = permuted_order(main, rng=np.random.default_rng(2))
    assert (order != np.arange(9)).any()
    for before, after, places in zip(main.contexts, changed.contexts, order, strict=True):
        assert_array_equal(after.x, before.x[places])
        assert_array_equal(after.y, before.y[places])
        assert_array_equal(np.sort(places), np.arange(9))


@pytest.mark.parametrize("change", [permuted_y, permuted_order])
def test_a_change_does_not_depend_on_how_many_contexts_there_are(change: object) -> None:
    assert callable(change)
    many = change(drawn(contexts=5), rng=np.random.default_rng(3))
    few = change(drawn(contexts=2), rng=np.random.default_rng(3))
    many, few = (one[0] if isinstance(one, tuple) else one for one in (many, few))
    assert_array_equal(many.contexts[1].y, few.contexts[1].y)


def test_decimals_become_the_same_digits_without_a_point() -> None:
    main = drawn()
    changed = other_surface(main)
    assert changed.codec.name == "unsigned-integer"
    for before, after in zip(main.contexts, changed.contexts, strict=True):
        # 0.00..9.99 onto 000..999: each number a hundred times what it was.
        for name in ("x", "y", "queries", "targets"):
            assert_allclose(getattr(after, name), 100 * getattr(before, name), atol=1e-9)


@pytest.mark.parametrize("codec", ["unsigned-integer", "decimal", "signed-decimal"])
def test_codec_coordinates_survive_up_to_the_new_rounding(codec: str) -> None:
    main = drawn(codec)
    changed = other_surface(main)
    step = 10.0**-changed.codec.decimals / (changed.codec.high - changed.codec.low)
    for before, after in zip(main.contexts, changed.contexts, strict=True):
        z = (before.y - main.middle[-1]) / main.half_range[-1]
        again = (after.y - changed.middle[-1]) / changed.half_range[-1]
        assert_allclose(again, z, atol=2 * step)
        assert_allclose(
            (after.x - changed.middle[:-1]) / changed.half_range[:-1],
            (before.x - main.middle[:-1]) / main.half_range[:-1],
            atol=2 * step,
        )
