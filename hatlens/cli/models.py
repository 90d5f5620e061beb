"""`hatlens models`: which models are here, how to get one, and whether one is sound."""

import json
import sys
from typing import Annotated

import typer

app = typer.Typer(help="List, get and check models.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A registered name or a Hugging Face id.")]
AnyName = Annotated[
    str, typer.Argument(help="A registered name, a Hugging Face id, a folder or a GGUF file.")
]
Revision = Annotated[
    str | None, typer.Option(help="Branch, tag or commit of a Hugging Face model.")
]
Trusted = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let the model's own Python code run.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the registered models and those in the Hugging Face cache."""
    from probes.models import list_models

    models = list_models()
    if as_json:
        listed = {"models": [model._asdict() for model in models]}
        print(json.dumps(listed, ensure_ascii=False))
        return
    width = max(len(model.name) for model in models)
    for model in models:
        size = f"{model.bytes / 1e6:,.0f} MB" if model.here else "not here"
        print(f"{model.name:<{width}}  {size:>10}  {model.description}")
    missing = [model.name for model in models if not model.here]
    if missing:
        print(f"`hatlens models pull {missing[0]}` gets it.")


@app.command()
def pull(
    name: Name,
    revision: Revision = None,
    trust_remote_code: Trusted = False,
    as_json: AsJson = False,
) -> None:
    """Get a model onto this machine and check it; nothing is done where it is here and whole."""
    from probes.models import pull_model

    folder = pull_model(name, revision=revision, trust_remote_code=trust_remote_code, progress=_say)
    if as_json:
        print(json.dumps({"name": name, "folder": str(folder)}, ensure_ascii=False))


@app.command()
def check(
    name: AnyName,
    revision: Revision = None,
    trust_remote_code: Trusted = False,
    as_json: AsJson = False,
) -> None:
    """Read a model's files anew, load it, and ask it what a sound copy says."""
    from probes.model_check import check_model

    found = check_model(name, revision=revision, trust_remote_code=trust_remote_code)
    if as_json:
        anchors = [anchor._asdict() for anchor in found.anchors]
        print(json.dumps({**vars(found), "anchors": anchors}, ensure_ascii=False))
        return
    print(f"{name} from {found.source}: sound")
    print(f"weights: {found.bytes:,} bytes, made from SHA-256 {found.file_hash}")
    for anchor in found.anchors:
        print(
            f"log-probability of {anchor.continuation!r}: {anchor.found:.3f} "
            f"(expected {anchor.expected:.3f} +- {anchor.tolerance:g})"
        )
    if found.nats_per_token is None:
        return
    print(
        f"plain English: {found.nats_per_token:.2f} nats per token "
        f"(a model that knows nothing: {found.chance_nats:.2f})"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr)
