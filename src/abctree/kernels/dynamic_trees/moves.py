"""How a leaf that received a row stays, is pruned or grows, and where it is cut."""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.dynamic_trees.tree import (
    FIRST_FREE,
    N_FREE,
    USED,
    Desk,
    Habits,
    Law,
    Links,
    Tree,
    append,
    evidence_of,
    leaf_weight,
    read,
    reweigh,
)
from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray

_TINY = float(np.finfo(np.float64).tiny)


@jit(inner=True)
def weigh_cuts(
    law: Law, habits: Habits, cube: FloatArray, label: IntArray, n: int, desk: Desk
) -> float:
    """Log of the mean evidence of all admissible cuts of the n rows on the desk.

    Leaves the evidence of each in ``desk.evidence``; -inf where too few rows lie on a side.
    """
    d = cube.shape[1]
    desk.below[:] = 0
    ones = 0
    for k in range(n):
        i = desk.row[k]
        y = label[i]
        ones += y
        for j in range(d):
            width = desk.high[j] - desk.low[j]
            if width > 0.0:
                # A row lies below cut b where b > place.
                place = (cube[i, j] - desk.low[j]) / width * habits.n_cuts - desk.offset[j]
                b = min(habits.n_cuts, max(0, math.floor(place) + 1))
                desk.below[j, b, y] += 1
    admissible = 0
    largest = -np.inf
    for j in range(d):
        zeros_left = 0
        ones_left = 0
        for b in range(habits.n_cuts):
            zeros_left += desk.below[j, b, 0]
            ones_left += desk.below[j, b, 1]
            n_left = zeros_left + ones_left
            desk.evidence[j, b] = -np.inf
            if min(n_left, n - n_left) >= habits.min_rows:
                left = evidence_of(law, zeros_left, ones_left)
                right = evidence_of(law, n - ones - zeros_left, ones - ones_left)
                desk.evidence[j, b] = left + right
                admissible += 1
                largest = max(largest, left + right)
    if admissible == 0:
        return -np.inf
    total = 0.0
    for j in range(d):
        for b in range(habits.n_cuts):
            total += math.exp(desk.evidence[j, b] - largest)
    return largest + math.log(total / admissible)


@jit(inner=True)
def draw_cut(desk: Desk, u: float) -> tuple[int, float]:
    """One of the weighed cuts, in the ratio of their evidence: feature, threshold; u is uniform."""
    d, n_cuts = desk.evidence.shape
    largest = -np.inf
    for j in range(d):
        for b in range(n_cuts):
            largest = max(largest, desk.evidence[j, b])
    total = 0.0
    for j in range(d):
        for b in range(n_cuts):
            total += math.exp(desk.evidence[j, b] - largest)
    rest = u * total
    feature = 0
    cut = 0
    for j in range(d):
        for b in range(n_cuts):
            share = math.exp(desk.evidence[j, b] - largest)
            if share > 0.0 and rest >= 0.0:
                feature = j
                cut = b
                rest -= share
    width = desk.high[feature] - desk.low[feature]
    return feature, desk.low[feature] + width * ((cut + desk.offset[feature]) / n_cuts)


@jit(inner=True)
def _new_leaf(tree: Tree, slots: IntArray, above: int) -> int:
    """A free slot, as an empty leaf below node `above`."""
    i: int
    if slots[N_FREE] > 0:
        i = slots[FIRST_FREE]
        slots[FIRST_FREE] = tree[i].left
        slots[N_FREE] -= 1
    else:
        i = slots[USED]
        slots[USED] += 1
    tree[i].feature = -1
    tree[i].parent = above
    tree[i].depth = tree[above].depth + 1
    tree[i].zeros = 0
    tree[i].ones = 0
    tree[i].head = -1
    tree[i].due = 0
    return i


@jit(inner=True)
def grow_leaf(
    law: Law,
    habits: Habits,
    tree: Tree,
    following: Links,
    slots: IntArray,
    i: int,
    feature: int,
    threshold: float,
    cube: FloatArray,
    label: IntArray,
    desk: Desk,
) -> None:
    """Cut leaf i, whose rows lie on the desk, in two; not if rounding leaves a side too few."""
    n = tree[i].zeros + tree[i].ones
    n_left = 0
    for k in range(n):
        if cube[desk.row[k], feature] < threshold:
            n_left += 1
    if min(n_left, n - n_left) < habits.min_rows or threshold <= _TINY:
        return
    left = _new_leaf(tree, slots, i)
    right = _new_leaf(tree, slots, i)
    for k in range(n):
        row = desk.row[k]
        child = left if cube[row, feature] < threshold else right
        append(tree, following, child, row, label[row])
    tree[left].weight = leaf_weight(law, tree, left)
    tree[right].weight = leaf_weight(law, tree, right)
    tree[i].feature = feature
    tree[i].threshold = threshold
    tree[i].left = left
    tree[i].right = right
    reweigh(law, tree, i)


@jit(inner=True)
def next_due(habits: Habits, n: int) -> int:
    """Rows at which a leaf that has n is next offered growth."""
    return max(n + 1, int(n * habits.factor))


@jit(inner=True)
def is_offered_growth(habits: Habits, tree: Tree, slots: IntArray, i: int) -> bool:
    """Whether leaf i is due, large enough, mixed, and there are slots for two more."""
    n = tree[i].zeros + tree[i].ones
    if n < tree[i].due or n < 2 * habits.min_rows or min(tree[i].zeros, tree[i].ones) == 0:
        return False
    has_room: bool = slots[N_FREE] >= 2 or slots[USED] + 2 <= len(tree)
    return has_room


@jit(inner=True)
def _prune(
    law: Law,
    habits: Habits,
    tree: Tree,
    following: Links,
    slots: IntArray,
    top: int,
    stack: IntArray,
) -> None:
    """Make a leaf of an inner node: it takes over the rows of the leaves below."""
    tree[top].head = -1
    height = 2
    stack[0] = tree[top].left
    stack[1] = tree[top].right
    while height > 0:
        height -= 1
        i = stack[height]
        if tree[i].feature >= 0:
            stack[height] = tree[i].left
            stack[height + 1] = tree[i].right
            height += 2
        elif tree[i].head >= 0:
            if tree[top].head < 0:
                tree[top].head = tree[i].head
            else:
                following[tree[top].tail] = tree[i].head
            tree[top].tail = tree[i].tail
        tree[i].left = slots[FIRST_FREE]
        slots[FIRST_FREE] = i
        slots[N_FREE] += 1
    tree[top].feature = -1
    tree[top].due = next_due(habits, tree[top].zeros + tree[top].ones)
    reweigh(law, tree, top)


@jit(inner=True)
def move(
    law: Law,
    habits: Habits,
    tree: Tree,
    following: Links,
    slots: IntArray,
    i: int,
    cube: FloatArray,
    label: IntArray,
    desk: Desk,
    rng: np.random.Generator,
) -> None:
    """Stay, prune or grow at leaf i, which has just received a row."""
    # The branch below the leaf's parent is all that differs between the three trees.
    stay = tree[i].weight
    prune = -np.inf
    grow = -np.inf
    above = tree[i].parent
    if above >= 0:
        prune = stay + leaf_weight(law, tree, above) - tree[above].weight
    if is_offered_growth(habits, tree, slots, i):
        n = tree[i].zeros + tree[i].ones
        tree[i].due = next_due(habits, n)
        read(tree, following, i, cube, desk)
        for j in range(cube.shape[1]):
            desk.offset[j] = rng.random()
        cuts = weigh_cuts(law, habits, cube, label, n, desk)
        grow = law.split[tree[i].depth] + 2.0 * law.leaf[tree[i].depth + 1] + cuts
    largest = max(stay, prune, grow)
    to_prune = math.exp(prune - largest)
    to_grow = math.exp(grow - largest)
    if to_prune + to_grow == 0.0:
        return
    u = rng.random() * (math.exp(stay - largest) + to_prune + to_grow)
    if u < to_prune:
        _prune(law, habits, tree, following, slots, above, desk.stack)
    elif u < to_prune + to_grow:
        feature, threshold = draw_cut(desk, rng.random())
        grow_leaf(law, habits, tree, following, slots, i, feature, threshold, cube, label, desk)
