"""``hatlens reference``: make a model again whose behaviour is known."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hatlens.progress import progress

if TYPE_CHECKING:
    from probes.reference.train_text_regressor import Point, Training

app = typer.Typer(help="Make the models again whose behaviour is known.", no_args_is_help=True)


@app.callback()
def reference() -> None:
    """Make the models again whose behaviour is known."""


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="text-regressor")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="training steps, 15000 by default")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="as many steps as this machine takes in so long")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="new folder for the model")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of weights and prompts")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a reference model from scratch, and write it with its curve."""
    from probes.reference.text_regressor import NAME, save_regressor
    from probes.reference.train_text_regressor import facts, train_regressor
    from prompts.refusal import Refusal, unknown_name

    if name != NAME:
        raise unknown_name("reference model", name, [NAME])
    if steps is not None and minutes is not None:
        raise Refusal(f"needed --steps or --minutes, came both: {steps} and {minutes:g}")
    folder = new_folder(out or Path(f"{name}-seed{seed}"))
    training = planned(steps, minutes, seed)
    curve = CurveFile(folder / "curve.csv")
    try:
        with progress() as report:
            trained = train_regressor(
                training,
                progress=lambda done, total: report("train", done, total),
                on_point=curve.add,
            )
    except KeyboardInterrupt:
        raise typer.Abort from None
    made_by = facts(training, trained.curve)
    save_regressor(trained.model, made_by, folder)
    show(folder, trained.curve[-1], made_by, as_json=as_json)


def planned(steps: int | None, minutes: float | None, seed: int) -> "Training":
    """The training asked for; without a length the usual one."""
    from probes.reference.train_text_regressor import USUAL_STEPS, Training, steps_in

    if minutes is not None:
        steps = steps_in(minutes, seed=seed)
    return Training(steps=steps or USUAL_STEPS, seed=seed)


def new_folder(folder: Path) -> Path:
    """The folder, made; refused where it holds more than the curve of a run that was stopped."""
    from prompts.refusal import Refusal

    folder.mkdir(parents=True, exist_ok=True)
    others = sorted(path.name for path in folder.iterdir() if path.name != "curve.csv")
    if others:
        raise Refusal(f"needed a new folder, this one holds {others[0]!r}", where=str(folder))
    return folder


class CurveFile:
    """A CSV file that grows by a line a point, so that a run can be watched."""

    def __init__(self, path: Path) -> None:
        from probes.reference.train_text_regressor import Point

        self.path = path
        path.write_text(",".join(Point._fields) + "\n", "utf-8")

    def add(self, point: "Point") -> None:
        """Append one point."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(",".join(f"{value:.5g}" for value in point) + "\n")


def show(folder: Path, last: "Point", made_by: dict[str, object], *, as_json: bool) -> None:
    """Print what was reached, and how to probe it."""
    from hatlens.store import json_text
    from probes.registry import BUILT_IN

    if as_json:
        print(json_text({"folder": str(folder), **made_by}))
        return
    print(
        f"after {last.step:,} steps ({last.seconds / 60:.1f} min): mean absolute error "
        f"{last.mae:.4f} of the half range (least squares {last.ols_mae:.4f}, the mean "
        f"{last.mean_mae:.4f}); squared difference to least squares over Var(y): {last.spd:.5f}"
    )
    settings = BUILT_IN[str(made_by["name"])].settings
    flags = " ".join(f"--{key} '{value}'" for key, value in settings.items())
    print(f"hatlens probe {folder} {flags}")
