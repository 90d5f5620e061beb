"""Names of heads: every spelling, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.head_names import HOOKS, Head, HeadGrid, parse_head, parse_heads
from prompts.refusal import Refusal

GRID = HeadGrid(tuple(range(30)), 9)
HYBRID = HeadGrid((3, 7), 4)


@pytest.mark.parametrize(
    "name",
    [
        "L3H5",
        " L3H5 ",
        (3, 5),
        [3, 5],
        (np.int64(3), np.int32(5)),
        Head(3, 5),
        "(3, 5)",
        "3,5",
        "blocks.3.attn.hook_z[5]",
        "blocks.3.attn.hook_z[:, :, 5]",
        "blocks.3.attn.hook_z[:,:,5,:]",
        "blocks.3.attn.hook_pattern[5]",
        "blocks.3.attn.hook_pattern[:, 5]",
        "blocks.3.attn.hook_pattern[:, 5, :, :]",
        "blocks.3.attn.hook_attn_scores[:, 5]",
        "blocks.3.attn.hook_q [:, :, 5]",
    ],
)
def test_one_head_in_every_spelling(name: Any) -> None:
    assert parse_head(name, GRID) == Head(3, 5)
    assert parse_heads([name], GRID) == ((3, 5),)


@pytest.mark.parametrize("name", ["L7", "blocks.7.attn.hook_pattern", "blocks.7.attn.hook_z"])
def test_a_layer_names_all_its_heads(name: str) -> None:
    assert parse_heads([name], HYBRID) == ((7, 0), (7, 1), (7, 2), (7, 3))
    with pytest.raises(Refusal, match="one head"):
        parse_head(name, HYBRID)


@given(st.integers(0, 29), st.integers(0, 8), st.sampled_from(sorted(HOOKS)))
def test_names_are_read_back(layer: int, head: int, hook: str) -> None:
    places = ", ".join([":"] * HOOKS[hook] + [str(head)])
    for name in (str(Head(layer, head)), f"blocks.{layer}.attn.{hook}[{places}]"):
        assert parse_head(name, GRID) == (layer, head)


def test_heads_keep_their_order_and_stand_once() -> None:
    found = parse_heads(["L7H2", (3, 1), "L7H2", "L3"], HYBRID)
    assert [str(head) for head in found] == ["L7H2", "L3H1", "L3H0", "L3H2", "L3H3"]
    assert HYBRID.all() == (*HYBRID.of_layer(3), *HYBRID.of_layer(7))


def test_a_text_may_hold_several_names() -> None:
    text = "L3H2, (7, 1) blocks.3.attn.hook_z[:, :, 0],blocks.7.attn.hook_pattern[:, 3]"
    assert parse_heads(text, HYBRID) == ((3, 2), (7, 1), (3, 0), (7, 3))
    assert parse_heads(["L3H2 L3H1", "7, 0"], HYBRID) == ((3, 2), (3, 1), (7, 0))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("L3H55", r"from 0 to 8, came head 55 in 'L3H55'"),
        ("L30H1", r"\(0 to 29\), came layer 30"),
        ((30, 1), r"came layer 30"),
        ((-1, 1), r"came layer -1"),
        ("l3h5", r"unknown head 'l3h5'; near names: L3H5"),
        ("L3.H5", r"near names: L3H5"),
        ("best", r"near names: L0H0, L29H8; .*L3H5, \(3, 5\)"),
        ("L3H5 oops", r"unknown head 'oops'"),
        ("", r"unknown head ''"),
        ((3,), r"unknown head \(3,\)"),
        ((3, 5, 1), r"unknown head"),
        ((True, 1), r"unknown head"),
        ((3.0, 5), r"unknown head"),
        (7, r"unknown head 7"),
        (None, r"unknown head None"),
        ("blocks.3.attn.hook_patern[5]", r"unknown hook .*near names: hook_pattern"),
        ("blocks.3.attn.hook_k[1]", r"unknown hook with an axis of query heads 'hook_k'"),
        ("blocks.3.hook_resid_post", r"unknown head"),
        ("blocks.3.attn.hook_z[:, 5]", r"\[:, :, 5\]; came"),
        ("blocks.3.attn.hook_pattern[:, :, 5]", r"\[:, 5\]; came"),
        ("blocks.3.attn.hook_z[5, :]", r"needed the head as"),
        ("blocks.3.attn.hook_z[]", r"needed the head as"),
        ("blocks.3.attn.hook_z[:]", r"needed the head as"),
        ("blocks.3.attn.hook_z[9]", r"from 0 to 8, came head 9"),
    ],
)
def test_what_is_no_head_is_refused(name: Any, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        parse_heads([name], GRID)


def test_a_layer_without_attention_is_refused() -> None:
    with pytest.raises(Refusal, match=r"\(3, 7\), came layer 4"):
        parse_head("L4H0", HYBRID)
