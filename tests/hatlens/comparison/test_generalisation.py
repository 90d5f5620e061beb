"""What follows from made-up facts: whole runs on tiny models, planted cells, and the learning."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    verdict_of,
)
from hatlens.comparison import generalisation
from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.cutting import Lessons, lessons_of
from hatlens.comparison.generalisation import (
    RUNS,
    Stated,
    Taught,
    an_epoch,
    right_of,
    run_generalisation,
    stated_of,
    teach,
)
from hatlens.comparison.generalisation_result import (
    generalisation_claim,
    generalisation_result,
    generalisation_table,
)
from hatlens.comparison.study import run_similarity
from hatlens.progress import silent
from hatlens.store import RunFolder
from probes.finetune import fine_tune
from probes.models import LoadedModel, load_model
from prompts.refusal import Refusal
from prompts.tasks.generalisation import (
    KINDS,
    generalisation_facts,
    generalisation_tokens,
)
from tests.hatlens.comparison.tiny_task import SETTINGS

Run = tuple[Path, dict[str, Any]]
SMALL: dict[str, Any] = {**SETTINGS, "twins": (), "queries": 4, "lr": 0.03}


@pytest.fixture(scope="module", autouse=True)
def few_epochs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generalisation, "MOST_EPOCHS", 8)
        yield


@pytest.fixture(scope="module")
def run(gpt2: str, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Facts are added to a finished run."""
    out = tmp_path_factory.mktemp("run") / "run"
    values = {**SMALL, "model": gpt2, "task": str(task)}
    assert run_similarity(build_similarity(values), out)["generalisation"] is None
    return out, run_similarity(build_similarity({**values, "generalise": 4}), out)


@pytest.fixture(scope="module")
def loaded(llama: str) -> LoadedModel:
    return load_model(llama)


def test_shares_right_stand_beside_how_facts_were_learnt(run: Run) -> None:
    found = run[1]["generalisation"]
    assert (found["facts"], found["sets"], found["chance"]) == (4, 2, 0.25)
    assert set(found["runs"]) == set(RUNS)
    assert all(set(of) == set(KINDS) for of in found["runs"].values())
    assert all(1 <= shown <= 4 for shown in found["shown"])
    assert [len(one) for one in found["losses"]] == found["epochs"]


def test_a_model_that_recalls_nothing_is_not_judged(run: Run) -> None:
    found = run[1]["generalisation"]
    assert not found["assessable"]
    recall = [
        min(found["runs"][name][kind].estimate for kind in ("relation", "premise"))
        for name in ("icl", "ft")
    ]
    assert f"ICL recalls {recall[0]:.2f} and FT recalls {recall[1]:.2f}" in found["sentence"]


def test_the_table_holds_every_answer(run: Run) -> None:
    table = RunFolder(run[0]).read_tables()["generalisation"]
    assert len(table) == 2 * 3 * 5 * 4
    assert (table["log_probability"] < 0).all()
    shares = table.groupby(["run", "kind"])["right"].mean()
    for name, of in run[1]["generalisation"]["runs"].items():
        for kind, share in of.items():
            assert shares[name, kind] == pytest.approx(share.estimate)


def test_every_key_and_column_is_explained(run: Run) -> None:
    page = (Path(__file__).parents[3] / "docs" / "generalisation.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    explained = set(re.findall(r"`([^`]+)`", prose))
    assert set(run[1]["generalisation"]) <= explained
    assert set(RunFolder(run[0]).read_tables()["generalisation"].columns) <= explained
    assert set(KINDS) <= explained


def test_log_probabilities_are_those_of_the_whole_text(run: Run, gpt2: str) -> None:
    """A forward over the whole prompt, without a shared prefix, of one question and candidate."""
    model = load_model(gpt2)
    rng = np.random.default_rng([0, 10, 0])
    facts = generalisation_facts(4, rng=rng, pieces=lambda word: 5)
    prompts = generalisation_tokens(facts, model.tokenizer, window=model.context_window)
    cell = RunFolder(run[0]).read_arrays("generalisation/trained/0-4")
    assert cell["question"].tolist() == [one.prompt for one in facts.questions]
    for question, candidate in ((0, 0), (7, 2), (19, 3)):
        own, label = prompts.in_context[question], prompts.labels[question][candidate]
        ids = np.concatenate([*prompts.demonstrations, own, label])
        lead = [] if prompts.bos is None else [prompts.bos]
        tokens = torch.as_tensor(np.r_[lead, ids].astype(np.int64))[None]
        with torch.no_grad():
            logp = model.model(input_ids=tokens).logits[0].log_softmax(-1)
        places = range(tokens.shape[1] - len(label), tokens.shape[1])
        expected = sum(float(logp[place - 1, tokens[0, place]]) for place in places)
        assert cell["logp/icl"][question, candidate] == pytest.approx(expected, abs=1e-3)


def test_a_finished_set_is_not_run_again(
    run: Run, gpt2: str, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatlens.comparison.study.load_model", None)
    values = {**SMALL, "model": gpt2, "task": str(task), "generalise": 4}
    again = run_similarity(build_similarity(values), run[0])["generalisation"]
    assert again["runs"] == run[1]["generalisation"]["runs"]


def test_the_base_weights_are_back_and_a_seed_gives_the_same(loaded: LoadedModel) -> None:
    before = {name: p.clone() for name, p in loaded.model.named_parameters()}
    config = build_similarity({"lr": 0.1, "generalise": 4, "ft": "whole"})
    first, second = (run_generalisation(config, loaded, 0, silent) for _ in range(2))
    assert all(torch.equal(p, before[name]) for name, p in loaded.model.named_parameters())
    for name in ("logp/zsl", "logp/icl", "logp/ft"):
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.allclose(first["logp/zsl"], first["logp/ft"], atol=1e-3)
    assert len(first["losses"]) <= 8
    assert first["losses"][-1] < first["losses"][0]


def lessons_and_questions(loaded: LoadedModel) -> tuple[Lessons, Stated]:
    facts = generalisation_facts(4, rng=np.random.default_rng(0))
    prompts = generalisation_tokens(facts, loaded.tokenizer)
    kinds = np.array([one.kind for one in facts.questions])
    return lessons_of(prompts).first(len(facts.lines)), stated_of(prompts, kinds)


def test_two_epochs_are_one_pass_over_the_lines_twice(loaded: LoadedModel) -> None:
    lessons, _ = lessons_and_questions(loaded)
    config = build_similarity({})
    second = an_epoch(config, loaded, lessons, 0.05, an_epoch(config, loaded, lessons, 0.05, None))
    whole = fine_tune(loaded, lessons.alone * 2, lessons.answers * 2, rate=0.05)
    np.testing.assert_allclose(second.losses, whole.losses[len(lessons.alone) :], rtol=1e-6)
    for ours, theirs in zip(second.weights.tensors, whole.weights.tensors, strict=True):
        torch.testing.assert_close(ours, theirs)


def taught(loaded: LoadedModel, **values: Any) -> Taught:
    lessons, stated = lessons_and_questions(loaded)
    config = build_similarity({"ft": "whole", **values})
    return teach(config, loaded, lessons, stated, np.random.default_rng(0), silent)


def test_a_rate_that_harms_is_cut_to_a_third(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generalisation, "FIRST", 100.0)
    monkeypatch.setattr(generalisation, "MOST_EPOCHS", 20)
    found = taught(loaded)
    cuts = round(np.log(100 / found.rate) / np.log(3))
    assert cuts > 0
    assert found.rate == pytest.approx(100 / 3**cuts)
    assert len(found.losses) > 1
    assert np.diff(found.losses).max() <= 1e-6
    assert len(found.losses) <= 20 - cuts
    assert not found.failed


def test_a_set_rate_that_diverges_is_said(loaded: LoadedModel) -> None:
    found = taught(loaded, lr=1e5)
    assert found.tuned is None
    assert "diverged" in found.failed


def test_learning_ends_where_facts_are_recalled(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked after every fourth epoch; what is recalled is planted."""
    shares = iter([0.5, 0.79, 0.8, 1.0])
    monkeypatch.setattr(generalisation, "MOST_EPOCHS", 20)
    monkeypatch.setattr(generalisation, "recalled", lambda *given: next(shares))
    assert len(taught(loaded, lr=0.01).losses) == 12


def test_all_weights_learn_all_tokens_at_a_rate_of_their_own(loaded: LoadedModel) -> None:
    found = taught(loaded, lr=1e5, ft="gd", loss_tokens="label")
    assert found.tuned is not None
    recipe = found.tuned.recipe
    assert (recipe.loss_tokens, recipe.method) == ("all", "whole")
    assert recipe.rate <= generalisation.FIRST


def test_facts_that_do_not_fit_are_refused(loaded: LoadedModel) -> None:
    with pytest.raises(Refusal, match="ask for fewer facts"):
        run_generalisation(build_similarity({"generalise": 60}), loaded, 0, silent)


@pytest.mark.parametrize("value", [-1, 201, 2.5])
def test_other_counts_are_refused(value: float) -> None:
    with pytest.raises(Refusal, match="generalise"):
        build_similarity({"generalise": value})


def test_too_few_facts_are_refused_before_anything_is_run() -> None:
    with pytest.raises(Refusal, match="needed 4 facts or more"):
        build_similarity({"generalise": 3})


def test_an_equal_candidate_is_not_a_right_answer() -> None:
    logp = np.array([[-1.0, -1, -2, -3], [-1, -2, -3, -4], [-2, -1, -3, -4], [np.nan] * 4])
    np.testing.assert_array_equal(right_of(logp), [0, 1, 0, np.nan])


def planted(
    folder: Path, *, icl: tuple[int, int], ft: tuple[int, int], recall: int = 100, failed: int = 0
) -> tuple[SimilarityConfig, RunFolder]:
    """Two sets of 50 facts; so many of the 100 reversals and syllogisms are right."""
    store, facts = RunFolder(folder), np.arange(100)
    counts = {"zsl": (25, 25, 25), "icl": (100, *icl), "ft": (recall, *ft)}
    for place in range(2):
        arrays: dict[str, Any] = {"kind": np.repeat(KINDS, 50), "fact": np.tile(np.arange(50), 4)}
        for run, (stated, reversals, syllogisms) in counts.items():
            right = np.concatenate(
                [(facts < n)[place::2] for n in (stated, stated, reversals, syllogisms)]
            )
            logp = np.full((200, 4), -2.0)
            logp[:, 0] = np.where(right, -1.0, -3.0)
            arrays[f"logp/{run}"] = logp if run != "ft" or place >= failed else logp * np.nan
        said = "fine-tuning diverged" if place < failed else ""
        arrays |= {"question": np.full(200, "q"), "answer": np.full(200, "a")}
        arrays |= {"failed": np.array(said), "losses": np.ones(3), "rate": np.array(0.1)}
        store.write_arrays(f"generalisation/trained/{place}-50", {**arrays, "shown": np.array(4)})
    return build_similarity({"generalise": 50, "sets": 2}), store


@pytest.mark.parametrize(
    ("ft", "recall", "verdict", "said"),
    [
        ((90, 60), 100, SUPPORTED, ": alike, p"),
        ((40, 60), 100, CONTRADICTED, ": not alike, p"),
        ((82, 60), 100, NOT_DISTINGUISHABLE, ": neither seen to be alike"),
        ((90, 60), 70, NOT_ASSESSABLE, "ICL recalls 1.00 and FT recalls 0.70"),
    ],
)
def test_planted_answers_get_their_verdict(
    ft: tuple[int, int], recall: int, verdict: str, said: str, tmp_path: Path
) -> None:
    config, store = planted(tmp_path, icl=(90, 60), ft=ft, recall=recall)
    found = generalisation_claim(config, store)
    assert verdict_of(found, found.p) == verdict
    result = generalisation_result(config, store)
    assert result is not None
    assert said in result["sentence"]
    assert result["runs"]["ft"]["reversal"].estimate == ft[0] / 100
    expected = (90 - ft[0]) / 100
    assert result["differences"]["reversal"]["difference"].estimate == pytest.approx(expected)


def test_a_set_that_diverged_is_left_out_and_said(tmp_path: Path) -> None:
    config, store = planted(tmp_path, icl=(90, 60), ft=(90, 60), failed=1)
    result = generalisation_result(config, store)
    assert result is not None
    assert (result["sets"], result["failed"]) == (1, ["fine-tuning diverged"])
    assert generalisation_table(config, store)["generalisation"]["right"].isna().sum() == 200
    config, store = planted(tmp_path / "all", icl=(90, 60), ft=(90, 60), failed=2)
    none = generalisation_result(config, store)
    assert none is not None
    assert none["sentence"] == "Not assessable: on every set of facts fine-tuning diverged."
    assert "runs" not in none


def test_what_was_not_asked_for_names_its_flag(tmp_path: Path) -> None:
    config = build_similarity({})
    assert generalisation_result(config, RunFolder(tmp_path)) is None
    assert generalisation_table(config, RunFolder(tmp_path)) == {}
    assert "--generalise 20" in generalisation_claim(config, RunFolder(tmp_path)).reason
