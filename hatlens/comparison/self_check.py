"""What every comparison checks of the running model before its first cell."""

from typing import Any

import numpy as np

from probes.implicit_update import implicit_update as identity
from probes.models import LoadedModel
from prompts.refusal import Refusal
from prompts.tasks.tokens import TaskPrompts


def implicit_update(loaded: LoadedModel, prompts: TaskPrompts) -> dict[str, Any]:
    """The residual of context as a weight update on the first block and the first query.

    Undefined, with the reason, where the family's blocks are of another form.
    """
    lead = np.array([] if prompts.bos is None else [prompts.bos], dtype=np.int64)
    before = np.concatenate([lead, *prompts.demonstrations])
    query = prompts.in_context[0]
    try:
        found = identity(loaded, before, query)
    except Refusal as refusal:
        return {"implicit_update_residual": None, "reason": refusal.sentence}
    return {
        "implicit_update_residual": found.residual,
        "layer": found.layer,
        "relative_update": found.update,
        "moved": found.moved,
        "reason": found.reason,
    }
