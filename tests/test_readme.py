"""The README's Python runs as it stands, and the files that it names are there."""

import re
from pathlib import Path

import pytest

from tests.hatlens.tiny_study import SETTINGS, write_gpt2

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, on a tiny model and small prompts."""
    import hatlens as hl

    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    small = {key: SETTINGS[key] for key in ("examples", "queries", "pairs", "flips")}
    whole = hl.probe
    monkeypatch.setattr(
        hl, "probe", lambda *given, **named: whole(*given, **{**small, **named}), False
    )
    names: dict[str, object] = {"model": str(write_gpt2(tmp_path / "tiny"))}
    exec(compile(code, "README.md", "exec"), names)
    run = names["run"]
    assert isinstance(run, hl.Run)
    assert set(run.tables["row_test"]["hypothesis"]) == {"ols", "by_size"}
    assert len(names["best"]) == 5  # type: ignore[arg-type]
    assert names["scores"].dims == ("context", "query", "layer", "head", "part", "example")  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_the_pages_that_it_names_are_there(target: str) -> None:
    assert (ROOT / target).is_file()


def test_every_command_that_it_names_is_one() -> None:
    from hatlens.cli.app import app

    known = {one.callback.__name__ for one in app.registered_commands if one.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    named = set(re.findall(r"hatlens ([a-z]+)", TEXT)) - {"as"}
    assert named <= known
