"""A predictor in the model's place: its behavioural row by changing y and predicting again."""

from collections.abc import Callable, Sequence

import numpy as np

from analysis.bank import Hypothesis, predict
from analysis.design import ContextArrays, Floats
from analysis.row_runs import RowRuns, at_main_places, main_order, reordered, rows_of_changes

Predictor = Callable[[ContextArrays], Floats]


def measured(answer: Predictor, contexts: ContextArrays, size: float) -> Floats:
    """Rows (C, M, N) from the answers with each example's y changed by `size` to either side."""
    sides = []
    for side in (1.0, -1.0):
        answers = []
        for example in range(contexts.y.shape[1]):
            y = contexts.y.copy()
            y[:, example] += side * size
            answers.append(answer(contexts._replace(y=y)))
        sides.append(np.stack(answers, axis=1))
    return rows_of_changes(sides[0], sides[1], size)


def runs_of(
    answer: Predictor | Hypothesis,
    contexts: ContextArrays,
    *,
    sizes: Sequence[float] = (0.05, 0.1),
    orders: int = 2,
    noise: float = 0.0,
    seed: int = 0,
) -> RowRuns:
    """Runs of every size in the main order and in random ones; noise: sd added to each cell."""
    rng = np.random.default_rng(seed)
    asked = [main_order(contexts)]
    asked += [np.argsort(rng.random(contexts.y.shape), axis=1) for _ in range(orders - 1)]
    model = (lambda given: predict(answer, given)) if isinstance(answer, Hypothesis) else answer
    values = np.array(
        [
            [at_main_places(measured(model, reordered(contexts, one), size), one) for one in asked]
            for size in sizes
        ]
    )
    return RowRuns(
        values + noise * rng.standard_normal(values.shape), np.array(sizes), np.array(asked)
    )
