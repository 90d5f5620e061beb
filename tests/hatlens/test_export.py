"""A stored study's chosen heads: what exports hold, what a report opens with, what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import hatlens as hl
from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.config import build_config
from hatlens.export import FORMATS, stored_patterns, stored_source
from hatlens.pattern_shapes import Patterns
from hatlens.store import RunFolder
from hatlens.study import run_studies
from probes.head_names import Head
from probes.rows import PARTS
from prompts.refusal import Refusal
from tests.hatlens.tiny_study import SETTINGS

HEADS = ["L1H0", (0, 1)]
SMALL = {**SETTINGS, "contexts": 8, "pairs": 0, "replicate": False}


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "whole"
    run_studies([build_config({**SMALL, "model": str(model)})], out)
    return out


def test_parquet_holds_the_rows_of_the_heads(run: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(hl.export_rows(run, tmp_path / "a", format="parquet", heads=HEADS))
    names = ["context", "query", "layer", "head", "part", "example", "score", "weight"]
    assert list(table.columns) == names
    assert len(table) == 8 * 3 * 2 * len(PARTS) * 7
    whole = hl.read_run(run).rows()
    for line in table.sample(50, random_state=0).itertuples():
        place: dict[str, Any] = {name: getattr(line, name) for name in names[:6]}
        for kind in ("score", "weight"):
            assert float(whole[kind].sel(place)) == getattr(line, kind)
    assert set(zip(table["layer"], table["head"], strict=True)) == {(1, 0), (0, 1)}


def test_layers_are_named_by_the_model_s_own_index(run: Path, tmp_path: Path) -> None:
    """A hybrid whose two layers with attention are its layers 3 and 7."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["captured_layers"] = [3, 7]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    table = pd.read_parquet(hl.export_rows(copy, tmp_path / "a", format="parquet", heads=["L7H1"]))
    assert set(table["layer"]) == {7}
    expected = hl.read_run(run).rows()["score"].sel(layer=1, head=1).to_numpy().ravel()
    np.testing.assert_array_equal(table["score"], expected)


def test_a_twin_has_scores_only(run: Path, tmp_path: Path) -> None:
    file = hl.export_rows(
        hl.read_run(run), tmp_path / "a", format="parquet", heads=["L1"], variant="shuffled"
    )
    table = pd.read_parquet(file)
    assert "weight" not in table
    expected = hl.read_run(run).rows("shuffled")["score"].sel(layer=1).to_numpy().ravel()
    np.testing.assert_array_equal(table["score"], expected)


def test_numpy_names_its_axes(run: Path, tmp_path: Path) -> None:
    with np.load(hl.export_rows(run, tmp_path / "a", format="numpy", heads=HEADS)) as stored:
        arrays = dict(stored)
    whole = hl.read_run(run).rows()
    assert arrays["heads"].tolist() == ["L1H0", "L0H1"]
    assert arrays["parts"].tolist() == list(PARTS)
    for key in ("score", "weight", "prefix_score", "prefix_weight"):
        first, second, head, part, example = arrays[f"{key}_axes"].tolist()
        assert (first, head, part, example) == ("context", "head", "part", "example")
        assert second in whole[key].dims
        for place, (layer, number) in enumerate(((1, 0), (0, 1))):
            expected = whole[key].sel(layer=layer, head=number)
            np.testing.assert_array_equal(arrays[key][:, :, place], expected)


def test_a_stored_pattern_is_the_rows_of_examples_and_query(run: Path) -> None:
    source = stored_source(run, HEADS, variant="trained")
    found = stored_patterns(source, context=2, query=3, part="y")
    whole = hl.read_run(run).rows().sel(context=1, part="y")
    assert found.tokens == [*(f"example {i}" for i in range(1, 8)), "query"]
    assert found.attention.shape == (2, 8, 8)
    for place, (layer, head) in enumerate(((1, 0), (0, 1))):
        pattern = found.attention[place]
        assert not pattern[np.triu_indices(8)].any()
        here = whole.sel(layer=layer, head=head)
        np.testing.assert_array_equal(pattern[7, :7], here["weight"].sel(query=2))
        for i in range(7):
            np.testing.assert_array_equal(pattern[i, :i], here["prefix_weight"].sel(place=i)[:i])
    assert "part 'y'" in found.note
    assert "; 0 weights" in found.note


def test_hidden_examples_are_counted(run: Path, tmp_path: Path) -> None:
    """One example hidden from the query of each of two heads, and one from example 3."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    file = copy / "rows/trained/main/0.npz"
    cell = dict(np.load(file))
    cell["weight"][0, :, :, :, 0] = np.nan
    cell["prefix_weight"][2, 1, 0, :, 0] = np.nan
    np.savez(file, allow_pickle=False, **cell)
    found = stored_patterns(stored_source(copy, HEADS, variant="trained"))
    assert "; 3 weights" in found.note
    cell["weight"][:], cell["prefix_weight"][:] = np.nan, np.nan
    np.savez(file, allow_pickle=False, **cell)
    with pytest.raises(Refusal, match="no example has a stored weight of part 'all'"):
        stored_patterns(stored_source(copy, HEADS, variant="trained"))


def by_hand() -> Patterns:
    attention = (np.arange(16).reshape(4, 2, 2) / 16).astype(np.float32)
    heads = (Head(1, 0), Head(4, 1), Head(1, 2), Head(4, 0))
    return Patterns(["a", "b"], attention, heads, "by hand")


def test_bertviz_takes_a_stack_of_layers() -> None:
    """Its own first step: squeeze the batch, stack the layers."""
    shape, pattern = by_hand().bertviz(), by_hand().attention
    assert (shape["layers"], shape["heads"]) == ([1, 4], [[0, 2], [1, 0]])
    stacked = torch.stack([torch.tensor(layer).squeeze(0) for layer in shape["attention"]])
    assert stacked.shape == (2, 2, 2, 2)
    np.testing.assert_array_equal(stacked[0], pattern[[0, 2]])
    np.testing.assert_array_equal(stacked[1], pattern[[1, 3]])
    uneven = Patterns(["a", "b"], pattern[:3], by_hand().heads[:3], "")
    with pytest.raises(Refusal, match="came 2 of layer 1, 1 of layer 4"):
        uneven.bertviz()


def test_circuitsvis_takes_heads_and_tokens(tmp_path: Path) -> None:
    file = by_hand().save(tmp_path / "p.json", format="circuitsvis")
    stored = json.loads(file.read_text())
    assert stored["heads"] == ["L1H0", "L4H1", "L1H2", "L4H0"]
    assert stored["tokens"] == ["a", "b"]
    np.testing.assert_array_equal(stored["attention"], by_hand().attention)
    with pytest.raises(Refusal, match="near names: circuitsvis"):
        by_hand().save(tmp_path / "q.json", format="circuitviz")


def test_patterns_of_a_text_are_those_of_eager_attention(model: Path) -> None:
    loaded = hl.load_model(str(model), attention="eager")
    found = hl.patterns(loaded, "1, 2, 3", heads=["L1", "L0H1"])
    ids = torch.tensor([loaded.tokenizer("1, 2, 3")["input_ids"]])
    maps = loaded.model(ids, output_attentions=True).attentions
    expected = torch.stack([maps[1][0, 0], maps[1][0, 1], maps[0][0, 1]])
    np.testing.assert_allclose(found.attention, expected, atol=1e-5)
    assert "".join(found.tokens) == "1, 2, 3"
    assert [str(head) for head in found.heads] == ["L1H0", "L1H1", "L0H1"]
    assert len(hl.patterns(str(model), "12").heads) == 4
    with pytest.raises(Refusal, match="at least one token"):
        hl.patterns(loaded, "")


@pytest.mark.parametrize("format", FORMATS)
def test_the_command_writes_every_format(
    format: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "file"
    words = ["export", str(run), "--format", format, "--out", str(out)]
    assert run_app(app, [*words, "--heads", "L0H1,L1H0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"file": str(out), "format": format, "bytes": out.stat().st_size}
    before = out.read_bytes()
    assert run_app(app, words) == 1
    assert "the file exists" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert run_app(app, [*words, "--force"]) == 0
    assert out.stat().st_size > len(before)
    assert [file.name for file in out.parent.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"heads": ["L9H0"]}, r"\(0 to 1\), came layer 9"),
        ({"heads": ["L1H7"]}, "from 0 to 1, came head 7"),
        ({"heads": ["head"]}, "unknown head 'head'; near names: L0H0"),
        ({"format": "bertvis"}, "near names: bertviz"),
        ({"variant": "shufled"}, "near names: shuffled"),
        ({"variant": "shuffled"}, "scores only"),
        ({"context": 9}, "a context from 1 to 8, came 9"),
        ({"context": 0}, "a context from 1 to 8, came 0"),
        ({"query": 4}, "a query from 1 to 3, came 4"),
        ({"part": "z"}, "unknown part 'z'"),
        ({"format": "numpy", "query": 1}, "for bertviz, circuitsvis only"),
    ],
)
def test_what_is_not_there_is_refused(
    changed: dict[str, Any], said: str, run: Path, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=said):
        hl.export_rows(run, tmp_path / "file", **{"format": "circuitsvis", **changed})
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_finished_is_refused(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "rows/trained/main/5.npz").unlink()
    with pytest.raises(Refusal, match="came 7 of 8 contexts of the trained model"):
        hl.export_rows(copy, tmp_path / "file", format="numpy")
    (copy / "results.json").unlink()
    with pytest.raises(Refusal, match="needed a finished run"):
        hl.export_rows(copy, tmp_path / "file", format="numpy")
    with pytest.raises(Refusal, match="needed a run folder"):
        hl.export_rows(tmp_path, tmp_path / "file", format="numpy")
    with pytest.raises(Refusal, match="came a folder"):
        hl.export_rows(run, tmp_path, format="numpy", force=True)


def test_a_run_of_several_studies_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")]
    monkeypatch.setattr("hatlens.export.study_folders", lambda run: both)
    with pytest.raises(Refusal, match=r"came a run of several: .*a, .*b"):
        hl.export_rows(tmp_path, tmp_path / "file", format="numpy")


@pytest.mark.parametrize("name", ["L1H0", "(1, 0)", "blocks.1.attn.hook_pattern[0]"])
def test_a_report_opens_with_the_named_head(name: str, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert run_app(app, ["report", str(copy), "--head", name]) == 0
    opened = re.findall(r'"best":({[^}]*})', (copy / "report.html").read_text())
    assert [(one["layer"], one["head"]) for one in map(json.loads, opened)] == [(1, 0)]


def test_a_report_refuses_a_head_that_the_model_lacks(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "report.html").read_bytes()
    for name, said in (("L1H7", "came head 7"), ("L1", "one head"), ("best", "unknown head")):
        assert run_app(app, ["report", str(run), "--heads", name]) == 1
        assert said in capsys.readouterr().err
    assert (run / "report.html").read_bytes() == before
