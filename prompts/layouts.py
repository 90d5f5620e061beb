"""Layouts: how a context becomes text, with the characters of every number known."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from types import MappingProxyType
from typing import Literal, NamedTuple

from prompts.contexts import Context, Floats
from prompts.numerals import Codec
from prompts.refusal import Refusal, unknown_name

Kind = Literal["x", "y", "separator"]


class Span(NamedTuple):
    """Characters [start, end) of one number, or of the separator after an example's y.

    `example` is -1 for the query; `feature` is -1 for y and separators.
    """

    kind: Kind
    example: int
    feature: int
    start: int
    end: int


@dataclass(frozen=True)
class Prompt:
    """A prompt that ends right before its answer's numeral, blanks before it included.

    `text[:query_start]` is shared by all queries of the context.
    """

    text: str
    spans: tuple[Span, ...]
    query_start: int


class Field(NamedTuple):
    """Literal text, then the number that follows it: a feature, or y where `feature` is -1."""

    before: str
    feature: int


@dataclass(frozen=True)
class Layout:
    """A name, and the template of one example for so many features.

    A template holds ``{x1}`` to ``{xP}`` once each and ``{y}`` last; what follows ``{y}`` is the
    separator between examples.
    """

    name: str
    template: Callable[[Sequence[str], str], str]

    def fields(self, feature_names: Sequence[str], target: str) -> tuple[list[Field], str]:
        """The fields of one example, y last, and the separator after it.

        Refuses a template that does not use each feature once.
        """
        fields, separator = parsed(self.template(feature_names, target))
        used = sorted(field.feature for field in fields[:-1])
        if used != list(range(len(feature_names))):
            came = ", ".join(f"{{x{j + 1}}}" for j in used) or "none"
            raise Refusal(
                f"layout {self.name!r} needs {{x1}} to {{x{len(feature_names)}}} for "
                f"{len(feature_names)} features; came {came}"
            )
        return fields, separator


def parsed(template: str) -> tuple[list[Field], str]:
    """The fields of a template and the text after {y}.

    Refuses an unknown or repeated placeholder, numbers without text between them, a template
    without {y}, and a {y} that is not last. ``{{`` and ``}}`` stand for braces.
    """
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise Refusal(f"a layout needs balanced braces; came {template!r} ({error})") from None
    fields: list[Field] = []
    literal = ""
    for before, name, spec, conversion in pieces:
        literal += before
        if name is None:
            continue
        field = Field(literal, _feature(name, spec, conversion, template))
        _check_place(field, fields, template)
        fields.append(field)
        literal = ""
    if not fields or fields[-1].feature != -1:
        raise Refusal(f"a layout needs the placeholder {{y}}; came {template!r}")
    return fields, literal or "\n"


def _feature(name: str, spec: str | None, conversion: str | None, template: str) -> int:
    bare = not spec and not conversion
    if bare and name == "y":
        return -1
    if bare and re.fullmatch("x[1-9][0-9]*", name, re.ASCII):
        return int(name[1:]) - 1
    shown = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
    needed = "needed {x1}, {x2}, ... and {y}"
    raise Refusal(f"unknown placeholder {{{shown}}} in layout {template!r}; {needed}")


def _check_place(field: Field, earlier: Sequence[Field], template: str) -> None:
    name = "y" if field.feature == -1 else f"x{field.feature + 1}"
    if any(other.feature == field.feature for other in earlier):
        raise Refusal(f"a layout needs {{{name}}} once; came {template!r}")
    if earlier and earlier[-1].feature == -1:
        raise Refusal(f"a layout needs {{y}} last, {{{name}}} follows it; came {template!r}")
    if earlier and not field.before:
        raise Refusal(
            f"a layout needs text between its numbers, before {{{name}}}; came {template!r}"
        )


def _listed(count: int) -> str:
    return ", ".join(f"{{x{j + 1}}}" for j in range(count))


def _line(feature_names: Sequence[str], target: str) -> str:
    return f"x: {_listed(len(feature_names))}; y: {{y}}\n"


def _feature_block(feature_names: Sequence[str], target: str) -> str:
    lines = [f"Feature {j + 1}: {{x{j + 1}}}\n" for j in range(len(feature_names))]
    return "".join(lines) + "Output: {y}\n\n"


def _named_block(feature_names: Sequence[str], target: str) -> str:
    lines = [f"{_literal(name)}: {{x{j + 1}}}\n" for j, name in enumerate(feature_names)]
    return "".join(lines) + f"{_literal(target)}: {{y}}\n\n"


def _function(feature_names: Sequence[str], target: str) -> str:
    return f"f({_listed(len(feature_names))}) = {{y}}\n"


def _arrow(feature_names: Sequence[str], target: str) -> str:
    return f"({_listed(len(feature_names))}) -> {{y}}\n"


def _literal(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            Layout("line", _line),
            Layout("feature-block", _feature_block),
            Layout("named-block", _named_block),
            Layout("function", _function),
            Layout("arrow", _arrow),
        )
    }
)


def layout_named(name: str) -> Layout:
    """The layout of that name, or an own template such as ``x=({x1}, {x2}) y={y}``.

    Text with a brace is a template; in it ``\\n`` and ``\\t`` written out (backslash and letter)
    stand for a line break and a tab, and a template that ends in ``{y}`` is ended by a line break.
    """
    if "{" in name or "}" in name:
        template = name.replace("\\n", "\n").replace("\\t", "\t")
        parsed(template)
        return Layout(name, lambda feature_names, target: template)
    if name not in LAYOUTS:
        raise unknown_name("layout", name, LAYOUTS)
    return LAYOUTS[name]


def render(
    context: Context,
    query: int,
    *,
    layout: Layout,
    codec: Codec,
    feature_names: Sequence[str],
    target_name: str,
) -> Prompt:
    """The prompt of one query of a context, with the characters of every number.

    Refuses a number that does not fit the codec, naming it and its place.
    """
    one = replace(context, queries=context.queries[query : query + 1])
    return render_all(
        one, layout=layout, codec=codec, feature_names=feature_names, target_name=target_name
    )[0]


def render_all(
    context: Context,
    *,
    layout: Layout,
    codec: Codec,
    feature_names: Sequence[str],
    target_name: str,
) -> list[Prompt]:
    """The prompts of all queries of a context, in order; see `render`."""
    fields, separator = layout.fields(feature_names, target_name)
    shared = _Text("", [], codec, (*feature_names, "y"))
    for example, (x, y) in enumerate(zip(context.x, context.y, strict=True)):
        shared.put_numbers(fields, example, [*x, y])
        shared.put("separator", example, -1, separator)
    prompts = []
    for x in context.queries:
        whole = replace(shared, spans=list(shared.spans))
        whole.put_numbers(fields[:-1], -1, x)
        text = whole.text + fields[-1].before
        prompts.append(Prompt(text, tuple(whole.spans), len(shared.text)))
    return prompts


@dataclass
class _Text:
    """A prompt that grows; `columns` are the names of the features, then y."""

    text: str
    spans: list[Span]
    codec: Codec
    columns: Sequence[str]

    def put(self, kind: Kind, example: int, feature: int, piece: str) -> None:
        start = len(self.text)
        self.spans.append(Span(kind, example, feature, start, start + len(piece)))
        self.text += piece

    def put_numbers(
        self, fields: Sequence[Field], example: int, numbers: Sequence[float] | Floats
    ) -> None:
        for before, feature in fields:
            self.text += before
            row = "the query" if example == -1 else f"example {example + 1}"
            numeral = _numeral(self.codec, numbers[feature], f"{row}, {self.columns[feature]}")
            self.put("y" if feature == -1 else "x", example, feature, numeral)


def _numeral(codec: Codec, number: float, place: str) -> str:
    try:
        return codec.text(number)
    except Refusal as refusal:
        raise Refusal(refusal.sentence, where=place) from None
