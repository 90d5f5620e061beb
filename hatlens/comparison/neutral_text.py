"""Text of no task, cut to a number of tokens: what dilutes attention without teaching anything."""

import numpy as np

from prompts.pieces import Integers, Tokenizer, cut

NEUTRAL = (
    "The road runs along the river for a while and then turns up the hill. There are a few houses "
    "at the top, and behind them a field with an old stone wall around it. On most days the wind "
    "comes from the west and brings some rain in the afternoon. The bus stops twice in the morning "
    "and once in the evening, next to the bridge. Somebody has put a bench there, painted green. "
)


def neutral_tokens(tokenizer: Tokenizer, length: int) -> Integers:
    """So many tokens of everyday prose, repeated from its start where it ends."""
    (pieces,) = cut(tokenizer, [NEUTRAL])
    return np.resize(pieces.ids, length)
