"""Greedy answers of a batch of prompts that were just run."""

import re
from typing import Any

from torch import Tensor

from probes.continuation import Continuation

_STILL_A_NUMERAL = re.compile(r"\s*[+\-−]?\d*\.?\d*")


def _is_finished(text: str) -> bool:
    return "\n" in text or _STILL_A_NUMERAL.fullmatch(text) is None


def _end_tokens(model: Any) -> set[int]:
    configs = (getattr(model, "generation_config", None), model.config)
    ends = [getattr(config, "eos_token_id", None) for config in configs]
    flat = [end for some in ends for end in (some if isinstance(some, list) else [some])]
    return {int(end) for end in flat if end is not None}


def greedy_answers(
    continuation: Continuation, logits: Tensor, tokenizer: Any, *, tokens: int
) -> list[str]:
    """Each prompt's greedy answer, at most `tokens` tokens, read up to where its numeral ends.

    `logits` (prompt, word) are those after the prompts. Of equal logits the lowest token id is
    taken. An answer ends with the first token that cannot belong to a numeral (it is included)
    or before an end-of-text token, so that it does not depend on the rest of its batch.
    """
    ends = _end_tokens(continuation.model)
    answers: list[list[int]] = [[] for _ in range(len(logits))]
    finished = [False] * len(logits)
    for step in range(tokens):
        chosen = logits.argmax(-1)
        for i, token in enumerate(chosen.tolist()):
            if finished[i]:
                continue
            if token not in ends:
                answers[i].append(token)
            finished[i] = token in ends or _is_finished(tokenizer.decode(answers[i]))
        if all(finished) or step == tokens - 1:
            break
        logits = continuation.next_logits(chosen)
    return [str(tokenizer.decode(answer)) for answer in answers]
