"""Demonstrations and queries drawn from a task's examples, never one text in both."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from prompts.refusal import Refusal
from prompts.tasks.sources import Examples
from prompts.tasks.task import Example, Task

SHOWN = 3


class DemonstrationSet(NamedTuple):
    """One set of demonstrations D, and a disjoint set D' of the same task for the mismatch."""

    demonstrations: tuple[Example, ...]
    mismatched: tuple[Example, ...]


class Drawn(NamedTuple):
    """What one study of a task is fed.

    `sets`: the demonstration sets. `queries`: the same for every set. `tuning`: demonstrations and
    queries from which the learning rate is chosen, disjoint from the others. `warnings`: what was
    noticed, in plain words.
    """

    sets: tuple[DemonstrationSet, ...]
    queries: tuple[Example, ...]
    tuning: tuple[tuple[Example, ...], tuple[Example, ...]]
    warnings: tuple[str, ...]


def draw(
    examples: Examples,
    *,
    demonstrations: int,
    queries: int,
    sets: int,
    balanced: bool = False,
    rng: np.random.Generator,
) -> Drawn:
    """Draw demonstration sets and queries.

    Each set is the first `demonstrations` of the shuffled training examples (2212.10559; not
    balanced over classes unless asked), D' the next ones. A text is one example however often it
    stands, so that no prompt holds its own query. Where the source has one part, half of its texts
    (but at least one set) are for demonstrations. Refuses fewer texts than demonstrations; fewer
    queries than asked, and no room for D', are warnings. Where every example has one and the same
    text no query can differ from its demonstrations: rows are then examples, with a warning.
    """
    task = examples.task
    warnings = list(repeated(task, (*examples.train, *examples.validation)))
    for_sets, for_queries = rng.spawn(2)
    rows = examples.train + examples.validation
    if len({task.prompt(one) for one in rows}) == 1 and len(rows) > demonstrations:
        return _of_one_text(rows, demonstrations, queries, for_sets.spawn(sets), warnings)
    train, held_out = parted(examples, demonstrations, for_queries)
    if len(train) < demonstrations:
        raise Refusal(
            f"needed {demonstrations} training examples of different text, for as many "
            f"demonstrations; came {len(train)}",
            where=examples.source,
        )
    take = _balanced if balanced else _plain
    found = []
    for source in for_sets.spawn(sets):
        order = [train[i] for i in source.permutation(len(train))]
        chosen = take(task, order, demonstrations)
        if len(chosen) < demonstrations:
            raise Refusal(too_few(task, order, demonstrations), where=examples.source)
        other = take(task, _without(task, order, chosen), demonstrations)
        found.append(DemonstrationSet(chosen, other if len(other) == demonstrations else ()))
    if any(not one.mismatched for one in found):
        warnings.append(
            f"{len(train)} training texts leave no second set of {demonstrations}: the mismatch "
            "control with D' was left out"
        )
    shown = [one for pair in found for part in pair for one in part]
    asked = _without(task, held_out, shown)
    chosen_queries = tuple(asked[:queries])
    if not chosen_queries:
        raise Refusal(
            "needed queries whose text is in no demonstration; came none", where=examples.source
        )
    if len(chosen_queries) < queries:
        warnings.append(f"{queries} queries were asked for, {len(chosen_queries)} are left")
    tuning = _tuning(task, train, asked[queries:], [*shown, *chosen_queries], demonstrations)
    return Drawn(tuple(found), chosen_queries, tuning, tuple(warnings))


_Nothing: tuple[Example, ...] = ()


def _of_one_text(
    rows: Sequence[Example],
    demonstrations: int,
    queries: int,
    sources: Sequence[np.random.Generator],
    warnings: Sequence[str],
) -> Drawn:
    """Rows that all hold one text, the queries the same for every set."""
    held_out = rows[-min(queries, len(rows) - demonstrations) :]
    left = rows[: len(rows) - len(held_out)]
    chosen = [[left[i] for i in source.permutation(len(left))] for source in sources]
    said = (
        "every example has the same text, so that every query stands among its demonstrations: "
        "nothing can be concluded from these runs"
    )
    return Drawn(
        tuple(DemonstrationSet(tuple(one[:demonstrations]), _Nothing) for one in chosen),
        tuple(held_out),
        (_Nothing, _Nothing),
        (*warnings, said),
    )


def repeated(task: Task, examples: Iterable[Example]) -> list[str]:
    """Texts that stand more than once, those with two labels first; at most three are named."""
    places: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        places[task.prompt(example)].append(example)
    several = [found for found in places.values() if len(found) > 1]
    several.sort(key=lambda found: len({one.label for one in found}) == 1)
    if not several:
        return []
    lines = []
    for found in several[:SHOWN]:
        where = " and ".join(one.place.rpartition(", ")[2] for one in found[:3])
        labels = dict.fromkeys(one.label for one in found)
        said = f"with two labels ({', '.join(labels)})" if len(labels) > 1 else "with one label"
        lines.append(f"{where} {said}")
    return [f"{len(several)} texts stand more than once, such as {'; '.join(lines)}"]


def parted(
    examples: Examples, demonstrations: int, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Training and held-out examples, shuffled, one a text; no text is in both."""
    task = examples.task
    train = _one_a_text(task, examples.train)
    if examples.validation:
        held_out = _one_a_text(task, examples.validation)
        order = [held_out[i] for i in rng.permutation(len(held_out))]
        return _without(task, train, order), order
    order = [train[i] for i in rng.permutation(len(train))]
    for_training = min(max(demonstrations, len(order) // 2), len(order))
    return order[:for_training], order[for_training:]


def _one_a_text(task: Task, examples: Iterable[Example]) -> list[Example]:
    return list({task.prompt(one): one for one in reversed(list(examples))}.values())[::-1]


def _without(task: Task, examples: Iterable[Example], taken: Iterable[Example]) -> list[Example]:
    texts = {task.prompt(one) for one in taken}
    return [one for one in examples if task.prompt(one) not in texts]


def _plain(task: Task, order: Sequence[Example], count: int) -> tuple[Example, ...]:
    return tuple(order[:count])


def quotas(task: Task, count: int) -> dict[str, int]:
    """How many demonstrations of each class make a balanced set; the first ones take the rest."""
    classes = list(task.words)
    return {
        label: count // len(classes) + (place < count % len(classes))
        for place, label in enumerate(classes)
    }


def _balanced(task: Task, order: Sequence[Example], count: int) -> tuple[Example, ...]:
    """As many of each class as its quota, in the shuffled order; fewer where there are no more."""
    left = quotas(task, count)
    chosen = []
    for example in order:
        if left[example.label]:
            left[example.label] -= 1
            chosen.append(example)
    return tuple(chosen)


def too_few(task: Task, order: Sequence[Example], count: int) -> str:
    """Which class a balanced set has too few examples of."""
    labels = [one.label for one in order]
    needed = quotas(task, count)
    label = next(label for label, many in needed.items() if labels.count(label) < many)
    return (
        f"needed {needed[label]} examples of label {label!r} for balanced demonstrations; "
        f"came {labels.count(label)}"
    )


def _tuning(
    task: Task,
    train: Sequence[Example],
    held_out: Sequence[Example],
    taken: Sequence[Example],
    demonstrations: int,
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Demonstrations and queries that no set and no query of the study uses; empty without room."""
    free = _without(task, train, taken)
    own = tuple(free[:demonstrations])
    queries = tuple(held_out) or tuple(free[demonstrations:])
    return (own, queries) if len(own) == demonstrations and queries else (_Nothing, _Nothing)
