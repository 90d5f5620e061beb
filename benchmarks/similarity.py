"""What a query behind demonstrations costs `hatlens similarity`, beside one whole prompt a query.

`ours` runs the demonstrations once and every query behind them, records what the measures read
(outputs, scores, inputs, sums of v k') and scores whole labels. `plain_forward` is transformers'
forward of the whole prompt, one query at a time, logits at every token; `plain_forward_one_logit`
computes the last one alone. Neither records anything. Sides run interleaved in one process, their
order alternating; a ratio is the median over rounds of one round's two times a query. Peers run
fewer queries, since each costs them the same; ours shares the demonstrations among all of them.

`bytes` is the largest resident memory over the loaded model while so many queries run alone and
behind the demonstrations.

    python benchmarks/similarity.py --json
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from capture_worker import forget_peak, peak_bytes, resident_bytes
from timed_run import Taken, timed

from hatlens.comparison.config import build_similarity
from hatlens.comparison.feed import drawn_source, feed
from probes.models import LoadedModel, load_model
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition, Prompts
from prompts.tasks.tokens import TaskPrompts

GOAL = 8.0
NOTHING = np.zeros(0, dtype=np.int64)
OURS, PEERS = "ours", ("plain_forward", "plain_forward_one_logit")


def prompts_of(options: argparse.Namespace, loaded: LoadedModel, queries: int) -> TaskPrompts:
    """The first set of demonstrations of the task, and so many queries."""
    config = build_similarity(
        {
            "model": options.model,
            "task": options.task,
            "demos": options.demos,
            "queries": queries,
            "sets": 1,
        }
    )
    return feed(config, drawn_source(config), loaded).sets[0].prompts


def run_all(loaded: LoadedModel, prompts: Prompts, *, alone: bool = False) -> None:
    """Every query behind the demonstrations, and by itself too; no record is kept."""
    conditions = {"icl": Condition(np.concatenate(prompts.demonstrations))}
    if alone:
        conditions["zsl"] = Condition(NOTHING)
    for _ in run_conditions(loaded, prompts, conditions, updates=True):
        pass


@torch.inference_mode()
def run_whole(loaded: LoadedModel, prompts: Prompts, count: int, **options: int) -> None:
    """The whole prompt of each of the first `count` queries by itself."""
    lead = [] if prompts.bos is None else [prompts.bos]
    model: Any = loaded.model
    for query in prompts.in_context[:count]:
        tokens = np.r_[lead, np.concatenate([*prompts.demonstrations, query])].astype(np.int64)
        model(input_ids=torch.as_tensor(tokens)[None], use_cache=False, **options)


def times(
    loaded: LoadedModel, prompts: TaskPrompts, peer_queries: int, rounds: int
) -> dict[str, list[Taken]]:
    """Of each side, one a round."""
    sides: dict[str, Callable[[], object]] = {
        OURS: lambda: run_all(loaded, prompts),
        PEERS[0]: lambda: run_whole(loaded, prompts, peer_queries),
        PEERS[1]: lambda: run_whole(loaded, prompts, peer_queries, logits_to_keep=1),
    }
    taken: dict[str, list[Taken]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name in sorted(sides, reverse=bool(turn % 2)):
            taken[name].append(timed(sides[name]))
    return taken


def costs(taken: Mapping[str, list[Taken]], queries: Mapping[str, int]) -> dict[str, Any]:
    """Median seconds of a query, and how many times as long each peer takes; `queries`: of each."""
    found: dict[str, Any] = {
        "seconds": {
            name: statistics.median(one.clock for one in of) / queries[name]
            for name, of in taken.items()
        }
    }
    for kind, key in (("clock", "ratio"), ("processor", "processor_ratio")):
        found[key] = {
            name: statistics.median(
                getattr(peer, kind) / queries[name] / (getattr(ours, kind) / queries[OURS])
                for peer, ours in zip(taken[name], taken[OURS], strict=True)
            )
            for name in PEERS
        }
    return found


def memory(options: argparse.Namespace, loaded: LoadedModel, warm: TaskPrompts) -> dict[str, int]:
    """Bytes over the loaded model by the number of queries, fewest first."""
    run_all(loaded, warm, alone=True)
    base, found = resident_bytes(), {}
    for queries in sorted(options.memory_queries):
        prompts = prompts_of(options, loaded, queries)
        resident_bytes()
        forget_peak()
        run_all(loaded, prompts, alone=True)
        found[str(queries)] = peak_bytes() - base
    return found


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is printed."""
    loaded = load_model(options.model)
    prompts = prompts_of(options, loaded, options.queries)
    few = prompts_of(options, loaded, 2)
    run_all(loaded, few)
    run_whole(loaded, few, 1)
    peer = min(options.peer_queries, len(prompts.queries))
    queries = {OURS: len(prompts.queries), **dict.fromkeys(PEERS, peer)}
    found = costs(times(loaded, prompts, peer, options.rounds), queries)
    return {
        **vars(options),
        "goal": GOAL,
        "demonstration_tokens": sum(len(one) for one in prompts.demonstrations),
        "query_tokens": statistics.mean(len(one) for one in prompts.in_context),
        **found,
        "bytes": memory(options, loaded, few),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A query behind demonstrations: time and memory.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--task", default="mr")
    parser.add_argument("--demos", type=int, default=16)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--peer-queries", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-queries", type=int, nargs="*", default=[50, 200])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = measured(options)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result["seconds"].items():
        print(f"{name:24s} {value:.3f} s a query")
    for name, value in result["ratio"].items():
        print(f"{name:24s} {value:.1f} times as long (goal at least {GOAL:g})")
    for queries, size in result["bytes"].items():
        print(f"{queries:>4s} queries: {size / 1e6:.0f} MB over the model")


if __name__ == "__main__":
    main()
