"""What a behavioural row costs over plain forwards of its prompt, without reading the answers.

Both sides run interleaved in one process, order alternating; a ratio is the median over rounds,
and seconds are of this process' own processor time. `plain` is one forward of the library's own
fused attention over the prompt with one query, logits at its last token. `row` is what one size
costs: the context, and each example's y moved up and down, every query answered. `naive` is one
plain forward for each of these prompts: it is counted, not run. The cost of further queries is
`row` at that many over `row` at the first number given.

    python benchmarks/behavioural_row.py --json
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from probes.model_facts import sharing
from probes.models import load_model
from probes.perturbed_prompts import run_variants
from prompts.contexts import ContextSet, draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.numerals import codec_named
from prompts.perturb import answer_pairs
from prompts.perturbed_tokens import moved_prefixes
from prompts.tokens import tokenize_context

GOAL = 24.0
SIZE = 0.5


def tiny_model(tokenizer: Any) -> Any:
    """A random Llama of 4 layers and width 64 with the given tokenizer's vocabulary."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    builder: Any = AutoModelForCausalLM
    model = builder.from_config(config, attn_implementation="sdpa")
    return SimpleNamespace(model=model.eval().requires_grad_(False), tokenizer=tokenizer)


class Prompts:
    """The tokens of a context with so many queries, and of its moved numbers."""

    def __init__(self, drawn: ContextSet, tokenizer: Any) -> None:
        layout = layout_named("line")
        tokens = tokenize_context(drawn, 0, tokenizer, layout=layout)
        pairs = answer_pairs(drawn, 0, size=SIZE)
        moved = moved_prefixes(drawn, 0, tokenizer, layout=layout, tokenized=tokens, pairs=pairs)
        self.prefix, self.suffixes = map(torch.as_tensor, (tokens.prefix, tokens.suffixes))
        self.moved = [torch.as_tensor(batch) for batch in moved]

    def of(self, queries: int) -> tuple[Tensor, Tensor, list[Tensor]]:
        return self.prefix, self.suffixes[:queries], self.moved

    @property
    def first(self) -> Tensor:
        return torch.cat([self.prefix, self.suffixes[0]])[None]


@torch.inference_mode()
def plain(model: Any, ids: Tensor) -> None:
    model(input_ids=ids, use_cache=False, logits_to_keep=1)


def row(model: Any, prompts: Prompts, queries: int) -> None:
    prefix, suffixes, moved = prompts.of(queries)
    how = sharing(model, prompts.first.shape[1] + 8)
    exhaust(run_variants(model, prefix, suffixes, moved, how=how))


def exhaust(runs: Iterator[object]) -> None:
    for _ in runs:
        pass


def seconds_of(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def measured(model: Any, prompts: Prompts, queries: list[int], rounds: int) -> dict[str, Any]:
    """Median seconds of every side, and ratios within a round."""
    sides: dict[str, Callable[[], object]] = {"plain": lambda: plain(model, prompts.first)}
    for count in queries:
        sides[f"row {count}"] = partial(row, model, prompts, count)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name in sorted(sides, reverse=bool(turn % 2)):
            seconds = seconds_of(sides[name])
            if turn:
                taken[name].append(seconds)

    def ratio(over: str, under: str) -> float:
        pairs = zip(taken[over], taken[under], strict=True)
        return statistics.median(a / b for a, b in pairs)

    naive = 2 * len(prompts.moved) + 1
    return {
        "seconds": {name: statistics.median(values) for name, values in taken.items()},
        "forwards": {str(n): ratio(f"row {n}", "plain") for n in queries},
        "naive_forwards": {str(n): naive * n for n in queries},
        "over_one_query": {str(n): ratio(f"row {n}", f"row {queries[0]}") for n in queries},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Behavioural row over plain forwards.")
    parser.add_argument("--models", nargs="+", default=["tiny", "smollm2-135m"])
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    smollm2 = load_model("smollm2-135m")
    design = Design(
        contexts=1,
        examples=options.examples,
        features=options.features,
        queries=max(options.queries),
    )
    drawn = draw_contexts(design, codec_named("unsigned-decimal"), rng=np.random.default_rng(0))
    prompts = Prompts(drawn, smollm2.tokenizer)
    found = {}
    for name in options.models:
        loaded: Any = tiny_model(smollm2.tokenizer) if name == "tiny" else load_model(name)
        found[name] = measured(loaded.model, prompts, options.queries, options.rounds)
    result = {"tokens": prompts.first.shape[1], "threads": options.threads, "goal": GOAL, **found}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['tokens']} tokens, {options.examples} examples, goal {GOAL:g} forwards")
    for name, one in found.items():
        for count, forwards in one["forwards"].items():
            naive = one["naive_forwards"][count]
            print(f"{name:14s} {count} queries: {forwards:6.1f} forwards (naive {naive})")


if __name__ == "__main__":
    main()
