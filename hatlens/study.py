"""A study from settings to report: prompts -> probes -> analysis."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.report import render
from hatlens.conclude import conclude
from hatlens.config import StudyConfig, build_config
from hatlens.hypotheses import Own
from hatlens.measure import check_names, measure, measure_after
from hatlens.progress import Report, silent
from hatlens.store import RunFolder
from hatlens.view import study_view
from prompts.names import safe_name
from prompts.refusal import Refusal


def run_studies(
    studies: Sequence[StudyConfig],
    out: Path,
    report: Report = silent,
    *,
    preset: str | None = None,
    own: Sequence[Own] = (),
) -> dict[str, Any]:
    """Measure, conclude and report; a preset's studies lie in subfolders of `out`.

    `own` are hypotheses given as functions: they join the table and the correction.
    """
    if preset is None:
        (config,) = studies
        run_study(config, RunFolder(out), report, own=own)
        return reported(out)
    for config in studies:
        check_names(config)
    RunFolder(out).open({"preset": preset, "studies": [config.name for config in studies]})
    for config in studies:
        named = prefixed(report, config.name)
        run_study(config, RunFolder(out / config.name), named, own=own)
    return reported(out)


def run_study(
    config: StudyConfig, folder: RunFolder, report: Report, *, own: Sequence[Own] = ()
) -> None:
    """Measure and conclude; what was concluded under the same settings stays as it is.

    What depends on the conclusion is measured after it, and it is concluded again.
    """
    measure(config, folder, report)
    # Heads that are given wait for no conclusion.
    added = bool(config.heads) and measure_after(config, folder, report)
    if added or own or not concluded(folder, config):
        conclude(config, folder, report, own=own)
    if measure_after(config, folder, report):
        conclude(config, folder, report, own=own)


def default_folder(studies: Sequence[StudyConfig], preset: str | None) -> Path:
    """Where a run goes without --out: runs/, the model, and what the study is."""
    name = preset or studies[0].name
    return Path("runs") / safe_name(f"{studies[0].model}-{name}-seed{studies[0].seed}")


def prefixed(report: Report, name: str) -> Report:
    """The same reporter, with the study's name in front of each stage."""
    return lambda stage, done, total: report(f"{name}: {stage}", done, total)


def study_folders(run: Path) -> list[RunFolder]:
    """The study folders of a run: itself, or those of its preset in their order."""
    task = RunFolder(run).manifest().get("task")
    if task is None:
        raise Refusal("needed a run folder (with manifest.json), got none", where=str(run))
    if "preset" in task:
        return [RunFolder(run / name) for name in task["studies"]]
    return [RunFolder(run)]


def analyse_run(run: Path, report: Report = silent, *, own: Sequence[Own] = ()) -> dict[str, Any]:
    """Conclude from stored rows, and write the report."""
    for folder in study_folders(run):
        conclude(stored_config(folder), folder, report, own=own)
    return reported(run)


def reported(run: Path) -> dict[str, Any]:
    """The result of a run, after its report is written."""
    write_report(run)
    return result_of(run)


def concluded(folder: RunFolder, config: StudyConfig) -> bool:
    """Whether the folder holds the conclusion of just these settings."""
    if not (folder.path / "results.json").is_file():
        return False
    result = folder.read_results()
    same = result.get("task") == config.model_dump(mode="json")
    return bool(same and not result.get("own_hypotheses"))


def stored_config(folder: RunFolder) -> StudyConfig:
    """The settings that a folder's rows were made from."""
    task = folder.manifest().get("task")
    if task is None:
        raise Refusal("the study has not begun; run its `hatlens probe`", where=str(folder.path))
    return build_config(task, where=str(folder.path / "manifest.json"))


def result_of(run: Path) -> dict[str, Any]:
    """What `--json` prints."""
    folders = study_folders(run)
    results = [{**folder.read_results(), "run": str(folder.path)} for folder in folders]
    if folders[0].path == run:
        return results[0]
    return {"studies": results, "run": str(run)}


def write_report(run: Path, *, head: str | None = None) -> Path:
    """Write the page from stored results, tables and rows.

    `head`: the name of the head whose rows its row picture opens with; the best row without it.
    """
    folders = study_folders(run)
    model = folders[0].manifest()["model"]["name"]
    page = render([study_view(folder, head=head) for folder in folders], title=f"HatLens: {model}")
    RunFolder(run).write_text("report.html", page)
    return run / "report.html"
