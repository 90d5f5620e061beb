"""SimAOU: whether demonstrations and fine-tuning move attention outputs the same way."""

import numpy as np

from analysis.similarity.records import Floats, Runs
from analysis.similarity.vectors import (
    SINGLE,
    change,
    cosine,
    orthogonal_part,
    unit,
    where_above,
)


def sim_aou(runs: Runs) -> Floats:
    """cos(h_ICL - h_ZSL, h_FT - h_ZSL) by layer (2311.07772, section 3); in [-1, 1].

    Not 0 for unrelated updates where both runs shrink h_ZSL.
    """
    return cosine(change(runs.icl.h, runs.zsl.h), change(runs.ft.h, runs.zsl.h))


def sim_aou_normalised(runs: Runs) -> Floats:
    """The same with every h divided by its norm first (2212.10559, section 4.3); in [-1, 1].

    Its floor for unrelated updates is `normalised_floor`, not 0.
    """
    icl, zsl, ft = (unit(record.h) for record in runs)
    return cosine(change(icl, zsl), change(ft, zsl))


def sim_aou_orthogonal(runs: Runs) -> Floats:
    """cos of the parts of both updates that are orthogonal to h_ZSL, by layer; in [-1, 1].

    0 on average for unrelated directions, whatever both runs do to the length of h_ZSL.
    """
    zsl = wide(runs.zsl.h)
    least = SINGLE * np.linalg.norm(zsl, axis=-1, keepdims=True)
    icl, ft = (
        where_above(orthogonal_part(change(one.h, zsl), zsl), least) for one in (runs.icl, runs.ft)
    )
    return cosine(icl, ft)


def normalised_floor(runs: Runs) -> Floats:
    """What `sim_aou_normalised` is for unrelated updates, by layer: above 0.

    sqrt((1 - cos(h_ICL, h_ZSL)) (1 - cos(h_FT, h_ZSL))) / 2: unit vectors that leave a common one
    share a part along it (the 1/4 of 2311.07772 is the case of norms at the ratio 2).
    """
    icl, ft = (1 - cosine(record.h, runs.zsl.h) for record in (runs.icl, runs.ft))
    return np.asarray(np.sqrt(np.maximum(icl, 0) * np.maximum(ft, 0)) / 2)


def relative_norm_icl(runs: Runs) -> Floats:
    """|h_ICL - h_ZSL| / |h_ZSL| by layer, 0 and above."""
    return relative_norm(runs.icl.h, runs.zsl.h)


def relative_norm_ft(runs: Runs) -> Floats:
    """|h_FT - h_ZSL| / |h_ZSL| by layer, 0 and above: compare claims at equal values of it."""
    return relative_norm(runs.ft.h, runs.zsl.h)


def relative_norm(h: Floats, zsl: Floats) -> Floats:
    """|h - h_ZSL| / |h_ZSL| over the last axis; NaN where h_ZSL is zero."""
    size = np.linalg.norm(wide(zsl), axis=-1)
    moved = np.linalg.norm(wide(h) - wide(zsl), axis=-1)
    return np.asarray(moved / np.where(size > 0, size, np.nan))


def wide(values: Floats) -> Floats:
    return np.asarray(values, dtype=np.float64)
