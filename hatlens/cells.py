"""One cell: the rows of one context, or of one pair of contexts, on one model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hatlens.progress import Report
from hatlens.sets import CONTROL_SETS, MAIN, PAIRS_A, PAIRS_B, PROBES
from hatlens.store import RunFolder
from probes.models import LoadedModel
from probes.rows import KINDS, context_rows, pair_rows
from prompts.tokens import TokenizedContext

TRAINED = "trained"
ANSWER_TOKENS = 8
SCORE, WEIGHT = KINDS.index("score"), KINDS.index("weight")

Tokens = dict[str, list[TokenizedContext]]


def run_cells(
    folder: RunFolder,
    variant: str,
    names: list[str],
    model: LoadedModel,
    tokens: Tokens,
    report: Report,
    *,
    memory: int | None = None,
) -> None:
    """Run and store the cells of one model that are not yet there, in `memory` bytes each."""
    stage = f"contexts on the {variant} model"
    done = sum(folder.has(name) for name in names)
    report(stage, done, len(names))
    for name in names:
        if folder.has(name):
            continue
        set_name, index = name.split("/")[-2], int(name.split("/")[-1])
        folder.write_arrays(name, cell(set_name, index, variant, model, tokens, memory=memory))
        done += 1
        report(stage, done, len(names))


def cell(
    set_name: str,
    index: int,
    variant: str,
    model: LoadedModel,
    tokens: Tokens,
    *,
    memory: int | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of one cell.

    score, weight: (query, layer, head, part, example); prefix_score, prefix_weight: (example,
    layer, head, part, example). Weights and prefix rows are kept for the trained model's main
    contexts; a pair keeps the scores of its shared examples only.
    """
    if set_name == PAIRS_A:
        one, two = pair_rows(model, tokens[PAIRS_A][index], tokens[PAIRS_B][index], memory=memory)
        return {
            "score_a": one.query[..., SCORE, :PROBES],
            "score_b": two.query[..., SCORE, :PROBES],
            "seconds": np.array([one.seconds["forward"] + two.seconds["forward"]]),
        }
    whole = set_name == MAIN
    answered = whole or set_name in CONTROL_SETS
    rows = context_rows(
        model,
        tokens[set_name][index],
        prefix_rows=whole and variant == TRAINED,
        answer_tokens=ANSWER_TOKENS if answered else 0,
        memory=memory,
    )
    arrays: dict[str, NDArray[Any]] = {
        "score": rows.query[..., SCORE, :],
        "seconds": np.array([rows.seconds["forward"], rows.seconds["answers"]]),
    }
    if answered:
        arrays["answers"] = np.array(rows.answers, dtype=np.str_)
    if rows.prefix is not None:
        arrays["weight"] = rows.query[..., WEIGHT, :]
        arrays["prefix_score"] = rows.prefix[..., SCORE, :]
        arrays["prefix_weight"] = rows.prefix[..., WEIGHT, :]
    return arrays
