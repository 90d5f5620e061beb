"""`hatlens validate`: what the tests say where the right answer is known."""

from typing import Annotated, Any

import typer

from hatlens.progress import progress

app = typer.Typer(help="Check the tests where the right answer is known.", no_args_is_help=True)


@app.callback()
def validate() -> None:
    """Check the tests where the right answer is known."""


@app.command("row-test")
def row_test(
    runs: Annotated[int, typer.Option(help="Simulated studies in each setting.")] = 200,
    grid: Annotated[
        str, typer.Option(help="standing: noise 1 and .3; full: also .1 and 3, 256 contexts.")
    ] = "standing",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    processes: Annotated[
        int | None, typer.Option(help="Processes; by default one for each core.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the row test on simulated heads, and count what it names rightly and falsely."""
    from analysis.validate import GRIDS, validate
    from hatlens.store import json_text
    from prompts.refusal import unknown_name

    if grid not in GRIDS:
        raise unknown_name("grid", grid, GRIDS)
    with progress() as report:
        result = validate(
            GRIDS[grid],
            runs=runs,
            seed=seed,
            processes=processes,
            progress=lambda done, total: report("row test", done, total),
        )
    if as_json:
        print(json_text(row_test_json(result)))
        return
    show_row_test(result)


@app.command("planted-models")
def planted_models(
    seed: Annotated[int, typer.Option(help="Seed of contexts and weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """Name transformers whose mechanism is known, by the test of a language model's heads."""
    from hatlens.planted_models import name_planted_models
    from hatlens.store import json_text

    with progress() as report:
        found = name_planted_models(
            seed=seed, progress=lambda done, total: report("planted models", done, total)
        )
    if as_json:
        print(json_text([one._asdict() for one in found]))
        return
    for one in found:
        print(f"{'right' if one.right else 'WRONG'}  {one.mechanism}: {one.label}")


def row_test_json(result: Any) -> dict[str, Any]:
    """The counts as `--json` prints them."""
    return {
        "runs": result.runs,
        "settings": [
            {
                **setting.setting._asdict(),
                "runs": setting.runs,
                "false_contains": setting.false_contains,
                "ols_found": setting.ols_found,
                "rejection": setting.rejection,
                "false_kinds": setting.false_kinds,
            }
            for setting in result.settings
        ],
        "family_wise_error": result.family_wise_error._asdict(),
        "power": {kind: interval._asdict() for kind, interval in result.power.items()},
    }


def show_row_test(result: Any) -> None:
    """Print the counts, one line a setting, and the power of each S^-1 head."""
    for setting in result.settings:
        noise, contexts, rows, _ = setting.setting
        print(
            f'noise {noise:g}, {contexts} contexts, {rows} rows: a false "contains" in '
            f"{setting.false_contains} of {setting.runs} runs, OLS found in {setting.ols_found}"
        )
        for kind, count in setting.false_kinds.items():
            print(f"  falsely named: {kind}, {count} rows")
    error = result.family_wise_error
    print(
        f"family-wise error in the worst setting: {error.estimate:.3f} "
        f"(95 % interval {error.low:.3f} to {error.high:.3f})"
    )
    for kind, power in result.power.items():
        print(f"{kind}: named in {power.estimate:.3f} ({power.low:.3f} to {power.high:.3f})")
