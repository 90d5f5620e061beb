"""Tokens of contexts in which one printed number is moved."""

from dataclasses import replace

import numpy as np

from prompts.contexts import Context, ContextSet, Integers
from prompts.layouts import Layout, render_all
from prompts.perturb import Pairs, with_answer, with_moved_queries
from prompts.pieces import Pieces, Tokenizer, cut
from prompts.refusal import Refusal
from prompts.tokens import Bos, TokenizedContext, tokenize_context


def moved_prefixes(
    contexts: ContextSet,
    index: int,
    tokenizer: Tokenizer,
    *,
    layout: Layout,
    tokenized: TokenizedContext,
    pairs: Pairs,
) -> Integers:
    """The shared tokens of context `index` with one y moved up, down: (N, 2, Tp).

    `tokenized` are the tokens of the context itself. Refuses a number whose other numeral
    changes how the prompt is cut into tokens anywhere but inside that number.
    """
    context = contexts.contexts[index]
    one = replace(context, queries=context.queries[:1])
    moves = [(i, y) for i in range(len(one.y)) for y in (pairs.plus[i], pairs.minus[i])]
    texts = [_answered(contexts, with_answer(one, i, y), layout) for i, y in moves]
    lead = int(tokenized.parts["all"][0, 0])
    base = np.concatenate([tokenized.prefix, tokenized.suffixes[0]])
    prefixes = []
    for (i, y), pieces in zip(moves, cut(tokenizer, texts), strict=True):
        ids = _same_but_for(pieces, base, tokenized.parts["y"][i], lead)
        if ids is None:
            new, old = contexts.codec.text(y), contexts.codec.text(one.y[i])
            raise Refusal(
                f"needed {new!r} in the place of {old!r} to change no token but that number's; "
                f"came a prompt that is cut otherwise",
                where=f"context {index + 1}, example {i + 1}, y",
            )
        prefixes.append(ids[: len(tokenized.prefix)])
    return np.array(prefixes).reshape(len(one.y), 2, -1)


def _answered(contexts: ContextSet, context: Context, layout: Layout) -> str:
    (prompt,) = render_all(
        context,
        layout=layout,
        codec=contexts.codec,
        feature_names=contexts.feature_names,
        target_name=contexts.target_name,
    )
    return prompt.text + contexts.codec.text(context.targets[0])


def _same_but_for(pieces: Pieces, base: Integers, free: Integers, lead: int) -> Integers | None:
    """The text's tokens behind the lead, or None where any but the free ones are others."""
    ids = np.concatenate([base[:lead], pieces.ids])[: len(base)]
    if len(ids) != len(base):
        return None
    differing = np.flatnonzero(ids != base)
    return ids if np.isin(differing, free).all() else None


def moved_query_tokens(
    contexts: ContextSet,
    index: int,
    tokenizer: Tokenizer,
    *,
    layout: Layout,
    bos: Bos,
    pairs: Pairs,
) -> TokenizedContext:
    """The tokens of context `index` asked at its moved queries only: suffixes (M P 2, Ts).

    Refuses queries that are cut into other token counts when a feature moves.
    """
    context = with_moved_queries(contexts.contexts[index], pairs)
    one = replace(contexts, contexts=(context,), blocks=(0,))
    try:
        every = tokenize_context(one, 0, tokenizer, layout=layout, bos=bos)
    except Refusal as refusal:
        where = f"context {index + 1}, queries moved by {pairs.size:g}"
        raise Refusal(refusal.sentence, where=where) from None
    return replace(every, suffixes=every.suffixes[len(contexts.contexts[index].queries) :])
