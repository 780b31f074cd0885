"""Log-odds of the coordinates of the cube, where there is no border to step over."""

from __future__ import annotations

import numpy as np

from abctree.kernels.student import EDGE
from abctree.types import FloatArray


def log_odds(cube: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log(u / (1 − u)) of the coordinates (n, d), and log Π du / d(log-odds) of the points (n,)."""
    u = np.clip(cube, EDGE, 1.0 - EDGE)
    low, high = np.log(u), np.log1p(-u)
    return low - high, np.asarray((low + high).sum(axis=1))
