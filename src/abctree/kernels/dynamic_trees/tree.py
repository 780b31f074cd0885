"""What the tree of a particle is: its records, its rows, and what it is worth."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray

#: Rows of leaves as linked lists: the row after each row, -1 at the end.  A new row and a pruned
#: branch then cost O(1), and a leaf is read only when it is offered growth.
Links: TypeAlias = NDArray[np.int32]
#: A tree: the slots (room,) of a particle, each a record of `NODE`; slot 0 is the root.
Tree: TypeAlias = Any

#: One cache line.
NODE = np.dtype(
    [
        ("threshold", np.float64),
        ("weight", np.float64),  # log of prior times evidence of the branch below
        ("feature", np.int32),  # coordinate that is cut; -1 in a leaf
        ("left", np.int32),  # in a free slot: the next one
        ("right", np.int32),
        ("parent", np.int32),  # -1 at the root
        ("depth", np.int32),
        ("zeros", np.int32),  # rows of label 0 in the box of the node
        ("ones", np.int32),  # rows of label 1
        ("due", np.int32),  # rows at which a leaf is next offered growth
        ("head", np.int32),  # first row of a leaf; -1 where it has none
        ("tail", np.int32),  # its last
    ],
    align=True,
)
#: What a particle knows of its slots: (3,) integers.
USED, N_FREE, FIRST_FREE = 0, 1, 2


class Law(NamedTuple):
    """The model, tabulated: what a leaf of given counts and depth is worth."""

    one: FloatArray  #: (n + 1,) log Γ(a + k) / Γ(a), a the pseudo-count of label 1
    zero: FloatArray  #: (n + 1,) log Γ(b + k) / Γ(b), b that of label 0
    both: FloatArray  #: (n + 1,) log Γ(a + b + k) / Γ(a + b)
    a: float
    b: float
    split: FloatArray  #: by depth, log p_split(D), p_split(D) = α (1 + D)^-β
    leaf: FloatArray  #: by depth, log (1 - p_split(D))


class Habits(NamedTuple):
    """How growth is offered."""

    min_rows: int  #: least rows on each side of a cut
    n_cuts: int  #: cuts offered along a coordinate
    factor: float  #: growth of a leaf between two offers


class Desk(NamedTuple):
    """Scratch space for one leaf."""

    row: IntArray  #: (n,) its rows
    low: FloatArray  #: (d,) their least coordinates
    high: FloatArray  #: (d,) their largest
    offset: FloatArray  #: (d,) place of the cuts in their strata
    below: IntArray  #: (d, n_cuts + 1, 2) rows by stratum and label
    evidence: FloatArray  #: (d, n_cuts) log-evidence of the two leaves behind a cut
    stack: IntArray  #: (room + 1,) nodes still to be visited


# Worth -------------------------------------------------------------------------------------------


@jit
def log_rising(start: float, n: int) -> FloatArray:
    """(n + 1,) Logarithms of ``Γ(start + k) / Γ(start)`` for k = 0, ..., n."""
    table = np.zeros(n + 1)
    for k in range(n):
        table[k + 1] = table[k] + math.log(start + k)
    return table


@jit(inner=True)
def evidence_of(law: Law, zeros: int, ones: int) -> float:
    """Log-probability of the labels of a leaf, their rate integrated out."""
    evidence: float = law.one[ones] + law.zero[zeros] - law.both[ones + zeros]
    return evidence


@jit(inner=True)
def leaf_weight(law: Law, tree: Tree, i: int) -> float:
    """Log of prior times evidence of node i, were it a leaf."""
    weight: float = law.leaf[tree[i].depth] + evidence_of(law, tree[i].zeros, tree[i].ones)
    return weight


@jit(inner=True)
def reweigh(law: Law, tree: Tree, i: int) -> None:
    """Bring the weights of node i, whose children are right, and of all above it up to date."""
    if tree[i].feature < 0:
        tree[i].weight = leaf_weight(law, tree, i)
        i = tree[i].parent
    while i >= 0:
        branches = tree[tree[i].left].weight + tree[tree[i].right].weight
        tree[i].weight = law.split[tree[i].depth] + branches
        i = tree[i].parent


# Rows ---------------------------------------------------------------------------------------------


@jit(inner=True)
def leaf_of(tree: Tree, cube: FloatArray, row: int) -> int:
    """The leaf in which a row lies."""
    i = 0
    while tree[i].feature >= 0:
        goes_left = cube[row, tree[i].feature] < tree[i].threshold
        i = tree[i].left if goes_left else tree[i].right
    return i


@jit(inner=True)
def append(tree: Tree, following: Links, i: int, row: int, y: int) -> None:
    """Put a row at the end of the list of leaf i, and count it there."""
    following[row] = -1
    if tree[i].head < 0:
        tree[i].head = row
    else:
        following[tree[i].tail] = row
    tree[i].tail = row
    if y == 1:
        tree[i].ones += 1
    else:
        tree[i].zeros += 1


@jit(inner=True)
def receive(law: Law, tree: Tree, following: Links, i: int, row: int, y: int) -> None:
    """Put a new row in leaf i, and count it in all boxes that hold it."""
    append(tree, following, i, row, y)
    above = tree[i].parent
    while above >= 0:
        if y == 1:
            tree[above].ones += 1
        else:
            tree[above].zeros += 1
        above = tree[above].parent
    reweigh(law, tree, i)


@jit(inner=True)
def read(tree: Tree, following: Links, i: int, cube: FloatArray, desk: Desk) -> None:
    """Gather the rows of leaf i on the desk, and the range of their coordinates."""
    d = cube.shape[1]
    row = tree[i].head
    for j in range(d):
        desk.low[j] = cube[row, j]
        desk.high[j] = cube[row, j]
    k = 0
    while row >= 0:
        desk.row[k] = row
        k += 1
        for j in range(d):
            desk.low[j] = min(desk.low[j], cube[row, j])
            desk.high[j] = max(desk.high[j], cube[row, j])
        row = following[row]
