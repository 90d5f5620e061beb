"""``hatlens similarity MODEL``: in-context learning against fine-tuning."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hatlens.cli import settings as s
from prompts.yaml_file import read_yaml

Option = typer.Option


def similarity(
    model: Annotated[
        str | None,
        typer.Argument(help="a registered name, a Hugging Face id, a folder or a GGUF file"),
    ] = None,
    task: Annotated[
        str | None,
        Option(help="mr, sst2, sst5, subj, agnews, cb, regression, a YAML file or a data file"),
    ] = None,
    data: Annotated[str | None, Option(help="file, folder or Hugging Face dataset id")] = None,
    demos: Annotated[int | None, Option(help="demonstrations k in each set")] = None,
    queries: Annotated[int | None, Option(help="queries, the same for every set")] = None,
    sets: Annotated[int | None, Option(help="sets of demonstrations")] = None,
    balanced: Annotated[bool, Option("--balanced", help="as many demonstrations a label")] = False,
    ft: Annotated[str | None, Option(help="gd, lcgd, whole or value-layer")] = None,
    lr: Annotated[str | None, Option(help="learning rate, or auto: chosen on other data")] = None,
    lr_split: Annotated[str | None, Option(help="tuning, or evaluation as published")] = None,
    loss_tokens: Annotated[str | None, Option(help="all tokens or label")] = None,
    layer: Annotated[int | None, Option(help="the layer of --ft value-layer")] = None,
    step_norm: Annotated[str | None, Option(help="lcgd: matched to gd, or shared rate")] = None,
    readout: Annotated[str | None, Option(help="lcgd: block or attention")] = None,
    layer_loss: Annotated[str | None, Option(help="lcgd: sum or mean over layers")] = None,
    equal_norm: Annotated[
        bool | None,
        Option("--equal-norm/--equal-rate", help="what mismatched runs and twins share with FT"),
    ] = None,
    position: Annotated[str | None, Option(help="answer, label0 or both")] = None,
    label_score: Annotated[str | None, Option(help="sum or mean over a label's tokens")] = None,
    other_task: Annotated[
        str | None, Option(help="what the other fine-tuning learns: auto, regression, or a task")
    ] = None,
    twins: s.Twins = None,
    twin_seeds: Annotated[list[int] | None, Option("--twin-seed", help="seed of a twin")] = None,
    orders: Annotated[int | None, Option(help="orders for order sensitivity, 0 for none")] = None,
    order_queries: Annotated[int | None, Option(help="queries of order sensitivity")] = None,
    kate_queries: Annotated[
        int | None, Option(help="queries of the leave-one-out effects, 0 for none")
    ] = None,
    vector_queries: Annotated[
        int | None, Option(help="queries of the task vector, 0 for none")
    ] = None,
    generalise: Annotated[
        int | None, Option(help="facts of each form whose reversals and syllogisms are asked, or 0")
    ] = None,
    dose: Annotated[
        bool, Option("--dose", help="also gd and lcgd at five update norms, ten fine-tunings a set")
    ] = False,
    features: s.Features = None,
    condition: s.Condition = None,
    noise: s.Noise = None,
    layout: s.Layout = None,
    codec: s.CodecName = None,
    bos: s.Bos = None,
    template: Annotated[
        str | None, Option(help="plain text, or chat: the tokenizer's own chat template")
    ] = None,
    study: Annotated[
        str | None, Option(help="run folder of a `hatlens probe` study on the same examples")
    ] = None,
    seed: s.Seed = None,
    revision: s.Revision = None,
    dtype: s.Dtype = None,
    device: s.Device = None,
    trust_remote_code: s.Trusted = False,
    preset: Annotated[str | None, Option(help="honest, dai2023 or deutch2024")] = None,
    out: Annotated[
        Path | None, Option(help="run folder; the same command again resumes there")
    ] = None,
    config: Annotated[Path | None, Option(help="YAML file with the same settings")] = None,
    as_json: s.AsJson = False,
) -> None:
    """Compare what MODEL does with demonstrations in its prompt with what it does tuned on them."""
    flags = locals()
    from hatlens.comparison.config import SimilarityConfig, build_similarity
    from hatlens.comparison.same_study import with_study
    from hatlens.comparison.study import default_folder, run_similarity
    from hatlens.progress import progress

    stored = read_yaml(config) if config else {}
    named = {
        key: value
        for key, value in flags.items()
        if key in SimilarityConfig.model_fields and _is_given(key, value)
    }
    given = with_study({**stored, **named})
    settings = build_similarity(given)
    with progress() as report:
        result = run_similarity(settings, out or default_folder(settings), report)
    show(result, as_json=as_json)


def _is_given(key: str, value: Any) -> bool:
    return value is not None and (value is not False or key == "equal_norm")


def show(result: dict[str, Any], *, as_json: bool) -> None:
    """Print a result: JSON, or the verdict, what was noticed, and where the report is."""
    from hatlens.store import json_text

    if as_json:
        print(json_text(result))
        return
    for line in result["warnings"]:
        print(f"warning: {line}")
    print(result["verdict"]["sentence"])
    print(f"report: {Path(result['run']) / 'report.html'}")
