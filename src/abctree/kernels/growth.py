"""A tree of soft labels, grown best-first: what a default run cuts its boxes by; links of trees."""

from __future__ import annotations

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray


@jit(inner=True)
def _slice_of(value: float, lower: float, scale: float, n_bins: int) -> int:
    """The slice of a box in which a coordinate is."""
    return min(n_bins - 1, max(0, int((value - lower) * scale)))


@jit(inner=True)
def _best_cut(
    slices: IntArray,
    label: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    n_bins: int,
    min_rows: int,
    sums: FloatArray,
) -> tuple[float, int, float]:
    """The cut at a bin edge that most reduces the squared error: gain, feature, threshold.

    Of rows whose slices are known; `sums` (d · n_bins, 2) is room.
    """
    if len(label) < 2 * min_rows:
        return 0.0, -1, 0.0
    is_zero = True
    for y in label:
        if y != 0.0:
            is_zero = False
            break
    if is_zero:  # as most of the cube is
        return 0.0, -1, 0.0
    d = len(lower)
    sums[:] = 0.0  # rows in each slice of each coordinate, and their labels
    everything = 0.0
    for i in range(len(label)):
        y = label[i]
        everything += y
        for j in range(d):
            at = np.uint64(j * n_bins + slices[i, j])  # not to be looked at for its sign
            sums[at, 0] += 1.0
            sums[at, 1] += y
    n = float(len(label))
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
            n_left += sums[j * n_bins + b, 0]
            sum_left += sums[j * n_bins + b, 1]
            n_right = n - n_left
            if n_left < min_rows or n_right < min_rows:
                continue
            rest = everything - sum_left
            gain = sum_left * sum_left / n_left + rest * rest / n_right - base
            if gain > best + least:
                edge = lower[j] + (upper[j] - lower[j]) * (b + 1) / n_bins
                if lower[j] < edge and edge < upper[j]:  # a box may be too thin for float64 to cut
                    best = gain
                    feature = j
                    threshold = edge
    return best, feature, threshold


@jit(inner=True)
def _part(label: FloatArray, row: IntArray, words: IntArray, is_right: IntArray) -> int:
    """Put rows (n,) that go left before those that go right; how many go left.

    With their labels and their slices, as `words`.  Places are unsigned numbers: of others it is
    asked each time whether they are negative.
    """
    one = np.uint64(1)
    a, b = np.uint64(0), np.uint64(len(row))
    while True:
        while a < b and is_right[a] == 0:
            a += one
        if a == b:
            return int(a)
        wrong = True  # is what is at a, which changes places until it is not
        while wrong and a < b:
            b -= one
            wrong = is_right[b] != 0
            label[a], label[b] = label[b], label[a]
            row[a], row[b] = row[b], row[a]
            for c in range(words.shape[1]):
                words[a, c], words[b, c] = words[b, c], words[a, c]
        if not wrong:
            a += one


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
    # The numbers of slices are small, and eight bytes are moved at once.
    small = np.min_scalar_type(n_bins - 1)
    n_words = -(-cube.shape[1] * small.itemsize // 8)
    words = np.empty((len(row), n_words), dtype=np.uint64)
    slices = words.view(small)
    # Room is made here, for what makes it takes longer to compile than to call.
    room = 2 * max_boxes - 1
    links, threshold = np.empty((5, room), dtype=np.int64), np.zeros(room)
    links.fill(-1)
    sides = np.zeros((2, room, cube.shape[1]))
    sides[1] = 1.0
    gain = np.zeros(1 << max(1, (room - 1).bit_length()))
    best: IntArray = np.zeros(len(gain), dtype=np.int64)
    is_right: IntArray = np.empty(len(row), dtype=np.uint8)
    m = _grow_soft_tree(
        cube, label, row, min_rows, n_bins, words, slices, is_right, links, threshold, sides,
        gain, best,
    )  # fmt: skip
    del words, slices, is_right
    feature, left, right, start, stop = links[:, :m]
    box = np.full(m, -1)
    row_box: IntArray = np.full(len(cube), -1, dtype=np.int32)
    _number_boxes(feature, threshold, left, start, stop, row, box, row_box)
    return feature.copy(), threshold[:m].copy(), left.copy(), right.copy(), box, row_box


@jit
def _number_boxes(
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    start: IntArray,
    stop: IntArray,
    row: IntArray,
    box: IntArray,
    row_box: IntArray,
) -> None:
    """The number of each node that is a leaf, and of the rows in it; it forgets its best cut."""
    k = 0
    for node in range(len(feature)):
        if left[node] < 0:
            feature[node] = -1
            threshold[node] = 0.0
            box[node] = k
            for i in range(start[node], stop[node]):
                row_box[row[i]] = k
            k += 1


@jit(inner=True)
def _set_gain(node: int, value: float, gain: FloatArray, best: IntArray) -> None:
    """Say what is gained by the cut of a node.

    Of nodes (N,), a power of two, `best` (N,) has the best, at place 1, of places 2 and 3, and so
    on: the first, where they are alike.  The nodes themselves are the places from N on.
    """
    gain[node] = value
    n = len(gain)
    at = n + node
    while at > 1:
        at >>= 1
        a = best[2 * at] if 2 * at < n else 2 * at - n
        b = best[2 * at + 1] if 2 * at < n else 2 * at + 1 - n
        better = a if gain[a] >= gain[b] else b
        if better == best[at] and better != node:
            break
        best[at] = better


@jit
def _grow_soft_tree(
    cube: FloatArray,
    label: FloatArray,
    row: IntArray,
    min_rows: int,
    n_bins: int,
    words: IntArray,
    slices: IntArray,
    is_right: IntArray,
    links: IntArray,
    threshold: FloatArray,
    sides: FloatArray,
    gain: FloatArray,
    best: IntArray,
) -> int:
    """Cut boxes while there is room; how many nodes there are.

    Of a node `links` (5, room) has the feature, the nodes left and right, and where its rows begin
    and end, and `sides` (2, room, d) the box.  There is room for the side that each row is on, and
    for its slice in each coordinate, seen in two ways.  These are slices of the box in which a row
    is: a cut changes those of one coordinate only.  A node that is not cut keeps the best cut of
    it, of gain (N,), for which see `_set_gain`.
    """
    n, d = len(row), cube.shape[1]
    feature, left, right, start, stop = links[0], links[1], links[2], links[3], links[4]
    lower, upper = sides[0], sides[1]
    for i in range(n):
        for j in range(d):
            slices[i, j] = _slice_of(cube[row[i], j], 0.0, float(n_bins), n_bins)
    sums = np.empty((d * n_bins, 2))
    origin, scale = np.empty(2), np.empty(2)  # of the slices left and right
    # Rows are kept grouped by node: a node is the slice start:stop.
    start[0], stop[0] = 0, n
    m = 1
    first = 0  # nodes first..m-1 are new and not yet examined
    while True:
        for node in range(first, m):
            a, b = start[node], stop[node]
            g, feature[node], threshold[node] = _best_cut(
                slices[a:b], label[a:b], lower[node], upper[node], n_bins, min_rows, sums
            )
            if g > 0.0:
                _set_gain(node, g, gain, best)
        first = m
        node = best[1]
        if gain[node] == 0.0 or m == len(threshold):
            break
        _set_gain(node, 0.0, gain, best)
        j, t = feature[node], threshold[node]
        left[node] = m
        right[node] = m + 1
        for child in (m, m + 1):
            for c in range(d):
                lower[child, c] = lower[node, c]
                upper[child, c] = upper[node, c]
        upper[m, j] = t
        lower[m + 1, j] = t
        for side in range(2):
            origin[side] = lower[m + side, j]
            scale[side] = n_bins / (upper[m + side, j] - lower[m + side, j])
        a, b = start[node], stop[node]
        own_row, own_slices = row[a:b], slices[a:b]
        for i in range(len(own_row)):  # without a branch, which would often be foreseen wrongly
            at = cube[own_row[i], j]
            k = int(at >= t)
            is_right[i] = k
            own_slices[i, j] = _slice_of(at, origin[k], scale[k], n_bins)
        middle = a + _part(label[a:b], own_row, words[a:b], is_right)
        start[m] = a
        stop[m] = start[m + 1] = middle
        stop[m + 1] = b
        m += 2
    return m


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
