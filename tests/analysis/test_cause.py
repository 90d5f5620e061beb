"""Named heads against random heads: by hand, by simulation, and in words."""

from typing import Any

import numpy as np
import pytest

from analysis.cause import MATTERS, NO_MORE, Changed, cause
from analysis.inference import mean_interval
from analysis.row_change import Rows, row_change, share, slope

C, M, D = 12, 3, 19


def drawn(rng: np.random.Generator, *, named: float, random: float, sets: int = D) -> Any:
    """Answers off by |noise|, and by so much more with heads changed; targets are 0."""
    base = np.abs(rng.normal(size=(C, M)))
    after = base + named + 0.1 * rng.normal(size=base.shape)
    others = base + random + 0.1 * rng.normal(size=(sets, *base.shape))
    return base, Changed(after, others), np.zeros((C, M))


def test_by_hand() -> None:
    """Seven contexts, one query, targets 0. Errors 1; named 3; two random sets 2 and 1.

    Changes 2, 1 and 0, so the difference is 2 - (1 + 0) / 2 = 3/2; no spread, no width.
    """
    base, named = np.ones((7, 1)), np.full((7, 1), -3.0)
    random = np.stack([np.full((7, 1), 2.0), np.ones((7, 1))])
    found = cause(base, {"zero": Changed(named, random)}, np.zeros((7, 1)), printed_size=10.0)
    effect = found.effects[0]
    assert found.error.estimate == 1
    assert effect.error.estimate == 3
    assert effect.change == (2, 2, 2)
    assert [one.estimate for one in effect.random] == [1, 0]
    assert effect.difference == (1.5, 1.5, 1.5)
    assert effect.moved.estimate == 4
    assert effect.as_much == 0
    assert found.label == MATTERS
    assert found.sentence == (
        "The named heads matter: set to zero, they change the error by +20, 2 sets of random "
        "heads of the same layers by +5 on average (difference +15, interval 15 to 15, over "
        "7 contexts); none of them does as much, which random heads would reach 1 time in 3."
    )


def test_differences_are_paired_over_contexts() -> None:
    """The interval is that of the per-context means of named minus random, each by a loop."""
    base, changed, targets = drawn(np.random.default_rng(0), named=0.3, random=0.1)
    effect = cause(base, {"mean": changed}, targets).effects[0]
    differences = []
    for c in range(C):
        per_set = [np.abs(changed.named[c]) - np.abs(one[c]) for one in changed.random]
        differences.append(np.mean([one.mean() for one in per_set]))
    np.testing.assert_allclose(effect.difference, mean_interval(np.array(differences)), rtol=1e-12)
    wider = cause(base, {"mean": changed, "zero": changed}, targets).effects[0].difference
    assert wider.high - wider.low > 1.1 * (effect.difference.high - effect.difference.low)


def test_heads_that_do_more_matter_and_others_do_not() -> None:
    rng = np.random.default_rng(1)
    assert cause(*with_kind(drawn(rng, named=0.5, random=0.1))).label == MATTERS
    assert cause(*with_kind(drawn(rng, named=0.1, random=0.5))).label == NO_MORE
    assert cause(*with_kind(drawn(rng, named=-0.2, random=-0.5))).label == NO_MORE


def with_kind(parts: Any) -> Any:
    base, changed, targets = parts
    return base, {"mean": changed}, targets


def test_one_random_set_in_twenty_may_do_as_much() -> None:
    """Of 19 sets none may, of 20 one may."""
    base, changed, targets = drawn(np.random.default_rng(2), named=0.5, random=0.1, sets=20)
    changed.random[3] += 0.9
    assert cause(base, {"mean": changed}, targets).label == MATTERS
    fewer = Changed(changed.named, changed.random[:19])
    found = cause(base, {"mean": fewer}, targets)
    assert found.label == NO_MORE
    assert "; 1 of them does as much." in found.sentence


def test_heads_drawn_like_the_random_ones_seldom_matter() -> None:
    """Each set has its own effect: the first of 20 alike is named; it is the largest in 1 of 20.

    150 runs: at most 1/20 of them, 7.5; the 99.9 % bound of Binomial(150, 1/20) is 17.
    """
    rng, found = np.random.default_rng(3), 0
    for _ in range(150):
        base = np.abs(rng.normal(size=(C, M)))
        after = base + np.abs(rng.normal(size=(D + 1, 1, 1))) + 0.1 * rng.normal(size=(D + 1, C, M))
        changed = Changed(after[0], after[1:])
        found += cause(base, {"mean": changed}, np.zeros((C, M))).label == MATTERS
    assert 1 <= found <= 17


def test_any_kind_decides_and_the_others_are_named() -> None:
    rng = np.random.default_rng(4)
    base, weak, targets = drawn(rng, named=0.0, random=0.0)
    strong = Changed(base + 1, weak.random)
    found = cause(base, {"mean": weak, "zero": strong, "patch": strong}, targets)
    assert [one.matters for one in found.effects] == [False, True, True]
    assert found.label == MATTERS
    assert "set to zero" in found.sentence
    assert found.sentence.endswith("these say the same: patch.")


def test_answers_that_cannot_be_read_are_left_out_and_counted() -> None:
    base, changed, targets = drawn(np.random.default_rng(5), named=0.5, random=0.1)
    changed.named[0], changed.named[1, 0] = np.nan, np.nan
    changed.random[2, 1, 1] = np.nan
    found = cause(base, {"mean": changed}, targets)
    effect = found.effects[0]
    assert (effect.lost, found.units) == (4, C - 1)
    assert effect.lost_random == 1 / D
    kept = np.isfinite(changed.named)
    per_context = [(np.abs(changed.named) - base)[c][kept[c]].mean() for c in range(1, C)]
    np.testing.assert_allclose(effect.change.estimate, np.mean(per_context))
    assert "4 answers can no longer be read, with random ones 0.0526 on average" in found.sentence


def test_too_few_contexts_or_sets_are_not_assessable() -> None:
    base, changed, targets = drawn(np.random.default_rng(6), named=0.5, random=0.1)
    few = Changed(changed.named[:5], changed.random[:, :5])
    found = cause(base[:5], {"mean": few}, targets[:5])
    assert found.label == (
        "not assessable: 5 contexts with answers that can be compared, at least 6 are needed"
    )
    assert not found.assessable
    none = Changed(changed.named, changed.random[:0])
    found = cause(base, {"mean": none}, targets, short="no other heads to compare with")
    assert found.label.startswith("not assessable: there are no random heads")
    assert found.sentence.endswith("Of the random sets: no other heads to compare with.")
    change = found.effects[0].change.estimate
    assert f"As description, the error changes by {change:+.3g} (" in found.sentence
    nothing = cause(np.full((C, M), np.nan), {"mean": changed}, targets)
    assert nothing.label.startswith("not assessable: 0 contexts")


def test_blocks_are_the_unit() -> None:
    base, changed, targets = drawn(np.random.default_rng(7), named=0.5, random=0.1)
    found = cause(
        base, {"mean": changed}, targets, blocks=[i // 4 for i in range(C)], unit="block of rows"
    )
    assert found.label.startswith("not assessable: 3 blocks of rows with answers")


def test_unlike_shapes_are_refused() -> None:
    base, changed, targets = drawn(np.random.default_rng(8), named=0.5, random=0.1)
    with pytest.raises(ValueError, match="needed at least one way of changing heads"):
        cause(base, {}, targets)
    with pytest.raises(ValueError, match=r"named \(mean\) needed the shape \(12, 3\)"):
        cause(base, {"mean": Changed(changed.named[:, :2], changed.random)}, targets)
    with pytest.raises(ValueError, match="targets needed finite numbers"):
        cause(base, {"mean": changed}, targets + np.nan)
    with pytest.raises(ValueError, match="blocks needed one entry for each of 12"):
        cause(base, {"mean": changed}, targets, blocks=[1])


def test_rows_by_hand() -> None:
    """Three examples. Target t = (1, -1, 0) and its negative; u = (1, 1, -2) is orthogonal.

    Row t + u: slope 1, share 2 / (2 + 6) = 1/4. Row t / 2: slope 1/2, share 1.
    """
    sign = np.array([1.0, -1.0])[:, None]
    t, u = sign * np.array([1.0, -1, 0]), sign * np.array([1.0, 1, -2])
    target, before, after = (np.stack([one] * 8) for one in (t, t + u, t / 2))
    found = row_change(Rows(before + 3, after, target, np.stack([before, after])))
    assert found.slope_before.estimate == pytest.approx(1)
    assert found.slope_after.estimate == pytest.approx(1 / 2)
    assert found.slope_change.estimate == pytest.approx(-1 / 2)
    assert found.share_before.estimate == pytest.approx(1 / 4)
    assert found.share_after.estimate == pytest.approx(1)
    assert found.share_change.estimate == pytest.approx(3 / 4)
    assert [one.estimate for one in found.share_change_random] == pytest.approx([0, 3 / 4])
    assert found.difference.estimate == pytest.approx(3 / 4 - 3 / 8)
    assert found.units == 8


def test_the_share_is_the_squared_correlation() -> None:
    rng = np.random.default_rng(9)
    target, before = rng.normal(size=(2, 9, 4, 6))
    after = target + before
    found = row_change(Rows(before, after, target))

    def centred(row: Any) -> Any:
        row = row - row.mean(2, keepdims=True)
        return (row - row.mean(1, keepdims=True)).ravel()

    for part, row in ((found.share_before, before), (found.share_after, after)):
        expected = np.corrcoef(centred(row), centred(target))[0, 1] ** 2
        assert part.estimate == pytest.approx(expected)


def test_the_change_of_the_share_is_covered() -> None:
    """Rows = a_c x target + noise, a_c drawn per context; the truth from 20,000 contexts.

    95 % intervals over 40 contexts in 300 runs: at least 270 cover (Binomial 99.9 % bound).
    """
    rng = np.random.default_rng(10)

    def rows(contexts: int) -> Rows:
        target = rng.normal(size=(contexts, 3, 5))
        noise = rng.normal(size=(2, contexts, 3, 5))
        strength = 1 + 0.5 * rng.normal(size=(2, contexts, 1, 1))
        before, after = strength[0] * target + noise[0], 0.5 * strength[1] * target + noise[1]
        return Rows(before, after, target)

    truth = row_change(rows(20_000)).share_change.estimate
    intervals = [row_change(rows(40)).share_change for _ in range(300)]
    assert sum(one.low <= truth <= one.high for one in intervals) >= 270


def test_the_influence_of_a_context_is_what_it_changes() -> None:
    """Against leaving each of 200 contexts out: the whole moves by influence / 199, to 5 %."""
    rng = np.random.default_rng(14)
    target = rng.normal(size=(200, 3, 5)) * rng.uniform(0.2, 3, size=(200, 1, 1))
    rows = target + rng.normal(size=target.shape) * rng.uniform(0.2, 3, size=(200, 1, 1))
    places = np.arange(200)
    for measure in (share, slope):
        whole = measure(rows, target, places)
        left = [np.delete(part, c, axis=0) for c in places for part in (rows, target)]
        without = [measure(left[2 * c], left[2 * c + 1], places[:-1]).estimate for c in places]
        moved = 199 * (whole.estimate - np.array(without))
        off = np.abs(moved - whole.influence).max()
        assert off < 0.05 * np.abs(whole.influence).max()
        assert abs(whole.influence.mean()) < 1e-12


def test_undefined_rows_are_nan_and_unfinished_ones_left_out() -> None:
    rng = np.random.default_rng(11)
    target, before, after = rng.normal(size=(3, 8, 1, 5))
    assert np.isnan(row_change(Rows(before, after, target)).share_before.estimate)
    target, before, after = rng.normal(size=(3, 8, 2, 5))
    before[0, 0, 0] = np.nan
    found = row_change(Rows(before, after, target))
    assert (found.dropped, found.units) == (1, 7)
    kept = row_change(Rows(before[1:], after[1:], target[1:]))
    assert found.share_change == kept.share_change
    none = row_change(Rows(before + np.nan, after, target))
    assert none.units == 0
    assert np.isnan(none.share_change.estimate)
    with pytest.raises(ValueError, match=r"rows after needed the shape \(8, 2, 5\)"):
        row_change(Rows(before, after[:3], target))
    with pytest.raises(ValueError, match=r"random rows needed the shape \(sets, 8, 2, 5\)"):
        row_change(Rows(before, after, target, target))


def test_the_rows_stand_in_the_sentence() -> None:
    base, changed, targets = drawn(np.random.default_rng(12), named=0.5, random=0.1)
    rng = np.random.default_rng(13)
    target = rng.normal(size=(C, M, 5))
    rows = Rows(target, 0 * target + rng.normal(size=target.shape), target)
    found = cause(base, {"mean": changed}, targets, rows=rows)
    assert found.row is not None
    assert (
        "The least-squares row's share of the behavioural row goes from 1.00 to 0.0"
        in found.sentence
    )
