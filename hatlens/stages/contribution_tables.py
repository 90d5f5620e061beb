"""From contributions of heads to statements: the row test on them, tables and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bank import rows
from analysis.centring import double_centred
from analysis.contribution_rows import Lines, contribution_lines
from analysis.design import ContextArrays, Floats
from analysis.inference import Interval
from analysis.number_text import share_text
from analysis.row_test import RowTest, row_test
from hatlens import stored_rows, tables
from hatlens.stages.chosen_heads import chosen_heads
from hatlens.stages.stage import Evidence, Found
from probes.head_names import Head

WHOLE = "all"
CHANGED = "changed"
BEST = "the head whose contributions the hypothesis alone explains best, as description"
SHOWN_HEADS = 4
COMPARED = ("correlation", "slope", "with_y", "gd", "kernel", "nearest")


def concluded(evidence: Evidence, scores: stored_rows.Scores) -> Found:
    """What contributions (context, query, layer, head, part, example) say."""
    arrays = ContextArrays._make(field[: len(scores)] for field in evidence.arrays)
    blocks = evidence.blocks[: len(scores)]
    values = stored_rows.as_rows(scores)
    hypothesis = next(h for h in evidence.hypotheses if h.name == evidence.test.hypotheses[0])
    test = row_test(
        values,
        arrays,
        [hypothesis],
        rng=np.random.default_rng([evidence.config.seed, 20]),
        flips=evidence.config.flips,
        blocks=np.unique(blocks, return_inverse=True)[1],
    )
    lines = contribution_lines(values, arrays, hypothesis, blocks=blocks)
    labels = stored_rows.row_labels(evidence.folder)
    heads = chosen_heads(evidence.config, evidence.folder, evidence.test).heads
    table = rows_table(labels, test, lines, heads)
    shown = shown_rows(table, heads)
    result = {
        "row_test": tables.best_rows(labels, test)[0],
        "heads": [entry(table.iloc[row], why) for row, why in shown],
    }
    found = {
        "contributions": table,
        "contribution_rows": drawn(table, shown, values, rows(hypothesis, arrays)),
    }
    return Found(result, found, sentence(result, test, hypothesis.name))


def rows_table(
    labels: stored_rows.RowLabels, test: RowTest, lines: Lines, heads: Sequence[Head]
) -> pd.DataFrame:
    """One line a row of contributions."""
    places = labels.table()
    named = [
        (layer, head) in heads for layer, head in zip(places["layer"], places["head"], strict=True)
    ]
    return places.assign(
        named=named,
        says=test.says[:, 0],
        t=test.t[:, 0],
        p_corrected=test.p_corrected[:, 0],
        **tables.spread("alone", test.alone, 0),
        **{
            column: values
            for name in COMPARED
            for column, values in tables.spread(name, getattr(lines, name), None).items()
        },
        negative=lines.negative,
        size=lines.size,
    )


def shown_rows(table: pd.DataFrame, heads: Sequence[Head]) -> list[tuple[int, str]]:
    """Rows of the changed heads over all of an example's tokens, then the best; and why each.

    The best is the one of which the hypothesis alone explains most.
    """
    whole = table["part"] == WHOLE
    changed = [int(np.flatnonzero(whole & at(table, head))[0]) for head in heads[:SHOWN_HEADS]]
    merit = table["alone"].where(table["head"] != stored_rows.LAYER_SUM)
    best = [] if merit.isna().all() else [(int(merit.argmax()), BEST)]
    return [(row, CHANGED) for row in changed] + best


def at(table: pd.DataFrame, head: Head) -> "pd.Series[bool]":
    """The lines of one head."""
    return (table["layer"] == head.layer) & (table["head"] == head.head)


def entry(line: "pd.Series[Any]", why: str) -> dict[str, Any]:
    """One row of the table as an entry of the result."""
    single = ("layer", "head", "kv_group", "part", "says", "negative", "size")
    return {
        "why": why,
        **{name: line[name] for name in single},
        **{
            name: Interval(line[name], line[f"{name}_low"], line[f"{name}_high"])
            for name in COMPARED
        },
    }


def drawn(
    table: pd.DataFrame,
    shown: Sequence[tuple[int, str]],
    values: stored_rows.Scores,
    target: Floats,
) -> pd.DataFrame:
    """Query-centred contributions of some rows and the hypothesis' row, one line an example."""
    places: NDArray[np.int64] = np.indices(target.shape).reshape(3, -1)
    own = double_centred(target).ravel()
    frames = [
        pd.DataFrame(
            {
                "layer": table["layer"].iloc[row],
                "head": table["head"].iloc[row],
                "part": table["part"].iloc[row],
                **dict(zip(("context", "query", "example"), places, strict=True)),
                "contribution": double_centred(values[:, :, row].astype(np.float64)).ravel(),
                "hypothesis_row": own,
            }
        )
        for row in dict.fromkeys(row for row, _ in shown)
    ]
    return pd.concat(frames) if frames else pd.DataFrame()


def sentence(result: Mapping[str, Any], test: RowTest, name: str) -> str:
    """What the rows of the heads look like, and whether any passes the row test."""
    parts = [row_words(one, name) for one in result["heads"]]
    passed = int(test.contains(name).sum())
    if test.not_assessable:
        parts.append(f"The row test on contributions is not assessable: {test.not_assessable}.")
    else:
        count = passed or "none"
        parts.append(f"Of {test.tested} rows of contributions {count} pass the row test of {name}.")
    return " ".join(parts)


def row_words(one: Mapping[str, Any], name: str) -> str:
    """One head: how its contributions correlate with the hypothesis, and how negative they are."""
    where = f"L{one['layer']}H{one['head']} ({one['part']}; {one['why']})"
    r = one["correlation"]
    if not np.isfinite(r.estimate):
        return f"{where} writes the same for every query."
    return (
        f"{where}: contributions correlate {r.estimate:.2f} ({r.low:.2f} to "
        f"{r.high:.2f}) with the row of {name}, {one['with_y'].estimate:.2f} with that row "
        f"times y; {share_text(one['negative'])} of their mass is negative."
    )
