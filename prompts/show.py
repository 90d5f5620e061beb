"""One prompt as text for people, its numbers and token borders marked."""

from collections import defaultdict

from prompts.contexts import ContextSet
from prompts.layouts import Layout, Prompt, render
from prompts.pieces import Tokenizer
from prompts.refusal import Refusal
from prompts.tokens import Bos, sites, tokenize_context

MARKS = {"x": "[]", "y": "<>", "separator": "{}"}
BORDER, LINE_END = "|", "⏎"


def show_prompt(
    contexts: ContextSet,
    index: int = 0,
    query: int = 0,
    *,
    layout: Layout,
    tokenizer: Tokenizer | None = None,
    bos: Bos = "auto",
) -> str:
    """The prompt of one query, x in [ ], y in < >, separators in { }, line ends as ⏎.

    With a tokenizer also the borders of its tokens as | and the counts of tokens; the prompt then
    ends where the answer's first token would start. Refuses what `tokenize_context` refuses, and
    a context or query that is not there.
    """
    _check_place("context", index, len(contexts.contexts))
    _check_place("query", query, len(contexts.contexts[index].queries))
    prompt = render(
        contexts.contexts[index],
        query,
        layout=layout,
        codec=contexts.codec,
        feature_names=contexts.feature_names,
        target_name=contexts.target_name,
    )
    lines = _heading(contexts, index, query, layout)
    if tokenizer is None:
        return "\n".join([*lines, "", _marked(prompt, [], len(prompt.text)), ""])
    tokenized = tokenize_context(contexts, index, tokenizer, layout=layout, bos=bos)
    pieces = sites(contexts, index, tokenizer, layout)[0][query].pieces
    lead = int(tokenized.parts["all"][0, 0])  # the text starts with its first example
    length = len(tokenized.prefix) + tokenized.suffixes.shape[1]
    borders = pieces.ends[: length - lead].tolist()
    counts = ", ".join(f"{part} {rows.shape[1]}" for part, rows in tokenized.parts.items())
    lines[-1] += f" {BORDER} token border"
    lines += ["", _marked(prompt, borders, borders[-1]), ""]
    lines += [
        f"tokens: {len(tokenized.prefix)} before the query, {tokenized.suffixes.shape[1]} in it; "
        f"the answer is predicted at position {length - 1}",
        f"tokens of each example: {counts}",
        f"token before the text: {'none' if tokenized.bos is None else tokenized.bos}",
    ]
    return "\n".join([*lines, ""])


def _heading(contexts: ContextSet, index: int, query: int, layout: Layout) -> list[str]:
    context, names = contexts.contexts[index], contexts.feature_names
    target = contexts.codec.text(context.targets[query])
    return [
        f"context {index + 1} of {len(contexts.contexts)}, query {query + 1} of "
        f"{len(context.queries)}; examples: {len(context.y)}, features: {', '.join(names)}",
        f"layout {layout.name!r}, codec {contexts.codec.name!r}, "
        f"target of the query ({contexts.target_name}): {target}",
        "[x] <y> {separator}",
    ]


def _check_place(kind: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise Refusal(f"{kind} 1 to {count} is needed; came {number + 1}")


def _marked(prompt: Prompt, borders: list[int], end: int) -> str:
    """The text up to `end` with every mark at its character: closing, border, opening."""
    closing, opening = defaultdict[int, str](str), defaultdict[int, str](str)
    for span in prompt.spans:
        opening[span.start] += MARKS[span.kind][0]
        closing[span.end] += MARKS[span.kind][1]
    inner = set(borders)
    text = ""
    for place in range(end + 1):
        text += closing[place]
        text += "\n" if prompt.text[:place].endswith("\n") else ""
        if place < end:
            text += (BORDER if place in inner else "") + opening[place]
            text += prompt.text[place].replace("\n", LINE_END)
    return text + (BORDER if borders else "")
