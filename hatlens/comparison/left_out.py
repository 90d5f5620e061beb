"""What each demonstration does to log p(gold): every one of the first set is left out in turn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.claims.finding import Finding, not_assessable
from analysis.claims.near import near_finding
from analysis.similarity.near_examples import near_effect
from analysis.similarity.records import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.feed import Source, tokens_of
from hatlens.store import RunFolder
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.tokens import TaskPrompts

LEAST_QUERIES, LEAST_SHOWN = 3, 2


def left_out_cells(config: SimilarityConfig) -> list[str]:
    """One cell, of the first set on the trained model; none where it was not asked for."""
    return [f"left-out/trained/0-{config.kate_queries}"] if config.kate_queries else []


def run_left_out(
    config: SimilarityConfig, source: Source, loaded: LoadedModel, used: int
) -> Mapping[str, NDArray[Any]]:
    """``effects``, ``similarity``, ``matches`` (query, demonstration) and ``lengths``, tokens.

    An effect is log p(gold) behind all demonstrations minus that behind all but this one, in
    nats. Similarity is the cosine of TF-IDF vectors of the texts without their labels.
    """
    shown = source.drawn.sets[0].demonstrations[:used]
    asked = source.queries[0][: config.kate_queries]
    whole = tokens_of(config, source, loaded, shown, asked)
    every = gold_logp(loaded, whole)
    effects = []
    for place in range(used):
        rest = tokens_of(config, source, loaded, [*shown[:place], *shown[place + 1 :]], asked)
        effects.append(every - gold_logp(loaded, rest))
    return {
        "effects": np.stack(effects, axis=1),
        "similarity": text_similarity(
            [source.task.prompt(one) for one in asked], [source.task.prompt(one) for one in shown]
        ),
        "matches": np.array([[float(q.label == d.label) for d in shown] for q in asked]),
        "lengths": np.array([len(one) for one in whole.demonstrations]),
    }


def gold_logp(loaded: LoadedModel, prompts: TaskPrompts) -> Floats:
    """log p of each query's right answer behind the demonstrations, among several labels."""
    before = np.concatenate([np.zeros(0, dtype=np.int64), *prompts.demonstrations])
    found = np.zeros(len(prompts.queries))
    for one in run_conditions(loaded, prompts, {"run": Condition(before)}):
        logp = one.runs["run"].label_logp[:, 0].astype(np.float64)
        if len(logp) > 1:
            logp = logp - np.logaddexp.reduce(logp)
        found[one.query] = logp[int(prompts.gold[one.query])]
    return found


def text_similarity(queries: Sequence[str], shown: Sequence[str]) -> Floats:
    """Cosines of TF-IDF vectors (query, demonstration), words between blanks, in [0, 1]."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(token_pattern=r"\S+").fit_transform([*queries, *shown])
    return np.asarray((vectors[: len(queries)] @ vectors[len(queries) :].T).toarray())


def kate_result(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any] | None:
    """The slope, its null and a sentence; None where it was not asked for."""
    if not config.kate_queries:
        return None
    cell = folder.read_arrays(left_out_cells(config)[0])
    queries, shown = cell["effects"].shape
    if queries < LEAST_QUERIES or shown < LEAST_SHOWN:
        said = f"Not assessable: {queries} queries and {shown} demonstrations are too few."
        return {"effect": None, "null": None, "sentence": said}
    rng = np.random.default_rng([config.seed, 9])
    found = near_effect(cell["effects"], cell["similarity"], cell["matches"], rng=rng)
    return {**found._asdict(), "sentence": said_of(*found)}


def near_claim(config: SimilarityConfig, folder: RunFolder) -> Finding:
    """Whether demonstrations near the query act more than under other queries' similarities."""
    if not config.kate_queries:
        return not_assessable("demonstrations were not left out in turn (--kate-queries 50)")
    cell = folder.read_arrays(left_out_cells(config)[0])
    rng = np.random.default_rng([config.seed, 9])
    return near_finding(cell["effects"], cell["similarity"], cell["matches"], rng=rng)


def said_of(effect: Any, null: Any) -> str:
    """One sentence on the slope beside its null."""
    if not np.isfinite(effect.low):
        return "Not assessable: similarity does not differ beyond query, demonstration and label."
    figures = (
        f"{effect.estimate:.3g} nats for one unit of similarity [{effect.low:.3g}, "
        f"{effect.high:.3g}], [{null.low:.3g}, {null.high:.3g}] under other queries' similarity"
    )
    if effect.low > 0 and effect.estimate > null.high:
        return f"Demonstrations near the query act more: {figures}."
    return f"Demonstrations near the query are not seen to act more: {figures}."


def left_out_table(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """One line a query and demonstration, by table name; empty where it was not asked for."""
    if not config.kate_queries:
        return {}
    cell = folder.read_arrays(left_out_cells(config)[0])
    query, slot = (one.ravel() for one in np.indices(cell["effects"].shape))
    columns = {
        "query": query,
        "demonstration": slot,
        "effect": cell["effects"].ravel(),
        "similarity": cell["similarity"].ravel(),
        "label_match": cell["matches"].ravel(),
        "tokens": cell["lengths"][slot],
    }
    return {"left_out": pd.DataFrame(columns)}
