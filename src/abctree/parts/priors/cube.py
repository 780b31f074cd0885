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
