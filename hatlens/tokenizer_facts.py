"""What a tokenizer does with the numbers of a prompt, under every layout and codec."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hatlens.config import StudyConfig
from hatlens.sets import MAIN, draw_sets
from prompts.contexts import ContextSet
from prompts.layouts import LAYOUTS, layout_named
from prompts.numerals import CODECS
from prompts.pieces import cut, leading_ids
from prompts.refusal import Refusal
from prompts.tokens import Bos, tokenize_all

TRIED_CONTEXTS = 2


class Merge(NamedTuple):
    """A layout and a codec whose numbers cannot be told apart in tokens, and why."""

    layout: str
    codec: str
    sentence: str


class TokenizerFacts(NamedTuple):
    """`bos`: the id that the tokenizer itself puts before a text, None for none.

    `digits_per_token`: the most digits that one token of a three-digit number holds; `fewest`
    the fewest. `merges`: layouts and codecs that are refused, the study's own first.
    """

    bos: int | None
    digits_per_token: int
    fewest: int
    merges: tuple[Merge, ...]


def tokenizer_facts(tokenizer: Any, config: StudyConfig) -> TokenizerFacts:
    """Read off what the tokenizer does, never off its attributes.

    Refuses a tokenizer without character offsets.
    """
    numbers = cut(tokenizer, [f" {number:03d}" for number in range(1000)])
    digits = [count for one in numbers for count in _digits(one) if count]
    lead = leading_ids(tokenizer, numbers[0])
    return TokenizerFacts(
        bos=lead[0] if lead else None,
        digits_per_token=max(digits),
        fewest=min(digits),
        merges=tuple(_merges(tokenizer, config)),
    )


def _digits(pieces: Any) -> Sequence[int]:
    return [sum(map(str.isdigit, pieces.piece(token))) for token in range(len(pieces.ids))]


def _merges(tokenizer: Any, config: StudyConfig) -> list[Merge]:
    every = [(layout, codec) for codec in CODECS for layout in LAYOUTS]
    own = (config.layout, config.codec)
    drawn = {codec: _drawn(config, codec) for codec in {*CODECS, config.codec}}
    found = []
    for layout, codec in [own, *(pair for pair in every if pair != own)]:
        sentence = _refused(tokenizer, drawn[codec], layout, config.bos)
        if sentence:
            found.append(Merge(layout, codec, sentence))
    return found


def _drawn(config: StudyConfig, codec: str) -> ContextSet | Refusal:
    """A few contexts in that codec; a table's numbers may not fit one."""
    changed = {"codec": codec, "contexts": TRIED_CONTEXTS, "pairs": 0, "replicate": False}
    try:
        return draw_sets(config.model_copy(update=changed)).sets[MAIN]
    except Refusal as refusal:
        return refusal


def _refused(tokenizer: Any, drawn: ContextSet | Refusal, layout: str, bos: Bos) -> str:
    """Why the contexts cannot be aligned; empty where they can."""
    if isinstance(drawn, Refusal):
        return str(drawn)
    try:
        tokenize_all(drawn, tokenizer, layout=layout_named(layout), bos=bos)
    except Refusal as refusal:
        return str(refusal)
    return ""
