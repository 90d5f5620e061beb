"""Measures sides of the capture benchmark in a process of its own; called by capture.py.

The job comes as JSON, the only argument; each finding is a line of JSON on standard output.
"""

import ctypes
import gc
import json
import resource
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from capture_sides import PEERS, RANDOM, SIDES, Run, Shape, build_model, context_of, long_prompt
from capture_sides import ours as ours_side
from capture_sides import plain as plain_side
from timed_run import timed

SMALL = long_prompt(64)
STATUS = Path("/proc/self/status")


def _status(field: str) -> int:
    """Bytes of a line of this process' status."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def resident_bytes() -> int:
    """Resident bytes, after what is no longer used is given back."""
    gc.collect()
    if STATUS.exists():
        ctypes.CDLL(None).malloc_trim(0)
        return _status("VmRSS")
    return peak_bytes()


def peak_bytes() -> int:
    """The largest resident memory since `forget_peak`, or of the process where that is nothing."""
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Loading a model can take more than running it, so the peak starts anew behind it."""
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")


def limit_memory(limit: float) -> None:
    """Allocations of more than `limit` bytes beside what is now mapped fail."""
    if STATUS.exists():
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + int(limit), hard))


def why(error: BaseException, limit: float) -> str:
    """A failure in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "allocate memory" in text or "not enough memory" in text:
        return f"out of memory: needs more than {limit / 1e9:.0f} GB over the model"
    if isinstance(error, ImportError):
        return f"not installed: {text}"
    return f"{type(error).__name__}: {text[-300:]}"


def vocabulary(model: str) -> int:
    return RANDOM[model]().vocab_size if model in RANDOM else 40_000


def memory(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Peak of one side over its loaded and warm model, shapes in ascending order."""
    draw = partial(context_of, vocabulary=vocabulary(job["model"]))
    try:
        run = SIDES[job["side"]](job["model"])
        run(draw(SMALL, queries=1))
    except Exception as error:
        yield {"why": why(error, job["limit"])}
        return
    base = resident_bytes()
    limit_memory(job["limit"])
    for shape in map(Shape._make, job["shapes"]):
        for queries in job["queries"]:
            context = draw(shape, queries=queries)
            resident_bytes()
            forget_peak()
            found = {"shape": shape.name, "queries": queries}
            try:
                run(context)
            except Exception as error:
                yield {**found, "why": why(error, job["limit"])}
                return
            yield {**found, "bytes": peak_bytes() - base}


def _runs(model: str, peers: list[str]) -> dict[str, Run]:
    """Ours and the plain forward on one model, each peer on its own: some rewire theirs."""
    fused = build_model(model)
    own: dict[str, Run] = {
        "ours": ours_side(model, fused),
        "plain_forward": plain_side(model, fused),
    }
    return own | {name: PEERS[name](model) for name in peers}


def seconds(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Seconds of every side at every shape, sides interleaved, their order alternating."""
    draw = partial(context_of, vocabulary=vocabulary(job["model"]))
    named = {name for _, names, _ in job["shapes"] for name in names}
    runs = _runs(job["model"], sorted(named & set(PEERS)))
    for run in runs.values():
        run(draw(SMALL, queries=1))
    for fields, names, rounds in job["shapes"]:
        shape = Shape(*fields)
        one, all_queries = draw(shape, queries=1), draw(shape, queries=shape.queries)
        sides = {(name, 1): partial(runs[name], one) for name in names}
        sides |= {(name, shape.queries): partial(runs[name], all_queries) for name in names[:2]}
        order = sorted(sides)
        for turn in range(rounds):
            for side in order if turn % 2 else reversed(order):
                name, queries = side
                found = {"shape": shape.name, "side": name, "queries": queries, "round": turn}
                gc.collect()
                try:
                    yield {**found, **timed(sides[side])._asdict()}
                except Exception as error:
                    yield {**found, "why": why(error, job["limit"])}


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    for found in (memory if job["what"] == "memory" else seconds)(job):
        print("\n" + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
