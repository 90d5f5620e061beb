"""Whether a model's tokenizer, and the token its prompts begin with, are the model's own.

Ids alone show a tokenizer with more words than the model has embeddings. Beyond that the model is
asked: one that was trained is far less surprised by plain English than by its tokens in random
order, and so it is not behind a tokenizer of another model or a beginning it does not know. A model
with random weights knows no text at all; nothing is held against its beginning then.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probes.model_check import PLAIN_ENGLISH
from probes.model_facts import input_device, model_name, the_module
from probes.registry import BUILT_IN
from prompts.pieces import cut, leading_ids
from prompts.refusal import Refusal

# Mean surprise over one sentence: a language model is many nats below chance and below the same
# tokens shuffled, a random one is at chance or above it.
KNOWS_TEXT_NATS = 1.0
WRONG_BEGINNING_NATS = 1.0
WORSE_BEGINNING_NATS = 0.5
_SHUFFLES = 4
# Embeddings are padded to round numbers; more than this many unused ones are no padding.
_UNUSED_SHARE, _UNUSED_ROWS = 0.1, 1000

Lead = tuple[int, ...]


@dataclass(frozen=True)
class TokenizerReport:
    """What the model says of its tokenizer, on one plain English sentence.

    `begins_with`: the token before the study's prompts, None for none. Mean surprise in nats a
    token: `nats` behind that beginning, `shuffled_nats` of the same tokens in random order (mean
    of four), `chance_nats` of a model that knows nothing. `knows_text`: whether the sentence is
    clearly (1 nat) less surprising than both, behind some beginning. `notes`: sentences on what
    does not fit together, none of which is certain to be wrong.
    """

    words: int
    embeddings: int
    begins_with: int | None
    nats: float
    shuffled_nats: float
    chance_nats: float
    knows_text: bool
    notes: tuple[str, ...]


class _Beginnings(NamedTuple):
    """Surprise behind each beginning, the study's own first, and whether text is known at all."""

    nats: dict[Lead, float]
    own: Lead
    best: Lead
    shuffled: float
    chance: float
    knows_text: bool


def tokenizer_gate(loaded: Any, *, bos: int | None) -> TokenizerReport:
    """Hold a tokenizer against its model; `bos` stands before the study's prompts, None: nothing.

    Refused: words (other than added ones) whose ids have no embedding; a model that knows plain
    English, and is surprised by 1 nat a token more as the study begins its prompts than behind
    another beginning: none, the tokenizer's BOS or the configuration's.
    """
    model, tokenizer = the_module(loaded), loaded.tokenizer
    rows, highest = len(model.get_input_embeddings().weight), _refuse_words(model, tokenizer)
    own = () if bos is None else (int(bos),)
    found = _beginnings(model, tokenizer, own)
    _refuse_beginning(model, found)
    return TokenizerReport(
        words=highest + 1,
        embeddings=rows,
        begins_with=bos,
        nats=found.nats[own],
        shuffled_nats=found.shuffled,
        chance_nats=found.chance,
        knows_text=found.knows_text,
        notes=(
            *_of_ids(model, rows, highest),
            *_of_bos(model, tokenizer),
            # A built-in model was trained on numbers alone.
            *(() if getattr(loaded, "name", "") in BUILT_IN else _of_text(found)),
        ),
    )


def _refuse_words(model: Any, tokenizer: Any) -> int:
    """The tokenizer's highest id."""
    rows, words = len(model.get_input_embeddings().weight), tokenizer.get_vocab()
    added = tokenizer.get_added_vocab()
    highest = max((place for word, place in words.items() if word not in added), default=-1)
    if highest >= rows:
        raise Refusal(
            f"needed a tokenizer whose ids lie below {rows}, the model's embeddings, came words up "
            f"to the id {highest}: it is another model's",
            where=model_name(model),
        )
    return int(max(words.values()))


def _configured(model: Any, *names: str) -> list[int]:
    """The ids that the model's own configurations give under these names."""
    configs = model.config.get_text_config(), getattr(model, "generation_config", None)
    values = [getattr(config, name, None) for config in configs for name in names]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [value for values in lists for value in values if value is not None]


def _of_ids(model: Any, rows: int, highest: int) -> list[str]:
    notes = []
    if highest >= rows:
        notes.append(
            f"added tokens up to the id {highest} have no embedding, of which it has {rows}"
        )
    unused = rows - highest - 1
    if unused > max(_UNUSED_ROWS, _UNUSED_SHARE * rows):
        notes.append(
            f"{unused} of {rows} embeddings belong to no token: is the tokenizer another model's?"
        )
    size = model.config.get_text_config().vocab_size
    if size > rows:
        notes.append(f"the configuration tells {size} words, the model has {rows} embeddings")
    return notes


def _of_bos(model: Any, tokenizer: Any) -> list[str]:
    own, known = tokenizer.bos_token_id, _configured(model, "bos_token_id", "eos_token_id")
    configured = model.config.get_text_config().bos_token_id
    if configured is None or own is None or own in known:
        return []
    return [f"the tokenizer's BOS token is {own}, the configuration's {configured}"]


def _of_text(found: _Beginnings) -> list[str]:
    said = f"plain English surprises it by {found.nats[found.own]:.1f} nats a token"
    if not found.knows_text:
        return [
            f"{said}, guessing by {found.chance:.1f}, the same tokens shuffled by "
            f"{found.shuffled:.1f}: it is untrained, or the tokenizer is another model's"
        ]
    if _worse(found) > WORSE_BEGINNING_NATS:
        return [f"{said} {_named(found.own)}, by {found.nats[found.best]:.1f} {_named(found.best)}"]
    return []


def _worse(found: _Beginnings) -> float:
    return found.nats[found.own] - found.nats[found.best]


def _named(lead: Lead) -> str:
    return f"behind the token {lead[0]}" if lead else "without a BOS token"


def _refuse_beginning(model: Any, found: _Beginnings) -> None:
    if not found.knows_text or _worse(found) <= WRONG_BEGINNING_NATS:
        return
    way = "--bos always" if found.best else "--bos never"
    raise Refusal(
        f"prompts begin otherwise than the model knows: plain English surprises it by "
        f"{found.nats[found.own]:.1f} nats a token {_named(found.own)}, by "
        f"{found.nats[found.best]:.1f} {_named(found.best)} (try {way}, or mend the tokenizer)",
        where=model_name(model),
    )


def _beginnings(model: Any, tokenizer: Any, own: Lead) -> _Beginnings:
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    pieces = cut(tokenizer, [PLAIN_ENGLISH])[0]
    ids = pieces.ids[: window - 1 if window else None]
    rows = len(model.get_input_embeddings().weight)
    ways = [own, (), leading_ids(tokenizer, pieces)]
    begins = tokenizer.bos_token_id, *_configured(model, "bos_token_id")
    ways += [(one,) for one in begins if one is not None]
    nats = {lead: _surprise(model, lead, ids) for lead in ways if all(0 <= i < rows for i in lead)}
    best = min(nats, key=lambda lead: nats[lead])
    rng = np.random.default_rng(0)
    mixed = [_surprise(model, best, rng.permutation(ids)) for _ in range(_SHUFFLES)]
    chance, shuffled = math.log(rows), float(np.mean(mixed))
    knows = nats[best] < min(chance, shuffled) - KNOWS_TEXT_NATS
    return _Beginnings(nats, own, best, shuffled, chance, knows)


@torch.inference_mode()
def _surprise(model: Any, lead: Lead, ids: NDArray[np.int64]) -> float:
    """Mean nats a token of `ids` but the first, behind the tokens `lead`."""
    tokens = torch.tensor([[*lead, *ids.tolist()]], device=input_device(model))
    logits = model(input_ids=tokens, use_cache=False).logits[0, len(lead) : -1].float()
    targets = tokens[0, len(lead) + 1 :].to(logits.device)
    nats = float(torch.nn.functional.cross_entropy(logits, targets))
    if not math.isfinite(nats):
        raise Refusal("the model's logits are not finite numbers", where=model_name(model))
    return nats
