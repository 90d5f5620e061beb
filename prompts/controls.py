"""The same contexts with one thing changed: whose y is whose, the order, how numbers print."""

from dataclasses import replace

import numpy as np

from prompts.contexts import Context, ContextSet, Floats, Integers
from prompts.numerals import CODECS, Codec


def permuted_y(contexts: ContextSet, *, rng: np.random.Generator) -> ContextSet:
    """Every context with the y of its examples dealt out again: x no longer tells y.

    The numerals of a prompt stay; the queries' own y (`targets`) are those of before.
    """
    changed = [
        replace(context, y=source.permutation(context.y))
        for context, source in _each(contexts, rng)
    ]
    return replace(contexts, contexts=tuple(changed))


def permuted_order(
    contexts: ContextSet, *, rng: np.random.Generator
) -> tuple[ContextSet, Integers]:
    """Every context with its examples, x and y together, in another order.

    Returns the contexts and order (C, N): place i of context c prints example order[c, i].
    """
    changed, orders = [], []
    for context, source in _each(contexts, rng):
        order = source.permutation(len(context.y))
        changed.append(replace(context, x=context.x[order], y=context.y[order]))
        orders.append(order)
    return replace(contexts, contexts=tuple(changed)), np.array(orders)


def other_surface(contexts: ContextSet) -> ContextSet:
    """The same contexts printed by another codec, every column under one affine map for the study.

    A least-squares row does not change under such a map, up to rounding; strings and token counts
    do. Three-digit integers take the place of decimals, unsigned decimals that of integers. The
    column's codec range [middle - half range, middle + half range] is mapped onto the new codec's.
    """
    codec = _other_codec(contexts.codec)
    low, high = contexts.middle - contexts.half_range, contexts.middle + contexts.half_range
    middle, half = (codec.low + codec.high) / 2, (codec.high - codec.low) / 2
    changed = []
    for context in contexts.contexts:
        x, y = (low[:-1], high[:-1]), (low[-1:], high[-1:])
        changed.append(
            Context(
                x=_printed(codec, context.x, *x),
                y=_printed(codec, context.y[:, None], *y)[:, 0],
                queries=_printed(codec, context.queries, *x),
                targets=_printed(codec, context.targets[:, None], *y)[:, 0],
            )
        )
    return replace(
        contexts,
        contexts=tuple(changed),
        codec=codec,
        middle=np.full_like(contexts.middle, middle),
        half_range=np.full_like(contexts.half_range, half),
    )


def _each(
    contexts: ContextSet, rng: np.random.Generator
) -> list[tuple[Context, np.random.Generator]]:
    """Every context with a stream of its own, so that none depends on how many there are."""
    return list(zip(contexts.contexts, rng.spawn(len(contexts.contexts)), strict=True))


def _other_codec(codec: Codec) -> Codec:
    return CODECS["unsigned-decimal" if codec.decimals == 0 else "unsigned-integer"]


def _printed(codec: Codec, values: Floats, low: Floats, high: Floats) -> Floats:
    """Columns (n, K) under the map of each one's [low, high] onto the codec's range."""
    columns = zip(values.T, low, high, strict=True)
    return np.stack([codec.printed(one, low=a, high=b) for one, a, b in columns], axis=1)
