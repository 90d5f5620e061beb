"""Which tokens may follow which numeral: by hand, for tokenizers of each kind, against strings."""

import time
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from prompts.layouts import layout_named
from prompts.number_grammar import (
    END,
    NumberGrammar,
    State,
    grammar_of_contexts,
    grammar_of_texts,
    number_grammar,
)
from prompts.numerals import CODECS, codec_named
from prompts.pieces import cut
from prompts.refusal import Refusal
from prompts.vocabulary import Vocabulary, vocabulary
from tests.prompts.small_contexts import contexts
from tests.prompts.small_tokenizers import (
    NEWLINE,
    irregular,
    single_digits,
    three_digits,
    unlike_signs,
    wrapped,
)

KINDS = (single_digits, three_digits, unlike_signs, irregular)
DIGITS = tuple("0123456789")


def of_texts(texts: tuple[str, ...], codec: str, **options: Any) -> NumberGrammar:
    options = {"after": "\n", **options}
    return grammar_of_texts(Vocabulary(texts, frozenset()), codec_named(codec), **options)


def allowed(grammar: NumberGrammar, state: State) -> dict[str, State]:
    moves = grammar.moves[state]
    words = [grammar.texts[token] for token in moves.tokens]
    return dict(zip(words, moves.states, strict=True))


def read(grammar: NumberGrammar, tokens: list[int]) -> tuple[str, State]:
    """The numeral that these tokens spell, and where they lead."""
    text, state = "", grammar.start
    for token in tokens:
        moves = grammar.moves[state]
        place = moves.tokens.tolist().index(token)
        text, state = text + moves.heads[place], moves.states[place]
    return text, state


def small_sentencepiece() -> Any:
    """A blank is written ▁, a line end is a byte token, as in Llama-2."""
    pieces = [*DIGITS, ".", "-", "▁", "▁-", "<0x0A>", "<0xE2>", "x", "</s>"]
    backend = Backend(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="x"))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(steps)
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=backend, eos_token="</s>")


def test_byte_tokens_blanks_and_special_tokens_of_a_vocabulary() -> None:
    words = vocabulary(small_sentencepiece())
    assert words.texts[12:17] == (" ", " -", "\n", "�", "x")
    assert words.special == {17}


def test_a_byte_level_vocabulary_is_what_the_tokenizer_decodes() -> None:
    tokenizer = three_digits()
    words = vocabulary(tokenizer)
    for token, text in enumerate(words.texts):
        if token not in words.special:
            assert text == tokenizer.decode([token])


def test_added_tokens_are_spelled_as_they_are() -> None:
    tokenizer = single_digits()
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False, special=False)])
    words = vocabulary(tokenizer)
    assert words.texts[-1] == "\n\n"
    assert len(words.texts) - 1 not in words.special


def test_a_slow_tokenizer_is_refused() -> None:
    with pytest.raises(Refusal, match="a fast tokenizer is needed to read numbers; came object"):
        vocabulary(object())


def test_moves_by_hand() -> None:
    """One digit, a point, two digits; 12 is too wide before the point and ends after it."""
    grammar = of_texts(
        (*DIGITS, ".", "12", ".5", ".123", "-", "7\n", "\n", "a"), "unsigned-decimal"
    )
    whole, fraction = State("whole", 1), State("fraction", 1)
    assert allowed(grammar, State("sign")) == dict.fromkeys(DIGITS, whole)
    assert allowed(grammar, whole) == {".": State("fraction"), ".5": fraction}
    first = dict.fromkeys(DIGITS, fraction)
    assert allowed(grammar, State("fraction")) == {**first, "12": END}
    assert allowed(grammar, fraction) == {**dict.fromkeys((*DIGITS, "7\n"), END)}
    assert grammar.longest == 4


def test_an_open_width_ends_with_the_terminator() -> None:
    """Up to three digits without zeros in front: 0 is over at once, 12 may end or go on."""
    grammar = of_texts((*DIGITS, "-", "\n", "\n\n", "5\n", "00"), "decimal(3,0)")
    start = allowed(grammar, State("sign"))
    assert start["0"] == END
    assert start["-"] == State("whole")
    assert start["5\n"] == END
    assert "00" not in start
    one = allowed(grammar, State("whole", 1))
    assert one["\n"] == one["\n\n"] == END
    assert one["00"] == END
    assert one["0"] == State("whole", 2)
    assert "00" not in allowed(grammar, State("whole", 2))


def test_a_blank_comes_first_where_it_belongs_to_the_answer() -> None:
    grammar = of_texts((*DIGITS, ".", " ", " -", "-", " 3", "  "), "decimal", blank=True)
    assert allowed(grammar, State("blank")) == {
        " ": State("sign"),
        " -": State("whole"),
        " 3": State("whole", 1),
    }
    assert " 3" not in allowed(grammar, State("sign"))


def test_a_blank_may_be_the_terminator() -> None:
    grammar = of_texts((*DIGITS, "-", " ", " the"), "decimal(3,0)", blank=True, after=" ")
    behind = allowed(grammar, State("whole", 1))
    assert behind[" the"] == behind[" "] == END
    assert set(allowed(grammar, State("blank"))) == {" "}


def test_an_always_printed_sign_is_needed() -> None:
    grammar = of_texts((*DIGITS, ".", "-", "+", "+1"), "signed-decimal")
    assert set(allowed(grammar, State("sign"))) == {"-", "+", "+1"}


def test_forced_tokens_are_followed_at_once() -> None:
    grammar = of_texts((*DIGITS, "."), "unsigned-decimal")
    assert grammar.forced(State("whole", 1)) == ((10,), ".", State("fraction"))
    assert grammar.forced(State("fraction")) == ((), "", State("fraction"))
    lonely = of_texts(("1", "."), "unsigned-decimal")
    assert lonely.forced(lonely.start) == ((0, 1, 0, 0), "1.11", END)


def test_a_state_without_a_way_to_a_number_is_left_out() -> None:
    """Without a minus of its own, +1.5 can be written; a lone + leads nowhere."""
    grammar = of_texts(("+", "+1.", "2", "5"), "signed-decimal")
    assert set(allowed(grammar, State("sign"))) == {"+1."}
    with pytest.raises(Refusal, match="can spell no number of codec 'unsigned-decimal'"):
        of_texts(DIGITS, "unsigned-decimal")


def test_minus_zero_is_zero() -> None:
    grammar = of_texts((*DIGITS, "-", "."), "decimal")
    assert str(grammar.number("-0.00")) == "0.0"
    assert grammar.number(" -1.25") == -1.25


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_numeral_as_the_tokenizer_cuts_it_is_in_the_grammar(kind: Any, codec: str) -> None:
    """Numbers all over the range, with the terminator behind and the blank before."""
    tokenizer, of = kind(), codec_named(codec)
    for blank in (False, True):
        grammar = number_grammar(tokenizer, of, after="\n", blank=blank)
        for number in of.round([of.low, of.high, 0, of.high / 7, of.low / 3, of.high / 2]):
            text = " " * blank + of.text(number)
            pieces = cut(tokenizer, [f"{text}\n"])[0]
            ids = pieces.ids[: pieces.ending_at(len(text))].tolist()
            numeral, state = read(grammar, ids)
            assert grammar.number(numeral) == number
            assert state == END or of.decimals == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_blank_of_a_layout_is_found(kind: Any) -> None:
    """A signed answer takes the blank before it wherever ` -` is a token."""
    given = contexts("decimal")
    try:
        grammar = grammar_of_contexts(given, kind(), layout=layout_named("line"))
    except Refusal:
        pytest.skip("this tokenizer cuts such numbers unequally")
    assert grammar.blank
    assert grammar.after == "\n"


def test_no_blank_where_it_belongs_to_the_prompt() -> None:
    given = contexts("unsigned-decimal")
    grammar = grammar_of_contexts(given, single_digits(), layout=layout_named("feature-block"))
    assert not grammar.blank
    assert grammar.after == "\n\n"


def test_a_terminator_that_is_merged_with_every_digit_is_refused() -> None:
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    merging = wrapped(whole, [(digit, NEWLINE) for digit in DIGITS])
    with pytest.raises(Refusal, match=r"merges the terminator '\\n' with every digit .* '0\\n'"):
        number_grammar(merging, codec_named("unsigned-decimal"), after="\n")
    some = wrapped(whole, [("5", NEWLINE)])
    grammar = number_grammar(some, codec_named("unsigned-decimal"), after="\n")
    assert allowed(grammar, State("fraction", 1))["5\n"] == END


@pytest.mark.parametrize("after", ["", "1st"])
def test_a_terminator_that_does_not_end_a_number_is_refused(after: str) -> None:
    with pytest.raises(Refusal, match="something else than a digit"):
        of_texts((*DIGITS, "."), "unsigned-decimal", after=after)


def test_a_large_vocabulary_takes_less_than_two_seconds() -> None:
    """128,000 words, of which 1,110 are numerals and 20,000 begin with the terminator."""
    numerals = [f"{n:0{width}}" for width in (1, 2, 3) for n in range(10**width)]
    words = [f" word{i}" for i in range(106_890)] + [f"\n{i}x" for i in range(20_000)]
    began = time.process_time()
    grammar = of_texts((*numerals, *words), "decimal(3,0)")
    assert time.process_time() - began < 2
    assert len(grammar.moves[State("whole", 1)].tokens) == 20_110
