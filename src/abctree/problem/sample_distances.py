"""How far apart two samples are, as empirical laws."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from abctree.errors import SimulatorError
from abctree.types import FloatArray, IntArray


def paired(simulated: FloatArray, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Samples as (n, m, k) and (m', k)."""
    x = np.asarray(simulated, dtype=np.float64)
    y = np.asarray(observed, dtype=np.float64)
    if x.ndim == 2 and y.ndim == 1:
        x, y = x[:, :, None], y[:, None]
    if x.ndim != 3 or y.ndim != 2 or x.shape[2] != y.shape[1] or 0 in {*x.shape[1:], *y.shape}:
        raise SimulatorError(
            "simulated samples must have shape (n, m) with observed (m',), or (n, m, k) with "
            f"(m', k), none of them empty, but got {np.shape(simulated)} and {np.shape(observed)}."
        )
    return x, y


def energy_line(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 ∫ (F − G)² of samples x (n, m) and y (m',)."""
    pooled = np.concatenate([x, np.broadcast_to(y, (len(x), len(y)))], axis=1)
    step = np.concatenate([np.full(x.shape[1], 1 / x.shape[1]), np.full(len(y), -1 / len(y))])
    order = np.argsort(pooled, axis=1)
    gap = np.diff(np.take_along_axis(pooled, order, axis=1), axis=1)
    difference = np.cumsum(step[order], axis=1)[:, :-1]
    return np.asarray(2.0 * np.sum(difference**2 * gap, axis=1))


def energy(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 E|X−Y| − E|X−X'| − E|Y−Y'| of samples x (n, m, k) and y (m', k), over all pairs."""
    m = x.shape[1]
    # `pdist` holds each pair once; a point has no distance to itself.
    within_y = 2.0 * pdist(y).sum() / len(y) ** 2
    within_x = np.array([2.0 * pdist(row).sum() / m**2 for row in x])
    across = np.array([cdist(row, y).mean() for row in x])
    return np.asarray(2.0 * across - within_x - within_y)


# Wasserstein ------------------------------------------------------------------------------------


def wasserstein_line(x: FloatArray, y: FloatArray, p: float) -> FloatArray:
    """∫ |F⁻¹ − G⁻¹|^p of samples x (n, m) and y (m',)."""
    i, j, width = _common_levels(x.shape[1], len(y))
    gap = np.abs(np.sort(x, axis=1)[:, i] - np.sort(y)[j])
    return np.asarray((gap if p == 1.0 else gap**p) @ width)


def directions(n: int, k: int, seed: int) -> FloatArray:
    """(n, k) Random unit vectors; the only one, (1, 1), on the line."""
    if k == 1:
        return np.ones((1, 1))
    u = np.random.default_rng(seed).standard_normal((n, k))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


def _common_levels(m: int, n: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Intervals on which both empirical quantile functions are constant: ranks and widths.

    In whole numbers (levels times m n), because i/m and j/n that are equal may differ as floats.
    """
    level = np.union1d(np.arange(m + 1) * n, np.arange(n + 1) * m)
    start = level[:-1]
    return start // n, start // m, np.diff(level) / (m * n)
