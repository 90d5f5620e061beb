"""Every measure of a cell again from its formula: one query, one head, one pair at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Numbers = Any
Made = dict[str, float]
NAN = float("nan")


class Plain(NamedTuple):
    """One run of one query, by layer: `h` (width,), `s` (head, own token), `x` (width,), `q` (head,
    dim); `earlier` (head, token before the query, <bos> left out). `p` (word,): the next token's
    chances. `update` by layer and key/value head: the sum of v k' over the query's own tokens.
    """

    h: list[Numbers]
    s: list[Numbers]
    x: list[Numbers]
    q: list[Numbers]
    p: Numbers
    earlier: list[Numbers]
    update: list[list[Numbers]]


class Learnt(NamedTuple):
    """What each demonstration token asked (layer, token, head, dim) and was (layer, token, width)
    before its own step; `shown`: its place among the tokens before the query; `of`: which
    demonstration it is of; `words`: which word it is.
    """

    queries: list[list[Numbers]]
    inputs: list[list[Numbers]]
    shown: list[int]
    of: list[int]
    words: list[int]


def dot(a: Numbers, b: Numbers) -> float:
    total = 0.0
    for x, y in zip(np.ravel(a), np.ravel(b), strict=True):
        total += float(x) * float(y)
    return total


def norm(a: Numbers) -> float:
    return float(np.sqrt(dot(a, a)))


def cos(a: Numbers, b: Numbers) -> float:
    sizes = norm(a) * norm(b)
    return dot(a, b) / sizes if sizes > 0 else NAN


def mean(values: Sequence[float]) -> float:
    """Of those that are defined."""
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else NAN


def steps(weights: Sequence[float]) -> list[float]:
    """A millionth of the largest weight apart is tied."""
    largest = max(abs(weight) for weight in weights)
    return [float(round(weight / largest * 1e6)) for weight in weights]


def pairs(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Concordant less discordant pairs, and those that are untied on either side."""
    agree = untied_a = untied_b = 0.0
    for i in range(len(a)):
        for j in range(i):
            x, y = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
            agree, untied_a, untied_b = agree + x * y, untied_a + x * x, untied_b + y * y
    return agree, untied_a, untied_b


def tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau-b."""
    agree, untied_a, untied_b = pairs(steps(a), steps(b))
    size = np.sqrt(untied_a * untied_b)
    return float(agree / size) if size > 0 else NAN


def tau_within(a: Sequence[float], b: Sequence[float], words: Sequence[int]) -> float:
    """tau-b of the places of each word, mean over words by their number of pairs."""
    a, b = steps(a), steps(b)
    total = weight = 0.0
    for word in set(words):
        places = [place for place, other in enumerate(words) if other == word]
        agree, untied_a, untied_b = pairs([a[i] for i in places], [b[i] for i in places])
        size = np.sqrt(untied_a * untied_b)
        if size > 0:
            many = len(places) * (len(places) - 1) / 2
            total, weight = total + many * agree / size, weight + many
    return total / weight if weight else NAN


def outputs(icl: Plain, zsl: Plain, ft: Plain, i: int) -> Made:
    z, a, b = zsl.h[i], icl.h[i], ft.h[i]
    units = [one / norm(one) for one in (a, b, z)]
    parts = [(one - z) - dot(one - z, units[2]) * units[2] for one in (a, b)]
    return {
        "SimAOU": cos(a - z, b - z),
        "SimAOU (normalised)": cos(units[0] - units[2], units[1] - units[2]),
        "SimAOU (orthogonal)": cos(*parts),
        "SimAOU (floor)": float(np.sqrt(max(0, 1 - cos(a, z)) * max(0, 1 - cos(b, z))) / 2),
        "update norm (ICL)": norm(a - z) / norm(z),
        "update norm (FT)": norm(b - z) / norm(z),
    }


def maps(icl: Plain, zsl: Plain, ft: Plain, i: int) -> Made:
    found: dict[str, list[float]] = {}
    for h in range(len(zsl.s[i])):
        rows = [one.s[i][h] for one in (icl, zsl, ft)]
        for centred in (False, True):
            a, z, b = (row - sum(row) / len(row) if centred else row for row in rows)
            tail = " (centred)" if centred else ""
            before = " (before, centred)" if centred else " (before)"
            found.setdefault(f"SimAM{tail}", []).append(cos(a, b))
            found.setdefault(f"SimAM{before}", []).append(cos(a, z))
            found.setdefault(f"SimAM-delta{tail}", []).append(cos(a - z, b - z))
    return {key: mean(values) for key, values in found.items()}


def next_token(icl: Plain, zsl: Plain, ft: Plain) -> Made:
    def variation(a: Plain, b: Plain) -> float:
        return sum(abs(float(x) - float(y)) for x, y in zip(a.p, b.p, strict=True)) / 2

    def likeliest(one: Plain) -> set[int]:
        return set(sorted(range(len(one.p)), key=lambda word: (-one.p[word], word))[:10])

    return {
        "top-10 overlap": len(likeliest(icl) & likeliest(ft)) / 10,
        "total variation": variation(icl, ft),
        "total variation (ICL, ZSL)": variation(icl, zsl),
    }


def kendalls(icl: Plain, ft: Plain, learnt: Learnt, i: int) -> Made:
    heads, dim, width = len(ft.q[i]), len(ft.q[i][0]), len(ft.x[i])
    m_icl = [sum(float(icl.earlier[i][h][j]) for h in range(heads)) for j in learnt.shown]
    weights = {
        "queries": [
            sum(dot(asked[h], ft.q[i][h]) for h in range(heads)) / dim
            for asked in learnt.queries[i]
        ],
        "inputs": [dot(x, ft.x[i]) / width for x in learnt.inputs[i]],
    }
    found: Made = {}
    for source, m_ft in weights.items():
        sums = [
            [sum(m[j] for j, of in enumerate(learnt.of) if of == d) for d in sorted({*learnt.of})]
            for m in (m_icl, m_ft)
        ]
        found[f"Kendall ({source})"] = tau(m_icl, m_ft)
        found[f"Kendall ({source}, by demonstration)"] = tau(*sums)
        found[f"Kendall ({source}, within identity)"] = tau_within(m_icl, m_ft, learnt.words)
    return found


def head_cosines(context: list[Numbers], zsl: Plain, ft: Plain, i: int) -> list[float]:
    return [
        cos(one, after - before)
        for one, after, before in zip(context, ft.update[i], zsl.update[i], strict=True)
    ]


def delta_w(context: list[Numbers], zsl: Plain, ft: Plain, i: int) -> Made:
    """`context`: Delta W_ICL of this layer by key/value head."""
    tuned = [after - before for after, before in zip(ft.update[i], zsl.update[i], strict=True)]
    ratios = [norm(one) / norm(other) for one, other in zip(tuned, context, strict=True)]
    return {"Delta W": mean(head_cosines(context, zsl, ft, i)), "Delta W (norm)": mean(ratios)}


Measured = dict[str, list[float]]
"""By measure, one number a layer, or one alone where it is of the model's output."""


def by_layer(layers: int, of: Callable[[int], Made]) -> Measured:
    made = [of(i) for i in range(layers)]
    return {key: [one[key] for one in made] for key in made[0]}


def plain_measures(icl: Plain, zsl: Plain, ft: Plain, *, lacks: str = "") -> Measured:
    """All but Kendall's and Delta W's; `lacks`: "scores" or "next token", which is left out."""
    layers = len(zsl.h)
    found = by_layer(layers, lambda i: outputs(icl, zsl, ft, i))
    if lacks != "scores":
        found |= by_layer(layers, lambda i: maps(icl, zsl, ft, i))
    if lacks != "next token":
        found |= {key: [value] for key, value in next_token(icl, zsl, ft).items()}
    return found
