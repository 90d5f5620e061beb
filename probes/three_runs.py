"""The same queries with demonstrations in the prompt, without them, and after learning them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from probes.finetune_result import FineTuned
from probes.model_facts import model_name, positions_depend_on_length, the_module
from probes.run_records import QueryRuns, RunRecord
from probes.three_runs_queries import Condition, Prompts, QueryRunner, Tokens, joined, weights_of
from prompts.refusal import Refusal, unknown_name

Position = Literal["answer", "label0"]
_POSITIONS = ("answer", "label0")
_NO_MORE: Mapping[str, Condition] = MappingProxyType({})


def three_runs(
    loaded: Any,
    prompts: Prompts,
    tuned: FineTuned,
    *,
    position: Position = "answer",
    position_matched: Tokens | Literal["shift"] | None = None,
    more: Mapping[str, Condition] = _NO_MORE,
    updates: bool = False,
    chunk: int = 32,
    block: int = 8,
) -> Iterator[QueryRuns]:
    """Every query as "icl" (demonstrations before it), "zsl" (by itself) and "ft" (`tuned`).

    Behind other text a query is run as `in_context` cuts it, else as `queries` does. `position`:
    what is recorded, the query's last token ("answer", which predicts the label) or
    the last token of the first class's label behind it ("label0", as in the code published with
    arXiv 2212.10559). `position_matched` adds "zsl-matched", the query by itself at the position
    that it has behind the demonstrations: by position ids ("shift", <bos> and query together), or
    behind as many neutral tokens. `more`: other runs, by name. `updates`: records hold the sum of
    v k'; rotary models then run "zsl" and "ft" at shifted position ids, which changes nothing
    else, so that their keys are rotated as in "icl".

    Queries come in the order of their lengths; `query` says which each is. `chunk` queries are
    held at a time, `block` of equal length are run at once. Refuses weights that learnt other
    demonstrations, or in another order, than the prompt shows.
    """
    module = the_module(loaded)
    demonstrations = joined(prompts.demonstrations)
    if tuned.model is not module or not tuned.learnt(prompts.alone):
        raise Refusal(
            "needed weights that learnt the demonstrations of the prompt, in their order and on "
            f"this model, came {len(tuned.demonstrations)} others"
        )
    shift = update_shift(module, prompts, len(demonstrations)) if updates else 0
    none = demonstrations[:0]
    conditions = {
        "icl": Condition(demonstrations),
        "zsl": Condition(none, shift=shift),
        "ft": Condition(none, tuned, shift),
    }
    if position_matched is not None:
        conditions["zsl-matched"] = _matched(position_matched, len(demonstrations), none)
    if taken := conditions.keys() & more.keys():
        raise Refusal(f"needed other names than {sorted(taken)!r} for further runs")
    return run_conditions(
        loaded,
        prompts,
        {**conditions, **more},
        position=position,
        updates=updates,
        chunk=chunk,
        block=block,
    )


def run_conditions(
    loaded: Any,
    prompts: Prompts,
    conditions: Mapping[str, Condition],
    *,
    position: Position = "answer",
    updates: bool = False,
    chunk: int = 32,
    block: int = 8,
) -> Iterator[QueryRuns]:
    """Every query under every condition; see `three_runs`.

    Tokens before the queries are run once for all of them where that is exact. Memory does not
    depend on the number of queries.
    """
    if position not in _POSITIONS:
        raise unknown_name("position", position, _POSITIONS)
    _refuse_prompts(prompts)
    runner = QueryRunner(the_module(loaded), prompts, position, updates, block)
    return _in_chunks(runner, conditions, chunk)


def _in_chunks(
    runner: QueryRunner, conditions: Mapping[str, Condition], chunk: int
) -> Iterator[QueryRuns]:
    places = {name: runner.place(condition) for name, condition in conditions.items()}
    order = runner.order()
    for start in range(0, len(order), chunk):
        some = order[start : start + chunk]
        runs: dict[int, dict[str, RunRecord]] = {query: {} for query in some}
        for name, condition in conditions.items():
            with weights_of(condition):
                for query, record in runner.run(places[name], some):
                    runs[query][name] = record
        for query in some:
            yield QueryRuns(query, runs.pop(query))


def _matched(how: Tokens | str, length: int, none: Tokens) -> Condition:
    if isinstance(how, str):
        if how != "shift":
            raise unknown_name("way of matching positions", how, ("shift",))
        return Condition(none, shift=length)
    if len(how) != length:
        raise Refusal(
            f"needed {length} neutral tokens, as many as the demonstrations, came {len(how)}"
        )
    return Condition(np.asarray(how, dtype=np.int64))


def update_shift(module: Any, prompts: Prompts, length: int) -> int:
    """How far keys of the query by itself must be moved to be rotated as in the prompt."""
    if not is_rotary(module):
        return 0
    longest = length + 1 + max((len(query) for query in prompts.queries), default=0)
    if positions_depend_on_length(module, longest):
        raise Refusal(
            "needed positions that do not depend on the prompt's length to compare updates, came "
            f"a prompt of {longest} tokens, past where they begin to",
            where=model_name(module),
        )
    return length


def is_rotary(module: Any) -> bool:
    """Whether positions enter by rotation alone, so that moving all of them changes nothing."""
    rotary = any("rotary" in type(part).__name__.lower() for part in module.modules())
    return rotary or getattr(module.config, "rotary_dim", None) is not None


def _refuse_prompts(prompts: Prompts) -> None:
    counts = {len(part) for part in (prompts.queries, prompts.in_context, prompts.labels)}
    if not prompts.queries or len(counts) > 1:
        raise Refusal(
            "needed queries, each alone, in context and with its labels, came "
            f"{len(prompts.queries)}, {len(prompts.in_context)} and {len(prompts.labels)}"
        )
    for place, (query, labels) in enumerate(zip(prompts.queries, prompts.labels, strict=True)):
        classes = len(prompts.labels[0])
        if not len(query) or not len(labels) or len(labels) != classes or not all(map(len, labels)):
            raise Refusal(
                f"needed a query of 1 token or more and {classes} labels likewise, came "
                f"{len(query)} tokens and labels of {[len(label) for label in labels]!r}",
                where=f"query {place}",
            )
