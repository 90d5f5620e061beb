"""Heads outside M0* that compare the printed digits."""

import numpy as np

from analysis.design import Floats
from analysis.numeral_columns import character_codes, digit_characters
from analysis.planted.scene import Build, Scene


def _digits(scene: Scene) -> tuple[Floats, Floats]:
    contexts = scene.contexts
    query = digit_characters(contexts.query_text)[:, :, None].astype(np.float64)
    return query, digit_characters(contexts.x_text)[:, None].astype(np.float64)


def equal_digit(place: int) -> Build:
    """Number of features whose digit at that place is the same."""

    def build(scene: Scene) -> Floats:
        query, x = _digits(scene)
        return np.asarray((query[..., place] == x[..., place]).sum(axis=-1).astype(np.float64))

    return build


def digit_distance(place: int) -> Build:
    """Minus the summed difference of the digits at that place."""

    def build(scene: Scene) -> Floats:
        query, x = _digits(scene)
        return np.asarray(-np.abs(query[..., place] - x[..., place]).sum(axis=-1))

    return build


def leading_equal(count: int, *, all_features: bool = False) -> Build:
    """Features whose first `count` digits are the same, or whether all features' are."""

    def build(scene: Scene) -> Floats:
        query, x = _digits(scene)
        same = (query[..., :count] == x[..., :count]).all(axis=-1)
        found = same.all(axis=-1) if all_features else same.sum(axis=-1)
        return np.asarray(found, dtype=np.float64)

    return build


def common_prefix(scene: Scene) -> Floats:
    """Summed length of the prefixes that query and example share."""
    query, x = _digits(scene)
    return np.asarray(np.cumprod(query == x, axis=-1).sum(axis=(-1, -2)).astype(np.float64))


def equal_characters(scene: Scene) -> Floats:
    """Number of places at which the numerals have the same character."""
    query, _ = character_codes(scene.contexts.query_text)
    x, _ = character_codes(scene.contexts.x_text)
    return np.asarray((query[:, :, None] == x[:, None]).sum(axis=(-1, -2)).astype(np.float64))


def shared_digits(scene: Scene) -> Floats:
    """How many of the ten digits occur in query and example alike, wherever they stand."""
    query, x = _digits(scene)
    kinds = np.arange(10.0)
    in_query = (query[..., None] == kinds).any(axis=(-2, -3))
    in_x = (x[..., None] == kinds).any(axis=(-2, -3))
    return np.asarray((in_query & in_x).sum(axis=-1).astype(np.float64))


def crossed_first_digit(scene: Scene) -> Floats:
    """Whether the query's first feature starts like the example's last one."""
    query, x = _digits(scene)
    return np.asarray((query[..., 0, 0] == x[..., -1, 0]).astype(np.float64))


def digit_sum(scene: Scene) -> Floats:
    """Minus the difference between the sums of all digits."""
    query, x = (np.maximum(part, 0.0).sum(axis=(-1, -2)) for part in _digits(scene))
    return np.asarray(-np.abs(query - x))


def heads() -> dict[str, Build]:
    """Every head of this file."""
    return {
        "two-digit match": leading_equal(2),
        "two-digit match, all features": leading_equal(2, all_features=True),
        "first-digit match, all features": leading_equal(1, all_features=True),
        "last-digit match": equal_digit(-1),
        "middle-digit match": equal_digit(1),
        "last-digit distance": digit_distance(-1),
        "middle-digit distance": digit_distance(1),
        "common prefix": common_prefix,
        "equal characters": equal_characters,
        "shared digits": shared_digits,
        "crossed first digit": crossed_first_digit,
        "digit sum": digit_sum,
    }
