"""The text regressor: it is here, reads a study's own prompts, and regresses; its twins do not."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp

import probes.sources
from probes.model_check import check_model
from probes.models import LoadedModel, list_models, load_model, pull_model
from probes.reference import train_text_regressor
from probes.reference.text_regressor import (
    ALPHABET,
    EXAMPLES,
    NAME,
    character_tokenizer,
    new_regressor,
    regressor_codec,
    regressor_layout,
)
from probes.reference.text_regressor_prompts import (
    Lines,
    answer_places,
    draw_lines,
    line_tokens,
    study_knobs,
    training_knobs,
)
from probes.reference.train_text_regressor import (
    Training,
    facts,
    least_squares_answers,
    mean_answers,
    rate_at,
    score_regressor,
    train_regressor,
)
from probes.registry import BUILT_IN
from probes.twins import make_twin
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.layouts import render_all
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context

Floats = NDArray[np.float64]
HALF = 49.5


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    """From the package alone: the cache is empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATLENS_CACHE", str(tmp_path_factory.mktemp("empty")))
        yield load_model(NAME)


def study_lines(count: int, *, examples: int = EXAMPLES, noise: float = 0.1, seed: int) -> Lines:
    """Prompts of a study's default design with one query each, by HatLens' own drawing."""
    design = Design(features=1, examples=examples, queries=1, contexts=count, noise=noise)
    drawn = draw_contexts(design, regressor_codec(), rng=np.random.default_rng(seed)).contexts
    x = np.stack([np.append(context.x[:, 0], context.queries[0]) for context in drawn])
    y = np.stack([np.append(context.y, context.targets[0]) for context in drawn])
    return Lines(x.astype(np.int64), y.astype(np.int64))


def fitted(lines: Lines) -> Floats:
    """Least squares on all but the last line by `lstsq`, asked for the last: (prompt,)."""
    answers = []
    for x, y in zip(lines.x.astype(float), lines.y.astype(float), strict=True):
        matrix = np.column_stack([np.ones(len(x) - 1), x[:-1]])
        answers.append(np.array([1.0, x[-1]]) @ np.linalg.lstsq(matrix, y[:-1], rcond=None)[0])
    return np.array(answers)


def test_it_comes_with_hatlens(loaded: LoadedModel) -> None:
    assert (loaded.layers, loaded.heads, loaded.source) == (4, 4, f"HatLens {version('hatlens')}")
    assert loaded.revision == version("hatlens")
    assert loaded.file_hash == BUILT_IN[NAME].sha256
    assert 150_000 < sum(weights.numel() for weights in loaded.model.parameters()) < 250_000
    assert pull_model(NAME) == BUILT_IN[NAME].folder
    (listed,) = [model for model in list_models() if model.name == NAME]
    assert listed.here
    assert listed.bytes < 1e6


def test_the_check_asks_for_numbers_and_not_for_english() -> None:
    found = check_model(NAME)
    assert found.nats_per_token is None
    assert len(found.anchors) == 3
    assert all(reading.holds for reading in found.anchors)


def test_a_damaged_file_and_a_revision_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(BUILT_IN[NAME].folder, tmp_path / "copy")
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    broken = replace(BUILT_IN[NAME], folder=copy)
    monkeypatch.setattr(probes.sources, "BUILT_IN", {NAME: broken})
    with pytest.raises(Refusal, match=r"damaged: SHA-256 .* installing HatLens anew"):
        load_model(NAME)
    with pytest.raises(Refusal, match="comes with HatLens has no revisions"):
        load_model(NAME, revision="main")


def test_the_tokenizer_gives_one_token_a_character(loaded: LoadedModel) -> None:
    text = "x: 37; y: 52\n\té☃"
    for tokenizer in (character_tokenizer(), loaded.tokenizer):
        cut = tokenizer(text, return_offsets_mapping=True)
        places = [(place, place + 1) for place in range(len(text))]
        assert cut["offset_mapping"] == [(0, 0), *places]
        begin, *ids = cut["input_ids"]
        assert ALPHABET[begin] == "<s>"
        assert tokenizer.decode(cut["input_ids"][1:-3]) == text[:-3]
        assert [ALPHABET[i] for i in ids] == [*"x: 37; y: 52\n", "<unk>", "<unk>", "<unk>"]


def test_training_prompts_are_the_studys_prompts_token_for_token(loaded: LoadedModel) -> None:
    design = Design(features=1, examples=EXAMPLES, queries=3, contexts=4)
    drawn = draw_contexts(design, regressor_codec(), rng=np.random.default_rng(0))
    for index, context in enumerate(drawn.contexts):
        cut = tokenize_context(drawn, index, loaded.tokenizer, layout=regressor_layout())
        for query in range(3):
            x = np.append(context.x[:, 0], context.queries[query])[None].astype(np.int64)
            y = np.append(context.y, context.targets[query])[None].astype(np.int64)
            whole = line_tokens(Lines(x, y))[0]
            assert whole[:-3].tolist() == [*cut.prefix, *cut.suffixes[query]]
        answers = np.column_stack([cut.parts["y"], cut.parts["separator"]])
        assert answer_places(EXAMPLES, first=0).tolist() == answers.ravel().tolist()
    assert render_all(
        drawn.contexts[0],
        layout=regressor_layout(),
        codec=regressor_codec(),
        feature_names=drawn.feature_names,
        target_name="y",
    )[0].text.endswith(";")


def test_fast_drawing_has_the_law_of_draw_contexts() -> None:
    """Slopes, offsets, residual spreads and ranges of 600 prompts each, by Kolmogorov-Smirnov."""
    slow = study_lines(600, seed=1)
    rng = np.random.default_rng(2)
    fast = draw_lines(study_knobs, 600, EXAMPLES + 1, regressor_codec(), rng=rng)

    def described(lines: Lines) -> list[Floats]:
        fits = [
            np.polyfit(x, y, 1, full=True)
            for x, y in zip(lines.x.astype(float), lines.y.astype(float), strict=True)
        ]
        slopes = np.array([fit[0][0] for fit in fits])
        residual = np.array([fit[1][0] for fit in fits])
        return [slopes, residual, lines.x.std(axis=1), lines.x.max(axis=1), lines.y.mean(axis=1)]

    for ours, theirs in zip(described(fast), described(slow), strict=True):
        assert ks_2samp(ours, theirs).pvalue > 1e-3


def test_training_lines_hold_slopes_that_a_study_never_has() -> None:
    rng = np.random.default_rng(0)
    lines = draw_lines(training_knobs, 400, 10, regressor_codec(), rng=rng)
    slopes = [np.polyfit(x, y, 1)[0] for x, y in zip(lines.x, lines.y, strict=True)]
    assert lines.x.min() >= 0
    assert max(lines.x.max(), lines.y.max()) <= 99
    shares = np.histogram(np.abs(slopes), [0, 0.5, 0.9, 1.1, 2])[0] / 400
    assert (shares > 0.05).all()


def test_mean_answers_are_those_of_all_hundred_numbers(loaded: LoadedModel) -> None:
    """Each of the 100 answers is written out and its two digits' probabilities multiplied."""
    lines = study_lines(3, seed=3)
    zero = ALPHABET.index("0")
    for prompt, mean in enumerate(mean_answers(loaded.model, lines)):
        tokens = np.repeat(line_tokens(lines)[prompt : prompt + 1, :-1], 100, axis=0)
        numbers = np.arange(100)
        tokens[:, -2], tokens[:, -1] = zero + numbers // 10, zero + numbers % 10
        with torch.no_grad():
            logits = loaded.model(torch.from_numpy(tokens)).logits[:, -3:-1, zero : zero + 10]
        chances = logits.double().softmax(-1).numpy()
        joint = chances[numbers, 0, numbers // 10] * chances[numbers, 1, numbers % 10]
        assert joint.sum() == pytest.approx(1, abs=1e-5)
        assert mean == pytest.approx(joint @ numbers, abs=1e-3)


def test_it_regresses_on_fresh_contexts(loaded: LoadedModel) -> None:
    """Without noise the mean is ten times worse; with it least squares is hardly better."""
    clean, noisy = study_lines(200, noise=0, seed=4), study_lines(200, seed=5)
    for lines in (clean, noisy):
        np.testing.assert_allclose(least_squares_answers(lines), fitted(lines), atol=1e-8)
    answers, truth = mean_answers(loaded.model, clean), clean.y[:, -1]
    errors = np.abs(answers - truth).mean(), np.abs(clean.y[:, :-1].mean(1) - truth).mean()
    assert errors[0] < 0.1 * errors[1]
    answers, truth = mean_answers(loaded.model, noisy), noisy.y[:, -1]
    assert np.abs(answers - truth).mean() < 1.1 * np.abs(fitted(noisy) - truth).mean()
    assert np.mean((answers - fitted(noisy)) ** 2) < 0.002 * truth.var()


@pytest.mark.parametrize("examples", [7, 9])
def test_one_example_fewer_or_more_does_not_hurt(loaded: LoadedModel, examples: int) -> None:
    lines = study_lines(200, examples=examples, seed=6)
    answers, truth = mean_answers(loaded.model, lines), lines.y[:, -1]
    assert np.mean((answers - fitted(lines)) ** 2) < 0.004 * truth.var()


def test_its_answer_follows_each_y_as_least_squares_does(loaded: LoadedModel) -> None:
    """The difference of answers at y_i + 3 and y_i - 3, against the row of the hat matrix."""
    lines, size = study_lines(30, seed=7), 3
    inside = (lines.y >= size).all(axis=1) & (lines.y <= 99 - size).all(axis=1)
    lines = Lines(lines.x[inside], lines.y[inside])
    moved, rows = [], []
    for example in range(EXAMPLES):
        ends = []
        for sign in (1, -1):
            y = lines.y.copy()
            y[:, example] += sign * size
            ends.append(mean_answers(loaded.model, Lines(lines.x, y)))
        moved.append((ends[0] - ends[1]) / (2 * size))
        unit = np.zeros(lines.y.shape, np.int64)
        unit[:, example] = 1
        rows.append(fitted(Lines(lines.x, unit)))
    answer, row = np.ravel(moved), np.ravel(rows)
    slope = np.polyfit(row, answer, 1)[0]
    assert 0.8 < slope < 1.25
    assert np.corrcoef(row, answer)[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["nothing-kept", "shuffled", "norms-and-embeddings-kept"])
def test_an_untrained_twin_does_not_beat_the_mean(loaded: LoadedModel, kind: str) -> None:
    """The middle of the range, a twin's constant answer, errs by sqrt(1.083 / 1.125) of the mean's:
    y has variance 1 + 1/12 about it, and 1 + 1/8 about the mean of eight examples.
    """
    lines = study_lines(200, seed=8)
    truth = lines.y[:, -1]
    twin = make_twin(loaded, kind, seed=0)
    error = np.abs(mean_answers(twin.model, lines) - truth).mean()
    assert error > 0.9 * np.abs(lines.y[:, :-1].mean(axis=1) - truth).mean()


def test_training_lowers_the_loss_and_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first digits cost log 98, what a model that knows nothing needs for one of 98 words."""
    monkeypatch.setattr(
        train_text_regressor, "score_regressor", lambda model: score_regressor(model, prompts=10)
    )
    training = Training(steps=20, seed=5, batch=8, lines=4, warm_up=2, rate=5e-3)
    seen: list[tuple[int, int]] = []
    first = train_regressor(
        training, score_every=10, progress=lambda done, total: seen.append((done, total))
    )
    again = train_regressor(training, score_every=10)
    assert seen == [(done, 20) for done in range(1, 21)]
    assert [point.step for point in first.curve] == [10, 20]
    assert first.curve[0].loss < np.log(len(ALPHABET))
    assert first.curve[1].loss < first.curve[0].loss - 0.3
    for ours, theirs in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert not ours.requires_grad
    other = train_regressor(replace(training, seed=6), score_every=20)
    assert other.curve[-1].loss != first.curve[-1].loss
    written = facts(training, first.curve)
    assert written["training"]["seed"] == 5
    assert [point["step"] for point in written["curve"]] == [10, 20]


def test_the_rate_rises_and_falls() -> None:
    """100 steps, 10 of warm-up, falling over the last 50: half of it left at step 75."""
    training = Training(steps=100, warm_up=10, fall=0.5)
    rates = [rate_at(step, training) for step in (0, 4, 9, 50, 75, 99)]
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0, 0.5, 0.02])


def test_a_new_regressor_knows_nothing() -> None:
    """Its constant answer, a number of two digits, may err less than the mean of eight y."""
    score = score_regressor(new_regressor(seed=0), prompts=100)
    assert score.mae > 0.8 * score.mean_mae
    assert score.ols_mae < 0.2 * score.mean_mae
    assert score.spd > 0.5
