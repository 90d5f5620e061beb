"""The first lines of a comparison's page: what the model does, its twins beside it, one picture."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from analysis.figures import Dots, dot_intervals
from analysis.number_text import interval_parts, interval_text, is_missing, number_text, range_text
from analysis.picture import Picture, picture
from analysis.similarity.conditions import CONDITIONS
from analysis.similarity.verdict import NOT_ASSESSABLE, PRIMARY

Result = Mapping[str, Any]
TWINS_SAY = (
    "A rank among two or three twins of a kind describes; a test at .05 needs 19 of them, since p "
    "cannot be below 1 / (twins + 1)."
)


class Headline(NamedTuple):
    """lead: what the model does on the task, with effect, interval and corrected p. rest: what
    the other measures say. twins: one line a kind. setting: how much was shown and asked."""

    lead: str
    rest: str
    label: str
    assessable: bool
    setting: str
    twins: tuple[str, ...]
    picture: Picture | None


def headline(result: Result) -> Headline:
    """The first lines about a comparison."""
    verdict, task = result["verdict"], result["task"]
    lead, _, rest = verdict["sentence"].partition("). ")
    lead = f"{lead})." if rest else lead
    name = f"{result['model']['name']} on {task_name(task['task'])}"
    one = primary(result)
    return Headline(
        f"{name}: {lead[:1].lower()}{lead[1:]}",
        rest,
        verdict["label"],
        verdict["label"] != NOT_ASSESSABLE,
        setting(result),
        tuple(twin_line(kind, some, one) for kind, some in twins_of(result).items()),
        differences(result),
    )


def task_name(task: str) -> str:
    """A task's name; of a path its file alone."""
    return task.replace("\\", "/").rpartition("/")[2]


def setting(result: Result) -> str:
    """Demonstrations, queries, sets and fine-tuning, in a line."""
    task, used = result["task"], result["prompts"]["used"]
    sets = "1 set" if task["sets"] == 1 else f"{task['sets']} sets"
    return (
        f"{sets} of {range_text(used)} demonstrations, {result['prompts']['queries']} queries, "
        f"fine-tuning {task['ft']} at rate {number_text(result['learning_rate']['rate'])}"
    )


def key_of(one: Result) -> str:
    """A measure's key from its name and variant."""
    return f"{one['name']} ({one['variant']})" if one["variant"] else str(one["name"])


def primary(result: Result) -> Result | None:
    """The entry of the measure that the headline rests on."""
    return next((one for one in result["metrics"] if key_of(one) == PRIMARY), None)


def twins_of(result: Result) -> dict[str, list[Result]]:
    """The twins' entries by kind."""
    found: dict[str, list[Result]] = {}
    for one in result["baselines"]:
        if one["kind"] not in CONDITIONS:
            found.setdefault(one["kind"], []).append(one)
    return found


def same_in(twin: Result, one: Result) -> Result | None:
    """The twin's entry of the same measure, position and mismatch."""
    keys = ("name", "variant", "position", "mismatch")
    return next((o for o in twin["metrics"] if all(o[k] == one[k] for k in keys)), None)


def twin_line(kind: str, twins: Sequence[Result], one: Result | None) -> str:
    """What the primary measure is in the twins of a kind, and the model's rank among them."""
    said = group_name(kind, len(twins))
    entries = [found for twin in twins if one and (found := same_in(twin, one))]
    values = [found["difference"] for found in entries]
    known = [v for v in values if not is_missing(interval_parts(v)[0])]
    if one is None or not known:
        return f"{said}: undefined."
    if len(known) == 1:
        figures = interval_text(known[0])
    else:
        ends = [float(interval_parts(value)[0]) for value in known]
        figures = f"from {min(ends):.3f} to {max(ends):.3f}"
    return f"{said}: {figures}; rank p of the model {twin_p_text(one, kind)}."


def group_name(kind: str, twins: int) -> str:
    """A kind of twin, with how many there are where there are several."""
    return f"{kind} twin" if twins == 1 else f"{twins} {kind} twins"


def twin_p_text(one: Result, kind: str) -> str:
    """The rank p of a measure among the twins of a kind."""
    found = (one.get("twin_p") or {}).get(kind)
    return number_text(found["p"]) if found else "undefined"


def differences(result: Result) -> Picture | None:
    """Matched minus mismatched of every measure that is evidence: the model, and its twins."""
    shown = [one for one in result["metrics"] if one["evidence"]]
    shown = [one for one in shown if not is_missing(interval_parts(one["difference"])[0])]
    if not shown:
        return None
    positions = {one["position"] for one in result["metrics"]}
    labels = [
        key_of(one) if len(positions) == 1 else f"{key_of(one)}, {one['position']}" for one in shown
    ]
    groups = [
        dots("the model", [interval_parts(one["difference"]) for one in shown]),
        *(
            dots(picture_name(kind, len(twins)), [over_twins(twins, one) for one in shown])
            for kind, twins in twins_of(result).items()
        ),
    ]
    figure = dot_intervals(
        labels,
        groups,
        axis="matched minus mismatched",
        reference=0.0,
    )
    figure.update_layout(height=110 + (26 + 9 * len(groups)) * len(labels))
    return picture(
        "differences",
        "How much more alike under the same demonstrations than under others",
        "Matched minus mismatched of every measure that is evidence, the model and its untrained "
        "twins, with 95 % intervals; the numbers are in the tables below",
        figure,
    )


def dots(name: str, parts: Sequence[Any]) -> Dots:
    """One group of the picture, with NaN for what is undefined."""
    numbers = [[math.nan if is_missing(one) else float(one) for one in part] for part in parts]
    return Dots(name, *zip(*numbers, strict=True))


def picture_name(kind: str, twins: int) -> str:
    """A twin with its interval, or several with their mean and range."""
    said = group_name(kind, twins)
    return said if twins == 1 else f"{said}, mean and range"


def over_twins(twins: Sequence[Result], one: Result) -> tuple[Any, Any, Any]:
    """One twin's difference with its interval; of several the mean, lowest and highest."""
    entries = [found for twin in twins if (found := same_in(twin, one))]
    parts = [interval_parts(found["difference"]) for found in entries]
    parts = [part for part in parts if not is_missing(part[0])]
    if len(twins) == 1 and parts:
        return parts[0]
    values = [float(part[0]) for part in parts]
    if not values:
        return (math.nan,) * 3
    return sum(values) / len(values), min(values), max(values)
