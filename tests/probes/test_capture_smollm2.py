"""Capture on the real SmolLM2: against transformer-lens, the gate, and shared prefixes."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformer_lens.model_bridge import TransformerBridge

from probes.capture import capture
from probes.models import load_model
from probes.parity import parity_gate
from probes.rows import PARTS, context_rows
from tests.probes.tiny_models import HandMadeContext

pytestmark = pytest.mark.model

LINES = (
    "x: 1.25, 0.75; y: 3.50\n",
    "x: 2.31, 4.02; y: 1.18\n",
    "x: 0.56, 9.87; y: 7.40\n",
    "x: 8.09, 6.13; y: 2.95\n",
)
QUERIES = ("x: 5.20, 3.64; y: ", "x: 1.25, 0.75; y: ")


def context_of(tokenizer: Any) -> HandMadeContext:
    """Four examples of 22 tokens: numerals of four tokens, a blank token before each."""
    lines = [tokenizer(line, add_special_tokens=False).input_ids for line in LINES]
    queries = [tokenizer(query, add_special_tokens=False).input_ids for query in QUERIES]
    places = np.arange(88).reshape(4, 22)
    x = places[:, [3, 4, 5, 6, 9, 10, 11, 12]]
    parts = (x, places[:, 17:21], places[:, 21:], places)
    return HandMadeContext(
        np.array(lines).reshape(-1),
        np.array(queries),
        dict(zip(PARTS, parts, strict=True)),
        places[:, 16],
    )


@pytest.fixture(scope="module")
def smollm2() -> Any:
    return load_model("smollm2-135m")


def test_scores_and_patterns_are_those_of_transformer_lens() -> None:
    """The bridge rewires the model in place, so it gets one of its own, after our capture."""
    own = load_model("smollm2-135m")
    tokenized = context_of(own.tokenizer)
    ids = torch.as_tensor(np.r_[tokenized.prefix, tokenized.suffixes[0]])[None]
    positions = torch.tensor([40, ids.shape[1] - 1])
    ours = capture(own, ids, positions)
    bridge: Any = TransformerBridge.boot_transformers(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        hf_model=own.model,
        tokenizer=copy.deepcopy(own.tokenizer),
    )
    wanted = ("hook_pattern", "hook_attn_scores")
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(ids, names_filter=lambda n: n.endswith(wanted))
    patterns, scores = (
        torch.stack([cache[f"blocks.{layer}.attn.{name}"] for layer in ours.layers], 1)
        for name in wanted
    )
    visible = ours.scores.isfinite()
    torch.testing.assert_close(ours.weights, patterns[:, :, :, positions], atol=1e-5, rtol=0)
    theirs = scores[:, :, :, positions]
    torch.testing.assert_close(ours.scores[visible], theirs[visible], atol=1e-3, rtol=0)
    torch.testing.assert_close(ours.logits, logits[:, positions], atol=1e-3, rtol=0)


def test_the_gate_passes(smollm2: Any) -> None:
    report = parity_gate(smollm2, context_of(smollm2.tokenizer))
    assert report.layers_captured == 30
    assert (report.heads, report.kv_heads) == (9, 3)
    assert report.max_weight_difference < 1e-5
    assert report.sharing == "packed"


def test_shared_rows_are_those_of_whole_prompts(smollm2: Any) -> None:
    """Scores of a context's queries equal one full forward per query to 1e-5 of the largest."""
    tokenized = context_of(smollm2.tokenizer)
    rows = context_rows(smollm2, tokenized, answer_tokens=0)
    for query, suffix in zip(rows.query, tokenized.suffixes, strict=True):
        ids = torch.as_tensor(np.r_[tokenized.prefix, suffix])[None]
        whole = capture(smollm2, ids, torch.tensor([ids.shape[1] - 1])).scores[0, :, :, 0]
        for part, name in enumerate(PARTS):
            expected = whole[..., torch.as_tensor(tokenized.parts[name])].mean(-1).numpy()
            largest = np.abs(expected).max()
            np.testing.assert_allclose(query[:, :, part, 0], expected, atol=1e-5 * largest)


def test_answers_are_those_of_greedy_generation(smollm2: Any) -> None:
    """Against the library's own generation over the whole prompt."""
    tokenized = context_of(smollm2.tokenizer)
    rows = context_rows(smollm2, tokenized, answer_tokens=6)
    for answer, suffix in zip(rows.answers, tokenized.suffixes, strict=True):
        ids = torch.as_tensor(np.r_[tokenized.prefix, suffix])[None]
        output = smollm2.model.generate(ids, do_sample=False, max_new_tokens=6)
        text = smollm2.tokenizer.decode(output[0, ids.shape[1] :])
        assert answer
        assert text.startswith(answer)
