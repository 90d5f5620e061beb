"""What capture costs over a plain fused forward of the same unique tokens, on this machine."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from probes.model_facts import the_module
from probes.rows import Tokens, context_rows


def plain_forward(model: Any, tokenized: Tokens) -> None:
    """One fused forward of a context's unique tokens, with logits where its answers are read."""
    unique = np.concatenate([tokenized.prefix, tokenized.suffixes.reshape(-1)])
    ids = torch.as_tensor(unique)[None].to(the_module(model).device)
    with torch.inference_mode():
        the_module(model)(input_ids=ids, use_cache=False, logits_to_keep=len(tokenized.suffixes))


def capture_overhead(
    loaded: Any,
    tokenized: Tokens,
    *,
    rounds: int = 3,
    memory: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Time of the rows of every query over that of a plain forward, median over paired rounds.

    The two sides alternate; a round before the first is not counted. NaN where the family cannot
    give the logits of a few positions alone, so that there is no plain side to compare with.
    """
    ratios = []
    try:
        for turn in range(rounds + 1):
            begun = clock()
            plain_forward(loaded, tokenized)
            middle = clock()
            context_rows(loaded, tokenized, prefix_rows=False, answer_tokens=0, memory=memory)
            ratios += [(clock() - middle) / (middle - begun)] if turn else []
    except TypeError:
        return float("nan")
    return statistics.median(ratios)
