"""A cell by hand: every run of every query of a small task on a tiny model, one prompt a time."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hatlens.comparison.cell import Plan, run_cell
from hatlens.comparison.config import build_similarity
from hatlens.comparison.cutting import Lessons
from hatlens.comparison.feed import SetFeed
from hatlens.progress import silent
from tests.hatlens.comparison.slow import Learnt, Plain
from tests.probes.finetune_models import KEYS_AND_VALUES, demonstrations, tiny_family
from tests.probes.test_three_runs_products import projected, rotated
from tests.probes.three_runs_prompts import HandMadePrompts, Whole, hand_made
from tests.probes.tiny_models import random_ids

RATE, LAYERS, HEADS, BOS = 0.05, 2, 4, 1
Tokens = NDArray[np.int64]
PROMPTS: HandMadePrompts = hand_made()
SHOWN: Tokens = np.concatenate(PROMPTS.demonstrations)


def lessons(seed: int) -> Lessons:
    """Other lines than those of the prompt, of the same lengths."""
    alone = tuple(np.array([BOS, *one]) for one in demonstrations(6, 4, 7, seed=seed))
    return Lessons(alone, tuple(slice(len(one) - 1, len(one)) for one in alone))


LESSONS = {
    "ft": Lessons(PROMPTS.alone, PROMPTS.alone_answers),
    "ft-other": lessons(50),
    "ft-task": lessons(60),
}
BEFORE: Mapping[str, Tokens] = {
    "irrelevant": random_ids(len(SHOWN), seed=70).numpy(),
    # Another token where each demonstration's answer stands, before its separator.
    "icl-wrong": np.concatenate([np.r_[one[:-2], 40, one[-1]] for one in PROMPTS.demonstrations]),
    "icl-order": np.concatenate([PROMPTS.demonstrations[place] for place in (2, 0, 1)]),
}


@contextmanager
def float64() -> Iterator[None]:
    """XGLM makes a tensor of the least number of the default type."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def fresh(name: str) -> Any:
    return tiny_family(name, scale=0.5).double()


def stored_cell(name: str, **settings: Any) -> dict[str, NDArray[Any]]:
    """What the cell stores."""
    groups = 2 if name == "llama" else HEADS
    loaded: Any = SimpleNamespace(model=fresh(name), layers=LAYERS, heads=HEADS, kv_heads=groups)
    prompts: Any = PROMPTS
    fed = SetFeed(prompts, LESSONS["ft-other"], LESSONS["ft-task"], BEFORE, prompts)
    plan = Plan(rate=RATE, target=None, twin=False, seed=(0,))
    with float64():
        return dict(run_cell(build_similarity(settings), loaded, fed, plan, silent))


def step(name: str, model: Any, tokens: Tokens, rate: float) -> None:
    """One step of SGD on keys and values alone."""
    entries = KEYS_AND_VALUES[name]
    named = [(n, p) for n, p in model.named_parameters() if n.endswith(entries.endings)]
    for _, p in named:
        p.requires_grad_(True)
    ids = torch.as_tensor(tokens)[None]
    loss = nn.functional.cross_entropy(model(input_ids=ids).logits[0, :-1], ids[0, 1:])
    gradients = torch.autograd.grad(loss, [p for _, p in named])
    with torch.no_grad():
        for (n, p), gradient in zip(named, gradients, strict=True):
            mask = torch.ones_like(p)
            if entries.rows is not None:
                mask = torch.zeros_like(p)
                axis = 0 if n.endswith("bias") else entries.axis
                mask.index_fill_(axis, torch.tensor(entries.rows), 1.0)
            p -= rate * gradient * mask
            p.requires_grad_(False)


class Place(NamedTuple):
    """What a run has beside its queries. `shift`: by how much its positions are moved up, the
    query's separator counted; `keys`: whether keys alone are rotated so, after the fact."""

    model: Any
    before: Tokens
    shift: int = 0
    keys: bool = False


class ByHand:
    """The runs of one model, made when asked for. `rates`: at which each fine-tuning learnt."""

    def __init__(self, name: str, rates: Mapping[str, float]) -> None:
        self.name, self.base = name, fresh(name)
        self.learnt = Learnt([[] for _ in range(LAYERS)], [[] for _ in range(LAYERS)], [], [], [])
        self.tuned = {run: self.tune(run, rate) for run, rate in rates.items()}
        self.context_made = self.context()
        place = 0
        for number, tokens in enumerate(PROMPTS.demonstrations):
            # The separator at each one's end was not learnt.
            own = range(place, place + len(tokens) - 1)
            self.learnt.shown.extend(own)
            self.learnt.of.extend(number for _ in own)
            self.learnt.words.extend(tokens[:-1].tolist())
            place += len(tokens)

    def tune(self, run: str, rate: float) -> Any:
        model = copy.deepcopy(self.base)
        for tokens in LESSONS[run].alone:
            for layer in range(LAYERS if run == "ft" else 0):
                x, q, _, _ = projected(model, self.name, layer, tokens.tolist())
                self.learnt.queries[layer] += list(q.transpose(0, 1)[1:].numpy())
                self.learnt.inputs[layer] += list(x[1:].numpy())
            step(self.name, model, tokens, rate)
        return model

    def place(self, run: str) -> Place:
        none: Tokens = SHOWN[:0]
        if run in self.tuned:
            return Place(self.tuned[run], none, len(SHOWN), keys=True)
        if run == "zsl":
            return Place(self.base, none, len(SHOWN), keys=True)
        if run == "zsl-matched":
            return Place(self.base, none, len(SHOWN))
        return Place(self.base, SHOWN if run == "icl" else BEFORE[run])

    def tokens(self, run: str, query: int, *, label0: bool) -> list[int]:
        behind = PROMPTS.in_context if len(self.place(run).before) else PROMPTS.queries
        end = PROMPTS.labels[query][0] if label0 else SHOWN[:0]
        return [BOS, *self.place(run).before.tolist(), *behind[query].tolist(), *end.tolist()]

    def plain(self, run: str, query: int, *, label0: bool) -> Plain:
        place, tokens = self.place(run), self.tokens(run, query, label0=label0)
        ends = len(PROMPTS.labels[query][0]) if label0 else 0
        own = min(len(PROMPTS.queries[query]), len(PROMPTS.in_context[query])) + ends
        separator = len(PROMPTS.in_context[query]) - len(PROMPTS.queries[query])
        start = place.shift + separator if place.shift else 0
        options: dict[str, Any] = {}
        if start and not place.keys and self.name != "llama":
            options["position_ids"] = torch.arange(start, start + len(tokens))[None]
            options["attention_mask"] = torch.ones(1, len(tokens), dtype=torch.long)
        whole = Whole(place.model, tokens, **options)
        made = [self.layer(place, i, tokens, start, own, options) for i in range(LAYERS)]
        return Plain(
            h=list(whole.h[:, -1].astype(np.float64)),
            p=np.exp(whole.logp[-1 - ends].astype(np.float64)),
            **{key: [one[key] for one in made] for key in ("s", "x", "q", "earlier", "update")},
        )

    def layer(
        self, place: Place, i: int, tokens: list[int], start: int, own: int, options: Any
    ) -> dict[str, Any]:
        x, q, k, v = (
            one.double() for one in projected(place.model, self.name, i, tokens, **options)
        )
        turn: Callable[[Any], Any] = lambda rows: (  # noqa: E731
            rotated(rows, start) if self.name == "llama" else rows
        )
        asked, keys, values = turn(q).numpy(), turn(k).numpy(), v.numpy()
        groups, dim = len(keys), q.shape[-1]
        scores = np.zeros((HEADS, len(tokens)))
        for h in range(HEADS):
            for t in range(len(tokens)):
                key = keys[h // (HEADS // groups), t]
                scores[h, t] = float(asked[h, -1] @ key) / np.sqrt(dim)
        return {
            "x": x[-1].numpy(),
            "q": q[:, -1].numpy(),
            "s": scores[:, -own:],
            "earlier": scores[:, 1:-own],
            "update": [summed(keys[g], values[g], len(tokens) - own) for g in range(groups)],
        }

    def context(self) -> list[list[Any]]:
        """Delta W_ICL by layer and key/value head: the sum of v k' over demonstration tokens."""
        tokens = [BOS, *SHOWN.tolist()]
        found = []
        for i in range(LAYERS):
            _, _, k, v = (one.double() for one in projected(self.base, self.name, i, tokens))
            k = rotated(k, 0) if self.name == "llama" else k
            found.append([summed(k[g].numpy(), v[g].numpy(), 1) for g in range(len(k))])
        return found

    def label_logp(self, run: str, query: int) -> list[list[float]]:
        """Of each label: the sum of its tokens' log-probabilities, and their mean."""
        place, start = self.place(run), self.tokens(run, query, label0=False)
        moved = len(place.before) == 0 and run == "zsl-matched" and self.name != "llama"
        found = []
        for label in PROMPTS.labels[query]:
            tokens, options = [*start, *label.tolist()], {}
            if moved:
                first = len(SHOWN) + len(PROMPTS.in_context[query]) - len(PROMPTS.queries[query])
                options["position_ids"] = torch.arange(first, first + len(tokens))[None]
                options["attention_mask"] = torch.ones(1, len(tokens), dtype=torch.long)
            logp = Whole(place.model, tokens, **options).logp
            each = [float(logp[len(start) - 1 + i, t]) for i, t in enumerate(label)]
            found.append([sum(each), sum(each) / len(each)])
        return found


def summed(keys: Any, values: Any, first: int) -> Any:
    total = np.zeros((values.shape[-1], keys.shape[-1]))
    for t in range(first, len(keys)):
        total += np.outer(values[t], keys[t])
    return total
