"""Whether a partitioner keeps its contract, on the tables that break partitioners."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.problem.priors import Product
from abctree.protocols import LocatingPartitioner, Partitioner, VolumePartitioner
from abctree.testing.rule import call, during, require, same
from abctree.tree.partitioners.growth import Growth
from abctree.types import FloatArray, RNGLike


@dataclass(frozen=True, eq=False)
class _Table:
    """One call of a partitioner."""

    name: str
    cube: FloatArray
    distance: FloatArray
    epsilon: float
    current: Boxes | None = None


@checks_keywords
def check_partitioner(partitioner: Partitioner, d: int = 2, rng: RNGLike = 0, n: int = 500) -> None:
    """Raise `AssertionError` where it breaks the contract of `abctree.protocols.Partitioner`.

    It is called on an ordinary table and on the tables that break partitioners: no rows, one row,
    equal, infinite and missing distances, repeated points, points at the corners of the cube, a
    tiny and an infinite tolerance, with and without a `current` partition.  After each call

    - the boxes must tile the cube: lie within it, have ``lower < upper``, volumes that sum to one,
      and exactly one box for every row and every random, corner and border point;
    - `locate` must agree with ``lower <= cube < upper``, and find every point that `sample` makes;
    - the tree must be consistent: children after parents, one leaf for each box, and corners that
      are exactly those that its cuts imply;
    - the same arguments and seed must give the same boxes, whatever was asked in between;
    - the arguments must be left as they were.

    What `measured` makes of a partitioner (`abctree.protocols.VolumePartitioner`) must do as much,
    and `partition_and_locate` (`abctree.protocols.LocatingPartitioner`) give the same boxes, and
    what `locate` finds for each row.

    Parameters
    ----------
    partitioner : Partitioner
        An object with ``partition(cube, distance, epsilon, current, rng)``.
    d : int
        Dimensions of the cube, >= 1.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the tables and test points.
    n : int
        Rows of the ordinary table, >= 2.

    Examples
    --------
    >>> from abctree.tree.partitioners import Grid
    >>> check_partitioner(Grid(4), d=3)
    """
    generator = checked_rng(rng)
    seed = int(generator.integers(2**31))
    tables = _tables(d, n, generator)
    made = []
    for table in tables:
        boxes = _cut(partitioner, table, seed)
        check_boxes(boxes, table.cube, table.name, generator)
        made.append(boxes)
        # What a partitioner made is what it is given in the next round.
        name, epsilon = f"{table.name}, `current` its own", table.epsilon / 2
        own = replace(table, name=name, current=boxes, epsilon=epsilon)
        check_boxes(_cut(partitioner, own, seed, frozen=True), own.cube, name, generator)
    # In another order, so that a memory of earlier calls shows.
    for table, boxes in reversed(list(zip(tables, made, strict=True))):
        with during(f"table: {table.name}"):
            require(
                same(boxes, _cut(partitioner, table, seed, frozen=True)),
                "the same arguments and the same seed must give the same boxes, but a second call "
                "gave others. A partitioner must keep no memory of earlier calls and draw only "
                "from the `rng` it is given.",
            )
    if isinstance(partitioner, LocatingPartitioner):
        for table, boxes in zip(tables, made, strict=True):
            _check_located(partitioner, table, boxes, seed)
    if isinstance(partitioner, VolumePartitioner):
        prior = Product({f"a{j}": (0.0, 10.0**j) for j in range(d)})
        measured = call("measured", "a prior", partitioner.measured, prior)
        check_boxes(_cut(measured, tables[0], seed), tables[0].cube, "measured", generator)


def _check_located(
    partitioner: LocatingPartitioner, table: _Table, boxes: Boxes, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    given = table.cube.copy(), table.distance.copy(), table.epsilon, table.current, rng
    with during(f"table: {table.name}"):
        made, box = call(
            "partition_and_locate", "every table", partitioner.partition_and_locate, *given
        )
        require(
            same(made, boxes) and np.array_equal(box, boxes.locate(table.cube)),
            "`partition_and_locate` must give the boxes of `partition`, and for each row the box "
            "that `locate` finds, but gives others.",
        )


def _tables(d: int, n: int, rng: np.random.Generator) -> list[_Table]:
    cube = rng.random((n, d))
    distance = 4.0 * np.abs(cube - 0.3).max(axis=1) + 0.1 * rng.random(n)
    epsilon = float(np.quantile(distance, 0.2))
    failed = np.where(rng.random(n) < 0.3, np.inf, distance)
    edge = np.nextafter(1.0, 0.0)
    corners = rng.choice([np.finfo(float).tiny, 2.0**-53, 0.5, edge], size=(n, d))
    clump = np.repeat(cube[:2], [n - n // 2, n // 2], axis=0)
    growth = Growth(Boxes.whole(d))
    growth.split(0, 0, 0.3)
    growth.split(1, d - 1, 0.625)
    current = growth.boxes()
    return [
        _Table("ordinary", cube, distance, epsilon),
        _Table("ordinary, `current` given", cube, distance, epsilon, current),
        _Table("some distances infinite", cube, failed, epsilon),
        _Table("all distances equal", cube, np.ones(n), 1.5),
        _Table("all distances infinite", cube, np.full(n, np.inf), 1.0),
        _Table("all distances infinite and epsilon too", cube, np.full(n, np.inf), np.inf),
        _Table("no row accepted", cube, distance + 1.0, 0.5),
        _Table("epsilon tiny", cube, distance, 1e-300),
        _Table("epsilon infinite", cube, failed, np.inf),
        _Table("no rows", cube[:0], distance[:0], epsilon),
        _Table("no rows, `current` given", cube[:0], distance[:0], epsilon, current),
        _Table("one row", cube[:1], distance[:1], epsilon),
        _Table("one point repeated", np.repeat(cube[:1], n, axis=0), distance, epsilon),
        _Table("two points repeated", clump, distance, epsilon),
        _Table("points at the corners of the cube", corners, distance, epsilon),
    ]


def _cut(partitioner: Partitioner, table: _Table, seed: int, *, frozen: bool = False) -> Boxes:
    """One call, on copies; read-only ones if `frozen`, as the columns of a `Table` are."""
    cube, distance = table.cube.copy(), table.distance.copy()
    cube.flags.writeable = distance.flags.writeable = not frozen
    how = ", read-only: `partition` must not change its arguments" if frozen else ""
    given = cube, distance, table.epsilon, table.current, np.random.default_rng(seed)
    with during(f"table: {table.name}{how}"):
        return call("partition", "every table", partitioner.partition, *given)


# Boxes ------------------------------------------------------------------------------------------


def check_boxes(boxes: Boxes, cube: FloatArray, table: str, rng: np.random.Generator) -> None:
    """Check the boxes that a partitioner made of the rows `cube` (n, d) of a table of this name."""
    with during(f"table: {table}"):
        require(
            all(hasattr(boxes, name) for name in ("lower", "upper", "tree", "locate", "sample")),
            f"`partition` must return `Boxes`, but returned {type(boxes).__name__}.",
        )
        _check_corners(boxes, cube.shape[1])
        _check_tree(boxes.tree, len(boxes.lower), boxes.lower.shape[1])
        _check_owners(boxes, _points(boxes, cube, rng))
        _check_sampling(boxes, rng)
        check_implied_corners(boxes)


def _check_corners(boxes: Boxes, d: int) -> None:
    lower, upper = boxes.lower, boxes.upper
    require(
        lower.ndim == 2 and lower.shape == upper.shape and lower.shape[1] == d and len(lower) >= 1,
        f"`lower` and `upper` must both have shape (K, {d}) with K >= 1, but have "
        f"{lower.shape} and {upper.shape}.",
    )
    require(
        (lower >= 0.0).all() and (upper <= 1.0).all(),
        f"the boxes must lie within [0, 1], but reach from {lower.min()} to {upper.max()}.",
    )
    thin = np.flatnonzero(~(lower < upper).all(axis=1))
    require(
        len(thin) == 0,
        f"every box must have `lower` < `upper` in every coordinate, but {len(thin)} have not, "
        f"the first of them box {thin[:1]}.",
    )
    volume = float(np.prod(upper - lower, axis=1).sum())
    require(
        abs(volume - 1.0) <= 1e-9,
        f"the boxes must tile the cube, so their volumes must sum to 1, but they sum to "
        f"{volume!r}.",
    )


def _check_tree(tree: SplitTree, n_boxes: int, d: int) -> None:
    m = 2 * n_boxes - 1
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.box)
    require(
        all(np.shape(column) == (m,) for column in columns),
        f"the arrays of a tree with {n_boxes} leaves must all have length {m}, but have "
        f"{[np.shape(column) for column in columns]}.",
    )
    leaf = tree.feature < 0
    inner = np.flatnonzero(~leaf)
    require(
        (tree.feature < d).all(),
        f"`feature` must be a coordinate in 0..{d - 1}, or -1 in a leaf, but reaches "
        f"{tree.feature.max()}.",
    )
    require(
        np.array_equal(np.sort(tree.box[leaf]), np.arange(n_boxes)),
        f"the leaves must carry the box numbers 0..{n_boxes - 1}, each once, but carry others.",
    )
    children = np.concatenate([tree.left[inner], tree.right[inner]])
    require(
        (children > np.tile(inner, 2)).all(),
        "every child must have a larger number than its parent, but some have not.",
    )
    require(
        np.array_equal(np.sort(children), np.arange(1, m)),
        "every node but the root must be the child of exactly one node, but some are not.",
    )
    require(
        (tree.box[inner] == -1).all()
        and (tree.left[leaf] == -1).all()
        and (tree.right[leaf] == -1).all(),
        "`box` must be -1 in inner nodes, and `left` and `right` -1 in leaves, but they are not.",
    )


def check_implied_corners(boxes: Boxes) -> None:
    """Check that corners are what the cuts of the tree imply, to the last bit."""
    implied = Boxes.from_tree(boxes.tree, boxes.lower.shape[1])
    kept = (implied.lower == boxes.lower).all(axis=1) & (implied.upper == boxes.upper).all(axis=1)
    require(
        kept.all(),
        "`lower` and `upper` must be exactly what the cuts of the tree imply, but are not in "
        f"{np.count_nonzero(~kept)} boxes.",
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


def _check_owners(boxes: Boxes, points: FloatArray) -> None:
    """Check by comparison with every box who owns a point, and that `locate` finds it."""
    inside = np.ones((len(points), len(boxes.lower)), dtype=bool)
    for low, high, x in zip(boxes.lower.T, boxes.upper.T, points.T, strict=True):
        inside &= (low <= x[:, None]) & (x[:, None] < high)
    count, owner = inside.sum(axis=1), inside.argmax(axis=1)
    for wrong, what in ((count == 0, "none has"), (count > 1, "several have")):
        require(
            not wrong.any(),
            f"every point must lie in exactly one half-open box, but {what} "
            f"{points[wrong][:1].tolist()} and {np.count_nonzero(wrong)} of {len(points)} "
            f"test points are like it.",
        )
    located = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(located != owner)
    require(
        len(wrong) == 0,
        "`locate` must find the box with `lower` <= point < `upper`, but for "
        f"{points[wrong[:1]].tolist()} it gives box {located[wrong[:1]]} where it should be "
        f"{owner[wrong[:1]]} ({len(wrong)} of {len(points)} test points).",
    )


def _check_sampling(boxes: Boxes, rng: np.random.Generator) -> None:
    box = np.tile(np.arange(len(boxes.lower)), 3)
    points = boxes.sample(box, rng)
    found = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(found != box)
    require(
        len(wrong) == 0,
        f"`locate` must find a point sampled from box k in box k, but finds one of box "
        f"{box[wrong[:1]]} in box {found[wrong[:1]]} ({len(wrong)} of {len(box)}).",
    )
