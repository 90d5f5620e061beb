"""C5: in-context learning and fine-tuning move attention outputs the same way."""

from analysis.claims.beside_twins import NO_TWIN, BesideTwins
from analysis.claims.finding import Finding, not_assessable

MEASURE = "SimAOU (orthogonal)"
MARGIN = 0.05
"""Half of the likeness that 2311.07772 calls a resemblance of GD to ICL (SimAOU .102): where D is
worth less than that over D', what is alike is what all updates share."""


def attention_outputs_finding(one: BesideTwins) -> Finding:
    """The updates' cosine is higher with FT on the same demonstrations than with FT on others.

    one: SimAOU on the parts orthogonal to h_ZSL, mismatched with FT on D'. The effect is the
    difference of cosines, in [-2, 2]. Not assessable where it is undefined or no twin was run.
    Sources: 2212.10559, section 4.3; 2311.07772, section 3.
    """
    figures = f"{MEASURE} {one.words}"
    if not one.defined:
        return not_assessable(f"{MEASURE} {one.undefined}")
    if not one.twins:
        return not_assessable(NO_TWIN, figures=figures)
    return Finding(one.found.difference, one.found.p, MARGIN, figures=figures, beats=one.beats)
