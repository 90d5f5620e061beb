"""What a study will cost in time, memory and disk, from its first context."""

import resource
import time
from pathlib import Path
from typing import NamedTuple

from hatlens.cells import TRAINED, Tokens, cell
from hatlens.config import StudyConfig
from hatlens.measure import cells, memory_budget, memory_facts, peak_bytes
from hatlens.sets import MAIN, PAIRS_A, PROBES, REPLICATE, StudySets
from hatlens.stages import STAGES
from probes.models import LoadedModel

# Half of a pair's examples are shared, and run once.
CONTEXTS_IN_A_PAIR = 1.5


class Estimate(NamedTuple):
    """The forwards and greedy answers in seconds; their peak memory and stored cells in bytes.

    `not_counted`: what these settings ask for besides, and comes on top.
    """

    seconds: float
    memory_bytes: int
    folder_bytes: int
    not_counted: tuple[str, ...]


class OneContext(NamedTuple):
    """Seconds and bytes of one context: its forward, its answers; its scores, all else kept."""

    forward: float
    answers: float
    scores: int
    rest: int
    examples: int


def study_cost(
    config: StudyConfig, study: StudySets, loaded: LoadedModel, tokens: Tokens
) -> Estimate:
    """Runs the first context as the study runs it, and counts what else is planned.

    Memory is what the process holds, a twin's weights, and what a context takes by the plan of the
    study's own budget; or what loading took, where that is more.
    """
    budget = memory_budget(config, loaded)
    before, peak = resident_bytes(), peak_bytes()
    one = _first_context(loaded, tokens, budget)
    seconds, stored = 0.0, 0
    for variant, names in cells(config, study).items():
        for name in names:
            cost, kept = _of_cell(one, name.split("/")[-2], variant)
            seconds, stored = seconds + cost, stored + kept
    weights = sum(p.numel() * p.element_size() for p in loaded.model.parameters())
    held = before + (weights if config.twins else 0)
    taken = memory_facts(config, loaded, tokens, budget)["bytes"]
    return Estimate(seconds, max(peak, held + taken), stored, not_counted(config, study))


def not_counted(config: StudyConfig, study: StudySets) -> tuple[str, ...]:
    """The parts of a study that no estimate is made of, in words."""
    of_stages = ((stage, len(stage.cells(config, study))) for stage in STAGES)
    parts = [f"{stage.progress} ({count} runs)" for stage, count in of_stages if count]
    changed = ["heads changed"] if config.cause else []
    return (*parts, *changed, "loading", "the analysis of what is stored")


def resident_bytes(file: Path = Path("/proc/self/statm")) -> int:
    """Memory that this process holds now; its largest so far where the system does not say."""
    try:
        return int(file.read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError):
        return peak_bytes()


def _first_context(loaded: LoadedModel, tokens: Tokens, memory: int) -> OneContext:
    begun = time.perf_counter()
    arrays = cell(MAIN, 0, TRAINED, loaded, tokens, memory=memory)
    whole, answers = time.perf_counter() - begun, float(arrays["seconds"][1])
    scores = arrays["score"]
    rest = sum(array.nbytes for array in arrays.values()) - scores.nbytes
    return OneContext(whole - answers, answers, scores.nbytes, rest, scores.shape[-1])


def _of_cell(one: OneContext, name: str, variant: str) -> tuple[float, int]:
    """Seconds and bytes of one cell."""
    if name == PAIRS_A:
        return CONTEXTS_IN_A_PAIR * one.forward, 2 * one.scores * PROBES // one.examples
    if name == REPLICATE:
        return one.forward, one.scores
    kept = one.scores + (one.rest if variant == TRAINED else 0)
    return one.forward + one.answers, kept
