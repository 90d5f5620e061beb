"""The answers of a study with heads changed, and with random heads changed, as they are stored."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import torch

from hatlens.config import StudyConfig
from hatlens.sets import MAIN
from hatlens.stages.chosen_heads import own_heads, used_contexts
from hatlens.stages.reading import was_read
from hatlens.stages.stage import Arrays, Bench
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from probes.cause import HOLD_BYTES, Caused, Condition, Read, cause, reads_exactly, reads_greedily
from probes.head_names import Head, HeadGrid, parse_heads
from probes.memory import parse_bytes

ANSWERS = "answers"
TIMED = ("forward", "reading")


def concluded_heads(config: StudyConfig, folder: RunFolder) -> tuple[Head, ...]:
    """The heads to change: own ones, or those of the stored conclusion."""
    if config.heads:
        return own_heads(config, folder)
    return parse_heads(folder.read_results()["cause"]["heads"], head_grid(folder))


def cell_name(config: StudyConfig, folder: RunFolder, heads: Sequence[Head]) -> str:
    """Other heads, sets, contexts or readings are other cells."""
    reading = f"exact {config.mass:g}" if was_read(config, folder) else "greedy"
    names = [str(head) for head in sorted(heads)]
    what = [names, config.random_sets, used_contexts(config, folder), reading]
    return f"cause/{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]}/{ANSWERS}"


def run_answers(bench: Bench) -> Arrays:
    """Answers (condition, context, query) as printed, and what was changed; see `Caused`."""
    config, used = bench.config, used_contexts(bench.config, bench.folder)
    hold = HOLD_BYTES if config.memory is None else parse_bytes(config.memory)
    return stored(
        cause(
            bench.loaded,
            bench.tokens[MAIN][:used],
            [str(head) for head in concluded_heads(config, bench.folder)],
            answer_reader(bench),
            rng=np.random.default_rng([config.seed, 22]),
            draws=config.random_sets,
            progress=lambda done, total: bench.report("contexts with heads changed", done, total),
            hold_bytes=hold,
        )
    )


def stored(found: Caused) -> Arrays:
    """As arrays."""
    return {
        "answers": found.answers,
        "kinds": np.array([condition.kind for condition in found.conditions]),
        "draws": np.array([condition.draw for condition in found.conditions]),
        "heads": np.array([str(head) for head in found.named]),
        "sets": np.array([" ".join(map(str, one)) for one in found.sets], dtype=np.str_),
        "short": np.array(found.short),
        "donors": found.donors,
        "mean_layers": np.array(list(found.means)),
        "means": np.stack([mean.double().numpy() for mean in found.means.values()]),
        "seconds": np.array([found.seconds[what] for what in TIMED]),
    }


def restored(arrays: Arrays, grid: HeadGrid) -> Caused:
    """The same from arrays."""
    conditions = zip(arrays["kinds"].tolist(), arrays["draws"].tolist(), strict=True)
    means = zip(arrays["mean_layers"].tolist(), arrays["means"], strict=True)
    return Caused(
        answers=arrays["answers"],
        conditions=tuple(Condition(*one) for one in conditions),
        named=parse_heads(arrays["heads"].tolist(), grid),
        sets=tuple(parse_heads(one, grid) for one in arrays["sets"].tolist()),
        short=str(arrays["short"]),
        donors=arrays["donors"],
        means={layer: torch.as_tensor(mean, dtype=torch.float32) for layer, mean in means},
        seconds=dict(zip(TIMED, arrays["seconds"].tolist(), strict=True)),
    )


def answer_reader(bench: Bench) -> Read:
    """Answers are read as the study reads them."""
    if was_read(bench.config, bench.folder):
        return reads_exactly(bench.grammar(), mass=bench.config.mass)
    codec = bench.study.sets[MAIN].codec
    return reads_greedily(bench.loaded, codec.parse_answer)
