"""The page of two studies, rendered once."""

import pytest

from analysis.report import render
from tests.analysis.page_reader import Page, without_plotly
from tests.analysis.study_view_factory import both


@pytest.fixture(scope="session")
def source() -> str:
    return render(both(), title="HatLens: tiny")


@pytest.fixture(scope="session")
def page(source: str) -> Page:
    return Page(without_plotly(source))
