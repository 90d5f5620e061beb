"""From stored cells to what is said: results.json, tables, report."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.inference import ALPHA, smallest_flip_p
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from analysis.similarity.recovered import LEAST_FIXED, recovered_over_sets, share_right
from analysis.similarity.resampling import Resamples, draw_resamples, two_way_interval
from analysis.similarity.verdict import says, verdict_on
from hatlens.comparison import tables
from hatlens.comparison.claims import claims_result
from hatlens.comparison.compare import (
    MISMATCH_WORDS,
    Line,
    condition_entry,
    corrected,
    entry,
    judged,
    lines_of,
)
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.judging import Judging
from hatlens.comparison.norms import unequal_norms
from hatlens.comparison.numbers_result import absolute_error, numbers_table
from hatlens.comparison.parts import part_results, part_tables
from hatlens.comparison.regression import REGRESSION
from hatlens.comparison.same_study import other_weights
from hatlens.comparison.stored import Stored, is_trained, stored_variants
from hatlens.comparison.without_effect import without_effect
from hatlens.store import RunFolder, json_text

Result = dict[str, Any]
THREE = ("zsl", "icl", "ft")


def conclude(config: SimilarityConfig, folder: RunFolder) -> Result:
    """Conclude from the stored cells alone; no model is needed. What ``--json`` prints."""
    from analysis.similarity_report import render

    stored = stored_variants(config, folder)
    model = stored[0]
    manifest = folder.manifest()
    resamples = draw_resamples(
        max(1, len(model.sets)),
        len(manifest["gold"][0]),
        rng=np.random.default_rng([config.seed, 8]),
    )
    result, made = concluded(config, stored, manifest, resamples)
    result |= part_results(config, folder)
    result["absolute_error"] = absolute_error(config, model)
    result["study"] = manifest.get("study")
    result["warnings"] += other_weights(manifest)
    result["warnings"] += without_effect(config, manifest["prompts"]["queries"])
    result["claims"] = claims_result(Judging(config, folder, stored, resamples))
    made |= part_tables(config, folder) | numbers_table(model)
    folder.write_text("results.json", json_text(result))
    folder.write_tables(made)
    result["run"] = str(folder.path)
    folder.write_text("report.html", render(result, made))
    return result


def concluded(
    config: SimilarityConfig, stored: Sequence[Stored], manifest: Result, resamples: Resamples
) -> tuple[Result, dict[str, Any]]:
    """The result and the tables."""
    every = {
        one.variant: lines_of(one, own_resamples(one, stored[0], resamples))
        for one in stored
        if one.sets
    }
    model = stored[0]
    lines = every.get(model.variant, [])
    p = corrected(lines)
    evidence = judged(stored, lines, p, resamples) if lines else []
    twins: dict[str, list[Sequence[Line]]] = {}
    for one in stored[1:]:
        twins.setdefault(one.variant.kind, []).append(every.get(one.variant, []))
    verdict = verdict_on(evidence, reason=why_not(model, lines), mismatches=MISMATCH_WORDS)
    answers = answers_result(config, model, resamples) if model.sets else no_answers()
    result: Result = {
        "model": manifest["model"],
        "task": {**config.model_dump(mode="json"), "label_words": manifest["task_words"]},
        **answers,
        "metrics": [entry(line, value, twins) for line, value in zip(lines, p, strict=True)],
        "baselines": [
            *(
                {
                    "kind": one.variant.kind,
                    "seed": one.variant.seed,
                    "metrics": [entry(line) for line in every.get(one.variant, [])],
                }
                for one in stored[1:]
            ),
            *(
                {
                    "kind": condition,
                    "seed": None,
                    "metrics": [
                        condition_entry(line, condition)
                        for line in lines
                        if condition in line.others
                    ],
                }
                for condition in CONDITIONS
                if condition != MATCHED
            ),
        ],
        "selfcheck": manifest["selfcheck"],
        "verdict": {
            **verdict._asdict(),
            "measures": [
                {"measure": one.key, "says": says(one), "beyond_twins": list(one.beyond)}
                for one in evidence
            ],
        },
        "prompts": manifest["prompts"],
        "learning_rate": manifest["rate"],
        "fine_tuning": [
            tables.fit_entry(one, place, run) for one in stored for place, run in one.pairs()
        ],
        "failures": [
            {"kind": one.variant.kind, "seed": one.variant.seed, "set": place, "sentence": said}
            for one in stored
            for place, said in one.failed.items()
        ],
        "warnings": warnings_of(manifest, stored, answers),
        "cost": cost_of(stored, manifest),
    }
    made = tables.all_tables(config, stored, every, p, answers)
    return result, made


def own_resamples(one: Stored, model: Stored, resamples: Resamples) -> Resamples:
    """Resamples of a variant that has fewer sets than the model, since some diverged."""
    if len(one.sets) == len(model.sets):
        return resamples
    return draw_resamples(
        max(1, len(one.sets)), resamples.queries.shape[1], rng=np.random.default_rng(0)
    )


def why_not(model: Stored, lines: Sequence[Any]) -> str:
    """Why nothing can be judged; empty where it can."""
    if not model.sets:
        return "fine-tuning diverged on every set of demonstrations"
    if not any(line.mismatch for line in lines):
        return "there is no mismatched fine-tuning to compare with"
    tests = sum(DESCRIBED[line.key].evidence for line in lines)
    queries = lines[0].found.queries
    least = min(1.0, smallest_flip_p(queries) * tests)
    if least > ALPHA:
        return (
            f"{queries} {'query is' if queries == 1 else 'queries are'} too few: the smallest p "
            f"that {tests} corrected tests can reach is {least:.2g}"
        )
    return ""


def no_answers() -> Result:
    return {"accuracy": dict.fromkeys(THREE), "rec2ftp": None}


def answers_result(config: SimilarityConfig, model: Stored, resamples: Resamples) -> Result:
    """Accuracy, label log-probabilities and Rec2FTP of the trained model."""
    runs = model.runs()
    several = model.label_logp("zsl").shape[2] > 1
    logp = {run: mean_log_probability(model, run, several) for run in runs}
    likely = {run: two_way_interval(values, rng=resamples) for run, values in logp.items()}
    if not several:
        number = config.task == REGRESSION
        said = (
            "an answer of this task is a number, not one of several labels"
            if number
            else "the task has one label, so that no answer can be wrong"
        )
        return {
            "accuracy": dict.fromkeys(THREE),
            "accuracy_reason": said,
            "log_probability": likely,
            "rec2ftp": None,
        }
    score = config.label_score
    right = {run: model.right(run, score) for run in runs}
    accuracy = {run: share_right(flags, rng=resamples) for run, flags in right.items()}
    disagree = {
        run: int((model.answers(run, "sum") != model.answers(run, "mean")).sum()) for run in runs
    }
    return {
        "accuracy": {run: accuracy[run] for run in THREE},
        "accuracy_of": accuracy,
        "log_probability": likely,
        "label_rules_disagree": disagree,
        "rec2ftp": rec2ftp(right, resamples),
    }


def mean_log_probability(model: Stored, run: str, several: bool) -> Any:
    """Log-probability of the right answer (set, query), among the labels where `several`."""
    logp = model.label_logp(run)[..., 0].astype(np.float64)
    if several:
        logp = logp - np.logaddexp.reduce(logp, axis=-1, keepdims=True)
    return np.take_along_axis(logp, model.gold[..., None], axis=-1)[..., 0]


def rec2ftp(right: dict[str, Any], resamples: Resamples) -> Result:
    """Counts, the ratio, its chance line, and the same with FT on other demonstrations."""
    found = recovered_over_sets(right["zsl"], right["icl"], right["ft"], rng=resamples)
    result = {**found._asdict(), "assessable": found.denominator >= LEAST_FIXED}
    if "ft-other" in right:
        other = recovered_over_sets(right["zsl"], right["icl"], right["ft-other"], rng=resamples)
        result["mismatched"] = other._asdict()
    return result


def warnings_of(manifest: Result, stored: Sequence[Stored], answers: Result) -> list[str]:
    """What was noticed, in plain words."""
    found = list(manifest["warnings"])
    if count := sum(answers.get("label_rules_disagree", {}).get(run, 0) for run in THREE):
        found.append(
            f"summed and averaged label log-probabilities disagree on {count} answers of the three "
            "runs: the table shows both"
        )
    tried = manifest["rate"]["tried"]
    if len(tried) > 1 and max(
        (one["log_probability"] for one in tried[1:] if one["log_probability"] is not None),
        default=-np.inf,
    ) <= (tried[0]["log_probability"] or -np.inf):
        found.append("no rate that was tried makes the right answers likelier than the model alone")
    if len(stored[0].sets) == 1:
        found.append("one set of demonstrations was run: the intervals say nothing of other sets")
    found += unequal_norms(stored)
    for one in stored:
        for place, said in one.failed.items():
            found.append(f"set {place + 1} on the {one.variant.folder} model failed: {said}")
        for place in one.sets:
            if note := str(one.cells[place].get("notes", "")):
                found.append(note)
    return list(dict.fromkeys(found))


def cost_of(stored: Sequence[Stored], manifest: Result) -> Result:
    """Seconds and bytes; seconds of one query in each run of the trained model."""
    measured = manifest.get("measured", {})
    model = next(one for one in stored if is_trained(one))
    queries = max(1, sum(len(gold) for gold in model.gold))
    runs: dict[str, float] = {}
    for cell in model.cells.values():
        for key, value in cell.items():
            if key.startswith("seconds/") and key.count("/") == 2:
                run = key.rpartition("/")[2]
                runs[run] = runs.get(run, 0.0) + float(value) / queries
    return {
        **measured,
        "seconds_a_query": runs,
        "whole_prompt_seconds": manifest.get("whole_prompt_seconds"),
    }
