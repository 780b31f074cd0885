"""How particles are weighted, resampled and moved, row by row, and which one is the answer."""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.dynamic_trees.moves import move
from abctree.kernels.dynamic_trees.tree import (
    N_FREE,
    NODE,
    USED,
    Desk,
    Habits,
    Law,
    Links,
    Tree,
    leaf_of,
    log_rising,
    receive,
)
from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray


@jit
def offspring(weight: FloatArray, u: float) -> IntArray:
    """Systematic resampling: how often each of N particles is drawn, from one uniform u.

    Each number is within one of N times the particle's share; they sum to N.
    """
    n_particles = len(weight)
    number = np.zeros(n_particles, dtype=np.int64)
    total = 0.0
    for p in range(n_particles):
        total += weight[p]
    reached = 0.0
    drawn = 0
    last = 0
    for p in range(n_particles):
        reached += weight[p] / total * n_particles
        while drawn < n_particles and drawn + u < reached:
            number[p] += 1
            drawn += 1
            last = p
    number[last] += n_particles - drawn  # lost to rounding
    return number


@jit(inner=True)
def _resample(
    trees: Tree,
    following: Links,
    slots: IntArray,
    leaf: IntArray,
    number: IntArray,
    n: int,
) -> None:
    """Overwrite the particles that are drawn never by copies of those drawn often; n rows seen."""
    target = 0
    for source in range(len(number)):
        for _ in range(number[source] - 1):
            while number[target] > 0:
                target += 1
            number[target] = 1
            # Loops: numba compiles them in a tenth of the time of assigned slices.
            for i in range(slots[source, USED]):
                trees[target, i] = trees[source, i]
            for row in range(n):
                following[target, row] = following[source, row]
            for k in range(3):
                slots[target, k] = slots[source, k]
            leaf[target] = leaf[source]


@jit(inner=True)
def _predictions(
    law: Law, trees: Tree, cube: FloatArray, row: int, y: int, leaf: IntArray, weight: FloatArray
) -> float:
    """Multiply the weight of each particle by its probability of the label; the sum.

    Leaves the leaf of the row in each particle in `leaf`.
    """
    total = 0.0
    for p in range(len(weight)):
        tree = trees[p]
        i = leaf_of(tree, cube, row)
        leaf[p] = i
        alike = law.a + tree[i].ones if y == 1 else law.b + tree[i].zeros
        weight[p] *= alike / (law.a + law.b + tree[i].ones + tree[i].zeros)
        total += weight[p]
    return total


@jit
def _filtered(
    cube: FloatArray,
    label: IntArray,
    trees: Tree,
    law: Law,
    habits: Habits,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """What `filter_rows` answers, from saplings (N, room) of one leaf each."""
    n, d = cube.shape
    n_particles, room = trees.shape
    following = np.empty((n_particles, n), dtype=np.int32)
    slots = np.zeros((n_particles, 3), dtype=np.int64)
    slots[:, USED] = 1
    desk = Desk(
        np.zeros(n, dtype=np.int64),
        np.zeros(d),
        np.zeros(d),
        np.zeros(d),
        np.zeros((d, habits.n_cuts + 1, 2), dtype=np.int64),
        np.zeros((d, habits.n_cuts)),
        np.zeros(room + 1, dtype=np.int64),
    )
    weight = np.full(n_particles, 1.0 / n_particles)
    leaf = np.zeros(n_particles, dtype=np.int64)
    log_predictive = np.zeros(n)
    for row in range(n):
        y = label[row]
        total = _predictions(law, trees, cube, row, y, leaf, weight)
        log_predictive[row] = math.log(total)
        squares = 0.0
        for p in range(n_particles):
            weight[p] /= total
            squares += weight[p] * weight[p]
        if squares * n_particles > 2.0:
            number = offspring(weight, rng.random())
            _resample(trees, following, slots, leaf, number, row)
            weight[:] = 1.0 / n_particles
        for p in range(n_particles):
            tree = trees[p]
            receive(law, tree, following[p], leaf[p], row, y)
            move(law, habits, tree, following[p], slots[p], leaf[p], cube, label, desk, rng)
    chosen = 0
    rest = rng.random()
    for p in range(n_particles):
        if weight[p] > 0.0 and rest >= 0.0:
            chosen = p
            rest -= weight[p]
    m = slots[chosen, USED] - slots[chosen, N_FREE]
    feature, threshold, left, right, box, count = _flat(trees[chosen], m)
    return feature, threshold, left, right, box, count, log_predictive


@jit(inner=True)
def _flat(
    tree: Tree, m: int
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray]:
    """A particle of m nodes as a `SplitTree`, level by level, and the counts (K, 2) of leaves."""
    node = np.zeros(m, dtype=np.int64)
    feature = np.full(m, -1, dtype=np.int64)
    threshold = np.zeros(m)
    left = np.full(m, -1, dtype=np.int64)
    right = np.full(m, -1, dtype=np.int64)
    box = np.full(m, -1, dtype=np.int64)
    count = np.zeros(((m + 1) // 2, 2), dtype=np.int64)
    end = 1
    n_boxes = 0
    for k in range(m):
        i = node[k]
        if tree[i].feature < 0:
            box[k] = n_boxes
            count[n_boxes, 0] = tree[i].zeros
            count[n_boxes, 1] = tree[i].ones
            n_boxes += 1
        else:
            feature[k] = tree[i].feature
            threshold[k] = tree[i].threshold
            left[k] = end
            right[k] = end + 1
            node[end] = tree[i].left
            node[end + 1] = tree[i].right
            end += 2
    return feature, threshold, left, right, box, count


def filter_rows(
    cube: FloatArray,
    label: IntArray,
    rng: np.random.Generator,
    *,
    n_particles: int,
    max_boxes: int,
    min_rows: int,
    split_prior: tuple[float, float],
    rate_prior: tuple[float, float],
    n_cuts: int,
    factor: float,
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """Filter rows (n, d) with labels 0 or 1 in their order, and draw one particle by its weight.

    The settings are those of `DynamicTree`; a leaf grows by `factor` between two offers.  The
    answer is the five columns of a `SplitTree`, the rows of label 0 and of label 1 in each box
    (K, 2), and the log-probability that the particles gave to each label before they saw it (n,).
    """
    n = len(cube)
    alpha, beta = split_prior
    one, zero = rate_prior
    split = alpha * (1.0 + np.arange(max_boxes + 1.0)) ** -beta
    law = Law(
        log_rising(float(one), n),
        log_rising(float(zero), n),
        log_rising(float(one + zero), n),
        float(one),
        float(zero),
        np.log(split),
        np.log1p(-split),
    )
    saplings = np.zeros((n_particles, 2 * max_boxes - 1), dtype=NODE)
    for name in ("feature", "parent", "head"):
        saplings[name] = -1
    return _filtered(
        np.array(cube, dtype=np.float64),  # copies: read-only arrays would be compiled anew
        np.array(label, dtype=np.int64),
        saplings,
        law,
        Habits(int(min_rows), int(n_cuts), float(factor)),
        rng,
    )
