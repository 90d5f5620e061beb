"""The report: one self-contained HTML page for one or several studies of a run."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import xarray as xr

from analysis import figures, glossary, packed_rows, report_facts, report_tables, share_map
from analysis.answers_figure import answers_scatter
from analysis.number_text import is_missing
from analysis.page import filled
from analysis.picture import Picture, picture, script_json
from analysis.report_parts import parts_of

Entry = Mapping[str, Any]


class StudyView(NamedTuple):
    """Everything that the page shows of one study.

    result: the object that ``hatlens probe --json`` prints, more keys allowed.
    tables: ``row_test``, ``families``, ``behaviour``, ``answers`` and ``agreement``; a table that
    is missing or empty is said to be missing.
    rows: scores (variant, context, query, layer, head, part, example), not centred; NaN where an
    example is not seen. bank_rows: (hypothesis, context, query, example) of the same contexts.
    prompts: the first prompt of each shown context, as printed. opened: layer and head that the
    row picture opens with, None for the best OLS row.
    """

    title: str
    result: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    rows: xr.DataArray
    bank_rows: xr.DataArray
    prompts: Sequence[str]
    opened: tuple[int, int] | None = None


class Variant(NamedTuple):
    """The trained model or one twin: its key in `rows`, its name, its part of the row test."""

    key: str
    name: str
    rows: pd.DataFrame


def render(studies: Sequence[StudyView], *, title: str) -> str:
    """The whole page as text: styles, script, figures and numbers inside, nothing loaded.

    Undefined values (None, NaN) are written as "undefined" or "not assessable", never as 0.
    """
    if not studies:
        raise ValueError("needed at least one study to report, came none")
    return filled(
        "page.html.j2",
        title=title,
        studies=[study_page(view, index) for index, view in enumerate(studies)],
        labels=glossary.LABELS,
        behaviour_labels=glossary.BEHAVIOUR,
        measures=glossary.MEASURES,
        scale=share_map.VIRIDIS,
    )


def study_page(view: StudyView, index: int) -> dict[str, Any]:
    """What the page's template shows of one study."""
    anchor = f"study-{index + 1}"
    result = view.result
    assessable = report_facts.is_assessable(result)
    row_test = view.tables.get("row_test", pd.DataFrame())
    variants = variants_of(row_test)
    parts = list(dict.fromkeys(str(part) for part in row_test.get("part", ())))
    hypotheses = len(set(row_test["hypothesis"])) if len(row_test) else 0
    return {
        "anchor": anchor,
        "headline": report_facts.headline(view.title, result, view.tables.get("behaviour")),
        "warnings": report_facts.warnings(result),
        "parts": parts,
        "ceiling": share_map.share_ceiling(row_test) if variants else 0.2,
        "maps": _maps(anchor, variants, row_test, parts, assessable=assessable),
        "shares": _share_picture(anchor, result),
        "row": _row_data(view, result, variants),
        "tables": _tables(view, variants, assessable=assessable),
        "design": report_facts.design_gate(result),
        "correction": report_facts.correction(result, parts=parts, hypotheses=hypotheses),
        "gate": report_facts.gate(result),
        "family_counts": report_facts.family_counts(result),
        "behaviour": _behaviour_pictures(anchor, view.tables),
        "evidence": report_tables.evidence(result["verdict"].get("rests_on") or ()),
        "more": parts_of(anchor, result, view.tables),
        "prompts": list(view.prompts),
        "run": report_facts.run_facts(result),
        "result_json": json.dumps(plain(result), indent=1, ensure_ascii=False, allow_nan=False),
    }


def variants_of(row_test: pd.DataFrame) -> list[Variant]:
    """The trained model first, then each twin; a twin of several seeds is one variant a seed.

    The key is what `rows` calls the variant: the twin's kind, with ``(seed S)`` behind it where a
    kind comes with several seeds.
    """
    if not len(row_test):
        return []
    found = []
    for kind, of_kind in row_test.groupby("variant", sort=False):
        seeds = list(of_kind["seed"].dropna().unique()) if "seed" in of_kind else []
        for seed in seeds or [None]:
            several = len(seeds) > 1
            rows = of_kind[of_kind["seed"] == seed] if several else of_kind
            key = f"{kind} (seed {int(seed)})" if several else str(kind)
            trained = kind == "trained"
            name = "Trained model" if trained else report_facts.twin_name(kind, seed)
            found.append(Variant(key, name, rows))
    return sorted(found, key=lambda variant: variant.key != "trained")


def plain(value: Any) -> Any:
    """The value with only what JSON knows; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return None if value != value or value in (float("inf"), -float("inf")) else value
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _maps(
    anchor: str,
    variants: Sequence[Variant],
    row_test: pd.DataFrame,
    parts: Sequence[str],
    *,
    assessable: bool,
) -> list[Picture]:
    if not variants:
        return []
    grid, ceiling = share_map.grid_of(row_test), share_map.share_ceiling(row_test)
    pictures = []
    for place, variant in enumerate(variants):
        rows = share_map.ols_rows(variant.rows)
        figure = share_map.share_map(
            rows, grid=grid, parts=parts, ceiling=ceiling, assessable=assessable
        )
        label = f"Map of layers and heads: unique share of the OLS row, {variant.name}"
        width = 44 + 10 * len(grid.columns)
        pictures.append(picture(f"{anchor}-map-{place}", variant.name, label, figure, width=width))
    return pictures


def _share_picture(anchor: str, result: Mapping[str, Any]) -> Picture | None:
    rows = [(label, entry) for label, entry in _ols_beside_twins(result)]
    if not any(not is_missing(report_tables.share_of(entry)[0]) for _, entry in rows):
        return None
    return picture(
        f"{anchor}-shares",
        "The row test's best OLS row, trained and untrained",
        "Dots with intervals: effect sizes of that row of the trained model and of each twin",
        figures.share_intervals(rows),
    )


def _ols_beside_twins(result: Mapping[str, Any]) -> list[tuple[str, Entry]]:
    found = [("Trained model", report_tables.ols_entry(result.get("row_test") or ()))]
    for twin in result.get("twins") or ():
        name = report_facts.twin_name(twin.get("kind"), twin.get("seed"))
        found.append((name, report_tables.ols_entry(twin.get("row_test") or ())))
    return [(name, entry) for name, entry in found if entry is not None]


def _row_data(
    view: StudyView, result: Mapping[str, Any], variants: Sequence[Variant]
) -> str | None:
    """The data of the row picture, with the row to open first: as asked, or the best OLS row."""
    if not view.rows.size:
        return None
    data = packed_rows.rows_for_page(view.rows, view.bank_rows)
    names = {variant.key: variant.name for variant in variants}
    data["variant_name"] = [names.get(key, str(key)) for key in data["variant"]]
    data["map_of"] = [list(names).index(k) if k in names else None for k in data["variant"]]
    best = report_tables.ols_entry(result.get("row_test") or ()) or {}
    opened = {} if view.opened is None else dict(zip(("layer", "head"), view.opened, strict=True))
    data["best"] = plain({name: {**best, **opened}.get(name) for name in ("layer", "head", "part")})
    return script_json(json.dumps(data, allow_nan=False, separators=(",", ":")))


def _tables(
    view: StudyView, variants: Sequence[Variant], *, assessable: bool
) -> dict[str, report_tables.Table | list[report_tables.Table]]:
    result, tables = view.result, view.tables
    singles = ("best", "beside", "families", "alone", "behaviour", "agreement", "answers")
    found: dict[str, Any] = dict.fromkeys(singles)
    caption = "Trained model: the row test's best row of each hypothesis"
    if result.get("row_test"):
        found["best"] = report_tables.best_rows(result["row_test"], caption, assessable=assessable)
    beside = _ols_beside_twins(result)
    if beside:
        found["beside"] = report_tables.beside_twins(beside, assessable=assessable)
    found["twins"] = [
        report_tables.best_rows(
            twin["row_test"],
            f"{report_facts.twin_name(twin.get('kind'), twin.get('seed'))}: "
            "the row test's best row of each hypothesis",
            assessable=assessable,
        )
        for twin in result.get("twins") or ()
        if twin.get("row_test")
    ]
    found["highest"] = [
        report_tables.highest_rows(
            variant.rows,
            f"{variant.name}: the rows with the largest unique OLS share",
            assessable=assessable,
        )
        for variant in variants
    ]
    labels = {v.key: v.name for v in variants}
    makers = {
        "families": lambda frame: report_tables.families(frame, labels, assessable=assessable),
        "alone": lambda frame: report_tables.alone(frame, labels),
        "behaviour": report_tables.behaviour,
        "agreement": report_tables.agreement,
        "answers": report_tables.answers,
    }
    for name, make in makers.items():
        frame = tables.get(name)
        if frame is not None and len(frame):
            found[name] = make(frame)
    return found


def _behaviour_pictures(anchor: str, tables: Mapping[str, pd.DataFrame]) -> list[Picture]:
    makers = (
        ("behaviour", "errors", "Held-out error", figures.error_intervals),
        (
            "behaviour",
            "differences",
            "Paired difference to the model",
            figures.difference_intervals,
        ),
        ("answers", "answers", "Answers against the truth", answers_scatter),
        ("agreement", "agreement", "Agreement with hypotheses", figures.agreement_intervals),
    )
    found = []
    for table, name, title, make in makers:
        frame = tables.get(table)
        if frame is not None and len(frame):
            label = f"{title}; the numbers are in the tables of this section"
            found.append(picture(f"{anchor}-{name}", title, label, make(frame)))
    return found
