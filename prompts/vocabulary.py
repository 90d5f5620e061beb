"""The text of every token of a tokenizer, read off its vocabulary at once."""

import json
import re
from typing import Any, NamedTuple

from prompts.refusal import Refusal

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
_NOT_A_CHARACTER = "�"


class Vocabulary(NamedTuple):
    """Token texts by id, and the ids of special tokens, whose text no prompt's text spells.

    A token that holds a part of a character only has U+FFFD in its text. An id without a token
    has the text "".
    """

    texts: tuple[str, ...]
    special: frozenset[int]


def vocabulary(tokenizer: Any) -> Vocabulary:
    """The vocabulary of a fast tokenizer; refuses one without a vocabulary that can be read."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        kind = type(tokenizer).__name__
        raise Refusal(f"a fast tokenizer is needed to read numbers; came {kind}")
    pieces: dict[str, int] = tokenizer.get_vocab()
    added: dict[int, Any] = tokenizer.added_tokens_decoder
    texts = [""] * (1 + max([*pieces.values(), *added]))
    spelled = _spelling(_decoders(backend))
    for piece, token in pieces.items():
        texts[token] = spelled(piece)
    for token, one in added.items():
        texts[token] = str(one.content)
    special = {token for token, one in added.items() if one.special}
    return Vocabulary(tuple(texts), frozenset(special | set(tokenizer.all_special_ids)))


def _decoders(backend: Any) -> list[dict[str, Any]]:
    if backend.decoder is None:
        return []
    whole: dict[str, Any] = json.loads(backend.decoder.__getstate__())
    return list(whole["decoders"]) if whole["type"] == "Sequence" else [whole]


def _spelling(decoders: list[dict[str, Any]]) -> Any:
    """The function from a piece of the vocabulary to its text, inside a longer text."""
    kinds = {decoder["type"] for decoder in decoders}
    if "ByteLevel" in kinds:
        return _of_bytes
    blanks = [d["replacement"] for d in decoders if d["type"] == "Metaspace"]
    blanks += [
        d["pattern"]["String"]
        for d in decoders
        if d["type"] == "Replace" and d["content"] == " " and "String" in d["pattern"]
    ]

    def plain(piece: str) -> str:
        byte = _BYTE_TOKEN.fullmatch(piece) if "ByteFallback" in kinds else None
        if byte is not None:
            value = int(byte[1], 16)
            return chr(value) if value < 128 else _NOT_A_CHARACTER
        for blank in blanks:
            piece = piece.replace(blank, " ")
        return piece

    return plain


def _byte_alphabet() -> dict[int, int]:
    """From the characters that byte-level pieces are written in to the bytes they stand for.

    Printable bytes of Latin-1 stand for themselves, the others follow from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {0x100 + place: byte for place, byte in enumerate(others)}


_BYTES = _byte_alphabet()


def _of_bytes(piece: str) -> str:
    try:
        return piece.translate(_BYTES).encode("latin-1").decode("utf-8", errors="replace")
    except UnicodeEncodeError:
        return piece
