"""Every bad task through the real command: one sentence, its place, exit 1, no folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.comparison.config import build_similarity
from hatlens.comparison.feed import Fed, drawn_source, feed
from hatlens.comparison.study import run_similarity
from probes.models import LoadedModel, load_model
from tests.hatlens.comparison.bad_tasks import BAD, FOLDERS, GOOD, Row, jsonl, rows, yaml

FLAGS = {"--demos": "3", "--queries": "8", "--sets": "1", "--twins": "none", "--lr": "0.1"}


@pytest.fixture(scope="module")
def loaded(gpt2: str) -> LoadedModel:
    return load_model(gpt2)


def error_of(words: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    rest = [word for flag in FLAGS if flag not in words for word in (flag, FLAGS[flag])]
    assert run_app(app, ["similarity", *words, *rest, "--out", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["error"]
    assert not out.exists()
    assert found["sentence"].strip()
    assert "\n" not in found["sentence"]
    return found["sentence"], found["where"]


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused(
    name: str, gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = BAD[name]
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    (tmp_path / "third.jsonl").write_bytes(jsonl(rows(9, "Yes", "No", "Maybe")))
    file = tmp_path / one.file
    file.write_bytes(one.content)
    words = [gpt2, "--task", str(file), *one.also]
    sentence, where = error_of(words, tmp_path / "runs" / "out", capsys)
    assert one.said in sentence
    assert one.where in where


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_refused(
    name: str, gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    fill, said = FOLDERS[name]
    fill(data)
    words = [gpt2, "--task", "mr", "--data", str(data)]
    sentence, where = error_of(words, tmp_path / "out", capsys)
    assert said in sentence
    assert where == str(data)


def test_a_folder_that_stood_before_stays_empty(
    gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.jsonl").write_bytes(GOOD)
    (tmp_path / "out").mkdir()
    words = [
        "similarity",
        gpt2,
        "--task",
        str(tmp_path / "d.jsonl"),
        "--out",
        str(tmp_path / "out"),
    ]
    words += ["--ft", "value-layer", "--layer", "7", "--lr", "0.1", "--demos", "3"]
    assert run_app(app, words) == 1
    assert list((tmp_path / "out").iterdir()) == []
    assert "attention layers [0, 1], came 7" in capsys.readouterr().err


def result_of(model: str, file: Path, content: bytes, **changed: Any) -> dict[str, Any]:
    file.write_bytes(content)
    values = {"demos": 3, "queries": 8, "sets": 1, "twins": (), "lr": 0.1, **changed}
    config = build_similarity({"model": model, "task": str(file), **values})
    return run_similarity(config, file.parent / "run")


def warnings_of(result: dict[str, Any]) -> str:
    return " | ".join(result["warnings"])


def test_labels_that_differ_by_case_are_classes_with_a_warning(gpt2: str, tmp_path: Path) -> None:
    found = result_of(gpt2, tmp_path / "d.jsonl", jsonl(rows(30, "yes", "Yes")))
    assert "differ by case alone: Yes, yes" in warnings_of(found)
    assert set(found["task"]["label_words"]) == {"yes", "Yes"}


def test_one_label_has_no_accuracy(gpt2: str, tmp_path: Path) -> None:
    found = result_of(gpt2, tmp_path / "d.jsonl", jsonl(rows(30, "Yes")))
    assert "no answer can be wrong" in found["accuracy_reason"]
    assert "one label, 'Yes'" in warnings_of(found)
    assert found["accuracy"]["icl"] is None


def test_labels_that_begin_alike_are_shown(gpt2: str, tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    text = "labels: {Yes: Posi, No: Posa}\ndata: good.jsonl\n"
    found = result_of(
        gpt2,
        tmp_path / "own.yaml",
        yaml(text, head="template: 'T: {text} L:'\n"),
    )
    assert "begin with the same piece (Posi, Posa)" in warnings_of(found)
    (words,) = found["prompts"]["labels"]["shared_first_piece"].values()
    assert list(words) == ["Posi", "Posa"]


def test_repeated_texts_are_named_and_asked_once(gpt2: str, tmp_path: Path) -> None:
    found = result_of(gpt2, tmp_path / "d.jsonl", jsonl(rows(12) * 3))
    assert "12 texts stand more than once" in warnings_of(found)
    assert "8 queries were asked for, 6 are left" in warnings_of(found)


def fed_from(file: Path, content: bytes, loaded: LoadedModel) -> Fed:
    file.write_bytes(content)
    config = build_similarity({"task": str(file), "demos": 3, "queries": 2, "sets": 1})
    return feed(config, drawn_source(config), loaded)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "yaml"])
def test_a_byte_order_mark_is_no_text(kind: str, loaded: LoadedModel, tmp_path: Path) -> None:
    """As Excel writes it: the first column keeps its plain name."""
    lines = "".join(f'"word {i}",{("Yes", "No")[i % 2]}\n' for i in range(30))
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    contents = {
        "csv": f'"text",label\n{lines}'.encode(),
        "jsonl": GOOD,
        "yaml": yaml("data: good.jsonl\n"),
    }
    found = fed_from(tmp_path / f"d.{kind}", b"\xef\xbb\xbf" + contents[kind], loaded)
    assert set(found.sets[0].prompts.label_words) == {"Yes", "No"}
    assert "\ufeff" not in found.facts["prompt"]


def test_texts_of_any_script_are_fed_as_they_are(loaded: LoadedModel, tmp_path: Path) -> None:
    """Right to left, a directional mark, an accent of its own, a character of the second plane."""
    text = "\u0645\u0631\u062d\u0628\u0627 \u202e e\u0301 \U0001f600"
    labels = ("\u0646\u0639\u0645", "\u0644\u0627")
    items: list[Row] = [{"text": f"{text} {i}", "label": labels[i % 2]} for i in range(30)]
    found = fed_from(tmp_path / "d.jsonl", jsonl(items), loaded)
    assert found.facts["prompt"].count(text) == 4
    assert set(found.sets[0].prompts.label_words) == set(labels)
