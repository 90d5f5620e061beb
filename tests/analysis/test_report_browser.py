"""The page in a real browser: every figure is drawn and the script raises nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.report import render
from tests.analysis.page_reader import Page, without_plotly
from tests.analysis.study_view_factory import both

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=20000",
    "--dump-dom",
)


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium to draw the page")
def test_every_figure_is_drawn_and_nothing_is_complained_about(tmp_path: Path) -> None:
    source = render(both(), title="t")
    file = tmp_path / "report.html"
    file.write_text(source, "utf-8")
    done = subprocess.run(
        [str(BROWSER), *QUIET, f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    drawn = Page(without_plotly(done.stdout))
    plots = [e for e in drawn.elements if "plot" in e.attributes.get("class", "").split()]
    assert len(plots) > 10
    assert all("js-plotly-plot" in plot.attributes["class"] for plot in plots)
    rows = next(e for e in drawn.elements if "data-row-table" in e.attributes)
    assert "Trained model" in rows.text
    assert "0.310 [0.280, 0.340]" in rows.text
