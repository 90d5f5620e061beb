"""What the words of a report mean, in the order in which a reader meets them."""

from typing import NamedTuple


class Word(NamedTuple):
    """A word of the report and what it stands for."""

    word: str
    meaning: str


LABELS = (
    Word(
        "follows S⁻¹",
        "The row contains an S⁻¹ component (below); the least-squares row alone predicts it, held "
        "out, better than each rival family with all its columns (bootstrap lower bound over "
        "contexts above 0); it explains more than 1 % of the query-centred variance; and the "
        "re-paired twin contexts agree. The inversion index then says whether it is OLS, partly "
        "inverted (as ridge or a few gradient steps are), or not separable.",
    ),
    Word(
        "contains an S⁻¹ component",
        "Corrected p at most .05, a positive coefficient in every fold, and a held-out unique / "
        "explained share of at least .10, all beyond the baseline M0*.",
    ),
    Word(
        "bilinear scores with a fixed metric",
        "The score is a dot product of query and example under one matrix for all contexts, or, "
        "the same thing on scores, the log of a Gaussian kernel: one gradient step and a kernel "
        "cannot be told apart here.",
    ),
    Word("kernel or nearest", "The score falls with the distance from query to example."),
    Word("lexical", "The score follows how alike the printed numerals are as strings."),
    Word("positional", "The score follows the place in the prompt, not its numbers."),
    Word("online learner", "The row of a learner that passes once over the examples in order."),
    Word(
        "none detected",
        "No row passed. The minimum detectable effect says how large a share would have been "
        "found 90 % of the time in these very rows.",
    ),
    Word(
        "not distinguishable from the untrained twin",
        "A twin with the same shape and no training passes the same rule, so that training "
        "cannot be the reason.",
    ),
    Word(
        "not assessable",
        "The question cannot be answered with these data: the model's answers do not beat the "
        "mean (the gate), the design cannot identify the row, there is one feature (then every "
        "row that is linear in x is the OLS row up to its sign), or there are too few contexts. "
        "The rows are shown as description only.",
    ),
    Word("none", "Said of one row: the rules name nothing in it."),
    Word(
        "design cannot identify",
        "Said of one row: on these contexts even a planted, pure OLS row would stay below a "
        "unique / explained share of .20.",
    ),
    Word("preview", "Fewer contexts than a verdict needs, or lower precision: do not cite it."),
)

BEHAVIOUR = (
    Word(
        "nearest to NAME",
        "The answers lie nearest to those of this predictor, the simplest of its kin that the "
        "intervals do not tell apart; the sentence lists the others.",
    ),
    Word(
        "not separable among NAMES",
        "The intervals do not tell these predictors apart, and no name can speak for all of them.",
    ),
    Word(
        "does not beat the mean",
        "The held-out error is not below that of always answering the mean of the examples. Then "
        "attention is not assessed: the model does not do the task.",
    ),
)

MEASURES = (
    Word(
        "row",
        "The scaled attention scores before the softmax, from the place that predicts the "
        "answer's first digit or sign to the tokens of each example: one number an example, the "
        "mean over the tokens of the chosen part (x, y, separator, all).",
    ),
    Word(
        "OLS row",
        "1/N + (x_q - mean)' S⁻¹ (x_i - mean), S the scatter of the prompt's own examples: the "
        "weight that least squares gives to each example.",
    ),
    Word(
        "query-centred",
        "Centred over the examples and over the queries of one context. It removes what does not "
        "depend on the query; the test looks at nothing else.",
    ),
    Word(
        "does not see the query",
        "A row whose query-centred variance is below one millionth of the largest: counted, not "
        "tested, hatched in the map.",
    ),
    Word(
        "unique share of variance",
        "(SSE(M0*) - SSE(M1)) / SST, held out: the share of what depends on the query that the OLS "
        "row explains beyond all rivals. The minimum detectable effect is in the same unit.",
    ),
    Word(
        "unique / explained",
        "(SSE(M0*) - SSE(M1)) / (SST - SSE(M1)), held out: of what baseline and OLS row explain "
        "together, the share that only the OLS row explains. It can fall below 0.",
    ),
    Word(
        "share of the reproducible part",
        "Each context is run twice with fresh y, noise and order; only what the two runs share "
        "counts. The OLS share of that.",
    ),
    Word(
        "inversion index",
        "Coefficient on the weakest eigen-direction of the examples over that on the strongest: "
        "1 for OLS, near 0 for a dot product or one gradient step.",
    ),
    Word("T", "Mean over its standard error of the log ratio of held-out errors, over contexts."),
    Word(
        "corrected p",
        "The share of sign flips of whole contexts in which the largest T of all rows, token "
        "parts and hypotheses reaches this T.",
    ),
    Word(
        "the row test's best row",
        "Of all heads, layer sums and token parts the row with the largest T: among those that "
        "follow the hypothesis, else among those that contain it, else among all. Heads that are "
        "chosen otherwise are said with how they were chosen: by what a hypothesis alone explains "
        "of a row or of what a head writes, or by what changing them does.",
    ),
    Word("M0*", "The frozen set of rival columns that the OLS row must add something to."),
    Word(
        "untrained twin",
        "The same architecture with its weights made afresh or shuffled. Score-scale-matched: its "
        "scores spread as far as the trained model's, so that it can fail the test.",
    ),
    Word("KV group", "Heads that share their keys and values are not independent evidence."),
    Word("[low, high]", "A two-sided 95 % interval; contexts are the resampled unit."),
)
