"""What reading the exact distributions of a context's answers costs over running its prompts.

Both sides run interleaved in one process, order alternating. `forward` is the shared-prefix
forward of all prompts of a context, `reading` that forward and the walk over the digit tree;
`ratio` is the median over contexts and rounds of one round's two times, by the clock, and
`processor_ratio` by this process' own processor time.

    python benchmarks/reading.py --json
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from timed_run import Taken, timed

from probes.blocks import Ask, run_blocks
from probes.model_facts import sharing
from probes.models import LoadedModel, load_model
from probes.reading import Reading, read_context
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.number_grammar import grammar_of_contexts
from prompts.numerals import codec_named
from prompts.tokens import TokenizedContext, tokenize_all

GOAL = 3.0


def forward(loaded: LoadedModel, tokenized: TokenizedContext) -> None:
    """The prompts of a context, their prefix run once."""
    prefix, suffixes = torch.as_tensor(tokenized.prefix), torch.as_tensor(tokenized.suffixes)
    ask = Ask(prefix, suffixes, None, lambda rows: None, go_on=False)
    length = len(prefix) + suffixes.shape[1]
    for _ in run_blocks(loaded.model, ask, how=sharing(loaded.model, length)):
        pass


def costs(options: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of both sides, their ratios, and what was read."""
    loaded = load_model(options.model)
    design = Design(
        contexts=options.contexts,
        examples=options.examples,
        queries=options.queries,
        features=options.features,
    )
    codec, layout = codec_named(options.codec), layout_named("line")
    drawn = draw_contexts(design, codec, rng=np.random.default_rng(0))
    began = time.perf_counter()
    grammar = grammar_of_contexts(drawn, loaded.tokenizer, layout=layout)
    built = time.perf_counter() - began
    read: list[Reading] = []
    taken: dict[str, list[Taken]] = {"forward": [], "reading": []}
    every = tokenize_all(drawn, loaded.tokenizer, layout=layout)
    forward(loaded, every[0])
    for turn, tokenized in enumerate(every * options.rounds):
        sides: dict[str, Callable[[], object]] = {
            "forward": lambda t=tokenized: forward(loaded, t),  # type: ignore[misc]
            "reading": lambda t=tokenized: read.extend(  # type: ignore[misc]
                read_context(loaded, t, grammar, mass=options.mass)
            ),
        }
        for name in sorted(sides, reverse=bool(turn % 2)):
            taken[name].append(timed(sides[name]))
    return {"grammar_seconds": built, **_summary(taken), **_read(read)}


def _summary(taken: dict[str, list[Taken]]) -> dict[str, Any]:
    ratios = {
        kind: statistics.median(
            getattr(ours, kind) / getattr(plain, kind)
            for ours, plain in zip(taken["reading"], taken["forward"], strict=True)
        )
        for kind in Taken._fields
    }
    return {
        "seconds": {name: statistics.median(t.clock for t in of) for name, of in taken.items()},
        "ratio": ratios["clock"],
        "processor_ratio": ratios["processor"],
    }


def _read(read: list[Reading]) -> dict[str, Any]:
    return {
        "answers": len(read),
        "numbers_an_answer": statistics.mean(len(one.values) for one in read),
        "unexplored": max(one.unexplored for one in read),
        "outside": statistics.mean(one.outside for one in read),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Exact readings over a shared-prefix forward.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--codec", default="unsigned-decimal")
    parser.add_argument("--contexts", type=int, default=4)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mass", type=float, default=0.99)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = {**vars(options), "goal": GOAL, **costs(options)}
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result["seconds"].items():
        print(f"{name:10s} {value:.3f} s a context")
    print(f"ratio {result['ratio']:.2f} (goal at most {GOAL:g}), {result['answers']} answers")


if __name__ == "__main__":
    main()
