"""The open unit cube in float64, and `Block`: what stands behind one key of a `Product`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

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
