"""A tree of soft labels, grown best-first: what a default run cuts its boxes by; links of trees."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray


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
    is cut next, until there are `max_boxes` or nothing is gained.  The answer is the arrays of an
    `abctree.data.SplitTree`, and the box of each of the N rows, -1 of one that was not given.

    Labels and rows are put into another order, that of the boxes: what is as long as the table must
    not be copied.
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
    # Rows are kept grouped by node: a node is the slice start:stop.
    # Cuts, the largest gain first: minus the gain, node, feature, threshold.
    heap = [(0.0, 0, 0, 0.0)]
    heap.pop()  # numba knows the type now
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
            if j >= 0:
                heappush(heap, (-g, node, j, t))
        first = m
        if len(heap) == 0 or n_boxes >= max_boxes:
            break
        _, node, j, t = heappop(heap)
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


@jit
def links_of_tree(
    feature: IntArray,
    left: IntArray,
    right: IntArray,
    box: IntArray,
    parent: IntArray,
    child: IntArray,
    node_of_box: IntArray,
) -> None:
    """The node above each (m,), -1 for the root, both children (m, 2), and the leaf of each box.

    A leaf is its own child.
    """
    parent[0] = -1
    for i in range(len(feature)):
        child[i, 0] = left[i] if feature[i] >= 0 else i
        child[i, 1] = right[i] if feature[i] >= 0 else i
        if feature[i] >= 0:
            parent[left[i]] = parent[right[i]] = i
        else:
            node_of_box[box[i]] = i
