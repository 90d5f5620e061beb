"""The columns of one row test side by side, and which of them belong to what."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis import baseline
from analysis.bank import BANK, FAMILIES, Hypothesis, hypothesis_named, rows
from analysis.bank.geometry import geometry
from analysis.centring import centred_columns
from analysis.design import ContextArrays, Floats
from analysis.directions import direction_rows

Indices = NDArray[np.int64]

S_INVERSE = "inverse"
RIVAL_FAMILIES = tuple(family for family in FAMILIES if family != S_INVERSE)


class Assembly(NamedTuple):
    """Columns (C, M, N, K), centred and of unit sd, with the index of each.

    baseline: M0*; hypotheses: one column each; ols: the least-squares row; families: the columns
    of every family of rivals (M0*'s, and the bank's online learners) and of S^-1;
    directions: the least-squares row by eigen-direction of Sc, strongest first, and their sd
    before scaling.
    """

    values: Floats
    baseline: Indices
    baseline_families: tuple[str, ...]
    hypotheses: Indices
    ols: int
    families: dict[str, Indices]
    directions: Indices
    direction_sd: Floats

    def against(self, family: str) -> Indices:
        """What a hypothesis of that family is compared with.

        S^-1 with M0*; a rival with the families of M0* that are not its own, and with the
        least-squares row.
        """
        if family == S_INVERSE:
            return self.baseline
        others = [
            column
            for column, owner in zip(self.baseline, self.baseline_families, strict=True)
            if owner != family
        ]
        return np.array([*others, self.ols], dtype=np.int64)

    def family(self, *names: str) -> Indices:
        """The columns of these families."""
        return np.concatenate([self.families[name] for name in names])


def named(hypotheses: Sequence[str | Hypothesis]) -> list[Hypothesis]:
    """Hypotheses by name or as they are; refuses none at all, and one named twice."""
    found = [hypothesis_named(h) if isinstance(h, str) else h for h in hypotheses]
    names = [h.name for h in found]
    if not names:
        raise ValueError("needed at least one hypothesis to test; came none")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"needed every hypothesis once; came {twice[0]!r} more than once")
    return found


def assemble(contexts: ContextArrays, hypotheses: Sequence[Hypothesis]) -> Assembly:
    """All columns that a row test of these hypotheses needs."""
    frozen = baseline.columns(contexts)
    online = [h for h in BANK.values() if h.family == "online"]
    extra = [rows(h, contexts) for h in (*hypotheses, hypothesis_named("ols"), *online)]
    directions = centred_columns(direction_rows(geometry(contexts)))
    sd = baseline.unit_scale(directions)
    values = [frozen.values, baseline.prepared(np.stack(extra, axis=-1)), directions / sd]
    sizes = [len(frozen.names), len(hypotheses), 1, len(online), directions.shape[-1]]
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    owners = np.array(frozen.families)
    families = {family: parts[0][owners == family] for family in RIVAL_FAMILIES}
    families["online"], families[S_INVERSE] = parts[3], parts[2]
    return Assembly(
        np.concatenate(values, axis=-1),
        baseline=parts[0],
        baseline_families=frozen.families,
        hypotheses=parts[1],
        ols=int(parts[2][0]),
        families=families,
        directions=parts[4],
        direction_sd=sd,
    )
