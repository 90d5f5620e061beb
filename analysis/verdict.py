"""The words of the verdict on attention: one label and one plain sentence with its figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.inference import Interval
from analysis.number_text import share_text
from analysis.row_result import CONTAINS, FOLLOWS, Chosen, RowTest

NOT_ASSESSABLE = "not assessable"
NONE_DETECTED = "none detected"
LIKE_TWIN = "not distinguishable from the untrained twin"
FAMILY_LABELS = {
    "fixed metric": "bilinear scores with a fixed metric",
    "kernel": "kernel or nearest",
    "lexical": "lexical",
    "positional": "positional",
    "online": "online learner",
}
LABELS = (
    f"{FOLLOWS} (OLS)",
    f"{FOLLOWS} (partly inverted)",
    f"{FOLLOWS} (not separable)",
    CONTAINS,
    *FAMILY_LABELS.values(),
    NONE_DETECTED,
    LIKE_TWIN,
    NOT_ASSESSABLE,
)


class Finding(NamedTuple):
    """What the rules find on one model's rows, before controls.

    label: one of LABELS; row: the row it rests on, -1 without one; family: the family named.
    words: the same with its figures.
    """

    label: str
    row: int
    family: str
    words: str


class Verdict(NamedTuple):
    """The verdict on attention.

    label: one of LABELS. sentence: label, figures, twins and reason in plain words. row: the row
    it rests on, -1 without one. reason: why nothing was concluded; empty otherwise. preview: why
    it is no verdict yet; empty where it is one. families: how many rows each family alone explains
    best, detected rows only.
    """

    label: str
    sentence: str
    row: int
    reason: str
    preview: str
    families: dict[str, int]


def attention_verdict(
    test: RowTest,
    *,
    gate_failed: str = "",
    twins: Mapping[str, RowTest] | None = None,
    row_names: Sequence[str] = (),
    preview: str = "",
    tried: int = 1,
) -> Verdict:
    """Put the rules' results into one label and one sentence.

    gate_failed: why the behaviour gate was not passed, a part of a sentence; empty where it was.
    twins: the same test on untrained twins, by name. row_names: what the caller calls each row.
    preview: a reason of the caller's own. tried: layouts, codecs or models that were tried.
    """
    found = finding(test, row_names)
    reason = _reason(test, gate_failed)
    same = [] if reason else _twins_alike(found, twins or {})
    label = NOT_ASSESSABLE if reason else LIKE_TWIN if same else found.label
    parts = [f"Attention: {label}."]
    if reason:
        parts.append(f"{capital(reason)}. As description only: {clearest_words(test, row_names)}.")
    elif same:
        parts.append(f"{capital(found.words)}; the same rule names {', '.join(same)}.")
    else:
        parts.append(f"{capital(found.words)}.")
    if twins and not same:
        parts.append(_twin_words(found, twins))
    parts.append(_rows_words(test))
    previews = "; ".join(part for part in (preview, test.preview) if part)
    if previews:
        parts.append(f"This is a preview: {previews}.")
    if tried > 1:
        parts.append(f"{tried} settings were tried; p is not corrected for that.")
    return Verdict(label, " ".join(parts), found.row, reason, previews, family_counts(test))


def finding(test: RowTest, row_names: Sequence[str] = ()) -> Finding:
    """S^-1 if any of its hypotheses is named, else the family that explains the clearest row."""
    inverse = [
        one
        for one, family in zip(test.chosen, test.hypothesis_families, strict=True)
        if family == "inverse" and (one.says.startswith(FOLLOWS) or one.says == CONTAINS)
    ]
    if inverse:
        follows = [one for one in inverse if one.says.startswith(FOLLOWS)]
        best = max(follows or inverse, key=lambda one: _t(test, one))
        return _inverse(test, best, row_names)
    row, family = clearest(test)
    label = FAMILY_LABELS.get(family, NONE_DETECTED)
    if "inverse" not in test.hypothesis_families:
        nothing = "no hypothesis of the S^-1 family was tested"
    else:
        nothing = f"no row contains an S^-1 component{_least(test)}"
    return Finding(label, row, family, f"{nothing}; {clearest_words(test, row_names)}")


def clearest(test: RowTest) -> tuple[int, str]:
    """The row that one family alone explains most surely, and that family; (-1, "") if none is."""
    families = test.families
    nearest = families.nearest()
    seen = np.flatnonzero(nearest != "")
    if len(seen) == 0:
        return -1, ""
    places = [families.families.index(nearest[row]) for row in seen]
    row = int(seen[int(families.alone_t[seen, places].argmax())])
    return row, str(nearest[row])


def clearest_words(test: RowTest, row_names: Sequence[str]) -> str:
    """The clearest row and its family in words."""
    row, family = clearest(test)
    if row < 0:
        return "no family of hypotheses explains any row"
    share = test.families.alone[row, test.families.families.index(family)]
    return (
        f"the row that one family alone explains most surely, {_name(row, row_names)}, is that of "
        f"the family {family!r}, which alone explains {share_text(share)} of what depends on the "
        "query"
    )


def _inverse(test: RowTest, best: Chosen, row_names: Sequence[str]) -> Finding:
    place = test.hypotheses.index(best.hypothesis)
    kind = "partly inverted" if "partly inverted" in best.says else best.says
    if best.says.startswith(FOLLOWS) and kind != best.says:
        label = f"{FOLLOWS} ({kind})"
    else:
        label = best.says
    words = (
        f"{_name(best.row, row_names)} {best.says.split(' (')[0]}: only {best.hypothesis} explains "
        f"{interval_words(best.unique_over_explained)} of what is explained, corrected p "
        f"{p_words(float(test.p_corrected[best.row, place]))}, coefficient above 0 in "
        f"{int(test.positive_in_folds[best.row, place])} of {test.folds} folds; "
        f"inversion index {interval_words(best.inversion_index)}"
    )
    if np.isfinite(best.share_of_reproducible.estimate):
        words += f"; of its reproducible part {interval_words(best.share_of_reproducible)}"
    if test.pairs is None:
        words += "; re-paired twin contexts were not run, so that nothing can be said to follow"
    return Finding(label, best.row, "inverse", words)


def family_counts(test: RowTest) -> dict[str, int]:
    """How many rows each family alone explains best, among the rows that any explains."""
    nearest = test.families.nearest()
    return {name: int((nearest == name).sum()) for name in test.families.families}


def _reason(test: RowTest, gate_failed: str) -> str:
    """Why nothing may be concluded: what the contexts do not allow, and a gate that failed."""
    reasons = [_design_reason(test)]
    if gate_failed:
        reasons.append(f"the behaviour gate failed, since {gate_failed}")
    return "; ".join(reason for reason in reasons if reason)


def _design_reason(test: RowTest) -> str:
    if test.not_assessable:
        return test.not_assessable
    if test.tested == 0:
        return "no row sees the query"
    if test.design.attainable.estimate > 1:
        return (
            "the design cannot identify S^-1: fitted to so few contexts, the rivals predict a "
            "planted least-squares row of other contexts worse than nothing does"
        )
    if not test.design.identifies:
        return (
            "the design cannot identify S^-1: of what explains a planted least-squares row only "
            f"{interval_words(test.design.attainable)} is its own, needed at least 0.2"
        )
    return ""


def _twins_alike(found: Finding, twins: Mapping[str, RowTest]) -> list[str]:
    if found.label == NONE_DETECTED:
        return []
    return [name for name, test in twins.items() if _passes(found, test)]


def _passes(found: Finding, twin: RowTest) -> bool:
    """Whether the same rule names the twin; without re-paired contexts it is given that part."""
    other = finding(twin)
    if found.family == "inverse":
        return other.label.startswith(FOLLOWS) or (
            other.label == CONTAINS and (found.label == CONTAINS or twin.pairs is None)
        )
    return other.family == found.family


def _twin_words(found: Finding, twins: Mapping[str, RowTest]) -> str:
    said = [f"{name}: {finding(test).label}" for name, test in twins.items()]
    return f"Untrained twins: {'; '.join(said)}."


def _rows_words(test: RowTest) -> str:
    rows = "row" if test.tested == 1 else "rows"
    words = f"{test.tested} {rows} tested, {test.blind} blind to the query"
    if test.outside:
        words += f", {test.outside} short of some examples"
    return f"{words}; {test.contexts} contexts of {test.queries} queries."


def _least(test: RowTest) -> str:
    least = test.design.mde
    if np.isfinite(least):
        return f" (a share of {share_text(least)} would have been found in 90 % of the rows)"
    return " (on these rows no share of it would have been found in 90 % of them)"


def _t(test: RowTest, one: Chosen) -> float:
    return float(test.t[one.row, test.hypotheses.index(one.hypothesis)])


def _name(row: int, names: Sequence[str]) -> str:
    return names[row] if len(names) > row else f"row {row}"


def interval_words(interval: Interval) -> str:
    """0.48 (0.41 to 0.55); "undefined" where it is NaN."""
    if not np.isfinite(interval.estimate):
        return "undefined"
    return f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def p_words(p: float) -> str:
    """A p value as it is spoken of."""
    return f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
