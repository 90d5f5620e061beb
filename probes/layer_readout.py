"""What the model would answer if each layer were its last: the logit lens at the answer position.

Source: nostalgebraist (2020), "interpreting GPT: the logit lens"; for in-context regression by
layer, arXiv 2310.17086.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probes.answer_step import AnswerStep, Prompts, answer_step
from probes.model_facts import model_name, the_module
from probes.residuals import OutputHead, output_head, residual_stream
from prompts.refusal import Refusal

# The marks that tokenizers put in the place of a blank before a word.
_DIGITS = re.compile(r"[Ġ▁ ]?([0-9])[0-9]*")


class LayerStates(NamedTuple):
    """The residual stream of a context's queries at the answer position, and what it says.

    `states` float32 (query, layer + 1, dim): what enters the first layer, then what leaves each,
    the last before the final norm. `digits` (query, layer + 1, 10): probability of the tokens
    that begin with each digit, through the final norm and the unembedding; their sum is the
    probability that a numeral begins there. `likeliest` (query, layer + 1): the likeliest token.
    """

    states: NDArray[np.float32]
    digits: NDArray[np.float64]
    likeliest: NDArray[np.str_]


def first_digits(tokenizer: Any) -> tuple[NDArray[np.int64], ...]:
    """The ids of the tokens that are digits only (a blank may stand before), by their first digit.

    Refuses a tokenizer that lacks a token for any digit.
    """
    found: list[list[int]] = [[] for _ in range(10)]
    for piece, token in tokenizer.get_vocab().items():
        if numeral := _DIGITS.fullmatch(piece):
            found[int(numeral[1])].append(token)
    if missing := [digit for digit, ids in enumerate(found) if not ids]:
        raise Refusal(f"needed tokens for the digits 0 to 9, came none for {missing!r}")
    return tuple(np.array(sorted(ids), dtype=np.int64) for ids in found)


def layer_readout(
    loaded: Any,
    tokenized: Prompts,
    *,
    digits: Sequence[NDArray[np.int64]] | None = None,
    head: OutputHead | None = None,
    step: AnswerStep | None = None,
) -> LayerStates:
    """Every layer's state at the answer position of each query, and its logit lens.

    `digits` of `first_digits`, `head` of `output_head` and a `step` of `answer_step` where they
    are at hand (the first two are those of the model: take them once a study). Refuses families
    with several residual streams, or whose logits are made otherwise.
    """
    step = answer_step(the_module(loaded), tokenized) if step is None else step
    head = output_head(step) if head is None else head
    tokens = first_digits(loaded.tokenizer) if digits is None else digits
    if len(tokens) != 10:
        raise Refusal(
            f"needed tokens for 10 digits, came {len(tokens)}", where=model_name(step.model)
        )
    states = residual_stream(step).states
    by_digit, likeliest = [], []
    for one in states:
        probabilities = head.logits(one).double().softmax(-1).cpu()
        of_digits = [probabilities[:, torch.as_tensor(ids)].sum(-1) for ids in tokens]
        by_digit.append(torch.stack(of_digits, -1).numpy())
        likeliest.append(
            [str(loaded.tokenizer.decode([token])) for token in probabilities.argmax(-1).tolist()]
        )
    return LayerStates(
        np.asarray(states.float().numpy()), np.stack(by_digit), np.array(likeliest, dtype=np.str_)
    )
