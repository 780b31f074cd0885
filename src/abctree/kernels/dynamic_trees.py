"""Particle learning of dynamic trees with Beta-Bernoulli leaves.

The method is that of Taddy, Gramacy and Polson, "Dynamic trees for learning and design", Journal of
the American Statistical Association 106 (2011).  A particle is a tree.  Rows arrive one after the
other; each particle is weighted by its prediction of the new label, the particles are resampled,
and then each lets the leaf that received the row stay, be pruned together with its sibling's
branch, or grow, with probabilities in the ratio of prior times evidence.

Three liberties, so that 1e5 rows take seconds:

- a leaf is offered growth when it has become larger by a given factor, not at every row, and not
  while its labels are all equal;
- it is then offered `n_cuts` cuts along each coordinate, a stratified sample of the prior on cuts,
  where the paper offers one: growth is weighted by their mean, and one is drawn by its evidence;
- particles carry their weights, and are resampled when these are worth less than half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from abctree.types import FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., object])
#: Rows of leaves as linked lists: the row after each row, -1 at the end.  A new row and a pruned
#: branch then cost O(1), and a leaf is read only when it is offered growth.
Links: TypeAlias = NDArray[np.int32]
#: A tree: the slots (room,) of a particle, each a record of `NODE`; slot 0 is the root.
Tree: TypeAlias = Any

_TINY = float(np.finfo(np.float64).tiny)

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
_USED, _N_FREE, _FIRST_FREE = 0, 1, 2


def _compiled(function: F) -> F:
    """Compile at the first call, keep the machine code on disk, and release the GIL."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


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


# What a tree is worth -----------------------------------------------------------------------------


@_compiled
def log_rising(start: float, n: int) -> FloatArray:
    """(n + 1,) Logarithms of ``Γ(start + k) / Γ(start)`` for k = 0, ..., n."""
    table = np.zeros(n + 1)
    for k in range(n):
        table[k + 1] = table[k] + math.log(start + k)
    return table


@_compiled
def _evidence(law: Law, zeros: int, ones: int) -> float:
    """Log-probability of the labels of a leaf, their rate integrated out."""
    evidence: float = law.one[ones] + law.zero[zeros] - law.both[ones + zeros]
    return evidence


@_compiled
def _leaf_weight(law: Law, tree: Tree, i: int) -> float:
    """Log of prior times evidence of node i, were it a leaf."""
    weight: float = law.leaf[tree[i].depth] + _evidence(law, tree[i].zeros, tree[i].ones)
    return weight


@_compiled
def _reweigh(law: Law, tree: Tree, i: int) -> None:
    """Bring the weights of node i, whose children are right, and of all above it up to date."""
    if tree[i].feature < 0:
        tree[i].weight = _leaf_weight(law, tree, i)
        i = tree[i].parent
    while i >= 0:
        branches = tree[tree[i].left].weight + tree[tree[i].right].weight
        tree[i].weight = law.split[tree[i].depth] + branches
        i = tree[i].parent


# Rows ---------------------------------------------------------------------------------------------


@_compiled
def _leaf_of(tree: Tree, cube: FloatArray, row: int) -> int:
    i = 0
    while tree[i].feature >= 0:
        goes_left = cube[row, tree[i].feature] < tree[i].threshold
        i = tree[i].left if goes_left else tree[i].right
    return i


@_compiled
def _append(tree: Tree, following: Links, i: int, row: int, y: int) -> None:
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


@_compiled
def _receive(law: Law, tree: Tree, following: Links, i: int, row: int, y: int) -> None:
    """Put a new row in leaf i, and count it in all boxes that hold it."""
    _append(tree, following, i, row, y)
    above = tree[i].parent
    while above >= 0:
        if y == 1:
            tree[above].ones += 1
        else:
            tree[above].zeros += 1
        above = tree[above].parent
    _reweigh(law, tree, i)


@_compiled
def _read(tree: Tree, following: Links, i: int, cube: FloatArray, desk: Desk) -> None:
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


# Growth -------------------------------------------------------------------------------------------


@_compiled
def _weigh_cuts(
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
                left = _evidence(law, zeros_left, ones_left)
                right = _evidence(law, n - ones - zeros_left, ones - ones_left)
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


@_compiled
def _draw_cut(desk: Desk, u: float) -> tuple[int, float]:
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


@_compiled
def _new_leaf(tree: Tree, slots: IntArray, above: int) -> int:
    """A free slot, as an empty leaf below node `above`."""
    i: int
    if slots[_N_FREE] > 0:
        i = slots[_FIRST_FREE]
        slots[_FIRST_FREE] = tree[i].left
        slots[_N_FREE] -= 1
    else:
        i = slots[_USED]
        slots[_USED] += 1
    tree[i].feature = -1
    tree[i].parent = above
    tree[i].depth = tree[above].depth + 1
    tree[i].zeros = 0
    tree[i].ones = 0
    tree[i].head = -1
    tree[i].due = 0
    return i


@_compiled
def _grow(
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
        _append(tree, following, child, row, label[row])
    tree[left].weight = _leaf_weight(law, tree, left)
    tree[right].weight = _leaf_weight(law, tree, right)
    tree[i].feature = feature
    tree[i].threshold = threshold
    tree[i].left = left
    tree[i].right = right
    _reweigh(law, tree, i)


@_compiled
def _next_due(habits: Habits, n: int) -> int:
    return max(n + 1, int(n * habits.factor))


@_compiled
def _is_offered_growth(habits: Habits, tree: Tree, slots: IntArray, i: int) -> bool:
    n = tree[i].zeros + tree[i].ones
    if n < tree[i].due or n < 2 * habits.min_rows or min(tree[i].zeros, tree[i].ones) == 0:
        return False
    has_room: bool = slots[_N_FREE] >= 2 or slots[_USED] + 2 <= len(tree)
    return has_room


# The three moves ----------------------------------------------------------------------------------


@_compiled
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
        tree[i].left = slots[_FIRST_FREE]
        slots[_FIRST_FREE] = i
        slots[_N_FREE] += 1
    tree[top].feature = -1
    tree[top].due = _next_due(habits, tree[top].zeros + tree[top].ones)
    _reweigh(law, tree, top)


@_compiled
def _move(
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
        prune = stay + _leaf_weight(law, tree, above) - tree[above].weight
    if _is_offered_growth(habits, tree, slots, i):
        n = tree[i].zeros + tree[i].ones
        tree[i].due = _next_due(habits, n)
        _read(tree, following, i, cube, desk)
        for j in range(cube.shape[1]):
            desk.offset[j] = rng.random()
        cuts = _weigh_cuts(law, habits, cube, label, n, desk)
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
        feature, threshold = _draw_cut(desk, rng.random())
        _grow(law, habits, tree, following, slots, i, feature, threshold, cube, label, desk)


# Particles ----------------------------------------------------------------------------------------


@_compiled
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


@_compiled
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
            for i in range(slots[source, _USED]):
                trees[target, i] = trees[source, i]
            for row in range(n):
                following[target, row] = following[source, row]
            for k in range(3):
                slots[target, k] = slots[source, k]
            leaf[target] = leaf[source]


@_compiled
def _predictions(
    law: Law, trees: Tree, cube: FloatArray, row: int, y: int, leaf: IntArray, weight: FloatArray
) -> float:
    """Multiply the weight of each particle by its probability of the label; the sum.

    Leaves the leaf of the row in each particle in `leaf`.
    """
    total = 0.0
    for p in range(len(weight)):
        tree = trees[p]
        i = _leaf_of(tree, cube, row)
        leaf[p] = i
        alike = law.a + tree[i].ones if y == 1 else law.b + tree[i].zeros
        weight[p] *= alike / (law.a + law.b + tree[i].ones + tree[i].zeros)
        total += weight[p]
    return total


@_compiled
def _filtered(
    cube: FloatArray,
    label: IntArray,
    trees: Tree,
    law: Law,
    habits: Habits,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray, FloatArray]:
    n, d = cube.shape
    n_particles, room = trees.shape
    following = np.empty((n_particles, n), dtype=np.int32)
    slots = np.zeros((n_particles, 3), dtype=np.int64)
    slots[:, _USED] = 1
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
            _receive(law, tree, following[p], leaf[p], row, y)
            _move(law, habits, tree, following[p], slots[p], leaf[p], cube, label, desk, rng)
    chosen = 0
    rest = rng.random()
    for p in range(n_particles):
        if weight[p] > 0.0 and rest >= 0.0:
            chosen = p
            rest -= weight[p]
    m = slots[chosen, _USED] - slots[chosen, _N_FREE]
    feature, threshold, left, right, box, count = _flat(trees[chosen], m)
    return feature, threshold, left, right, box, count, log_predictive


@_compiled
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
    """Filter rows in their order, and draw one particle by its weight.

    Parameters
    ----------
    cube : ndarray of shape (n, d)
        Points.
    label : ndarray of shape (n,)
        Their labels, 0 or 1.
    rng : Generator
        Source of all randomness.
    n_particles : int
        N, >= 1.
    max_boxes : int
        Most leaves of a particle, >= 1.
    min_rows : int
        Least rows on each side of a cut when it is made, >= 1.
    split_prior : (float, float)
        α in (0, 1) and β >= 0: a node at depth D is cut with prior probability α (1 + D)^-β.
    rate_prior : (float, float)
        Pseudo-counts of labels 1 and 0 in a leaf, > 0.
    n_cuts : int
        Cuts offered along each coordinate, >= 1.
    factor : float
        Growth of a leaf between two offers, >= 1.

    Returns
    -------
    feature, threshold, left, right, box : ndarray of shape (m,)
        The tree, as in `abctree.data.SplitTree`.
    count : ndarray of shape (K, 2)
        Rows of label 0 and of label 1 in each box, as the particle knows them.
    log_predictive : ndarray of shape (n,)
        Log-probability that the particles together gave to each label before they saw it.
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
