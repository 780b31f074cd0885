"""`Tabled`: the prior of which a table of draws is all that is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree.types import FloatArray


class Tabled:
    """Independent laws through the sorted draws of each parameter.

    A place in the cube is a rank, and what lies between two draws is interpolated: nothing leaves
    the range of the draws.
    """

    def __init__(self, theta: FloatArray, names: Sequence[str]) -> None:
        self._sorted = np.sort(theta, axis=0)
        self._level = (np.arange(len(theta)) + 0.5) / len(theta)
        self._names = tuple(names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._names

    @property
    def d(self) -> int:
        """Columns of the table."""
        return int(self._sorted.shape[1])

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n, d) quantiles."""
        columns = [
            np.interp(u, self._level, x) for u, x in zip(cube.T, self._sorted.T, strict=True)
        ]
        return np.column_stack(columns)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, d) -> (n, d) levels; those of the middle draw where several are equal."""
        columns = []
        for value, draws in zip(theta.T, self._sorted.T, strict=True):
            low, high = (np.searchsorted(draws, value, side) for side in ("left", "right"))
            between = np.interp(value, draws, self._level)
            columns.append(np.where(high > low, (low + high) / 2.0 / len(draws), between))
        return np.column_stack(columns)

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K,) of boxes of the cube, in the units of the parameters."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.from_cube(upper) - self.from_cube(lower)).sum(axis=1))
