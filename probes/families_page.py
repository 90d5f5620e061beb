"""Writes docs/families.md from the table: ``python -m probes.families_page > docs/families.md``."""

from probes.families import FAMILIES
from probes.family import Family

_OPENING = """\
# Families

<!-- Written by `python -m probes.families_page > docs/families.md`. -->

Every family below has a tiny model with peaky random weights in the tests. Capture on it is held to
the family's own eager attention and to a recomputation in float64 from queries, keys and values:
scores, weights and logits, in float32 and bfloat16, without padding and padded on either side,
alone and in batches, with a shared prefix and without, past the window where there is one.

| path | what is done |
| --- | --- |
| `fast` | queries and keys are taken at transformers' attention interface, beside a fused forward |
| `eager` | the family bypasses that interface: its whole maps are read; scores are log-weights |
| refused | nothing is captured; the refusal names the family |

On the eager path scores are right up to a constant a row, and every query runs its whole prompt.

A family that is not listed is no error: capture goes by what the model is, and the parity gate
checks it at every load. `hatlens doctor MODEL` says which row a model has, and whether it passes.
Hybrids are captured in their layers of softmax attention only.

| family | `model_type` | path | what needs care |
| --- | --- | --- | --- |
"""
_CLOSING = """
## Adding a family

Add one row to the table in `probes/attention_families.py`, or for recurrences and convolutions in
`probes/recurrent_families.py`: its name, its `model_type`, its path, why, and settings that make it
tiny; then write this page again. The tests build it and do the rest. A family on the eager path
also needs its rule of scores (such as ALiBi) by hand, in `tests/probes/test_every_family.py`.
"""


def _line(family: Family) -> str:
    path = family.route if family.route == "refused" else f"`{family.route}`"
    return f"| {family.name} | `{family.model_type}` | {path} | {family.why} |\n"


def families_page() -> str:
    """The page's whole text."""
    return _OPENING + "".join(map(_line, FAMILIES.values())) + _CLOSING


if __name__ == "__main__":
    print(families_page(), end="")
