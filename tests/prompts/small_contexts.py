"""Small contexts for tests of tokens, and their tokens as text."""

from dataclasses import replace
from typing import Any

import numpy as np

from prompts.contexts import Context, ContextSet, draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.numerals import codec_named
from prompts.tokens import TokenizedContext, tokenize_context


def contexts(codec: str = "unsigned-decimal", *, count: int = 2, **knobs: Any) -> ContextSet:
    design = Design(contexts=count, examples=5, queries=3, **knobs)
    return draw_contexts(design, codec_named(codec), rng=np.random.default_rng(0))


def by_hand(codec: str, x: list[list[float]], y: list[float], queries: Any, targets: Any) -> Any:
    """A context set of one context with these printed numbers."""
    one = Context(np.array(x), np.array(y), np.array(queries), np.array(targets))
    base = contexts(codec, count=1)
    return replace(base, contexts=(one,), design=None)


def cut(
    given: ContextSet, tokenizer: Any, layout: str = "line", **options: Any
) -> TokenizedContext:
    return tokenize_context(given, 0, tokenizer, layout=layout_named(layout), **options)


def texts(tokenizer: Any, ids: Any) -> list[str]:
    return [tokenizer.decode([int(i)]) for i in ids]


def small(codec: str = "decimal") -> Any:
    return by_hand(
        codec, [[1.25, 0.75], [0.5, 2.0]], [3.5, 1.0], [[0.25, 1.5], [0.1, 0.2]], [1.0, 2.0]
    )
