"""What the main job costs: seconds of each step and peak memory of the whole process.

    python benchmarks/study.py --json            # the whole preset
    python benchmarks/study.py --json --preview  # 16 contexts

There is no peer for a whole study; capture alone is compared in capture_overhead.py.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from hatlens.measure import peak_bytes
from hatlens.presets import PREVIEW, preset_studies
from hatlens.progress import progress
from hatlens.study import run_studies, write_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--preset", default="main")
    parser.add_argument("--preview", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    values = {**(PREVIEW if options.preview else {}), "model": options.model}
    studies = preset_studies(options.preset, values)
    out = Path(tempfile.mkdtemp(prefix="hatlens-study-")) / "run"
    begun = time.perf_counter()
    with progress() as report:
        result = run_studies(studies, out, report, preset=options.preset)
    whole = time.perf_counter() - begun
    begun = time.perf_counter()
    write_report(out)
    written = time.perf_counter() - begun
    costs = [study["cost"] for study in result["studies"]]
    found = {
        "preset": options.preset,
        "contexts": [study["task"]["contexts"] for study in result["studies"]],
        "seconds": {
            "whole": whole,
            "load": sum(study["manifest"]["load_seconds"] for study in result["studies"]),
            "forward": sum(cost["forward_seconds"] for cost in costs),
            "analysis": sum(cost["analysis_seconds"] for cost in costs),
            "report": written,
        },
        "bytes": {
            "peak": peak_bytes(),
            "run_folder": sum(file.stat().st_size for file in out.rglob("*") if file.is_file()),
        },
    }
    print(json.dumps(found, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
