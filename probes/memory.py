"""How many queries run at once, and how, so that a study keeps within a memory budget."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from probes.model_facts import (
    Sharing,
    attention_layers,
    attention_path,
    keeps_few_logits,
    layer_types,
    model_name,
    sharing,
    text_config,
    window,
)
from probes.scores import BLOCK_ELEMENTS
from probes.shape import model_shape
from prompts.refusal import Refusal

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")

# What the allocator holds beyond the tensors that are alive at once.
_SLACK, _SLACK_BYTES = 1.2, 24 << 20
_FLOAT = 4
_PARTS_AND_KINDS = 8


class Prompts(NamedTuple):
    """What one context asks for, in tokens.

    `prefix`, `suffix`, `answer`: tokens of the shared beginning, of a query, of an answer (0: none
    is read). `queries`: how many. `rows`: prefix positions whose rows are kept; `examples`: what
    each row is reduced to.
    """

    prefix: int
    suffix: int
    queries: int
    answer: int = 0
    rows: int = 0
    examples: int = 0


class Plan(NamedTuple):
    """How a context is run: `block` queries at once, sharing the prefix as `sharing` says.

    `bytes` is what that takes over the loaded model, at most.
    """

    sharing: Sharing
    block: int
    bytes: int


def parse_bytes(text: str) -> int:
    """An amount of memory such as 4GB, 800 MB or 2GiB, in bytes."""
    found = _AMOUNT.fullmatch(text.strip())
    units = {name.lower(): size for name, size in _UNITS.items()}
    if found is None or found[2].lower() not in units:
        raise Refusal(f"needed an amount of memory such as 4GB, 800MB or 2GiB, came {text!r}")
    amount = int(float(found[1]) * units[found[2].lower()])
    if not amount:
        raise Refusal(f"needed an amount of memory above 0, came {text!r}")
    return amount


def said_bytes(count: int) -> str:
    """An amount for people, rounded up, in the unit that `parse_bytes` reads."""
    return f"{-(-count // 10**6)}MB"


def free_bytes(device: torch.device) -> int:
    """Memory that is free on this device now; on a CPU within the limit of its container too."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min([*_of_machine(), *_of_container()])


def _of_machine(file: Path = Path("/proc/meminfo")) -> Iterator[int]:
    """What the system says is available; half of all memory where it does not say so."""
    try:
        (line,) = (x for x in file.read_text().splitlines() if x.startswith("MemAvailable:"))
        yield int(line.split()[1]) * 1024
    except (OSError, ValueError):
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _of_container(folder: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    try:
        limit = int((folder / "memory.max").read_text())
        yield max(0, limit - int((folder / "memory.current").read_text()))
    except (OSError, ValueError):  # No such limit, or none at all ("max").
        return


def default_budget(device: torch.device) -> int:
    """Half of what is free."""
    return free_bytes(device) // 2


def plan(model: Any, prompts: Prompts, *, budget: int | None = None) -> Plan:
    """The fastest way to run a context that stays within `budget` bytes over the loaded model.

    All queries at once, packed where that is exact; else on a cache of the prefix, as many at once
    as there is room for. None: no limit. Refuses a budget in which not even one query can run.
    """
    length = prompts.prefix + prompts.suffix + prompts.answer
    how = sharing(model, length)
    sizes = _sizes(model)
    every = Plan(how, prompts.queries, need(sizes, prompts, how, prompts.queries))
    if budget is None or every.bytes <= budget:
        return every
    how = "cached" if how == "packed" else how
    least = need(sizes, prompts, how, 1)
    if least > budget:
        raise Refusal(
            f"needed at least {said_bytes(least)} of memory over the loaded model for one query "
            f"of {length} tokens, came a budget of {said_bytes(budget)}",
            where=model_name(model),
        )
    block = 1
    while block < prompts.queries and need(sizes, prompts, how, block + 1) <= budget:
        block += 1
    return Plan(how, block, need(sizes, prompts, how, block))


class Sizes(NamedTuple):
    """What one token takes in a model, in numbers of its type, and the bytes of one of these.

    `hidden`: the stream; `widest`: the widest layer's output; `query`, `key`: all heads together.
    `all_logits`: they are made for every token. `maps`: whole maps are held (the eager path).
    `windowed`: masks are made. `own_rows`: no fused kernel knows the layers' rule. `recurrent`:
    some layers are no attention, and compute in float32.
    """

    bytes: int
    hidden: int
    widest: int
    heads: int
    query: int
    key: int
    layers: int
    words: int
    all_logits: bool
    maps: bool
    windowed: bool
    own_rows: bool
    recurrent: bool


def _sizes(model: Any) -> Sizes:
    config, shape = text_config(model), model_shape(model.config)
    hidden = int(config.hidden_size)
    size = int(getattr(config, "head_dim", None) or hidden // shape.heads)
    output = model.get_output_embeddings()
    widths = [
        max(module.weight.shape)
        for module in model.modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not output
    ]
    experts = [max(p.shape[1:]) for p in model.parameters() if p.dim() == 3]
    chosen = int(getattr(config, "num_experts_per_tok", None) or 1)
    return Sizes(
        bytes=model.dtype.itemsize,
        hidden=hidden,
        widest=max([hidden, *widths, *(chosen * width for width in experts)]),
        heads=shape.heads,
        query=shape.heads * size,
        key=shape.kv_heads * size,
        layers=len(attention_layers(model)),
        words=int(config.vocab_size),
        all_logits=not keeps_few_logits(model),
        maps=attention_path(model) == "eager",
        windowed=window(model) is not None,
        own_rows=getattr(config, "attn_logit_softcapping", None) is not None
        or any(name.endswith("sinks") for name, _ in model.named_parameters()),
        recurrent=len(attention_layers(model)) < len(layer_types(model)),
    )


def need(sizes: Sizes, prompts: Prompts, how: Sharing, block: int) -> int:
    """Bytes over the loaded model that `block` queries at once take, at most.

    The largest of what is alive at once: the prefix' forward, or a block's; with the keys and
    values that are held, the rows that are kept, and the logits.
    """
    block = min(block, prompts.queries)
    queries = block * prompts.suffix
    if how == "whole":
        whole = prompts.prefix + prompts.suffix + prompts.answer
        peak = _forward(sizes, block * whole, whole, block * prompts.rows)
        if sizes.maps:
            peak += (sizes.layers * sizes.bytes + 3 * _FLOAT) * block * sizes.heads * whole**2
    elif how == "packed":
        tokens = prompts.prefix + queries
        peak = _forward(sizes, tokens, prompts.prefix, prompts.rows) + _tails(sizes, prompts, block)
        peak += 2 * tokens**2 + _cache(sizes, tokens)
    else:
        of_prefix = _forward(sizes, prompts.prefix, prompts.prefix, prompts.rows)
        of_block = _forward(sizes, queries, prompts.prefix, 0) + _tails(sizes, prompts, block)
        held = prompts.prefix + block * (prompts.suffix + prompts.answer)
        if how == "expanded":
            held += 2 * block * prompts.prefix
        peak = max(of_prefix, of_block) + _cache(sizes, held)
    return (
        int(_SLACK * (peak + _logits(sizes, prompts, how, block) + _kept(sizes, prompts)))
        + _SLACK_BYTES
    )


def _forward(sizes: Sizes, tokens: int, keys: int, rows: int) -> int:
    """Activations of one layer, and scores and weights of the asked rows."""
    numbers = 6 * sizes.hidden + 3 * sizes.widest + 4 * sizes.query + 4 * sizes.key
    if sizes.recurrent:
        numbers = numbers * 2 * _FLOAT // sizes.bytes
    asked = 5 * _FLOAT * rows * sizes.heads * keys
    masks = (1 + _FLOAT) * keys**2 if sizes.windowed else 0
    own = 3 * _FLOAT * min(BLOCK_ELEMENTS, sizes.heads * tokens * keys) if sizes.own_rows else 0
    return sizes.bytes * tokens * numbers + asked + masks + own


def _tails(sizes: Sizes, prompts: Prompts, block: int) -> int:
    """Scores and weights of the queries' tokens, which are computed in blocks of rows."""
    row = block * sizes.heads * (prompts.prefix + prompts.suffix)
    return 3 * _FLOAT * min(row * prompts.suffix, max(row, BLOCK_ELEMENTS))


def _cache(sizes: Sizes, tokens: int) -> int:
    return 2 * sizes.bytes * sizes.layers * sizes.key * tokens


def _logits(sizes: Sizes, prompts: Prompts, how: Sharing, block: int) -> int:
    rows = block
    if sizes.all_logits:
        own = block * (prompts.suffix + (prompts.prefix if how == "whole" else 0))
        rows = max(own, prompts.prefix)
    return 3 * _FLOAT * rows * sizes.words


def _kept(sizes: Sizes, prompts: Prompts) -> int:
    """Rows of all layers reduced to examples, three times, and what reduces them."""
    row = _PARTS_AND_KINDS * prompts.examples * sizes.heads * sizes.layers
    reducing = prompts.prefix * _PARTS_AND_KINDS * prompts.examples
    return _FLOAT * (3 * (prompts.rows + prompts.queries) * row + reducing)
