"""Numeral codecs: how a number is printed, and how an answer is read back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prompts.refusal import Refusal, unknown_name

Sign = Literal["none", "negative", "always"]


@dataclass(frozen=True)
class Codec:
    """One way of printing numbers with a fixed number of decimals.

    `low` and `high` are the smallest and the largest number that can be printed. An `affine`
    codec maps each column's range onto them (least-squares weights do not change under such a
    map); the others print numbers as they are. `sign` says when a sign is printed: never, before
    negative numbers, or always. A `padded` codec prints all `integer_digits`, with zeros in front.
    """

    name: str
    integer_digits: int
    decimals: int
    sign: Sign
    padded: bool
    affine: bool

    @property
    def high(self) -> float:
        """The largest number that fits the width, e.g. 9.99."""
        whole: int = 10 ** (self.integer_digits + self.decimals)
        return (whole - 1) / 10.0**self.decimals

    @property
    def low(self) -> float:
        """The smallest number that can be printed: 0 without a sign, else minus `high`."""
        return 0.0 if self.sign == "none" else -self.high

    def round(self, values: ArrayLike) -> NDArray[np.float64]:
        """The numbers as printed: rounded to the codec's decimals, half to even, never -0.0."""
        rounded = np.round(np.asarray(values, dtype=np.float64), self.decimals)
        return np.asarray(rounded + 0.0, dtype=np.float64)

    def text(self, printed: float) -> str:
        """The numeral, e.g. ``1.25``, ``+1.25`` or ``042``; minus zero prints as zero.

        Refuses what is not finite and what does not fit the width.
        """
        number = float(self.round(printed))
        if not np.isfinite(number) or not self.low <= number <= self.high:
            raise Refusal(
                f"the number {float(printed)!r} does not fit codec {self.name!r}, "
                f"which prints {self.numeral(self.low)} to {self.numeral(self.high)}"
            )
        return self.numeral(number)

    def numeral(self, number: float) -> str:
        """The numeral of a number that is on the printed grid and fits the width."""
        width = self.integer_digits + (self.decimals + 1 if self.decimals else 0)
        digits = f"{abs(number):0{width if self.padded else 0}.{self.decimals}f}"
        if number < 0:
            return f"-{digits}"
        return f"+{digits}" if self.sign == "always" else digits

    def printed(self, values: ArrayLike, *, low: float, high: float) -> NDArray[np.float64]:
        """The printed numbers of a column whose range is [low, high].

        An affine codec maps the range onto [`self.low`, `self.high`], whatever its magnitude
        (1e-200 to 1e200), and a column without a range onto the middle; other codecs only round.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if not self.affine:
            return self.round(numbers)
        half = high / 2 - low / 2
        share = (numbers / 2 - low / 2) / half if half > 0 else np.full(numbers.shape, 0.5)
        # Twelve digits of the share are kept, so that a change of unit cannot flip a rounding.
        return self.round(self.low + np.round(share, 12) * (self.high - self.low))

    def parse_answer(self, text: str) -> float | None:
        """The number at the start of a generated text, or None where it is not readable.

        Strict: exactly the codec's decimals (and digits, where padded), an optional ASCII sign,
        within the codec's range, and then the end, white space or one of ``, ; )``. So ``3.50``
        and ``-0.00`` (0.0) are read by a two-decimal codec; ``3.5 (approx)``, ``nan``,
        ``1_000``, ``1e3`` and digits of other scripts are not.
        """
        found = re.match(self._grammar(), text)
        if found is None:
            return None
        number = float(self.round(float(found[1])))
        return number if self.low <= number <= self.high else None

    def _grammar(self) -> str:
        whole = f"[0-9]{{{self.integer_digits}}}" if self.padded else "(?:0|[1-9][0-9]*)"
        fraction = rf"\.[0-9]{{{self.decimals}}}" if self.decimals else ""
        return rf" *([+-]?{whole}{fraction})(?=\Z|\s|[,;)](?![0-9]))"


CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        codec.name: codec
        for codec in (
            Codec("unsigned-integer", 3, 0, sign="none", padded=True, affine=True),
            Codec("unsigned-decimal", 1, 2, sign="none", padded=True, affine=True),
            Codec("decimal", 1, 2, sign="negative", padded=False, affine=False),
            Codec("signed-decimal", 1, 2, sign="always", padded=True, affine=False),
        )
    }
)


def codec_named(name: str) -> Codec:
    """The codec of that name; ``decimal(3,1)`` is `decimal` with 3 integer digits, 1 decimal.

    Refuses an unknown name, and more than 15 digits (float64 holds no more).
    """
    found = re.fullmatch(r"\s*([^()]*?)\s*(?:\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\))?\s*", name)
    if found is None or found[1] not in CODECS:
        raise unknown_name("codec", name, CODECS)
    codec = CODECS[found[1]]
    if found[2] is None:
        return codec
    integer_digits, decimals = int(found[2]), int(found[3])
    if integer_digits < 1 or not integer_digits + decimals <= 15:
        raise Refusal(f"a codec needs 1 to 15 digits, at least 1 before the point; came {name!r}")
    canonical = f"{codec.name}({integer_digits},{decimals})"
    return replace(codec, name=canonical, integer_digits=integer_digits, decimals=decimals)
