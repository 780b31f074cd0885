"""Balls and boxes in which the exact answers of the ready problems live."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from abctree.numbers import check_rule
from abctree.types import BoolArray, FloatArray

#: log2 of the number of points of the quasi-random averages over a ball.
_LOG2_POINTS = 15
#: Fewest and most proposals in one batch of a rejection sampler.
_BATCH = (1024, 2**17)


def checked_radius(epsilon: float) -> float:
    """Return the radius of the ball of a tolerance, or raise `ParameterError`."""
    check_rule("epsilon", epsilon, "in [0, inf)")
    return float(epsilon)


def ball_volume(d: int, radius: float) -> float:
    """Return the volume of a ball in d dimensions."""
    return float(math.pi ** (d / 2) / math.gamma(d / 2 + 1) * radius**d)


def draws_in_ball(n: int, d: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Uniform points of the ball (n, d) around 0."""
    direction = rng.standard_normal((n, d))
    length = checked_radius(epsilon) * rng.random((n, 1)) ** (1.0 / d)
    return np.asarray(length * direction / np.linalg.norm(direction, axis=1, keepdims=True))


@functools.cache
def even_ball(d: int) -> FloatArray:
    """Quasi-random points (2^15, d) that fill the unit ball evenly; the same ones every time."""
    n = 2**_LOG2_POINTS
    # Moved to the middle of their cells: the first point of an unscrambled sequence is 0.
    cube = qmc.Sobol(d + 1, scramble=False).random_base2(_LOG2_POINTS) + 0.5 / n
    direction = ndtri(cube[:, :d])
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * cube[:, d:] ** (1.0 / d))


def inside_cube(theta: FloatArray, half_width: float) -> BoolArray:
    """Find the points (n, d) that lie in a cube around 0: (n,)."""
    return np.asarray((np.abs(theta) < half_width).all(axis=1))


@functools.cache
def inside_box(
    d: int, epsilon: float, *, center: float, offset: float, sd: float, low: float, high: float
) -> float:
    """P(θ ∈ (low, high)^d) for θ = x − offset − sd·e, x uniform in the ball around the center.

    Given x the coordinates are independent; the average over x is quasi-random.
    """
    radius = checked_radius(epsilon)
    x = radius * even_ball(d) if radius > 0.0 else np.zeros((1, d))
    mean = center + x - offset
    return float((ndtr((high - mean) / sd) - ndtr((low - mean) / sd)).prod(axis=1).mean())


def collected(n: int, d: int, batch: Callable[[int], FloatArray]) -> FloatArray:
    """The first n rows that successive batches of proposals leave."""
    parts, kept, size = [np.empty((0, d))], 0, int(np.clip(2 * n, *_BATCH))
    while kept < n:
        parts.append(batch(size))
        kept += len(parts[-1])
        rate = max(len(parts[-1]), 1) / size
        size = int(np.clip(1.1 * (n - kept) / rate, *_BATCH))
    return np.concatenate(parts)[:n]
