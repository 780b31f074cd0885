"""What may cross the border of a prior, and what is said of the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import TypeGuard

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.types import FloatArray


def checked_cube(name: str, cube: object, d: int) -> FloatArray:
    """The points (n, d) of the unit cube as float64."""
    points = _checked_rows(name, cube, d)
    # One comparison with the extremes also refuses nan.
    if points.size and not (points.min() >= 0.0 and points.max() <= 1.0):
        raise ParameterError(
            f"`{name}` must lie in the unit cube [0, 1], but got values from {points.min()} to "
            f"{points.max()}. Map parameters to the cube with to_cube first."
        )
    return points


def checked_theta(theta: object, names: tuple[str, ...]) -> FloatArray:
    """The parameters (n, n_parameters) as float64 without nan."""
    rows = _checked_rows("theta", theta, len(names))
    bad = np.isnan(rows).any(axis=0)
    if bad.any():
        raise ParameterError(
            f"`theta` must not contain nan, but got nan for {names[int(np.argmax(bad))]!r}. "
            "Remove those rows."
        )
    return rows


def checked_boxes(lower: object, upper: object, d: int) -> tuple[FloatArray, FloatArray]:
    """The two corners (K, d) of boxes of the cube."""
    low, high = checked_cube("lower", lower, d), checked_cube("upper", upper, d)
    if low.shape != high.shape or (low > high).any():
        raise ParameterError(
            f"`upper` must be at least `lower`, of shape {low.shape}, but got {high.shape} or "
            "a smaller entry. Give both corners of every box."
        )
    return low, high


def _checked_rows(name: str, rows: object, width: int) -> FloatArray:
    try:
        array = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`{name}` must be an array of numbers, but got {type(rows).__name__}. "
            f"Give a float array of shape (n, {width})."
        ) from error
    if array.ndim != 2 or array.shape[1] != width:
        advice = f"Give one point as {name}[None, :]." if array.ndim == 1 else "Give one row each."
        raise wrong(name, f"have shape (n, {width})", f"shape {array.shape}", advice)
    return array


def checked_names(names: object) -> tuple[str, ...]:
    """Distinct non-empty strings."""
    if isinstance(names, str | AbstractSet) or not isinstance(names, Iterable):
        raise wrong("names", "be a sequence of names", repr(names), "Write ('a', 'b').")
    given = tuple(names)
    for name in given:
        if not isinstance(name, str) or not name:
            raise wrong("names", "be non-empty strings", repr(name), "Name every parameter.")
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise wrong("names", "be distinct", f"{repeated[0]!r} twice", "Rename one of them.")
    if not given:
        raise wrong("names", "not be empty", "()", "Name every parameter.")
    return given


def finite_number(name: str, value: object) -> float:
    """A finite float."""
    if not _is_finite(value):
        raise wrong(name, "be a finite number", repr(value), "Give an int or a float.")
    return float(value)


def _is_finite(value: object) -> TypeGuard[Real]:
    """Whether it is a real number of a size that float64 has."""
    try:  # as a float64, for the infinity of a float32 is not above the largest of these
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def finite_numbers(name: str, values: object, advice: str) -> tuple[float, ...]:
    """One or more finite floats, from a sequence or a one-dimensional array."""
    # What a dict holds under its keys would be lost, and a set has no order.
    if isinstance(values, str | Mapping | AbstractSet) or not isinstance(values, Iterable):
        raise wrong(name, "be a sequence of numbers", repr(values), advice)
    given = tuple(values)
    others = [v for v in given if not _is_finite(v)]
    if others or not given:
        raise ParameterError(
            f"`{name}` must be finite numbers, at least one, but got "
            f"{others[0] if others else given!r}. {advice}"
        )
    return tuple(float(v) for v in given)


def whole_number(name: str, value: object) -> int:
    """An int that float64 holds exactly."""
    number = finite_number(name, value)
    if not number.is_integer() or abs(number) > 2.0**53:
        raise wrong(name, "be a whole number up to 2**53", repr(value), "Round it.")
    return int(number)
