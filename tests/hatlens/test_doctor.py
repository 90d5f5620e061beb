"""`hatlens doctor`: a right answer on every family, and every kind of fault named."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.config import StudyConfig, build_config
from hatlens.doctor import diagnose_loaded
from hatlens.measure import measure
from hatlens.progress import silent
from hatlens.sets import draw_sets
from hatlens.store import RunFolder
from hatlens.study_cost import not_counted, study_cost
from hatlens.tokenizer_facts import TokenizerFacts, tokenizer_facts
from probes.attention import Recorder
from probes.families import FAMILIES, tiny_config
from probes.models import LoadedModel, load_model
from probes.shape import model_shape
from tests.hatlens.tiny_study import SETTINGS, write_gpt2
from tests.probes.tiny_models import build
from tests.prompts.small_tokenizers import single_digits, three_digits

KEYS = {"model", "path", "parity", "tokenizer", "estimate", "safe_for_verdicts", "problems"}
SMALL = build_config(
    {**{key: SETTINGS[key] for key in ("examples", "queries", "pairs")}, "contexts": 2}
)
FEW = ("--contexts", "2", "--examples", "7", "--queries", "3")
LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len")


def in_memory(config: Any, tokenizer: Any = None) -> LoadedModel:
    """A tiny model as if it had been loaded; it has the tokenizer's BOS token."""
    tokenizer = tokenizer or single_digits()
    config.bos_token_id = tokenizer.bos_token_id
    model = build(config)
    shape = model_shape(config)
    return LoadedModel(
        name="tiny",
        model=model,
        tokenizer=tokenizer,
        file_hash="0" * 64,
        revision="",
        dtype="float32",
        device="cpu",
        source="the tests",
        context_window=shape.context_window,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        layers=shape.layers,
    )


@functools.cache
def of_family(name: str) -> LoadedModel:
    """With room for the tokenizer's words and a prompt of a hundred tokens."""
    family = FAMILIES[name]
    roomy = {key: 256 for key in LONGEST if key in family.tiny}
    grown = family._replace(tiny={**family.tiny, **roomy, "vocab_size": 300})
    return in_memory(tiny_config(grown))


@functools.cache
def facts_once() -> TokenizerFacts:
    return tokenizer_facts(single_digits(), SMALL)


@pytest.fixture
def same_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families share a tokenizer, which is asked once."""
    monkeypatch.setattr("hatlens.doctor.tokenizer_facts", lambda *_: facts_once())


def unsafe(found: Any) -> list[str]:
    return [problem.sentence for problem in found.problems if problem.unsafe]


@pytest.mark.usefixtures("same_tokenizer")
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.route != "refused"])
def test_every_captured_family_is_safe(name: str) -> None:
    family = FAMILIES[name]
    found = diagnose_loaded(of_family(name), SMALL)
    assert unsafe(found) == []
    assert found.safe_for_verdicts
    assert found.path == family.route
    assert found.family is family
    assert found.parity is not None
    assert found.parity.passed
    windowed = {"sliding_window", "attention_window_size", "attention_chunk_size"} & set(
        family.tiny
    )
    assert any("window of 4 tokens" in note.sentence for note in found.problems) == bool(windowed)


@pytest.mark.usefixtures("same_tokenizer")
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.route == "refused"])
def test_a_family_without_attention_is_refused_by_name(name: str) -> None:
    found = diagnose_loaded(of_family(name), SMALL)
    assert (found.path, found.parity, found.estimate) == ("refused", None, None)
    assert not found.safe_for_verdicts
    (sentence,) = unsafe(found)
    assert repr(FAMILIES[name].model_type) in sentence


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gpt2(tmp_path_factory.mktemp("model") / "tiny")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = run_app(app, ["doctor", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_default_study_on_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(capsys, str(folder))
    assert status == 0
    assert set(found) == KEYS
    assert found["path"] == "fast"
    assert found["safe_for_verdicts"] is True
    assert found["parity"]["passed"] is True
    assert set(found["tokenizer"]) == {"bos", "digits_per_token", "merges"}
    assert found["tokenizer"]["bos"] is None
    assert found["tokenizer"]["digits_per_token"] == 1
    assert {(one["layout"], one["codec"]) for one in found["tokenizer"]["merges"]} == {
        (layout, codec)
        for layout in ("function", "arrow")
        for codec in ("decimal", "signed-decimal")
    }
    assert set(found["estimate"]) == {"seconds", "bytes", "not_counted"}
    assert found["estimate"]["seconds"] > 0
    assert found["estimate"]["bytes"] > 1e8  # Python and torch alone take that.


def test_what_people_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["doctor", str(folder), *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "family: GPT-2 (learned positions)"
    assert lines[2] == "capture: fast"
    assert lines[3].startswith("parity gate: passed on ")
    assert lines[4] == "tokenizer: 1 digit a token, nothing before a text"
    (left_out,) = [line for line in lines if line.startswith("not counted there: ")]
    assert left_out == (
        "not counted there: exact readings (2 runs), loading, the analysis of what is stored"
    )
    assert lines[-1] == "safe for verdicts: yes"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dtype", "bfloat16"), "bfloat16 gives previews; a verdict needs float32"),
        (("--codec", "decimal"), "in `(-"),
        (("--examples", "60"), "the model's context window holds 512"),
    ],
)
def test_settings_that_give_no_verdict(
    words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = run(capsys, str(folder), *FEW, *words)
    assert status == 1
    assert found["safe_for_verdicts"] is False
    assert any(said in problem for problem in found["problems"])


def test_capture_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(self: Recorder, call: Any, keys: Any) -> None:
        rule = call.rule._replace(scaling=call.rule.scaling * 1.05)
        right(self, call._replace(rule=rule), keys)

    right = Recorder.record
    monkeypatch.setattr(Recorder, "record", record)
    found = diagnose_loaded(of_family("llama"), SMALL)
    assert found.parity is None
    assert "layer 0, head" in unsafe(found)[0]


def test_a_tokenizer_of_another_model() -> None:
    """Its ids reach 256 and more, the model has 64 words."""
    config = tiny_config(FAMILIES["llama"])
    config.max_position_embeddings = 256
    found = diagnose_loaded(in_memory(config), SMALL)
    assert not found.safe_for_verdicts
    assert any("the tokenizer is another model's" in sentence for sentence in unsafe(found))


def test_a_tokenizer_without_offsets() -> None:
    class Slow:
        bos_token_id = None
        all_special_ids = ()

        def __call__(self, text: Any, **options: Any) -> Any:
            return {"input_ids": [[1]]}

    found = diagnose_loaded(replace(of_family("llama"), tokenizer=Slow()), SMALL)
    assert found.tokenizer is None
    assert any("character offsets is needed; came Slow" in said for said in unsafe(found))


def test_an_untrained_model_is_noted() -> None:
    (note,) = diagnose_loaded(of_family("llama"), SMALL).problems
    assert "guessing by 5.7" in note.sentence  # log 300
    assert "it is untrained" in note.sentence


def test_positions_that_depend_on_length_are_noted() -> None:
    config = tiny_config(FAMILIES["llama"])
    config.vocab_size, config.max_position_embeddings = 300, 64
    config.rope_parameters = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    loaded = replace(in_memory(config), context_window=256)
    found = diagnose_loaded(loaded, SMALL)
    assert found.safe_for_verdicts
    assert any("no prefix is shared" in note.sentence for note in found.problems)
    assert found.parity is not None
    assert found.parity.sharing == "whole"


def test_digits_and_beginnings_of_tokenizers() -> None:
    """`<s>` is the last but one of the ids."""
    begun = single_digits(lead="<s>")
    facts = tokenizer_facts(begun, SMALL)
    assert (facts.bos, facts.fewest, facts.digits_per_token) == (len(begun) - 2, 1, 1)
    facts = tokenizer_facts(three_digits(), SMALL)
    assert (facts.bos, facts.fewest, facts.digits_per_token) == (None, 3, 3)


def test_the_study_s_own_layout_is_the_first_merge() -> None:
    own = SMALL.model_copy(update={"layout": "f({x1},{x2})={y}", "codec": "decimal"})
    first = tokenizer_facts(single_digits(), own).merges[0]
    assert (first.layout, first.codec) == ("f({x1},{x2})={y}", "decimal")


def test_numbers_that_do_not_fit_a_codec() -> None:
    """Diabetes has columns above 9.99, which the codecs that map no range cannot print."""
    settings = {"data": "diabetes", "columns": ("bmi", "bp")}
    merges = tokenizer_facts(single_digits(), SMALL.model_copy(update=settings)).merges
    codecs = {one.codec for one in merges if one.layout == "line"}
    assert codecs == {"decimal", "signed-decimal"}


def test_a_gguf_file_of_an_unknown_architecture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "c33.gguf", "nosucharch")
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    status, found = run(capsys, str(tmp_path / "c33.gguf"))
    assert status == 1
    assert "'nosucharch'" in found["error"]["sentence"]


def test_the_folder_is_as_large_as_estimated(folder: Path, tmp_path: Path) -> None:
    """A cell's file also holds a header of a few hundred bytes for each array."""
    config: StudyConfig = build_config({**SETTINGS, "model": str(folder)})
    measure(config, RunFolder(tmp_path / "run"), silent)
    files = list((tmp_path / "run" / "rows").rglob("*.npz"))
    loaded, study = load_model(str(folder)), draw_sets(config)
    from hatlens.doctor import study_tokens

    cost = study_cost(config, study, loaded, study_tokens(config, study, loaded))
    held = sum(sum(array.nbytes for array in np.load(file).values()) for file in files)
    assert cost.folder_bytes == pytest.approx(held, rel=0.02)
    assert cost.seconds > 0


def test_what_the_estimate_leaves_out_is_what_was_asked_for() -> None:
    """Two main contexts; with controls three sets more, of two contexts each."""
    asked = {"cause": True, "along": True, "behavioural_row": 1, "controls": True}
    config = SMALL.model_copy(update={**asked, "reading": "greedy"})
    found = not_counted(config, draw_sets(config))
    assert [part.partition(" (")[0] for part in found[:-2]] == [
        "behavioural rows",
        "along the prompt and its layers",
        "contributions of heads",
        "heads changed",
    ]
    assert found[0] == "behavioural rows (4 runs)"
    greedy = SMALL.model_copy(update={"reading": "greedy"})
    assert not_counted(greedy, draw_sets(greedy)) == ("loading", "the analysis of what is stored")


def test_the_page_explains_every_key() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "models.md"
    section = page.read_text(encoding="utf-8").split("\n## A model that is new\n")[1]
    keys = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    assert keys == KEYS


@pytest.mark.model
def test_smollm2(capsys: pytest.CaptureFixture[str]) -> None:
    """One token a digit, nothing before a text; `(-` is a token, so the arrow merges signs."""
    status, found = run(capsys, "smollm2-135m", *FEW)
    assert status == 0
    assert found["path"] == "fast"
    assert found["parity"]["layers_captured"] == 30
    assert found["tokenizer"]["digits_per_token"] == 1
    assert found["tokenizer"]["bos"] is None
    assert {one["layout"] for one in found["tokenizer"]["merges"]} == {"function", "arrow"}
    assert found["estimate"]["bytes"] > 2 * 135e6 * 4  # The model and one twin in float32.
    assert found["problems"] == []
