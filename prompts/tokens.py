"""Token positions of every number of a prompt, found by character offsets, never by guessing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prompts.alignment import Site, align, answer_border, answer_positions
from prompts.contexts import ContextSet
from prompts.layouts import Layout, render_all
from prompts.numerals import Codec
from prompts.pieces import Pieces, Tokenizer, cut, leading_ids
from prompts.refusal import Refusal

Integers = NDArray[np.int64]
Bos = Literal["auto", "always", "never"]


@dataclass(frozen=True, eq=False)
class TokenizedContext:
    """The tokens of one context's prompts.

    `prefix` (Tp,) is shared by all queries; `suffixes` (M, Ts) continue it, and end with the
    token from which the model predicts the first piece of the answer. So the prompt of query m is
    prefix + suffixes[m], and the answer position is Tp + Ts - 1. A blank that is a token of its
    own belongs to the prompt, unless a negative answer's sign would take it.
    `parts` maps "x", "y", "separator" and "all" to token positions in the prompt, (N, K) each,
    the same for all queries. `prefix_answers` (N,) is, for each example, the position that
    predicts the first piece of its y. `bos` is the id that stands before the text, or None.
    """

    prefix: Integers
    suffixes: Integers
    parts: Mapping[str, Integers]
    prefix_answers: Integers
    bos: int | None


def tokenize_context(
    contexts: ContextSet, index: int, tokenizer: Tokenizer, *, layout: Layout, bos: Bos = "auto"
) -> TokenizedContext:
    """The tokens of context `index`; positions count from the start of the whole prompt.

    `bos`: "auto" is what the tokenizer itself puts before a text, "always" adds its BOS where it
    puts none, "never" leaves it out. Refuses, naming the prompt, the number and the piece: a
    number that shares a token with its neighbours (a blank before it may belong to it), and
    numbers of one kind that are cut into unequal counts of tokens. Refuses a tokenizer without
    character offsets.
    """
    queries, answered = sites(contexts, index, tokenizer, layout)
    border = _shared_border(queries)
    parts = align(queries, blank=contexts.codec.sign == "negative")
    back = answer_border([*queries, *answered])
    lead = _lead(tokenizer, queries[0].pieces, bos)
    ends = [_prompt_end(site, back) for site in queries]
    _check_same(queries[0], answered, back)
    if len({end - border for end in ends}) > 1:
        counts = [end - border for end in ends]
        where = f"context {index + 1}"
        raise Refusal(f"the queries are cut into unequal counts of tokens: {counts}", where=where)
    suffixes = [site.pieces.ids[border:end] for site, end in zip(queries, ends, strict=True)]
    return TokenizedContext(
        prefix=np.array([*lead, *queries[0].pieces.ids[:border]], np.int64),
        suffixes=np.array(suffixes, np.int64),
        parts={part: rows + len(lead) for part, rows in parts.items()},
        prefix_answers=answer_positions(queries[0], back) + len(lead) - 1,
        bos=lead[0] if lead else None,
    )


def tokenize_all(
    contexts: ContextSet, tokenizer: Tokenizer, *, layout: Layout, bos: Bos = "auto"
) -> list[TokenizedContext]:
    """All contexts of a set; refuses contexts whose prompts differ in their token counts."""
    every = [
        tokenize_context(contexts, index, tokenizer, layout=layout, bos=bos)
        for index in range(len(contexts.contexts))
    ]
    lengths = [(len(one.prefix), one.suffixes.shape[1]) for one in every]
    for index, length in enumerate(lengths):
        if length != lengths[0]:
            raise Refusal(
                f"all contexts need equal token counts; prefix and query take {length} tokens, "
                f"in context 1 {lengths[0]}",
                where=f"context {index + 1}",
            )
    return every


def sites(
    contexts: ContextSet, index: int, tokenizer: Tokenizer, layout: Layout
) -> tuple[list[Site], list[Site]]:
    """The tokenised prompts of a context, each followed by its answer; and the first of them
    followed by every kind of answer that the codec can print."""
    context, codec = contexts.contexts[index], contexts.codec
    prompts = render_all(
        context,
        layout=layout,
        codec=codec,
        feature_names=contexts.feature_names,
        target_name=contexts.target_name,
    )
    follow = [*prompts, *[prompts[0]] * len(possible_answers(codec))]
    answers = [*(codec.text(y) for y in context.targets), *possible_answers(codec)]
    texts = [prompt.text + answer for prompt, answer in zip(follow, answers, strict=True)]
    count = len(prompts)
    named = [f"context {index + 1}, query {q + 1}" for q in range(count)]
    names = [*named, *[named[0]] * (len(follow) - count)]
    every = list(map(Site, follow, cut(tokenizer, texts), names))
    return every[:count], every[count:]


def possible_answers(codec: Codec) -> tuple[str, ...]:
    """Numerals that start in every way the codec allows: each sign with each first digit."""
    scale = 10.0 ** (codec.integer_digits - 1)
    numbers = [sign * digit * scale for sign in (1, -1) for digit in range(10)]
    fitting = [number for number in numbers if codec.low <= number <= codec.high]
    return tuple(dict.fromkeys(codec.text(number) for number in fitting))


def _lead(tokenizer: Tokenizer, pieces: Pieces, bos: Bos) -> tuple[int, ...]:
    if bos == "never":
        return ()
    lead = leading_ids(tokenizer, pieces)
    if lead or bos == "auto":
        return lead
    if tokenizer.bos_token_id is None:
        raise Refusal("the tokenizer has no BOS token to put first; came bos='always'")
    return (tokenizer.bos_token_id,)


def _prompt_end(site: Site, back: int) -> int:
    """How many tokens come before the answer's first piece."""
    token = site.pieces.starting_at(len(site.prompt.text) - back)
    assert token is not None
    return token


def _check_same(first: Site, answered: Sequence[Site], back: int) -> None:
    end = _prompt_end(first, back)
    for site in answered:
        if not np.array_equal(site.pieces.ids[: _prompt_end(site, back)], first.pieces.ids[:end]):
            answer = site.pieces.text[len(site.prompt.text) :]
            sentence = f"the prompt is cut differently when the answer {answer!r} follows it"
            raise Refusal(sentence, where=first.where)


def _shared_border(queries: Sequence[Site]) -> int:
    """How many tokens lie wholly before the query, the same for all queries of the context."""
    first = queries[0].pieces
    borders = [site.pieces.covering(site.prompt.query_start) or 0 for site in queries]
    border = min(borders)
    for site in queries:
        same = np.array_equal(site.pieces.ids[:border], first.ids[:border])
        if not same or not np.array_equal(site.pieces.ends[:border], first.ends[:border]):
            raise Refusal("the examples are cut differently before this query", where=site.where)
    return border
