"""Delta W: the key-value memory that demonstrations add, against what fine-tuning changes in it."""

from typing import NamedTuple

import numpy as np

from analysis.similarity.records import Floats
from analysis.similarity.vectors import change, cosine


class UpdateLikeness(NamedTuple):
    """By layer and key/value head, (layer, head): cosine of both updates as long vectors, in
    [-1, 1], and |Delta W_FT| / |Delta W_ICL|. NaN where an update is zero.
    """

    cosine: Floats
    relative_norm: Floats


def update_likeness(icl: Floats, before: Floats, after: Floats) -> UpdateLikeness:
    """Delta W_ICL = sum over demonstration tokens of v_i k_i' against Delta W_FT = sum over query
    tokens of v' k'' after fine-tuning minus v k' before, as linear attention would add them.

    The direct comparison of 2212.10559, section 3 (equations 9 and 10), with the tensors that
    attention used. `icl`, `before`, `after`: (layer, key/value head, value dim, key dim).
    """
    wide = [
        np.asarray(one, dtype=np.float64).reshape(*one.shape[:2], -1)
        for one in (icl, before, after)
    ]
    flat = [wide[0], change(wide[2], wide[1])]
    sizes = [np.linalg.norm(one, axis=-1) for one in flat]
    known = sizes[0] > 0
    ratio = np.where(known, sizes[1] / np.where(known, sizes[0], 1.0), np.nan)
    return UpdateLikeness(cosine(flat[0], flat[1]), ratio)
