"""Continuous parameters: uniform intervals, fixed values, and any quantile function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from abctree import kernels
from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.problem.priors.cube import (
    HIGHEST,
    LOWEST,
    NO_SUPPORT,
    SMALLEST_LOG_WIDTH,
    finite_number,
    inside,
)
from abctree.problem.priors.distribution import Distribution
from abctree.types import FloatArray

# Two quantiles this near, relative to their size, have lost the digits of their difference.
_NEARBY = 64.0 * float(np.finfo(np.float64).eps)

# Cube points from the outside in: where a quantile function is tried.
_FROM_BELOW = (LOWEST, 1e-200, 1e-100, 1e-50, 1e-30, 1e-20, 1e-16, 1e-14, 1e-12, 1e-9, 1e-6)
_FROM_ABOVE = (HIGHEST, *(1.0 - u for u in (4e-16, 1e-15, 1e-14, 1e-12, 1e-9, 1e-6)))


@dataclass(frozen=True, eq=False)
class Uniform:
    """k independent uniform parameters, mapped together by one affine operation."""

    low: FloatArray  #: (k,)
    high: FloatArray  #: (k,) above low

    @property
    def d(self) -> int:
        return len(self.low)

    @cached_property
    def width(self) -> FloatArray:
        """The lengths of the intervals: (k,)."""
        return self.high - self.low

    @cached_property
    def support(self) -> FloatArray:
        return np.column_stack([self.low, self.high])

    def from_cube(self, cube: FloatArray) -> FloatArray:
        theta = np.empty(cube.shape)
        at = np.ascontiguousarray(cube)
        kernels.load().uniform_points(at, self.width, self.low, self.high, theta)
        return theta

    def to_cube(self, theta: FloatArray) -> FloatArray:
        # Clipped first: the distance of a far outsider may overflow.
        within = np.clip(theta, self.low, self.high)
        return inside((within - self.low) / self.width)

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(upper - lower).sum(axis=1) + np.log(self.width).sum())

    def log_density(self, theta: FloatArray) -> FloatArray:
        within = ((theta >= self.low) & (theta <= self.high)).all(axis=1)
        return np.where(within, -np.log(self.width).sum(), -np.inf)


@checks_keywords
@dataclass(frozen=True)
class Periodic:
    """Uniform on a circle: an angle, a phase, a time of the day, of which both ends are one value.

    Means, standard deviations, quantiles, intervals, adjustment and plots go around the circle.

    Parameters
    ----------
    low, high : float
        Where the circle is cut open, ``low < high``.  Boxes end there: cut it where the posterior
        is not, if that is known.

    Raises
    ------
    ParameterError
        If an end is not a finite number, or low >= high.

    Examples
    --------
    >>> from abctree.problem.priors import Periodic, Product
    >>> Product({"hour": Periodic(0, 24)}).from_cube([[0.25], [0.75]]).ravel()
    array([ 6., 18.])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", finite_number("low", self.low))
        object.__setattr__(self, "high", finite_number("high", self.high))
        if not (self.low < self.high and np.isfinite(self.high - self.low)):
            raise wrong("high", "be above `low`", f"low={self.low}, high={self.high}", "Swap them.")

    def block(self) -> Uniform:
        """The map of the cube."""
        return Uniform(np.array([self.low]), np.array([self.high]))


@dataclass(frozen=True)
class Fixed:
    """A parameter with one value: a column of theta without a cube dimension, of volume one."""

    value: float

    d: ClassVar[int] = 0
    support: ClassVar[FloatArray] = NO_SUPPORT

    def from_cube(self, cube: FloatArray) -> FloatArray:
        return np.full((len(cube), 1), self.value)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        return np.empty((len(theta), 0))

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:  # noqa: ARG002
        return np.zeros(len(lower))

    def log_density(self, theta: FloatArray) -> FloatArray:
        return np.where(theta[:, 0] == self.value, 0.0, -np.inf)


@dataclass(frozen=True, eq=False)
class Continuous:
    """One parameter through a quantile function: theta = ppf(u)."""

    label: str  #: what an error calls it
    law: Distribution
    first: float  #: the smallest cube point at which ppf is fit for use
    last: float  #: the largest

    d: ClassVar[int] = 1

    @classmethod
    def of(cls, label: str, law: Distribution) -> Continuous:
        """The block of a law, if its quantile function works."""
        first = _outermost(law, _FROM_BELOW, lambda x: x <= law.middle)
        last = _outermost(law, _FROM_ABOVE, lambda x: x >= law.middle)
        if first is None or last is None:
            raise ParameterError(
                f"`{label}` must have quantiles in (0, 1), but those of {law} fail within 1e-6 of "
                "an end. Truncate it or use another distribution."
            )
        return cls(label, law, first, last)

    @cached_property
    def support(self) -> FloatArray:
        return np.array([self.law.support])

    def from_cube(self, cube: FloatArray) -> FloatArray:
        u = np.clip(cube, self.first, self.last)
        theta = self.law.ppf(u)
        bad = np.isnan(theta)
        if bad.any():
            raise ParameterError(
                f"`{self.label}` must have a quantile at every point of (0, 1), but got nan at "
                f"{u[bad][0]}. Truncate the distribution or use another one."
            )
        return np.clip(theta, *self.law.finite_support)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        return inside(self.law.cdf(theta))

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        a, b = (self.law.end(u, self.first, self.last) for u in (lower, upper))
        return log_image_width(a, b, lower, upper, self.law.log_density)[:, 0]

    def log_density(self, theta: FloatArray) -> FloatArray:
        return self.law.log_density(theta)[:, 0]


def _outermost(
    law: Distribution, candidates: tuple[float, ...], fits: Callable[[float], bool]
) -> float | None:
    """The first candidate with a finite quantile on its own side of the median.

    Near the ends, several quantile functions of scipy return nan, the infinity of the wrong sign,
    warn or raise.  If none is finite (a very heavy tail), the first on its own side; or None.
    """
    fallback = None
    for u in candidates:
        x = _quantile(law, u)
        if fits(x) and np.isfinite(x):
            return u
        if fits(x) and fallback is None:
            fallback = u
    return fallback


def _quantile(law: Distribution, u: float) -> float:
    """The quantile, or nan if there is an error or a warning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return float(law.ppf(u))
    except (ArithmeticError, RuntimeError, ValueError, Warning):
        return float("nan")


def log_image_width(
    a: FloatArray,
    b: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    log_density: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """log(b − a) for the quantiles a, b at cube points lower <= upper, all of one shape.

    Where rounding has eaten the difference, it is (upper − lower) / density instead, which is exact
    in the limit.  Finite or +inf for every box with an inside.
    """
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(a), np.abs(b))
        answer = np.log(b - a)
        near = np.isfinite(size) & (b - a <= _NEARBY * size)
        if near.any():
            by_density = np.log(upper - lower) - log_density(0.5 * a + 0.5 * b)
            answer = np.where(near, np.where(np.isfinite(by_density), by_density, np.nan), answer)
        answer = np.where(np.isinf(size), np.inf, answer)
        # fmax: where neither is a number, the image is too small for float64.
        return np.where(upper > lower, np.fmax(answer, SMALLEST_LOG_WIDTH), -np.inf)
