"""Trains the text regressor: next-token loss on y and the line break after it, fresh prompts."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probes.reference.text_regressor import (
    ALPHABET,
    EXAMPLES,
    NAME,
    new_regressor,
    regressor_codec,
)
from probes.reference.text_regressor_prompts import (
    Lines,
    answer_places,
    draw_lines,
    line_tokens,
    study_knobs,
    training_knobs,
)

Floats = NDArray[np.float64]
ZERO = ALPHABET.index("0")
SCORED_PROMPTS = 200
SCORE_SEED = 1
USUAL_STEPS = 15_000


@dataclass(frozen=True)
class Training:
    """What makes the weights: the same training gives the same weights on the same machine.

    A prompt has `lines` examples, and every one after the first is a query to those before it.
    The rate rises over `warm_up` steps and falls to a fiftieth over the last `fall` of all.
    """

    steps: int
    seed: int = 0
    batch: int = 64
    lines: int = 10
    rate: float = 1.5e-3
    warm_up: int = 200
    fall: float = 0.5
    weight_decay: float = 0.01


class Score(NamedTuple):
    """How the mean answers stand on fresh prompts of a study's design, 8 examples and a query.

    Mean absolute errors in half ranges: the model's, that of least squares on the same prompts,
    that of the examples' mean. `spd` is the mean squared difference to least squares over the
    variance of y.
    """

    mae: float
    ols_mae: float
    mean_mae: float
    spd: float


class Point(NamedTuple):
    """One point of the curve; `loss` in nats a digit, the mean since the point before."""

    step: int
    seconds: float
    loss: float
    mae: float
    ols_mae: float
    mean_mae: float
    spd: float


class Trained(NamedTuple):
    """A trained model in evaluation mode, and its curve."""

    model: Any
    curve: list[Point]


def train_regressor(
    training: Training,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    on_point: Callable[[Point], None] = lambda point: None,
    score_every: int = 200,
) -> Trained:
    """Train from scratch; `progress` is called at every step, `on_point` at every scored one."""
    model = new_regressor(seed=training.seed)
    rng, optimizer = np.random.default_rng(training.seed), _optimizer(model, training)
    curve: list[Point] = []
    losses: list[float] = []
    begun = time.monotonic()
    with one_thread():
        for step in range(training.steps):
            for group in optimizer.param_groups:
                group["lr"] = training.rate * rate_at(step, training)
            losses.append(_step(model, optimizer, training, rng))
            done = step + 1
            progress(done, training.steps)
            if done % score_every == 0 or done == training.steps:
                score, seconds = score_regressor(model), time.monotonic() - begun
                curve.append(Point(done, seconds, float(np.mean(losses)), *score))
                on_point(curve[-1])
                losses = []
    model.eval()
    model.requires_grad_(False)
    return Trained(model, curve)


def steps_in(minutes: float, *, seed: int = 0, trial: int = 12) -> int:
    """How many steps this machine takes in so many minutes, from a few that are thrown away."""
    training = Training(steps=trial, seed=seed)
    begun = time.monotonic()
    train_regressor(training, score_every=trial + 1, on_point=lambda point: None)
    return max(1, int(minutes * 60 / ((time.monotonic() - begun) / trial)))


def rate_at(step: int, training: Training) -> float:
    """The share of the highest rate at that step."""
    rise = (step + 1) / training.warm_up
    left = (training.steps - step) / max(training.fall * training.steps, 1)
    return min(1.0, rise, max(0.02, left))


def facts(training: Training, curve: list[Point]) -> dict[str, Any]:
    """What ``training.json`` holds: settings, versions, curve."""
    packages = ("hatlens", "torch", "transformers", "tokenizers", "numpy")
    return {
        "name": NAME,
        "training": asdict(training),
        "versions": {name: version(name) for name in packages},
        "curve": [
            {name: float(f"{value:.5g}") for name, value in point._asdict().items()}
            for point in curve
        ],
    }


def score_regressor(model: Any, *, prompts: int = SCORED_PROMPTS, seed: int = SCORE_SEED) -> Score:
    """The model's mean answers against least squares and the mean; see `Score`."""
    rng, codec = np.random.default_rng(seed), regressor_codec()
    lines = draw_lines(study_knobs, prompts, EXAMPLES + 1, codec, rng=rng)
    half = (codec.high - codec.low) / 2
    truth = lines.y[:, -1]
    answers, least_squares = mean_answers(model, lines), least_squares_answers(lines)
    others = (answers, least_squares, lines.y[:, :-1].mean(axis=1))
    mae, ols_mae, mean_mae = (float(np.abs(answer - truth).mean() / half) for answer in others)
    spd = float(np.mean((answers - least_squares) ** 2) / truth.var())
    return Score(mae, ols_mae, mean_mae, spd)


def mean_answers(model: Any, lines: Lines) -> Floats:
    """The mean of the answer's distribution in printed units, (prompt,); digits only."""
    tokens = torch.from_numpy(line_tokens(lines)[:, :-3])
    asked = np.repeat(tokens.numpy(), 10, axis=0)
    first = ZERO + np.tile(np.arange(10), len(tokens))
    tens = _digits(model, tokens)
    ones = _digits(model, torch.from_numpy(np.column_stack([asked, first])))
    joint = tens[:, :, None] * ones.reshape(len(tokens), 10, 10)
    return np.asarray(joint.reshape(len(tokens), 100) @ np.arange(100.0))


def least_squares_answers(lines: Lines) -> Floats:
    """What least squares on the examples says of the last line, in printed units, (prompt,)."""
    x, y = lines.x[:, :-1].astype(np.float64), lines.y[:, :-1].astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    slope = (centred * y).sum(axis=1) / (centred**2).sum(axis=1)
    return np.asarray(y.mean(axis=1) + slope * (lines.x[:, -1] - x.mean(axis=1)))


@contextmanager
def one_thread() -> Iterator[None]:
    """So small a model is fastest on one thread, and gives the same weights on every run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _step(
    model: Any, optimizer: torch.optim.Optimizer, training: Training, rng: np.random.Generator
) -> float:
    lines = draw_lines(training_knobs, training.batch, training.lines, regressor_codec(), rng=rng)
    tokens = torch.from_numpy(line_tokens(lines))
    places = torch.from_numpy(answer_places(training.lines, first=1))
    logits = model(tokens[:, :-1], logits_to_keep=places - 1).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, places].flatten())
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _optimizer(model: Any, training: Training) -> torch.optim.Optimizer:
    matrices = [weights for weights in model.parameters() if weights.ndim > 1]
    vectors = [weights for weights in model.parameters() if weights.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=training.rate, betas=(0.9, 0.98))


@torch.no_grad()
def _digits(model: Any, tokens: torch.Tensor) -> Floats:
    """Probabilities of the ten digits after each text, of the digits only: (text, 10)."""
    parts = [
        model(part, logits_to_keep=1).logits[:, -1, ZERO : ZERO + 10].double().softmax(-1)
        for part in torch.split(tokens, 500)
    ]
    return np.asarray(torch.cat(parts).numpy())
