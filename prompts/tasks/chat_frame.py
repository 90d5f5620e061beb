"""What a tokenizer's chat template prints around the turns of a chat."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from prompts.pieces import Tokenizer, cut
from prompts.refusal import Refusal

DAY = datetime(2025, 1, 1)
"""What a template that prints the day is told: one command gives the same tokens on any day."""
_DAY_FORMAT = re.compile(r"""strftime_now\(\s*["']([^"']*)["']""")

_FIRST, _SAID, _SECOND = "hatlens asks one", "hatlens says one", "hatlens asks two"


@dataclass(frozen=True)
class Frame:
    """What a template prints around turns, wherever they stand.

    `header`: before the first turn (a begin mark, a system text). `user`: before a user's text.
    `asked`: between it and the answer; the generation prompt is its end. `lead`: a blank that the
    template prints before an answer. `closed`: behind an answer.
    """

    header: str
    user: str
    asked: str
    lead: str
    closed: str

    def query(self, text: str) -> str:
        """A user's turn up to where its answer begins."""
        return self.user + text + self.asked

    def turns(self, text: str, word: str) -> str:
        """A user's turn and the assistant's answer to it."""
        return self.query(text) + self.lead + word + self.closed


def chat_frame(tokenizer: Tokenizer) -> Frame:
    """The frame of a tokenizer's chat template.

    Refuses a tokenizer without one, and a template that prints a turn otherwise by its place (one
    that numbers turns): the query alone, in context and what is fine-tuned on could not be the
    same turns.
    """
    before, asked = _around(rendered(tokenizer, [_FIRST]), _FIRST)
    whole = rendered(tokenizer, [_FIRST, _SAID, _SECOND])
    again, shown, between, last = _around(whole, _FIRST, _SAID, _SECOND)
    *_, closing = _around(rendered(tokenizer, [_FIRST, _SAID], ask=False), _FIRST, _SAID)
    (pieces,) = cut(tokenizer, [whole])
    # Where the first answer's turn ends: a chat that is asked nothing may end otherwise than there.
    start = len(again + _FIRST + shown + _SAID)
    ends = [
        length
        for length in range(len(alike(between, closing)), -1, -1)
        if before.endswith(between[length:]) and pieces.starting_at(start + length) is not None
    ]
    if before != again or asked != last or not ends:
        raise Refusal(
            f"the chat template prints a turn otherwise by its place ({before!r} and {asked!r} "
            f"around the first one, {between!r} and {last!r} around the second), but a query must "
            "be the same turn alone and behind demonstrations; use --template plain"
        )
    if not shown.startswith(asked) or shown[len(asked) :].strip():
        raise Refusal(
            f"the chat template begins an answer by {asked!r} where it asks for one, but by "
            f"{shown!r} where it shows one: both must be the same; use --template plain"
        )
    closed, user = between[: ends[0]], between[ends[0] :]
    header = before[: len(before) - len(user)]
    return Frame(header, user, asked, shown[len(asked) :], closed)


def rendered(tokenizer: Tokenizer, contents: Sequence[str], *, ask: bool = True) -> str:
    """A chat as the template prints it, the user's turn first; `ask`: with the generation prompt.

    Refuses a tokenizer without a template, and what the template refuses itself.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise Refusal("the tokenizer has no chat template; use --template plain")
    chat: Any = tokenizer
    turns = [
        {"role": ("user", "assistant")[place % 2], "content": content}
        for place, content in enumerate(contents)
    ]
    try:
        text = chat.apply_chat_template(
            turns,
            tokenize=False,
            add_generation_prompt=ask,
            chat_template=on_one_day(chat.get_chat_template()),
        )
    except Exception as error:  # A template is a program, and may raise anything.
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise Refusal(
            f"the chat template cannot print alternating turns ({said}); use --template plain"
        ) from error
    return str(text)


def on_one_day(template: str) -> str:
    """A template that is told `DAY` where it asks for the day, by a macro of the function's name.

    Only what a template prints by a format that it spells out is known.
    """
    formats = dict.fromkeys(_DAY_FORMAT.findall(template))
    if not formats:
        return template
    known = json.dumps({one: DAY.strftime(one) for one in formats})
    return f"{{% macro strftime_now(form) %}}{{{{ {known}[form] }}}}{{% endmacro %}}\n{template}"


def _around(text: str, *contents: str) -> list[str]:
    """The text before, between and behind contents that stand in it in this order."""
    parts, rest = [], text
    for content in contents:
        before, found, rest = rest.partition(content)
        if not found:
            raise Refusal(
                f"the chat template does not print a turn's text as given; came {text!r}; use "
                "--template plain"
            )
        parts.append(before)
    return [*parts, rest]


def alike(one: str, other: str) -> str:
    """What two texts begin with alike."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(character for character, _ in pairs)
