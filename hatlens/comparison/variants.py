"""The models that a comparison runs: the trained one, and its untrained twins."""

from typing import NamedTuple

from hatlens.comparison.config import SimilarityConfig

TRAINED = "trained"


class Variant(NamedTuple):
    """The trained model, or an untrained twin of a kind and a seed."""

    kind: str
    seed: int | None = None

    @property
    def folder(self) -> str:
        """What its cells are called."""
        return self.kind if self.seed is None else f"{self.kind}-{self.seed}"


def variants(config: SimilarityConfig) -> tuple[Variant, ...]:
    """The trained model first: its update norms are what a twin's are brought to."""
    twins = [Variant(kind, seed) for kind in config.twins for seed in config.twin_seeds]
    return (Variant(TRAINED), *twins)


def cell_name(variant: Variant, place: int) -> str:
    """The name of a cell in the run folder."""
    return f"cells/{variant.folder}/{place}"
