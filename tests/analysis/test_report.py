"""The page: verdict first, nothing loaded, nothing undefined shown as a number."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.report import plain, render, variants_of
from analysis.report_facts import lead_and_rest, without_list
from tests.analysis.page_reader import Page, without_plotly
from tests.analysis.study_tables import SHARE, row_test_table
from tests.analysis.study_view_factory import SMALL, both, changed, study

BEST = "Trained model: the row test's best row of each hypothesis"
GOLDEN = Path(__file__).parents[1] / "golden" / "report_text.txt"


def test_the_first_line_is_the_verdict(page: Page) -> None:
    assert page.seen[0] == ("strong", both()[0].result["verdict"]["sentence"])


def test_a_verdict_of_several_sentences_stands_whole_in_one_paragraph() -> None:
    text = "Attention: none detected. No row passed. Twins: none detected."
    view = changed(study(SMALL), verdict={"label": "none detected", "sentence": text})
    page = Page(without_plotly(render([view], title="t")))
    assert page.with_class("sentence") == [text]
    assert page.seen[0] == ("strong", "Attention: none detected.")


def test_verdict_label_behaviour_and_twins_of_every_study_come_before_the_title(
    page: Page,
) -> None:
    lines = [text for _, text in page.seen]
    head = lines[: lines.index("HatLens: tiny")]
    for view in both():
        start = head.index(view.result["verdict"]["sentence"])
        after = head[start:]
        places = [
            after.index(f"attention: {view.result['verdict']['label']}"),
            after.index(view.result["behaviour"]["sentence"]),
            next(i for i, line in enumerate(after) if "score-scale-matched (seed 1)" in line),
        ]
        assert places == sorted(places)
        assert view.title in after
    twin = next(line for line in head if "shuffled (seed 2)" in line)
    assert "unique share 0.020 [-0.020, 0.060], p 1.000; none detected" in twin


def test_the_lead_ends_with_the_sentence_on_attention() -> None:
    text = (
        "The answers beat the mean (1.05 to .9). Attention: none detected. No row passed. Rows: 9."
    )
    assert lead_and_rest(text) == (
        "The answers beat the mean (1.05 to .9). Attention: none detected.",
        "No row passed. Rows: 9.",
    )
    assert lead_and_rest("No verdict. P = 1.") == ("No verdict.", "P = 1.")
    assert lead_and_rest("x") == ("x", "")


def test_the_list_of_what_the_verdict_rests_on_is_only_in_the_table() -> None:
    text = "Attention: none detected. 9 rows. It rests on answers: a. b; rows: c."
    assert without_list(text) == "Attention: none detected. 9 rows."
    missing = "Not measured: cause (--cause)."
    assert without_list(f"{text} {missing}") == f"Attention: none detected. 9 rows. {missing}"
    assert without_list("Attention: none detected.") == "Attention: none detected."
    line = {"kind": "answers", "says": "nearest to ols", "measured": True, "flag": ""}
    verdict = {"label": "none detected", "sentence": text, "rests_on": [line]}
    page = Page(without_plotly(render([changed(study(SMALL), verdict=verdict)], title="t")))
    assert page.with_class("sentence") == ["Attention: none detected. 9 rows."]
    evidence = rows_of(page, "What the verdict rests on")
    assert evidence == [["answers", "nearest to ols", "every study"]]


def test_what_was_counted_in_the_correction_is_listed_once() -> None:
    view = changed(study(SMALL), correction={"rows": 60, "hypotheses": 1, "flips": 2000})
    page = Page(without_plotly(render([view], title="t")))
    names = [name for name, _ in rows_of(page, "What was counted in the correction")]
    assert len(names) == len(set(names))
    assert "Flips" in names


def test_what_the_verdict_says_of_behaviour_is_not_said_twice() -> None:
    view = study(SMALL)
    said = view.result["behaviour"]["sentence"]
    verdict = {"label": "none detected", "sentence": f"{said} Attention: none detected."}
    page = Page(without_plotly(render([changed(view, verdict=verdict)], title="t")))
    head = [text for _, text in page.seen][:8]
    assert [line for line in head if said in line] == [f"{said} Attention: none detected."]
    # the errors of the table (printed units), not those of the result
    errors = (
        "Held-out error: model 0.400 [0.350, 0.470], mean 0.800 [0.750, 0.870], "
        "nearest 0.300 [0.250, 0.370]. Answers that could be read: 98.4 %."
    )
    assert errors in head


def test_the_gate_and_the_counts_of_families_are_shown() -> None:
    view = study(SMALL)
    verdict = {**view.result["verdict"], "families": {"inverse": 1, "kernel": 7}}
    behaviour = {**view.result["behaviour"], "beats_mean": True, "asked": 64}
    view = changed(view, verdict=verdict, behaviour=behaviour)
    page = Page(without_plotly(render([view], title="t")))
    said = "Rows that each family alone explains best: inverse 1, kernel 7."
    assert ("p", said) in page.seen
    facts = dict(rows_of(page, "The gate: answers that could be read, and what they beat"))
    assert facts == {"Parse rate": "98.4 %", "Beats mean": "yes", "Asked": "64"}


def test_folds_are_counted_out_of_all_where_these_are_known() -> None:
    view = study(SMALL)
    entry = {**view.result["row_test"][0], "folds": 8}
    page = Page(without_plotly(render([changed(view, row_test=[entry])], title="t")))
    rows = rows_of(page, BEST)
    assert rows[0][7] == "8 of 8"


def test_long_lists_of_settings_are_shown_by_their_ends() -> None:
    view = changed(study(SMALL), manifest={"contexts": {"blocks": list(range(64))}})
    page = Page(without_plotly(render([view], title="t")))
    assert dict(rows_of(page, "Contexts")) == {"Blocks": "64 values: 0, 1, 2, ..., 63"}


def test_a_preview_is_marked_and_a_full_study_is_not(page: Page) -> None:
    assert page.with_class("preview") == ["preview"]
    assert page.with_class("why") == ["16 contexts"]


def test_a_study_without_a_verdict_says_so_and_still_shows_its_rows(page: Page) -> None:
    notices = " ".join(page.with_class("notice"))
    assert notices.count("No verdict on attention.") == 1
    ids = {element.attributes.get("id") for element in page.elements}
    assert {"study-1-map-0", "study-1-row-data"} <= ids


def test_a_study_without_twins_says_that_nothing_stands_beside_it() -> None:
    text = render([changed(study(SMALL), twins=[])], title="t")
    assert "No untrained twin was run" in text


def test_a_twin_that_sees_no_query_is_said_and_not_given_a_share() -> None:
    blind = {"hypothesis": "ols", "layer": None, "head": None, SHARE: None, "p_corrected": None}
    view = changed(study(SMALL), twins=[{"kind": "nothing kept", "seed": 3, "row_test": [blind]}])
    text = Page(without_plotly(render([view], title="t")))
    said = "Twin, nothing kept (seed 3): no row sees the query, so none could be tested."
    assert ("p", said) in text.seen


def test_undefined_values_are_words() -> None:
    view = study(SMALL)
    tables = {name: frame.copy() for name, frame in view.tables.items()}
    tables["row_test"][[SHARE, f"{SHARE}_low", f"{SHARE}_high"]] = np.nan
    entry = {**view.result["row_test"][0], SHARE: None, "p_corrected": float("nan")}
    entry["inversion_index"] = {"estimate": None, "low": None, "high": None}
    design = {"attainable": None, "identifies": None, "mde": float("nan")}
    view = changed(view, row_test=[entry], design=design, rows={"tested": None, "blind": None})
    page = Page(without_plotly(render([view._replace(tables=tables)], title="t")))
    cells = {tuple(row) for row in rows_of(page, BEST)}
    assert next(iter(cells))[3:7:3] == ("undefined", "undefined")
    facts = dict(rows_of(page, "What this design can show"))
    assert facts["Minimum detectable effect"].startswith("undefined")
    assert facts["Rows tested"] == "undefined"


def test_without_a_verdict_tests_are_not_assessable_and_effects_stay(page: Page) -> None:
    rows = rows_of(page, BEST)
    assert rows[0][0] == "ols"
    assert rows[0][3] == "0.310 [0.270, 0.350]"
    assert rows[0][7:] == ["not assessable", "not assessable"]


def test_without_a_verdict_an_undefined_effect_is_still_called_undefined() -> None:
    view = study(SMALL, assessable=False)
    entry = {**view.result["row_test"][0], SHARE: None}
    page = Page(without_plotly(render([changed(view, row_test=[entry])], title="t")))
    rows = rows_of(page, BEST)
    assert rows[0][3] == "undefined"


def rows_of(page: Page, caption: str) -> list[list[str]]:
    """The body cells of the first table with this caption."""
    elements = page.elements
    start = next(i for i, e in enumerate(elements) if e.tag == "caption" and e.text == caption)
    rows: list[list[str]] = []
    for element in elements[start:]:
        if element.tag == "table":
            break
        if element.tag == "tr":
            rows.append([])
        if element.tag == "td" or element.attributes.get("scope") == "row":
            rows[-1].append(" ".join(element.text.split()))
    return [row for row in rows if row]


def test_families_show_the_row_with_the_largest_t(page: Page) -> None:
    assessable = study(SMALL)
    page = Page(without_plotly(render([assessable], title="t")))
    rows = rows_of(page, "Each family against all the others: the row on which it stands out most")
    assert [row[:3] for row in rows[:3]] == [
        ["inverse", "Trained model", "layer 1, head 0, y"],
        ["inverse", "Twin, score-scale-matched (seed 1)", "layer 1, head 0, y"],
        ["inverse", "Twin, shuffled (seed 2)", "layer 1, head 0, y"],
    ]


def test_what_was_counted_in_the_correction_is_said(page: Page) -> None:
    facts = dict(rows_of(page, "What was counted in the correction"))
    assert facts["Token parts"] == "x, y"
    assert facts["Hypotheses"] == "2"
    assert facts["Flips"] == "2000"
    assert facts["Tried besides"].startswith("not recorded")


def test_the_prompt_stands_as_printed(source: str) -> None:
    for view in both():
        for prompt in view.prompts:
            assert prompt + "<span" in source


def test_an_empty_study_says_what_is_missing() -> None:
    view = study(SMALL)
    empty = view._replace(
        result={"verdict": {"label": "not assessable (too few contexts)", "sentence": "None."}},
        tables={},
        rows=view.rows.isel(context=slice(0)),
        bank_rows=view.bank_rows.isel(context=slice(0)),
        prompts=[],
    )
    page = Page(without_plotly(render([empty], title="t")))
    notices = " ".join(page.with_class("notice"))
    for said in ("No row was tested", "No rows were stored", "No answers", "No prompt was stored"):
        assert said in notices


def test_a_report_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one study"):
        render([], title="t")


def test_twins_of_one_kind_and_several_seeds_are_kept_apart() -> None:
    table = row_test_table(SMALL, np.random.default_rng(0))
    again = table[table["variant"] == "shuffled"].assign(seed=7)
    variants = variants_of(pd.concat([table, again], ignore_index=True))
    assert [variant.key for variant in variants] == [
        "trained",
        "score-scale-matched",
        "shuffled (seed 2)",
        "shuffled (seed 7)",
    ]
    assert len({len(variant.rows) for variant in variants}) == 1


def test_the_trained_model_comes_first_wherever_it_stands_in_the_table() -> None:
    table = row_test_table(SMALL, np.random.default_rng(0))
    assert variants_of(table.iloc[::-1])[0].name == "Trained model"


def test_plain_keeps_numbers_and_empties_what_json_lacks() -> None:
    given = {"a": np.float64("nan"), "b": [np.int64(2), float("inf")], "c": (1.5, None, True)}
    assert plain(given) == {"a": None, "b": [2, None], "c": [1.5, None, True]}


def test_rendering_leaves_its_input_as_it_was() -> None:
    view = study(SMALL)
    before = copy.deepcopy(view)
    render([view], title="t")
    assert view.result == before.result
    for name, frame in view.tables.items():
        pd.testing.assert_frame_equal(frame, before.tables[name])
    assert view.rows.identical(before.rows)


def seen_text(source: str) -> str:
    """The page's text without the cells of its tables: one line for each piece, its tag before."""
    page = Page(without_plotly(source))
    kept = [f"{tag}: {text}" for tag, text in page.seen if tag not in ("td", "th", "pre")]
    return "\n".join(kept) + "\n"


def test_the_text_of_the_page_is_the_golden_one(source: str) -> None:
    """After a wanted change: ``GOLDEN.write_text(seen_text(render(both(), title=...)))``."""
    assert seen_text(source) == GOLDEN.read_text("utf-8")
