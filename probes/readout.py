"""Greedy answers of a batch of prompts, continued from their caches."""

import re
from typing import Any

import torch
from torch import Tensor

from probes.capture import cache_argument, input_device

_STILL_A_NUMERAL = re.compile(r"\s*[+\-−]?\d*\.?\d*")


def _is_finished(text: str) -> bool:
    return bool(text.strip()) and ("\n" in text or _STILL_A_NUMERAL.fullmatch(text) is None)


def _end_tokens(model: Any) -> set[int]:
    configs = (getattr(model, "generation_config", None), model.config)
    ends = [getattr(config, "eos_token_id", None) for config in configs]
    flat = [end for some in ends for end in (some if isinstance(some, list) else [some])]
    return {int(end) for end in flat if end is not None}


@torch.inference_mode()
def greedy_answers(
    model: Any, tokenizer: Any, cache: Any, logits: Tensor, *, tokens: int
) -> list[str]:
    """Each prompt's greedy answer, at most `tokens` tokens, read up to where its numeral ends.

    `logits` (query, vocabulary) are those after the cached tokens. Of equal logits the lowest
    token id is taken. An answer ends with the first token that cannot belong to a numeral (it is
    included) or before an end-of-text token, so it does not depend on the rest of the batch.
    """
    ends = _end_tokens(model)
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
        arguments = {cache_argument(model): cache, "use_cache": True}
        device = input_device(model)
        logits = model(input_ids=chosen[:, None].to(device), **arguments).logits[:, -1]
    return [str(tokenizer.decode(answer)) for answer in answers]
