"""From settings to stored rows: every cell is one context (or one pair) on one model."""

import platform
import resource
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from hatlens.cells import ANSWER_TOKENS, TRAINED, Tokens, run_cells
from hatlens.config import FREE, StudyConfig
from hatlens.hypotheses import resolve
from hatlens.progress import Report
from hatlens.sets import CONTROL_SETS, MAIN, PAIRS_A, REPLICATE, StudySets, draw_sets, store_sets
from hatlens.stages import STAGES, Bench
from hatlens.stages.stage import run_stage
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from probes import head_values
from probes.head_names import parse_heads
from probes.memory import default_budget, parse_bytes
from probes.model_facts import attention_layers, input_device
from probes.models import LoadedModel, load_model
from probes.overhead import capture_overhead
from probes.parity import parity_gate
from probes.rows import context_rows, planned_rows
from probes.threads import fastest_threads
from probes.tokenizer_gate import tokenizer_gate
from probes.twins import TWINS, make_twin
from prompts.layouts import layout_named, render
from prompts.refusal import Refusal, about, unknown_name
from prompts.tokens import tokenize_all

SHOWN = 2
PACKAGES = ("hatlens", "torch", "transformers", "transformer-lens", "numpy", "scipy")


def cells(config: StudyConfig, study: StudySets) -> dict[str, list[str]]:
    """The cells of every variant, by name, in the order in which they are run.

    A twin is run on the main contexts, which are what it controls; in full only where asked.
    Controls are run on the trained model.
    """
    every = [name for name in (MAIN, REPLICATE, PAIRS_A) if name in study.sets]
    of_twins = every if config.twins_in_full else [MAIN]
    of_trained = every + [name for name in CONTROL_SETS if name in study.sets]
    return {
        variant: [
            f"rows/{variant}/{name}/{index}"
            for name in (of_trained if variant == TRAINED else of_twins)
            for index in range(len(study.sets[name].contexts))
        ]
        for variant in (TRAINED, *config.twins)
    }


def measure(config: StudyConfig, folder: RunFolder, report: Report) -> None:
    """Fill the folder with every cell that is not yet there; a finished cell is never run again."""
    begun = time.monotonic()
    check_names(config)
    folder.refuse_place()
    folder.refuse_other_kind(None)
    study = draw_sets(config)
    planned = cells(config, study)
    of_stages = [name for stage in STAGES for name in stage.cells(config, study)]
    wanted = [*of_stages, *(name for names in planned.values() for name in names)]
    if folder.manifest() and all(folder.has(cell) for cell in wanted):
        parse_heads(config.heads, head_grid(folder))
        folder.open(config.model_dump(mode="json"), free=FREE)
        return
    loaded, tokens = prepare(config, folder, study, report)
    budget = memory_budget(config, loaded)
    folder.update_manifest(memory=memory_facts(config, loaded, tokens, budget))
    if "capture_overhead" not in folder.manifest():
        overhead = capture_overhead(loaded, tokens[MAIN][0], memory=budget)
        folder.update_manifest(capture_overhead=overhead)
    for variant, names in planned.items():
        if all(folder.has(name) for name in names):
            continue
        model = variant_model(config, loaded, variant, tokens)
        options: dict[str, Any] = {"prefix_rows": False, "answer_tokens": 0, "memory": budget}
        first = partial(context_rows, model, tokens[MAIN][0], **options)
        with fastest_threads(first) if model.device == "cpu" else nullcontext():
            run_cells(folder, variant, names, model, tokens, report, memory=budget)
    bench = Bench(config, study, loaded, tokens, folder, report=report)
    for stage in STAGES:
        run_stage(stage, bench, stage.cells(config, study))
    note_cost(folder, time.monotonic() - begun)


def measure_after(config: StudyConfig, folder: RunFolder, report: Report) -> bool:
    """Run the cells that depend on what was concluded of the others; whether any was missing."""
    begun = time.monotonic()
    wanted = {stage.name: stage.after(config, folder) for stage in STAGES}
    if all(folder.has(name) for names in wanted.values() for name in names):
        return False
    study = draw_sets(config)
    loaded = load_configured(config, report)
    tokens = tokenize_sets(config, study, loaded)
    bench = Bench(config, study, loaded, tokens, folder, report=report)
    for stage in STAGES:
        run_stage(stage, bench, wanted[stage.name])
    note_cost(folder, time.monotonic() - begun)
    return True


def memory_budget(config: StudyConfig, loaded: LoadedModel) -> int:
    """Bytes over the loaded model that a context may take: as set, or half of what is free."""
    if config.memory is not None:
        return parse_bytes(config.memory)
    return default_budget(input_device(loaded.model))


def memory_facts(
    config: StudyConfig, loaded: LoadedModel, tokens: Tokens, budget: int
) -> dict[str, Any]:
    """What the manifest says of memory, planned for the first context with its answers."""
    first = tokens[MAIN][0]
    way = planned_rows(loaded, first, prefix_rows=True, answer_tokens=ANSWER_TOKENS, memory=budget)
    return {"set": config.memory, "budget_bytes": budget, **way._asdict()}


def load_configured(config: StudyConfig, report: Report) -> LoadedModel:
    """The model of a study's settings."""
    report("load the model", 0, 1)
    loaded = load_model(
        config.model,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
        quantize=config.quantize,
    )
    report("load the model", 1, 1)
    return loaded


def prepare(
    config: StudyConfig, folder: RunFolder, study: StudySets, report: Report
) -> tuple[LoadedModel, Tokens]:
    """Load the model, align every prompt, open the folder, pass the parity gate."""
    begun = time.monotonic()
    loaded = load_configured(config, report)
    loading = time.monotonic() - begun
    tokens = tokenize_sets(config, study, loaded)
    if config.heads:
        parse_heads(config.heads, head_values.head_grid(loaded))
    folder.open(config.model_dump(mode="json"), free=FREE)
    store_sets(folder, study)
    report("parity gate", 0, 1)
    tokenizer = tokenizer_gate(loaded, bos=tokens[MAIN][0].bos)
    parity = parity_gate(loaded, tokens[MAIN][0])
    report("parity gate", 1, 1)
    folder.update_manifest(
        model=model_facts(loaded),
        parity=asdict(parity),
        tokenizer=asdict(tokenizer),
        versions=versions(),
        prompts=first_prompts(config, study),
        **({} if "load_seconds" in folder.manifest() else {"load_seconds": loading}),
    )
    return loaded, tokens


def check_names(config: StudyConfig) -> None:
    """Unknown names are refused before anything is loaded."""
    with about("twins"):
        for twin in config.twins:
            if twin not in TWINS:
                raise unknown_name("twin", twin, TWINS)
        if config.quantize and config.twins:
            raise Refusal(
                "untrained twins are made from weights as plain numbers, which a quantised model "
                "has not: --twins none (the result then has no control of training)"
            )
    with about("layout"):
        layout_named(config.layout)
    if config.memory is not None:
        with about("memory"):
            parse_bytes(config.memory)
    with about("hypotheses"):
        resolve(config.hypotheses)
    if config.heads and not config.cause:
        raise Refusal(
            "the setting 'heads' says which heads `cause` changes; give --cause as well",
            setting="heads",
        )


def tokenize_sets(config: StudyConfig, study: StudySets, loaded: LoadedModel) -> Tokens:
    """All prompts of a study as tokens; the first that cannot be aligned is refused."""
    layout = layout_named(config.layout)
    tokens = {
        name: tokenize_all(drawn, loaded.tokenizer, layout=layout, bos=config.bos)
        for name, drawn in study.sets.items()
    }
    every = [one for of_set in tokens.values() for one in of_set]
    longest = max(len(one.prefix) + one.suffixes.shape[1] for one in every) + ANSWER_TOKENS
    if loaded.context_window is not None and longest > loaded.context_window:
        raise Refusal(
            f"the prompt and its answer need {longest} tokens, the model's context window holds "
            f"{loaded.context_window}; use fewer --examples",
            where=config.model,
        )
    return tokens


def variant_model(
    config: StudyConfig, loaded: LoadedModel, variant: str, tokens: Tokens
) -> LoadedModel:
    """The trained model, or one of its untrained twins."""
    if variant == TRAINED:
        return loaded
    first = tokens[MAIN][:4]
    calibration = np.stack([np.concatenate([one.prefix, one.suffixes[0]]) for one in first])
    return make_twin(loaded, variant, seed=config.seed, calibration_ids=calibration)


def model_facts(loaded: LoadedModel) -> dict[str, Any]:
    """What the manifest says of the model."""
    names = ("name", "file_hash", "revision", "dtype", "device", "source", "context_window")
    facts = {name: getattr(loaded, name) for name in names}
    return {
        **facts,
        "layers": loaded.layers,
        "captured_layers": list(attention_layers(loaded.model)),
        "heads": loaded.heads,
        "kv_heads": loaded.kv_heads,
    }


def versions() -> dict[str, str]:
    """What made the numbers."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def first_prompts(config: StudyConfig, study: StudySets) -> list[str]:
    """The first prompt of the first contexts, as printed."""
    main = study.sets[MAIN]
    return [
        render(
            context,
            0,
            layout=layout_named(config.layout),
            codec=main.codec,
            feature_names=main.feature_names,
            target_name=main.target_name,
        ).text
        for context in main.contexts[:SHOWN]
    ]


def peak_bytes() -> int:
    """The largest resident memory of this process; the system counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def note_cost(folder: RunFolder, seconds: float) -> None:
    """Add this process' time to the manifest; peak memory is the largest of all that took part."""
    before = folder.manifest().get("measured", {})
    peak = peak_bytes()
    folder.update_manifest(
        measured={
            "seconds": before.get("seconds", 0.0) + seconds,
            "peak_bytes": max(before.get("peak_bytes", 0), peak),
        }
    )
