"""Which points are near another one, and how much each counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are imported when they are used

from abctree.types import FloatArray, IntArray

#: Distances in up to so many dimensions are worked out column by column.
_FEW = 16


@dataclass(frozen=True, eq=False)
class Points:
    """Points that are looked through many times."""

    x: FloatArray  #: (n, q)

    def distance(self, at: FloatArray) -> FloatArray:
        """(n,) Euclidean distances from a point (q,)."""
        if len(at) > _FEW:
            return np.asarray(scipy.spatial.distance.cdist(self.x, at[None])[:, 0])
        square = np.zeros(len(self.x))
        for column, value in zip(self._columns, at, strict=True):
            away = column - value
            away *= away
            square += away
        return np.asarray(np.sqrt(square, out=square))

    @cached_property
    def _columns(self) -> FloatArray:
        """(q, n) The same again: few columns are several times as fast to look through as rows."""
        return np.ascontiguousarray(self.x.T)


def spread(z: FloatArray) -> FloatArray:
    """(k,) The standard deviations of columns (n, k), 1 of those that do not vary."""
    deviation = z.std(axis=0)
    return np.where(deviation > 0.0, deviation, 1.0)


def nearest(distance: FloatArray, n: int) -> IntArray:
    """Numbers of the n smallest of distances, and of the ties of the last, in their order."""
    last = np.partition(distance, n)[n] if n < len(distance) else np.inf
    row = np.flatnonzero(distance <= last) if last < np.inf else np.arange(len(distance))
    near = distance[row]
    order = np.argsort(near)  # several times as fast as a stable one, and the same without ties
    if (near[order[1:]] == near[order[:-1]]).any():
        order = np.argsort(near, kind="stable")
    return np.asarray(row[order])


def epanechnikov(distance: FloatArray, epsilon: float) -> FloatArray:
    """1 − (d/ε)² (n,) of distances below ε, and 1 where they are all ties at it or at 0."""
    ratio = distance / epsilon if epsilon > 0.0 else np.zeros(len(distance))
    kernel = np.maximum(0.0, 1.0 - ratio**2)
    return kernel if kernel.any() else np.ones(len(distance))


def systematic(weight: FloatArray, n: int, start: float) -> IntArray:
    """(n,) Numbers of draws in proportion to their weights (m,), in their order.

    All follow from a `start` in [0, 1).
    """
    position = (start + np.arange(n)) / n
    index = np.searchsorted(np.cumsum(weight / weight.sum()), position, side="right")
    return np.asarray(np.minimum(index, len(weight) - 1))
