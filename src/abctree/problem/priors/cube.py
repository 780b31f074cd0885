"""The open unit cube in float64."""

from __future__ import annotations

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
