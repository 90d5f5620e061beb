"""The sentences and lists of the report: the verdict lines, the design gate, how it was run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.number_text import (
    NOT_ASSESSABLE,
    UNDEFINED,
    bytes_text,
    interval_text,
    is_missing,
    number_text,
    p_text,
    percent_text,
    seconds_text,
)
from analysis.report_tables import ols_entry
from analysis.share_map import SHARE, where_text

Result = Mapping[str, Any]
MOST_LISTED = 16
"""Longer lists of settings are shown by their ends."""


class Headline(NamedTuple):
    """The first lines about one study; `preview` is empty, or the reason.

    lead and rest: the verdict's sentence, cut behind the one that speaks of attention, without
    the list of what it rests on where the page has that as a table.
    """

    study: str
    label: str
    assessable: bool
    preview: str
    lead: str
    rest: str
    behaviour_label: str
    behaviour: str
    twins: tuple[str, ...]


class Fact(NamedTuple):
    """A name, its value as text, and what it means where that is not plain."""

    name: str
    value: str
    note: str = ""


class Facts(NamedTuple):
    """A captioned list of facts."""

    caption: str
    facts: tuple[Fact, ...]


def headline(title: str, result: Result, errors: pd.DataFrame | None = None) -> Headline:
    """Verdict, behaviour and twins of one study, as the page's first lines.

    errors: the ``behaviour`` table, whose errors are in printed units.
    """
    verdict = result.get("verdict") or {}
    label = str(verdict.get("label") or NOT_ASSESSABLE)
    assessable = is_assessable(result)
    sentence = str(verdict.get("sentence") or f"Attention: {label}.")
    behaviour_label, behaviour = _behaviour(result, sentence, errors)
    return Headline(
        title,
        label,
        assessable,
        _preview(result),
        *lead_and_rest(without_list(sentence) if verdict.get("rests_on") else sentence),
        behaviour_label,
        behaviour,
        tuple(_twin_line(twin) for twin in result.get("twins") or ()),
    )


def without_list(sentence: str) -> str:
    """A verdict's text without its list of what it rests on; what was not measured stays."""
    found, _, listed = sentence.partition(" It rests on ")
    missing = listed.partition(" Not measured: ")[2]
    return f"{found} Not measured: {missing}" if missing else found


def lead_and_rest(sentence: str) -> tuple[str, str]:
    """A verdict's text up to and with the first sentence that names attention, and what follows.

    Without such a sentence the lead is the first one.
    """
    pieces = re.split(r"(?<=[.!?])\s+(?=[A-Z])", sentence.strip())
    named = (place for place, piece in enumerate(pieces) if "ttention" in piece)
    cut = next(named, 0) + 1
    return " ".join(pieces[:cut]), " ".join(pieces[cut:])


def is_assessable(result: Result) -> bool:
    """Whether the study ends in a verdict on attention."""
    label = str((result.get("verdict") or {}).get("label") or NOT_ASSESSABLE)
    return not label.startswith(NOT_ASSESSABLE)


def design_gate(result: Result) -> Facts:
    """Could this design have shown an OLS row at all?"""
    design, rows = result.get("design") or {}, result.get("rows") or {}
    known = [
        Fact(
            "Attainable share",
            interval_text(design.get("attainable")),
            "unique / explained that a planted, pure OLS row reaches on these very contexts; "
            "below 0.20 the design cannot identify it",
        ),
        Fact("The design identifies OLS", number_text(design.get("identifies"))),
        Fact(
            "Minimum detectable effect",
            interval_text(design.get("mde")),
            "share of variance at which 90 % of OLS rows planted into the real rows are found",
        ),
        Fact("Rows tested", number_text(rows.get("tested"))),
        Fact("Rows that do not see the query", number_text(rows.get("blind")), "not tested"),
    ]
    if "outside" in rows:
        unseen = number_text(rows["outside"])
        known.append(Fact("Rows that do not see every example", unseen, "not tested"))
    more = _flat({k: v for k, v in design.items() if k not in ("attainable", "identifies", "mde")})
    pairs = _flat(result.get("pairs") or {}, prefix="Re-paired twin contexts")
    weights = _flat(result.get("weights") or {}, prefix="Softmax weights of the best row")
    return Facts("What this design can show", (*known, *more, *pairs, *weights))


def gate(result: Result) -> Facts:
    """The behaviour gate: how many answers could be read, and whom they beat."""
    behaviour = result.get("behaviour") or {}
    left_out = ("verdict", "sentence", "error")
    known = {name: value for name, value in behaviour.items() if name not in left_out}
    return Facts("The gate: answers that could be read, and what they beat", tuple(_flat(known)))


def family_counts(result: Result) -> str:
    """How many rows each family alone explains best; empty where it was not counted."""
    counts = (result.get("verdict") or {}).get("families") or {}
    text = ", ".join(f"{name} {number_text(count)}" for name, count in counts.items())
    return f"Rows that each family alone explains best: {text}." if text else ""


def correction(result: Result, *, parts: Sequence[str], hypotheses: int) -> Facts:
    """What was counted in the correction, and what was not."""
    counted = dict(result.get("correction") or {})
    task, contexts = result.get("task") or {}, (result.get("manifest") or {}).get("contexts") or {}
    for known in ("rows", "hypotheses"):
        counted.pop(known, None)
    for name, value in (("flips", task.get("flips")), ("unit", contexts.get("unit"))):
        if name not in counted and value is not None:
            counted[name] = value
    tried = counted.pop("also_tried", None)
    parts_text = ", ".join(parts)
    lines = [
        Fact(
            "Rows",
            number_text((result.get("rows") or {}).get("tested")),
            "heads and layer sums, each with every token part",
        ),
        Fact("Token parts", parts_text or UNDEFINED),
        Fact("Hypotheses", number_text(hypotheses)),
        *_flat(counted),
        Fact(
            "Tried besides",
            _value("also_tried", tried)
            if tried
            else "not recorded in this study; layouts, codecs or models tried "
            "elsewhere are not in the correction",
        ),
    ]
    return Facts("What was counted in the correction", tuple(lines))


def run_facts(result: Result) -> tuple[Facts, ...]:
    """Model, settings, parity gate, cost and everything that the manifest holds."""
    sections = [
        ("Model", result.get("model")),
        ("Settings", result.get("task")),
        ("Parity gate", result.get("parity")),
        ("Time and memory", result.get("cost")),
    ]
    manifest = dict(result.get("manifest") or {})
    loose = {k: v for k, v in manifest.items() if not isinstance(v, Mapping)}
    sections += [(_words(k), v) for k, v in manifest.items() if isinstance(v, Mapping)]
    loose.update({"run": result["run"]} if result.get("run") else {})
    sections.append(("Run", loose))
    return tuple(
        Facts(name, tuple(_named(values) if name == "Versions" else _flat(values)))
        for name, values in sections
        if values
    )


def warnings(result: Result) -> tuple[str, ...]:
    """What the run warned about; one sentence each."""
    found = result.get("warnings") or ()
    return (found,) if isinstance(found, str) else tuple(str(line) for line in found)


def _preview(result: Result) -> str:
    preview = result.get("preview")
    if not preview:
        return ""
    if isinstance(preview, Mapping):
        preview = preview.get("reason") or True
    return preview if isinstance(preview, str) else "fewer contexts or lower precision"


def _behaviour(result: Result, said: str, table: pd.DataFrame | None) -> tuple[str, str]:
    """Label and sentence; where the verdict has said it already, the errors with intervals."""
    behaviour = result.get("behaviour") or {}
    verdict = behaviour.get("verdict")
    if isinstance(verdict, Mapping):
        label, sentence = str(verdict.get("label") or ""), verdict.get("sentence")
    else:
        label, sentence = str(verdict or NOT_ASSESSABLE), behaviour.get("sentence")
    if sentence and str(sentence) not in said:
        return label, str(sentence)
    errors = behaviour.get("error") or {}
    if table is not None and len(table):
        spans = zip(table["error"], table["error_low"], table["error_high"], strict=True)
        errors = dict(zip(table["predictor"], spans, strict=True))
    known = [name for name in ("model", "mean", "nearest") if name in errors]
    text = ", ".join(f"{name} {interval_text(errors[name])}" for name in known)
    parsed = percent_text(behaviour.get("parse_rate"))
    return label, f"Held-out error: {text or UNDEFINED}. Answers that could be read: {parsed}."


def _twin_line(twin: Mapping[str, Any]) -> str:
    if twin.get("sentence"):
        return str(twin["sentence"])
    name = twin_name(twin.get("kind"), twin.get("seed"))
    entry = ols_entry(twin.get("row_test") or ())
    if entry is None:
        return f"{name}: the OLS row was not tested."
    if is_missing(entry.get("layer")) or is_missing(entry.get("head")):
        return f"{name}: no row sees the query, so none could be tested."
    share = interval_text(entry.get(SHARE))
    p = p_text(entry.get("p_corrected"))
    says = f"; {entry['says']}" if entry.get("says") else ""
    where = f"the row test's best OLS row {where_text(entry)}"
    return f"{name}: {where}, unique share {share}, p {p}{says}."


def twin_name(kind: Any, seed: Any) -> str:
    """How a twin is called on the page: ``twin, shuffled (seed 1)``."""
    return f"Twin, {kind}" + ("" if is_missing(seed) else f" (seed {number_text(seed)})")


def _flat(values: Mapping[str, Any], *, prefix: str = "") -> list[Fact]:
    """One fact for each leaf of nested settings, named by its path."""
    facts: list[Fact] = []
    for key, value in values.items():
        name = f"{prefix}: {_words(key, first=False)}" if prefix else _words(key)
        if isinstance(value, Mapping) and not {"estimate", "low", "high"} <= set(value):
            facts += _flat(value, prefix=name)
        else:
            plain = name.removesuffix(" seconds").removesuffix(" bytes")
            facts.append(Fact(plain, _value(key, value)))
    return facts


def _named(values: Mapping[str, Any]) -> list[Fact]:
    """Facts whose keys are names, printed as they are."""
    return [Fact(str(key), _value(str(key), value)) for key, value in values.items()]


def _value(key: str, value: Any) -> str:
    if isinstance(value, (list, tuple)) and not hasattr(value, "estimate"):
        texts = [_value(key, item) for item in value]
        if len(texts) > MOST_LISTED:
            texts = [f"{len(texts)} values: {texts[0]}", *texts[1:3], "...", texts[-1]]
        return ", ".join(texts) or "none"
    if key.endswith("seconds"):
        return seconds_text(value)
    if key.endswith("bytes"):
        return bytes_text(value)
    if key.endswith("_rate"):
        return percent_text(value)
    if isinstance(value, Mapping):
        if {"estimate", "low", "high"} <= set(value):
            return interval_text(value)
        return "; ".join(f"{fact.name}: {fact.value}" for fact in _flat(value))
    missing = "not set" if value is None else UNDEFINED
    return interval_text(value, missing=missing)


def _words(key: str, *, first: bool = True) -> str:
    words = key.replace("_", " ")
    return words[:1].upper() + words[1:] if first else words
