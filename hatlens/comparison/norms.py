"""How far the update norms of fine-tunings are from the one that they are compared with."""

from collections.abc import Sequence

import numpy as np

from hatlens.comparison.stored import Stored

FAR = 0.25
"""Update norms that differ by more than this share are named."""


def norm_ratio(model: Stored, one: Stored, place: int, run: str) -> float:
    """A fine-tuning's update norm over that of the model's own on the same set; NaN if unknown."""
    wanted = float(model.fits(place)["ft"]["norm"]) if place in model.sets else np.nan
    norm = float(one.fits(place)[run]["norm"])
    return norm / wanted if wanted > 0 else np.nan


def is_far(ratio: float) -> bool:
    """Whether norms differ so much that likeness cannot be compared; False of an unknown one."""
    return bool(np.isfinite(ratio)) and abs(ratio - 1) > FAR


def unequal_norms(stored: Sequence[Stored]) -> list[str]:
    """Fine-tunings whose update norm is far from that of the model's own, one sentence each."""
    model, found = stored[0], []
    for one in stored:
        for place, run in one.pairs():
            if is_far(norm_ratio(model, one, place, run)):
                norm, wanted = one.fits(place)[run]["norm"], model.fits(place)["ft"]["norm"]
                found.append(
                    f"{run} on set {place + 1} of the {one.variant.folder} model moved outputs by "
                    f"{float(norm):.3g} of their norm, the model's own fine-tuning by "
                    f"{float(wanted):.3g}: likeness rises with the size of an update"
                )
    return found
