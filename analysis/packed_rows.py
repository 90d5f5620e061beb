"""Rows packed into text for the report, small enough to embed and exact enough to look at.

The place in the prompt carries nearly all of a raw score's variance, so a row is split into its
mean over the queries (16 bits a value) and the rest (12 bits a value), each scaled by its own
largest value. What the row test looks at, the rest, keeps a step of 1/2047 of its largest value.
"""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

MEAN_LIMIT, REST_LIMIT = 32767, 2047
"""The largest integers used; one below the negative limit stands for NaN."""
ORDER = ("variant", "context", "layer", "head", "part", "query", "example")


class PackedBlocks(NamedTuple):
    """Blocks of M queries by N examples as base64: means, rest and the two scales of each block."""

    means: str
    rest: str
    scales: str


def pack_blocks(blocks: NDArray[np.floating[Any]]) -> PackedBlocks:
    """Pack blocks (B, M, N); NaN stays NaN, and a block of NaN only has scale 0."""
    if blocks.ndim != 3:
        raise ValueError(f"needed blocks (block, query, example), came the shape {blocks.shape!r}")
    values = blocks.astype(np.float64)
    seen = np.isfinite(values)
    counts = np.maximum(seen.sum(axis=1), 1)
    means = np.where(seen, values, 0.0).sum(axis=1) / counts
    means[~seen.any(axis=1)] = np.nan
    rest = np.where(seen, values - means[:, None, :], np.nan)
    mean_codes, mean_scales = _codes(means, MEAN_LIMIT)
    # the rest is taken from the mean as it will be read, so that the two errors do not add up
    read = mean_codes * mean_scales[:, None]
    rest = np.where(seen, values - read[:, None, :], np.nan)
    rest_codes, rest_scales = _codes(rest.reshape(len(rest), -1), REST_LIMIT)
    scales = np.stack([mean_scales, rest_scales], axis=1).astype("<f4")
    return PackedBlocks(
        _text(mean_codes.astype("<i2").tobytes()),
        _text(_twelve_bits(rest_codes)),
        _text(scales.tobytes()),
    )


def rows_for_page(rows: xr.DataArray, bank_rows: xr.DataArray) -> dict[str, Any]:
    """Everything that the page's picture of one row needs, ready for JSON."""
    ordered = rows.transpose(*ORDER)
    values = ordered.to_numpy()
    packed = pack_blocks(values.reshape(-1, *values.shape[-2:]))
    names = {name: [_plain(v) for v in _labels(ordered, name)] for name in ORDER}
    bank = bank_rows.transpose("hypothesis", "context", "query", "example")
    return {
        **names,
        "packed": packed._asdict(),
        "hypothesis": [str(name) for name in _labels(bank, "hypothesis")],
        "bank": [_rounded(row) for row in bank.to_numpy()],
    }


def _labels(array: xr.DataArray, name: str) -> Sequence[Any]:
    if name in array.coords:
        return list(array.coords[name].to_numpy().tolist())
    return list(range(array.sizes[name]))


def _codes(values: NDArray[np.float64], limit: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Integers within the limit and the scale of each line, rounded to float32 as it is stored."""
    seen = np.isfinite(values)
    largest = np.abs(np.where(seen, values, 0.0)).max(axis=1, initial=0.0)
    scales = (largest / limit).astype(np.float32).astype(np.float64)
    codes = np.rint(np.where(seen, values, 0.0) / np.where(scales > 0, scales, 1.0)[:, None])
    codes = np.clip(codes, -limit, limit)
    return np.where(seen, codes, -limit - 1).astype(np.int64), scales


def _twelve_bits(codes: NDArray[np.int64]) -> bytes:
    """Two codes in three bytes, low bits first; code + 2048 is in 0..4095."""
    flat = (codes + 2048).ravel()
    if flat.size % 2:
        flat = np.append(flat, 0)
    first, second = flat[0::2], flat[1::2]
    triples = np.stack([first & 255, first >> 8 | (second & 15) << 4, second >> 4], axis=1)
    return triples.astype(np.uint8).tobytes()


def _rounded(row: NDArray[Any]) -> list[Any]:
    """Nested lists with five significant digits; None for NaN."""
    if row.ndim:
        return [_rounded(part) for part in row]
    number = float(row)
    return None if not np.isfinite(number) else float(f"{number:.5g}")  # type: ignore[return-value]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else str(value)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
