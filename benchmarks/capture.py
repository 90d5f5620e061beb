"""Capture beside its peers: time a query, peak memory, and cost over a plain fused forward.

    python benchmarks/capture.py --json
    python benchmarks/capture.py --models wide-llama --only 512 1536 --rounds 3 --threads 1

Peak memory is taken first, each side in a fresh process, over its loaded model that has run a
prompt of 64 tokens. Then all sides that fit are timed in one process, interleaved, in alternating
order; a ratio is the median over rounds of one round's two times. What a side could not do stands
in `missing`, in words. docs/performance.md explains every key.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from capture_sides import PEERS, RANDOM, SIDES, STUDY, Shape, long_prompt

WORKER = Path(__file__).with_name("capture_worker.py")
SHAPES = {"study": STUDY} | {str(tokens): long_prompt(tokens) for tokens in (512, 1536, 4096)}
MODELS = ("smollm2-135m", "wide-llama")
OWN = ("ours", "plain_forward")
PACKAGES = ("torch", "transformers", "transformer-lens", "nnsight")


def work(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a worker finds, line by line; its own death is a finding too."""
    command = [sys.executable, str(WORKER), json.dumps(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith('{"'):
                yield json.loads(line)
    if process.returncode:
        yield {"why": f"its process ended with {process.returncode}"}


def rounds_of(shape: Shape, rounds: int) -> int:
    """Fewer at long prompts."""
    return min(rounds, max(1, rounds * 1000 // shape.prompt_tokens))


class Found:
    """All findings of one model, by (shape, side, queries)."""

    def __init__(self, model: str, shapes: list[Shape], options: argparse.Namespace) -> None:
        self.model, self.shapes, self.options = model, shapes, options
        self.bytes: dict[tuple[str, str, int], int] = {}
        self.missing: dict[tuple[str, str], str] = {}
        self.taken: dict[tuple[str, str, int], dict[int, dict[str, Any]]] = {}

    def _job(self, what: str, **more: Any) -> dict[str, Any]:
        limit = self.options.limit * 1e9
        common = {"what": what, "model": self.model, "limit": limit}
        return {**common, "threads": self.options.threads, **more}

    def take_memory(self) -> None:
        for side in SIDES:
            say(f"{self.model}: peak memory of {side}")
            queries = [1, 8] if side in OWN else [1]
            for found in work(self._job("memory", side=side, shapes=self.shapes, queries=queries)):
                if "why" not in found:
                    self.bytes[found["shape"], side, found["queries"]] = found["bytes"]
                    continue
                for shape in self.shapes:
                    if (shape.name, side, 1) not in self.bytes:
                        self.missing[shape.name, side] = found["why"]

    def take_seconds(self) -> None:
        peers = [side for side in SIDES if side not in OWN]
        shapes = []
        for shape in self.shapes:
            fit = [side for side in peers if (shape.name, side) not in self.missing]
            rounds = rounds_of(shape, self.options.rounds)
            shapes.append((shape, [*OWN, *fit], rounds))
        for found in work(self._job("seconds", shapes=shapes)):
            if "why" in found:
                self.missing[found.get("shape", ""), found.get("side", "")] = found["why"]
                continue
            say(f"{self.model}: {found}")
            key = found["shape"], found["side"], found["queries"]
            self.taken.setdefault(key, {})[found["round"]] = found

    def objects(self) -> Iterator[dict[str, Any]]:
        for shape in self.shapes:
            for queries in (shape.queries, 1):
                yield self._object(shape, queries)

    def _object(self, shape: Shape, queries: int) -> dict[str, Any]:
        sized = {side: self._bytes(shape, side, queries) for side in SIDES}
        clock, ratio_clock, overhead = self._times(shape, queries, "clock")
        processor, ratio_processor, overhead_processor = self._times(shape, queries, "processor")
        return {
            "model": self.model,
            "shape": {
                **shape._asdict(),
                "queries": queries,
                "unique_tokens": tokens(shape, queries),
            },
            "shared_prefix": queries > 1,
            "seconds": clock,
            "bytes": sized,
            "ratio_seconds": ratio_clock,
            "ratio_bytes": {peer: over(sized[peer], sized["ours"]) for peer in PEERS},
            "overhead": overhead,
            "processor_seconds": processor,
            "ratio_processor_seconds": ratio_processor,
            "overhead_processor": overhead_processor,
            "bytes_a_token": {
                side: over(size, tokens(shape, queries if side in OWN else 1))
                for side, size in sized.items()
            },
            "missing": {
                side: text for (name, side), text in self.missing.items() if name == shape.name
            },
            "rounds": rounds_of(shape, self.options.rounds),
            "threads": self.options.threads,
            "versions": versions(),
        }

    def _bytes(self, shape: Shape, side: str, queries: int) -> int | None:
        """A peer runs one prompt at a time, whatever the number of queries."""
        return self.bytes.get((shape.name, side, queries if side in OWN else 1))

    def _times(self, shape: Shape, queries: int, kind: str) -> tuple[Any, Any, float | None]:
        """Median seconds a query, and median ratios over rounds."""
        a_query = {}
        for side in SIDES:
            runs = self.taken.get((shape.name, side, queries if side in OWN else 1), {})
            divisor = queries if side in OWN else 1
            a_query[side] = {turn: found[kind] / divisor for turn, found in runs.items()}
        medians = {side: median(values.values()) for side, values in a_query.items()}
        ratios = {peer: paired(a_query[peer], a_query["ours"]) for peer in PEERS}
        return medians, ratios, paired(a_query["ours"], a_query["plain_forward"])


def tokens(shape: Shape, queries: int) -> int:
    return shape.unique_tokens if queries > 1 else shape.prompt_tokens


def over(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def median(values: Any) -> float | None:
    values = list(values)
    return statistics.median(values) if values else None


def paired(a: dict[int, float], b: dict[int, float]) -> float | None:
    """Median over rounds that both sides ran."""
    return median(a[turn] / b[turn] for turn in a if turn in b)


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(objects: list[dict[str, Any]]) -> Iterator[str]:
    """A line a model, shape and kind of sharing."""
    yield f"ours in seconds a query and MB; then how many times more: {', '.join(PEERS)}"
    for one in objects:
        size = one["bytes"]["ours"]
        sharing = "shared" if one["shared_prefix"] else "whole"
        yield "  ".join(
            (
                f"{one['model']:14s}{one['shape']['name']:15s}{sharing:6s}",
                f"{shown(one['seconds']['ours'], 3)} s",
                *(shown(one["ratio_seconds"][peer]) for peer in PEERS),
                f"{shown(size and size / 1e6, 0)} MB",
                *(shown(one["ratio_bytes"][peer], 1) for peer in PEERS),
                f"overhead {shown(one['overhead'], 3)}",
            )
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Capture beside its peers.")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=(MODELS[0], *RANDOM))
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(SHAPES),
        metavar="SHAPE",
        help="of study, 512, 1536, 4096, or any number of tokens",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of short prompts; long ones take fewer"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=8.0, help="GB that a side may take over its model"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    return parser.parse_args()


def main() -> None:
    options = parse()
    shapes = [SHAPES.get(name) or long_prompt(int(name)) for name in options.only]
    shapes.sort(key=lambda shape: shape.prompt_tokens)
    objects = []
    for model in options.models:
        found = Found(model, shapes, options)
        found.take_memory()
        found.take_seconds()
        objects += list(found.objects())
    lines = "\n".join(table(objects))
    if options.json:
        say(lines)
        print(json.dumps(objects))
        return
    print(lines)


if __name__ == "__main__":
    main()
