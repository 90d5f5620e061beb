"""The first line of a study: what the model does, the effect, its controls, in one sentence."""

from collections.abc import Mapping
from typing import Any

from analysis.number_text import interval_text, is_missing, p_text, share_text

Result = Mapping[str, Any]


def headline(result: Result) -> str:
    """One sentence: behaviour, label, the best least-squares row and that of every twin."""
    task = result["task"]
    label = result["verdict"]["label"]
    preview = "Preview: " if result.get("preview") else ""
    fed = f"{preview}{result['model']['name']}, {fed_words(task)}"
    answers = answer_words(result["behaviour"])
    joined = (
        f"attention is {label}"
        if label == "not assessable"
        else f"the verdict on attention is: {label}"
    )
    if task["features"] == 1 and task["data"] is None:
        return f"{fed}: {answers}; attention is {label} with one feature."
    if not result["design"]["identifies"]:
        return f"{fed}: {answers}; attention is {label}: these contexts cannot tell."
    rows = [f"the row test's best least-squares row {row_words(result['row_test'])}"]
    least = result["design"]["mde"]
    if label != "not assessable" and not is_missing(least):
        rows.append(f"{share_text(least)} would have been found")
    rows += [f"{twin['kind']} twin {row_words(twin['row_test'])}" for twin in result["twins"]]
    return f"{fed}: {answers}; {joined} ({'; '.join(rows)})."


def fed_words(task: Mapping[str, Any]) -> str:
    """What was fed, in a few words."""
    if task["data"] is not None:
        return f"{task['data']}, {task['examples']} examples"
    shape = "1 feature" if task["features"] == 1 else f"{task['features']} features"
    condition = "" if task["features"] == 1 else f", condition {task['condition']:g}"
    return f"{shape}{condition}, {task['examples']} examples"


def answer_words(behaviour: Mapping[str, Any]) -> str:
    """How the answers stand to the mean and to the nearest example, and what they resemble."""
    label = behaviour["verdict"]
    if label.startswith("not assessable"):
        return f"the answers are {label}"
    if not behaviour["beats_mean"]:
        return "the answers do not beat the mean"
    words = "the answers beat the mean"
    words += "" if behaviour["beats_nearest"] else " but not the nearest example"
    return f"{words} and are {label}" if label.startswith("nearest") else words


def row_words(entries: list[Mapping[str, Any]]) -> str:
    """Place, unique share with interval and corrected p of the least-squares entry."""
    found = next((entry for entry in entries if entry["hypothesis"] == "ols"), None)
    if found is None:
        return "was not tested"
    if is_missing(found["layer"]):
        return "none, since no row sees the query"
    head = "sum" if found["head"] < 0 else f"H{found['head']}"
    share = interval_text(found["unique_of_variance"])
    return (
        f"L{found['layer']}{head} on {found['part']}: unique share of variance {share}, "
        f"corrected p {p_text(found['p_corrected'])}"
    )
