"""The kernels that a run uses, compiled by numba on first call and cached on disk.

Each is defined by a twin of the same name in NumPy, in tests/kernel_definitions.py.  Trees are the
flat arrays of `abctree.data.SplitTree`.
"""

from __future__ import annotations

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray


@jit
def boxes_of_tree(
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    box: IntArray,
    d: int,
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper corners (K, d) of the boxes at the leaves of a tree."""
    m = len(feature)
    n_boxes = (m + 1) // 2
    node_lower = np.zeros((m, d))
    node_upper = np.ones((m, d))
    lower = np.zeros((n_boxes, d))
    upper = np.ones((n_boxes, d))
    for i in range(m):
        j = feature[i]
        if j < 0:
            for c in range(d):
                lower[box[i], c] = node_lower[i, c]
                upper[box[i], c] = node_upper[i, c]
            continue
        for child in (left[i], right[i]):
            for c in range(d):
                node_lower[child, c] = node_lower[i, c]
                node_upper[child, c] = node_upper[i, c]
        node_upper[left[i], j] = threshold[i]
        node_lower[right[i], j] = threshold[i]
    return lower, upper


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
def draw_in_boxes(
    lower: FloatArray, upper: FloatArray, share: FloatArray, u: FloatArray, cube: FloatArray
) -> None:
    """Points of boxes (K, d) that have shares (K,), from uniform numbers.

    Those of u (n,) say the boxes, those of `cube` (n, d) the places in them: these become points.
    See `abctree.data.Boxes.sample`.
    """
    most = len(share) - 1
    cumulative = np.empty(len(share))
    total = 0.0
    for k in range(len(share)):
        total += share[k]
        cumulative[k] = total
    for i in range(len(cube)):
        reached = u[i] * cumulative[most]
        k = 0
        above = most
        while k < above:  # the box is among k..above
            middle = (k + above) // 2
            if cumulative[middle] > reached:
                above = middle
            else:
                k = middle + 1
        for j in range(cube.shape[1]):
            low, high = lower[k, j], upper[k, j]
            at = low + (high - low) * cube[i, j]
            if at >= high:
                at = np.nextafter(high, low)
            cube[i, j] = max(at, low, _TINY)


@jit
def add_times(total: FloatArray, n: int, values: FloatArray) -> None:
    """Add n times some values (K,) to a total (K,)."""
    for k in range(len(total)):
        total[k] += n * values[k]


@jit(fastmath=set(), error_model="numpy")
def mean_rates(alpha: FloatArray, beta: FloatArray, found: FloatArray) -> None:
    """Algorithm 1, line 4: η_k = α_k / (α_k + β_k) of each arm (K,), 0 where both are 0."""
    for k in range(len(alpha)):
        found[k] = alpha[k] / max(alpha[k] + beta[k], _TINY)


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


@jit
def _best_cut(
    cube: FloatArray,
    label: FloatArray,
    row: IntArray,
    start: int,
    stop: int,
    lower: FloatArray,
    upper: FloatArray,
    n_bins: int,
    min_rows: int,
) -> tuple[float, int, float]:
    """The cut at a bin edge that most reduces the squared error: gain, feature, threshold.

    Of the rows start:stop.
    """
    if stop - start < 2 * min_rows:
        return 0.0, -1, 0.0
    is_zero = True
    for i in range(start, stop):
        if label[i] != 0.0:
            is_zero = False
            break
    if is_zero:  # as most of the cube is
        return 0.0, -1, 0.0
    d = cube.shape[1]
    sums = np.zeros((d, n_bins, 2))  # rows, and their labels
    scale = np.empty(d)
    for j in range(d):
        scale[j] = n_bins / (upper[j] - lower[j])
    everything = 0.0
    for i in range(start, stop):
        y = label[i]
        everything += y
        at = row[i]
        for j in range(d):
            b = min(n_bins - 1, max(0, int((cube[at, j] - lower[j]) * scale[j])))
            sums[j, b, 0] += 1.0
            sums[j, b, 1] += y
    n = float(stop - start)
    base = everything * everything / max(n, 1.0)
    # Of two cuts that part the rows alike the first is taken, whatever the rounding.
    least = 1e-12 * max(base, 1.0)
    best = 0.0
    feature = -1
    threshold = 0.0
    for j in range(d):
        n_left = 0.0
        sum_left = 0.0
        for b in range(n_bins - 1):
            n_left += sums[j, b, 0]
            sum_left += sums[j, b, 1]
            n_right = n - n_left
            if n_left < min_rows or n_right < min_rows:
                continue
            rest = everything - sum_left
            gain = sum_left * sum_left / n_left + rest * rest / n_right - base
            edge = lower[j] + (upper[j] - lower[j]) * (b + 1) / n_bins
            # A box may be too thin for float64 to cut.
            if gain > best + least and lower[j] < edge and edge < upper[j]:
                best = gain
                feature = j
                threshold = edge
    return best, feature, threshold


@jit
def grow_soft_tree(
    cube: FloatArray, label: FloatArray, row: IntArray, max_boxes: int, min_rows: int, n_bins: int
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray]:
    """A regression tree of labels (n,) on some rows (n,) of points (N, d), grown best-first.

    A box is cut at one of the n_bins - 1 inner edges of `n_bins` equal slices *of the box*, where
    the squared error falls most and both sides keep `min_rows` rows; the box with the largest fall
    is cut next, until there are `max_boxes` or nothing is gained.

    Labels and rows are put into another order, that of the boxes: what is as long as the table must
    not be copied.

    Returns
    -------
    feature, threshold, left, right, box : ndarray of shape (m,)
        The tree, as in `abctree.data.SplitTree`.
    row_box : ndarray of shape (N,)
        The box of each row, -1 of one that is not among those that were given.
    """
    n, d = len(row), cube.shape[1]
    room = 2 * max_boxes - 1
    feature = np.full(room, -1, dtype=np.int64)
    threshold = np.zeros(room)
    left = np.full(room, -1, dtype=np.int64)
    right = np.full(room, -1, dtype=np.int64)
    start = np.zeros(room, dtype=np.int64)
    stop = np.zeros(room, dtype=np.int64)
    lower = np.zeros((room, d))
    upper = np.ones((room, d))
    gain = np.zeros(room)
    cut_feature = np.zeros(room, dtype=np.int64)
    cut_threshold = np.zeros(room)
    # Rows are kept grouped by node: a node is the slice start:stop.
    # Heap of nodes by gain, largest first.
    heap = np.empty(room, dtype=np.int64)
    heap_size = 0
    stop[0] = n
    m = 1
    first = 0  # nodes first..m-1 are new and not yet examined
    n_boxes = 1
    while True:
        for node in range(first, m):
            g, j, t = _best_cut(
                cube, label, row, start[node], stop[node], lower[node], upper[node], n_bins,
                min_rows,
            )  # fmt: skip
            gain[node] = g
            cut_feature[node] = j
            cut_threshold[node] = t
            if j >= 0:
                i = heap_size
                heap[i] = node
                heap_size += 1
                while i > 0 and gain[heap[(i - 1) // 2]] < gain[heap[i]]:
                    heap[(i - 1) // 2], heap[i] = heap[i], heap[(i - 1) // 2]
                    i = (i - 1) // 2
        first = m
        if heap_size == 0 or n_boxes >= max_boxes:
            break
        node = heap[0]
        heap_size -= 1
        heap[0] = heap[heap_size]
        i = 0
        while True:
            largest = i
            for c in (2 * i + 1, 2 * i + 2):
                if c < heap_size and gain[heap[c]] > gain[heap[largest]]:
                    largest = c
            if largest == i:
                break
            heap[i], heap[largest] = heap[largest], heap[i]
            i = largest
        j = cut_feature[node]
        t = cut_threshold[node]
        a = start[node]
        b = stop[node]
        while a < b:
            if cube[row[a], j] < t:
                a += 1
            else:
                b -= 1
                label[a], label[b] = label[b], label[a]
                row[a], row[b] = row[b], row[a]
        feature[node] = j
        threshold[node] = t
        left[node] = m
        right[node] = m + 1
        for child in (m, m + 1):
            for c in range(d):
                lower[child, c] = lower[node, c]
                upper[child, c] = upper[node, c]
        upper[m, j] = t
        lower[m + 1, j] = t
        start[m] = start[node]
        stop[m] = a
        start[m + 1] = a
        stop[m + 1] = stop[node]
        m += 2
        n_boxes += 1
    box = np.full(m, -1, dtype=np.int64)
    row_box: IntArray = np.full(len(cube), -1, dtype=np.int32)
    k = 0
    for node in range(m):
        if feature[node] < 0:
            box[node] = k
            for i in range(start[node], stop[node]):
                row_box[row[i]] = k
            k += 1
    return feature[:m].copy(), threshold[:m].copy(), left[:m].copy(), right[:m].copy(), box, row_box
