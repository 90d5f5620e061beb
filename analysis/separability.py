"""Which hypotheses a design can tell apart: each one plays the model on the very contexts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.agreement import kin, same_as, simplest_first, within_variance
from analysis.bank import Hypothesis, hypothesis_named, predict
from analysis.design import ContextArrays, Floats
from analysis.held_out import units_of
from analysis.simulated_labels import Bools, Design, label_rates, nearest_sets

# What the answers of a model are compared with in the first place.
NAMED_FAMILIES: dict[str, tuple[str, ...]] = {
    "ols": ("ols",),
    "ridge": ("ridge(0.001)", "ridge(0.01)", "ridge(0.1)", "ridge(1)"),
    "gd": ("gd(1)", "gd(4)", "gd(16)", "gd(64)", "gd(256)", "gd(1024)"),
    "newton": tuple(f"newton({k})" for k in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18)),
    "local-linear": ("local_linear(1/3,0.01)", "local_linear(1,0.01)"),
    "kernel": ("kernel(1/3)", "kernel(1)", "kernel(3)"),
    "nearest": ("nearest(1)", "nearest(3)"),
    "mean": ("uniform",),
}
RUNS = 200
# A pair is separable where the right one is told from the other in so many runs of 200, both ways:
# high enough that as many fresh runs hold at least 188 of them (.94) nearly always.
LEAST_TOLD = 0.97
NOT_SEPARABLE = "not separable"


class Separability(NamedTuple):
    """What the behaviour label would say if each hypothesis in turn were the model.

    names: H hypotheses with different predictions, the simplest first; aliases: the other names of
    the same predictions. named: (H, H), share of runs in which, with row i as the model, the label
    is "nearest to" column j (which then speaks for kin, see `analysis.agreement.class_of`).
    not_separable: (H,), share of runs whose label names no single one. right: (H,), share of runs
    with the model in the class that is named; wrong: (H,), named without it. told: (H, H), share
    of runs in which column j is not among the nearest; mistaken: (H, H), in which it is and row i,
    the model, is not.
    spread: mean sd of the answers' noise, codec units; runs: simulated studies for each row.
    """

    names: tuple[str, ...]
    aliases: dict[str, str]
    named: Floats
    not_separable: Floats
    right: Floats
    wrong: Floats
    told: Floats
    mistaken: Floats
    spread: float
    runs: int
    units: int

    @property
    def separable(self) -> Bools:
        """Pairs (H, H) that are told apart in at least .97 of runs, whichever is the model."""
        return np.asarray((self.told >= LEAST_TOLD) & (self.told.T >= LEAST_TOLD))

    def inseparable_from(self, name: str) -> tuple[str, ...]:
        """The hypotheses that the design does not tell from that one."""
        name = self.aliases.get(name, name)
        if name not in self.names:
            raise ValueError(
                f"hypothesis {name!r} was not simulated; were: {', '.join(self.names)}"
            )
        pairs = zip(self.names, self.separable[self.names.index(name)], strict=True)
        return tuple(other for other, apart in pairs if not apart and other != name)

    def table(self) -> pd.DataFrame:
        """Rates of the labels, a row for each hypothesis in the model's place."""
        frame = pd.DataFrame(self.named, columns=list(self.names))
        frame.insert(0, "true", self.names)
        frame[NOT_SEPARABLE] = self.not_separable
        frame["right"], frame["wrong"] = self.right, self.wrong
        frame["told_from_all_but"] = [", ".join(self.inseparable_from(one)) for one in self.names]
        return frame

    def sentence(self) -> str:
        """Which pairs the design tells apart, in plain words."""
        count = len(self.names)
        pairs = count * (count - 1) // 2
        told = int(np.triu(self.separable, k=1).sum())
        return (
            f"Simulated on these {self.units} units with answers that scatter by {self.spread:.3g} "
            f"(codec units), {told} of {pairs} pairs of hypotheses are told apart."
        )


def scatter(contexts: ContextArrays, hypotheses: Sequence[Hypothesis] | None = None) -> float:
    """How far the answers are from the nearest hypothesis, root mean square in codec units.

    What no hypothesis explains of the answers: the noise with which each one plays the model. NaN
    where no answer could be read.
    """
    many = named_hypotheses() if hypotheses is None else list(hypotheses)
    if not np.isfinite(contexts.answers).any():
        return float("nan")
    apart = [np.nanmean((contexts.answers - predict(one, contexts)) ** 2) for one in many]
    return float(np.sqrt(min(apart)))


def told_apart(
    contexts: ContextArrays, blocks: Sequence[int], *, rng: np.random.Generator
) -> Separability | None:
    """Which hypotheses these contexts tell apart; None without two units or a readable answer.

    Each plays the model with as much noise as no hypothesis explains of the model's own answers.
    """
    noise = scatter(contexts)
    if len(set(blocks)) < 2 or not np.isfinite(noise):
        return None
    return separability(contexts, spread=noise, rng=rng, blocks=blocks)


def untold(found: Separability) -> dict[str, tuple[str, ...]]:
    """For every simulated hypothesis, those that the design does not tell from it."""
    every = {one: found.inseparable_from(one) for one in found.names}
    aliases = {one: (name, *every[name]) for one, name in found.aliases.items()}
    return {**every, **aliases}


def named_hypotheses() -> list[Hypothesis]:
    """The members of `NAMED_FAMILIES`."""
    return [hypothesis_named(name) for names in NAMED_FAMILIES.values() for name in names]


def separability(
    contexts: ContextArrays,
    hypotheses: Sequence[Hypothesis] | None = None,
    *,
    spread: Floats | float,
    rng: np.random.Generator,
    runs: int = RUNS,
    only_told: bool = False,
    blocks: Sequence[int] | None = None,
) -> Separability:
    """Simulate studies with each hypothesis as the model and label them as `behaviour` does.

    contexts: those of the study; answers that could not be read (NaN) are left out here too.
    spread: sd of normal noise added to the answers, (C, M) or one number in codec units, for
    example the sd of the model's reading. only_told: pairs are compared on those queries alone
    where they differ by more than `spread` (`agreement`). The same noise serves every hypothesis.
    The gate is not simulated. Refuses a spread that is negative, and fewer than two units.
    """
    amount = checked_spread(spread, contexts)
    many = named_hypotheses() if hypotheses is None else list(hypotheses)
    predictions = [predict(one, contexts) for one in many]
    aliases = same_as(predictions, many)
    kept = [place for place, alias in enumerate(aliases) if not alias]
    order = simplest_first([many[place].name for place in kept], many)
    by_name = {many[place].name: place for place in kept}
    places = [by_name[name] for name in order]
    design = Design(
        np.stack([predictions[place] for place in places]),
        np.isfinite(contexts.answers),
        amount if only_told else None,
        units_of(contexts, blocks),
        within_variance(contexts, units_of(contexts, blocks)),
    )
    if design.units.size < 2:
        raise ValueError(f"separability: needed at least 2 units; came {design.units.size}")
    kinds = [kin(many[place], contexts) for place in places]
    noise = amount * rng.standard_normal((runs, *contexts.answers.shape))
    rates = [
        label_rates(nearest_sets(design, design.predictions[true] + noise), kinds, true)
        for true in range(len(places))
    ]
    return Separability(
        names=order,
        aliases={one.name: alias for one, alias in zip(many, aliases, strict=True) if alias},
        named=np.stack([one.named for one in rates]),
        not_separable=np.array([one.not_separable for one in rates]),
        right=np.array([one.right for one in rates]),
        wrong=np.array([one.wrong for one in rates]),
        told=np.stack([one.told for one in rates]),
        mistaken=np.stack([one.mistaken for one in rates]),
        spread=float(np.mean(amount)),
        runs=runs,
        units=design.units.size,
    )


def checked_spread(spread: Floats | float, contexts: ContextArrays) -> Floats:
    """The spread of every query, (C, M); NaN (of an unread answer) counts as 0."""
    amount = np.nan_to_num(np.broadcast_to(np.asarray(spread, float), contexts.answers.shape))
    if (amount < 0).any():
        raise ValueError(f"spread of the answers: needed at least 0; came {float(amount.min())!r}")
    return np.asarray(amount)
