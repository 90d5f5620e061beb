"""The tables of the report: what stands in each, as text, from one study's result and tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.number_text import (
    NOT_ASSESSABLE,
    UNDEFINED,
    interval_parts,
    interval_text,
    is_missing,
    number_text,
    p_text,
)
from analysis.share_map import EXPLAINED, SHARE, ols_rows, where_text

Entry = Mapping[str, Any]
Cell = Callable[[Any, str], str]


class Column(NamedTuple):
    """A column: the key it is read from, its heading, how a value is written."""

    key: str
    heading: str
    write: Cell
    numeric: bool = True


class Table(NamedTuple):
    """A table ready to print; `numeric` says which columns hold numbers."""

    caption: str
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


def number_cell(value: Any, missing: str) -> str:
    """A cell of one number."""
    return number_text(value, missing=missing)


def interval_cell(value: Any, missing: str) -> str:
    """A cell of an estimate with its interval."""
    return interval_text(value, missing=missing)


def _effect(value: Any, missing: str) -> str:
    """An effect is described whether or not it may be judged: then only undefined is missing."""
    return interval_text(value)


def _p(value: Any, missing: str) -> str:
    return p_text(value, missing=missing)


def as_text(value: Any, missing: str) -> str:
    """A cell of text; an empty one is missing."""
    return missing if is_missing(value) or value == "" else str(value)


WHO = Column("who", "Model", as_text, numeric=False)
HYPOTHESIS = Column("hypothesis", "Hypothesis", as_text, numeric=False)
WHERE = Column("where", "Row", as_text, numeric=False)
SAYS = Column("says", "Says", as_text, numeric=False)
EFFECTS = (
    Column(SHARE, "Unique share of variance", _effect),
    Column(EXPLAINED, "Unique / explained", _effect),
    Column("share_of_reproducible", "Share of the reproducible part", _effect),
    Column("inversion_index", "Inversion index", _effect),
)
ALONE = Column("alone", "Explained by OLS alone", _effect)
PAIRS = Column("pairs_p", "Re-paired twin contexts, p", _p)
TESTS = (
    Column("positive_in_folds", "Positive in folds", number_cell),
    Column("p_corrected", "Corrected p", _p),
)
T = Column("t", "T", number_cell)


def table(
    caption: str,
    columns: Sequence[Column],
    entries: Iterable[Entry],
    *,
    missing: str = UNDEFINED,
) -> Table:
    """Entries as a table; a key that an entry lacks is written as `missing`."""
    rows = tuple(
        tuple(column.write(entry.get(column.key), missing) for column in columns)
        for entry in entries
    )
    return Table(
        caption, tuple(c.heading for c in columns), tuple(c.numeric for c in columns), rows
    )


def evidence(lines: Sequence[Entry]) -> Table:
    """What the verdict rests on, and what was not measured."""
    return table(
        "What the verdict rests on",
        (
            Column("kind", "Evidence", as_text, numeric=False),
            Column("says", "Says", as_text, numeric=False),
            Column("flag", "Measured by", as_text, numeric=False),
        ),
        [{**line, "flag": line["flag"] or "every study"} for line in lines],
    )


def best_rows(entries: Sequence[Entry], caption: str, *, assessable: bool) -> Table:
    """The best row of each hypothesis with every figure that stands behind it."""
    return table(
        caption,
        (HYPOTHESIS, WHERE, SAYS, *EFFECTS, *_present(entries, T), *TESTS),
        [with_place(entry) for entry in entries],
        missing=_missing(assessable),
    )


def beside_twins(labelled: Sequence[tuple[str, Entry]], *, assessable: bool) -> Table:
    """The best OLS row of the trained model, and under it that of every twin."""
    return table(
        "The row test's best OLS row of the trained model and of each twin, by the same rule",
        (WHO, WHERE, SAYS, *EFFECTS, *TESTS),
        [{**with_place(entry), "who": label} for label, entry in labelled],
        missing=_missing(assessable),
    )


def highest_rows(rows: pd.DataFrame, caption: str, *, assessable: bool, most: int = 10) -> Table:
    """The rows with the largest unique OLS share of one variant."""
    seen = ols_rows(rows)
    seen = seen[~seen["blind"].astype(bool)].sort_values(SHARE, ascending=False).head(most)
    entries = [with_place(joined(record)) for record in seen.to_dict("records")]
    more = _present(entries, ALONE) + _present(entries, PAIRS)
    columns = (WHERE, SAYS, *EFFECTS, T, *TESTS, *more)
    return table(caption, columns, entries, missing=_missing(assessable))


def families(frame: pd.DataFrame, labels: Mapping[str, str], *, assessable: bool) -> Table:
    """For each family, the row of each variant with the largest T (untested: largest share)."""
    ranked = frame.sort_values(["t", EXPLAINED], ascending=False, na_position="last", kind="stable")
    best = ranked.drop_duplicates(["family", "variant"])
    order = {name: place for place, name in enumerate(frame["family"].drop_duplicates())}
    ranks = {name: place for place, name in enumerate(labels)}
    entries = [with_place(joined(record)) for record in best.to_dict("records")]
    entries.sort(key=lambda e: (order[e["family"]], ranks.get(str(e["variant"]), len(ranks))))
    return table(
        "Each family against all the others: the row on which it stands out most",
        (
            Column("family", "Family", as_text, numeric=False),
            WHO,
            WHERE,
            Column(EXPLAINED, "Unique / explained", _effect),
            T,
            Column("p_corrected", "Corrected p", _p),
        ),
        [{**e, "who": labels.get(str(e["variant"]), str(e["variant"]))} for e in entries],
        missing=_missing(assessable),
    )


def behaviour(frame: pd.DataFrame) -> Table:
    """Held-out errors and the paired differences to the model."""
    entries = [joined(record) for record in frame.to_dict("records")]
    for entry in entries:
        if entry["predictor"] == "model":
            entry["difference"] = "-"
    return table(
        "Held-out mean absolute error in printed units, and the model's minus each predictor's on "
        "the same contexts (below 0: the model is better)",
        (
            Column("predictor", "Predictor", as_text, numeric=False),
            Column("error", "Error", interval_cell),
            Column("difference", "Model minus predictor", interval_cell),
        ),
        entries,
    )


def alone(frame: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    """For each hypothesis of the bank by itself, the row of each model that it explains best."""
    entries = [with_place(joined(record)) for record in frame.to_dict("records")]
    return table(
        "Each hypothesis by itself: the row that it explains best, chosen on the same contexts "
        "(description; a share says nothing of what else would explain the row)",
        (HYPOTHESIS, WHO, WHERE, Column("explained", "Explained alone", interval_cell)),
        [{**e, "who": labels.get(str(e["variant"]), str(e["variant"]))} for e in entries],
    )


def agreement(frame: pd.DataFrame) -> Table:
    """How far the model's answers lie from each hypothesis', nearest first."""
    ranked = frame.sort_values("spd", na_position="last", kind="stable")
    return table(
        "Agreement of the answers with each hypothesis as predictor, nearest first",
        (
            HYPOTHESIS,
            Column("spd", "Squared distance / variance of y", interval_cell),
            Column("error", "Its own held-out error", interval_cell),
        ),
        [joined(record) for record in ranked.to_dict("records")],
    )


def answers(frame: pd.DataFrame) -> Table:
    """Every answer as printed, beside the truth and what the predictors say."""
    fixed = ("context", "query", "truth", "answer_text", "answer")
    named = [
        Column(str(name), str(name), number_cell) for name in frame.columns if name not in fixed
    ]
    columns = (
        Column("context", "Context", number_cell),
        Column("query", "Query", number_cell),
        Column("truth", "Truth", number_cell),
        Column("answer_text", "As printed", _quoted, numeric=False),
        Column("answer", "Answer", _readable),
        *named,
    )
    caption = "All answers, in printed units; an answer that could not be read has no number"
    return table(caption, columns, frame.to_dict("records"))


def with_place(entry: Entry) -> dict[str, Any]:
    """The entry with the name of its row; an entry without a row says so."""
    placed = not is_missing(entry.get("layer")) and not is_missing(entry.get("head"))
    full = {**entry, "where": where_text(entry) if placed else "no row"}
    folds, positive = entry.get("folds"), entry.get("positive_in_folds")
    if not is_missing(folds) and not is_missing(positive):
        full["positive_in_folds"] = f"{number_text(positive)} of {number_text(folds)}"
    return full


def _quoted(value: Any, missing: str) -> str:
    return missing if is_missing(value) else f"\u201c{value}\u201d"


def _readable(value: Any, missing: str) -> str:
    return number_text(value, missing="not readable")


def _missing(assessable: bool) -> str:
    return UNDEFINED if assessable else NOT_ASSESSABLE


def _present(entries: Sequence[Entry], column: Column) -> tuple[Column, ...]:
    return (column,) if any(column.key in entry for entry in entries) else ()


def joined(record: Entry) -> dict[str, Any]:
    """A table's record with its ``name, name_low, name_high`` columns joined to one interval."""
    full = dict(record)
    for name in record:
        if f"{name}_low" in record and f"{name}_high" in record:
            full[name] = (record[name], record[f"{name}_low"], record[f"{name}_high"])
    return full


def ols_entry(entries: Sequence[Entry]) -> Entry | None:
    """The entry of the OLS hypothesis, or None where it was not tested."""
    return next((entry for entry in entries if entry.get("hypothesis") == "ols"), None)


def share_of(entry: Entry) -> tuple[Any, Any, Any]:
    """The unique / explained share of an entry as (estimate, low, high)."""
    return interval_parts(entry.get(SHARE))
