"""The words of the verdict on attention: one label, with figures, twins and reason."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.inference import Interval
from analysis.number_text import share_text
from analysis.row_result import CONTAINS, RowTest
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign
from analysis.verdict import (
    FAMILY_LABELS,
    LABELS,
    LIKE_TWIN,
    NONE_DETECTED,
    NOT_ASSESSABLE,
    attention_verdict,
    interval_words,
)
from tests.analysis.planted_rows import planted


def run(*names: str, noise: float = 1.0, design: SimulatedDesign | None = None) -> RowTest:
    study = planted(names, noise=noise, design=design)
    return row_test(
        study.scores,
        study.contexts,
        rng=np.random.default_rng(1),
        flips=500,
        resamples=60,
        replicate=study.replicate,
        pairs=study.pairs,
    )


@pytest.fixture(scope="module")
def inverse() -> RowTest:
    return run("ols", "edit distance")


@pytest.fixture(scope="module")
def lexical() -> RowTest:
    return run("edit distance", "kernel, 1 medians", noise=1.5)


def test_least_squares_is_followed_with_its_figures(inverse: RowTest) -> None:
    verdict = attention_verdict(inverse, row_names=("layer 3 head 1, x", "layer 3 head 2, x"))
    best = inverse.chosen[0]
    assert verdict.label == "follows S^-1 (OLS)"
    assert verdict.row == 0
    assert verdict.sentence.startswith(
        "Attention: follows S^-1 (OLS). Layer 3 head 1, x follows S^-1: only ols explains "
        f"{interval_words(best.unique_over_explained)} of what is explained, corrected p 0.0020, "
        "coefficient above 0 in 8 of 8 folds; inversion index "
        f"{interval_words(best.inversion_index)}; of its reproducible part "
        f"{interval_words(best.share_of_reproducible)}."
    )
    assert "2 rows tested, 0 blind to the query; 64 contexts of 8 queries." in verdict.sentence
    assert (verdict.reason, verdict.preview) == ("", "")
    assert verdict.families == {
        name: {"inverse": 1, "lexical": 1}.get(name, 0) for name in inverse.families.families
    }


@pytest.mark.parametrize(
    ("says", "label"),
    [
        ("follows S^-1 (OLS)", "follows S^-1 (OLS)"),
        ("follows S^-1 (partly inverted (index 0.41))", "follows S^-1 (partly inverted)"),
        ("follows S^-1 (not separable)", "follows S^-1 (not separable)"),
        (CONTAINS, CONTAINS),
    ],
)
def test_labels_of_the_inverse_family(inverse: RowTest, says: str, label: str) -> None:
    changed = replace(inverse, chosen=(replace(inverse.chosen[0], says=says),))
    verdict = attention_verdict(changed)
    assert verdict.label == label
    assert label in LABELS


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (("centred dot",), "bilinear scores with a fixed metric"),
        (("log-Gaussian kernel",), "bilinear scores with a fixed metric"),
        (("gd(1)",), "bilinear scores with a fixed metric"),
        (("kernel, 1 medians",), "kernel or nearest"),
        (("1-nearest",), "kernel or nearest"),
        (("equal characters",), "lexical"),
        (("random places x q",), "positional"),
        (("delta_rule(1)",), "online learner"),
        (("cosine about the context mean",), NONE_DETECTED),
        (("pcr(1)",), NONE_DETECTED),
        (("ridge(0.01)",), "follows S^-1 (partly inverted)"),
        (("gd(64)",), CONTAINS),
    ],
)
def test_planted_heads_get_their_label(names: tuple[str, ...], label: str) -> None:
    design = SimulatedDesign(contexts=48)
    assert attention_verdict(run(*names, noise=0.5, design=design)).label == label


def test_none_detected_says_what_would_have_been_found() -> None:
    study = planted(["edit distance"])
    noise = np.random.default_rng(3).standard_normal(study.scores.shape)
    test = row_test(noise, study.contexts, rng=np.random.default_rng(1), resamples=50)
    verdict = attention_verdict(test)
    assert verdict.label == NONE_DETECTED
    least = share_text(test.design.mde)
    assert f"(a share of {least} would have been found in 90 %" in verdict.sentence
    assert "no family of hypotheses explains any row" in verdict.sentence


def test_every_label_of_a_family_is_listed() -> None:
    assert set(FAMILY_LABELS.values()) < set(LABELS)
    assert len(LABELS) == len(set(LABELS)) == 12


def test_a_failed_gate_leaves_a_description(inverse: RowTest) -> None:
    verdict = attention_verdict(inverse, gate_failed="its answers do not beat the mean")
    assert verdict.label == NOT_ASSESSABLE
    assert verdict.reason == "the behaviour gate failed, since its answers do not beat the mean"
    assert verdict.sentence.startswith(
        "Attention: not assessable. The behaviour gate failed, since its answers do not beat the "
        "mean. As description only: the row that one family alone explains most surely, row "
    )


def test_nothing_is_said_of_a_family_that_was_not_tested(inverse: RowTest) -> None:
    other = replace(
        inverse,
        hypotheses=("mine",),
        hypothesis_families=("own",),
        chosen=tuple(replace(one, hypothesis="mine", says="none") for one in inverse.chosen[:1]),
    )
    sentence = attention_verdict(other).sentence
    assert "No hypothesis of the S^-1 family was tested" in sentence
    assert "contains an S^-1" not in sentence


def test_rivals_worse_than_nothing_do_not_open_the_gate(inverse: RowTest) -> None:
    gate = inverse.design._replace(identifies=False, attainable=Interval(2.9, 0.6, 6.4))
    few = attention_verdict(replace(inverse, design=gate))
    assert few.label == NOT_ASSESSABLE
    assert "worse than nothing" in few.reason


def test_reasons_of_the_design(inverse: RowTest) -> None:
    few = attention_verdict(replace(inverse, not_assessable="3 contexts: too few"))
    assert (few.label, few.reason) == (NOT_ASSESSABLE, "3 contexts: too few")
    gate = inverse.design._replace(identifies=False, attainable=Interval(0.02, 0.01, 0.03))
    flat = attention_verdict(replace(inverse, design=gate))
    assert flat.label == NOT_ASSESSABLE
    assert "cannot identify S^-1" in flat.reason
    assert "0.02 (0.01 to 0.03)" in flat.reason
    blind = attention_verdict(replace(inverse, status=np.array(["blind", "blind"])))
    assert blind.reason == "no row sees the query"


def test_a_twin_that_passes_the_same_rule_takes_the_verdict_away(
    inverse: RowTest, lexical: RowTest
) -> None:
    like = attention_verdict(inverse, twins={"shuffled": inverse, "score-scale-matched": lexical})
    assert like.label == LIKE_TWIN
    assert "the same rule names shuffled." in like.sentence
    unlike = attention_verdict(inverse, twins={"shuffled": lexical})
    assert unlike.label == "follows S^-1 (OLS)"
    assert "Untrained twins: shuffled: lexical." in unlike.sentence
    same_family = attention_verdict(lexical, twins={"shuffled": lexical})
    assert same_family.label == LIKE_TWIN
    contains = replace(inverse, chosen=(replace(inverse.chosen[0], says=CONTAINS),))
    # a twin that only contains does not pass the rule "follows", unless the pairs that could have
    # told were not run on it; one that follows also contains
    assert attention_verdict(inverse, twins={"t": contains}).label == "follows S^-1 (OLS)"
    unpaired = replace(contains, pairs=None)
    assert attention_verdict(inverse, twins={"t": unpaired}).label == LIKE_TWIN
    assert attention_verdict(contains, twins={"t": inverse}).label == LIKE_TWIN


def test_previews_and_tries_are_said(lexical: RowTest) -> None:
    few = replace(lexical, preview="16 contexts where a verdict needs 64")
    verdict = attention_verdict(few, preview="rows shared between contexts", tried=3)
    assert verdict.preview == "rows shared between contexts; 16 contexts where a verdict needs 64"
    assert f"This is a preview: {verdict.preview}." in verdict.sentence
    assert "3 settings were tried; p is not corrected for that." in verdict.sentence


def test_rows_that_do_not_reach_every_example_are_said(lexical: RowTest) -> None:
    status = np.array(["tested", "outside"])
    sentence = attention_verdict(replace(lexical, status=status)).sentence
    assert "1 row tested, 0 blind to the query, 1 short of some examples" in sentence


def test_an_undefined_interval_is_called_so() -> None:
    assert interval_words(Interval(np.nan, np.nan, np.nan)) == "undefined"
