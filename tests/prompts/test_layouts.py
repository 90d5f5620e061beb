import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.contexts import Context
from prompts.layouts import LAYOUTS, Prompt, layout_named, render
from prompts.numerals import CODECS, Codec, codec_named
from prompts.refusal import Refusal

DECIMAL = CODECS["decimal"]


def context(x: list[list[float]], y: list[float], query: list[float]) -> Context:
    return Context(np.array(x), np.array(y), np.array([query]), np.array([0.0]))


def shown(layout: str, codec: Codec = DECIMAL) -> Prompt:
    two = context([[1.25, -0.75], [0.5, 2.0]], [3.5, -1.0], [0.25, 1.5])
    return render(
        two,
        0,
        layout=layout_named(layout),
        codec=codec,
        feature_names=("dist", "a{b}"),
        target_name="price",
    )


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("line", "x: 1.25, -0.75; y: 3.50\nx: 0.50, 2.00; y: -1.00\nx: 0.25, 1.50; y: "),
        (
            "feature-block",
            "Feature 1: 1.25\nFeature 2: -0.75\nOutput: 3.50\n\n"
            "Feature 1: 0.50\nFeature 2: 2.00\nOutput: -1.00\n\n"
            "Feature 1: 0.25\nFeature 2: 1.50\nOutput: ",
        ),
        (
            "named-block",
            "dist: 1.25\na{b}: -0.75\nprice: 3.50\n\ndist: 0.50\na{b}: 2.00\nprice: -1.00\n\n"
            "dist: 0.25\na{b}: 1.50\nprice: ",
        ),
        ("function", "f(1.25, -0.75) = 3.50\nf(0.50, 2.00) = -1.00\nf(0.25, 1.50) = "),
        ("arrow", "(1.25, -0.75) -> 3.50\n(0.50, 2.00) -> -1.00\n(0.25, 1.50) -> "),
        ("x=({x1},{x2}) y={y}", "x=(1.25,-0.75) y=3.50\nx=(0.50,2.00) y=-1.00\nx=(0.25,1.50) y="),
        ("{x2}|{x1}|{y};\\n", "-0.75|1.25|3.50;\n2.00|0.50|-1.00;\n1.50|0.25|"),
        ("{{{x1} {x2}}} {y}", "{1.25 -0.75} 3.50\n{0.50 2.00} -1.00\n{0.25 1.50} "),
    ],
)
def test_prompts_by_hand(layout: str, text: str) -> None:
    assert shown(layout).text == text


def test_every_layout_is_shown_above() -> None:
    assert set(LAYOUTS) == {"line", "feature-block", "named-block", "function", "arrow"}


@pytest.mark.parametrize("layout", [*LAYOUTS, "{x2} {x1} gives {y} and\\n"])
def test_spans_hold_the_numerals(layout: str) -> None:
    prompt = shown(layout)
    numbers = {
        (0, 0): "1.25",
        (0, 1): "-0.75",
        (0, -1): "3.50",
        (1, 0): "0.50",
        (1, 1): "2.00",
        (1, -1): "-1.00",
        (-1, 0): "0.25",
        (-1, 1): "1.50",
    }
    found = {
        (s.example, s.feature): prompt.text[s.start : s.end]
        for s in prompt.spans
        if s.kind != "separator"
    }
    assert found == numbers
    separators = [s for s in prompt.spans if s.kind == "separator"]
    assert [s.example for s in separators] == [0, 1]
    assert separators[-1].end == prompt.query_start
    starts = [span.start for span in prompt.spans]
    assert starts == sorted(starts)
    for one, other in zip(prompt.spans, prompt.spans[1:], strict=False):
        assert one.end <= other.start


@given(data=st.data())
def test_queries_share_the_text_before_them(data: st.DataObject) -> None:
    number = st.integers(-999, 999).map(lambda n: n / 100)
    features = data.draw(st.integers(1, 4))

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        return np.array([data.draw(number) for _ in range(math.prod(shape))]).reshape(shape)

    several = Context(draw(3, features), draw(3), draw(2, features), draw(2))
    names = [f"x{j}" for j in range(features)]
    options: dict[str, Any] = {"codec": DECIMAL, "feature_names": names, "target_name": "y"}
    for layout in LAYOUTS.values():
        one, two = (render(several, m, layout=layout, **options) for m in (0, 1))
        assert one.query_start == two.query_start
        assert one.text[: one.query_start] == two.text[: two.query_start]
        xs = [s for s in two.spans if s.kind == "x" and s.example == -1]
        assert [float(two.text[s.start : s.end]) for s in xs] == list(several.queries[1])


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ("lines", "unknown layout 'lines'; near names: line"),
        ("x={x1} y={z}", "unknown placeholder {z}"),
        ("x={x1:.2f} y={y}", "unknown placeholder {x1:.2f}"),
        ("x={x1!r} y={y}", "unknown placeholder {x1!r}"),
        ("x={x0} y={y}", "unknown placeholder {x0}"),
        ("x={x٣} y={y}", "unknown placeholder {x٣}"),
        ("x={x1.real} y={y}", "unknown placeholder {x1.real}"),
        ("x={} y={y}", "unknown placeholder {}"),
        ("x={x1}, {x2}", "needs the placeholder {y}"),
        ("y={y} x={x1}", "needs {y} last, {x1} follows it"),
        ("x={x1} {x1} y={y}", "needs {x1} once"),
        ("x={x1} y={y} {y}", "needs {y} once"),
        ("{x1}{x2} {y}", "needs text between its numbers, before {x2}"),
        ("x={x1 y={y}", "needs balanced braces"),
        ("x={x1} y={y}}", "needs balanced braces"),
    ],
)
def test_bad_layouts_are_refused(layout: str, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        layout_named(layout)
    assert sentence in refused.value.sentence


@pytest.mark.parametrize("layout", ["x={x1} y={y}", "x={x1} {x3} y={y}", "{x1} {x2} {x3} {y}"])
def test_a_template_uses_each_feature(layout: str) -> None:
    with pytest.raises(Refusal, match=r"needs \{x1\} to \{x2\} for 2 features; came \{x1\}"):
        shown(layout)


@pytest.mark.parametrize(
    ("x", "y", "query", "where"),
    [
        ([[1.0, 12.5]], [0.0], [0.0, 0.0], "example 1, hot"),
        ([[1.0, 1.0]], [-12.5], [0.0, 0.0], "example 1, y"),
        ([[1.0, 1.0]], [1.0], [12.5, 0.0], "the query, cold"),
    ],
)
def test_a_number_that_does_not_fit_is_named_with_its_place(
    x: list[list[float]], y: list[float], query: list[float], where: str
) -> None:
    with pytest.raises(Refusal, match=r"12\.5 does not fit") as refused:
        render(
            context(x, y, query),
            0,
            layout=LAYOUTS["line"],
            codec=codec_named("decimal"),
            feature_names=("cold", "hot"),
            target_name="y",
        )
    assert refused.value.where == where
