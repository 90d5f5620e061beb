"""Untrained twins: models of the same architecture and tokenizer without the learned computation.

What a trained model's attention shows says something only where its twins do not show it too.
A twin is a new model; the trained one is read and never changed.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from probes.models import LoadedModel
from probes.query_weights import FusedParts, fused_parts, output_axis
from probes.read_model import quiet
from probes.score_scale import Prompts, match_spreads, score_spreads
from prompts.refusal import Refusal, unknown_name


class Request(NamedTuple):
    """What a twin is made with: the seed of its randomness, and prompts to match scores on."""

    seed: int
    prompts: Prompts | None = None


Twin = Callable[[PreTrainedModel, Request], PreTrainedModel]


def nothing_kept(trained: PreTrainedModel, request: Request) -> PreTrainedModel:
    """Every parameter drawn anew by the architecture's own initialisation."""
    config = copy.deepcopy(trained.config)
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        build: Any = type(trained)._from_config
        twin: PreTrainedModel = build(config, dtype=trained.dtype)
    return _ready(twin, trained)


def norms_kept(trained: PreTrainedModel, request: Request) -> PreTrainedModel:
    """As `nothing_kept`, with the trained gains and offsets of every normalisation layer."""
    twin = nothing_kept(trained, request)
    _copy(trained, twin, names=_norms(trained))
    return twin


def norms_and_embeddings_kept(trained: PreTrainedModel, request: Request) -> PreTrainedModel:
    """As `norms_kept`, with the trained token and position embeddings and the output matrix."""
    twin = norms_kept(trained, request)
    _copy(trained, twin, names=_embeddings(trained))
    return twin


def shuffled(trained: PreTrainedModel, request: Request) -> PreTrainedModel:
    """The trained model with the entries of each matrix in random order, embeddings included.

    Vectors (norms, biases) stay. In a fused matrix queries, keys and values are shuffled each
    within their own part, in a stack of experts each expert within itself.
    """
    twin = _ready(copy.deepcopy(trained), trained)
    generator = torch.Generator().manual_seed(request.seed)
    _shuffle_matrices(twin, generator)
    return twin


def score_scale_matched(trained: PreTrainedModel, request: Request) -> PreTrainedModel:
    """As `norms_and_embeddings_kept`, with queries rescaled to the trained spread of scores.

    At default initialisation attention hardly depends on content, so that a twin without this
    could not show what a trained model shows. Per layer, W_Q (under QK-norm: the gain of the
    query's norm) takes the factor which gives the scores the trained model's standard deviation
    over keys, from the first layer to the last, to 1 %.
    """
    if request.prompts is None:
        raise Refusal("needed calibration prompts for a score-scale-matched twin, came none")
    twin = norms_and_embeddings_kept(trained, request)
    match_spreads(twin, score_spreads(trained, request.prompts), request.prompts)
    return twin


TWINS: Mapping[str, Twin] = MappingProxyType(
    {
        "nothing-kept": nothing_kept,
        "norms-kept": norms_kept,
        "norms-and-embeddings-kept": norms_and_embeddings_kept,
        "shuffled": shuffled,
        "score-scale-matched": score_scale_matched,
    }
)


def make_twin(
    loaded: LoadedModel,
    kind: str,
    *,
    seed: int,
    calibration_ids: Any = None,
    calibration_positions: Any = None,
) -> LoadedModel:
    """The untrained twin of this kind: same architecture, tokenizer, number type and device.

    `calibration_ids` (prompt, token) are prompts of the study, and `calibration_positions` those
    whose scores are matched (default: the last token's); only a score-scale-matched twin reads
    them. The same seed gives the same twin. Its `file_hash` is "", since it comes from no file.
    """
    if kind not in TWINS:
        raise unknown_name("twin", kind, TWINS)
    if any(parameter.is_meta for parameter in loaded.model.parameters()):
        raise Refusal(
            "needed a model whose weights are in memory, not offloaded", where=loaded.name
        )
    prompts = _prompts(calibration_ids, calibration_positions)
    twin = TWINS[kind](loaded.model, Request(seed, prompts))
    return replace(
        loaded,
        name=f"{loaded.name}, {kind} twin, seed {seed}",
        model=twin,
        file_hash="",
        source=f"{kind} twin of {loaded.source}",
    )


def _prompts(ids: Any, positions: Any) -> Prompts | None:
    if ids is None:
        return None
    tokens = torch.as_tensor(ids, dtype=torch.int64)
    if tokens.dim() != 2 or tokens.shape[1] < 2:
        raise Refusal(
            f"needed calibration prompts (prompt, token) of 2 tokens or more, came the shape "
            f"{tuple(tokens.shape)}"
        )
    last = [tokens.shape[1] - 1]
    return Prompts(tokens, torch.as_tensor(last if positions is None else positions))


def _ready(twin: Any, trained: PreTrainedModel) -> PreTrainedModel:
    placed = getattr(trained, "hf_device_map", {})
    if len(set(placed.values())) > 1:
        from accelerate import dispatch_model  # type: ignore[import-untyped]

        twin = dispatch_model(twin, device_map=placed)
    else:
        twin.to(trained.device)
    twin.eval()
    twin.requires_grad_(False)
    ready: PreTrainedModel = twin
    return ready


@torch.no_grad()
def _copy(trained: PreTrainedModel, twin: PreTrainedModel, *, names: list[str]) -> None:
    source = dict(trained.named_parameters())
    target = dict(twin.named_parameters())
    for name in names:
        target[name].copy_(source[name])


def _norms(model: PreTrainedModel) -> list[str]:
    """Names of the parameters of normalisation layers."""
    return _parameters_of(
        model, {id(module) for module in model.modules() if "norm" in type(module).__name__.lower()}
    )


def _embeddings(model: Any) -> list[str]:
    """Names of the parameters of embeddings (tokens, positions) and of the output matrix."""
    chosen = {id(module) for module in model.modules() if isinstance(module, nn.Embedding)}
    chosen |= {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    return _parameters_of(model, chosen)


def _parameters_of(model: PreTrainedModel, chosen: set[int]) -> list[str]:
    """Names of the parameters that the chosen modules own; a tied one counts once."""
    unique = {name for name, _ in model.named_parameters()}
    return [
        f"{path}.{name}"
        for path, module in model.named_modules()
        if id(module) in chosen
        for name, _ in module.named_parameters(recurse=False)
        if f"{path}.{name}" in unique
    ]


@torch.no_grad()
def _shuffle_matrices(model: PreTrainedModel, generator: torch.Generator) -> None:
    fused = _fused_by_parameter(model)
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            continue
        axis, parts = fused.get(name, (0, (torch.arange(len(parameter)),)))
        for part in (part.to(parameter.device) for part in parts):
            mixed = _in_random_order(parameter.index_select(axis, part), generator)
            parameter.index_copy_(axis, part, mixed)


def _fused_by_parameter(model: PreTrainedModel) -> dict[str, tuple[int, FusedParts]]:
    """Weights that hold queries, keys and values in one: their output axis and the three parts."""
    return {
        f"{path}.{child}.weight": (output_axis(getattr(module, child)), parts)
        for path, module in model.named_modules()
        for child, parts in fused_parts(module, config=model.config).items()
    }


def _in_random_order(values: Tensor, generator: torch.Generator) -> Tensor:
    """The entries of a matrix in random order; of a stack of matrices each within itself."""
    if values.dim() > 2:
        return torch.stack([_in_random_order(one, generator) for one in values])
    order = torch.randperm(values.numel(), generator=generator).to(values.device)
    return values.flatten()[order].view_as(values)
