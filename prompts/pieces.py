"""A tokenised text as pieces: what each token covers, by the tokenizer's character offsets."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prompts.refusal import Refusal


class Tokenizer(Protocol):
    """What is asked of a tokenizer: a fast one of `transformers` has it."""

    bos_token_id: int | None
    all_special_ids: Iterable[int]

    def __call__(self, text: Any, **options: Any) -> Mapping[str, Any]:
        """Ids, and on request offsets, of a text or of several."""
        ...


@dataclass(frozen=True)
class Pieces:
    """The tokens of a text; token t covers characters [starts[t], ends[t])."""

    text: str
    ids: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def starting_at(self, character: int) -> int | None:
        """The first token that covers text and starts at that character, or None."""
        token = self.covering(character)
        return token if token is not None and self.starts[token] == character else None

    def covering(self, character: int) -> int | None:
        """The token that covers that character; None behind the text's end."""
        token = bisect_right(self.ends, character)
        return token if token < len(self.ends) else None

    def ending_at(self, character: int) -> int | None:
        """One past the last token that ends at that character, or None if a token covers it."""
        token = self.covering(character)
        if token is None:
            return len(self.ids)
        return token if self.starts[token] == character else None


def cut(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Pieces]:
    """Each text as pieces, without the special tokens that stand before and after.

    Refuses a tokenizer that gives no character offsets, or offsets that do not cover the text.
    """
    try:
        encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
    except NotImplementedError:
        encoded = {}
    if "offset_mapping" not in encoded:
        kind = type(tokenizer).__name__
        raise Refusal(f"a fast tokenizer that gives character offsets is needed; came {kind}")
    special = frozenset(tokenizer.all_special_ids)
    rows = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [_pieces(text, ids, offsets, special) for text, ids, offsets in rows]


def _pieces(
    text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]], special: frozenset[int]
) -> Pieces:
    kept = [
        (token, start, end)
        for token, (start, end) in zip(ids, offsets, strict=True)
        if end > start or token not in special
    ]
    # Some tokenizers leave blanks out of their offsets: a piece starts where the last one ended.
    starts, end = [], 0
    for token, start, piece_end in kept:
        if piece_end < end or text[end:start].strip(" "):
            raise Refusal(
                f"the tokenizer's character offsets skip or repeat text near character {end} "
                f"(token {token} covers {start}-{piece_end})"
            )
        starts.append(end)
        end = piece_end
    if end != len(text):
        raise Refusal(f"the tokenizer's offsets end at character {end} of {len(text)}")
    return Pieces(
        text, tuple(t for t, _, _ in kept), tuple(starts), tuple(end for _, _, end in kept)
    )


def leading_ids(tokenizer: Tokenizer, pieces: Pieces) -> tuple[int, ...]:
    """The ids that the tokenizer itself puts before a text, read off its output.

    Looked up in the ids, since attributes such as `add_bos_token` are wrong for some tokenizers.
    What it puts behind the text (an end mark) is left out.
    """
    full = tuple(tokenizer(pieces.text, add_special_tokens=True)["input_ids"])
    count = len(pieces.ids)
    for lead in range(len(full) - count + 1):
        if full[lead : lead + count] == pieces.ids:
            return full[:lead]
    raise Refusal("the tokenizer cuts a text differently with and without special tokens")
