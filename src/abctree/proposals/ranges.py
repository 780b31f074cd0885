"""What a step function is on average over a range of the cube, such as the interval of an atom."""

from __future__ import annotations

import numpy as np

from abctree.data import Boxes, Mixture, Steps
from abctree.problem.priors.cube import HIGHEST, LOWEST
from abctree.protocols import HasCubeRange, HasLogDensity, Prior
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows averaged at once: a limit on memory.
_ROWS_AT_ONCE = 2048


def cube_range(prior: Prior, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends (n, d), (n, d) of what a prior maps to theta (n, p), for atoms their intervals.

    A prior without a `cube_range` of its own is taken at `to_cube`.
    """
    if isinstance(prior, HasCubeRange):
        return prior.cube_range(theta)
    point = prior.to_cube(theta)
    return point, point


def middle(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The points in the middle of ranges, in the open cube."""
    return np.clip(0.5 * lower + 0.5 * upper, LOWEST, HIGHEST)


def out_of_support(prior: Prior, theta: FloatArray, cube: FloatArray) -> BoolArray:
    """Find where a prior has no density: theta (n, p), its place (n, d) in the cube -> (n,)."""
    if isinstance(prior, HasLogDensity):
        return np.asarray(np.asarray(prior.log_density(theta)) == -np.inf)
    # A point out of the support maps to a face of the cube.
    return np.asarray(((cube <= LOWEST) | (cube >= HIGHEST)).any(axis=1))


def mean_over(boxes: Boxes, value: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Means of a step function over ranges of the cube, exact up to rounding.

    The function has `value` (K,) on the boxes; the ranges (n, d), (n, d) have no length in a
    dimension that is not averaged over.  O(m log K) for m pairs of a range and a box that meet.
    """
    if (lower == upper).all():
        return np.asarray(value[boxes.locate(lower)])
    mean = np.empty(len(lower))
    for first in range(0, len(lower), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        row, box, share = _met(boxes, lower[some], upper[some])
        mean[some] = np.bincount(row, value[box] * share, minlength=len(lower[some]))
    return mean


def mean_density(mixture: Mixture, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """M of a `Mixture`, averaged over ranges of the cube: (n, d), (n, d) -> (n,).

    Exact for proposals on boxes.  A mixture with others is asked at 16 midpoints of the range,
    or at 64 Sobol' points if the range has several dimensions: where it is smooth, good to 1 %.
    """
    if (lower == upper).all():
        return mixture(middle(lower, upper))
    total = np.zeros(len(lower))
    laws = [(n, law) for layer in mixture.layers for n, law in layer]
    steps = [(n, law) for n, law in laws if isinstance(law, Steps)]
    if len(steps) == len(laws):
        total += mixture.n_prior
        for n, law in steps:
            total += n * mean_over(law.boxes, law.value, lower, upper)
        return total
    free = np.flatnonzero((lower < upper).any(axis=0))
    even = _even(16 if len(free) == 1 else 64, len(free))
    for share in even:
        point = lower.copy()
        point[:, free] += (upper - lower)[:, free] * share
        total += mixture(middle(point, point))
    return total / len(even)


def _even(n: int, d: int) -> FloatArray:
    """Points (n, d), n a power of two, that in each dimension are the n midpoints."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(d, scramble=False).random(n) + 0.5 / n)


def _met(
    boxes: Boxes, lower: FloatArray, upper: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs of a range and a box that meet, and the share of the range that the box holds."""
    tree = boxes.tree
    row, node = np.arange(len(lower)), np.zeros(len(lower), dtype=np.int64)
    rows, found = [], []
    while len(row):
        leaf = tree.feature[node] < 0
        rows.append(row[leaf])
        found.append(tree.box[node[leaf]])
        row, node = row[~leaf], node[~leaf]
        dim, cut = tree.feature[node], tree.threshold[node]
        left = lower[row, dim] < cut
        right = (upper[row, dim] > cut) | ~left
        row = np.concatenate([row[left], row[right]])
        node = np.concatenate([tree.left[node[left]], tree.right[node[right]]])
    row, box = np.concatenate(rows), np.concatenate(found)
    low, high = lower[row], upper[row]
    length = high - low
    overlap = np.minimum(high, boxes.upper[box]) - np.maximum(low, boxes.lower[box])
    share = np.divide(overlap, length, out=np.ones_like(length), where=length > 0.0)
    return row, box, np.asarray(share.prod(axis=1))
