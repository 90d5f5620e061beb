"""What capture costs over a plain fused forward of the same unique tokens.

All sides run interleaved in one process, order alternating; a ratio is the median over rounds of
one round's two times. `plain_forward` is one forward of the library's own fused attention over as
many tokens as a context has unique ones (its prefix and its queries' own tokens), with logits at as
many positions as there are queries; `default_forward` has logits at every position, as a call
without options has. `ours_query_rows` gives the rows of every query, `ours` also those of every
example's own answer position. `overhead` is ours_query_rows over plain_forward.

    python benchmarks/capture_overhead.py --json
"""

import argparse
import json
import statistics
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from timed_run import Taken, timed
from torch import Tensor

from probes.models import LoadedModel, load_model
from probes.rows import context_rows

GOAL = 1.05


def tokenized_context(tokenizer: Any, *, examples: int, features: int, queries: int) -> Any:
    """A context in the line layout, two-decimal numerals, each digit a token of its own."""
    rng = np.random.default_rng(0)

    def line() -> str:
        numbers = [f"{value:.2f}" for value in rng.uniform(0, 9.99, features + 1)]
        return f"x: {', '.join(numbers[:-1])}; y: {numbers[-1]}\n"

    lines = [tokenizer(line(), add_special_tokens=False).input_ids for _ in range(examples)]
    width = len(lines[0])
    asked = [tokenizer(line(), add_special_tokens=False).input_ids for _ in range(queries)]
    place = np.arange(examples * width).reshape(examples, width)
    return SimpleNamespace(
        prefix=np.array(lines).reshape(-1),
        suffixes=np.array(asked)[:, : width - 5],
        parts={
            "x": place[:, 3 : width - 9],
            "y": place[:, width - 5 : width - 1],
            "separator": place[:, width - 1 :],
            "all": place,
        },
        prefix_answers=place[:, width - 6],
    )


@torch.inference_mode()
def plain_forward(model: Any, ids: Tensor, logits: int) -> None:
    model(input_ids=ids, use_cache=False, logits_to_keep=logits)


def summary(taken: dict[str, list[Taken]], kind: str) -> dict[str, Any]:
    """Median and fastest seconds of both sides, and their ratios."""
    seconds = {name: [getattr(run, kind) for run in runs] for name, runs in taken.items()}
    ratios = {
        f"{ours}/{plain}": statistics.median(
            a / b for a, b in zip(seconds[ours], seconds[plain], strict=True)
        )
        for ours in ("ours", "ours_query_rows")
        for plain in ("plain_forward", "default_forward")
    }
    fastest = {name: min(values) for name, values in seconds.items()}
    return {
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "fastest_seconds": fastest,
        "overhead": ratios["ours_query_rows/plain_forward"],
        "ratios": ratios,
        "overhead_of_fastest": fastest["ours_query_rows"] / fastest["plain_forward"],
    }


def overhead(loaded: LoadedModel, tokenized: Any, rounds: int) -> dict[str, Any]:
    """Seconds of both sides and the median ratio over rounds."""
    unique = np.concatenate([tokenized.prefix, tokenized.suffixes.reshape(-1)])
    ids = torch.as_tensor(unique)[None]
    queries = len(tokenized.suffixes)
    sides: dict[str, Callable[[], object]] = {
        "plain_forward": lambda: plain_forward(loaded.model, ids, queries),
        "default_forward": lambda: plain_forward(loaded.model, ids, 0),
        "ours": lambda: context_rows(loaded, tokenized, answer_tokens=0),
        "ours_query_rows": lambda: context_rows(
            loaded, tokenized, prefix_rows=False, answer_tokens=0
        ),
    }
    taken: dict[str, list[Taken]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name in sorted(sides, reverse=bool(turn % 2)):
            run = timed(sides[name])
            if turn:
                taken[name].append(run)
    by_processor = summary(taken, "processor")
    return {"unique_tokens": len(unique), **summary(taken, "clock"), "processor": by_processor}


def main() -> None:
    parser = argparse.ArgumentParser(description="Capture over a plain fused forward.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_model(options.model)
    shape = {name: getattr(options, name) for name in ("examples", "features", "queries")}
    tokenized = tokenized_context(loaded.tokenizer, **shape)
    found = overhead(loaded, tokenized, options.rounds)
    result = {"shape": shape, "threads": options.threads, "goal": GOAL, **found}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{found['unique_tokens']} unique tokens, {options.rounds} rounds")
    for name, value in found["seconds"].items():
        print(f"{name:14s} {value:.3f} s")
    print(f"overhead {found['overhead']:.3f} (goal at most {GOAL})")


if __name__ == "__main__":
    main()
