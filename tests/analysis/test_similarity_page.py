"""What a comparison's page says first, and its figures by layer."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import analysis
from analysis.similarity_demonstrations import beyond_levels, near_part, order_part
from analysis.similarity_figures import _stretches, by_layer_figure, change_by_layer_figure
from analysis.similarity_headline import headline, over_twins, task_name
from analysis.similarity_layers import DARK, layered

NAN = float("nan")


def entry(difference: tuple[float, float, float], **more: Any) -> dict[str, Any]:
    return {
        "name": "SimAOU",
        "variant": "orthogonal",
        "position": "answer",
        "mismatch": "other demonstrations",
        "difference": difference,
        "evidence": True,
        **more,
    }


def result(sentence: str, difference: tuple[float, float, float]) -> dict[str, Any]:
    twins = [
        {"kind": "shuffled", "seed": seed, "metrics": [entry((value, value - 1, value + 1))]}
        for seed, value in enumerate((0.1, 0.4))
    ]
    return {
        "model": {"name": "small"},
        "task": {"task": "folder/own.yaml", "sets": 1, "ft": "gd"},
        "verdict": {"label": "more alike", "sentence": sentence},
        "metrics": [entry(difference, twin_p={"shuffled": {"p": 2 / 3, "twins": 2}})],
        "baselines": twins,
        "prompts": {"used": [3, 3], "queries": 20},
        "learning_rate": {"rate": 0.25},
    }


def test_the_first_line_names_model_and_task_and_twins_stand_beside() -> None:
    found = headline(result("It is so (p 1). Of the rest none.", (0.3, 0.2, 0.4)))
    assert found.lead == "small on own.yaml: it is so (p 1)."
    assert found.rest == "Of the rest none."
    assert found.twins == ("2 shuffled twins: from 0.100 to 0.400; rank p of the model 0.667.",)
    assert found.setting == "1 set of 3 demonstrations, 20 queries, fine-tuning gd at rate 0.250"
    assert found.picture is not None


def test_what_is_undefined_is_not_drawn() -> None:
    found = headline(result("Not assessable: nothing moved.", (NAN, NAN, NAN)))
    assert found.lead == "small on own.yaml: not assessable: nothing moved."
    assert (found.rest, found.picture) == ("", None)


def test_several_twins_show_their_mean_and_range() -> None:
    one = result("", (0.0, 0.0, 0.0))
    np.testing.assert_allclose(over_twins(one["baselines"], one["metrics"][0]), (0.25, 0.1, 0.4))
    assert over_twins(one["baselines"][:1], one["metrics"][0]) == (0.1, -0.9, 1.1)
    assert all(math.isnan(part) for part in over_twins([], one["metrics"][0]))
    assert task_name("mr") == "mr"


def layers_table() -> pd.DataFrame:
    """Three layers, the second undefined; the model with a mismatch, and two twins."""
    lines = []
    for model, seed in (("trained", NAN), ("shuffled", 0), ("shuffled", 1)):
        for comparison in ("matched", "other demonstrations", "other task"):
            change = comparison == "other demonstrations"
            for layer in range(3):
                value = NAN if layer == 1 else layer + 0.5 + (0.0 if math.isnan(seed) else seed)
                lines.append(
                    {
                        "model": model,
                        "seed": seed,
                        "position": "answer",
                        "measure": "SimAOU",
                        "comparison": comparison,
                        "layer": layer,
                        **{f"value{end}": value for end in ("", "_low", "_high")},
                        **{
                            f"difference{end}": value if change else NAN
                            for end in ("", "_low", "_high")
                        },
                    }
                )
    return pd.DataFrame(lines)


def test_bands_stand_around_the_matched_line_and_its_mismatch_alone() -> None:
    names = [trace.name for trace in by_layer_figure(layers_table()).data]
    assert names.count("95 % interval") == 4
    assert set(names) == {
        *("95 % interval", "matched", "other demonstrations", "other task", "shuffled twin")
    }
    change = change_by_layer_figure(layers_table())
    assert [t.name for t in change.data].count("95 % interval") == 2
    twin = next(trace for trace in change.data if trace.name == "shuffled twin")
    assert list(twin.y) == [1.0, None, 3.0]
    assert _stretches([0, 1, 3, 4, 6]) == [[0, 1], [3, 4], [6]]
    assert _stretches([]) == []


def test_one_key_stands_for_all_figures() -> None:
    found = layered({"layers": layers_table()})
    assert found is not None
    names = [one.name for one in found.key]
    assert names == ["matched", "other demonstrations", "other task", "shuffled twin"]
    assert [one.title for one in found.pictures] == ["SimAOU", "SimAOU: matched minus mismatched"]
    assert layered({}) is None


def test_the_key_has_the_colours_of_the_figures_in_the_dark() -> None:
    script = Path(analysis.__path__[0], "templates", "figures.js.j2").read_text()
    line = next(one for one in script.splitlines() if one.startswith("const DARK"))
    assert dict(re.findall(r'"(#\w+)": "(#\w+)"', line)) == DARK


def test_the_picture_of_near_demonstrations_has_the_slope_that_is_said() -> None:
    """Effect = 2 x similarity + levels + label match: beyond these the dots lie on slope 2."""
    rng = np.random.default_rng(0)
    query, slot = (one.ravel() for one in np.indices((6, 4)))
    similarity, match = rng.random(24), (rng.random(24) < 0.5).astype(float)
    effect = 2 * similarity + rng.random(6)[query] + rng.random(4)[slot] + 3 * match
    table = pd.DataFrame(
        {
            "query": query,
            "demonstration": slot,
            "similarity": similarity,
            "effect": effect,
            "label_match": match,
        }
    )
    x, y = (beyond_levels(table, name) for name in ("similarity", "effect"))
    np.testing.assert_allclose(y, 2 * x, atol=1e-12)
    kate = {"effect": (2.0, 1.9, 2.1), "null": (0.0, -0.5, 0.5), "sentence": "So."}
    part = near_part({"kate": kate}, {"left_out": table})
    assert part is not None
    assert part.picture is not None
    undefined = near_part({"kate": {**kate, "null": None}}, {"left_out": table})
    assert undefined is not None
    assert undefined.picture is None
    assert near_part({"kate": None}, {}) is None


def test_order_is_a_table_where_it_was_asked_for() -> None:
    found = order_part({"order_sensitivity": {"orders": 3, "queries": 4, "icl": (0.5, 0.4, 0.6)}})
    assert found is not None
    assert found.table.rows == (
        ("with demonstrations (ICL)", "0.500 [0.400, 0.600]", "undefined", "undefined"),
    )
    assert order_part({"order_sensitivity": None}) is None
