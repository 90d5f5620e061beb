"""The page as a document: nothing loaded, nothing broken out of, readable by everybody."""

import itertools
import json
import re

import pytest

from analysis.picture import script_json
from analysis.report import render
from tests.analysis.page_reader import Page, without_plotly
from tests.analysis.study_view_factory import FULL, SMALL, changed, study

MEGABYTES = 1e6


def test_nothing_is_loaded_from_anywhere(source: str) -> None:
    page = Page(without_plotly(source))
    for element in page.elements:
        for name in ("src", "srcset", "href", "action", "data", "poster", "background"):
            value = element.attributes.get(name, "")
            assert value == "" or value.startswith(("#", "data:,")), (element.tag, name, value)
    ours = without_plotly(source)
    assert not re.search(r"url\(|@import|https?:|fetch\(|XMLHttpRequest|import\(", ours)
    policy = next(e for e in page.all("meta") if "http-equiv" in e.attributes)
    assert policy.attributes["content"].startswith("default-src 'none'")
    assert "http" not in policy.attributes["content"]


def test_no_button_sends_a_figure_to_a_server(source: str) -> None:
    # plotly.js shows "Share chart..." unless it is told not to
    assert "showSendToCloud: false" in source
    assert 'plotlyServerURL: ""' in source
    assert "displaylogo: false" in source


def test_plotly_is_inside_once(source: str) -> None:
    assert source.count("All rights reserved.\n* Licensed under the MIT license") == 1


def test_the_page_has_a_language_a_title_and_headings_in_order(page: Page) -> None:
    assert page.all("html")[0].attributes["lang"] == "en"
    assert page.texts("title") == ["HatLens: tiny"]
    assert page.texts("h1") == ["HatLens: tiny"]
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_table_has_a_caption_and_every_figure_a_name(page: Page) -> None:
    assert len(page.all("table")) == len(page.all("caption")) > 10
    assert all(page.texts("caption"))
    plots = [e for e in page.elements if "plot" in e.attributes.get("class", "").split()]
    assert len(plots) > 10
    assert all(e.attributes["role"] == "img" and e.attributes["aria-label"] for e in plots)


def test_ids_are_unique_and_every_reference_has_its_target(page: Page) -> None:
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    wanted = [e.attributes["href"][1:] for e in page.all("a")]
    wanted += [e.attributes["for"] for e in page.all("label")]
    wanted += [e.attributes["data-figure"] for e in page.elements if "data-figure" in e.attributes]
    wanted += [e.attributes["data-rows"] for e in page.elements if "data-rows" in e.attributes]
    assert set(wanted) <= set(ids)


def test_tall_and_wide_tables_scroll_in_their_own_box(page: Page) -> None:
    boxes = [e for e in page.elements if "box" in e.attributes.get("class", "").split()]
    assert len(boxes) >= len(page.all("table"))
    assert all(e.attributes.get("tabindex") == "0" and e.attributes["aria-label"] for e in boxes)


def test_everything_embedded_is_strict_json(page: Page) -> None:
    embedded = [e for e in page.all("script") if e.attributes.get("type") == "application/json"]
    assert len(embedded) > 10
    for element in embedded:
        json.loads(element.text, parse_constant=lambda name: pytest.fail(f"{name} in the page"))


def test_hostile_text_stays_text() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    view = study(SMALL, title=evil)._replace(prompts=[evil])
    tables = dict(view.tables)
    tables["agreement"] = tables["agreement"].assign(hypothesis=evil)
    tables["row_test"] = tables["row_test"].assign(says=evil)
    view = changed(view, verdict={"label": evil, "sentence": evil})._replace(tables=tables)
    page = Page(without_plotly(render([view], title=evil)))
    assert not page.all("img")
    assert page.texts("title") == [evil]
    runnable = [e for e in page.all("script") if "type" not in e.attributes]
    assert [evil in e.text for e in runnable] == [False]


def test_script_json_cannot_end_its_element() -> None:
    text = script_json(json.dumps({"a": "</script>&"}))
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script>&"}


def test_a_study_of_usual_size_stays_below_12_megabytes() -> None:
    assert len(render([study(FULL)], title="t").encode()) < 12 * MEGABYTES
