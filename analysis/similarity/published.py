"""Published values that stand beside a run's own: what was measured on 1.3B and 2.7B models."""

from typing import NamedTuple


class Published(NamedTuple):
    """One published figure: of a measure, on a task ("average" of the six), by a source."""

    measure: str
    task: str
    value: float
    model: str
    fine_tuning: str
    source: str


def _row(measure: str, values: tuple[float, ...], *, fine_tuning: str) -> tuple[Published, ...]:
    tasks = ("sst2", "sst5", "mr", "subj", "agnews", "cb")
    return tuple(
        Published(measure, task, value, "1.3B GPT", fine_tuning, "2311.07772")
        for task, value in zip(tasks, values, strict=True)
    )


def _averages(
    source: str, fine_tuning: str, model: str, values: dict[str, float]
) -> tuple[Published, ...]:
    return tuple(
        Published(measure, "average", value, model, fine_tuning, source)
        for measure, value in values.items()
    )


PUBLISHED: tuple[Published, ...] = (
    *_averages(
        "2212.10559",
        "gd",
        "1.3B GPT",
        {
            "Rec2FTP": 0.8556,
            "SimAOU (normalised)": 0.186,
            "SimAM": 0.442,
            "SimAM (before)": 0.338,
            "Kendall (queries)": 0.193,
        },
    ),
    *_averages(
        "2212.10559",
        "gd",
        "2.7B GPT",
        {
            "Rec2FTP": 0.8939,
            "SimAOU (normalised)": 0.225,
            "SimAM": 0.434,
            "SimAM (before)": 0.355,
            "Kendall (queries)": 0.214,
        },
    ),
    *_averages(
        "2311.07772",
        "gd",
        "1.3B GPT",
        {"SimAOU (normalised)": 0.187, "SimAOU": 0.102, "SimAM": 0.435, "SimAM-delta": 0.267},
    ),
    *_averages(
        "2311.07772",
        "lcgd",
        "1.3B GPT",
        {"SimAOU (normalised)": 0.279, "SimAOU": 0.167, "SimAM": 0.283, "SimAM-delta": 0.336},
    ),
    *_row("SimAOU", (0.05, 0.04, 0.17, 0.06, 0.18, 0.11), fine_tuning="gd"),
    *_row("SimAM-delta", (0.15, 0.31, 0.14, 0.25, 0.50, 0.25), fine_tuning="gd"),
    *_row("SimAOU", (0.13, 0.11, 0.21, 0.18, 0.13, 0.24), fine_tuning="lcgd"),
    *_row("SimAM-delta", (0.30, 0.33, 0.26, 0.32, 0.43, 0.38), fine_tuning="lcgd"),
)


def published_for(task: str, fine_tuning: str) -> list[Published]:
    """What was published for a task, and the averages over six tasks, under a fine-tuning."""
    return [
        one for one in PUBLISHED if one.task in (task, "average") and one.fine_tuning == fine_tuning
    ]
