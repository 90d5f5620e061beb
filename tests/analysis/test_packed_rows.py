"""Packed rows come back within their step, in Python's slow reading and in the page's script."""

import base64
import json
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.packed_rows import PackedBlocks, pack_blocks, rows_for_page
from tests.analysis.study_view_factory import SMALL, study


def slow_unpack(packed: PackedBlocks, queries: int, examples: int) -> NDArray[np.float64]:
    """Bit by bit: every rest is the 12-bit number at bit 12 k, lowest bit first."""
    scales = np.frombuffer(base64.b64decode(packed.scales), "<f4").astype(float)
    means = np.frombuffer(base64.b64decode(packed.means), "<i2").astype(float)
    bits = "".join(f"{byte:08b}"[::-1] for byte in base64.b64decode(packed.rest))
    values = np.empty((len(scales) // 2, queries, examples))
    for place, (b, m, i) in enumerate(np.ndindex(*values.shape)):
        rest = int(bits[12 * place : 12 * place + 12][::-1], 2) - 2048
        value = means[b * examples + i] * scales[2 * b] + rest * scales[2 * b + 1]
        values[b, m, i] = np.nan if rest == -2048 else value
    return values


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    blocks=st.integers(1, 3),
    queries=st.integers(1, 5),
    examples=st.integers(1, 7),
    unseen=st.floats(0, 1),
    place_scale=st.sampled_from([0.0, 1.0, 1e4]),
)
def test_every_value_comes_back_within_the_step_of_its_block(
    seed: int, blocks: int, queries: int, examples: int, unseen: float, place_scale: float
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(blocks, queries, examples))
    place = place_scale * rng.normal(size=(blocks, 1, examples))
    rows = np.where(rng.random(values.shape) < unseen, np.nan, values + place)
    back = slow_unpack(pack_blocks(rows), queries, examples)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(rows))
    # the rest is taken about a mean that is itself rounded to 1/32767 of the largest mean
    largest = np.nanmax(np.abs(rows), initial=0.0)
    spread = np.nanmax(np.abs(rows - np.where(np.isfinite(place), place, 0)), initial=0.0)
    step = (2 * spread + largest / 32767) / 2047
    assert np.nanmax(np.abs(back - rows), initial=0.0) <= step + 1e-6 * largest


def test_a_large_place_does_not_blur_what_depends_on_the_query() -> None:
    # place 1000 times larger than what the query moves: 16-bit floats would lose all of the latter
    rng = np.random.default_rng(0)
    moved = rng.normal(size=(1, 8, 20))
    rows = 1000 * rng.normal(size=(1, 1, 20)) + moved
    back = slow_unpack(pack_blocks(rows), 8, 20)
    centred, expected = back - back.mean(1, keepdims=True), rows - rows.mean(1, keepdims=True)
    np.testing.assert_allclose(centred, expected, atol=2e-3 * np.abs(moved).max())


def test_blocks_need_three_axes() -> None:
    with pytest.raises(ValueError, match=r"came the shape \(2, 3\)"):
        pack_blocks(np.zeros((2, 3)))


def test_the_argument_is_left_as_it_was() -> None:
    rows = np.random.default_rng(0).normal(size=(2, 3, 4))
    before = rows.copy()
    pack_blocks(rows)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
def test_the_page_reads_the_same_row() -> None:
    view = study(SMALL)
    rows = view.rows.copy()
    rows.loc[{"layer": 1, "head": 0, "example": 2}] = np.nan
    data = rows_for_page(rows, view.bank_rows)
    script = resources.files("analysis").joinpath("templates/rows.js.j2").read_text("utf-8")
    asked = {"variant": 0, "context": 1, "layer": 1, "part": "y"}
    program = (
        "const document = { querySelectorAll: () => [] };\n" + script + "\n"
        f"const rows = new Rows({json.dumps(data)});\n"
        f"const both = [1, 0, -1].map((head) => rows.row({{...{json.dumps(asked)}, head}}));\n"
        "const line = [[1, 2, 6], [0, 5, 1]];\n"
        "console.log(JSON.stringify([...both, centred(line, false), centred(line, true),\n"
        "  correlation([1, 2, 3, NaN], [1, 2, 4, 9])]));\n"
    )
    done = subprocess.run(
        ["node", "-"], input=program, capture_output=True, text=True, check=True, timeout=60
    )
    one, other, total, by_example, by_both, r = json.loads(done.stdout)
    chosen = rows.isel(variant=0, context=1).sel(layer=1, part="y").transpose("head", ...)
    first, second = (chosen.sel(head=head).to_numpy() for head in (1, 0))
    np.testing.assert_allclose(np.array(one, float), first, atol=1e-3)
    np.testing.assert_allclose(np.array(other, float), second, atol=1e-3)
    np.testing.assert_allclose(np.array(total, float), first + second, atol=2e-3)
    # by hand: rows minus their means 3 and 2, then columns minus (-2 - 2)/2, (-1 + 3)/2, (3 - 1)/2
    np.testing.assert_allclose(by_example, [[-2, -1, 3], [-2, 3, -1]])
    np.testing.assert_allclose(by_both, [[0, -2, 2], [0, 2, -2]])
    assert r == pytest.approx(np.corrcoef([1, 2, 3], [1, 2, 4])[0, 1])
