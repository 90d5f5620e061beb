"""The flags that several commands share, and how they become settings."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hatlens.config import StudyConfig
from hatlens.model_settings import brought_sentence
from prompts.yaml_file import read_yaml

Option = typer.Option

Features = Annotated[int | None, Option(help="features P of each example")]
Examples = Annotated[int | None, Option(help="examples N in each prompt")]
Contexts = Annotated[int | None, Option(help="contexts C, the resampled unit")]
Queries = Annotated[int | None, Option(help="queries M that share a context")]
Condition = Annotated[float | None, Option(help="condition number kappa of the x covariance")]
Noise = Annotated[float | None, Option(help="sd of the noise over sd of the signal")]
Function = Annotated[str | None, Option(help="target function of synthetic data")]
XScale = Annotated[float | None, Option(help="scale of x (a shift of the inputs)")]
WScale = Annotated[float | None, Option(help="scale of the target function")]
QueryPush = Annotated[float | None, Option(help="push queries along the weakest direction")]
Layout = Annotated[str | None, Option(help="layout name, or an own template with {x1} and {y}")]
CodecName = Annotated[str | None, Option("--codec", help="how numbers are printed")]
Bos = Annotated[str | None, Option(help="begin-of-sequence token: auto, always or never")]
Data = Annotated[str | None, Option(help="CSV, TSV, Parquet or JSONL file, or diabetes, linnerud")]
Target = Annotated[str | None, Option(help="target column of --data")]
Columns = Annotated[list[str] | None, Option("--column", help="feature column of --data")]
Missing = Annotated[list[str] | None, Option(help="cell text declared missing in --data")]
DateFormat = Annotated[str | None, Option(help="how dates in --data are written, e.g. %d/%m/%Y")]
Dependent = Annotated[bool, Option("--allow-dependent", help="dependent columns: minimum norm")]
Names = Annotated[
    str | None, Option(help="column names of --data in the prompt: real or anonymous")
]
Twins = Annotated[list[str] | None, Option(help="kind of untrained twin, or none")]
TwinsInFull = Annotated[bool, Option("--twins-in-full", help="also replicates and pairs on twins")]
Reading = Annotated[str | None, Option(help="answers: exact (distributions) or greedy only")]
Mass = Annotated[float | None, Option(help="share of each answer's distribution to explore")]
ReadingContexts = Annotated[int | None, Option(help="contexts read exactly, 0 for all")]
Controls = Annotated[
    bool, Option("--controls", help="foreign S, y and order permuted, other codec, split halves")
]
Cause = Annotated[bool, Option("--cause", help="change the named heads, and random ones")]
CauseContexts = Annotated[int | None, Option(help="main contexts that --cause runs again")]
RandomSets = Annotated[int | None, Option(help="sets of random heads that --cause compares with")]
Heads = Annotated[list[str] | None, Option("--head", help="head for --cause, such as L3H5")]
BehaviouralRow = Annotated[
    int | None, Option(help="contexts whose every y is edited and run again, 0 for none")
]
BehaviouralQueries = Annotated[int | None, Option(help="queries whose behavioural row is read")]
Along = Annotated[bool, Option("--along", help="answers along the prompt and through the layers")]
Hypotheses = Annotated[list[str] | None, Option("--hypothesis", help="bank name or FILE.py:NAME")]
Pairs = Annotated[int | None, Option(help="re-paired twin contexts, 0 for none")]
Flips = Annotated[int | None, Option(help="sign flips of contexts")]
Seed = Annotated[int | None, Option(help="seed of contexts, twins and resampling")]
Revision = Annotated[str | None, Option(help="revision of a Hugging Face model")]
Dtype = Annotated[str | None, Option(help="float32 (verdicts), bfloat16 or float16")]
Device = Annotated[str | None, Option(help="cpu, cuda or auto")]
Memory = Annotated[str | None, Option(help="memory over the loaded model, e.g. 4GB or 800MB")]
Quantize = Annotated[str | None, Option(help="8bit or 4bit, where bitsandbytes is installed")]
Trusted = Annotated[bool, Option("--trust-remote-code", help="let the model's own code run")]
Config = Annotated[Path | None, Option(help="study.yaml with the same settings")]
AsJson = Annotated[bool, Option("--json", help="print the result as JSON")]


def given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a study file and of the flags that were given; a flag wins.

    `flags` are a command's arguments by name; those that are no setting are left out. What a
    built-in model brings beside them is said in a line on standard error.
    """
    config = flags.get("config")
    stored = read_yaml(config) if config else {}
    named = {
        key: value
        for key, value in flags.items()
        if key in StudyConfig.model_fields and value is not None and value is not False
    }
    every = {**stored, **named}
    if brought := brought_sentence(every):
        print(brought, file=sys.stderr)
    return every
