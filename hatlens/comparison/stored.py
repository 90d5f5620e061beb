"""The stored cells of a comparison as arrays over sets and queries."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.similarity.records import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.variants import TRAINED, Variant, cell_name, variants
from hatlens.store import RunFolder

Arrays = Mapping[str, NDArray[Any]]


class Stored:
    """The cells of one variant. `failed`: by set, what a fine-tuning that diverged said; such sets
    are left out of every array.
    """

    def __init__(self, folder: RunFolder, variant: Variant, cells: Mapping[int, Arrays]) -> None:
        self.variant = variant
        self.failed = {s: str(c["failed"]) for s, c in cells.items() if str(c["failed"])}
        self.sets = [place for place in cells if place not in self.failed]
        self.cells = {place: cells[place] for place in self.sets}
        self.gold = np.array([folder.manifest()["gold"][place] for place in self.sets])

    @property
    def name(self) -> str:
        """Trained, or the twin's kind."""
        return self.variant.kind

    @cached_property
    def keys(self) -> list[tuple[str, str, str]]:
        """Position, condition and measure of everything that any set holds, in stored order."""
        found: dict[tuple[str, str, str], None] = {}
        for cell in self.cells.values():
            for key in cell:
                position, _, rest = key.partition("/")
                if position in ("answer", "label0"):
                    condition, _, measure = rest.partition("/")
                    found[position, condition, measure] = None
        return list(found)

    def values(self, key: tuple[str, str, str]) -> Floats:
        """One measure (set, query, layer); NaN where a set does not hold it."""
        name = "/".join(key)
        parts = [cell.get(name) for cell in self.cells.values()]
        shape = next(part.shape for part in parts if part is not None)
        empty = np.full(shape, np.nan)
        return np.stack([empty if part is None else part for part in parts]).astype(np.float64)

    def runs(self) -> list[str]:
        """Runs whose answers every set holds."""
        names = [
            [key.removeprefix("labels/") for key in cell if key.startswith("labels/")]
            for cell in self.cells.values()
        ]
        return [] if not names else [n for n in names[0] if all(n in other for other in names)]

    def label_logp(self, run: str) -> Floats:
        """(set, query, class, 2): log-probabilities of labels, summed and averaged."""
        return np.stack([cell[f"labels/{run}"] for cell in self.cells.values()])

    def answers(self, run: str, score: str) -> NDArray[np.int64]:
        """The likeliest class (set, query) by "sum" or "mean"."""
        logp = self.label_logp(run)[..., ("sum", "mean").index(score)]
        return np.asarray(logp.argmax(axis=-1))

    def right(self, run: str, score: str) -> NDArray[np.bool_]:
        """Whether the likeliest class is the right one, (set, query)."""
        return np.asarray(self.answers(run, score) == self.gold)

    def pairs(self) -> list[tuple[int, str]]:
        """Every set with every fine-tuning that was run on it."""
        return [(place, run) for place in self.sets for run in self.fits(place)]

    def fits(self, place: int) -> dict[str, dict[str, Any]]:
        """What is stored of each fine-tuning of a set, by run."""
        found: dict[str, dict[str, Any]] = {}
        for key, value in self.cells[place].items():
            if key.startswith("fit/"):
                _, run, name = key.split("/")
                found.setdefault(run, {})[name] = value[()] if value.ndim == 0 else value
        return found


def stored_variants(config: SimilarityConfig, folder: RunFolder) -> list[Stored]:
    """Every variant that was run, the trained model first."""
    return [
        Stored(
            folder,
            variant,
            {place: folder.read_arrays(cell_name(variant, place)) for place in range(config.sets)},
        )
        for variant in variants(config)
    ]


def is_trained(stored: Stored) -> bool:
    """Whether this is the model itself."""
    return stored.name == TRAINED
