"""Parts of the page that stand there only where they were measured."""

import json
from typing import Any

import numpy as np
import pandas as pd

from analysis.reading_part import answer_data
from analysis.report_parts import MAKERS, ceiling_sentence, controls, parts_of


def entry(**changed: Any) -> dict[str, Any]:
    interval = {"estimate": 0.2, "low": 0.1, "high": 0.3}
    return {
        "hypothesis": "ols", "layer": 2, "head": 1, "kv_group": 0, "part": "y", "says": "none",
        "unique_of_variance": interval, "unique_over_explained": interval,
        "p_corrected": 0.03, "folds": 8, "positive_in_folds": 8, **changed,
    }  # fmt: skip


RESULT = {
    "behaviour": {"verdict": "nearest to ols"},
    "row_test": [entry()],
    "controls": [
        {"kind": "foreign_s", "row_test": [entry(hypothesis="foreign_s")], "expected": "nothing"},
        {
            "kind": "y_permuted",
            "row_test": [entry(p_corrected=1.0)],
            "behaviour": {"verdict": "does not beat the mean"},
            "expected": "the same rows",
        },
    ],
    "split_half_reliability": {"rows": 12, "halves": 0.5, "whole": 2 / 3},
}


def test_nothing_measured_is_no_part() -> None:
    assert parts_of("study-1", {}, {}) == []
    assert all(make("study-1", {}, {}) is None for make in MAKERS)


def test_each_control_is_a_line_beside_the_headline() -> None:
    part = controls("study-1", RESULT, {})
    assert part is not None
    (table,) = part.tables
    assert [row[0] for row in table.rows] == ["none (the headline)", "foreign s", "y permuted"]
    answers = table.headings.index("Answers")
    assert [row[answers] for row in table.rows] == [
        "nearest to ols",
        "not run again",
        "does not beat the mean",
    ]
    assert "0.5" in part.sentences[0]
    assert "0.667" in part.sentences[0]


def test_a_missing_ceiling_is_said() -> None:
    assert "Too few rows" in ceiling_sentence({**RESULT, "split_half_reliability": None})


def test_the_data_of_the_answers_hold_every_answer_in_order() -> None:
    distributions = pd.DataFrame(
        {
            "context": [0, 0, 1],
            "query": [0, 0, 0],
            "value": [1.0, 2.0, 3.0],
            "probability": [0.7, 0.3, 0.0001],
        }
    )
    summary = pd.DataFrame(
        {
            "context": [0, 1],
            "query": [0, 0],
            "truth": [1.5, 4.0],
            "mean": [1.3, np.nan],
            "unexplored": [0.0, 1.0],
        }
    )
    answers = pd.DataFrame(
        {
            "answer_text": ["1.00", "</script>"],
            "ols": [1.0, 2],
            "nearest": [1.0, 2],
            "mean": [1.0, 2],
        }
    )
    text = answer_data(distributions, summary, answers)
    assert "</script>" not in text
    data = json.loads(text)
    # A value whose probability is below a two-thousandth is not drawn.
    assert data["values"] == [[1.0, 2.0], []]
    assert data["mean"] == [1.3, None]
    assert data["range"] == [1.0, 4.0]
    assert data["marks"] == {"ols": [1, 2], "nearest": [1, 2], "mean": [1, 2]}
