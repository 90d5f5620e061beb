"""Error rate and power of the row test on simulated heads whose mechanism is known."""

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from analysis.bank import hypothesis_named
from analysis.design import ContextArrays, Floats
from analysis.diagnostics import inversion_verdict
from analysis.inference import Interval, proportion_interval
from analysis.judgement import contained
from analysis.planted import INVERSE, RIVALS, Head, Scene, unit_rows
from analysis.row_study import Settings, prepare
from analysis.simulate import SimulatedDesign, simulate_contexts
from analysis.threads import one_blas_thread

SHARED = 0.8
RUNS_A_TASK = 5


class Setting(NamedTuple):
    """One cell of the grid.

    noise: sd of the noise against a signal of unit sd, query-centred; contexts: C; rows: R.
    shared: share of the noise variance that the queries of a context have in common; None lets
    each row be 0 or .8 by the toss of a coin.
    """

    noise: float
    contexts: int = 64
    rows: int = 150
    shared: float | None = None


STANDING = (Setting(1.0), Setting(0.3))
FULL = tuple(
    Setting(noise, contexts, 1080, shared)
    for contexts in (64, 256)
    for shared in (0.0, SHARED)
    for noise in (0.1, 0.3, 1.0, 3.0)
)
GRIDS = {"standing": STANDING, "full": FULL}


class Run(NamedTuple):
    """One simulated study: the kinds of head that stood in it, and those named, with repeats.

    false: named although their row is no S^-1.
    """

    stood: tuple[str, ...]
    named: tuple[str, ...]
    false: tuple[str, ...]


class SettingResult(NamedTuple):
    """What the runs of one setting gave.

    false_contains: runs with at least one false "contains"; ols_found: runs in which the
    least-squares head was named; rejection: share of the rows of each kind that were named;
    false_kinds: how many rows of each kind were named falsely.
    """

    setting: Setting
    runs: int
    false_contains: int
    ols_found: int
    rejection: dict[str, float]
    false_kinds: dict[str, int]
    found: dict[str, tuple[int, int]]


class Validation(NamedTuple):
    """All settings, with the worst setting's family-wise error and each S^-1 head's least power.

    Intervals are exact (Clopper-Pearson), over runs for the error and over rows for the power.
    """

    runs: int
    settings: tuple[SettingResult, ...]
    family_wise_error: Interval
    power: dict[str, Interval]


def validate(
    settings: Sequence[Setting] = STANDING,
    *,
    runs: int = 200,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Run the row test on simulated rows, `runs` times in each setting.

    The rivals of S^-1 must not be named; a head of the bank counts by the inversion index of its
    own row (below .1 is a rival, from .5 on it is S^-1, between it is neither). The same seed
    gives the same counts, whatever the number of processes.
    """
    if runs < 1:
        raise ValueError(f"needed at least 1 run; came {runs!r}")
    tasks = [
        (setting, seed, place, tuple(range(start, min(start + RUNS_A_TASK, runs))))
        for place, setting in enumerate(settings)
        for start in range(0, runs, RUNS_A_TASK)
    ]
    gathered: dict[int, list[Run]] = {place: [] for place in range(len(settings))}
    for done, (task, found) in enumerate(zip(tasks, _mapped(tasks, processes), strict=True)):
        gathered[task[2]].extend(found)
        if progress is not None:
            progress(done + 1, len(tasks))
    results = tuple(_summary(setting, gathered[place]) for place, setting in enumerate(settings))
    worst = max(result.false_contains for result in results)
    kinds = [head.name for head in INVERSE]
    power = {
        kind: min(proportion_interval(*result.found[kind]) for result in results) for kind in kinds
    }
    return Validation(runs, results, proportion_interval(worst, runs), power)


def simulate_run(setting: Setting, rng: np.random.Generator) -> Run:
    """Draw contexts and rows, and apply the rule "contains" to all rows at once."""
    contexts = simulate_contexts(SimulatedDesign(contexts=setting.contexts), rng=rng)
    heads = standing_heads(setting.rows, rng)
    scores = noisy_scores(heads, Scene(contexts, rng=rng), setting, rng)
    study = prepare(scores, contexts, ["ols"], rng=rng, settings=Settings(2000, 8, 1))
    said = np.zeros(len(heads), dtype=bool)
    said[study.rows.tested] = contained(study).contains[:, 0]
    return Run(
        tuple(head.name for head in heads),
        tuple(head.name for head, yes in zip(heads, said, strict=True) if yes),
        tuple(
            head.name
            for head, yes in zip(heads, said, strict=True)
            if yes and is_rival(head, contexts)
        ),
    )


def standing_heads(rows: int, rng: np.random.Generator) -> list[Head]:
    """Every S^-1 head once, and rivals in random order until there are enough rows."""
    wanted = rows - len(INVERSE)
    rounds = [rng.permutation(len(RIVALS)) for _ in range(-(-wanted // len(RIVALS)))]
    return [*INVERSE, *(RIVALS[place] for place in np.concatenate(rounds)[:wanted])]


def noisy_scores(
    heads: Sequence[Head], scene: Scene, setting: Setting, rng: np.random.Generator
) -> Floats:
    """Rows of unit sd with noise, (C, M, R, N)."""
    contexts, queries, examples = scene.shape
    scores = np.empty((contexts, queries, len(heads), examples))
    for place, head in enumerate(heads):
        toss = SHARED * rng.integers(0, 2)
        shared = toss if setting.shared is None else setting.shared
        own = rng.standard_normal(scene.shape)
        common = rng.standard_normal((contexts, 1, examples))
        noise = np.sqrt(1.0 - shared) * own + np.sqrt(shared) * common
        scores[:, :, place] = unit_rows(head, scene) + setting.noise * noise
    return scores


def is_rival(head: Head, contexts: ContextArrays) -> bool:
    """Whether naming this head is an error on these contexts."""
    if not head.banked:
        return True
    return inversion_verdict(hypothesis_named(head.banked), contexts).says == "does not count"


def _task(task: tuple[Setting, int, int, tuple[int, ...]]) -> list[Run]:
    setting, seed, place, runs = task
    with one_blas_thread():
        return [simulate_run(setting, np.random.default_rng([seed, place, run])) for run in runs]


def _mapped(
    tasks: Sequence[tuple[Setting, int, int, tuple[int, ...]]], processes: int | None
) -> Iterator[list[Run]]:
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    if workers == 1:
        yield from map(_task, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(_task, tasks)


def _summary(setting: Setting, runs: Sequence[Run]) -> SettingResult:
    stood = Counter(kind for run in runs for kind in run.stood)
    named = Counter(kind for run in runs for kind in run.named)
    false = Counter(kind for run in runs for kind in run.false)
    return SettingResult(
        setting,
        len(runs),
        false_contains=sum(bool(run.false) for run in runs),
        ols_found=sum("ols" in run.named for run in runs),
        rejection={kind: named[kind] / count for kind, count in sorted(stood.items())},
        false_kinds=dict(sorted(false.items())),
        found={head.name: (named[head.name], stood[head.name]) for head in INVERSE},
    )
