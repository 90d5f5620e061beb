"""Measures of one set, put together query by query; no record outlives its turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.similarity.conditions import (
    CONDITIONS,
    MATCHED,
    Moved,
    measured,
    moved_as_here,
    random_update,
)
from analysis.similarity.kendall_measures import DualWeights, dual_weights, kendall_measures
from analysis.similarity.measures import DELTA_W, DELTA_W_NORM
from analysis.similarity.records import Floats, Learning
from analysis.similarity.vectors import mean_defined
from analysis.similarity.weight_updates import update_likeness
from probes.run_records import QueryRuns, RunRecord

OTHER_QUERY = "other query"
UPDATES = {MATCHED: "ft", "other demonstrations": "ft-other", "other task": "ft-task"}
"""Which fine-tuned run each comparison of weight updates takes."""


@dataclass
class Collector:
    """Holds the numbers of `queries` queries at one recorded position.

    `learning`: what was learnt token by token; `context`: Delta W_ICL of the demonstrations, None
    where updates are not compared. Queries are compared with the one that came before them; the
    first one with the last.
    """

    queries: int
    learning: Learning
    context: Floats | None
    rng: np.random.Generator
    values: dict[tuple[str, str], NDArray[np.float32]] = field(default_factory=dict)
    labels: dict[str, Floats] = field(default_factory=dict)
    heads: dict[str, list[Floats]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    first: "_Seen | None" = None
    before: "_Seen | None" = None

    def take(self, item: QueryRuns) -> None:
        """All measures of one query."""
        runs: dict[str, Any] = dict(item.runs)
        zsl, ft = runs["zsl"], runs["ft"]
        for kind in ("uniform", "gaussian"):
            runs[f"random-{kind}"] = random_update(zsl, ft, kind, rng=self.rng)
        for key, value in measured(runs).items():
            self.put(key, item.query, value)
        seen = _Seen(item.query, runs["icl"], zsl, ft, dual_weights(ft, self.learning))
        self.kendalls(seen, seen, MATCHED)
        self.updates(item)
        for name, record in item.runs.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + record.seconds
            if name not in self.labels:
                self.labels[name] = np.full((self.queries, *record.label_logp.shape), np.nan)
            self.labels[name][item.query] = record.label_logp
        if self.before is not None:
            self.against(seen, self.before)
        self.first = self.first or seen
        self.before = seen

    def finish(self) -> None:
        """Compare the first query with the last one."""
        if self.first is not None and self.before is not self.first and self.before is not None:
            self.against(self.first, self.before)

    def against(self, here: "_Seen", other: "_Seen") -> None:
        """This query under demonstrations, against the fine-tuning update of another query."""
        moved: Moved = moved_as_here(here.zsl, other.zsl, other.ft)
        name = CONDITIONS[OTHER_QUERY].ft
        runs: dict[str, Any] = {"icl": here.icl, "zsl": here.zsl, name: moved}
        for key, value in measured(runs).items():
            self.put(key, here.query, value)
        self.kendalls(here, other, OTHER_QUERY)

    def kendalls(self, here: "_Seen", other: "_Seen", condition: str) -> None:
        if here.icl.earlier is None or not len(self.learning.shown):
            return
        for key, value in kendall_measures(here.icl, other.weights, self.learning).items():
            self.put((condition, key), here.query, value)

    def updates(self, item: QueryRuns) -> None:
        """Delta W of the demonstrations against that of each fine-tuning.

        Undefined in layers whose window hides a demonstration token from the query: what is summed
        over all of them is not what such a layer reads.
        """
        before = item.runs["zsl"].update
        if self.context is None or before is None:
            return
        earlier = item.runs["icl"].earlier
        seen = self.context
        if earlier is not None:
            hidden = np.asarray(np.isnan(earlier).any(axis=(1, 2)))
            seen = np.where(hidden[:, None, None, None], np.nan, seen)
        for condition, name in UPDATES.items():
            after = item.runs[name].update if name in item.runs else None
            if after is None:
                continue
            found = update_likeness(seen, before, after)
            self.put((condition, DELTA_W), item.query, mean_defined(found.cosine))
            self.put((condition, DELTA_W_NORM), item.query, mean_defined(found.relative_norm))
            sums = self.heads.setdefault(condition, [np.zeros_like(found.cosine) for _ in range(2)])
            sums[0] += np.nan_to_num(found.cosine)
            sums[1] += np.isfinite(found.cosine)

    def put(self, key: tuple[str, str], query: int, value: Floats) -> None:
        if key not in self.values:
            self.values[key] = np.full((self.queries, len(value)), np.nan, np.float32)
        self.values[key][query] = value

    def arrays(self, position: str) -> Mapping[str, NDArray[Any]]:
        """What is stored: ``POSITION/CONDITION/MEASURE`` (query, layer), ``labels/RUN`` (query,
        class, 2), ``heads/CONDITION`` (2, layer, key/value head): sum and count of cosines.
        """
        return {
            **{f"{position}/{name}/{key}": value for (name, key), value in self.values.items()},
            **{f"labels/{name}": value for name, value in self.labels.items()},
            **{f"heads/{name}": np.stack(sums) for name, sums in self.heads.items()},
            **{f"seconds/{position}/{name}": np.array(s) for name, s in self.seconds.items()},
        }


@dataclass(frozen=True)
class _Seen:
    """What is kept of a query until the next one has come."""

    query: int
    icl: RunRecord
    zsl: RunRecord
    ft: RunRecord
    weights: DualWeights
