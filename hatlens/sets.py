"""The sets of contexts of one study, and their stored form."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.design import ContextArrays, Floats, Texts
from hatlens.config import StudyConfig
from hatlens.store import RunFolder
from prompts.contexts import ContextSet
from prompts.contexts import draw_sets as draw_synthetic
from prompts.controls import other_surface, permuted_order, permuted_y
from prompts.design import Design
from prompts.numerals import Codec, codec_named
from prompts.refusal import about
from prompts.tables import read_table, table_contexts

MAIN, REPLICATE, PAIRS_A, PAIRS_B = "main", "replicate", "pairs-a", "pairs-b"
PROBES = 10
Y_PERMUTED, ORDER_PERMUTED, SURFACE = "y_permuted", "order_permuted", "surface"
CONTROL_SETS = (Y_PERMUTED, ORDER_PERMUTED, SURFACE)
"""Sets that `--controls` adds: the main contexts with one thing changed, run again."""


class StudySets(NamedTuple):
    """What one study feeds, by name of set; sets that the design does not allow are absent.

    `order` (C, N): place i of replicate context c prints the x of example ``order[c, i]`` of main
    context c.
    """

    sets: dict[str, ContextSet]
    order: NDArray[np.int64]


def draw_sets(config: StudyConfig) -> StudySets:
    """All contexts of a study, from its settings alone."""
    drawn = draw_uncontrolled(config)
    return drawn._replace(sets=drawn.sets | control_sets(config, drawn.sets[MAIN]))


def control_sets(config: StudyConfig, main: ContextSet) -> dict[str, ContextSet]:
    """The main contexts with one thing changed each; none without the setting `controls`.

    They have a random stream of their own, so that asking for them changes no other context.
    """
    if not config.controls:
        return {}
    for_y, for_order = np.random.default_rng([config.seed, 3]).spawn(2)
    return {
        Y_PERMUTED: permuted_y(main, rng=for_y),
        ORDER_PERMUTED: permuted_order(main, rng=for_order)[0],
        SURFACE: other_surface(main),
    }


def draw_uncontrolled(config: StudyConfig) -> StudySets:
    """The main contexts, their second run and the re-paired pairs."""
    rng = np.random.default_rng(config.seed)
    with about("codec"):
        codec = codec_named(config.codec)
    if config.data is not None:
        main = named(table_set(config, codec, rng), config.names)
        return StudySets({MAIN: main}, np.zeros((0, 0), np.int64))
    design = Design(
        features=config.features,
        examples=config.examples,
        queries=config.queries,
        contexts=config.contexts,
        condition=config.condition,
        noise=config.noise,
        function=config.function,
        x_scale=config.x_scale,
        w_scale=config.w_scale,
        query_push=config.query_push,
    )
    drawn = draw_synthetic(design, codec, pairs=max(config.pairs, 1), rng=rng)
    sets = {MAIN: drawn.main}
    if config.replicate:
        sets[REPLICATE] = drawn.replicate
    if config.pairs and config.features > 1:
        sets |= {PAIRS_A: drawn.pairs_a, PAIRS_B: drawn.pairs_b}
    return StudySets(sets, drawn.order)


def named(contexts: ContextSet, names: str) -> ContextSet:
    """The same contexts with the table's own column names, or x1 ... xP and y in their place.

    Layouts that print names then show no word that a model could know the answer by.
    """
    if names == "real":
        return contexts
    count = len(contexts.feature_names)
    anonymous = tuple(f"x{place + 1}" for place in range(count))
    return replace(contexts, feature_names=anonymous, target_name="y")


def table_set(config: StudyConfig, codec: Codec, rng: np.random.Generator) -> ContextSet:
    """Contexts drawn from the rows of a table."""
    assert config.data is not None
    table = read_table(config.data, missing=config.missing, date_format=config.date_format)
    return table_contexts(
        table,
        config.target,
        features=config.columns or None,
        examples=config.examples,
        queries=config.queries,
        contexts=config.contexts,
        codec=codec,
        rng=rng,
        allow_dependent=config.allow_dependent,
    )


class StoredSet(NamedTuple):
    """A set as the analysis needs it, in codec coordinates, with the printed numbers' map.

    x (C, N, P), y (C, N), queries (C, M, P), targets (C, M); middle and half_range (P+1,).
    """

    x: Floats
    y: Floats
    queries: Floats
    targets: Floats
    x_text: Texts
    query_text: Texts
    middle: Floats
    half_range: Floats

    def arrays(self, answers: Floats) -> ContextArrays:
        """What every analysis is given; `answers` (C, M) in printed numbers."""
        return ContextArrays(
            x=self.x,
            y=self.y,
            queries=self.queries,
            x_text=self.x_text,
            query_text=self.query_text,
            answers=self.codec_y(answers),
        )

    def codec_y(self, printed: Floats) -> Floats:
        """Values of y from printed units to codec coordinates."""
        return np.asarray((printed - self.middle[-1]) / self.half_range[-1])

    def printed_y(self, values: Floats) -> Floats:
        """Values of y from codec coordinates to printed units."""
        return np.asarray(values * self.half_range[-1] + self.middle[-1])


def stored_form(drawn: ContextSet) -> StoredSet:
    """The arrays of a set of contexts of equal shape."""
    fields = ("x", "y", "queries", "targets")
    x, y, queries, targets = (
        np.stack([getattr(context, field) for context in drawn.contexts]) for field in fields
    )
    middle, half = drawn.middle, drawn.half_range
    text = np.vectorize(drawn.codec.text, otypes=[np.str_])
    return StoredSet(
        x=(x - middle[:-1]) / half[:-1],
        y=(y - middle[-1]) / half[-1],
        queries=(queries - middle[:-1]) / half[:-1],
        targets=(targets - middle[-1]) / half[-1],
        x_text=text(x),
        query_text=text(queries),
        middle=middle,
        half_range=half,
    )


def store_sets(folder: RunFolder, study: StudySets) -> None:
    """Write every set and what was noticed while drawing it."""
    for name, drawn in study.sets.items():
        if not folder.has(f"contexts/{name}"):
            folder.write_arrays(f"contexts/{name}", stored_form(drawn)._asdict())
    folder.write_arrays("contexts/order", {"order": study.order})
    main = study.sets[MAIN]
    facts: dict[str, Any] = {
        "redrawn": main.redrawn,
        "unit": main.unit,
        "blocks": main.blocks,
        "preview_reason": main.preview_reason,
        "warnings": main.warnings,
        "feature_names": main.feature_names,
        "target_name": main.target_name,
        "sets": {name: len(drawn.contexts) for name, drawn in study.sets.items()},
        "codecs": {name: drawn.codec.name for name, drawn in study.sets.items()},
    }
    folder.update_manifest(contexts=facts)


def load_set(folder: RunFolder, name: str) -> StoredSet | None:
    """A stored set; None where the study has none of that name."""
    if not folder.has(f"contexts/{name}"):
        return None
    return StoredSet(**folder.read_arrays(f"contexts/{name}"))
