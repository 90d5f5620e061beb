"""The exact distribution of every answer to the main contexts."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import distribution
from analysis.design import Floats
from analysis.distribution import Distributions, padded
from analysis.forecast import calibration_curve, forecast
from analysis.number_text import share_text
from hatlens.config import StudyConfig
from hatlens.sets import MAIN, StudySets
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage, index_of
from hatlens.store import RunFolder
from probes.reading import Reading, read_context

CURVE = np.linspace(0.05, 0.95, 19)


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """One a main context, as many as are read; none where answers are only read greedily."""
    return names(config, len(study.sets[MAIN].contexts))


def names(config: StudyConfig, contexts: int) -> list[str]:
    """The cells of a study with so many main contexts: the first `reading_contexts` (0: all)."""
    if config.reading == "greedy":
        return []
    return [cell_name(index) for index in range(min(config.reading_contexts or contexts, contexts))]


def stored_names(config: StudyConfig, folder: RunFolder) -> list[str]:
    """The same for a study that is stored."""
    return names(config, folder.manifest()["contexts"]["sets"][MAIN])


def cell_name(index: int) -> str:
    return f"reading/{MAIN}/{index}"


def run(bench: Bench, name: str) -> Arrays:
    """Readings of one context, see `stored`."""
    began = time.perf_counter()
    tokens = bench.tokens[MAIN][index_of(name)]
    readings = read_context(bench.loaded, tokens, bench.grammar(), mass=bench.config.mass)
    return {**stored(readings), "seconds": np.array(time.perf_counter() - began)}


def stored(readings: Sequence[Reading]) -> Arrays:
    """Readings of a context's queries as arrays.

    values, probabilities (query, number), padded; unexplored, outside (query,); likeliest (query,
    5) first tokens, not held to the numbers' grammar, and their chances.
    """
    found = padded(
        [[one.values for one in readings]],
        [[one.probabilities for one in readings]],
        [[one.unexplored for one in readings]],
    )
    return {
        "values": found.values[0],
        "probabilities": found.probabilities[0],
        "unexplored": found.unexplored[0],
        "outside": np.array([one.outside for one in readings]),
        "likeliest": np.array([[text for text, _ in one.likeliest] for one in readings]),
        "chances": np.array([[chance for _, chance in one.likeliest] for one in readings]),
    }


def was_read(config: StudyConfig, folder: RunFolder) -> bool:
    """Whether every context that was to be read exactly has been."""
    wanted = stored_names(config, folder)
    return bool(wanted) and all(map(folder.has, wanted))


def read_cells(folder: RunFolder, names: Sequence[str]) -> dict[str, Any]:
    """Stored readings of some cells: `distributions`, and the other arrays, contexts first."""
    every = [folder.read_arrays(name) for name in names]
    known = [~np.isnan(one["values"]) for one in every]

    def lists(key: str) -> list[list[Floats]]:
        return [
            [row[mask] for row, mask in zip(one[key], masks, strict=True)]
            for one, masks in zip(every, known, strict=True)
        ]

    rest = ("outside", "likeliest", "chances", "seconds")
    return {
        "distributions": padded(
            lists("values"), lists("probabilities"), [one["unexplored"].tolist() for one in every]
        ),
        **{key: np.stack([one[key] for one in every]) for key in rest},
    }


def stored_readings(config: StudyConfig, folder: RunFolder) -> dict[str, Any]:
    """The readings of the main contexts that were read; see `read_cells`."""
    return read_cells(folder, stored_names(config, folder))


def mean_answers(config: StudyConfig, folder: RunFolder) -> Floats | None:
    """The mean answer to each query (C, M), as printed, NaN in contexts that were not read.

    None where answers were read greedily.
    """
    if not was_read(config, folder):
        return None
    read = distribution.mean(stored_readings(config, folder)["distributions"])
    contexts = folder.manifest()["contexts"]["sets"][MAIN]
    means = np.full((contexts, read.shape[1]), np.nan)
    means[: len(read)] = read
    return means


def conclude(evidence: Evidence) -> Found | None:
    """Scores, coverage and calibration of the distributions."""
    if not was_read(evidence.config, evidence.folder):
        return None
    found = stored_readings(evidence.config, evidence.folder)
    given: Distributions = found["distributions"]
    truth = evidence.main.printed_y(evidence.main.targets)[: len(given.values)]
    scores = forecast(given, truth)
    outside = float(found["outside"].mean())
    result = {
        "mass": evidence.config.mass,
        "contexts": len(truth),
        "scores": {
            **scores._asdict(),
            "coverage": {f"{level:g}": value for level, value in scores.coverage.items()},
        },
        "outside": outside,
        "likeliest_first_tokens": first_tokens(found) if outside > 0.5 else [],
        "seconds": float(found["seconds"].sum()),
    }
    tables = {
        "reading": answers_table(given, found, truth),
        "distributions": distributions_table(given),
        "calibration": calibration_table(given, truth),
    }
    return Found(result, tables, sentence(result))


def first_tokens(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The five first tokens that are likeliest on average, not held to numbers."""
    pairs = pd.DataFrame({"token": found["likeliest"].ravel(), "chance": found["chances"].ravel()})
    answers = found["likeliest"].shape[0] * found["likeliest"].shape[1]
    mean = pairs.groupby("token")["chance"].sum().sort_values(ascending=False) / answers
    return [{"token": str(token), "chance": float(chance)} for token, chance in mean[:5].items()]


def sentence(result: dict[str, Any]) -> str:
    """How much of the answers is a number, and how well the distributions foretell the truth."""
    scores = result["scores"]
    coverage = scores["coverage"]["0.8"].estimate
    words = (
        f"Read exactly in {result['contexts']} contexts, at least {result['mass']:.3g} of each "
        "answer's distribution: the "
        f"central 80 % interval holds the truth in {share_text(coverage)} of the answers, CRPS "
        f"{scores['crps'].estimate:.3g} (printed units)."
    )
    if result["likeliest_first_tokens"]:
        tokens = ", ".join(
            f"{one['token']!r} ({one['chance']:.2f})" for one in result["likeliest_first_tokens"]
        )
        words += (
            f" The model seldom answers by a number: with probability {result['outside']:.2f} it "
            f"writes something else; its likeliest first tokens are {tokens}."
        )
    return words


def answers_table(given: Distributions, found: dict[str, Any], truth: Floats) -> pd.DataFrame:
    """One line an answer: mean, median, mode, central 80 %, scores; as printed, nats."""
    contexts, queries = truth.shape
    score = distribution.log_score(given, truth)
    columns = {
        "truth": truth,
        "mean": distribution.mean(given),
        "median": distribution.median(given),
        "mode": distribution.mode(given),
        "tenth": distribution.quantile(given, 0.1),
        "ninetieth": distribution.quantile(given, 0.9),
        "log_score_nats": score.nats,
        "crps": distribution.crps(given, truth),
        "unexplored": given.unexplored,
        "outside": found["outside"],
    }
    return pd.DataFrame(
        {
            "context": np.repeat(np.arange(contexts), queries),
            "query": np.tile(np.arange(queries), contexts),
            **{name: values.ravel() for name, values in columns.items()},
        }
    )


def distributions_table(given: Distributions) -> pd.DataFrame:
    """One line a number that an answer may be: context, query, value as printed, probability."""
    context, query, number = np.nonzero(given.probabilities > 0)
    at = (context, query, number)
    return pd.DataFrame(
        {
            "context": context,
            "query": query,
            "value": given.values[at],
            "probability": given.probabilities[at],
        }
    )


def calibration_table(given: Distributions, truth: Floats) -> pd.DataFrame:
    """How often the truth lies below each quantile of its distribution; equal where calibrated."""
    curve = calibration_curve(given, truth, CURVE)
    return pd.DataFrame(
        [
            {"level": level, "share": one.estimate, "share_low": one.low, "share_high": one.high}
            for level, one in zip(CURVE, curve, strict=True)
        ]
    )


READING = Stage("reading", "exact readings", cells, run, conclude)
