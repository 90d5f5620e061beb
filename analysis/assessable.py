"""Whether rows may be judged on these contexts at all, and whether the judgement is a preview."""

import math

LEVEL = 0.05
LEAST_CONTEXTS = math.ceil(math.log2(1 / LEVEL))
VERDICT_CONTEXTS = 64
VERDICT_QUERIES = 4


def not_assessable(units: int, queries: int, examples: int, features: int) -> str:
    """Why attention cannot be judged on such contexts, one sentence; empty where it can."""
    if features == 1:
        return (
            "with one feature and an intercept every row that is linear in x correlates +1 or -1 "
            "with the least-squares row; needed at least 2 features"
        )
    if examples <= features:
        return (
            f"{examples} examples for {features} features: only the minimum-norm row exists; "
            f"needed at least {3 * features} examples"
        )
    if examples < 3 * features:
        return (
            f"{examples} examples for {features} features: needed at least {3 * features} examples"
        )
    if queries < 2:
        return (
            f"{queries} query a context: whether a row sees the query cannot be told; needed at "
            f"least 2, and {VERDICT_QUERIES} for a verdict"
        )
    if units < LEAST_CONTEXTS:
        return (
            f"{_contexts(units)}: the smallest p by sign flips is 1/{2**units}; "
            f"needed at least {LEAST_CONTEXTS} contexts, and {VERDICT_CONTEXTS} for a verdict"
        )
    return ""


def preview(units: int, queries: int) -> str:
    """Why the result is a preview and no verdict; empty where it is none."""
    reasons = []
    if units < VERDICT_CONTEXTS:
        reasons.append(f"{_contexts(units)} where a verdict needs {VERDICT_CONTEXTS}")
    if queries < VERDICT_QUERIES:
        reasons.append(f"{queries} queries a context where a verdict needs {VERDICT_QUERIES}")
    return "; ".join(reasons)


def _contexts(units: int) -> str:
    return f"{units} independent context{'' if units == 1 else 's'}"
