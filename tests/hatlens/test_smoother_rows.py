"""Every hypothesis of the bank in the model's place: editing the text gives back its own row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.bank import BANK, predict, rows
from hatlens.sets import stored_form
from prompts.contexts import ContextSet, Floats, draw_contexts
from prompts.design import Design
from prompts.numerals import codec_named
from prompts.perturb import rows_of_answers

LINEAR = [name for name, hypothesis in BANK.items() if hypothesis.row is not None]
DESIGN = Design(contexts=4, examples=12, queries=3, noise=0.3)


def drawn() -> ContextSet:
    return draw_contexts(DESIGN, codec_named("unsigned-decimal"), rng=np.random.default_rng(5))


class Answerer:
    """A hypothesis' predictions in printed units, not rounded."""

    def __init__(self, name: str) -> None:
        self.hypothesis = BANK[name]

    def __call__(self, contexts: ContextSet) -> Floats:
        form = stored_form(contexts)
        return form.printed_y(predict(self.hypothesis, form.arrays(form.targets)))


@pytest.mark.parametrize("name", LINEAR)
def test_a_smoother_gets_its_own_row_back(name: str) -> None:
    """r > .99 is what is asked; a linear answer is given back to rounding."""
    contexts = drawn()
    form = stored_form(contexts)
    own = rows(BANK[name], form.arrays(form.targets))
    found = rows_of_answers(Answerer(name), contexts, size=0.5)
    assert_allclose(found, own, atol=1e-9 * max(1.0, np.abs(own).max()))
    if np.ptp(own) > 1e-9:
        assert np.corrcoef(found.ravel(), own.ravel())[0, 1] > 0.99


def test_a_predictor_whose_weights_depend_on_y_has_no_row() -> None:
    assert [name for name in BANK if name not in LINEAR] == ["kernel_left_out"]
