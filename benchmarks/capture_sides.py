"""The models, prompts and sides of the capture benchmark: ours, a plain forward, and the peers.

Each side is built on a model of its own and gives a function of a context. A peer runs the whole
prompt of the context's first query, without gradients, and returns the pattern's last row,
(layer, head, key). Peers keep what their calls keep; nnsight, whose trace takes code, that row.
"""

import tempfile
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from probes.models import load_model
from probes.overhead import plain_forward
from probes.rows import PARTS, context_rows

SUFFIX, LINE = 14, 19  # Tokens of a query and of an example with P = 2, in the default layout.


class Shape(NamedTuple):
    """A context in tokens: lines of examples, behind as many others as fill the prompt."""

    name: str
    prompt_tokens: int
    queries: int
    examples: int

    @property
    def unique_tokens(self) -> int:
        return self.prompt_tokens + (self.queries - 1) * SUFFIX


def long_prompt(tokens: int) -> Shape:
    return Shape(f"{tokens} tokens", tokens, 8, (tokens - SUFFIX) // LINE)


STUDY = Shape("default study", 20 * LINE + SUFFIX, 8, 20)


class Tokenized(NamedTuple):
    """What capture needs of a context."""

    prefix: NDArray[np.int64]
    suffixes: NDArray[np.int64]
    parts: Mapping[str, NDArray[np.int64]]
    prefix_answers: NDArray[np.int64]


def context_of(shape: Shape, vocabulary: int, *, queries: int) -> Tokenized:
    """Random tokens, whose cost is that of any others, with the default layout's places."""
    rng = np.random.default_rng(0)
    length = shape.prompt_tokens - SUFFIX
    lines = np.arange(shape.examples * LINE).reshape(shape.examples, LINE)
    lines += length - lines.size
    places = (lines[:, 3:11], lines[:, 14:18], lines[:, 18:], lines)
    return Tokenized(
        rng.integers(3, vocabulary, length),
        rng.integers(3, vocabulary, (queries, SUFFIX)),
        dict(zip(PARTS, places, strict=True)),
        lines[:, 13],
    )


def _llama(**sizes: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=1024, max_position_embeddings=8192, architectures=["LlamaForCausalLM"], **sizes
    )


RANDOM: dict[str, Callable[[], LlamaConfig]] = {
    "wide-llama": lambda: _llama(
        hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=32
    ),
    "tiny-llama": lambda: _llama(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    ),
}


def build_model(name: str, *, eager: bool = False) -> Any:
    """A random model of this module, the same every time, or one that `load_model` knows."""
    if name not in RANDOM:
        return load_model(name, attention="eager" if eager else "fast").model
    torch.manual_seed(0)
    builder: Any = AutoModelForCausalLM
    kind = "eager" if eager else "sdpa"
    model = builder.from_config(RANDOM[name](), attn_implementation=kind)
    return model.eval().requires_grad_(False)


def _prompt(tokens: Tokenized) -> Tensor:
    return torch.as_tensor(np.concatenate([tokens.prefix, tokens.suffixes[0]]))[None]


Run = Callable[[Tokenized], Any]


def ours(name: str, model: Any = None) -> Run:
    """Query rows of every query: no T x T map, no logits but where answers are read."""
    loaded = SimpleNamespace(model=model or build_model(name), tokenizer=None)
    return lambda tokens: context_rows(loaded, tokens, prefix_rows=False, answer_tokens=0)


def plain(name: str, model: Any = None) -> Run:
    """One fused forward of the context's unique tokens, with one logit vector a query."""
    model = model or build_model(name)
    return lambda tokens: plain_forward(model, tokens)


def hf_eager(name: str, *, every_logit: bool = True) -> Run:
    """transformers' own maps."""
    model = build_model(name, eager=True)
    options = {} if every_logit else {"logits_to_keep": 1}

    @torch.no_grad()
    def run(tokens: Tokenized) -> Tensor:
        found = model(input_ids=_prompt(tokens), output_attentions=True, use_cache=False, **options)
        return torch.stack([layer[0, :, -1] for layer in found.attentions])

    return run


def tl_cache(name: str) -> Run:
    """transformer-lens' cache of patterns, on a model that its bridge rewires."""
    from transformer_lens.model_bridge import TransformerBridge

    model = build_model(name)
    known = "meta-llama/Llama-3.2-1B" if name in RANDOM else "HuggingFaceTB/SmolLM2-135M-Instruct"
    with tempfile.TemporaryDirectory() as folder:
        bridge: Any = TransformerBridge.boot_transformers(
            known, hf_model=model, tokenizer=_tokenizer(folder)
        )
    layers = model.config.num_hidden_layers

    @torch.no_grad()
    def run(tokens: Tokenized) -> Tensor:
        _, cache = bridge.run_with_cache(
            _prompt(tokens), names_filter=lambda hook: hook.endswith("attn.hook_pattern")
        )
        maps = [cache[f"blocks.{layer}.attn.hook_pattern"] for layer in range(layers)]
        return torch.stack([layer[0, :, -1] for layer in maps])

    return run


def _tokenizer(folder: str) -> Any:
    """The bridge wants one that lies in a folder; prompts are given as ids, so any will do."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    words = {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3}
    small = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    small.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def nnsight(name: str) -> Run:
    """nnsight's trace of the source of each layer's attention, its pattern's last row saved."""
    from nnsight import NNsight

    traced: Any = NNsight(build_model(name, eager=True))

    @torch.no_grad()
    def run(tokens: Tokenized) -> Tensor:
        ids = _prompt(tokens)
        with traced.trace(input_ids=ids, use_cache=False):
            rows = [].save()  # type: ignore[attr-defined]
            for layer in traced.model.layers:
                weights = layer.self_attn.source.attention_interface_1.output[1]
                rows.append(weights[0, :, -1].clone())
        return torch.stack(list(rows))

    return run


PEERS: dict[str, Callable[[str], Run]] = {
    "tl_cache": tl_cache,
    "hf_eager": hf_eager,
    "hf_eager_one_logit": lambda name: hf_eager(name, every_logit=False),
    "nnsight": nnsight,
}
SIDES: dict[str, Callable[[str], Run]] = {"ours": ours, "plain_forward": plain, **PEERS}
