"""SimAM: whether the query attends to its own tokens alike with demonstrations and fine-tuned."""

from analysis.similarity.records import Floats, Runs
from analysis.similarity.vectors import centred, change, cosine, mean_defined


def sim_am(runs: Runs) -> Floats:
    """cos(s_ICL, s_FT), mean over heads, by layer (2212.10559, section 4.3); in [-1, 1].

    Undifferenced scores mostly say that both stay near s_ZSL: shown, never evidence.
    """
    return mean_defined(cosine(runs.icl.scores, runs.ft.scores))


def sim_am_before(runs: Runs) -> Floats:
    """cos(s_ICL, s_ZSL), mean over heads, by layer: `sim_am` before fine-tuning (2212.10559)."""
    return mean_defined(cosine(runs.icl.scores, runs.zsl.scores))


def sim_am_centred(runs: Runs) -> Floats:
    """`sim_am` of scores minus their mean over the tokens, which the softmax does not see."""
    return mean_defined(cosine(centred(runs.icl.scores), centred(runs.ft.scores)))


def sim_am_before_centred(runs: Runs) -> Floats:
    """`sim_am_before` of scores minus their mean over the tokens."""
    return mean_defined(cosine(centred(runs.icl.scores), centred(runs.zsl.scores)))


def sim_am_delta(runs: Runs) -> Floats:
    """cos(s_ICL - s_ZSL, s_FT - s_ZSL), mean over heads, by layer (2311.07772, section 3)."""
    icl, ft = (change(one.scores, runs.zsl.scores) for one in (runs.icl, runs.ft))
    return mean_defined(cosine(icl, ft))


def sim_am_delta_centred(runs: Runs) -> Floats:
    """`sim_am_delta` of differences minus their mean over the tokens: the primary variant."""
    icl, ft = (centred(change(one.scores, runs.zsl.scores)) for one in (runs.icl, runs.ft))
    return mean_defined(cosine(icl, ft))
