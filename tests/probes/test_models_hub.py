"""Pulls from a Hugging Face Hub of our own on this machine: what is fetched, and what is said."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch
from huggingface_hub import constants

from probes.hub import HubFile, needed_files
from probes.models import load_model, pull_model
from prompts.refusal import Refusal
from tests.probes.model_files import write_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The few addresses that a download asks for; `files` is what the one model me/tiny holds."""

    files: dict[str, bytes]
    fetched: list[str]
    broken: set[str]

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        parts = urlsplit(self.path).path.strip("/").split("/")
        if parts[:4] == ["api", "models", "me", "tiny"]:
            if parts[4:5] == ["tree"]:
                self.send_json([self.entry(name) for name in self.files])
            elif parts[4:] in ([], ["revision", "0123456"], ["revision", "main"]):
                siblings = [
                    {"rfilename": name, "size": len(raw)} for name, raw in self.files.items()
                ]
                self.send_json({"id": "me/tiny", "sha": COMMIT, "siblings": siblings})
            else:
                self.send_missing("RevisionNotFound")
        elif parts[:3] == ["me", "tiny", "resolve"] and parts[4] in self.files:
            self.send_file(parts[4], body=body)
        else:
            self.send_missing("RepoNotFound")

    def entry(self, name: str) -> dict[str, object]:
        digest = hashlib.sha1(self.files[name]).hexdigest()
        return {"type": "file", "path": name, "size": len(self.files[name]), "oid": digest}

    def send_file(self, name: str, *, body: bool) -> None:
        raw = self.files[name]
        if body:
            self.fetched.append(name)
        if body and name in self.broken:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(raw).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if body:
            self.wfile.write(raw)

    def send_json(self, answer: object) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def send_missing(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Keeps the tests' output free of requests."""


@pytest.fixture(scope="module")
def model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("tiny")
    write_folder(folder)
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return {**files, "README.md": b"hello", "own.py": b"1", "pytorch_model.bin": b"no"}


@pytest.fixture
def hub(
    model_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[type[Hub]]:
    handler = type("OwnHub", (Hub,), {"files": model_files, "fetched": [], "broken": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HATLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield handler
    server.shutdown()
    server.server_close()


def test_a_pull_fetches_what_is_needed_and_the_model_then_loads(hub: type[Hub]) -> None:
    lines: list[str] = []
    folder = pull_model("me/tiny", progress=lines.append)
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
              "tokenizer_config.json"}  # fmt: skip
    assert set(hub.fetched) == wanted
    assert {path.name for path in folder.iterdir()} == wanted
    assert lines[0].startswith("fetching 1/5 ")
    loaded = load_model("me/tiny")
    assert loaded.revision == COMMIT
    assert loaded.file_hash == hashlib.sha256(hub.files["model.safetensors"]).hexdigest()
    assert loaded.model(torch.tensor([[1, 2]])).logits.isfinite().all()


def test_a_revision_of_digits_stays_text(hub: type[Hub]) -> None:
    pull_model("me/tiny", revision="0123456")
    assert load_model("me/tiny", revision="0123456").revision == COMMIT
    with pytest.raises(Refusal, match="`hatlens models pull me/tiny` gets it"):
        load_model("me/tiny")


def test_python_files_are_fetched_only_when_trusted(hub: type[Hub]) -> None:
    pull_model("me/tiny", trust_remote_code=True)
    assert "own.py" in hub.fetched
    assert "pytorch_model.bin" not in hub.fetched


def test_a_pull_that_breaks_off_is_completed_by_the_next(hub: type[Hub]) -> None:
    hub.broken = {"tokenizer.json"}
    with pytest.raises(Refusal, match="could not fetch 'me/tiny'"):
        pull_model("me/tiny")
    with pytest.raises(Refusal, match="`hatlens models pull me/tiny`"):
        load_model("me/tiny")
    hub.broken = set()
    hub.fetched.clear()
    pull_model("me/tiny")
    assert "config.json" not in hub.fetched
    assert load_model("me/tiny").layers == 2


def test_a_half_kept_snapshot_says_what_is_missing(hub: type[Hub]) -> None:
    folder = pull_model("me/tiny")
    (folder / "model.safetensors").unlink()
    with pytest.raises(Refusal, match="it has no weights; `hatlens models pull me/tiny` completes"):
        load_model("me/tiny")


@pytest.mark.parametrize(
    ("name", "revision", "said"),
    [
        ("me/tinny", None, "Hugging Face has no model 'me/tinny', or it is private"),
        ("me/tiny", "v9", "model 'me/tiny' has no revision 'v9'"),
        ("a b", None, "needed a Hugging Face id"),
    ],
)
def test_what_the_hub_has_not_is_named(
    hub: type[Hub], name: str, revision: str | None, said: str
) -> None:
    with pytest.raises(Refusal, match=said):
        pull_model(name, revision=revision)


def test_without_an_answer_the_network_is_named(
    hub: type[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(Refusal, match=r"could not fetch 'me/tiny' .*is there a network\?"):
        pull_model("me/tiny")


def test_a_model_without_safetensors_is_refused_before_anything_is_fetched() -> None:
    listed = [HubFile("pytorch_model.bin", 1), HubFile("config.json", 1),
              HubFile("onnx/model.safetensors", 1)]  # fmt: skip
    with pytest.raises(Refusal, match=r"only those are read; it has pytorch_model.bin"):
        needed_files("me/tiny", listed, python=False)


def test_the_original_format_beside_the_weights_is_left_out() -> None:
    listed = [HubFile("consolidated.safetensors", 1), HubFile("model.safetensors", 1)]
    assert needed_files("me/tiny", listed, python=False) == listed[1:]
