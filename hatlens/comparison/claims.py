"""The claims on ICL and fine-tuning that a comparison is judged on, and the verdicts on them.

C1 to C4, on attention rows and answers of regression prompts, are judged by `hatlens probe`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from analysis.claims.finding import NOT_ASSESSABLE, Finding, verdict_of
from analysis.number_text import interval_text, p_text
from analysis.similarity.resampling import holm
from analysis.verdict import capital
from hatlens.comparison.dose import dose_claim
from hatlens.comparison.generalisation_result import generalisation_claim
from hatlens.comparison.judging import (
    Judging,
    attention_maps_claim,
    attention_outputs_claim,
    output_change_claim,
    recovered_answers_claim,
)
from hatlens.comparison.left_out import near_claim
from hatlens.comparison.orders import order_claim
from hatlens.comparison.task_vector_result import vector_judged


class Claim(NamedTuple):
    """`source`: who said it, an arXiv id or a name. `needs`: what a comparison must have run."""

    sentence: str
    source: str
    needs: str
    finding: Callable[[Judging], Finding]


CLAIMS: Mapping[str, Claim] = MappingProxyType(
    {
        "C5": Claim(
            "ICL and FT move attention outputs the same way",
            "2212.10559; 2311.07772",
            "other demonstrations, twins",
            attention_outputs_claim,
        ),
        "C6": Claim(
            "ICL and FT attend alike",
            "2212.10559; 2311.07772",
            "other demonstrations, twins",
            attention_maps_claim,
        ),
        "C7": Claim(
            "What FT fixes, ICL fixes",
            "2212.10559",
            "other demonstrations",
            recovered_answers_claim,
        ),
        "C8": Claim(
            "Layer-causal descent is nearer to ICL than plain descent",
            "2311.07772",
            "--dose",
            lambda judging: dose_claim(judging.config, judging.folder),
        ),
        "C9": Claim(
            "ICL is as sensitive to the order of demonstrations as sequential descent",
            "2310.08540 (which denies it)",
            "--orders 10",
            lambda judging: order_claim(judging.config, judging.folder),
        ),
        "C10": Claim(
            "ICL and FT change the output distribution alike",
            "2310.08540 (which denies it)",
            "other demonstrations",
            output_change_claim,
        ),
        "C11": Claim(
            "ICL and FT generalise alike on reversals and syllogisms",
            "2505.00661 (which denies it)",
            "--generalise 20",
            lambda judging: generalisation_claim(judging.config, judging.folder),
        ),
        "C13": Claim(
            "Demonstrations near the query act more",
            "2101.06804",
            "--kate-queries 50",
            lambda judging: near_claim(judging.config, judging.folder),
        ),
        "C14": Claim(
            "The demonstrations' effect fits in one vector",
            "2310.15916; 2310.15213",
            "--vector-queries 100",
            lambda judging: vector_judged(judging.config, judging.folder),
        ),
    }
)
"""One line a claim, in the order of their ids."""


def claims_result(judging: Judging) -> list[dict[str, Any]]:
    """Every claim with its verdict, p corrected by Holm over those that could be assessed."""
    found = {name: claim.finding(judging) for name, claim in CLAIMS.items()}
    corrected = holm([np.nan if one.reason else one.p for one in found.values()])
    return [
        {
            "id": name,
            "claim": CLAIMS[name].sentence,
            "source": CLAIMS[name].source,
            "needs": CLAIMS[name].needs,
            "verdict": verdict_of(one, p),
            "effect": one.effect,
            "margin": None if one.reason else one.margin,
            "p": one.p,
            "p_corrected": p,
            "sentence": sentence_of(one, p),
        }
        for (name, one), p in zip(found.items(), corrected, strict=True)
    ]


def sentence_of(found: Finding, p_corrected: float) -> str:
    """The verdict on a claim with its reason, or its effect and what that is less than."""
    verdict = verdict_of(found, p_corrected)
    if verdict == NOT_ASSESSABLE:
        described = f" As description only: {found.figures}." if found.figures else ""
        return f"{capital(verdict)}: {found.reason or 'its test is undefined'}.{described}"
    return (
        f"{capital(verdict)}: effect {interval_text(found.effect)}, least worth a claim "
        f"{found.margin:.3g}, corrected p {p_text(p_corrected)}; {found.figures}."
    )
