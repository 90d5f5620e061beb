"""Which tokens may follow which part of a numeral, for one tokenizer, codec and layout."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.alignment import answer_border
from prompts.contexts import ContextSet
from prompts.layouts import Layout
from prompts.numerals import Codec
from prompts.pieces import Tokenizer, cut
from prompts.refusal import Refusal
from prompts.tokens import sites
from prompts.vocabulary import Vocabulary, vocabulary

Integers = NDArray[np.int64]


class State(NamedTuple):
    """Where a numeral stands: before its blank or sign, or in a part with so many digits.

    `zero`: the whole part is a zero that no digit may follow. Place "end": the number is known.
    """

    place: Literal["blank", "sign", "whole", "fraction", "end"]
    digits: int = 0
    zero: bool = False


END = State("end")


class Moves(NamedTuple):
    """The tokens that may come next, ascending; what each adds to the numeral; where it leads.

    `open`: the places of those that leave the number unknown. The others, at `ends`, add one of
    `endings`: that at `ending` (one a place of `ends`), and the number is known.
    """

    tokens: Integers
    heads: tuple[str, ...]
    states: tuple[State, ...]
    open: Integers
    ends: Integers
    endings: tuple[str, ...]
    ending: Integers


def _sorted_moves(found: Sequence[tuple[int, str, State]]) -> Moves:
    found = sorted(found)
    over = np.array([state == END for _, _, state in found], np.bool_)
    endings = tuple(dict.fromkeys(head for _, head, state in found if state == END))
    place = {head: i for i, head in enumerate(endings)}
    return Moves(
        np.array([token for token, _, _ in found], np.int64),
        tuple(head for _, head, _ in found),
        tuple(state for _, _, state in found),
        np.flatnonzero(~over),
        np.flatnonzero(over),
        endings,
        np.array([place[head] for _, head, state in found if state == END], np.int64),
    )


@dataclass(frozen=True, eq=False)
class NumberGrammar:
    """The numerals of a codec as token sequences; all ways of cutting a numeral are in it.

    A number is known with its last digit where its width says so, else with the token in which
    `after` begins; a token may hold last digits and the beginning of `after`. `moves` are those
    of each state from which a number can be reached; minus zero is read as 0. `blank`: whether
    a blank comes first. `texts`: every token's text.
    """

    codec: Codec
    after: str
    blank: bool
    start: State
    texts: Sequence[str] = field(repr=False)
    moves: Mapping[State, Moves] = field(repr=False)

    @property
    def highest_token(self) -> int:
        """The largest id of a token that may come."""
        return max(int(moves.tokens[-1]) for moves in self.moves.values())

    @property
    def longest(self) -> int:
        """The most tokens that a number can take, forced ones not counted."""
        return _longest(self, self.start)

    def forced(self, state: State) -> tuple[tuple[int, ...], str, State]:
        """The tokens that must follow that state one by one, what they add, where they lead."""
        tokens, text = [], ""
        while state != END and len(self.moves[state].tokens) == 1:
            only = self.moves[state]
            tokens.append(int(only.tokens[0]))
            text, state = text + only.heads[0], only.states[0]
        return tuple(tokens), text, state

    def number(self, numeral: str) -> float:
        """The number of a complete numeral, never -0.0."""
        return float(numeral) + 0.0


def number_grammar(
    tokenizer: Tokenizer, codec: Codec, *, after: str, blank: bool = False
) -> NumberGrammar:
    """The grammar of a codec's numbers for a tokenizer, from its whole vocabulary.

    `after`: what the layout prints behind an answer. `blank`: the answer's tokens begin with the
    blank before its numeral (see `grammar_of_contexts`, which finds both). Refuses what
    `grammar_of_texts` does, and a terminator that the tokenizer merges with every digit.
    """
    _check_terminator(after)
    pieces = cut(tokenizer, [f"{digit}{after}" for digit in range(10)])
    if all(one.starting_at(1) is None for one in pieces):
        raise Refusal(
            f"a number must end where its last token does, and this tokenizer merges the "
            f"terminator {after!r} with every digit before it, as in {pieces[0].piece(0)!r}; "
            f"another layout or separator is needed"
        )
    return grammar_of_texts(vocabulary(tokenizer), codec, after=after, blank=blank)


def grammar_of_contexts(
    contexts: ContextSet, tokenizer: Tokenizer, *, layout: Layout
) -> NumberGrammar:
    """The grammar of the answers to the prompts of `tokenize_context`."""
    _, separator = layout.fields(contexts.feature_names, contexts.target_name)
    queries, answered = sites(contexts, 0, tokenizer, layout)
    blank = answer_border([*queries, *answered]) > 0
    return number_grammar(tokenizer, contexts.codec, after=separator, blank=blank)


def grammar_of_texts(
    words: Vocabulary, codec: Codec, *, after: str, blank: bool = False
) -> NumberGrammar:
    """The grammar of a codec's numbers over tokens of these texts; special tokens are left out.

    Refuses a terminator that is empty or begins with a digit, and a vocabulary in which no
    number can be written.
    """
    _check_terminator(after)
    known = _spellings(words, after)
    start = State("blank") if blank else State("sign")
    moves: dict[State, Moves] = {}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        moves[state] = _moves(codec, state, known)
        fresh = {s for s in moves[state].states if s != END and s not in moves}
        waiting += sorted(fresh - set(waiting))
    moves = _live(moves)
    if start not in moves:
        raise Refusal(f"the tokens of this tokenizer can spell no number of codec {codec.name!r}")
    return NumberGrammar(codec, after, blank, start, words.texts, moves)


def _check_terminator(after: str) -> None:
    if not after or after[0].isdigit():
        raise Refusal(
            f"the text behind an answer must begin with something else than a digit, "
            f"so that the number ends; came {after!r}"
        )


class _Spelling(NamedTuple):
    """What a token adds to a numeral, and whether the terminator follows in the same token."""

    head: str
    ended: bool


def _spellings(words: Vocabulary, after: str) -> dict[_Spelling, list[int]]:
    """The tokens that some numeral could go on with, by what they spell."""
    stop = re.escape(after[0])
    forms = [
        re.compile(f"({blank}[+-]?[0-9]*\\.?[0-9]*)(\\Z|{stop})")
        for blank in (" ", "")  # A blank may be the one before a numeral, or the terminator.
    ]
    first = set(f" +-.0123456789{after[0]}")
    found: dict[_Spelling, list[int]] = {}
    for token, text in enumerate(words.texts):
        if text and text[0] in first and token not in words.special:
            for match in filter(None, (form.match(text) for form in forms)):
                found.setdefault(_Spelling(match[1], match[2] != ""), []).append(token)
    return found


def _moves(codec: Codec, state: State, known: Mapping[_Spelling, list[int]]) -> Moves:
    found = []
    for spelling, tokens in known.items():
        reached = _reached(codec, state, spelling)
        if reached is not None:
            found += [(token, spelling.head, reached) for token in tokens]
    return _sorted_moves(found)


def _reached(codec: Codec, state: State, spelling: _Spelling) -> State | None:
    at: State | None = state
    for character in spelling.head:
        if at is None:
            return None
        at = _step(codec, at, character)
    if at is None:
        return None
    if spelling.ended:
        return END if _may_end(codec, at) else None
    return END if _must_end(codec, at) else at


def _step(codec: Codec, state: State, character: str) -> State | None:
    """The state after one more character of the numeral, None where it may not come."""
    place, digits, zero = state
    if place == "blank":
        return State("sign") if character == " " else None
    if place == "sign" and character in "+-":
        printed = "+-" if codec.sign == "always" else "-" if codec.sign == "negative" else ""
        return State("whole") if character in printed else None
    if place == "sign":
        return None if codec.sign == "always" else _step(codec, State("whole"), character)
    if character == ".":
        whole = place == "whole" and codec.decimals > 0 and _whole_may_end(codec, state)
        return State("fraction") if whole else None
    if character not in "0123456789":
        return None
    if place == "fraction":
        return State(place, digits + 1) if digits < codec.decimals else None
    if zero or digits == codec.integer_digits:
        return None
    return State(place, digits + 1, zero=not codec.padded and digits == 0 and character == "0")


def _whole_may_end(codec: Codec, state: State) -> bool:
    return state.digits >= (codec.integer_digits if codec.padded else 1)


def _may_end(codec: Codec, state: State) -> bool:
    if codec.decimals:
        return state.place == "fraction" and state.digits == codec.decimals
    return state.place == "whole" and _whole_may_end(codec, state)


def _must_end(codec: Codec, state: State) -> bool:
    full = state.zero or codec.decimals > 0 or state.digits == codec.integer_digits
    return _may_end(codec, state) and full


def _live(moves: Mapping[State, Moves]) -> dict[State, Moves]:
    """Only states from which a number can be reached, and moves between them."""
    alive = {END}
    while True:
        more = {s for s, m in moves.items() if s not in alive and any(t in alive for t in m.states)}
        if not more:
            break
        alive |= more
    return {state: _kept(moves[state], alive) for state in moves if state in alive}


def _kept(moves: Moves, alive: set[State]) -> Moves:
    every = zip(moves.tokens.tolist(), moves.heads, moves.states, strict=True)
    return _sorted_moves([move for move in every if move[2] in alive])


def _longest(grammar: NumberGrammar, state: State) -> int:
    """The most free choices from a state on."""
    known: dict[State, int] = {END: 0}

    def choices(at: State) -> int:
        if at not in known:
            moves = grammar.moves[at]
            known[at] = (len(moves.tokens) > 1) + max(map(choices, _others(moves, at)))
        return known[at]

    return choices(state)


def _others(moves: Moves, at: State) -> Iterator[State]:
    return (state for state in dict.fromkeys(moves.states) if state != at)
