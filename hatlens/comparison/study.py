"""One comparison from settings to report; finished cells are never run again."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from hatlens.comparison.cell import Plan, run_cell
from hatlens.comparison.config import FREE, SimilarityConfig, build_similarity
from hatlens.comparison.feed import Fed, Source, drawn_source, feed
from hatlens.comparison.parts import Bench, planned_cells, run_parts
from hatlens.comparison.rate import Chosen, choose_rate
from hatlens.comparison.same_study import study_facts
from hatlens.comparison.unfinished import nothing_left_behind
from hatlens.comparison.variants import TRAINED, Variant, cell_name, variants
from hatlens.measure import model_facts, peak_bytes, versions
from hatlens.progress import Report, silent
from hatlens.store import RunFolder
from probes.finetune_loss import lesson, lesson_logits
from probes.models import LoadedModel, load_model
from probes.threads import fastest_threads
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from probes.twins import TWINS, make_twin
from prompts.names import safe_name
from prompts.refusal import Refusal, unknown_name

KIND = "similarity"


def run_similarity(config: SimilarityConfig, out: Path, report: Report = silent) -> dict[str, Any]:
    """Run what is not there yet, conclude, and write the report; what ``--json`` prints."""
    from hatlens.comparison.conclude import conclude

    folder = RunFolder(out)
    with nothing_left_behind(folder):
        measure(config, folder, report)
    return conclude(config, folder)


def is_comparison(run: Path) -> bool:
    """Whether a folder holds a comparison, and not a study of attention rows."""
    return RunFolder(run).manifest().get("kind") == KIND


def analyse_comparison(run: Path) -> dict[str, Any]:
    """Conclude from the stored cells again, and write the page; no model is needed."""
    from hatlens.comparison.conclude import conclude

    folder = RunFolder(run)
    where = str(run / "manifest.json")
    return conclude(build_similarity(folder.manifest()["task"], where=where), folder)


def default_folder(config: SimilarityConfig) -> Path:
    """Where a run goes without --out."""
    task = Path(config.task).stem if Path(config.task).suffix else config.task
    return Path("runs") / safe_name(f"{config.model}-similarity-{task}-seed{config.seed}")


def measure(config: SimilarityConfig, folder: RunFolder, report: Report) -> None:
    """Fill the folder with every cell that is not yet there."""
    began = time.monotonic()
    check_names(config)
    folder.refuse_place()
    folder.refuse_other_kind(KIND)
    beside = study_facts(config, folder.path)
    planned = [cell_name(v, s) for v in variants(config) for s in range(config.sets)]
    planned += planned_cells(config)
    task = config.model_dump(mode="json")
    if folder.manifest().get("prompts") and all(folder.has(name) for name in planned):
        folder.open(task, free=FREE)
        folder.update_manifest(study=beside)
        return
    if folder.manifest():
        folder.open(task, free=FREE)
    source = drawn_source(config)
    report("load the model", 0, 1)
    loaded = load_model(
        config.model,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
    )
    report("load the model", 1, 1)
    fed = feed(config, source, loaded)
    stored = folder.manifest().get("rate")
    chosen = Chosen(**stored) if stored else choose_rate(config, fed, loaded, report)
    folder.open(task, free=FREE)
    note_start(config, folder, loaded, source, fed, chosen)
    folder.update_manifest(study=beside)
    for variant in variants(config):
        run_variant(config, folder, loaded, fed, chosen, variant, report)
    run_parts(Bench(config, folder, source, loaded, fed, chosen.rate, report))
    note_end(folder, time.monotonic() - began)


def run_variant(
    config: SimilarityConfig,
    folder: RunFolder,
    loaded: LoadedModel,
    fed: Fed,
    chosen: Chosen,
    variant: Variant,
    report: Report,
) -> None:
    """The cells of one model that are not yet there."""
    places = [p for p in range(config.sets) if not folder.has(cell_name(variant, p))]
    if not places:
        return
    model = loaded if variant.seed is None else twin_of(variant, loaded, fed)
    some = fed.sets[0].norms
    once = Condition(np.zeros(0, dtype=np.int64))
    threads = (
        fastest_threads(lambda: list(run_conditions(model, some, {"zsl": once})))
        if model.device == "cpu"
        else nullcontext()
    )
    with threads:
        for place in places:
            plan = Plan(
                rate=chosen.rate,
                target=None if variant.seed is None else target_norm(config, folder, place),
                twin=variant.seed is not None,
                seed=(config.seed, 7, place),
            )
            stage = f"set {place + 1} of {config.sets} on the {variant.folder} model"
            arrays = run_cell(config, model, fed.sets[place], plan, staged(report, stage))
            folder.write_arrays(cell_name(variant, place), arrays)


def staged(report: Report, stage: str) -> Report:
    """The same reporter, with what is run in place of the stage's own name."""
    return lambda inner, done, total: report(f"{stage}: {inner}", done, total)


def target_norm(config: SimilarityConfig, folder: RunFolder, place: int) -> float | None:
    """The update norm that the trained model's fine-tuning reached; None at equal rates."""
    if not config.equal_norm:
        return None
    norm = float(folder.read_arrays(cell_name(Variant(TRAINED), place))["fit/ft/norm"])
    return norm if np.isfinite(norm) else None


def twin_of(variant: Variant, loaded: LoadedModel, fed: Fed) -> LoadedModel:
    """The untrained twin, its scores matched on prompts of the comparison."""
    prompts = fed.sets[0].prompts
    whole = np.concatenate([*prompts.demonstrations, prompts.in_context[0]])
    lead = [] if prompts.bos is None else [prompts.bos]
    assert variant.seed is not None
    return make_twin(
        loaded, variant.kind, seed=variant.seed, calibration_ids=np.r_[lead, whole][None]
    )


def check_names(config: SimilarityConfig) -> None:
    """Unknown names are refused before anything is loaded."""
    for twin in config.twins:
        if twin in TWINS:
            continue
        sentence = unknown_name("twin", twin, TWINS).sentence
        if twin.isdecimal():
            sentence += (
                "; several twins of one kind are asked for by their seeds "
                "(--twin-seed 0 --twin-seed 1)"
            )
        raise Refusal(sentence, setting="twins")


def note_start(
    config: SimilarityConfig,
    folder: RunFolder,
    loaded: LoadedModel,
    source: Source,
    fed: Fed,
    chosen: Chosen,
) -> None:
    """What the manifest says before the first cell."""
    from hatlens.comparison.self_check import implicit_update

    folder.update_manifest(
        kind=KIND,
        model=model_facts(loaded),
        versions=versions(),
        prompts=fed.facts,
        task_words=dict(source.task.words) if fed.classes else {},
        gold=[one.prompts.gold.tolist() for one in fed.sets],
        warnings=list(fed.warnings),
        rate=chosen._asdict(),
        selfcheck=implicit_update(loaded, fed.sets[0].prompts),
        whole_prompt_seconds=whole_prompt_seconds(loaded, fed),
    )


def whole_prompt_seconds(loaded: LoadedModel, fed: Fed) -> float:
    """The time of one forward over demonstrations and query, what a run without a shared prefix
    would take for each query; the faster of two."""
    prompts = fed.sets[0].prompts
    lead = [] if prompts.bos is None else [prompts.bos]
    tokens = np.r_[lead, np.concatenate([*prompts.demonstrations, prompts.in_context[0]])]
    taken = []
    for _ in range(2):
        began = time.perf_counter()
        lesson_logits(loaded.model, lesson(tokens.astype(np.int64), slice(None)))
        taken.append(time.perf_counter() - began)
    return min(taken)


def note_end(folder: RunFolder, seconds: float) -> None:
    """Add this process' time; peak memory is the largest of all that took part."""
    before = folder.manifest().get("measured", {})
    folder.update_manifest(
        measured={
            "seconds": before.get("seconds", 0.0) + seconds,
            "peak_bytes": max(before.get("peak_bytes", 0), peak_bytes()),
        }
    )
