"""Which layout and codec lets a model regress: held-out error beside mean and nearest example.

The contexts are drawn from a seed of their own, disjoint from those of any study, so that the
choice does not use the data on which the gate is judged. Prints JSON, one object a setting.
"""

import argparse
import json
from typing import Any

import numpy as np

from analysis.inference import mean_interval
from probes.models import LoadedModel, load_model
from probes.rows import context_rows
from prompts.contexts import ContextSet, draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.numerals import codec_named
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context

SEED = 20_260_101
LAYOUTS = ("line", "feature-block", "function", "arrow", "bare arrow", "bare line")
CODECS = (
    "unsigned-decimal",
    "unsigned-integer",
    "unsigned-integer(2,0)",
    "decimal",
    "signed-decimal",
)


def layout_text(name: str, features: int) -> str:
    """The layout's name, or an own template for so many features."""
    numbers = ", ".join(f"{{x{place + 1}}}" for place in range(features))
    own = {"bare arrow": f"{numbers} -> {{y}}\\n", "bare line": f"{numbers}; {{y}}\\n"}
    return own.get(name, name)


def measure(loaded: LoadedModel, drawn: ContextSet, layout: str) -> dict[str, Any]:
    """Mean absolute errors in units of y's half range, and the share of answers that are read."""
    errors: dict[str, list[float]] = {"model": [], "mean": [], "nearest": []}
    owner: list[int] = []
    asked = 0
    for index, context in enumerate(drawn.contexts):
        tokens = tokenize_context(drawn, index, loaded.tokenizer, layout=layout_named(layout))
        rows = context_rows(loaded, tokens, prefix_rows=False, answer_tokens=8)
        half = drawn.half_range[-1]
        for text, query, target in zip(rows.answers, context.queries, context.targets, strict=True):
            asked += 1
            answer = drawn.codec.parse_answer(text)
            if answer is None:
                continue
            owner.append(index)
            nearest = context.y[np.argmin(np.linalg.norm(context.x - query, axis=1))]
            for name, value in (
                ("model", answer),
                ("mean", context.y.mean()),
                ("nearest", nearest),
            ):
                errors[name].append(abs(value - target) / half)
    means = {name: float(np.mean(values)) if values else None for name, values in errors.items()}
    gained = np.array(errors["model"]) - np.array(errors["mean"])
    by_context = [gained[np.array(owner) == index].mean() for index in sorted(set(owner))]
    return {
        "parse_rate": len(errors["model"]) / asked,
        "tokens": len(tokens.prefix) + tokens.suffixes.shape[1],
        **means,
        "model_minus_mean": mean_interval(np.array(by_context)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--contexts", type=int, default=12)
    parser.add_argument("--features", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS)
    parser.add_argument("--codecs", nargs="+", default=CODECS)
    parser.add_argument("--condition", type=float, default=100.0)
    parser.add_argument("--noise", type=float, default=0.1)
    options = parser.parse_args()
    loaded = load_model(options.model)
    for features in options.features:
        for codec in options.codecs:
            design = Design(
                features=features,
                contexts=options.contexts,
                condition=options.condition,
                noise=options.noise,
            )
            drawn = draw_contexts(design, codec_named(codec), rng=np.random.default_rng(SEED))
            for layout in options.layouts:
                setting: dict[str, Any] = {"features": features, "codec": codec, "layout": layout}
                try:
                    setting |= measure(loaded, drawn, layout_text(layout, features))
                except Refusal as refusal:
                    setting["refused"] = str(refusal)
                print(json.dumps(setting), flush=True)


if __name__ == "__main__":
    main()
