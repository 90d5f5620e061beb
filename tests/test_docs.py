"""The pages under docs/ name all that there is, and what they print as code runs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pandas as pd
import pytest
import typer

from analysis import baseline
from analysis.bank import BANK, FAMILIES, KINDS
from analysis.bank.hypothesis import OWN
from analysis.behaviour import label_of
from analysis.row_result import CANNOT_IDENTIFY, CONTAINS, FOLLOWS, NOTHING
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from analysis.simulate import SimulatedDesign, simulate_contexts
from analysis.verdict import LABELS
from hatlens.cli.app import app
from hatlens.cli.bank import STANDING, bank_lines
from hatlens.cli.border import STOPPED
from hatlens.comparison.config import PRESETS, SimilarityConfig
from hatlens.comparison.regression import REGRESSION
from hatlens.config import FREE, StudyConfig, build_config
from hatlens.export import FORMATS
from hatlens.library import Run, probe
from probes.head_names import HOOKS
from probes.head_values import OUTPUT_PROJECTIONS
from probes.model_facts import Path as CapturePath
from probes.model_facts import Sharing
from probes.read_model import DTYPES
from probes.registry import BUILT_IN, REGISTRY
from probes.rows import PARTS
from probes.twins import TWINS
from prompts.functions import FUNCTIONS
from prompts.layouts import LAYOUTS
from prompts.numerals import CODECS
from prompts.table_files import READERS
from prompts.tables import BUNDLED
from prompts.tasks.task import TASKS
from prompts.tokens import Bos
from tests.hatlens.tiny_study import SETTINGS, write_gpt2

FOLDER = Path(__file__).parent.parent / "docs"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
DEFAULT = build_config({})
FENCE = re.compile(r"```([a-z]*)\n(.*?)```", flags=re.DOTALL)


def coded(page: str) -> set[str]:
    """What stands between single backticks, line breaks as blanks."""
    prose = FENCE.sub("", PAGES[page])
    return {" ".join(text.split()) for text in re.findall(r"`([^`]+)`", prose)}


def column_pattern(name: str) -> str:
    """A column of M0* as the page names it: any place, any feature."""
    name = re.sub(r"^q[0-9] x[0-9]$", "qj xk", name).replace("|q|", "abs(q)")
    name = re.sub(r"place [0-9]+ x", "place i x", name)
    return re.sub(r"\b([qx])[0-9]+\b", r"\1j", name)


def columns_of_m0() -> set[str]:
    contexts = simulate_contexts(SimulatedDesign(contexts=2), rng=np.random.default_rng(0))
    return {column_pattern(name) for name in baseline.columns(contexts).names}


BEHAVIOUR = {
    "nearest to NAME": label_of("", True, ("NAME",)),
    "not separable among NAMES": label_of("", True, ("NAMES", "")).removesuffix(", "),
    "beats the mean": label_of("", True, ()),
    "does not beat the mean": label_of("", False, ()),
    "not assessable: REASON": label_of("REASON", False, ()),
}
NAMED: dict[str, dict[str, set[str]]] = {
    "row-test.md": {
        "labels": set(LABELS),
        "words on a row": {CONTAINS, FOLLOWS, NOTHING, CANNOT_IDENTIFY},
        "behaviour": set(BEHAVIOUR),
        "columns of M0*": columns_of_m0(),
        "parts": set(PARTS),
    },
    "prompts.md": {
        "layouts": set(LAYOUTS),
        "codecs": set(CODECS),
        "target functions": set(FUNCTIONS),
        "tables": set(BUNDLED),
        "beginnings": set(get_args(Bos)),
    },
    "models.md": {
        "twins": set(TWINS),
        "sharing": set(get_args(Sharing)),
        "paths": set(get_args(CapturePath)),
        "number types": set(DTYPES),
        "models": {*REGISTRY, *BUILT_IN},
    },
    "bank.md": {"hypotheses": set(BANK), "families": {*FAMILIES, OWN}},
    "interventions-and-export.md": {
        "formats": set(FORMATS),
        "hooks": set(HOOKS),
        "projections": set(OUTPUT_PROJECTIONS),
        "parts": set(PARTS),
    },
    "runs.md": {"settings": set(StudyConfig.model_fields)},
    "similarity.md": {
        "settings": set(SimilarityConfig.model_fields),
        "presets": set(PRESETS),
        "measures": set(DESCRIBED),
        "comparisons": set(CONDITIONS) - {MATCHED},
        "tasks": {*TASKS, REGRESSION},
    },
}


@pytest.mark.parametrize(
    ("page", "what"), [(page, what) for page, lists in NAMED.items() for what in lists]
)
def test_a_page_names_all_of(page: str, what: str) -> None:
    assert NAMED[page][what] - coded(page) == set()


def test_behaviour_has_the_labels_that_the_page_explains() -> None:
    assert {name: made for name, made in BEHAVIOUR.items() if name != made} == {}


def test_every_kind_of_hypothesis_is_listed() -> None:
    listed = {name.split("(")[0] for name in coded("bank.md")}
    assert set(KINDS) <= listed


def table_lines(page: str, heading: str) -> dict[str, list[str]]:
    """Cells of a section's table lines that start with a name in backticks, by that name."""
    found = {}
    for line in PAGES[page].split(f"## {heading}\n")[1].split("\n## ")[0].splitlines():
        if line.startswith("| `"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
            found[cells[1].split("`")[1]] = cells[1:-1]
    return found


def test_the_bank_is_listed_as_it_is() -> None:
    lines = table_lines("bank.md", "All hypotheses")
    rng = np.random.default_rng(0)
    for one in bank_lines(list(BANK.values()), STANDING, codec="unsigned-decimal", rng=rng):
        name, family, counts, statement, source = lines[one.name]
        assert name == f"`{one.name}`" + " *" * one.affine_invariant
        assert (family, statement, source) == (one.family, one.statement, one.source)
        says, _, index = counts.partition(", ")
        assert says == one.counts_as_inverse
        if one.inversion_index is None:
            assert not index
        else:
            assert float(index) == pytest.approx(one.inversion_index, abs=0.006)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("prompts.md", (DEFAULT.layout, DEFAULT.codec)),
        ("models.md", DEFAULT.twins),
    ],
)
def test_defaults_are_marked(page: str, names: tuple[str, ...]) -> None:
    assert set(re.findall(r"`([^`]+)` \(default\)", PAGES[page])) == set(names)


def test_which_tables_are_read_is_said() -> None:
    text = PAGES["prompts.md"]
    assert [kind for kind in READERS if kind not in text.lower()] == []


def test_settings_that_may_change_are_said() -> None:
    assert re.findall(
        r"`([a-z_]+)`", PAGES["runs.md"].split("may change on stored rows: ")[1].split(". ")[0]
    ) == list(FREE)


def test_exit_codes_are_listed() -> None:
    assert f"| {STOPPED} | stopped |" in PAGES["runs.md"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_gpt2(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def run(model: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    everything = {**SETTINGS, "behavioural_row": 2, "along": True}
    return probe(model, out=tmp_path_factory.mktemp("run") / "run", **everything)


def test_every_key_of_the_result_is_explained(run: Run) -> None:
    lines = table_lines("runs.md", "`--json`")
    for key, value in run.result.items():
        assert key in lines
        inside = value[0] if isinstance(value, list) and value else value
        if isinstance(inside, dict) and key not in ("task", "parity", "manifest"):
            explained = set(re.findall(r"`([a-z_]+)`", lines[key][1]))
            assert set(inside) - explained - {"hypothesis"} - set(run_places(run)) == set(), key


def run_places(run: Run) -> tuple[str, ...]:
    """Columns that say where a row stands; the page explains them once."""
    places = tuple(str(name) for name in run.tables["row_test"].columns[:4])
    assert set(places) <= coded("runs.md")
    return places


def test_every_column_of_every_table_is_explained(run: Run) -> None:
    lines, places = table_lines("runs.md", "Tables"), set(run_places(run))
    for name, table in run.tables.items():
        explained = set(re.findall(r"`([a-z0-9_]+)`", lines[name][1])) | places
        assert set(once(table)) - explained == set(), name


def once(table: pd.DataFrame) -> list[str]:
    """Columns of a table, an interval's three as one."""
    return [str(name) for name in table.columns if not str(name).endswith(("_low", "_high"))]


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    for page, text in PAGES.items():
        yield from ((page, code) for found, code in FENCE.findall(text) if found == kind)


PYTHON, SHELL = list(blocks("python")), list(blocks("sh"))


@pytest.mark.parametrize(
    ("page", "code"), PYTHON, ids=[f"{page} {place}" for place, (page, _) in enumerate(PYTHON)]
)
def test_python_runs_as_printed(
    page: str, code: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tiny model and small prompts."""
    import hatlens as hl

    small = {key: SETTINGS[key] for key in ("examples", "queries", "pairs", "flips")}
    whole = hl.probe
    monkeypatch.setattr(
        hl, "probe", lambda *given, **named: whole(*given, **{**small, **named}), False
    )
    compare = hl.similarity
    monkeypatch.setattr(
        hl,
        "similarity",
        lambda *given, **named: compare(
            *given, **{**named, "demos": 3, "queries": 4, "sets": 1, "twins": (), "lr": 0.1}
        ),
        False,
    )
    names: dict[str, Any] = {"model": model, "folder": tmp_path / "run"}
    exec(compile(code, page, "exec"), names)


def commands() -> list[str]:
    found = [line for _, code in SHELL for line in code.replace("\\\n", "").splitlines()]
    found += [text for page in PAGES for text in coded(page)]
    lines = [re.sub(r"^OMP_NUM_THREADS=1 ", "", line.split("  #")[0]) for line in found]
    return sorted({line for line in lines if line.startswith("hatlens ")})


@pytest.mark.parametrize("line", commands())
def test_every_command_is_one(line: str) -> None:
    """Each word of a command is a command, and each flag is one of its own."""
    here: Any = typer.main.get_command(app)
    context = click.Context(here)
    words = line.split()[1:]
    while words and hasattr(here, "get_command"):
        here = here.get_command(context, words.pop(0))
        assert here is not None, line
    flags = {flag for parameter in here.params for flag in parameter.opts}
    asked = {word for word in words if word.startswith("--")}
    assert asked <= flags, line


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert (FOLDER / target).is_file(), target


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_in_one_go(page: str) -> None:
    lines = PAGES[page].splitlines()
    assert len(lines) < 200
    fenced = {line for _, code in FENCE.findall(PAGES[page]) for line in code.splitlines()}
    assert [
        line for line in lines if len(line) > 100 and line[0] != "|" and line not in fenced
    ] == []
