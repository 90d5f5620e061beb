"""One step on all demonstrations at once: down the mean gradient, in whichever order."""

from typing import Any

import numpy as np
import pytest
import torch

from probes.finetune import fine_tune
from probes.finetune_result import FineTuned
from prompts.refusal import Refusal
from tests.probes.finetune_models import demonstrations, tiny_family, weights_hash
from tests.probes.tiny_models import loaded

DEMONSTRATIONS = demonstrations(9, 12, 7)
ANSWERS = (slice(7, 8), slice(9, 11), slice(6, 7))
RATE = 0.01


def whole(model: Any, order: tuple[int, ...] = (0, 1, 2), **options: Any) -> FineTuned:
    return fine_tune(
        loaded(model),
        [DEMONSTRATIONS[i] for i in order],
        [ANSWERS[i] for i in order],
        **{"rate": RATE, "batch": "whole", **options},
    )


def changes(model: Any, tuned: FineTuned) -> dict[str, torch.Tensor]:
    base = {name: p.detach().clone() for name, p in model.named_parameters()}
    with tuned.applied():
        return {name: p.detach() - base[name] for name, p in model.named_parameters()}


def largest(found: dict[str, torch.Tensor]) -> float:
    return max(float(one.abs().max()) for one in found.values())


@pytest.mark.parametrize("method", ["gd", "lcgd", "whole"])
def test_the_step_is_the_mean_of_the_steps_from_the_base_weights(method: Any) -> None:
    model = tiny_family("llama", double=True)
    options = {"method": method, "step_norm": "shared"}
    before = weights_hash(model)
    together = changes(model, whole(model, **options))
    alone = [
        changes(model, fine_tune(loaded(model), [d], [a], rate=RATE, **options))
        for d, a in zip(DEMONSTRATIONS, ANSWERS, strict=True)
    ]
    for name, change in together.items():
        mean = sum(one[name] for one in alone) / 3
        torch.testing.assert_close(change, mean, rtol=0, atol=1e-14)
    assert largest(together) > 1e-5
    assert weights_hash(model) == before


@pytest.mark.parametrize("method", ["gd", "lcgd"])
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_the_order_is_lost_up_to_rounding(method: Any, order: tuple[int, ...]) -> None:
    model = tiny_family("llama", double=True)
    first, other = (changes(model, whole(model, o, method=method)) for o in ((0, 1, 2), order))
    size = largest(first)
    assert largest({n: first[n] - other[n] for n in first}) < 1e-12 * size
    # One after the other, it matters by more than a ten-thousandth of what is learnt.
    one_by_one = [
        changes(model, whole(model, o, method=method, batch="one")) for o in ((0, 1, 2), order)
    ]
    apart = largest({n: one_by_one[0][n] - one_by_one[1][n] for n in first})
    assert apart > 1e-4 * size


def test_one_step_and_its_mean_loss_are_told() -> None:
    tuned = whole(tiny_family("llama", double=True))
    assert tuned.update_norms.shape == (1, 2)
    assert tuned.losses == pytest.approx([float(np.mean(tuned.base_losses))])
    assert len(tuned.base_losses) == 3
    causal = whole(tiny_family("llama", double=True), method="lcgd", step_norm="shared")
    assert causal.steps[0].layer_losses is not None
    assert causal.steps[0].layer_losses.shape == (2,)


def test_layer_causal_steps_are_brought_to_the_norm_of_the_plain_step() -> None:
    model = tiny_family("llama", double=True)
    plain, causal = (whole(model, method=method) for method in ("gd", "lcgd"))
    np.testing.assert_allclose(causal.update_norms, plain.update_norms, rtol=1e-9)
    with pytest.raises(Refusal, match="same rate"):
        whole(model, method="lcgd", matched_to=whole(model, batch="one"))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"batch": "half"}, "unknown batch 'half'"), ({"online": True}, "one step a demonstration")],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        whole(tiny_family("llama"), **options)
