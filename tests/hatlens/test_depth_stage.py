"""`--along`: answers by prefix length, sensitivity and layers, stored and concluded from."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.bank import hypothesis_named, predict
from hatlens.config import build_config
from hatlens.measure import load_configured, tokenize_sets
from hatlens.progress import silent
from hatlens.sets import MAIN, draw_sets, load_set
from hatlens.stages import Bench, depth
from hatlens.stages.depth import lens_answers, prefix_lengths
from hatlens.stages.depth_prefix import prefix_contexts
from hatlens.store import RunFolder
from hatlens.study import analyse_run, run_studies
from probes.layer_readout import layer_readout
from probes.reading import read_context
from prompts.contexts import Context, ContextSet
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context
from tests.hatlens.tiny_study import SETTINGS, added_later

CHANGED = {**SETTINGS, "pairs": 0, "twins": (), "replicate": False}
LENGTHS = [3, 4, 5, 6]


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study to which agreement along the prompt was added."""
    out = tmp_path_factory.mktemp("run") / "study"
    added_later(out, {**CHANGED, "model": str(model)}, "along", {"along": True})
    return out


@pytest.mark.parametrize(
    ("examples", "features", "lengths"),
    [
        (8, 1, [2, 3, 4, 5, 6, 7]),
        (7, 2, LENGTHS),
        (3, 2, []),
        # 16 apart over nine steps: 3, 4.8, 6.6, 8.3, 10.1, 11.9, 13.7, 15.4, 17.2, 19
        (20, 2, [3, 5, 7, 8, 10, 12, 14, 15, 17, 19]),
    ],
)
def test_lengths_by_hand(examples: int, features: int, lengths: list[int]) -> None:
    assert prefix_lengths(examples, features) == lengths


def test_stored_cells_are_those_of_the_model(run: Path, model: Path) -> None:
    """Prompts of n examples are made by hand, and read as any prompt is."""
    config = build_config({**CHANGED, "model": str(model), "along": True})
    study, loaded = draw_sets(config), load_configured(config, silent)
    bench = Bench(config, study, loaded, tokenize_sets(config, study, loaded), RunFolder(run))
    cell = RunFolder(run).read_arrays("along/main/4")
    assert_array_equal(cell["lengths"], LENGTHS)
    main = study.sets[MAIN]
    whole = main.contexts[4]
    for place, n in enumerate(LENGTHS):
        cut = Context(whole.x[:n], whole.y[:n], whole.x[[n]], whole.y[[n]])
        one = ContextSet(
            (cut,), main.codec, main.feature_names, main.target_name, main.middle, main.half_range
        )
        tokens = tokenize_context(one, 0, loaded.tokenizer, layout=bench.layout)
        (reading,) = read_context(loaded, tokens, bench.grammar(), mass=0.99)
        assert_allclose(cell["prefix"][place], reading.mean)
    found = layer_readout(loaded, bench.tokens[MAIN][4])
    assert_allclose(cell["states"], found.states)
    assert_allclose(cell["digits"], found.digits)
    assert cell["slopes"].shape == (3, 2)
    # A tenth of the half range, 4.995, on the grid of hundredths.
    assert float(cell["size"]) == pytest.approx(0.5)


def test_result_and_page(run: Path) -> None:
    found = json.loads((run / "results.json").read_text())["along"]
    assert found["lengths"] == LENGTHS
    assert [one["length"] for one in found["prefix"]] == LENGTHS
    assert [one["layer"] for one in found["layers"]] == [0, 1, 2]
    assert found["refused"] == ""
    page = (run / "report.html").read_text()
    assert 'id="study-1-along"' in page
    assert "Error after the first n examples" in page


def test_a_prompt_of_n_examples_is_held_against_the_next_example(run: Path) -> None:
    """Least squares on the first n printed examples, by numpy, at the next one."""
    main = load_set(RunFolder(run), MAIN)
    assert main is not None
    found = json.loads((run / "results.json").read_text())["along"]
    for one in found["prefix"][1:]:
        n, missed = one["length"], []
        for x, y in zip(main.x, main.y, strict=True):
            design = np.column_stack([np.ones(len(x)), x])
            line = np.linalg.lstsq(design[:n], y[:n], rcond=None)[0]
            missed.append(abs(design[n] @ line - y[n]) * 4.995)
        assert_allclose(one["error"]["ols"]["estimate"], np.mean(missed))


def plant(run: Path) -> None:
    """Least squares in the model's place, in every stored answer; its last layer says it."""
    folder = RunFolder(run)
    main = load_set(folder, MAIN)
    assert main is not None
    ols = hypothesis_named("ols")
    arrays = main.arrays(np.full(main.targets.shape, np.nan))
    said = main.printed_y(predict(ols, arrays))
    cuts = prefix_contexts(main, np.array(LENGTHS), np.full((8, 4), np.nan))
    prefix = main.printed_y(np.stack([predict(ols, one)[:, 0] for one in cuts], axis=1))
    rng = np.random.default_rng(0)
    for c in range(8):
        # Both scales are the same for x and y, so slopes need no unit; one x moves at a time.
        slopes = np.empty((3, 2))
        for j in range(2):
            ups = [arrays._replace(queries=arrays.queries + s * np.eye(2)[j]) for s in (1, -1)]
            up, down = (predict(ols, one)[c] for one in ups)
            slopes[:, j] = (up - down) / 2
        states = rng.normal(size=(3, 3, 16))
        states[:, 2] = said[c][:, None] * (np.arange(16) == 5)
        digits = np.full((3, 3, 10), 0.1)
        digits[:, 2] = np.eye(10)[np.clip(said[c].astype(int), 0, 9)]
        name = f"along/main/{c}"
        changed = {"prefix": prefix[c], "slopes": slopes, "states": states, "digits": digits}
        folder.write_arrays(name, {**folder.read_arrays(name), **changed})
        sure = {"values": said[c][:, None], "probabilities": np.ones((3, 1))}
        name = f"reading/main/{c}"
        folder.write_arrays(name, {**folder.read_arrays(name), **sure, "unexplored": np.zeros(3)})


def test_planted_least_squares_is_found_in_every_measure(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "planted"
    shutil.copytree(run, out)
    plant(out)
    analyse_run(out)
    found = json.loads((out / "results.json").read_text())["along"]
    for one in found["prefix"]:
        assert_allclose(one["error"]["model"]["estimate"], one["error"]["ols"]["estimate"])
    agrees = {"ilwd_share": 0, "sim_w": 1, "sensitivity_cosine": 1, "sensitivity_l2": 0, "sim_e": 1}
    for name, value in agrees.items():
        assert_allclose(found["measures"][name]["ols"]["estimate"], value, atol=1e-9)
        assert found["measures"][name]["best"] == "ols"
    first, _, last = found["layers"]
    assert last["explained"]["estimate"] > 0.99 > 0.5 > first["explained"]["estimate"]
    assert last["nearest"] == "ols"
    assert last["lens_explained"]["estimate"] > 0.8 > 0.5 > first["lens_explained"]["estimate"]
    assert first["numeral"]["estimate"] == pytest.approx(1)
    assert "first after layer 2 (of 2)" in found["sentence"]
    # What the first digit says is off by up to half a unit, the read-out's state is not.
    layers = RunFolder(out).read_tables()["layers"].set_index(["readout", "layer"])["spd"]
    assert layers["lens", 2] > 1e-4 > 1e-6 > layers["ridge", 2]
    table = RunFolder(out).read_tables()["prefix_agreement"]
    ols = table[table["predictor"] == "ols"]
    assert_allclose(ols["spd"], 0, atol=1e-9)
    assert table[table["predictor"] == "model"]["spd"].isna().all()


def test_a_first_digit_is_the_middle_of_its_numbers(run: Path) -> None:
    """3.00 to 3.99: 3.495; half 3, half 5: 4.495; nothing: no number. Signs say nothing."""
    main = load_set(RunFolder(run), MAIN)
    assert main is not None
    digits = np.zeros((1, 1, 3, 10))
    digits[0, 0, 0, 3] = 0.7
    digits[0, 0, 1, [3, 5]] = 0.2
    found = lens_answers(main, build_config(CHANGED), digits)
    assert found is not None
    assert_allclose(main.printed_y(found)[:, 0, 0], [3.495, 4.495, np.nan])
    assert lens_answers(main, build_config({**CHANGED, "codec": "decimal"}), digits) is None


def test_a_family_whose_layers_cannot_be_read_has_the_rest(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise Refusal("needed one stream of states, came Mixer")

    monkeypatch.setattr(depth, "layer_readout", refuse)
    out = tmp_path / "run"
    run_studies([build_config({**CHANGED, "model": str(model), "along": True})], out)
    found = json.loads((out / "results.json").read_text())["along"]
    assert "came Mixer" in found["refused"]
    assert found["layers"] == []
    assert found["measures"]["sim_e"]["ols"] is not None
    assert "layers" not in RunFolder(out).read_tables()
    assert "No layer was read" in (out / "report.html").read_text()
