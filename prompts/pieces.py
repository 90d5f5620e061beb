"""A tokenised text as pieces: what each token covers, by the tokenizer's character offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prompts.refusal import Refusal

Integers = NDArray[np.int64]


class Tokenizer(Protocol):
    """What is asked of a tokenizer: a fast one of `transformers` has it."""

    bos_token_id: int | None
    all_special_ids: Iterable[int]

    def __call__(self, text: Any, **options: Any) -> Mapping[str, Any]:
        """Ids, and on request offsets, of a text or of several."""
        ...


@dataclass(frozen=True, eq=False)
class Pieces:
    """The tokens of a text; token t covers characters [starts[t], ends[t])."""

    text: str
    ids: Integers
    starts: Integers
    ends: Integers

    def covering(self, character: int) -> int | None:
        """The token that covers that character; None behind the text's end."""
        token = int(self.ends.searchsorted(character, side="right"))
        return token if token < len(self.ends) else None

    def starting_at(self, character: int) -> int | None:
        """The token that starts at that character, or None."""
        token = self.covering(character)
        return token if token is not None and self.starts[token] == character else None

    def ending_at(self, character: int) -> int | None:
        """One past the last token that ends at that character, or None if a token crosses it."""
        return self.starting_at(character) if character < len(self.text) else len(self.ids)

    def piece(self, token: int) -> str:
        """The text that a token covers."""
        return self.text[self.starts[token] : self.ends[token]]


def cut(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Pieces]:
    """Each text as pieces, without the special tokens that stand before and after.

    Refuses a tokenizer that gives no character offsets, or offsets that do not cover the text.
    """
    try:
        encoded = tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
    except NotImplementedError:
        encoded = {}
    if "offset_mapping" not in encoded:
        kind = type(tokenizer).__name__
        raise Refusal(f"a fast tokenizer that gives character offsets is needed; came {kind}")
    special = list(tokenizer.all_special_ids)
    rows = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [_pieces(text, ids, offsets, special) for text, ids, offsets in rows]


def _pieces(
    text: str, tokens: Sequence[int], offsets: Sequence[tuple[int, int]], special: Sequence[int]
) -> Pieces:
    ids, span = np.array(tokens, np.int64), np.array(offsets, np.int64).reshape(-1, 2)
    kept = (span[:, 1] > span[:, 0]) | ~np.isin(ids, special)
    ids, span = ids[kept], span[kept]
    # Some tokenizers leave blanks out of their offsets: a piece starts where the last one ended.
    ends = span[:, 1]
    starts = np.concatenate([[0], ends])[: len(ends)]
    for token in np.flatnonzero((span[:, 0] != starts) | (ends < starts)):
        skipped = text[starts[token] : span[token, 0]]
        if ends[token] < starts[token] or skipped.strip(" "):
            raise Refusal(
                f"the tokenizer's character offsets skip or repeat text near character "
                f"{starts[token]} (a token covers {span[token, 0]}-{ends[token]})"
            )
    if not len(ends) or ends[-1] != len(text):
        last = ends[-1] if len(ends) else 0
        raise Refusal(f"the tokenizer's offsets end at character {last} of {len(text)}")
    return Pieces(text, ids, starts, ends)


def leading_ids(tokenizer: Tokenizer, pieces: Pieces) -> tuple[int, ...]:
    """The ids that the tokenizer itself puts before a text, read off its output.

    Looked up in the ids, since attributes such as `add_bos_token` are wrong for some tokenizers.
    What it puts behind the text (an end mark) is left out.
    """
    full = list(tokenizer(pieces.text, add_special_tokens=True)["input_ids"])
    count, own = len(pieces.ids), pieces.ids.tolist()
    for lead in range(len(full) - count + 1):
        if full[lead : lead + count] == own:
            return tuple(full[:lead])
    raise Refusal("the tokenizer cuts a text differently with and without special tokens")
