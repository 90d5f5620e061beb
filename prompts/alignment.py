"""Which tokens a prompt's numbers are cut into, with the checks that make them comparable."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.layouts import Prompt, Span
from prompts.pieces import Pieces
from prompts.refusal import Refusal

Integers = NDArray[np.int64]


class Site(NamedTuple):
    """A tokenised prompt, and its name in a refusal, e.g. ``context 1, query 3``."""

    prompt: Prompt
    pieces: Pieces
    where: str

    @property
    def example_starts(self) -> list[int]:
        """The character at which each example starts, and the query last."""
        return [0, *(s.end for s in self.prompt.spans if s.kind == "separator")]

    def place(self, span: Span) -> str:
        """Where a number is: context, query, example and feature."""
        row = "the query's own" if span.example == -1 else f"example {span.example + 1},"
        column = f"x{span.feature + 1}" if span.kind == "x" else span.kind
        return f"{self.where}, {row} {column}"

    def fused(self, span: Span, edge: str, character: int) -> Refusal:
        """The refusal of a number that shares a piece with its neighbours."""
        text, pieces = self.pieces.text, self.pieces
        origin = self.example_starts[span.example]
        stop = span.end
        while stop < len(text) and not text[stop].isspace():
            stop += 1
        token = pieces.covering(character)
        assert token is not None
        start, end = pieces.starts[token], pieces.ends[token]
        what = "number" if span.kind != "separator" else "separator"
        return Refusal(
            f"in `{_shown(text[origin:stop])}` {what} `{_shown(text[span.start : span.end])}` "
            f"(characters {span.start - origin}-{span.end - origin}) {edge} inside piece "
            f"`{_shown(pieces.piece(token))}` ({start - origin}-{end - origin})",
            where=self.place(span),
        )


def align(sites: Sequence[Site], *, blank: bool) -> dict[str, Integers]:
    """Token positions of each example's parts, (N, K) each, in prompts of one context.

    The sites' texts and tokens are equal up to their queries. With `blank`, a blank before a
    number belongs to it even as a token of its own (a negative number's sign would take it).
    Refuses numbers that share a piece with their neighbours, and numbers of one feature (the
    queries' included), y or separators of unequal token counts.
    """
    first = sites[0]
    found = {span: _tokens(first, span, blank) for span in first.prompt.spans}
    _check_counts(first, found)
    for site in sites[1:]:
        own = {s: _tokens(site, s, blank) for s in site.prompt.spans if s.example == -1}
        examples = {s: tokens for s, tokens in found.items() if s.example == 0}
        _check_counts(site, examples | own)
    starts = first.example_starts[:-1]
    rows: dict[str, list[list[int]]] = {
        kind: [[] for _ in starts] for kind in ("x", "y", "separator", "all")
    }
    for span, tokens in found.items():
        if span.example != -1:
            rows[span.kind][span.example].extend(tokens)
    for example, start in enumerate(starts):
        begin = first.pieces.covering(start)
        assert begin is not None
        rows["all"][example] = list(range(begin, rows["separator"][example][-1] + 1))
    whole = [len(row) for row in rows["all"]]
    if len(set(whole)) > 1:
        raise Refusal(f"the examples have unequal token counts: {whole}", where=first.where)
    return {part: np.array(positions, np.int64) for part, positions in rows.items()}


def answer_positions(site: Site, back: int) -> Integers:
    """For each example, the token that starts its y, `back` characters before the numeral: (N,)."""
    positions = []
    for span in site.prompt.spans:
        if span.kind == "y":
            token = site.pieces.starting_at(span.start - back)
            if token is None:
                raise site.fused(span, "starts", span.start - back)
            positions.append(token)
    return np.array(positions, np.int64)


def answer_border(sites: Sequence[Site]) -> int:
    """How many characters before the answer's numeral its first piece starts: 0, or 1 for a blank.

    The sites' texts continue their prompts with answers; where some answers take the blank
    before them (` -`), it belongs to the answer for all. Refuses an answer that shares its first
    piece with other text.
    """
    back = 0
    for site in sites:
        start = len(site.prompt.text)
        if site.pieces.starting_at(start) is None:
            back = 1
            takes_blank = site.pieces.text[start - 1] == " "
            if not takes_blank or site.pieces.starting_at(start - 1) is None:
                answer = Span("y", -1, -1, start, len(site.pieces.text))
                raise site.fused(answer, "starts", start)
    for site in sites:
        start = len(site.prompt.text) - back
        if site.pieces.starting_at(start) is None:
            answer = Span("y", -1, -1, start, len(site.pieces.text))
            raise site.fused(answer, "starts", start)
    return back


def _tokens(site: Site, span: Span, blank: bool) -> range:
    pieces, start = site.pieces, span.start
    before = start - 1 if start and pieces.text[start - 1] == " " else start
    candidates = [before, start] if blank else [start, before]
    if span.kind == "separator":
        return _separator_tokens(site, span)
    for candidate in candidates:
        first = pieces.starting_at(candidate)
        if first is not None:
            break
    else:
        raise site.fused(span, "starts", start)
    stop = pieces.ending_at(span.end)
    if stop is None:
        raise site.fused(span, "ends", span.end)
    return range(first, stop)


def _separator_tokens(site: Site, span: Span) -> range:
    """The separator's own tokens; a blank at its end may go with what follows."""
    pieces = site.pieces
    first = pieces.starting_at(span.start)
    if first is None:
        raise site.fused(span, "starts", span.start)
    stop = first
    while stop < len(pieces.ids) and pieces.ends[stop] <= span.end:
        stop += 1
    reached = pieces.ends[stop - 1] if stop > first else span.start
    if stop == first or pieces.text[reached : span.end].strip(" "):
        raise site.fused(span, "ends", span.end - 1)
    return range(first, stop)


def _check_counts(site: Site, found: Mapping[Span, range]) -> None:
    first: dict[tuple[str, int], Span] = {}
    for span, tokens in found.items():
        other = first.setdefault((span.kind, span.feature), span)
        if len(tokens) != len(found[other]):
            raise Refusal(
                f"numbers of one kind need equal token counts: {_counted(site, span, tokens)}, "
                f"but {_counted(site, other, found[other])} in {site.place(other)}",
                where=site.place(span),
            )


def _counted(site: Site, span: Span, tokens: range) -> str:
    pieces = site.pieces
    cut = " ".join(f"`{_shown(pieces.piece(t))}`" for t in tokens)
    return f"`{_shown(pieces.text[span.start : span.end])}` is {len(tokens)} ({cut})"


def _shown(text: str) -> str:
    return text.replace("\n", "\\n").replace("\t", "\\t")
