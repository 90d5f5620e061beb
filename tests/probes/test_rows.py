"""Rows of a context: means over tokens by hand, and from whole captures."""

import gc
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from probes.capture import Capture, capture
from probes.rows import KINDS, PARTS, context_rows, reduction
from probes.scores import LayerRows
from tests.probes.tiny_models import (
    WITH_ATTENTION,
    HandMadeContext,
    hand_made_context,
    loaded,
    tiny_model,
)

HIDDEN = -torch.inf


def one_row(scores: list[float], weights: list[float], first_key: int = 0) -> LayerRows:
    return LayerRows(
        torch.tensor(scores).reshape(1, 1, 1, -1),
        torch.tensor(weights).reshape(1, 1, 1, -1),
        None,
        first_key,
    )


def two_examples() -> dict[str, NDArray[np.int64]]:
    """Tokens 0, 1 are the first example's x, 2 its y, 3 its separator; 4 to 7 the second's."""
    places = np.arange(8).reshape(2, 4)
    return dict(zip(PARTS, (places[:, :2], places[:, 2:3], places[:, 3:], places), strict=True))


def test_means_over_the_tokens_of_a_part_by_hand() -> None:
    scores = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0, 7.0, 9.0]
    weights = [score / 100 for score in scores]
    found = reduction(two_examples())(one_row(scores, weights))
    assert found.shape == (1, 1, 1, len(PARTS), len(KINDS), 2)
    by_hand = [[1.5, 4.0], [4.0, 7.0], [8.0, 9.0], [15 / 4, 6.0]]
    for part, values in enumerate(by_hand):
        assert found[0, 0, 0, part, 0].tolist() == pytest.approx(values)
        assert found[0, 0, 0, part, 1].tolist() == pytest.approx([v / 100 for v in values])


def test_a_part_with_a_hidden_token_is_not_a_number() -> None:
    """Token 0 is hidden: the first example has no x and no all, but a y and a separator."""
    scores = [HIDDEN, 2.0, 4.0, 8.0, 3.0, 5.0, 7.0, 9.0]
    found = reduction(two_examples())(one_row(scores, [0.0] + [0.1] * 7))[0, 0, 0]
    for kind in (0, 1):
        assert found[:, kind].isnan()[:, 0].tolist() == [True, False, False, True]
    assert not bool(found[:, :, 1].isnan().any())


def test_tokens_before_the_first_key_are_hidden() -> None:
    """A layer with a window holds tokens 3 to 7 only: of the first example, its separator."""
    found = reduction(two_examples())(one_row([8.0, 3.0, 5.0, 7.0, 9.0], [0.2] * 5, first_key=3))
    assert found[0, 0, 0, :, 0, 0].isnan().tolist() == [True, True, False, True]
    assert found[0, 0, 0, 2, 0].tolist() == pytest.approx([8.0, 9.0])
    assert found[0, 0, 0, 0, 0, 1] == pytest.approx(4.0)


def test_a_part_without_tokens_is_not_a_number() -> None:
    parts = two_examples()
    parts["separator"] = np.zeros((2, 0), dtype=np.int64)
    found = reduction(parts)(one_row([1.0] * 8, [0.1] * 8))
    assert found[0, 0, 0].isnan().any(-1).any(-1).tolist() == [False, False, True, False]


def means_of(captured: Capture, tokenized: HandMadeContext, query: int) -> NDArray[np.float32]:
    """(layer, head, part, kind, example) of one asked row, by slices and means."""
    values = torch.stack([captured.scores[0, :, :, query], captured.weights[0, :, :, query]], 2)
    hidden = captured.scores[0, :, :, query].isinf()
    values = values.masked_fill(hidden[:, :, None], torch.nan)
    parts = [values[..., torch.as_tensor(tokenized.parts[part])].mean(-1) for part in PARTS]
    return torch.stack(parts, 2).numpy()


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_rows_are_means_of_whole_captures(name: str, block: int) -> None:
    """Query rows and prefix rows against one forward a query over the whole prompt."""
    model, tokenized = tiny_model(name), hand_made_context()
    rows = context_rows(loaded(model), tokenized, answer_tokens=0, block=block)
    positions = torch.as_tensor([*tokenized.prefix_answers, 28])
    for m, suffix in enumerate(tokenized.suffixes):
        ids = torch.as_tensor(np.r_[tokenized.prefix, suffix])[None]
        captured = capture(model, ids, positions)
        np.testing.assert_allclose(rows.query[m], means_of(captured, tokenized, -1), atol=1e-4)
    assert rows.prefix is not None
    for example in range(4):
        expected = means_of(captured, tokenized, example)
        expected[..., example:] = np.nan
        np.testing.assert_allclose(rows.prefix[example], expected, atol=1e-4)


def test_shapes_and_kinds() -> None:
    rows = context_rows(loaded(tiny_model("llama")), hand_made_context(), answer_tokens=2)
    assert rows.query.shape == (3, 2, 4, len(PARTS), len(KINDS), 4)
    assert rows.query.dtype == np.float32
    assert rows.prefix is not None
    assert rows.prefix.shape == (4, 2, 4, len(PARTS), len(KINDS), 4)
    assert rows.layers == (0, 1)
    assert len(rows.answers) == 3
    assert set(rows.seconds) == {"forward", "answers"}


def test_prefix_rows_see_earlier_examples_only() -> None:
    rows = context_rows(loaded(tiny_model("llama")), hand_made_context(), answer_tokens=0)
    assert rows.prefix is not None
    seen = np.isfinite(rows.prefix).all((1, 2, 3, 4))
    assert seen.tolist() == [[j < i for j in range(4)] for i in range(4)]


def test_examples_outside_a_window_are_counted() -> None:
    """A window of four, queries of five tokens: no example is seen, by 3 queries, 2 layers,
    4 heads, 4 parts and 4 examples: 384."""
    rows = context_rows(loaded(tiny_model("mistral")), hand_made_context(), answer_tokens=0)
    assert rows.unseen == 384
    assert bool(np.isnan(rows.query).all())
    wide = context_rows(loaded(tiny_model("llama")), hand_made_context(), answer_tokens=0)
    assert wide.unseen == 0


def test_without_prefix_rows_or_answers() -> None:
    model, tokenized = loaded(tiny_model("llama")), hand_made_context()
    bare = context_rows(model, tokenized, prefix_rows=False, answer_tokens=0)
    full = context_rows(model, tokenized)
    assert bare.prefix is None
    assert bare.answers == []
    np.testing.assert_allclose(bare.query, full.query, atol=1e-6)


def tensors_alive() -> int:
    gc.collect()
    return sum(isinstance(item, torch.Tensor) for item in gc.get_objects())


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3-next"])
def test_nothing_is_held_from_one_context_to_the_next(name: str) -> None:
    model: Any = loaded(tiny_model(name))
    context_rows(model, hand_made_context())
    before = tensors_alive()
    for seed in range(5):
        context_rows(model, hand_made_context(seed))
    assert tensors_alive() == before


def test_threads_and_repeats_change_nothing() -> None:
    model, tokenized = loaded(tiny_model("llama")), hand_made_context()
    first, again = (context_rows(model, tokenized, answer_tokens=0) for _ in range(2))
    assert bool((first.query == again.query).all())
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = context_rows(model, tokenized, answer_tokens=0)
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_allclose(two.query, first.query, atol=1e-5)
