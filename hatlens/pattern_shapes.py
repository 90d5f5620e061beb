"""Attention patterns of chosen heads, in the shapes that BertViz and CircuitsVis take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hatlens.store import json_text, void, write_whole
from probes.head_names import Head
from prompts.refusal import Refusal, unknown_name


@dataclass(frozen=True)
class Patterns:
    """Weights of each head: `attention` float32 (head, query, key), 0 to 1.

    `tokens` name the rows and the columns. `note` says what they are and what is not known.
    """

    tokens: list[str]
    attention: NDArray[np.float32]
    heads: tuple[Head, ...]
    note: str

    def bertviz(self) -> dict[str, Any]:
        """`attention`, a tuple of (1, head, query, key) a layer, `tokens`, `layers`, `heads`.

        `heads` are the numbers of the heads of each layer. BertViz stacks layers, so it needs
        equally many heads of each; other choices are refused.
        """
        layers = list(dict.fromkeys(head.layer for head in self.heads))
        of = {i: [n for n, head in enumerate(self.heads) if head.layer == i] for i in layers}
        if len({len(places) for places in of.values()}) != 1:
            counts = ", ".join(f"{len(places)} of layer {i}" for i, places in of.items())
            raise Refusal(f"BertViz needs equally many heads of each layer, came {counts}")
        return {
            "attention": tuple(self.attention[None, of[layer]] for layer in layers),
            "tokens": self.tokens,
            "layers": layers,
            "heads": [[self.heads[place].head for place in of[layer]] for layer in layers],
            "note": self.note,
        }

    def circuitsvis(self) -> dict[str, Any]:
        """`tokens`, `attention` (head, query, key), and `heads`, the name of each head."""
        return {
            "tokens": self.tokens,
            "attention": self.attention,
            "heads": [str(head) for head in self.heads],
            "note": self.note,
        }

    def save(self, out: str | Path, *, format: str, force: bool = False) -> Path:
        """Write one of the shapes as JSON; `format` is "bertviz" or "circuitsvis"."""
        if format not in SHAPES:
            raise unknown_name("format", format, SHAPES)
        text = json_text(SHAPES[format](self))
        path = new_file(out, force=force)
        write_whole(path, lambda stream: void(stream.write(text.encode("utf-8"))))
        return path


SHAPES: Mapping[str, Callable[[Patterns], dict[str, Any]]] = MappingProxyType(
    {"bertviz": Patterns.bertviz, "circuitsvis": Patterns.circuitsvis}
)


def new_file(out: str | Path, *, force: bool) -> Path:
    """The path of a file that may be written; refuses a folder, and without force a file."""
    path = Path(out)
    if path.is_dir():
        raise Refusal("needed a file to write, came a folder", where=str(path))
    if path.exists() and not force:
        raise Refusal("the file exists; force (--force) replaces it", where=str(path))
    return path
