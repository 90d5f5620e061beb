"""The figures show what the tables hold, on one scale, and nothing for what is undefined."""

import json
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis import figures, share_map
from analysis.answers_figure import answers_scatter
from tests.analysis.study_tables import (
    SHARE,
    agreement_table,
    answers_table,
    behaviour_table,
    row_test_table,
)
from tests.analysis.study_view_factory import SMALL, entry

RNG = np.random.default_rng


def small_table() -> pd.DataFrame:
    return row_test_table(SMALL, RNG(0))


def shown(figure: go.Figure, part: str, kind: str) -> Any:
    return next(trace for trace in figure.data if list(trace.meta) == [part, kind])


def trained_map(table: pd.DataFrame, **options: Any) -> go.Figure:
    rows = share_map.ols_rows(table[table["variant"] == "trained"])
    grid = share_map.grid_of(table)
    return share_map.share_map(rows, grid=grid, parts=SMALL.parts, ceiling=0.5, **options)


def cell(table: pd.DataFrame, layer: int, head: int, part: str) -> pd.Series:
    chosen = (table["variant"] == "trained") & (table["hypothesis"] == "ols")
    for name, value in (("layer", layer), ("head", head), ("part", part)):
        chosen &= table[name] == value
    return chosen


def test_each_share_stands_in_its_cell_and_the_sum_behind_a_gap() -> None:
    table = small_table()
    heat = shown(trained_map(table), "y", "share")
    for layer in range(SMALL.layers):
        # columns: head 0, head 1, gap, sum
        assert heat.z[layer][2] is None
        for column, head in ((0, 0), (1, 1), (3, -1)):
            share = float(table.loc[cell(table, layer, head, "y"), SHARE].iloc[0])
            assert heat.z[layer][column] == pytest.approx(share, rel=1e-3)


def test_best_shows_the_part_with_the_largest_share() -> None:
    table = small_table()
    table.loc[cell(table, 0, 0, "x"), SHARE] = 0.2
    table.loc[cell(table, 0, 0, "y"), SHARE] = 0.4
    heat = shown(trained_map(table), "best", "share")
    assert heat.z[0][0] == 0.4
    assert heat.customdata[0][0][0] == "layer 0, head 0 (KV group 0), y"


@pytest.mark.parametrize("blind_part", ["x", "y"])
def test_best_never_prefers_a_blind_part(blind_part: str) -> None:
    table = small_table()
    table.loc[cell(table, 0, 0, blind_part), "blind"] = True
    table.loc[cell(table, 0, 0, blind_part), SHARE] = 0.9
    other = {"x": "y", "y": "x"}[blind_part]
    table.loc[cell(table, 0, 0, other), SHARE] = -0.5
    assert shown(trained_map(table), "best", "share").z[0][0] == -0.5


def test_best_prefers_an_undefined_share_to_a_blind_part() -> None:
    table = small_table()
    table.loc[cell(table, 0, 0, "x"), "blind"] = True
    table.loc[cell(table, 0, 0, "y"), SHARE] = np.nan
    assert shown(trained_map(table), "best", "share").customdata[0][0][2] == "undefined"


def test_blind_and_undefined_rows_have_no_colour_of_the_scale_but_a_mark() -> None:
    table = small_table()
    table.loc[cell(table, 0, 0, "y"), "blind"] = True
    table.loc[cell(table, 1, 0, "y"), SHARE] = np.nan
    figure = trained_map(table)
    heat = shown(figure, "y", "share")
    assert heat.z[0][0] is None
    assert heat.z[1][0] is None
    blind, undefined = shown(figure, "y", "blind"), shown(figure, "y", "undefined")
    assert (list(blind.x), list(blind.y)) == ([0], [0])
    assert (list(undefined.x), list(undefined.y)) == ([0], [1])
    assert [line[0] for line in shown(figure, "y", "grey").z] == [1, 1, None]
    assert "does not see the query" in heat.customdata[0][0][1]
    assert heat.customdata[1][0][2] == "undefined"


def test_a_row_that_does_not_see_every_example_is_hatched_too() -> None:
    table = small_table().assign(outside=False)
    table.loc[cell(table, 0, 0, "y"), "outside"] = True
    figure = trained_map(table)
    assert shown(figure, "y", "share").z[0][0] is None
    assert (list(shown(figure, "y", "blind").x), shown(figure, "y", "blind").y[0]) == ([0], 0)
    assert "does not see every example" in shown(figure, "y", "share").customdata[0][0][1]


def test_the_hover_holds_every_figure_with_its_interval() -> None:
    heat = shown(trained_map(small_table()), "y", "share")
    assert list(heat.customdata[1][1]) == [
        "layer 1, head 1 (KV group 0), y",
        "follows S⁻¹ (OLS)",
        "0.310 [0.280, 0.340]",
        "0.465 [0.435, 0.495]",
        "0.155 [0.125, 0.185]",
        "0.900 [0.870, 0.930]",
        "0.0005",
        "9",
        "1.10",
        "8",
    ]
    for place in range(len(share_map.FIGURES)):
        assert f"%{{customdata[{place}]}}" in heat.hovertemplate


def test_without_a_verdict_the_hover_says_not_assessable() -> None:
    table = row_test_table(SMALL, RNG(0), assessable=False)
    heat = shown(trained_map(table, assessable=False), "y", "share")
    assert heat.customdata[1][1][6:8] == ["not assessable", "not assessable"]
    assert heat.customdata[1][1][2] == "0.310 [0.280, 0.340]"


def test_only_rows_that_pass_carry_the_ring() -> None:
    table = small_table()
    table.loc[cell(table, 2, 0, "y"), ["p_corrected", "coefficient"]] = [0.01, -1.0]
    ring = shown(trained_map(table), "y", "small_p")
    assert (list(ring.x), list(ring.y)) == ([1], [1])


def test_one_part_is_shown_at_a_time() -> None:
    figure = trained_map(small_table())
    assert {trace.meta[0] for trace in figure.data if trace.visible} == {"best"}
    assert {trace.meta[0] for trace in figure.data} == {"best", *SMALL.parts}


@pytest.mark.parametrize(
    ("twin_share", "top"), [(0.01, 0.35), (0.62, 0.65), (3.0, 1.0), (np.nan, 0.35)]
)
def test_the_scale_is_that_of_all_variants(twin_share: float, top: float) -> None:
    table = small_table()
    table.loc[table["variant"] == "shuffled", SHARE] = twin_share
    assert share_map.share_ceiling(table) == pytest.approx(top)


def test_the_scale_never_shrinks_below_a_share_that_matters() -> None:
    table = small_table().assign(**{SHARE: -0.2})
    assert share_map.share_ceiling(table) == 0.1


def test_intervals_reach_exactly_to_their_bounds() -> None:
    trace = figures.error_intervals(behaviour_table()).data[0]
    assert trace.x[0] == 0.4
    np.testing.assert_allclose(trace.error_x.array[0], 0.07)
    np.testing.assert_allclose(trace.error_x.arrayminus[0], 0.05)


def test_an_undefined_difference_is_named_and_not_drawn() -> None:
    figure = figures.difference_intervals(behaviour_table())
    labels, values = figure.layout.yaxis.ticktext, figure.data[0].x
    drawn = dict(zip(labels, values, strict=True))
    assert list(labels) == ["mean", "last (undefined)", "nearest", "kernel", "ridge"]
    assert drawn["last (undefined)"] is None
    assert drawn["mean"] == -0.4


def test_agreement_is_nearest_first_with_the_undefined_last() -> None:
    figure = figures.agreement_intervals(agreement_table())
    assert list(figure.layout.yaxis.ticktext) == [
        "ridge(0.01)",
        "gd(16)",
        "ols",
        "kernel(1) (undefined)",
    ]


def test_trained_and_twins_stand_in_one_figure() -> None:
    rows = [("Trained model", entry("ols", 1, 1, share=0.31)), ("Twin", entry("ols", 0, 0))]
    figure = figures.share_intervals(rows)
    assert [list(trace.x) for trace in figure.data] == [
        [0.31, 0.01],
        [0.465, 0.015],
        [0.155, 0.005],
    ]


def test_an_unreadable_answer_is_counted_and_has_no_value() -> None:
    answers = answers_table(SMALL, RNG(0))
    figure = answers_scatter(answers)
    model, unread = figure.data[0], figure.data[-2]
    assert model.y[1] is None
    assert unread.name == "answer not readable (1)"
    assert list(unread.x) == [pytest.approx(answers["truth"][1])]
    assert unread.customdata[0][2] == "nan &lt;b&gt;"


def test_all_answers_unreadable_still_gives_a_figure() -> None:
    answers = answers_table(SMALL, RNG(0)).assign(answer=np.nan)
    figure = answers_scatter(answers)
    assert set(figure.data[0].y) == {None}


def test_no_figure_holds_nan_or_a_tag_of_a_name() -> None:
    hostile = agreement_table().assign(hypothesis=[f"<a href='x'>{i}" for i in range(4)])
    drawn = [
        figures.agreement_intervals(hostile),
        figures.error_intervals(behaviour_table()),
        answers_scatter(answers_table(SMALL, RNG(0))),
        trained_map(small_table()),
    ]
    for figure in drawn:
        text = figure.to_json()
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in a figure"))
        assert "<a" not in text
