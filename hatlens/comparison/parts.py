"""What a comparison may ask of the trained model beside its three runs: one line each."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pandas as pd
from numpy.typing import NDArray

from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.dose import dose_cells, dose_result, dose_table, run_dose
from hatlens.comparison.feed import Fed, Source
from hatlens.comparison.generalisation import generalisation_cells, run_generalisation
from hatlens.comparison.generalisation_result import generalisation_result, generalisation_table
from hatlens.comparison.left_out import kate_result, left_out_cells, left_out_table, run_left_out
from hatlens.comparison.orders import order_cells, orders_result, run_orders
from hatlens.comparison.task_vector import run_vector, vector_cells
from hatlens.comparison.task_vector_result import vector_result, vector_table
from hatlens.comparison.variants import TRAINED, Variant, cell_name
from hatlens.progress import Report
from hatlens.store import RunFolder
from probes.models import LoadedModel

Arrays = Mapping[str, NDArray[Any]]
ORDERS, LEFT_OUT = "order of the demonstrations", "demonstrations left out in turn"
"""What their progress is called."""


class Bench(NamedTuple):
    """What a part is run with. `rate`: of the sets' own fine-tunings."""

    config: SimilarityConfig
    folder: RunFolder
    source: Source
    loaded: LoadedModel
    fed: Fed
    rate: float
    report: Report


class Part(NamedTuple):
    """`cells`: names in the order of the sets, none where the part is not asked for. `run`: the
    arrays of one. `result`: what ``--json`` prints of them, None where it is not asked for.
    """

    cells: Callable[[SimilarityConfig], list[str]]
    run: Callable[[Bench, int], Arrays]
    result: Callable[[SimilarityConfig, RunFolder], Any]
    tables: Callable[[SimilarityConfig, RunFolder], dict[str, pd.DataFrame]]


def no_tables(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """No table of its own."""
    return {}


def _orders(bench: Bench, place: int) -> Arrays:
    bench.report(ORDERS, 0, 1)
    arrays = run_orders(bench.config, bench.loaded, bench.fed.sets[place], bench.rate)
    bench.report(ORDERS, 1, 1)
    return arrays


def _left_out(bench: Bench, place: int) -> Arrays:
    bench.report(LEFT_OUT, 0, 1)
    used = len(bench.fed.sets[place].prompts.demonstrations)
    arrays = run_left_out(bench.config, bench.source, bench.loaded, used)
    bench.report(LEFT_OUT, 1, 1)
    return arrays


def _vector(bench: Bench, place: int) -> Arrays:
    return run_vector(bench.config, bench.source, bench.loaded, bench.fed.sets[place], bench.report)


def _dose(bench: Bench, place: int) -> Arrays:
    own = bench.folder.read_arrays(cell_name(Variant(TRAINED), place))
    return run_dose(bench.config, bench.loaded, bench.fed.sets[place], own, bench.report)


def _generalisation(bench: Bench, place: int) -> Arrays:
    return run_generalisation(bench.config, bench.loaded, place, bench.report)


PARTS: Mapping[str, Part] = {
    "order_sensitivity": Part(order_cells, _orders, orders_result, no_tables),
    "kate": Part(left_out_cells, _left_out, kate_result, left_out_table),
    "task_vector": Part(vector_cells, _vector, vector_result, vector_table),
    "dose": Part(dose_cells, _dose, dose_result, dose_table),
    "generalisation": Part(
        generalisation_cells, _generalisation, generalisation_result, generalisation_table
    ),
}
"""Every part, by its key in the result."""


def planned_cells(config: SimilarityConfig) -> list[str]:
    """The cells of every part that is asked for."""
    return [name for part in PARTS.values() for name in part.cells(config)]


def run_parts(bench: Bench) -> None:
    """Every cell of every part that is not there yet."""
    for part in PARTS.values():
        cells = part.cells(bench.config)
        for place, name in enumerate(cells):
            if not bench.folder.has(name):
                several = f"set {place + 1} of {len(cells)}: " if len(cells) > 1 else ""
                told = bench._replace(report=_named(bench.report, several))
                bench.folder.write_arrays(name, part.run(told, place))


def _named(report: Report, before: str) -> Report:
    """The same reporter, with words before each stage's own name."""
    return lambda stage, done, total: report(f"{before}{stage}", done, total)


def part_results(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any]:
    """What each part found, from its cells alone."""
    return {key: part.result(config, folder) for key, part in PARTS.items()}


def part_tables(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """The tables of every part that was run."""
    found: dict[str, pd.DataFrame] = {}
    for part in PARTS.values():
        found |= part.tables(config, folder)
    return found
