"""Settings in a YAML file, every scalar as the text that stands there."""

from pathlib import Path
from typing import Any

from prompts.refusal import Refusal


def read_yaml(path: Path, *, what: str = "settings") -> dict[str, Any]:
    """The keys and values of a YAML file; scalars are text, their meaning is the schema's.

    So ``labels: [No, Yes]`` and ``revision: 0123456`` stay text and ``lr: 1e-3`` is a number.
    A key that stands twice, at any depth, is refused with its line.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "bytes that are no UTF-8"
        raise Refusal(f"needed a file of {what}, got {said}", where=str(path)) from None
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise Refusal("is not YAML: " + " ".join(str(error).split()), where=str(path)) from None
    if not isinstance(node, yaml.MappingNode):
        raise Refusal(f"needed {what} as 'key: value' lines, got something else", where=str(path))
    _refuse_twice(node, path)
    values: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    return values


def _refuse_twice(node: Any, path: Path) -> None:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_twice(item, path)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            line = key.start_mark.line + 1
            raise Refusal(f"the key {key.value!r} stands twice", where=f"{path} line {line}")
        seen.add(key.value)
        _refuse_twice(value, path)
