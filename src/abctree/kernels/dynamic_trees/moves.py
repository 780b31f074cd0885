"""How a leaf that received a row stays, is pruned or grows."""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.dynamic_trees.growth import (
    draw_cut,
    grow_leaf,
    is_offered_growth,
    next_due,
    weigh_cuts,
)
from abctree.kernels.dynamic_trees.tree import (
    FIRST_FREE,
    N_FREE,
    Desk,
    Habits,
    Law,
    Links,
    Tree,
    leaf_weight,
    read,
    reweigh,
)
from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray


@jit
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


@jit
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
