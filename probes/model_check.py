"""Checks a model on this machine: its files read anew, loaded, and asked what it should say."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from probes.anchors import AnchorReading, anchor_of, read_anchor
from probes.models import LoadedModel, load_model
from probes.packaged import refuse_unsound_copy
from probes.registry import BUILT_IN, REGISTRY
from probes.sources import find_source
from probes.weight_files import remembered_sha256
from prompts.refusal import Refusal

PLAIN_ENGLISH = "The capital of France is Paris, and the capital of Germany is Berlin."
_SHA256_DIGITS = 64


@dataclass(frozen=True)
class ModelCheck:
    """What a check found; a model that cannot be used is refused instead.

    `nats_per_token` is the mean surprise at a plain English sentence (None for a built-in model,
    which has seen none), `chance_nats` that of a model which knows nothing (the log of its
    vocabulary's size). `anchors` is empty where none are registered.
    """

    name: str
    source: str
    file_hash: str
    files: int
    bytes: int
    nats_per_token: float | None
    chance_nats: float
    anchors: tuple[AnchorReading, ...]


def check_model(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> ModelCheck:
    """Reads a model's files anew, loads it in float32 and asks it for its anchors.

    Refuses what is missing or damaged, weights whose hash is not the recorded one, anchors that
    are missed, and logits that are not finite.
    """
    if name in REGISTRY:
        refuse_unsound_copy(REGISTRY[name], anew=True)
    source = find_source(name, revision=revision)
    for path in source.weights:
        _refuse_other_blob(path, remembered_sha256(path, anew=True))
    loaded = load_model(name, revision=revision, trust_remote_code=trust_remote_code)
    anchor = anchor_of(loaded.file_hash)
    return ModelCheck(
        name=name,
        source=loaded.source,
        file_hash=loaded.file_hash,
        files=len(source.weights),
        bytes=sum(path.stat().st_size for path in source.weights),
        nats_per_token=None if name in BUILT_IN else nats_per_token(loaded),
        chance_nats=math.log(loaded.model.config.get_text_config().vocab_size),
        anchors=read_anchor(loaded.model, loaded.tokenizer, anchor) if anchor else (),
    )


def _refuse_other_blob(path: Path, sha256: str) -> None:
    """The Hub's cache names a weight file by its SHA-256 and links to it."""
    blob = path.resolve().name
    if path.is_symlink() and len(blob) == _SHA256_DIGITS and blob != sha256:
        raise Refusal(f"damaged: SHA-256 {sha256}, expected {blob}", where=str(path))


def nats_per_token(loaded: LoadedModel, *, lead: int | None = None) -> float:
    """Mean surprise at a plain English sentence; `lead`: one more token in front, not counted."""
    ids = loaded.tokenizer(PLAIN_ENGLISH, return_tensors="pt").input_ids
    if lead is not None:
        ids = torch.cat([torch.tensor([[lead]]), ids], 1)
    ids = ids.to(loaded.model.device)
    first = 0 if lead is None else 1
    with torch.no_grad():
        logits = loaded.model(ids).logits[0, first:-1].float()
    nats = float(torch.nn.functional.cross_entropy(logits, ids[0, first + 1 :]))
    if not math.isfinite(nats):
        raise Refusal("the model's logits are not finite numbers", where=loaded.name)
    return nats
