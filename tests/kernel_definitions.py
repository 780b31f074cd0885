"""The kernels in plain NumPy: slow, and the definition of what `compiled` must return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def boxes_of_tree(
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    box: IntArray,
    d: int,
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper corners (K, d) of the boxes at the leaves of a tree."""
    n_boxes = (len(feature) + 1) // 2
    lower, upper = np.empty((n_boxes, d)), np.empty((n_boxes, d))
    corners = {0: (np.zeros(d), np.ones(d))}
    for node in range(len(feature)):
        low, high = corners.pop(node)
        if feature[node] < 0:
            lower[box[node]], upper[box[node]] = low, high
            continue
        below, above = high.copy(), low.copy()
        below[feature[node]] = above[feature[node]] = threshold[node]
        corners[int(left[node])] = (low, below)
        corners[int(right[node])] = (above, high)
    return lower, upper


def locate(
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    box: IntArray,
    cube: FloatArray,
) -> IntArray:
    """The box (n,) of each point (n, d): the one whose corners enclose it."""
    lower, upper = boxes_of_tree(feature, threshold, left, right, box, cube.shape[1])
    inside = (lower <= cube[:, None, :]) & (cube[:, None, :] < upper)
    return np.asarray(np.argmax(inside.all(axis=2), axis=1))


def links_of_tree(feature, left, right, box):
    """The node above each, -1 for the root; the children, a leaf its own; the leaf of each box."""
    m = len(feature)
    inner = [i for i in range(m) if feature[i] >= 0]
    above = {child: i for i in inner for child in (left[i], right[i])}
    child = [(left[i], right[i]) if i in inner else (i, i) for i in range(m)]
    leaves = sorted((box[i], i) for i in range(m) if i not in inner)
    return [above.get(i, -1) for i in range(m)], child, [i for _, i in leaves]


def draw_in_boxes(
    lower: FloatArray, upper: FloatArray, share: FloatArray, u: FloatArray, cube: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Points (n, d), strictly inside the cube, of boxes that have shares (K,).

    And the box (n,) of each, and its density (n,).
    """
    cumulative = np.cumsum(share)
    box = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    box = np.minimum(box, len(cumulative) - 1)
    low, high = lower[box], upper[box]
    point = np.minimum(low + (high - low) * cube, np.nextafter(high, low))
    point = np.maximum(point, np.maximum(low, np.finfo(float).tiny))
    return point, box, share[box] / np.prod(high - low, axis=1)


def normalise(values: FloatArray) -> float:
    """Divide values by their sum."""
    total = float(values.sum())
    values /= total
    return total


def cube_shares(
    q: FloatArray, prior_mass: FloatArray, defensive: float, feasible: FloatArray
) -> FloatArray:
    """Shares of boxes, so that what the constraint leaves of them is played as q and the prior."""
    share = ((1.0 - defensive) * q + defensive * prior_mass) / feasible
    return np.asarray(share / share.sum())


def densities(value: FloatArray, box: IntArray, share: float, kept: float) -> FloatArray:
    """Density of points in boxes, of a source with this share, of which this share is kept."""
    return np.asarray(share * value[box] / kept)


def euclidean(rows: FloatArray, to: FloatArray) -> FloatArray:
    """Distances of rows to a point."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows - to, rows - to)))


def add_densities(total: FloatArray, n: int, share: FloatArray, volume: FloatArray) -> None:
    """Add the density of n draws in boxes that have shares and volumes."""
    total += n * (share / volume)


def mean_rates(alpha: FloatArray, beta: FloatArray, found: FloatArray) -> None:
    """α / (α + β), and 0 where both are 0."""
    total = alpha + beta
    found[:] = np.divide(alpha, total, out=np.zeros(len(alpha)), where=total > 0.0)


def count_below(distance: FloatArray, epsilon: float) -> int:
    """How many distances (n,) are below a tolerance."""
    return int(np.count_nonzero(distance < epsilon))


def count_rewards(
    arm: IntArray, distance: FloatArray, epsilon: float, alpha: FloatArray, beta: FloatArray
) -> None:
    """(α_I, β_I) ← (α_I + Y, β_I + 1 − Y)."""
    reward = (distance < epsilon).astype(np.float64)
    np.add.at(alpha, arm, reward)
    np.add.at(beta, arm, 1.0 - reward)


def count_by_level(
    arm: IntArray, distance: FloatArray, epsilons: FloatArray, counts: FloatArray
) -> None:
    """Add rows to ``counts`` (K, S + 1): column 0 all rows, column s + 1 those below ε_s."""
    np.add.at(counts[:, 0], arm, 1.0)
    for s, epsilon in enumerate(epsilons):
        np.add.at(counts[:, s + 1], arm[distance < epsilon], 1.0)


def shrink(
    parent: IntArray,
    node_of_box: IntArray,
    counts: FloatArray,
    root_rate: FloatArray,
    strength: float,
) -> tuple[FloatArray, FloatArray]:
    """Beta parameters (K,), (K,) of every box by multi-level shrinkage down a tree.

    With A and N the counts of a node, its rate at level s is ``e = (A + a₀) / (N + a₀ / m)``, where
    m is what the level above and the parent predict,
    ``m = min(1, e[s-1, node] · e[s, parent] / e[s-1, parent])``, and at the first level
    ``e[0, parent]``.
    """
    m, levels = len(parent), counts.shape[1] - 1
    total = np.zeros((m, levels + 1))
    total[node_of_box] = counts
    for node in range(m - 1, 0, -1):
        total[parent[node]] += total[node]
    rate, prior = np.empty((levels, m)), np.empty((levels, m))
    for s in range(levels):
        for node in range(m):
            if node == 0:
                expected = root_rate[s]
            elif s == 0:
                expected = rate[0, parent[node]]
            else:
                fall = rate[s, parent[node]] / rate[s - 1, parent[node]]
                expected = min(1.0, rate[s - 1, node] * fall)
            prior[s, node] = expected
            accepted, n = total[node, s + 1], total[node, 0]
            rate[s, node] = (accepted + strength) / (n + strength / expected)
    alpha = total[node_of_box, levels] + strength
    beta = total[node_of_box, 0] + strength / prior[-1, node_of_box] - alpha
    return alpha, beta


def grow_soft_tree(
    cube: FloatArray, label: FloatArray, max_boxes: int, min_rows: int, n_bins: int
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray]:
    """A regression tree of labels (n,) on points (n, d), grown best-first from the root.

    A box is cut at one of the n_bins - 1 inner edges of `n_bins` equal slices of itself, where the
    squared error falls most and both sides keep `min_rows` rows; the box with the largest fall is
    cut next, until there are `max_boxes` or nothing is gained.
    """
    d = cube.shape[1]
    rows = [np.arange(len(cube))]
    corners = [(np.zeros(d), np.ones(d))]
    feature, threshold, left, right = [-1], [0.0], [-1], [-1]
    cuts = {0: _best_cut(cube, label, rows[0], *corners[0], min_rows, n_bins)}
    while len(feature) < 2 * max_boxes - 1:
        node = max(cuts, key=lambda i: cuts[i][0], default=-1)
        if node < 0 or cuts[node][0] <= 0.0:
            break
        _, j, t = cuts.pop(node)
        feature[node], threshold[node] = j, t
        left[node], right[node] = len(feature), len(feature) + 1
        low, high = corners[node]
        below, above = high.copy(), low.copy()
        below[j] = above[j] = t
        goes_left = cube[rows[node], j] < t
        for child_rows, child in (
            (rows[node][goes_left], (low, below)),
            (rows[node][~goes_left], (above, high)),
        ):
            cuts[len(feature)] = _best_cut(cube, label, child_rows, *child, min_rows, n_bins)
            rows.append(child_rows)
            corners.append(child)
            feature.append(-1)
            threshold.append(0.0)
            left.append(-1)
            right.append(-1)
    leaves = [node for node, j in enumerate(feature) if j < 0]
    box = np.full(len(feature), -1)
    box[leaves] = np.arange(len(leaves))
    row_box = np.empty(len(cube), dtype=np.int64)
    for node in leaves:
        row_box[rows[node]] = box[node]
    return (
        np.array(feature),
        np.array(threshold),
        np.array(left),
        np.array(right),
        box,
        row_box,
    )


def _best_cut(
    cube: FloatArray,
    label: FloatArray,
    rows: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    min_rows: int,
    n_bins: int,
) -> tuple[float, int, float]:
    """The largest fall in squared error, and where: gain, feature, threshold."""
    y = label[rows]
    base = y.sum() ** 2 / max(len(y), 1)
    best = (0.0, -1, 0.0)
    for j in range(cube.shape[1]):
        scale = n_bins / (upper[j] - lower[j])
        slices = np.clip(((cube[rows, j] - lower[j]) * scale).astype(int), 0, n_bins - 1)
        for b in range(n_bins - 1):
            side = slices <= b
            edge = lower[j] + (upper[j] - lower[j]) * (b + 1) / n_bins
            if min(side.sum(), (~side).sum()) < min_rows or not lower[j] < edge < upper[j]:
                continue
            gain = y[side].sum() ** 2 / side.sum() + y[~side].sum() ** 2 / (~side).sum() - base
            if gain > best[0] + 1e-12 * max(base, 1.0):
                best = (float(gain), j, float(edge))
    return best


def mix(root, index):
    """In whole numbers of any size."""
    seeds = []
    for i in index.tolist():
        z = root ^ (0x9E3779B97F4A7C15 * (i + 1) % 2**64)
        for _ in range(2):
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            z = z ^ (z >> 31)
        seeds.append(z)
    return np.array(seeds, dtype=np.uint64)


def squared_distances(y, centre):
    """|y_i − c_j|²."""
    square = np.zeros((len(y), centre.shape[1]))
    for at, column in zip(y.T, centre, strict=True):
        square += (at[:, None] - column) ** 2
    return square


def log_gaussian_sums(y, centre, weight):
    """Log Σ_j w_j exp(−|y_i − c_j|² / 2)."""
    square = ((y[:, None, :] - centre.T) ** 2).sum(axis=2)
    return special.logsumexp(-0.5 * square, b=weight, axis=1)
