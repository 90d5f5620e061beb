"""HatLens: what a pretrained transformer does with the examples in its prompt.

    import hatlens as hl

    run = hl.probe("smollm2-135m", contexts=16, twins=["shuffled"])
    print(run.sentence)
    run.tables["row_test"]      # pandas DataFrame
    run.rows()                  # xarray Dataset

Names are loaded when they are first used, so that ``import hatlens`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.bank import BANK, FAMILIES, Hypothesis, hypothesis_named, predict, rows, scores
    from analysis.design import ContextArrays
    from analysis.inference import Interval
    from analysis.row_test import RowTest, row_test
    from hatlens.comparison.library import Comparison, read_comparison, similarity
    from hatlens.config import StudyConfig
    from hatlens.export import export_rows
    from hatlens.library import Run, analyse, probe, read_run
    from hatlens.pattern_shapes import Patterns
    from hatlens.prompt_patterns import patterns
    from probes.capture import Capture, capture
    from probes.head_names import Head, HeadGrid, parse_heads
    from probes.head_values import HeadValues, head_grid, head_values
    from probes.interventions import replace_heads
    from probes.models import LoadedModel, load_model
    from probes.rows import context_rows
    from probes.twins import TWINS, make_twin
    from prompts.contexts import Context, ContextSet, draw_contexts
    from prompts.design import Design
    from prompts.refusal import Refusal
    from prompts.tables import read_table, table_contexts

_HOME = {
    "analysis.bank": (
        "BANK", "FAMILIES", "Hypothesis", "hypothesis_named", "predict", "rows", "scores",
    ),
    "analysis.design": ("ContextArrays",),
    "analysis.inference": ("Interval",),
    "analysis.row_test": ("RowTest", "row_test"),
    "hatlens.config": ("StudyConfig",),
    "hatlens.export": ("export_rows",),
    "hatlens.library": ("Run", "analyse", "probe", "read_run"),
    "hatlens.pattern_shapes": ("Patterns",),
    "hatlens.prompt_patterns": ("patterns",),
    "hatlens.comparison.library": ("Comparison", "read_comparison", "similarity"),
    "probes.capture": ("Capture", "capture"),
    "probes.head_names": ("Head", "HeadGrid", "parse_heads"),
    "probes.head_values": ("HeadValues", "head_grid", "head_values"),
    "probes.interventions": ("replace_heads",),
    "probes.models": ("LoadedModel", "load_model"),
    "probes.rows": ("context_rows",),
    "probes.twins": ("TWINS", "make_twin"),
    "prompts.contexts": ("Context", "ContextSet", "draw_contexts"),
    "prompts.design": ("Design",),
    "prompts.refusal": ("Refusal",),
    "prompts.tables": ("read_table", "table_contexts"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BANK", "FAMILIES", "TWINS", "Capture", "Comparison", "Context", "ContextArrays", "ContextSet",
    "Design", "Head", "HeadGrid", "HeadValues", "Hypothesis", "Interval", "LoadedModel",
    "Patterns", "Refusal", "RowTest", "Run", "StudyConfig", "analyse", "capture", "context_rows",
    "draw_contexts", "export_rows", "head_grid", "head_values", "hypothesis_named",
    "load_model", "make_twin", "parse_heads", "patterns", "predict", "probe", "read_comparison",
    "read_run", "read_table", "replace_heads", "row_test", "rows", "scores", "similarity",
    "table_contexts",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hatlens' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
