"""The unit cube in float64, what stands behind a key of a `Product`, checks of its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.kernels import within
from abctree.types import FloatArray

#: A quantile function is finite between these or nowhere.
LOWEST = float(np.finfo(np.float64).tiny)
HIGHEST = float(1.0 - np.finfo(np.float64).epsneg)

#: No image of a box with an inside is reported as smaller than this.
SMALLEST_LOG_WIDTH = float(np.log(np.finfo(np.float64).smallest_subnormal))


def inside(cube: FloatArray) -> FloatArray:
    """The nearest points of the open cube."""
    return np.clip(cube, LOWEST, HIGHEST)


def spread(n: int, d: int) -> FloatArray:
    """Points (n, d) that fill the cube evenly, as does every stretch of them.

    An additive recurrence: the steps are the powers of the root of x^(d + 1) = x + 1, the golden
    ratio for d = 1.  NumPy alone, so that the numbers do not depend on the version of another
    library.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (d + 1.0))
    step = root ** -np.arange(1.0, d + 1.0)
    return (0.5 + np.outer(np.arange(n), step)) % 1.0


#: The support of what a regression must not move.
NO_SUPPORT = np.full((1, 2), np.nan)


class Block(Protocol):
    """A map of a small cube: the prior of one parameter, or of a few that belong together.

    Blocks see checked arrays only: cube points in [0, 1], theta without nan.
    """

    @property
    def d(self) -> int:
        """Dimensions of its cube."""

    @property
    def support(self) -> FloatArray:
        """(n_columns, 2) Least and largest value, infinite where there is none.

        All nan for columns that a regression must not move: discrete, fixed, or on a simplex.
        """

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n, n_columns), finite and inside the support."""

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, n_columns) -> (n, d) in the open cube; the nearest face for theta out of support."""

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log-volumes of the images of boxes: (K, d), (K, d) -> (K,)."""

    def log_density(self, theta: FloatArray) -> FloatArray:
        """(n, n_columns) -> (n,), relative to the measure of `log_volume`."""


@runtime_checkable
class DiscreteBlock(Block, Protocol):
    """A block of discrete parameters, which maps an interval of its cube to one value."""

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, n_columns) -> the ends (n, d), (n, d) in [0, 1] of the part that the atom owns."""


# What may cross the border of a prior -------------------------------------------------------------


def checked_cube(name: str, cube: object, d: int) -> FloatArray:
    """The points (n, d) of the unit cube as float64."""
    points = _checked_rows(name, cube, d)
    if not within(points, 0.0, 1.0):
        raise ParameterError(
            f"`{name}` must lie in the unit cube [0, 1], but got values from {points.min()} to "
            f"{points.max()}. Map parameters to the cube with to_cube first."
        )
    return points


def checked_theta(theta: object, names: tuple[str, ...]) -> FloatArray:
    """The parameters (n, n_parameters) as float64 without nan; columns with names go by these."""
    rows = _checked_rows("theta", _in_order(theta, names), len(names))
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


def _in_order(theta: Any, names: tuple[str, ...]) -> object:
    """The columns of a table or a dict in the order of the names; others are left out."""
    held = theta if isinstance(theta, Mapping) else getattr(theta, "columns", ())
    if not any(isinstance(name, str) for name in held):
        return theta
    if not set(names) <= set(held):
        raise wrong("theta", f"have the columns {', '.join(names)}", ", ".join(map(str, held)))
    columns = [np.asarray(theta[name]) for name in names]
    return np.array(columns).T if len({x.shape for x in columns}) == 1 else columns


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
        advice = "Give it in larger units." if abs(number) > 2.0**53 else "Round it."
        raise wrong(name, "be a whole number up to 2**53", repr(value), advice)
    return int(number)
