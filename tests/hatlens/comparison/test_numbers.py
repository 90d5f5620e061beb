"""What runs answer to regression lines: distances to y and to least squares, worked by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.numbers import READ, numbers_of, read_number
from hatlens.comparison.numbers_result import absolute_error, numbers_table
from hatlens.comparison.regression import regression_contexts
from hatlens.comparison.stored import Stored
from hatlens.comparison.variants import TRAINED, Variant
from hatlens.store import RunFolder
from prompts.numerals import codec_named

REGRESSION = {"task": "regression", "demos": 6, "queries": 40, "sets": 2, "codec": "decimal"}


def config(**changed: Any) -> SimilarityConfig:
    return build_similarity({**REGRESSION, **changed})


def test_least_squares_and_the_mean_are_those_of_the_demonstrations_shown() -> None:
    context = regression_contexts(config()).contexts[1]
    for used in (6, 4):
        found = numbers_of(config(), 1, used)
        assert found is not None
        design = np.column_stack([np.ones(used), context.x[:used]])
        weights = np.linalg.lstsq(design, context.y[:used], rcond=None)[0]
        asked = np.column_stack([np.ones(READ), context.queries[:READ]])
        assert_allclose(found.least_squares, asked @ weights, atol=1e-9)
        assert_allclose(found.mean, np.full(READ, context.y[:used].mean()))
        assert_allclose(found.target, context.targets[:READ])


def test_labels_have_no_numbers(task: Path) -> None:
    assert numbers_of(build_similarity({"task": str(task)}), 0, 4) is None


@pytest.mark.parametrize(
    ("text", "mark", "number"),
    [
        (" 1.25", "", 1.25),
        (" 1.25\n", "", 1.25),
        ("1.25<|im_end|>", "<|im_end|>", 1.25),
        ("1.25<|im_end|>", "", np.nan),
        (" 1.2", "", np.nan),
        (" one", "", np.nan),
    ],
)
def test_an_answer_is_a_number_of_the_codec_or_none(text: str, mark: str, number: float) -> None:
    assert_allclose(read_number(text, codec_named("decimal"), mark), number)


def stored(tmp_path: Path, cells: list[dict[str, Any]]) -> Stored:
    folder = RunFolder(tmp_path)
    folder.update_manifest(gold=[[0, 0]] * len(cells))
    whole = [{"failed": np.array(""), **cell} for cell in cells]
    return Stored(folder, Variant(TRAINED), dict(enumerate(whole)))


def cell(**numbers: list[float]) -> dict[str, Any]:
    return {f"number/{name}": np.array(values) for name, values in numbers.items()}


def test_distances_by_hand(tmp_path: Path) -> None:
    nan = np.nan
    sets = [
        cell(
            target=[1.0, 2.0],
            least_squares=[1.5, 2.0],
            mean=[2.0, 2.0],
            zsl=[nan, 4.0],
            icl=[1.0, 3.0],
            ft=[1.0, 1.0],
        ),
        cell(
            target=[0.0, -1.0],
            least_squares=[0.0, -2.0],
            mean=[1.0, 1.0],
            zsl=[0.0, nan],
            icl=[1.0, -2.0],
            ft=[0.0, -1.0],
        ),
    ]
    model = stored(tmp_path, sets)
    found = absolute_error(config(), model)
    assert found is not None
    runs = {name: (one["y"].estimate, one["unread"]) for name, one in found["runs"].items()}
    # zsl: |4 - 2| and |0 - 0|; icl: 0, 1, 1, 1; ft: 0, 1, 0, 0.
    assert runs == {"zsl": (1.0, 2), "icl": (0.75, 0), "ft": (0.25, 0)}
    # To least squares, icl: .5, 1, 1, 0.
    assert found["runs"]["icl"]["least_squares"].estimate == pytest.approx(0.625)
    assert found["least_squares"].estimate == pytest.approx((0.5 + 0 + 0 + 1) / 4)
    assert found["mean"].estimate == pytest.approx((1 + 0 + 1 + 2) / 4)
    # icl to ft: 0, 2, 1, 1.
    assert found["icl_to_ft"].estimate == pytest.approx(1.0)
    assert found["runs"]["icl"]["y"].low <= 0.75 <= found["runs"]["icl"]["y"].high
    table = numbers_table(model)["numbers"]
    assert list(table.columns[:4]) == ["set", "query", "target", "least_squares"]
    assert table["icl"].tolist() == [1.0, 3.0, 1.0, -2.0]


def test_cells_without_numbers_have_no_error(tmp_path: Path) -> None:
    for cells in ([{"labels/zsl": np.zeros((2, 1, 2))}], []):
        model = stored(tmp_path, cells)
        assert absolute_error(config(), model) is None
        assert numbers_table(model) == {}
