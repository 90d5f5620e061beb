"""Agreement along the prompt and through the layers: answers after the first n examples, the
sensitivity to the query, and what each layer's state says of the answer."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.design import ContextArrays, Floats
from hatlens.config import StudyConfig
from hatlens.sets import MAIN, StoredSet, StudySets
from hatlens.stages.depth_layers import Layers, layers_of
from hatlens.stages.depth_prefix import Prefixes, measures_of, prefixes_of
from hatlens.stages.depth_tables import result_of, tables_of
from hatlens.stages.reading import mean_answers
from hatlens.stages.stage import Arrays, Bench, Evidence, Found, Stage, index_of
from hatlens.store import RunFolder
from probes.behavioural_row import query_sensitivity
from probes.layer_readout import first_digits, layer_readout
from probes.reading import Reading, read_context
from prompts.contexts import Context
from prompts.numerals import codec_named
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context

MOST_LENGTHS = 10
SHARE = 0.10
"""By how much a query's feature is moved to either side, as a share of its half range."""


class Stored(NamedTuple):
    """The cells of all main contexts.

    `lengths` (K,), `prefix` (C, K) mean answers as printed; `slopes` (C, M, P), printed y per
    printed x, for moves of `size`; `states` (C, M, L, d) and `digits` (C, M, L, 10), None where
    the family was refused, and why.
    """

    lengths: NDArray[np.int64]
    prefix: Floats
    slopes: Floats
    size: float
    states: NDArray[np.float32] | None
    digits: Floats | None
    refused: str
    seconds: float


def cells(config: StudyConfig, study: StudySets) -> list[str]:
    """One a main context; none where the setting is off."""
    return names_of(config, len(study.sets[MAIN].contexts))


def names_of(config: StudyConfig, contexts: int) -> list[str]:
    return [f"along/{MAIN}/{index}" for index in range(contexts)] if config.along else []


def prefix_lengths(examples: int, features: int) -> list[int]:
    """At most ten lengths from P + 1 to N - 1, evenly spread; none where there are none between."""
    first, last = features + 1, examples - 1
    if last < first:
        return []
    spread = np.linspace(first, last, min(MOST_LENGTHS, last - first + 1))
    return sorted({round(float(length)) for length in spread})


def run(bench: Bench, name: str) -> Arrays:
    """Answers after the first n examples, d answer / d query, and the states of every layer."""
    index, began = index_of(name), time.perf_counter()
    context = bench.study.sets[MAIN].contexts[index]
    lengths = prefix_lengths(*context.x.shape)
    prefix = [answer_after(bench, context, length) for length in lengths]
    size = size_of(bench)
    sensitivity = query_sensitivity(
        bench.loaded, bench.study.sets[MAIN], index, bench.asking(), size=size
    )
    return {
        "lengths": np.array(lengths, dtype=np.int64),
        "prefix": np.array([one.mean for one in prefix], dtype=np.float64),
        "slopes": sensitivity.slopes,
        "size": np.array(size),
        **layer_states(bench, index),
        "seconds": np.array(time.perf_counter() - began),
    }


def answer_after(bench: Bench, context: Context, length: int) -> Reading:
    """What the model answers to the next example's x after the first `length` examples."""
    following = slice(length, length + 1)
    first = Context(
        context.x[:length], context.y[:length], context.x[following], context.y[following]
    )
    one = replace(bench.study.sets[MAIN], contexts=(first,), blocks=(0,))
    tokens = tokenize_context(
        one, 0, bench.loaded.tokenizer, layout=bench.layout, bos=bench.config.bos
    )
    (reading,) = read_context(bench.loaded, tokens, bench.grammar(), mass=bench.config.mass)
    return reading


def size_of(bench: Bench) -> float:
    """The move of a query's feature: about `SHARE` of the smallest half range, on the grid."""
    main = bench.study.sets[MAIN]
    step = 10.0**-main.codec.decimals
    half = float(np.min(main.half_range[:-1]))
    return float(main.codec.round(max(round(SHARE * half / step), 1) * step))


def layer_states(bench: Bench, index: int) -> Arrays:
    """States and first digits of every layer; only the reason where the family is refused."""
    try:
        if "digits" not in bench.held:
            bench.held["digits"] = first_digits(bench.loaded.tokenizer)
        found = layer_readout(bench.loaded, bench.tokens[MAIN][index], digits=bench.held["digits"])
    except Refusal as refusal:
        return {"refused": np.array(str(refusal))}
    return {"states": found.states, "digits": found.digits, "refused": np.array("")}


def stored(config: StudyConfig, folder: RunFolder, contexts: int) -> Stored | None:
    """All cells; None where they were not asked for or are not all there."""
    names = names_of(config, contexts)
    if not names or not all(folder.has(name) for name in names):
        return None
    every = [folder.read_arrays(name) for name in names]
    refused = next((str(one["refused"]) for one in every if str(one["refused"])), "")

    def of(key: str) -> NDArray[Any]:
        return np.stack([one[key] for one in every])

    return Stored(
        lengths=every[0]["lengths"],
        prefix=of("prefix"),
        slopes=of("slopes"),
        size=float(every[0]["size"]),
        states=None if refused else of("states"),
        digits=None if refused else of("digits"),
        refused=refused,
        seconds=float(of("seconds").sum()),
    )


def conclude(evidence: Evidence) -> Found | None:
    """Errors, best steps and similarities by prefix, weights and sensitivity, layers."""
    main = evidence.main
    found = stored(evidence.config, evidence.folder, len(main.x))
    if found is None:
        return None
    arrays = with_means(evidence)
    prefixes = prefixes_of(
        main, found.lengths, main.codec_y(found.prefix), evidence, rng=stream(evidence, 13)
    )
    scale = main.half_range[:-1] / main.half_range[-1]
    measures = measures_of(
        arrays,
        evidence,
        prefixes,
        slopes=found.slopes * scale,
        step=found.size / float(np.mean(main.half_range[:-1])),
    )
    layers = None
    if found.states is not None and found.digits is not None:
        lens = lens_answers(main, evidence.config, found.digits)
        layers = layers_of(
            arrays, evidence, found.states, found.digits, lens, rng=stream(evidence, 14)
        )
    return said(evidence, found, prefixes, measures, layers)


def said(
    evidence: Evidence,
    found: Stored,
    prefixes: Prefixes,
    measures: Sequence[Any],
    layers: Layers | None,
) -> Found:
    """The result, its tables and its sentence."""
    size = float(evidence.main.half_range[-1])
    result, sentence = result_of(prefixes, measures, layers, printed_size=size)
    facts = {
        "contexts": len(found.prefix),
        "query_move": found.size,
        "refused": found.refused or ("" if layers else "too few contexts with an answer"),
        "seconds": found.seconds,
    }
    return Found(
        {**facts, **result},
        tables_of(prefixes, measures, layers, printed_size=size),
        sentence,
    )


def stream(evidence: Evidence, number: int) -> np.random.Generator:
    return np.random.default_rng([evidence.config.seed, number])


def with_means(evidence: Evidence) -> ContextArrays:
    """The main contexts with mean answers where they were read, printed ones elsewhere."""
    means = mean_answers(evidence.config, evidence.folder)
    if means is None:
        return evidence.arrays
    read = evidence.main.codec_y(means)
    answers = np.where(np.isnan(read), evidence.arrays.answers, read)
    return evidence.arrays._replace(answers=answers)


def lens_answers(main: StoredSet, config: StudyConfig, digits: Floats) -> Floats | None:
    """What the first digit alone says of the answer, (L, C, M), codec coordinates.

    The mean over first digits of the middle of the numbers that begin with it, each by its chance
    among digits. None for codecs whose numerals do not all begin with a digit of one place.
    """
    codec = codec_named(config.codec)
    if codec.sign != "none" or not codec.padded:
        return None
    place = 10.0 ** (codec.integer_digits - 1)
    middles = np.arange(10) * place + (place - 10.0**-codec.decimals) / 2
    total = digits.sum(axis=-1)
    mean = np.where(total > 0, digits @ middles / np.where(total > 0, total, 1.0), np.nan)
    return np.moveaxis(main.codec_y(mean), 2, 0)


DEPTH = Stage("along", "along the prompt and its layers", cells, run, conclude)
