"""How models are found by name: the Hugging Face cache, hashes, and names that can be no model."""

import os
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

import probes.weight_files
from probes.model_check import check_model
from probes.models import list_models, load_model, pull_model
from probes.weight_files import hash_of_files, remembered_sha256, sha256_of
from prompts.refusal import Refusal
from tests.probes.model_files import refused_load, write_gguf

pytestmark = pytest.mark.usefixtures("own_caches")


def test_a_name_without_a_model_says_what_to_do() -> None:
    assert refused_load("nobody/tiny").sentence == (
        "model 'nobody/tiny' is not on this machine; `hatlens models pull nobody/tiny` gets it"
    )
    digits = refused_load("nobody/tiny", revision="0123456").sentence
    assert "`hatlens models pull nobody/tiny --revision 0123456`" in digits
    near = refused_load("smollm2-153m").sentence
    assert near.startswith("unknown model 'smollm2-153m'; near names: smollm2-135m")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("http://10.0.0.1:1234/v1", "came the address"),
        (r"C:\models\Smol:Q4.gguf", "no file or folder"),
        ("./nowhere", "no file or folder"),
        ("gone.gguf", "no file or folder"),
        ("a b", "needed a registered model"),
        ("n" * 300, "needed a registered model"),
        ("", "needed the name of a model"),
        ("nul\0l", "needed a registered model"),
    ],
)
def test_a_name_that_can_be_no_model_is_refused(name: str, said: str) -> None:
    assert said in refused_load(name).sentence


def test_a_revision_is_text_and_only_the_hub_has_any(folder: Path) -> None:
    assert "revision as text, came 123456" in refused_load("a/b", revision=123456).sentence
    assert "no revisions, came '0123456'" in refused_load(str(folder), revision="0123456").sentence
    assert "no revisions" in refused_load("smollm2-135m", revision="main").sentence


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put_into_hub_cache(folder: Path, *, branch: str) -> Path:
    """The cache's layout: blobs named by hash, snapshots that link to them, refs to commits."""
    home = Path(constants.HF_HUB_CACHE) / "models--me--tiny"
    snapshot = home / "snapshots" / COMMIT
    for place in (snapshot, home / "blobs", home / "refs"):
        place.mkdir(parents=True)
    (home / "refs" / branch).write_text(COMMIT)
    for file in folder.iterdir():
        blob = home / "blobs" / sha256_of(file)
        file.rename(blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def test_a_cached_hub_model_loads_without_network_at_its_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.socket.connect", forbidden)
    put_into_hub_cache(folder, branch="0123456")
    loaded = load_model("me/tiny", revision="0123456")
    assert loaded.revision == COMMIT
    assert loaded.source == "https://huggingface.co/me/tiny"
    assert "is not on this machine" in refused_load("me/tiny").sentence  # There is no branch main.
    here = [model.name for model in list_models() if model.here]
    assert here == ["text-regressor", "me/tiny"]  # The first comes with HatLens.


def test_a_half_fetched_hub_model_says_what_completes_it(folder: Path) -> None:
    snapshot = put_into_hub_cache(folder, branch="main")
    (snapshot / "model.safetensors").unlink()
    sentence = refused_load("me/tiny").sentence
    assert "only safetensors" in sentence
    assert "`hatlens models pull me/tiny` completes it" in sentence


def test_a_check_reads_anew_and_finds_a_changed_byte(folder: Path) -> None:
    snapshot = put_into_hub_cache(folder, branch="main")
    assert check_model("me/tiny").anchors == ()
    blob = (snapshot / "model.safetensors").resolve()
    raw, status = bytearray(blob.read_bytes()), blob.stat()
    raw[-1] ^= 1
    blob.write_bytes(raw)
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(Refusal, match=r"damaged: SHA-256 \w+, expected"):
        check_model("me/tiny")


def test_a_check_tells_surprise_from_chance(folder: Path, tmp_path: Path) -> None:
    found = check_model(str(folder))
    assert found.chance_nats == pytest.approx(torch.tensor(264.0).log().item(), abs=0.2)
    assert found.nats_per_token is not None
    assert found.nats_per_token > 0
    write_gguf(tmp_path / "t.gguf")
    assert check_model(str(tmp_path / "t.gguf")).files == 1


def test_logits_that_are_no_numbers_are_refused(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    weights["model.norm.weight"] = weights["model.norm.weight"] * float("nan")
    save_file(weights, path)
    with pytest.raises(Refusal, match="not finite"):
        check_model(str(folder))


def test_a_hash_is_read_again_only_when_the_file_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "model.safetensors"
    first = remembered_sha256(path)
    monkeypatch.setattr(probes.weight_files, "sha256_of", forbidden)
    assert remembered_sha256(path) == first
    assert hash_of_files([path]) == first
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(AssertionError):
        remembered_sha256(path)


def test_pulls_that_cannot_be_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, said in (
        ("me/tiny", "HF_HUB_OFFLINE is set"),
        (str(folder), "already here"),
        ("./nowhere", "no file or folder"),
        ("smollm-135m", "near names: smollm2-135m"),
    ):
        with pytest.raises(Refusal, match=said):
            pull_model(name)


def forbidden(*arguments: object) -> None:
    raise AssertionError("this must not be called")
