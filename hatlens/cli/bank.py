"""`hatlens bank`: the hypotheses that attention and answers are compared with."""

import json
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import typer

from analysis.bank import BANK, FAMILIES, Hypothesis, hypothesis_named
from analysis.diagnostics import inversion_verdict
from hatlens.sets import stored_form
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.numerals import codec_named

STANDING = Design()


class BankLine(NamedTuple):
    """One hypothesis as `hatlens bank` lists it; `inversion_index` is None where undefined."""

    name: str
    family: str
    affine_invariant: bool
    counts_as_inverse: str
    inversion_index: float | None
    statement: str
    source: str


def bank(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Hypotheses to list, for example 'ridge(0.05)'; all by default."),
    ] = None,
    features: Annotated[int, typer.Option(help="Features P of the design.")] = STANDING.features,
    examples: Annotated[int, typer.Option(help="Examples N a context.")] = STANDING.examples,
    queries: Annotated[int, typer.Option(help="Queries M a context.")] = STANDING.queries,
    contexts: Annotated[int, typer.Option(help="Contexts.")] = STANDING.contexts,
    condition: Annotated[
        float, typer.Option(help="Largest over smallest variance of x.")
    ] = STANDING.condition,
    codec: Annotated[str, typer.Option(help="How numbers are printed.")] = "unsigned-decimal",
    seed: Annotated[int, typer.Option(help="Seed of the contexts that are drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the hypotheses, and which of their rows count as S^-1 on a design."""
    design = Design(
        features=features,
        examples=examples,
        queries=queries,
        contexts=contexts,
        condition=condition,
    )
    chosen = [hypothesis_named(name) for name in names] if names else list(BANK.values())
    lines = bank_lines(chosen, design, codec=codec, rng=np.random.default_rng(seed))
    if as_json:
        settings = {
            "features": features,
            "examples": examples,
            "queries": queries,
            "contexts": contexts,
            "condition": condition,
            "codec": codec,
            "seed": seed,
        }
        listed = {"design": settings, "hypotheses": [line._asdict() for line in lines]}
        print(json.dumps(listed, ensure_ascii=False, allow_nan=False))
        return
    show(lines, design)


def bank_lines(
    hypotheses: Sequence[Hypothesis], design: Design, *, codec: str, rng: np.random.Generator
) -> list[BankLine]:
    """One line for each hypothesis, its verdict computed on contexts drawn from the design."""
    drawn = stored_form(draw_contexts(design, codec_named(codec), rng=rng))
    arrays = drawn.arrays(np.full(drawn.targets.shape, np.nan))
    lines = []
    for one in hypotheses:
        verdict = inversion_verdict(one, arrays)
        index = verdict.inversion_index
        lines.append(
            BankLine(
                name=one.name,
                family=one.family,
                affine_invariant=one.affine_invariant,
                counts_as_inverse=verdict.says,
                inversion_index=round(index, 4) + 0.0 if np.isfinite(index) else None,
                statement=one.statement,
                source=one.source,
            )
        )
    return lines


def show(lines: Sequence[BankLine], design: Design) -> None:
    """Print the lines by family, with what the columns mean."""
    print(f"{'name':<36}{'counts as S^-1':<18}index")
    for family in FAMILIES:
        members = [line for line in lines if line.family == family]
        if members:
            print(f"\n{family}")
        for line in members:
            index = "" if line.inversion_index is None else f"{line.inversion_index:.2f}"
            name = line.name + " *" * line.affine_invariant
            print(f"  {name:<34}{line.counts_as_inverse:<18}{index}")
            for text in (line.statement, line.source):
                print(f"      {text}")
    print(
        f"\n{len(lines)} {'hypothesis' if len(lines) == 1 else 'hypotheses'}, on "
        f"{design.contexts} contexts of {design.examples} examples, {design.features} features, "
        f"condition number {design.condition:g}.\n"
        "index: how much of the weakest direction of x a row holds, over that of the strongest; "
        "at least 0.5\ncounts as S^-1, below 0.1 does not, between is neither.\n"
        "*: unchanged by an invertible affine map of x; all others depend on how numbers are "
        "printed."
    )
