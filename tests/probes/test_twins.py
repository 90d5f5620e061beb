"""Untrained twins: what each keeps, that the trained model stays as it is, and the score scale."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from probes.capture import capture
from probes.models import LoadedModel, load_model
from probes.score_scale import spread_of
from probes.twins import TWINS, make_twin
from prompts.refusal import Refusal
from tests.probes.twin_families import FAMILIES, VOCABULARY, trained

NORMS = {"gpt2": r"\.ln_", "llama": "norm", "qwen3": "norm"}
EMBEDDINGS = {"gpt2": r"wte|wpe|lm_head", "llama": "embed_tokens|lm_head", "qwen3": "embed|lm_head"}
MAIN = sorted(NORMS)
IDS = torch.as_tensor(np.random.default_rng(0).integers(3, VOCABULARY, (3, 24)))
POSITIONS = [11, 23]


def twin_of(loaded: LoadedModel, kind: str, seed: int = 1) -> LoadedModel:
    return make_twin(loaded, kind, seed=seed, calibration_ids=IDS, calibration_positions=POSITIONS)


def parameters(loaded: LoadedModel) -> dict[str, Tensor]:
    return dict(loaded.model.named_parameters())


def equal_names(one: LoadedModel, other: LoadedModel) -> set[str]:
    theirs = parameters(other)
    return {name for name, value in parameters(one).items() if torch.equal(value, theirs[name])}


@pytest.mark.parametrize("kind", sorted(TWINS))
@pytest.mark.parametrize("family", MAIN)
def test_the_trained_model_stays_bit_identical_and_the_seed_decides(family: str, kind: str) -> None:
    loaded = trained(family)
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    state = torch.get_rng_state()
    one, same, other = (twin_of(loaded, kind, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in loaded.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert equal_names(one, same) == set(parameters(one))
    assert len(equal_names(one, other)) < len(parameters(one))
    places = {value.data_ptr() for value in loaded.model.parameters()}
    assert places.isdisjoint(value.data_ptr() for value in one.model.parameters())


@pytest.mark.parametrize("kind", sorted(TWINS))
def test_a_twin_is_ready_to_be_probed(kind: str) -> None:
    loaded = trained("llama")
    twin = twin_of(loaded, kind)
    assert not twin.model.training
    assert not any(value.requires_grad for value in twin.model.parameters())
    assert twin.file_hash == ""
    assert twin.name == f"llama, {kind} twin, seed 1"
    assert (twin.heads, twin.kv_heads, twin.layers) == (4, 2, 3)
    assert capture(twin, IDS, torch.tensor(POSITIONS)).scores.isfinite().any()


@pytest.mark.parametrize("family", MAIN)
@pytest.mark.parametrize(
    ("kind", "keeps"),
    [("nothing-kept", "none"), ("norms-kept", "norms"), ("norms-and-embeddings-kept", "both")],
)
def test_a_twin_keeps_exactly_what_it_says(family: str, kind: str, keeps: str) -> None:
    """Every parameter of the trained model is off its initialisation, so equal means kept."""
    loaded = trained(family)
    pattern = {
        "none": "^$",
        "norms": NORMS[family],
        "both": f"{NORMS[family]}|{EMBEDDINGS[family]}",
    }[keeps]
    wanted = {name for name in parameters(loaded) if re.search(pattern, name)}
    assert equal_names(loaded, twin_of(loaded, kind)) == wanted
    assert keeps == "none" or wanted


def test_nothing_kept_is_the_architectures_own_initialisation() -> None:
    """GPT-2: matrices normal with sd .02, projections into the residual .02 / sqrt(2 layers)."""
    twin = parameters(twin_of(trained("gpt2"), "nothing-kept"))
    assert_allclose(float(twin["transformer.h.0.attn.c_attn.weight"].std()), 0.02, rtol=0.1)
    projected = float(twin["transformer.h.0.attn.c_proj.weight"].std())
    assert_allclose(projected, 0.02 / 6**0.5, rtol=0.15)
    assert torch.equal(twin["transformer.h.0.ln_1.weight"], torch.ones(32))
    assert not twin["transformer.h.0.attn.c_attn.bias"].any()


@pytest.mark.parametrize("family", [*MAIN, "neox", "phi3"])
def test_shuffled_keeps_every_entry_of_each_matrix_and_every_vector(family: str) -> None:
    loaded = trained(family)
    twin = parameters(twin_of(loaded, "shuffled"))
    fused = {"gpt2": "c_attn.weight", "neox": "query_key_value.weight", "phi3": "qkv_proj.weight"}
    for name, value in parameters(loaded).items():
        if value.dim() == 1:
            assert torch.equal(value, twin[name]), name
            continue
        assert not torch.equal(value, twin[name]), name
        assert torch.equal(entries(value), entries(twin[name])), name
        if name.endswith(fused.get(family, "no fused matrix")):
            axis = 1 if family == "gpt2" else 0
            rows = torch.tensor(FAMILIES[family].rows)
            assert torch.equal(
                entries(value.index_select(axis, rows)),
                entries(twin[name].index_select(axis, rows)),
            ), name


def entries(matrix: Tensor) -> Tensor:
    return matrix.flatten().sort().values


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_score_scale_changes_the_queries_alone_by_one_factor_a_layer(family: str) -> None:
    loaded = trained(family)
    plain = parameters(twin_of(loaded, "norms-and-embeddings-kept"))
    twin = parameters(twin_of(loaded, "score-scale-matched"))
    for name, value in plain.items():
        if not name.endswith(FAMILIES[family].query):
            assert torch.equal(value, twin[name]), name
            continue
        axis = 1 if family == "gpt2" and value.dim() == 2 else 0
        chosen = FAMILIES[family].rows or list(range(value.shape[axis]))
        others = sorted(set(range(value.shape[axis])) - set(chosen))
        old, new = (
            tensor.index_select(axis, torch.tensor(chosen)) + (1 if family == "gemma3" else 0)
            for tensor in (value, twin[name])
        )
        assert torch.equal(
            value.index_select(axis, torch.tensor(others, dtype=torch.long)),
            twin[name].index_select(axis, torch.tensor(others, dtype=torch.long)),
        ), name
        if old.any():  # Biases start at 0.
            factor = float((old * new).sum() / (old * old).sum())
            assert abs(factor - 1) > 1e-3, name
            assert_allclose(new.numpy(), factor * old.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_twins_scores_spread_as_the_trained_models_do(family: str) -> None:
    loaded = trained(family)
    wanted, plain, found = (
        eager_spreads(one)
        for one in (
            loaded,
            twin_of(loaded, "norms-and-embeddings-kept"),
            twin_of(loaded, "score-scale-matched"),
        )
    )
    assert_allclose(found, wanted, rtol=0.003)
    # Under QK-norm the kept gains alone come near.
    if not any("norm" in name for name in FAMILIES[family].query):
        assert np.all(np.abs(plain / wanted - 1) > 0.1)


def eager_spreads(loaded: LoadedModel) -> np.ndarray[Any, Any]:
    """From the family's own attention maps: log-weights are scores up to a constant a row.

    Rows, heads and prompts are walked one by one; hidden keys have weight 0.
    """
    model: Any = loaded.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    maps = model(IDS, output_attentions=True).attentions
    model.set_attn_implementation(before)
    spreads = []
    for layer in maps:
        deviations = [
            np.std([np.log(float(weight)) for weight in layer[prompt, head, row] if weight > 0])
            for prompt in range(len(IDS))
            for head in range(loaded.heads)
            for row in POSITIONS
        ]
        spreads.append(np.mean(deviations))
    return np.array(spreads)


def test_the_spread_of_scores_by_hand() -> None:
    """0, 2 and a hidden key: sd 1. 1, 1, 1: sd 0. A row without keys counts for nothing."""
    hidden = -torch.inf
    rows = torch.tensor([[0.0, 2.0, hidden], [1.0, 1.0, 1.0], [hidden] * 3])
    assert spread_of(rows) == 0.5
    assert np.isnan(spread_of(rows[2:]))


def query_centred_share(model: LoadedModel, ids: Tensor, shared: int) -> float:
    """Of the last row's scores over the shared keys: sd over prompts against sd over keys."""
    rows = capture(model, ids, torch.tensor([ids.shape[1] - 1])).scores[..., 0, :shared].double()
    rows = rows - rows.mean(-1, keepdim=True)
    moved = (rows - rows.mean(0)).pow(2).mean()
    return float((moved / rows.pow(2).mean()).sqrt())


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
def test_a_matched_twin_sees_the_query(family: str) -> None:
    """Prompts that differ in two tokens before the last: its scores over the others move.

    At its own initialisation they move by rounding and little more, in absolute terms.
    """
    loaded = trained(family)
    ids = IDS[:1].repeat(8, 1)
    ids[:, -3:-1] = torch.as_tensor(np.random.default_rng(1).integers(3, VOCABULARY, (8, 2)))
    assert query_centred_share(twin_of(loaded, "score-scale-matched"), ids, 20) > 1e-3


def test_twins_that_cannot_be_made_are_refused() -> None:
    loaded = trained("llama")
    with pytest.raises(Refusal, match="unknown twin 'shufled'; near names: shuffled"):
        make_twin(loaded, "shufled", seed=0)
    with pytest.raises(Refusal, match="needed calibration prompts"):
        make_twin(loaded, "score-scale-matched", seed=0)
    with pytest.raises(Refusal, match=r"came the shape \(24,\)"):
        make_twin(loaded, "score-scale-matched", seed=0, calibration_ids=IDS[0])


def test_scores_that_never_differ_cannot_be_matched() -> None:
    loaded = trained("llama")
    with pytest.raises(Refusal, match="needed scores that differ between keys") as caught:
        make_twin(
            loaded, "score-scale-matched", seed=0, calibration_ids=torch.full((1, 3), 5),
            calibration_positions=[0],
        )  # fmt: skip
    assert caught.value.where == "layer 0"


@pytest.mark.model
def test_smollm2_twins_see_the_query_and_leave_the_model_as_it_was() -> None:
    loaded = load_model("smollm2-135m")
    before = {name: value.clone() for name, value in loaded.model.named_parameters()}
    rng = np.random.default_rng(0)
    lines = "".join("x: {:.2f}; y: {:.2f}\n".format(*rng.uniform(0, 9.99, 2)) for _ in range(8))
    prompts = [f"{lines}x: {x:.2f}; y:" for x in (1.25, 3.5, 4.75, 9.01)]
    ids = torch.tensor([loaded.tokenizer(prompt).input_ids for prompt in prompts])
    shared = len(loaded.tokenizer(lines).input_ids)
    twin = make_twin(loaded, "score-scale-matched", seed=0, calibration_ids=ids)
    assert query_centred_share(twin, ids, shared) > 1e-3
    last = torch.tensor([ids.shape[1] - 1])
    wanted, found = (capture(model, ids, last).scores for model in (loaded, twin))
    for layer in range(loaded.layers):
        spread = spread_of(wanted[:, layer])
        assert spread_of(found[:, layer]) == pytest.approx(spread, rel=0.01)
    for name, value in loaded.model.named_parameters():
        assert torch.equal(value, before[name]), name
