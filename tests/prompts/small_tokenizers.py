"""Small fast tokenizers of the kinds that language models have, built without a download."""

from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
BLANK, NEWLINE = "Ġ", "Ċ"
GPT_4_LIKE = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"


def wrapped(
    splitter: Any, merges: Sequence[tuple[str, str]], *, lead: str = "", trim: bool = False
) -> Any:
    """A byte-level BPE tokenizer with these merges, in order of rank.

    `lead` is what it puts before a text, e.g. ``<s>``; then it ends the text with ``</s>``.
    """
    vocabulary = [*BYTES, *(a + b for a, b in merges), "<s>", "</s>"]
    ids = {piece: number for number, piece in enumerate(dict.fromkeys(vocabulary))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=list(merges)))
    backend.pre_tokenizer = splitter
    backend.decoder = decoders.ByteLevel()
    steps: list[Any] = [processors.ByteLevel(trim_offsets=trim)]
    if lead:
        marks = [(mark, ids[mark]) for mark in ("<s>", "</s>")]
        ended = f"{lead} $A </s>"
        steps.append(processors.TemplateProcessing(single=ended, special_tokens=marks))
    backend.post_processor = processors.Sequence(steps)
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


def _byte_level(*, use_regex: bool = True) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def single_digits(*, lead: str = "", trim: bool = False) -> Any:
    """One token a digit, as in SmolLM2: a blank before a digit is a token, ` -` is one too."""
    splitter = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), _byte_level()])
    merges = [(BLANK, "-"), (BLANK, "+"), (BLANK, "y"), (",", "-"), ("(", "-"), ("=", "(")]
    return wrapped(splitter, merges, lead=lead, trim=trim)


def three_digits() -> Any:
    """One to three digits a token, as in Llama-3: all runs up to 999 are pieces."""
    splitter = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(GPT_4_LIKE), "isolated"), _byte_level(use_regex=False)]
    )
    digits = "0123456789"
    merges = [(a, b) for a in digits for b in digits]
    merges += [(a + b, c) for a in digits for b in digits for c in digits]
    merges += [(a, b + c) for a in digits for b in digits for c in digits]
    return wrapped(splitter, [*merges, (BLANK, "-"), (BLANK, "+"), (BLANK, "y")])


def unlike_signs() -> Any:
    """One token a digit; a minus takes the blank before it and a plus does not."""
    splitter = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), _byte_level()])
    return wrapped(splitter, [(BLANK, "-")])


def irregular() -> Any:
    """Some digit pairs are pieces and some are not, blanks join digits: as in GPT-2."""
    merges = [("2", "5"), ("5", "0"), *((BLANK, digit) for digit in "0123456789"), (BLANK, "-")]
    return wrapped(_byte_level(), merges)
