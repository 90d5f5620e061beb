"""How a comparison was run and fine-tuned, as its page shows it."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import report_tables
from analysis.number_text import (
    bytes_text,
    is_missing,
    number_text,
    percent_text,
    range_text,
    seconds_text,
)
from analysis.picture import Picture, picture
from analysis.report_facts import Fact, Facts
from analysis.report_tables import Column, Table
from analysis.similarity_figures import losses_figure

Result = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]
RUNS = {
    "zsl": "without demonstrations (ZSL)",
    "icl": "with demonstrations (ICL)",
    "ft": "fine-tuned on them (FT)",
    "ft-other": "fine-tuned on other demonstrations",
    "ft-task": "fine-tuned on another task",
    "icl-wrong": "with wrong labels",
    "icl-order": "in another order",
    "icl-other": "with other demonstrations",
    "irrelevant": "behind text of no task",
    "zsl-matched": "alone, at its position in the prompt",
}


def text_column(key: str, heading: str) -> Column:
    return Column(key, heading, report_tables.as_text, numeric=False)


def figure_column(key: str, heading: str) -> Column:
    return Column(key, heading, report_tables.as_text)


def fine_tuning(result: Result) -> Table:
    """Rate, losses and update norm of every fine-tuning."""
    lines = [
        {
            "model": one["model"] if is_missing(one["seed"]) else f"{one['model']}, {one['seed']}",
            "set": str(one["set"] + 1),
            "run": RUNS.get(one["run"], one["run"]),
            "rate": number_text(one["rate"]),
            "norm": number_text(one["relative_norm"]),
            "base": number_text(one["base_loss"]),
            "loss": number_text(one["loss"]),
            "closing": number_text(one["closing_loss"]),
            "failed": one["failed"],
        }
        for one in result["fine_tuning"]
    ]
    columns = (
        text_column("model", "Model"),
        figure_column("set", "Set"),
        text_column("run", "Run"),
        figure_column("rate", "Rate"),
        figure_column("norm", "|h_FT − h_ZSL| / |h_ZSL|"),
        figure_column("base", "Loss before, nats"),
        figure_column("loss", "Loss along the way"),
        figure_column("closing", "Last demonstration after"),
        text_column("failed", "Diverged"),
    )
    caption = "Every fine-tuning; the mismatched ones are brought to the same update norm"
    return report_tables.table(caption, columns, lines, missing="")


def losses(tables: Tables) -> Picture | None:
    """The loss of each demonstration before its step, model and twins."""
    found = tables.get("fine_tuning")
    if found is None:
        return None
    return picture(
        "losses",
        "Loss of each demonstration before its step",
        "Loss by step of the fine-tuning on the demonstrations, model and twins",
        losses_figure(found[found["run"] == "ft"]),
    )


def labels(result: Result) -> str:
    """Label words as pieces."""
    pieces = result["prompts"]["labels"]["pieces"]
    return "; ".join(f"{word}: {' | '.join(parts)}" for word, parts in pieces.items())


def bos_text(token: int | None) -> str:
    """Which begin-of-sequence token stood first."""
    return "no token of its kind" if is_missing(token) else f"id {token}"


def run_facts(result: Result) -> list[Facts]:
    """What was run, and what was checked."""
    task, prompts, cost = result["task"], result["prompts"], result["cost"]
    check = result["selfcheck"]
    rate = result["learning_rate"]
    used = prompts["used"]
    ran = (
        Fact("task", str(task["task"])),
        Fact("demonstrations", range_text(used), f"{task['demos']} were asked for"),
        Fact("sets, queries", f"{task['sets']}, {prompts['queries']}"),
        Fact("fine-tuning", str(task["ft"]), f"loss on {task['loss_tokens']} tokens"),
        Fact("learning rate", number_text(rate["rate"]), rate["how"]),
        Fact("begin-of-sequence", str(prompts["bos"]["policy"]), bos_text(prompts["bos"]["id"])),
    )
    checked = (
        Fact(
            "context as a weight update",
            number_text(check["implicit_update_residual"]),
            check.get("reason") or "residual of the identity of arXiv 2507.16003 on one block",
        ),
        Fact("time", seconds_text(cost.get("seconds"))),
        Fact("peak memory", bytes_text(cost.get("peak_bytes"))),
        Fact("interval", percent_text(0.95), "sets and queries resampled at once"),
    )
    return [Facts("What was run", ran), Facts("What was checked", checked)]
