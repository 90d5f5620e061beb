"""Reads a model and its tokenizer from a folder or a GGUF file: no network, no remote code."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    modeling_gguf_pytorch_utils,
)
from transformers.utils import logging as transformers_logging

from probes.quantised import quantisation
from prompts.refusal import Refusal, unknown_name

Attention = Literal["fast", "eager"]
_UNREADABLE = (
    ValueError,
    OSError,
    KeyError,
    ImportError,
    RuntimeError,
    TypeError,
    AttributeError,
    SafetensorError,
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Reading(NamedTuple):
    """How a model is read: number type, device, attention, whose code may run, quantisation."""

    dtype: str = "float32"
    device: str = "cpu"
    attention: Attention = "fast"
    trust_remote_code: bool = False
    quantize: str | None = None


class ReadModel(NamedTuple):
    """A model in evaluation mode, without gradients, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: Any


def read_model(folder: Path, reading: Reading, *, gguf_file: str | None = None) -> ReadModel:
    """The model and tokenizer in `folder`, or those in its file `gguf_file`.

    A family whose attention cannot be reached through transformers' interface is built with
    eager attention, the only kind that shows its maps. Refuses a model with weights that the
    files lack or hold in another shape, and an architecture that is not a causal language model.
    """
    where = str(folder / gguf_file) if gguf_file else str(folder)
    options: dict[str, Any] = {
        "local_files_only": True,
        "trust_remote_code": reading.trust_remote_code,
        **({"gguf_file": gguf_file} if gguf_file else {}),
    }
    with quiet():
        try:
            model, lacking = _weights(folder, reading, options)
            if not model._can_set_attn_implementation() and reading.attention != "eager":
                model, lacking = _weights(folder, reading._replace(attention="eager"), options)
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        except _UNREADABLE as error:
            raise _unreadable(error, where) from error
    _refuse_incomplete(lacking, where)
    if gguf_file:
        # The weights are plain numbers by now; saving and copying refuse a model that still
        # calls itself quantised.
        model.hf_quantizer = None
        vars(model.config).pop("quantization_config", None)
    return ReadModel(_ready(model, reading), tokenizer)


def _weights(folder: Path, reading: Reading, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    quantised = quantisation(reading.quantize, dtype=dtype_named(reading.dtype))
    if quantised and "gguf_file" in options:
        raise Refusal("a GGUF file is quantised already; came a further quantisation")
    how = _de_quantised() if "gguf_file" in options else {"use_safetensors": True, **quantised}
    family: Any = AutoModelForCausalLM
    model, lacking = family.from_pretrained(
        folder,
        config=_config(folder, options),
        dtype=dtype_named(reading.dtype),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # Refused afterwards, by name.
        **how,
        **_attention(reading.attention),
        **_placement(reading.device),
        **options,
    )
    return model, lacking


def _ready(model: Any, reading: Reading) -> PreTrainedModel:
    if reading.device.startswith("cuda") and reading.quantize is None:
        model.to(reading.device)
    model.eval()
    model.requires_grad_(False)
    ready: PreTrainedModel = model
    return ready


def dtype_named(name: str) -> torch.dtype:
    """The torch number type of this name; an unknown name lists the near ones."""
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    return DTYPES[name]


def refuse_missing_device(device: str) -> None:
    """Refuses a device that is not cpu, auto, cuda or cuda:N, or that this machine lacks."""
    kind, _, number = device.partition(":")
    known = device in ("cpu", "auto", "cuda") or (kind == "cuda" and number.isdigit())
    if not known:
        raise unknown_name("device", device, ["cpu", "cuda", "cuda:0", "auto"])
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if count <= int(number or 0):
        raise Refusal(f"device {device!r} was asked for, and torch sees {count} CUDA devices here")


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers' progress bars and notes off standard error while a model is read."""
    log: Any = transformers_logging
    gguf: Any = modeling_gguf_pytorch_utils
    bars, verbosity, gguf_bar = log.is_progress_bar_enabled(), log.get_verbosity(), gguf.tqdm
    log.disable_progress_bar()
    log.set_verbosity_error()
    # De-quantising draws its bar past transformers' own switch.
    gguf.tqdm = partial(gguf_bar, disable=True)
    try:
        yield
    finally:
        gguf.tqdm = gguf_bar
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


def _config(folder: Path, options: dict[str, Any]) -> Any:
    config = AutoConfig.from_pretrained(folder, **options)
    for part in {id(one): one for one in (config, config.get_text_config())}.values():
        window = getattr(part, "sliding_window", None)
        if isinstance(window, int) and window <= 0:
            # Files write 0 or -1 for "no window"; eager attention crashes on either.
            part.sliding_window = None
    return config


def _attention(attention: str) -> dict[str, str]:
    if attention not in ("fast", "eager"):
        raise unknown_name("attention", attention, ["fast", "eager"])
    # Fast: the family's own default, which is the fused kernel wherever it supports one.
    return {"attn_implementation": "eager"} if attention == "eager" else {}


def _de_quantised() -> dict[str, Any]:
    """Newer versions of transformers keep the blocks of a GGUF file where they can."""
    settings: Any = getattr(transformers, "GgufConfig", None)
    return {} if settings is None else {"quantization_config": settings(dequantize=True)}


def _placement(device: str) -> dict[str, str]:
    return {"device_map": "auto"} if device == "auto" else {}


def _refuse_incomplete(info: dict[str, Any], where: str) -> None:
    for kind, said in (("missing_keys", "lack"), ("mismatched_keys", "hold in another shape")):
        names = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info[kind])
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            sentence = (
                f"the files {said} weights that the model needs: {', '.join(names[:3])}{more}"
            )
            raise Refusal(sentence, where=where)


def _unreadable(error: Exception, where: str) -> Refusal:
    if isinstance(error, Refusal):
        return error
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return Refusal(
            "this model brings its own code, which runs only when trusted: "
            "trust_remote_code (--trust-remote-code)",
            where=where,
        )
    if "Unrecognized configuration class" in text:
        return Refusal(
            "needed a causal language model; transformers has none for this configuration",
            where=where,
        )
    return Refusal(
        f"transformers {transformers.__version__} cannot read this model: {text[:300]}",
        where=where,
    )
