"""Scores and weights by hand, and against a loop over heads, rows and keys."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from probes.attention import hidden_after
from probes.scores import KeyValues, ScoreRule, attended, score_rows

FIRST = torch.tensor([0])
LN = math.log


def one_head(*scores: float) -> tuple[Tensor, KeyValues]:
    """A query of 1 and keys that are their own scores, values 1, 2, ..."""
    key = torch.tensor(scores).reshape(1, 1, -1, 1)
    value = torch.arange(1.0, len(scores) + 1).reshape(1, 1, -1, 1)
    return torch.ones(1, 1, 1, 1), KeyValues(key, value)


def test_two_keys_by_hand() -> None:
    """Scores 0 and ln 3 give weights 1/4 and 3/4."""
    query, keys = one_head(0.0, 2 * LN(3))
    rows = score_rows(query, keys, FIRST, ScoreRule(scaling=0.5))
    torch.testing.assert_close(rows.scores.flatten(), torch.tensor([0.0, LN(3)]))
    torch.testing.assert_close(rows.weights.flatten(), torch.tensor([1 / 4, 3 / 4]))
    assert rows.sink is None


def test_a_sink_takes_its_share_by_hand() -> None:
    """exp(0), exp(ln 2) and a sink of exp(0): weights 1/4, 1/2 and 1/4 on the sink."""
    query, keys = one_head(0.0, LN(2))
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, sinks=torch.zeros(1)))
    torch.testing.assert_close(rows.weights.flatten(), torch.tensor([1 / 4, 1 / 2]))
    assert rows.sink is not None
    torch.testing.assert_close(rows.sink.flatten(), torch.tensor([1 / 4]))


def test_softcap_bounds_scores_by_hand() -> None:
    """2 tanh(s / 2): 0 stays, 2 atanh(1/2) becomes 1, and large scores reach 2."""
    query, keys = one_head(0.0, 2 * math.atanh(0.5), 1e6)
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, softcap=2.0))
    torch.testing.assert_close(rows.scores.flatten(), torch.tensor([0.0, 1.0, 2.0]))


def test_softcap_comes_before_the_mask() -> None:
    """A hidden key stays hidden: capping -inf would give -2."""
    query, keys = one_head(0.0, LN(3))
    mask = torch.tensor([True, False]).reshape(1, 1, 1, 2)
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, softcap=2.0, mask=mask))
    assert rows.scores.flatten().tolist() == [0.0, -math.inf]
    assert rows.weights.flatten().tolist() == [1.0, 0.0]


def test_bias_is_part_of_the_score_by_hand() -> None:
    """Score 0 with bias ln 3 against score 0: weights 3/4 and 1/4."""
    query, keys = one_head(0.0, 0.0)
    bias = torch.tensor([LN(3), 0.0]).reshape(1, 1, 1, 2)
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, bias=bias))
    torch.testing.assert_close(rows.weights.flatten(), torch.tensor([3 / 4, 1 / 4]))


def test_a_float_mask_hides_and_adds() -> None:
    query, keys = one_head(0.0, 0.0, 0.0)
    mask = torch.tensor([0.0, LN(3), torch.finfo(torch.float32).min]).reshape(1, 1, 1, 3)
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, mask=mask))
    torch.testing.assert_close(rows.weights.flatten(), torch.tensor([1 / 4, 3 / 4, 0.0]))
    assert rows.scores.flatten()[2] == -math.inf


def test_a_row_that_sees_nothing_is_zero() -> None:
    query, keys = one_head(1.0, 2.0)
    mask = torch.zeros(1, 1, 1, 2, dtype=torch.bool)
    rows = score_rows(query, keys, FIRST, ScoreRule(1.0, mask=mask))
    assert rows.weights.flatten().tolist() == [0.0, 0.0]


def test_a_mask_of_too_few_keys_is_an_error() -> None:
    query, keys = one_head(1.0, 2.0)
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="a mask of 1 keys for 2"):
        score_rows(query, keys, FIRST, ScoreRule(1.0, mask=mask))


def slow_weights(query: Tensor, key: Tensor, rule: ScoreRule) -> Tensor:
    """Weights (batch, head, query, key) by four loops; causal, the last query sees all keys."""
    batch, heads, queries, _ = query.shape
    keys, per_group = key.shape[2], heads // key.shape[1]
    weights = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = range(keys - queries + i + 1)
                scores = []
                for j in seen:
                    pairs = zip(query[b, h, i], key[b, h // per_group, j], strict=True)
                    score = sum(float(x) * float(y) for x, y in pairs) * rule.scaling
                    if rule.softcap is not None:
                        score = rule.softcap * math.tanh(score / rule.softcap)
                    scores.append(score)
                sink = [] if rule.sinks is None else [float(rule.sinks[h])]
                top = max(scores + sink)
                total = sum(math.exp(s - top) for s in scores + sink)
                for j, score in zip(seen, scores, strict=True):
                    weights[b, h, i, j] = math.exp(score - top) / total
    return weights


shapes = st.tuples(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3)
)


@settings(max_examples=25, deadline=None)
@given(
    shape=shapes,
    softcap=st.sampled_from([None, 1.5]),
    sinks=st.booleans(),
    seed=st.integers(0, 100),
)
def test_shared_keys_are_the_keys_of_each_prompt(
    shape: tuple[int, int, int, int, int], softcap: float | None, sinks: bool, seed: int
) -> None:
    """A prefix that is stored once gives what a loop over repeated keys gives, output included."""
    batch, groups, per_group, own, prefix = shape
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, 3, generator=generator, dtype=torch.float64)

    query = draw(batch, groups * per_group, own)
    keys = KeyValues(draw(batch, groups, own), draw(batch, groups, own))
    key, value = keys.key, keys.value
    if prefix:
        shared_key, shared_value = draw(1, groups, prefix), draw(1, groups, prefix)
        keys = keys._replace(prefix_key=shared_key, prefix_value=shared_value)
        key = torch.cat([shared_key.expand(batch, -1, -1, -1), key], 2)
        value = torch.cat([shared_value.expand(batch, -1, -1, -1), value], 2)
    sink = draw(groups * per_group)[:, 0] if sinks else None
    rule = ScoreRule(0.7, softcap=softcap, sinks=sink, causal=True)
    expected = slow_weights(query, key, rule)
    rows = torch.arange(own)
    torch.testing.assert_close(score_rows(query, keys, rows, rule).weights, expected)
    masked = rule._replace(causal=False, mask=hidden_after(own, prefix + own, query.device))
    torch.testing.assert_close(score_rows(query, keys, None, masked).weights, expected)
    repeated = value.repeat_interleave(per_group, 1)
    output = (expected @ repeated).transpose(1, 2)
    torch.testing.assert_close(attended(query, keys, rule).output, output)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Elements of the largest tensor that any operation gives."""

    elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, Tensor):
                self.elements = max(self.elements, one.numel())
        return found


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.bfloat16, 0.01)])
def test_a_fused_prefix_needs_no_map_and_gives_what_maps_give(
    dtype: torch.dtype, atol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries a prompt, behind three own keys: a map has 5 x 4 x 2 x 105 = 4,200 elements."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, 8, generator=generator).to(dtype)

    query = draw(5, 4, 2)
    keys = KeyValues(draw(5, 2, 5), draw(5, 2, 5), draw(1, 2, 100), draw(1, 2, 100))
    rule = ScoreRule(0.5, causal=True)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        fused = attended(query, keys, rule)
    # The last rows' scores: 5 x 4 x 1 x 105.
    assert largest.elements == 2100
    monkeypatch.setattr("probes.scores._can_fuse", lambda *call: False)
    mapped = attended(query, keys, rule)
    torch.testing.assert_close(fused.output, mapped.output, atol=atol, rtol=0)
    torch.testing.assert_close(fused.last.weights, mapped.last.weights)


def test_output_in_blocks_of_rows_is_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 9, 8, generator=generator)
    keys = KeyValues(*torch.randn(2, 2, 2, 9, 8, generator=generator))
    rule = ScoreRule(0.5, softcap=2.0, causal=True)
    whole = attended(query, keys, rule).output
    monkeypatch.setattr("probes.scores.BLOCK_ELEMENTS", 2 * 4 * 9 * 2)
    torch.testing.assert_close(attended(query, keys, rule).output, whole)


def test_each_prompt_of_a_batch_has_its_own_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 6, 8, generator=generator)
    keys = KeyValues(*torch.randn(2, 2, 2, 6, 8, generator=generator))
    rule = ScoreRule(0.5, causal=True)
    every = score_rows(query, keys, None, rule).weights
    rows = torch.tensor([[1, 5], [0, 3]])
    own = score_rows(query, keys, rows, rule).weights
    torch.testing.assert_close(own, torch.stack([every[0][:, [1, 5]], every[1][:, [0, 3]]]))
