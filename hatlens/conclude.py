"""From stored rows to statements: the row test of every model, the answers, the verdict."""

import time
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bank import BANK, Hypothesis
from analysis.behaviour import Behaviour, behaviour
from analysis.row_test import row_test
from analysis.separability import told_apart, untold
from analysis.survey import survey
from analysis.verdict import attention_verdict
from hatlens import stored_rows, tables
from hatlens.cells import TRAINED
from hatlens.config import StudyConfig
from hatlens.controls import controls_result, controls_table, reliability, run_controls
from hatlens.evidence import rests_on, rests_on_sentence
from hatlens.hypotheses import Own, resolve
from hatlens.progress import Report
from hatlens.sets import MAIN, StoredSet, load_set
from hatlens.stages import STAGES, Evidence
from hatlens.stages.reading import mean_answers
from hatlens.store import RunFolder, json_text, plain
from hatlens.study_result import Tested, study_result
from prompts.refusal import Refusal


def conclude(
    config: StudyConfig, folder: RunFolder, report: Report, *, own: Sequence[Own] = ()
) -> None:
    """Write results.json and the tables of a study whose cells are all there."""
    begun = time.monotonic()
    main = main_set(folder)
    variants = (TRAINED, *config.twins)
    hypotheses = resolve([*config.hypotheses, *own])
    tested = []
    for done, variant in enumerate(variants):
        report("analysis", done, len(variants))
        tested.append(test_variant(config, folder, variant, main, hypotheses))
    report("analysis", len(variants), len(variants))
    labels = stored_rows.row_labels(folder)
    verdict = attention_verdict(
        tested[0].test,
        gate_failed=gate_failed(tested[0].behaviour),
        twins={one.variant: one.test for one in tested[1:]},
        row_names=labels.names(),
        preview=preview_reason(config, folder),
    )
    arrays, bank = tested[0].arrays, with_bank(hypotheses)
    controls = run_controls(config, folder, arrays, hypotheses, bank)
    evidence = Evidence(config, folder, main, arrays, tested[0].test, bank)
    concluded = {stage.name: stage.conclude(evidence) for stage in STAGES}
    found = {name: one for name, one in concluded.items() if one is not None}
    texts, _ = stored_rows.answers(folder, TRAINED)
    folder.write_tables(
        {
            **study_tables(labels, tested, main, texts),
            **({"controls": controls_table(labels, controls)} if controls else {}),
            **{name: table for one in found.values() for name, table in one.tables.items()},
        }
    )
    seconds = time.monotonic() - begun
    result = study_result(folder, tested, labels, verdict, seconds)
    result["own_hypotheses"] = [one.name for one in hypotheses[len(config.hypotheses) :]]
    if controls:
        result["controls"] = plain(controls_result(labels, controls))
        result["split_half_reliability"] = plain(reliability(controls))
    for name, one in found.items():
        result[name] = plain({**one.result, "sentence": one.sentence})
    evidence_lines = rests_on(result)
    result["verdict"]["rests_on"] = evidence_lines
    result["verdict"]["sentence"] += f" {rests_on_sentence(evidence_lines)}"
    folder.write_text("results.json", json_text(result))


def study_tables(
    labels: stored_rows.RowLabels,
    tested: Sequence[Tested],
    main: StoredSet,
    texts: NDArray[np.str_],
) -> dict[str, pd.DataFrame]:
    """The tables that every study has; `texts` are the answers as printed."""
    trained = tested[0]
    return {
        "row_test": pd.concat([tables.row_table(labels, one) for one in tested]),
        "alone": pd.concat([tables.alone_table(labels, one) for one in tested]),
        "families": pd.concat([tables.family_table(labels, one) for one in tested]),
        "behaviour": tables.behaviour_table(trained.behaviour, main),
        "agreement": tables.agreement_table(trained.behaviour),
        **tables.separability_tables(trained.separability),
        "answers": tables.answers_table(trained.arrays, main, texts),
    }


def main_set(folder: RunFolder) -> StoredSet:
    """The main contexts; refused where the study was not measured."""
    main = load_set(folder, MAIN)
    if main is None:
        raise Refusal(
            "the study has no stored contexts; run its `hatlens probe`", where=str(folder.path)
        )
    return main


def test_variant(
    config: StudyConfig,
    folder: RunFolder,
    variant: str,
    main: StoredSet,
    hypotheses: Sequence[Hypothesis],
) -> Tested:
    """The row test and the behaviour of one model."""
    _, values = stored_rows.answers(folder, variant)
    arrays = main.arrays(values)
    facts = folder.manifest()["contexts"]
    scores = stored_rows.set_scores(folder, variant)
    test = row_test(
        scores,
        arrays,
        hypotheses,
        rng=np.random.default_rng([config.seed, 1]),
        flips=config.flips,
        replicate=stored_rows.replicate_scores(folder, variant),
        pairs=stored_rows.pair_scores(folder, variant),
        blocks=facts["blocks"],
    )
    means = mean_answers(config, folder) if variant == TRAINED else None
    means = None if means is None else main.codec_y(means)
    design = None
    if variant == TRAINED:
        compared = arrays if means is None else arrays._replace(answers=means)
        design = told_apart(compared, facts["blocks"], rng=np.random.default_rng([config.seed, 4]))
    found = behaviour(
        arrays,
        main.targets,
        with_bank(hypotheses),
        blocks=facts["blocks"],
        unit=facts["unit"],
        printed_size=float(main.half_range[-1]),
        mean_answers=means,
        untold=untold(design) if design else {},
    )
    alone = survey(
        scores,
        arrays,
        with_bank(hypotheses),
        rng=np.random.default_rng([config.seed, 2]),
        blocks=facts["blocks"],
    )
    return Tested(variant, config.seed, arrays, test, found, alone, design)


def with_bank(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The whole bank, and what was added to it."""
    return [*BANK.values(), *(one for one in hypotheses if one.name not in BANK)]


def gate_failed(found: Behaviour) -> str:
    """Why the answers do not allow a verdict on attention; empty where they do."""
    if found.passes_gate:
        return ""
    if found.assessable:
        return "the answers do not beat the mean"
    return f"the answers are {found.label}"


def preview_reason(config: StudyConfig, folder: RunFolder) -> str:
    """Why the whole study is a preview; empty where it is none."""
    reasons = [str(folder.manifest()["contexts"]["preview_reason"])]
    if config.dtype != "float32":
        reasons.append(f"{config.dtype} where a verdict needs float32")
    if config.quantize:
        reasons.append(f"{config.quantize} weights where a verdict needs float32")
    return "; ".join(reason for reason in reasons if reason)
