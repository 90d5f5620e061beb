"""``hatlens doctor MODEL``: is a model captured right, and what would a study of it cost?"""

from typing import TYPE_CHECKING, Annotated

import typer

from hatlens.cli import settings as s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatlens.doctor import Diagnosis
    from hatlens.study_cost import Estimate
    from hatlens.tokenizer_facts import TokenizerFacts


def doctor(
    model: Annotated[
        str, typer.Argument(help="a registered name, a Hugging Face id, a folder or a GGUF file")
    ],
    features: s.Features = None,
    examples: s.Examples = None,
    contexts: s.Contexts = None,
    queries: s.Queries = None,
    layout: s.Layout = None,
    codec: s.CodecName = None,
    bos: s.Bos = None,
    revision: s.Revision = None,
    dtype: s.Dtype = None,
    device: s.Device = None,
    memory: s.Memory = None,
    trust_remote_code: s.Trusted = False,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Check that MODEL is captured right, and say what a study of it would cost.

    Exit code 1 where a verdict on these settings would be unsafe.
    """
    values = s.given(locals())
    from hatlens.config import build_config
    from hatlens.doctor import diagnose
    from hatlens.progress import progress
    from hatlens.store import json_text

    settings = build_config(values)
    with progress() as report:
        found = diagnose(settings, report)
    print(json_text(found.as_json()) if as_json else "\n".join(lines(found)))
    if not found.safe_for_verdicts:
        raise typer.Exit(1)


def lines(found: "Diagnosis") -> "Iterator[str]":
    """What is printed for people."""
    family = found.family
    row = f"{family.name} ({family.why})" if family else "not in docs/families.md; the gate decides"
    yield f"model: {found.model}"
    yield f"family: {row}"
    yield f"capture: {found.path}"
    if found.parity:
        gate = found.parity
        yield (
            f"parity gate: passed on {gate.tokens} tokens, {gate.layers_captured} layers, "
            f"{gate.heads} heads over {gate.kv_heads}; weights differ by at most "
            f"{gate.max_weight_difference:.1g}, logits {gate.max_logit_difference:.1g}, "
            f"shared prefixes ({gate.sharing}) {gate.max_shared_difference:.1g}, "
            f"answers {gate.max_continued_difference:.1g}; kernel {', '.join(gate.kernels)}"
        )
    if found.tokenizer:
        yield from tokenizer_lines(found.tokenizer)
    if found.estimate:
        yield cost_line(found.estimate)
        yield f"not counted there: {', '.join(found.estimate.not_counted)}"
    for problem in found.problems:
        yield f"{'UNSAFE' if problem.unsafe else 'note'}: {problem.sentence}"
    yield f"safe for verdicts: {'yes' if found.safe_for_verdicts else 'no'}"


def tokenizer_lines(facts: "TokenizerFacts") -> "Iterator[str]":
    most, fewest = facts.digits_per_token, facts.fewest
    digits = f"{fewest} to {most} digits" if fewest < most else f"{most} digit{'s' * (most > 1)}"
    bos = "nothing" if facts.bos is None else f"token {facts.bos}"
    yield f"tokenizer: {digits} a token, {bos} before a text"
    for merge in facts.merges:
        yield f"cannot be used: --layout {merge.layout} --codec {merge.codec}: {merge.sentence}"


def cost_line(cost: "Estimate") -> str:
    return (
        f"a study: {cost.seconds / 60:.0f} min of forwards and greedy answers, "
        f"{cost.memory_bytes / 1e9:.1f} GB of memory, {cost.folder_bytes / 1e6:.0f} MB on disk"
    )
