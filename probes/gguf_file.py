"""Reads the header of a GGUF file: its architecture, and how long the whole file must be.

The format is the one of llama.cpp's `gguf` (version 2 and 3, little-endian). Reading the header
alone tells a cut-off file from a whole one before anything is loaded from it.
"""

import struct
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from prompts.refusal import Refusal

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
# Value types of the format: uint8, int8, uint16, int16, uint32, int32, float32, bool, then
# string and array, then uint64, int64, float64.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
# What transformers writes differently from the files themselves.
_FILE_NAMES = {
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "gpt_oss": "gpt-oss",
    "minimax_m2": "minimax-m2",
}


class GgufHeader(NamedTuple):
    """What a GGUF file says about itself; `bytes` is the length that it needs."""

    architecture: str
    tensors: int
    bytes: int


class _Cut(Exception):
    """The file ends inside its header."""


def read_header(path: Path) -> GgufHeader:
    """The architecture, the number of tensors, and the length in bytes that the header demands.

    Refuses a file that is no GGUF file or ends inside its header.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(4)
        if magic != _MAGIC:
            raise Refusal(f"needed a GGUF file; this one starts with {magic!r}", where=str(path))
        try:
            return _header(_Reader(file, size))
        except _Cut as error:
            sentence = f"damaged: {size:,} bytes, and it ends inside its own header"
            raise Refusal(sentence, where=str(path)) from error
        except (KeyError, ArithmeticError, ValueError) as error:
            sentence = f"damaged: {size:,} bytes, and its header cannot be read ({error})"
            raise Refusal(sentence, where=str(path)) from error


def refuse_unusable(path: Path) -> None:
    """Refuses a GGUF file that is cut off, or whose architecture transformers cannot read."""
    header = read_header(path)
    size = path.stat().st_size
    if size < header.bytes:
        raise Refusal(f"damaged: {size:,} bytes, expected {header.bytes:,}", where=str(path))
    supported = supported_architectures()
    if header.architecture not in supported:
        raise Refusal(
            f"architecture {header.architecture!r} is not supported; supported ones: "
            f"{', '.join(supported)}",
            where=str(path),
        )


def supported_architectures() -> tuple[str, ...]:
    """The GGUF architectures of causal language models that the installed transformers reads."""
    # Sections of the header and encoder-decoder models stand in the same table.
    causal = set(GGUF_SUPPORTED_ARCHITECTURES) & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    return tuple(sorted({_FILE_NAMES.get(name, name) for name in causal} | _newer_ones()))


def _newer_ones() -> set[str]:
    """Architectures of a second table, which transformers has from 5.24 on."""
    try:
        table = import_module("transformers.integrations.gguf.gguf_conversion_mapping")
    except ImportError:
        return set()
    return set(table.GGUF_ARCHS)


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def take(self, count: int) -> bytes:
        if count > self._size - self._file.tell():
            raise _Cut
        return self._file.read(count)

    def number(self, code: str) -> int:
        return int(struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0])

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def skip(self, kind: int) -> None:
        """Steps over one value."""
        if kind == _STRING:
            self.take(self.number("Q"))
        elif kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in _SCALARS:
                self.take(count * struct.calcsize(_SCALARS[inner]))
            elif inner == _STRING:
                for _ in range(count):
                    self.skip(_STRING)
            else:
                raise ValueError(f"an array holds values of the unknown type {inner}")
        else:
            self.take(struct.calcsize(_SCALARS[kind]))

    def position(self) -> int:
        return self._file.tell()


def _header(reader: _Reader) -> GgufHeader:
    version = reader.number("I")
    if version not in (2, 3):
        raise ValueError(f"needed version 2 or 3, came {version}")
    tensors, entries = reader.number("Q"), reader.number("Q")
    architecture, alignment = "", 32
    for _ in range(entries):
        key, kind = reader.text(), reader.number("I")
        if key == "general.architecture" and kind == _STRING:
            architecture = reader.text()
        elif key == "general.alignment" and kind in _SCALARS:
            alignment = reader.number(_SCALARS[kind])
        else:
            reader.skip(kind)
    ends = [_tensor_end(reader) for _ in range(tensors)]
    start = -(-reader.position() // alignment) * alignment
    return GgufHeader(architecture, tensors, start + max(ends, default=0))


def _tensor_end(reader: _Reader) -> int:
    """Where a tensor's data ends, in bytes from the start of the data."""
    name = reader.text()
    elements = 1
    for _ in range(reader.number("I")):
        elements *= reader.number("Q")
    kind, offset = reader.number("I"), reader.number("Q")
    if kind not in {known.value for known in GGMLQuantizationType}:
        raise ValueError(f"tensor {name!r} has the unknown number type {kind}")
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return offset + elements // block * block_bytes
