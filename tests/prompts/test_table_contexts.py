from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prompts.columns import dependence
from prompts.contexts import ContextSet
from prompts.numerals import CODECS, codec_named
from prompts.refusal import Refusal
from prompts.tables import read_table, table_contexts

DECIMAL, UNSIGNED = CODECS["decimal"], CODECS["unsigned-decimal"]

DEPENDENT = pd.DataFrame(
    {
        "x1": [0.10, 0.40, 0.90, 0.30, 0.60],
        "x2": [0.50, 0.20, 0.80, 0.70, 0.10],
        "x3": [2.00, 1.40, 2.60, 2.40, 1.20],
        "c": [7, 7, 7, 7, 7],
        "y": [1.0, 2.0, 3.0, 1.5, 2.2],
    }
)


def drawn(frame: Any, target: str | None = "y", *, seed: int = 0, **options: Any) -> ContextSet:
    options = dict[str, Any](
        {"examples": 2, "queries": 1, "contexts": 1, "codec": UNSIGNED} | options
    )
    table = read_table(frame)
    return table_contexts(table, target, rng=np.random.default_rng(seed), **options)


def refusal(frame: Any, **options: Any) -> str:
    with pytest.raises(Refusal) as caught:
        drawn(frame, **options)
    return str(caught.value)


def numbered(rows: int, **columns: Any) -> pd.DataFrame:
    """A table whose column `id` names its row, and a random y."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"id": np.arange(rows), "z": rng.normal(size=rows)})
    return frame.assign(y=rng.normal(size=rows), **columns)


def ids(contexts: ContextSet) -> list[list[int]]:
    return [[int(x[0]) for x in [*c.x, *c.queries]] for c in contexts.contexts]


# --- columns -------------------------------------------------------------------------------------


def test_constant_and_dependent_columns_are_named_with_their_combination() -> None:
    sentence = refusal(DEPENDENT)
    assert "x3 = 1 + 2 x2; c is constant (7)" in sentence
    contexts = drawn(DEPENDENT, allow_dependent=True)
    assert contexts.feature_names == ("x1", "x2", "x3", "c")
    assert_array_equal(contexts.contexts[0].x[:, 3], UNSIGNED.round([4.995, 4.995]))
    drawn(DEPENDENT, features=["x1", "x2"])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": [1, 2, 3, 5], "b": [1, 2, 3, 5]}, "b = a"),
        ({"cm": [1, 2, 3, 5], "inch": [2.54, 5.08, 7.62, 12.7]}, "inch = 2.54 cm"),
        ({"a": [1, 2, 3, 5], "b": [-1, -2, -3, -5]}, "b = -a"),
        ({"d1": [1, 0, 0, 1, 0], "d2": [0, 1, 0, 0, 0], "d3": [0, 0, 1, 0, 1]}, "d3 = 1 - d1 - d2"),
        ({"a": [1e200, 2e200, 5e200, 4e200], "b": [1, 2, 5, 4]}, "b = 1e-200 a"),
        ({"a": [1, 2, 4, 7, 1], "b": [3, 1, 4, 1, 5], "s": [4, 3, 8, 8, 6]}, "s = a + b"),
    ],
)
def test_combinations_by_hand(columns: dict[str, list[float]], said: str) -> None:
    values = np.array(list(columns.values()), dtype=np.float64).T
    assert dependence(values, list(columns)).exact == (said,)


def test_independent_and_nearly_dependent_columns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    assert dependence(x, ["a", "b", "c"]) == ((), ())
    x[:, 2] = 1 + 2 * x[:, 1] + 1e-4 * x[:, 2]
    exact, near = dependence(x, ["a", "b", "c"])
    assert exact == ()
    assert near[0].startswith("c = ")
    assert near[0].endswith(" b")
    twice = np.column_stack([x[:, 0], x[:, 0], 2 * x[:, 0]])
    assert dependence(twice, ["a", "b", "c"]).exact == ("b = a", "c = 2 a")
    # Two rows can judge no column: everything would be a combination.
    assert dependence(x[:2], ["a", "b", "c"]).exact == ()


def test_nearly_dependent_features_are_warned() -> None:
    frame = numbered(40)
    frame["w"] = frame["z"] + 0.003 * np.random.default_rng(3).normal(size=40)
    contexts = drawn(frame, examples=8, contexts=2)
    assert any("w = z, nearly" in warning for warning in contexts.warnings)


def test_columns_that_become_copies_in_print_are_refused() -> None:
    frame = numbered(40)
    frame["w"] = frame["z"] + 1e-5 * np.random.default_rng(3).normal(size=40)
    assert "as printed, least squares cannot tell" in refusal(
        frame, ranges={"z": (-4, 4), "w": (-4, 4)}
    )


# --- printing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e200])
def test_magnitude(scale: float) -> None:
    frame = pd.DataFrame({"k": np.array([1, 2, 4]) * scale, "y": [1, 2, 3]})
    contexts = drawn(frame)
    printed = [*contexts.contexts[0].x[:, 0], *contexts.contexts[0].queries[:, 0]]
    assert sorted(UNSIGNED.text(x) for x in printed) == ["0.00", "3.33", "9.99"]
    plain = drawn(pd.DataFrame({"k": [1, 2, 4], "y": [1, 2, 3]}))
    assert_array_equal(contexts.contexts[0].x, plain.contexts[0].x)
    if scale < 1:
        assert refusal(frame, codec=DECIMAL).endswith("k prints as one value, 0.00")
    if scale > 1:
        assert refusal(frame, codec=DECIMAL) == (
            "DataFrame, row 1, column 'k': a number that fits codec 'decimal' (-9.99 to 9.99) is "
            "needed; came 1e+200"
        )


def test_minus_zero_in_a_table() -> None:
    frame = pd.DataFrame({"x": [-0.004, -0.0, 0.004, -0.006], "y": [1, 2, 3, 4]})
    contexts = drawn(frame, examples=3, codec=DECIMAL)
    every = [*contexts.contexts[0].x[:, 0], *contexts.contexts[0].queries[:, 0]]
    assert sorted(DECIMAL.text(x) for x in every) == ["-0.01", "0.00", "0.00", "0.00"]
    assert np.signbit(every).sum() == 1


def test_coordinates_come_from_the_declared_or_the_whole_range() -> None:
    frame = numbered(40).drop(columns="id")
    frame["z"] = np.linspace(0, 2, 40)
    affine = drawn(frame, contexts=3, examples=8)
    assert_allclose(affine.middle, [4.995, 4.995])
    assert_allclose(affine.half_range, [4.995, 4.995])
    plain = drawn(frame, contexts=3, examples=8, codec=DECIMAL, ranges={"z": (-1, 5)})
    assert (plain.middle[0], plain.half_range[0]) == (2, 3)
    assert_allclose(plain.middle[1], (frame["y"].min() + frame["y"].max()) / 2)
    declared = drawn(frame, contexts=1, examples=30, ranges={"z": (0, 4)})
    assert declared.contexts[0].x.max() <= 5.0


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ({"z": (0, 1)}, "column 'z': a number in the declared range 0 to 1 is needed"),
        ({"z": (1, 1)}, "the range of z needs low below high; came 1 to 1"),
        ({"q": (0, 1)}, "unknown column 'q'"),
    ],
)
def test_bad_ranges_are_refused(ranges: dict[str, tuple[float, float]], sentence: str) -> None:
    assert sentence in refusal(numbered(20), ranges=ranges)


def test_a_column_that_loses_most_of_its_values_is_warned() -> None:
    frame = numbered(60, skew=np.concatenate([np.linspace(0, 1, 58), [1e4, 1e4]]))
    contexts = drawn(frame, examples=5)
    assert "59 values of skew print as 2" in contexts.warnings


# --- rows ----------------------------------------------------------------------------------------


def test_contexts_share_no_rows_where_the_table_allows() -> None:
    codec = codec_named("decimal(3,2)")
    contexts = drawn(numbered(60), examples=8, queries=4, contexts=5, codec=codec)
    used = [row for rows in ids(contexts) for row in rows]
    assert len(used) == len(set(used)) == 60
    assert (contexts.unit, contexts.preview_reason) == ("context", "")
    assert contexts.blocks == (0, 1, 2, 3, 4)
    assert contexts.design is None
    assert used != sorted(used)


def test_disjoint_blocks_where_it_does_not() -> None:
    codec = codec_named("decimal(3,2)")
    contexts = drawn(numbered(40), examples=8, queries=4, contexts=9, codec=codec)
    assert contexts.unit == "block of rows"
    assert "9 contexts of 12 rows without common ones need 108 rows, there are 40; disjoint" in (
        contexts.preview_reason
    )
    assert contexts.blocks == (0, 1, 2) * 3
    rows = ids(contexts)
    for block in range(3):
        own = {
            r for rows_, b in zip(rows, contexts.blocks, strict=True) if b == block for r in rows_
        }
        others = {
            r for rows_, b in zip(rows, contexts.blocks, strict=True) if b != block for r in rows_
        }
        assert not own & others
    assert all(len(set(one)) == 12 for one in rows)


def test_rows_stay_whole_and_targets_are_the_queries_own() -> None:
    frame = numbered(30)
    contexts = drawn(frame, examples=6, queries=4, contexts=3, codec=codec_named("decimal(3,2)"))
    for context in contexts.contexts:
        for x, y in [
            *zip(context.x, context.y, strict=True),
            *zip(context.queries, context.targets, strict=True),
        ]:
            row = frame.iloc[int(x[0])]
            assert_allclose([x[1], y], [row["z"], row["y"]], atol=0.005001)


def test_shuffled_labels_keep_the_numbers_and_break_the_pairing() -> None:
    frame = numbered(30)
    options: dict[str, Any] = {"examples": 20, "queries": 10, "codec": codec_named("decimal(3,2)")}
    plain, shuffled = (drawn(frame, shuffle_labels=s, **options) for s in (False, True))
    both = [sorted([*s.contexts[0].y, *s.contexts[0].targets]) for s in (plain, shuffled)]
    assert both[0] == both[1]
    context = shuffled.contexts[0]
    y = np.array([frame.iloc[int(x[0])]["y"] for x in context.x])
    assert np.abs(y - context.y).max() > 0.1


def test_contexts_with_a_constant_feature_are_drawn_again() -> None:
    rare = np.zeros(60)
    rare[:12] = 1.0
    frame = numbered(60, rare=rare)
    contexts = drawn(frame, examples=6, queries=2, contexts=3, seed=2)
    assert contexts.redrawn > 0
    assert all(len(set(c.x[:, 2])) == 2 for c in contexts.contexts)
    rare[1:] = 0
    contexts = drawn(numbered(60, rare=rare), examples=6, queries=2, contexts=3)
    assert any(
        "contexts a printed feature is constant or dependent" in w for w in contexts.warnings
    )


def test_bundled_tables_are_drawn() -> None:
    contexts = drawn("diabetes", None, examples=20, queries=8, contexts=64)
    assert len(contexts.contexts) == 64
    assert contexts.preview_reason.startswith("diabetes: 64 contexts")
    assert contexts.target_name == "progression"
    linnerud = drawn("linnerud", "Waist", examples=10, queries=4, contexts=2)
    assert linnerud.feature_names == ("Chins", "Situps", "Jumps")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": ""}, "a target column is needed, one of id, z, y"),
        ({"target": "yy"}, "unknown column 'yy'; near names: y"),
        ({"features": ["id", "zz"]}, "unknown column 'zz'"),
        ({"features": []}, "came none"),
        ({"features": ["z", "y"]}, "differ from each other and from the target 'y'; came z, y"),
        ({"features": ["z", "z"]}, "came z, z"),
        (
            {"examples": 20},
            "21 rows are needed; came 1 contexts of 20 examples and 1 queries, and 20",
        ),
        ({"queries": 0}, "at least 1 of each"),
    ],
)
def test_bad_choices_are_refused(options: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(numbered(20), **options)


def test_a_constant_target_is_refused_always() -> None:
    frame = numbered(20).assign(y=3.0)
    # The middle of 0.00 to 9.99 is 4.995, a tie that binary rounding breaks.
    for allow_dependent in (False, True):
        sentence = refusal(frame, allow_dependent=allow_dependent)
        assert sentence == "DataFrame: y prints as one value, 5.00"
