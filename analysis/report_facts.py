"""The sentences and lists of the report: the verdict lines, the design gate, how it was run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class Headline(NamedTuple):
    """The first lines about one study; `preview` is empty, or the reason."""

    study: str
    label: str
    assessable: bool
    preview: str
    sentence: str
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


def headline(title: str, result: Result) -> Headline:
    """Verdict, behaviour and twins of one study, as the page's first lines."""
    verdict = result.get("verdict") or {}
    label = str(verdict.get("label") or NOT_ASSESSABLE)
    assessable = is_assessable(result)
    behaviour_label, behaviour = _behaviour(result)
    return Headline(
        title,
        label,
        assessable,
        _preview(result),
        str(verdict.get("sentence") or f"Attention: {label}."),
        behaviour_label,
        behaviour,
        tuple(_twin_line(twin) for twin in result.get("twins") or ()),
    )


def is_assessable(result: Result) -> bool:
    """Whether the study ends in a verdict on attention."""
    label = str((result.get("verdict") or {}).get("label") or NOT_ASSESSABLE)
    return not label.startswith(NOT_ASSESSABLE)


def design_gate(result: Result) -> Facts:
    """Could this design have shown an OLS row at all?"""
    design, rows = result.get("design") or {}, result.get("rows") or {}
    known = (
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
    )
    more = _flat({k: v for k, v in design.items() if k not in ("attainable", "identifies", "mde")})
    pairs = _flat(result.get("pairs") or {}, prefix="Re-paired twin contexts")
    return Facts("What this design can show", (*known, *more, *pairs))


def correction(result: Result, *, parts: Sequence[str], hypotheses: int) -> Facts:
    """What was counted in the correction, and what was not."""
    counted = dict(result.get("correction") or {})
    tried = counted.pop("also_tried", None)
    parts_text = ", ".join(parts)
    lines = [
        Fact("Rows", number_text((result.get("rows") or {}).get("tested")), "heads and layer sums"),
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


def _behaviour(result: Result) -> tuple[str, str]:
    behaviour = result.get("behaviour") or {}
    verdict = behaviour.get("verdict")
    if isinstance(verdict, Mapping):
        label, sentence = str(verdict.get("label") or ""), verdict.get("sentence")
    else:
        label, sentence = str(verdict or NOT_ASSESSABLE), behaviour.get("sentence")
    if sentence:
        return label, str(sentence)
    errors = behaviour.get("error") or {}
    known = {name: errors[name] for name in ("model", "mean", "nearest") if name in errors}
    text = ", ".join(f"{name} {interval_text(value)}" for name, value in known.items())
    parsed = percent_text(behaviour.get("parse_rate"))
    return label, f"The answers: {label}. Held-out error: {text or UNDEFINED}; readable: {parsed}."


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
    return f"{name}: best OLS row {where_text(entry)}, unique share {share}, p {p}{says}."


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
        return ", ".join(_value(key, item) for item in value) or "none"
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
