"""A factor on the query weights is a factor on the scores, and on nothing else of the layer."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.capture import capture
from probes.query_weights import fused_parts, query_holders, scale_queries
from prompts.refusal import Refusal
from tests.probes.twin_families import FAMILIES, LAYERS, VOCABULARY, trained

IDS = torch.as_tensor(np.random.default_rng(3).integers(3, VOCABULARY, (2, 12)))
LAST = torch.tensor([11])


def first_layer_scores(loaded: object) -> Tensor:
    """Scores of the last token in layer 0, less their row mean (maps know no more than that)."""
    scores = capture(loaded, IDS, LAST).scores[:, 0, :, 0].double()
    return scores - scores.mean(-1, keepdim=True)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"gemma2"}))
def test_twice_the_queries_are_twice_the_scores(family: str) -> None:
    """Biases and norm offsets of these models are not 0; gemma2 caps its scores."""
    loaded = trained(family)
    before = first_layer_scores(loaded)
    scale_queries(query_holders(loaded.model)[0], 2.0, config=loaded.model.config)
    torch.testing.assert_close(first_layer_scores(loaded), 2 * before, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_layer_has_one_holder_of_queries(family: str) -> None:
    assert len(query_holders(trained(family).model)) == LAYERS


@pytest.mark.parametrize("family", ["gpt2", "phi3", "neox", "falcon", "bigcode"])
def test_the_three_parts_of_a_fused_matrix_are_all_of_it(family: str) -> None:
    loaded = trained(family)
    (parts,) = fused_parts(query_holders(loaded.model)[0], config=loaded.model.config).values()
    assert parts.query.tolist() == FAMILIES[family].rows
    together = torch.cat(list(parts)).sort().values
    assert torch.equal(together, torch.arange(len(together)))
    assert len(parts.key) == len(parts.value) == 8 * loaded.kv_heads


def test_a_module_without_known_queries_is_refused() -> None:
    with pytest.raises(Refusal, match=r"needed query weights under one of q_proj.*it has odd"):
        scale_queries(nn.ModuleDict({"odd": nn.Linear(2, 2)}), 2.0, config=None)


def test_a_norm_of_queries_without_gain_is_refused() -> None:
    module = nn.ModuleDict({"q_norm": nn.LayerNorm(2, elementwise_affine=False)})
    with pytest.raises(Refusal, match="the query norm 'q_norm' has no gain"):
        scale_queries(module, 2.0, config=None)
