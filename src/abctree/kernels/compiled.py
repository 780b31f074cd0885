"""The kernels that a run uses, compiled by numba on first call and cached on disk.

Each is defined by a twin of the same name in NumPy, in tests/kernel_definitions.py.  Trees are the
flat arrays of `abctree.data.SplitTree`.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.jit import jit
from abctree.kernels.sums import summed
from abctree.types import FloatArray, IntArray


@jit
def boxes_of_tree(
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    box: IntArray,
    d: int,
) -> FloatArray:
    """Lower and upper corners (2, K, d) of the boxes at the leaves of a tree."""
    m = len(feature)
    sides, corners = np.empty((2, m, d)), np.empty((2, (m + 1) // 2, d))
    for i in range(m):
        j = feature[i]
        for side in range(2):
            for c in range(d):
                at = sides[side, i, c] if i > 0 else float(side)
                if j < 0:
                    corners[side, box[i], c] = at
                else:
                    sides[side, left[i], c] = at
                    sides[side, right[i], c] = at
        if j >= 0:
            sides[1, left[i], j] = threshold[i]
            sides[0, right[i], j] = threshold[i]
    return corners


#: No point has a smaller coordinate: 0 maps to -inf under an unbounded prior.
_TINY = float(np.finfo(np.float64).tiny)

#: Points that `locate` takes down the tree side by side: a step waits for memory, and other points
#: can go on meanwhile.
_LANES = 8


@jit
def locate(
    feature: IntArray,
    threshold: FloatArray,
    child: IntArray,
    box: IntArray,
    cube: FloatArray,
    found: IntArray,
) -> None:
    """The box (n,) of each point (n, d), by a tree whose leaves are their own children (m, 2).

    See `abctree.data.SplitTree.lookup`.  To return an array takes longer than to find a few points.
    """
    n = len(cube)
    at = np.empty(_LANES, dtype=np.int32)
    whole = n - n % _LANES
    for i in range(0, whole, _LANES):
        for lane in range(_LANES):
            at[lane] = 0
        moved = np.int32(1)
        while moved != 0:
            moved = np.int32(0)
            for lane in range(_LANES):
                node = at[lane]
                is_right = np.int64(cube[i + lane, feature[node]] >= threshold[node])
                below = child[node, is_right]
                moved |= below ^ node
                at[lane] = below
        for lane in range(_LANES):
            found[i + lane] = box[at[lane]]
    for i in range(whole, n):
        node = np.int32(-1)
        below = np.int32(0)
        while below != node:
            node = below
            below = child[node, np.int64(cube[i, feature[node]] >= threshold[node])]
        found[i] = box[node]


@jit
def locate_others(
    feature: IntArray,
    threshold: FloatArray,
    child: IntArray,
    box: IntArray,
    cube: FloatArray,
    distance: FloatArray,
    fold: IntArray,
    own: int,
    found: IntArray,
    kept: FloatArray,
) -> int:
    """How many points (n, d) are not of the own fold; their boxes and their distances (n,).

    They are the first ones of `found` and `kept`.  See `locate`.
    """
    others = np.empty(cube.shape)
    m = 0
    for i in range(len(cube)):
        if fold[i] != own:
            for j in range(cube.shape[1]):
                others[m, j] = cube[i, j]
            kept[m] = distance[i]
            m += 1
    locate(feature, threshold, child, box, others[:m], found[:m])
    return m


@jit
def draw_in_boxes(
    lower: FloatArray,
    upper: FloatArray,
    volume: FloatArray,
    share: FloatArray,
    u: FloatArray,
    first: int,
    step: int,
    cube: FloatArray,
    box: IntArray,
    density: FloatArray,
) -> None:
    """m points of boxes (K, d) that have shares (K,), from m (1 + d) uniform numbers.

    The first m say the boxes, the others the places in them; see `abctree.data.Boxes.sample`.
    Points (n, d), the box (n,) of each, and the density (n,) there are put into the row `first`,
    and others `step` rows apart.
    """
    d = cube.shape[1]
    m = len(u) // (1 + d)
    most = len(share) - 1
    cumulative = np.empty(len(share))
    total = 0.0
    for k in range(len(share)):
        total += share[k]
        cumulative[k] = total
    for i in range(m):
        row = first + i * step
        reached = u[i] * cumulative[most]
        k = 0
        above = most
        while k < above:  # the box is among k..above
            middle = (k + above) // 2
            if cumulative[middle] > reached:
                above = middle
            else:
                k = middle + 1
        box[row] = k
        density[row] = share[k] / volume[k]
        for j in range(d):
            low, high = lower[k, j], upper[k, j]
            at = low + (high - low) * u[m + i * d + j]
            if at >= high:
                at = np.nextafter(high, low)
            cube[row, j] = max(at, low, _TINY)


@jit
def sums_below(
    weight: FloatArray, distance: FloatArray, epsilons: FloatArray, found: FloatArray
) -> None:
    """Sums (S,) of the weights (n,) of rows with a distance below each ε (S,), as NumPy's."""
    below = np.empty(len(weight))
    for s in range(len(epsilons)):
        m = 0
        for i in range(len(weight)):
            below[m] = weight[i]
            m += distance[i] < epsilons[s]
        found[s] = summed(below[:m])


@jit
def normalise(values: FloatArray) -> float:
    """Divide values (K,) by their sum, which is returned."""
    total = summed(values)
    for k in range(len(values)):
        values[k] /= total
    return total


@jit
def cube_shares(
    q: FloatArray,
    prior_mass: FloatArray,
    defensive: float,
    feasible: FloatArray,
    found: FloatArray,
) -> None:
    """Shares (K,) in which boxes are offered, so that they are played as q beside the prior.

    See `abctree.data.Partition.cube_proposal`.
    """
    for k in range(len(q)):
        found[k] = ((1.0 - defensive) * q[k] + defensive * prior_mass[k]) / feasible[k]
    normalise(found)


@jit
def densities(
    feature: IntArray,
    threshold: FloatArray,
    child: IntArray,
    box: IntArray,
    cube: FloatArray,
    value: FloatArray,
    share: float,
    kept: float,
    arm: IntArray,
    found: FloatArray,
) -> None:
    """The box (n,) of each point, as `locate`, and the density (n,) of what a source draws there.

    From those of candidates in boxes (K,), of which a share is kept.
    """
    locate(feature, threshold, child, box, cube, arm)
    for i in range(len(arm)):
        found[i] = share * value[arm[i]] / kept


@jit
def within(values: FloatArray, low: float, high: float) -> bool:
    """Whether all numbers (n,) are in [low, high]; nan is in none."""
    found = True
    for i in range(len(values)):
        found &= low <= values[i] <= high
    return found


@jit
def uniform_points(
    cube: FloatArray, width: FloatArray, low: FloatArray, high: FloatArray, found: FloatArray
) -> None:
    """Points (n, k) of intervals (k,) from those of the cube; no rounding leads above `high`."""
    for i in range(len(cube)):
        for j in range(len(low)):
            at = cube[i, j] * width[j] + low[j]
            found[i, j] = min(at, high[j])


@jit
def euclidean(rows: FloatArray, to: FloatArray, found: FloatArray) -> None:
    """Distances (n,) of rows (n, m) to a point (m,), summed in the order of NumPy's einsum.

    Two by two, and of eight numbers the last ones first.
    """
    m = len(to)
    whole = m // 8 * 8
    for i in range(len(rows)):
        even = odd = 0.0
        for first in range(0, whole, 8):
            for j in range(first + 6, first - 2, -2):
                a = rows[i, j] - to[j]
                b = rows[i, j + 1] - to[j + 1]
                even += a * a
                odd += b * b
        for j in range(whole, m - 1, 2):
            a = rows[i, j] - to[j]
            b = rows[i, j + 1] - to[j + 1]
            even += a * a
            odd += b * b
        if m % 2:
            a = rows[i, m - 1] - to[m - 1]
            even += a * a
        found[i] = math.sqrt(even + odd)


@jit
def add_densities(total: FloatArray, n: int, share: FloatArray, volume: FloatArray) -> None:
    """Add to a total (K,) the density of n draws in boxes that have shares and volumes (K,)."""
    for k in range(len(total)):
        total[k] += n * (share[k] / volume[k])


@jit
def mean_rates(alpha: FloatArray, beta: FloatArray, found: FloatArray) -> None:
    """Algorithm 1, line 4: η_k = α_k / (α_k + β_k) of each arm (K,), 0 where both are 0."""
    for k in range(len(alpha)):
        found[k] = alpha[k] / max(alpha[k] + beta[k], _TINY)


@jit
def count_below(distance: FloatArray, epsilon: float) -> int:
    """How many distances (n,) are below a tolerance."""
    found = 0
    for i in range(len(distance)):
        found += distance[i] < epsilon
    return found


@jit
def count_rewards(
    arm: IntArray, distance: FloatArray, epsilon: float, alpha: FloatArray, beta: FloatArray
) -> None:
    """Algorithm 1, line 11: add each row to α (K,) of its arm if it is accepted, else to β (K,)."""
    for i in range(len(arm)):
        if distance[i] < epsilon:
            alpha[arm[i]] += 1.0
        else:
            beta[arm[i]] += 1.0


@jit
def count_by_level(
    arm: IntArray, distance: FloatArray, epsilons: FloatArray, counts: FloatArray
) -> None:
    """Add rows to ``counts`` (K, S + 1): column 0 all rows, column s + 1 those below ε_s.

    `epsilons` (S,) must decrease.
    """
    n_boxes, width = counts.shape
    if len(arm) < n_boxes:
        for i in range(len(arm)):
            counts[arm[i], 0] += 1.0
            for s in range(len(epsilons)):
                if not distance[i] < epsilons[s]:
                    break
                counts[arm[i], s + 1] += 1.0
        return
    # Each row once, where it is lowest, and sums from there: whole numbers, the same in any order.
    lowest = np.zeros((n_boxes, width))
    for i in range(len(arm)):
        a = 0
        b = width - 1
        while a < b:  # the tolerances 0..a-1 are above the distance
            middle = (a + b) // 2
            if distance[i] < epsilons[middle]:
                a = middle + 1
            else:
                b = middle
        lowest[arm[i], a] += 1.0
    for k in range(n_boxes):
        total = 0.0
        for s in range(width - 1, -1, -1):
            total += lowest[k, s]
            counts[k, s] += total


@jit
def shrink(
    parent: IntArray,
    node_of_box: IntArray,
    counts: FloatArray,
    root_rate: FloatArray,
    strength: float,
    alpha: FloatArray,
    beta: FloatArray,
) -> None:
    """Beta parameters (K,), (K,) of every box by multi-level shrinkage down a tree.

    `counts` (K, S + 1) as in `count_by_level`; `root_rate` (S,) the rate of the whole prior at each
    level; `strength` a₀ in pseudo-acceptances.  With A and N the counts of a node, its rate at
    level s is ``e = (A + a₀) / (N + a₀ / m)``, where m is what the level above and the parent
    predict: ``m = min(1, e[s-1, node] · e[s, parent] / e[s-1, parent])``, at the first level
    ``e[0, parent]``.
    """
    m = len(parent)
    n_boxes = len(node_of_box)
    levels = counts.shape[1] - 1
    total = np.zeros((m, levels + 1))
    for k in range(n_boxes):
        for s in range(levels + 1):
            total[node_of_box[k], s] = counts[k, s]
    for i in range(m - 1, 0, -1):
        for s in range(levels + 1):
            total[parent[i], s] += total[i, s]
    above = np.empty(m)  # rates one level up
    rate = np.empty(m)
    prior = np.empty(m)
    for s in range(levels):
        for i in range(m):
            if i == 0:
                prior[0] = root_rate[s]
            elif s == 0:
                prior[i] = rate[parent[i]]
            else:
                prior[i] = min(1.0, above[i] * rate[parent[i]] / above[parent[i]])
            rate[i] = (total[i, s + 1] + strength) / (total[i, 0] + strength / prior[i])
        for i in range(m):
            above[i] = rate[i]
    for k in range(n_boxes):
        i = node_of_box[k]
        alpha[k] = total[i, levels] + strength
        beta[k] = total[i, 0] + strength / prior[i] - alpha[k]
