"""What each run answers to regression lines, and what their demonstrations' least squares do."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import hypothesis_named, rows
from analysis.design import ContextArrays
from analysis.similarity.records import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.regression import REGRESSION, regression_contexts
from probes.finetune_result import FineTuned
from probes.models import LoadedModel
from probes.query_answers import query_answers
from probes.three_runs_queries import Condition
from prompts.numerals import Codec, codec_named
from prompts.tasks.chat_frame import chat_frame
from prompts.tasks.tokens import TaskPrompts

READ = 32
"""Queries of each set whose answers are read."""
ANSWER_TOKENS = 8
RUNS = ("zsl", "icl", "ft")


class Numbers(NamedTuple):
    """Of the first queries of a set, as printed: y, and what its demonstrations' least squares and
    their mean y say. The last two are not rounded.
    """

    target: Floats
    least_squares: Floats
    mean: Floats


def numbers_of(config: SimilarityConfig, place: int, used: int) -> Numbers | None:
    """The numbers of a set of which `used` demonstrations are shown; None of labels."""
    if config.task != REGRESSION:
        return None
    context = regression_contexts(config).contexts[place]
    x, y, queries = context.x[:used], context.y[:used], context.queries[:READ]
    none = np.zeros((1, 0, 0), dtype=np.str_)
    arrays = ContextArrays(x[None], y[None], queries[None], none, none, np.zeros((1, len(queries))))
    row = rows(hypothesis_named("ols"), arrays)[0]
    return Numbers(context.targets[:READ], row @ y, np.full(len(queries), y.mean()))


def run_numbers(
    config: SimilarityConfig,
    loaded: LoadedModel,
    prompts: TaskPrompts,
    numbers: Numbers | None,
    tuned: FineTuned,
) -> Mapping[str, NDArray[Any]]:
    """``number/NAME`` (query,): `Numbers`, and each run's greedy answer, NaN where it is none."""
    if numbers is None:
        return {}
    asked = prompts.first(READ)
    none = np.zeros(0, dtype=np.int64)
    conditions = {
        "zsl": Condition(none),
        "icl": Condition(np.concatenate([none, *prompts.demonstrations])),
        "ft": Condition(none, tuned),
    }
    codec, mark = codec_named(config.codec), closing_mark(config, loaded)
    # The right answers fit the window, whatever is left behind them.
    longest = max(map(len, asked.in_context)) + len(conditions["icl"].before)
    room = (loaded.context_window or np.inf) - longest - (asked.bos is not None)
    tokens = int(min(ANSWER_TOKENS, room))
    found = numbers._asdict()
    for run, condition in conditions.items():
        texts = query_answers(loaded, asked, condition, tokens=tokens)
        found[run] = np.array([read_number(text, codec, mark) for text in texts])
    return {f"number/{name}": values for name, values in found.items()}


def closing_mark(config: SimilarityConfig, loaded: LoadedModel) -> str:
    """What ends an answer in a chat; empty in plain text, where any other character does."""
    if config.template == "plain":
        return ""
    return chat_frame(loaded.tokenizer).closed.strip().partition("\n")[0]


def read_number(text: str, codec: Codec, mark: str) -> float:
    """The number that an answer begins with, as printed; NaN where it is none of the codec's."""
    found = codec.parse_answer(text.partition(mark)[0] if mark else text)
    return np.nan if found is None else found
