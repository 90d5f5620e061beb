"""Results as tidy tables and as the entries that `--json` prints."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bank import hypothesis_named, predict
from analysis.behaviour import Behaviour
from analysis.bootstrap import Intervals
from analysis.design import ContextArrays
from analysis.held_out import RIVALS
from analysis.inference import Interval
from analysis.row_test import RowTest
from analysis.separability import Separability
from hatlens.sets import StoredSet
from hatlens.stored_rows import RowLabels

if TYPE_CHECKING:
    from hatlens.study_result import Tested

SHOWN_PREDICTORS = {
    "mean": "uniform",
    "last": "last",
    "nearest": "nearest(1)",
    "kernel": "kernel(1/3)",
    "ridge": "ridge(0.01)",
    "ols": "ols",
}


def spread(name: str, intervals: Intervals, column: int | None) -> dict[str, Any]:
    """An interval of every row as three columns."""
    bounds = intervals if column is None else [bound[:, column] for bound in intervals]
    return dict(zip((name, f"{name}_low", f"{name}_high"), bounds, strict=True))


def row_table(labels: RowLabels, tested: "Tested") -> pd.DataFrame:
    """One line a row and hypothesis of one model."""
    test = tested.test
    frames = []
    for h, hypothesis in enumerate(test.hypotheses):
        frames.append(
            labels.table().assign(
                variant=tested.variant,
                seed=tested.seed,
                hypothesis=hypothesis,
                says=test.says[:, h],
                t=test.t[:, h],
                p_corrected=test.p_corrected[:, h],
                coefficient=test.coefficient[:, :, h].mean(axis=0),
                positive_in_folds=test.positive_in_folds[:, h],
                blind=test.status == "blind",
                outside=test.status == "outside",
                explained=test.explained[:, h],
                pairs_p=np.nan if test.pairs is None else test.pairs.p_corrected[:, h],
                **spread("alone", test.alone, h),
                **spread("unique_over_explained", test.unique_over_explained, h),
                **spread("unique_of_variance", test.unique_of_variance, h),
                **spread("share_of_reproducible", test.share_of_reproducible, h),
                **spread("inversion_index", test.inversion_index, None),
            )
        )
    return pd.concat(frames)


def family_table(labels: RowLabels, tested: "Tested") -> pd.DataFrame:
    """One line a row and family of one model."""
    found = tested.test.families
    frames = [
        labels.table().assign(
            variant=tested.variant,
            family=family,
            t=found.t[:, f],
            p_corrected=found.p_corrected[:, f],
            alone=found.alone[:, f],
            **spread("unique_over_explained", found.unique_over_explained, f),
        )
        for f, family in enumerate(found.families)
    ]
    return pd.concat(frames)


def alone_table(labels: RowLabels, tested: "Tested") -> pd.DataFrame:
    """The row of one model that each hypothesis explains best by itself."""
    places = labels.table()
    return pd.DataFrame(
        [
            {
                "variant": tested.variant,
                "hypothesis": line.hypothesis,
                **(places.iloc[line.row] if line.row >= 0 else dict.fromkeys(places.columns)),
                **interval_columns("explained", line.explained),
            }
            for line in tested.alone
        ]
    )


def pairs_result(test: RowTest) -> dict[str, Any] | None:
    """What the re-paired twin contexts say of the best row of the first hypothesis."""
    best = test.chosen[0].row
    if test.pairs is None or best < 0:
        return None
    return {
        "pairs": test.pairs.pairs,
        "t": test.pairs.t[best, 0],
        "p_corrected": test.pairs.p_corrected[best, 0],
        "agrees": bool(test.pairs.agrees[best, 0]),
    }


def best_rows(labels: RowLabels, test: RowTest) -> list[dict[str, Any]]:
    """The best row of each hypothesis, with the figures that did not choose it."""
    places = labels.table()
    entries = []
    for h, best in enumerate(test.chosen):
        seen = best.row >= 0
        place = places.iloc[best.row].to_dict() if seen else dict.fromkeys(places.columns)
        entries.append(
            {
                "hypothesis": best.hypothesis,
                **place,
                "says": best.says,
                "unique_over_explained": best.unique_over_explained,
                "unique_of_variance": best.unique_of_variance,
                "share_of_reproducible": best.share_of_reproducible,
                "inversion_index": best.inversion_index,
                "positive_in_folds": test.positive_in_folds[best.row, h] if seen else None,
                "folds": test.folds,
                "t": test.t[best.row, h] if seen else None,
                "p_corrected": test.p_corrected[best.row, h] if seen else None,
            }
        )
    return entries


def interval_columns(name: str, interval: Interval) -> dict[str, float]:
    """An interval as three cells."""
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def behaviour_table(found: Behaviour, main: StoredSet) -> pd.DataFrame:
    """Mean absolute error of the model and each simple predictor, in printed units of y."""
    size = float(main.half_range[-1])

    def scaled(interval: Interval) -> Interval:
        return Interval(*(bound * size for bound in interval))

    undefined = Interval(np.nan, np.nan, np.nan)
    return pd.DataFrame(
        [
            {
                "predictor": name,
                **interval_columns("error", scaled(interval)),
                **interval_columns(
                    "difference", scaled(found.errors.absolute_difference.get(name, undefined))
                ),
            }
            for name, interval in found.errors.absolute.items()
        ]
    )


def behaviour_result(found: Behaviour) -> dict[str, Any]:
    """The `behaviour` object of the result; errors in codec coordinates (half ranges of y)."""
    return {
        "verdict": found.label,
        "sentence": found.sentence,
        "parse_rate": found.parse_rate,
        "error": {name: found.errors.absolute[name] for name in ("model", *RIVALS)},
        "beats_mean": found.beats_mean,
        "beats_nearest": found.beats_nearest,
        "asked": found.errors.asked,
        "readable": found.errors.readable,
        "inseparable": found.inseparable,
    }


def agreement_table(found: Behaviour) -> pd.DataFrame:
    """Every hypothesis beside the answers, nearest first."""
    return pd.DataFrame(
        [
            {
                "hypothesis": one.hypothesis,
                **interval_columns("spd", one.spd),
                **interval_columns("error", one.held_out_error),
                **interval_columns("behind_nearest", one.behind_nearest),
                "separable": one.separable,
                "same_as": one.same_as,
            }
            for one in found.agreement
        ]
    )


def agreement_result(found: Behaviour) -> list[dict[str, Any]]:
    """The `agreement` list of the result."""
    return [
        {"hypothesis": one.hypothesis, "spd": one.spd, "held_out_error": one.held_out_error}
        for one in found.agreement
    ]


def separability_result(found: Separability | None) -> dict[str, Any] | None:
    """The `separability` object of the result; None where nothing could be simulated."""
    if found is None:
        return None
    return {
        "sentence": found.sentence(),
        "spread": found.spread,
        "runs": found.runs,
        "told_apart": int(np.triu(found.separable, k=1).sum()),
        "pairs": len(found.names) * (len(found.names) - 1) // 2,
    }


def separability_tables(found: Separability | None) -> dict[str, pd.DataFrame]:
    """The matrix of simulated labels in long form: one line a hypothesis that plays the model."""
    if found is None:
        return {}
    lines = found.table()
    named = lines.set_index("true")[list(found.names)]
    most = named.idxmax(axis=1)
    frame = pd.DataFrame(
        {
            "plays": found.names,
            "named_most": [most[name] for name in found.names],
            "named_most_rate": [named.loc[name, most[name]] for name in found.names],
            "right": found.right,
            "wrong": found.wrong,
            "not_separable": found.not_separable,
            "not_told_from": lines["told_from_all_but"],
        }
    )
    return {"separability": frame}


def answers_table(arrays: ContextArrays, main: StoredSet, texts: NDArray[np.str_]) -> pd.DataFrame:
    """Every query with its truth, the answer, and what simple predictors say, as printed."""
    contexts, queries = texts.shape
    return pd.DataFrame(
        {
            "context": np.repeat(np.arange(contexts), queries),
            "query": np.tile(np.arange(queries), contexts),
            "truth": main.printed_y(main.targets).ravel(),
            "answer_text": texts.ravel(),
            "answer": main.printed_y(arrays.answers).ravel(),
            **{
                name: main.printed_y(predict(hypothesis_named(bank_name), arrays)).ravel()
                for name, bank_name in SHOWN_PREDICTORS.items()
            },
        }
    )
