"""Time and memory of the row test: 270 heads x 4 parts, 64 contexts x 4 queries, 2,000 flips."""

import argparse
import json
import resource
import sys
import time

import numpy as np

from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign, simulate_contexts

HEADS, PARTS = 270, 4
UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT_BYTES


def measure() -> dict[str, object]:
    """Run the test once on noise and say what it took; bytes count all of the process."""
    rng = np.random.default_rng(0)
    contexts = simulate_contexts(SimulatedDesign(contexts=64, queries=4), rng=rng)
    shape = (64, 4, HEADS * PARTS, 20)
    scores = rng.standard_normal(shape, dtype=np.float32)
    before = time.perf_counter()
    result = row_test(scores, contexts, rng=rng, flips=2000)
    seconds = time.perf_counter() - before
    return {
        "shape": {"contexts": 64, "queries": 4, "rows": result.tested, "examples": 20},
        "seconds": {"ours": round(seconds, 3)},
        "bytes": {"ours": peak_bytes()},
    }


def main() -> None:
    """Print the figures, as JSON with ``--json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    found = measure()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    print(f"{found['seconds']['ours']} s, {found['bytes']['ours'] / 1e9:.2f} GB")  # type: ignore[index]


if __name__ == "__main__":
    main()
