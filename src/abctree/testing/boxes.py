"""Whether boxes tile the cube as their tree says."""

from __future__ import annotations

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.testing.rule import require
from abctree.types import FloatArray, IntArray

# Brute-force ownership compares every point with every box: at most so many comparisons at once.
_CHUNK = 2_000_000


def check_boxes(boxes: Boxes, cube: FloatArray, table: str, rng: np.random.Generator) -> None:
    """Check the boxes that a partitioner made of the rows `cube` (n, d) of a table of this name.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the table that breaks it.
    """
    where = f"(table: {table})"
    require(
        all(hasattr(boxes, name) for name in ("lower", "upper", "tree", "locate", "sample")),
        f"`partition` must return `Boxes`, but returned {type(boxes).__name__} {where}.",
    )
    _check_corners(boxes, cube.shape[1], where)
    _check_tree(boxes.tree, len(boxes.lower), boxes.lower.shape[1], where)
    _check_owners(boxes, _points(boxes, cube, rng), where)
    _check_sampling(boxes, rng, where)
    check_implied_corners(boxes, where)


def _check_corners(boxes: Boxes, d: int, where: str) -> None:
    lower, upper = boxes.lower, boxes.upper
    require(
        lower.ndim == 2 and lower.shape == upper.shape and lower.shape[1] == d and len(lower) >= 1,
        f"`lower` and `upper` must both have shape (K, {d}) with K >= 1, but have "
        f"{lower.shape} and {upper.shape} {where}.",
    )
    require(
        (lower >= 0.0).all() and (upper <= 1.0).all(),
        f"the boxes must lie within [0, 1], but reach from {lower.min()} to {upper.max()} {where}.",
    )
    thin = np.flatnonzero(~(lower < upper).all(axis=1))
    require(
        len(thin) == 0,
        f"every box must have `lower` < `upper` in every coordinate, but {len(thin)} have not, "
        f"the first of them box {thin[:1]} {where}.",
    )
    volume = float(np.prod(upper - lower, axis=1).sum())
    require(
        abs(volume - 1.0) <= 1e-9,
        f"the boxes must tile the cube, so their volumes must sum to 1, but they sum to "
        f"{volume!r} {where}.",
    )


def _check_tree(tree: SplitTree, n_boxes: int, d: int, where: str) -> None:
    m = 2 * n_boxes - 1
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.box)
    require(
        all(np.shape(column) == (m,) for column in columns),
        f"the arrays of a tree with {n_boxes} leaves must all have length {m}, but have "
        f"{[np.shape(column) for column in columns]} {where}.",
    )
    leaf = tree.feature < 0
    inner = np.flatnonzero(~leaf)
    require(
        (tree.feature < d).all(),
        f"`feature` must be a coordinate in 0..{d - 1}, or -1 in a leaf, but reaches "
        f"{tree.feature.max()} {where}.",
    )
    require(
        np.array_equal(np.sort(tree.box[leaf]), np.arange(n_boxes)),
        f"the leaves must carry the box numbers 0..{n_boxes - 1}, each once, but carry others "
        f"{where}.",
    )
    children = np.concatenate([tree.left[inner], tree.right[inner]])
    require(
        (children > np.tile(inner, 2)).all(),
        f"every child must have a larger number than its parent, but some have not {where}.",
    )
    require(
        np.array_equal(np.sort(children), np.arange(1, m)),
        f"every node but the root must be the child of exactly one node, but some are not {where}.",
    )
    require(
        (tree.box[inner] == -1).all()
        and (tree.left[leaf] == -1).all()
        and (tree.right[leaf] == -1).all(),
        f"`box` must be -1 in inner nodes, and `left` and `right` -1 in leaves, but they are not "
        f"{where}.",
    )


def check_implied_corners(boxes: Boxes, where: str) -> None:
    """Check that corners are what the cuts of the tree imply, to the last bit."""
    tree, d = boxes.tree, boxes.lower.shape[1]
    lower, upper = np.zeros((tree.n_nodes, d)), np.ones((tree.n_nodes, d))
    for node in np.flatnonzero(tree.feature >= 0):
        j, t = tree.feature[node], tree.threshold[node]
        left, right = tree.left[node], tree.right[node]
        lower[left] = lower[right] = lower[node]
        upper[left] = upper[right] = upper[node]
        upper[left, j] = lower[right, j] = t
    node_of_box = np.empty(len(boxes.lower), dtype=np.int64)
    leaves = np.flatnonzero(tree.feature < 0)
    node_of_box[tree.box[leaves]] = leaves
    same = (lower[node_of_box] == boxes.lower) & (upper[node_of_box] == boxes.upper)
    require(
        same.all(),
        "`lower` and `upper` must be exactly what the cuts of the tree imply, but are not in "
        f"{np.count_nonzero(~same.all(axis=1))} boxes {where}.",
    )


def _points(boxes: Boxes, cube: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The rows, random points, corners of the cube, and points on and just below borders."""
    d = boxes.lower.shape[1]
    some = rng.permutation(len(boxes.lower))[:300]
    edges = np.array([0.0, np.nextafter(1.0, 0.0)])
    below = np.nextafter(boxes.upper[some], 0.0)
    mixed = np.where(rng.random(below.shape) < 0.5, below, boxes.lower[some])
    corners = edges[rng.integers(2, size=(2 * d + 2, d))]
    random = rng.random((300, d))
    return np.concatenate([cube, random, corners, boxes.lower[some], below, mixed])


def _owners(boxes: Boxes, points: FloatArray) -> tuple[IntArray, IntArray]:
    """By comparison with every box: how many boxes own each point (n,), and the last one (n,)."""
    step = max(1, _CHUNK // max(1, boxes.lower.size))
    counts, last = [], []
    for start in range(0, len(points), step):
        point = points[start : start + step, None, :]
        inside = ((boxes.lower <= point) & (point < boxes.upper)).all(axis=2)
        counts.append(inside.sum(axis=1))
        last.append(inside.argmax(axis=1))
    return np.concatenate(counts), np.concatenate(last)


def _check_owners(boxes: Boxes, points: FloatArray, where: str) -> None:
    count, owner = _owners(boxes, points)
    for wrong, what in ((count == 0, "none has"), (count > 1, "several have")):
        require(
            not wrong.any(),
            f"every point must lie in exactly one half-open box, but {what} "
            f"{points[wrong][:1].tolist()} and {np.count_nonzero(wrong)} of {len(points)} "
            f"test points are like it {where}.",
        )
    located = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(located != owner)
    require(
        len(wrong) == 0,
        "`locate` must find the box with `lower` <= point < `upper`, but for "
        f"{points[wrong[:1]].tolist()} it gives box {located[wrong[:1]]} where it should be "
        f"{owner[wrong[:1]]} ({len(wrong)} of {len(points)} test points) {where}.",
    )


def _check_sampling(boxes: Boxes, rng: np.random.Generator, where: str) -> None:
    box = np.tile(np.arange(len(boxes.lower)), 3)
    points = boxes.sample(box, rng)
    found = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(found != box)
    require(
        len(wrong) == 0,
        f"`locate` must find a point sampled from box k in box k, but finds one of box "
        f"{box[wrong[:1]]} in box {found[wrong[:1]]} ({len(wrong)} of {len(box)}) {where}.",
    )
