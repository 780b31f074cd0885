"""Parameters on circles: which they are, where weighted draws of them lie, and how they spread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from abctree.protocols import Circle, HasCircles, Prior
from abctree.types import FloatArray


def circles_of(prior: Prior) -> tuple[Circle, ...]:
    """Parameters on circles, as far as the prior knows."""
    return prior.circles if isinstance(prior, HasCircles) else ()


def opened(theta: FloatArray, circles: Iterable[Circle], centre: FloatArray) -> FloatArray:
    """Points (..., p) with circles cut open opposite a centre (p,)."""
    theta = theta.copy()
    for circle in circles:
        j = circle.column
        theta[..., j] = circle.around(theta[..., j], float(centre[j]))
    return theta


def closed(theta: FloatArray, circles: Iterable[Circle]) -> FloatArray:
    """Points (..., p) with circles as they are: within [low, high)."""
    theta = theta.copy()
    for circle in circles:
        theta[..., circle.column] = circle.wrapped(theta[..., circle.column])
    return theta


class Direction(NamedTuple):
    """Where draws on a circle lie."""

    mean: float  #: in [low, high)
    length: float  #: R in [0, 1], of the mean of the unit vectors
    along: FloatArray  #: (m,) cosines of the angles to the mean
    across: FloatArray  #: (m,) their sines
    radian: float  #: one, in the unit of the parameter

    @classmethod
    def of(cls, value: FloatArray, weight: FloatArray, circle: Circle) -> Direction:
        """Of values (m,) with weights (m,) that sum to one."""
        radian = circle.width / (2.0 * np.pi)
        angle = (value - circle.low) / radian
        x, y = weight @ np.cos(angle), weight @ np.sin(angle)
        mean = float(np.arctan2(y, x))
        length = min(float(np.hypot(x, y)), 1.0)
        return cls(
            circle.low + (mean * radian) % circle.width,
            length,
            np.cos(angle - mean),
            np.sin(angle - mean),
            radian,
        )

    @property
    def std(self) -> float:
        """The circular standard deviation √(−2 ln R), that of a wrapped normal distribution."""
        with np.errstate(divide="ignore"):
            return float(np.sqrt(-2.0 * np.log(self.length))) * self.radian

    def influence_on_mean(self) -> FloatArray:
        """(m,) How each draw moves the mean, to first order."""
        return self.across / self.length * self.radian

    def influence_on_std(self) -> FloatArray:
        """(m,) How each draw moves the standard deviation, to first order."""
        spread = self.std / self.radian
        moved = (self.length - self.along) / self.length * self.radian
        return np.asarray(moved / spread if spread > 0.0 else np.zeros_like(moved))
