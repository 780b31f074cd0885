"""Sums in the order in which NumPy makes them: to the last bit the same."""

from __future__ import annotations

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray

#: Values that are summed without being parted.
_FEW = 128


@jit(inner=True)
def _sum_of_few(values: FloatArray, first: int | np.int64, n: int) -> float:
    """The sum of n values from the first on, by eight counters."""
    whole = n // 8 * 8
    total = 0.0
    if whole:
        a, b, c, d = values[first], values[first + 1], values[first + 2], values[first + 3]
        e, f, g, h = values[first + 4], values[first + 5], values[first + 6], values[first + 7]
        for i in range(first + 8, first + whole, 8):
            a += values[i]
            b += values[i + 1]
            c += values[i + 2]
            d += values[i + 3]
            e += values[i + 4]
            f += values[i + 5]
            g += values[i + 6]
            h += values[i + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(first + whole, first + n):
        total += values[i]
    return total


@jit(inner=True)
def summed(values: FloatArray) -> float:
    """The sum in the order in which NumPy makes it, of many values half by half."""
    right = np.empty(64, np.int64)  # values of the right halves that wait; 0 of the one at hand
    left = np.empty(64)  # sums of the left halves
    depth, first = 0, np.int64(0)  # not a constant, for which all is compiled once more
    n = len(values)
    while True:
        while n > _FEW:
            half = n // 2 // 8 * 8
            right[depth] = n - half
            depth += 1
            n = half
        total = _sum_of_few(values, first, n)
        first += n
        while depth > 0 and right[depth - 1] == 0:
            depth -= 1
            total = left[depth] + total
        if depth == 0:
            return total
        left[depth - 1] = total
        n = right[depth - 1]
        right[depth - 1] = 0
