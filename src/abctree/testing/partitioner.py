"""Whether a partitioner keeps its contract, on the tables that break partitioners."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from abctree.data import Boxes
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.protocols import Partitioner
from abctree.testing.boxes import check_boxes
from abctree.testing.rule import require
from abctree.tree.partitioners.growth import Growth
from abctree.types import FloatArray, RNGLike


@dataclass(frozen=True, eq=False)
class _Case:
    """One call of a partitioner."""

    name: str
    cube: FloatArray
    distance: FloatArray
    epsilon: float
    current: Boxes | None = None


@checks_keywords
def check_partitioner(partitioner: Partitioner, d: int = 2, rng: RNGLike = 0, n: int = 500) -> None:
    """Check that a partitioner keeps the contract of `abctree.protocols.Partitioner`.

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

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the table that breaks it.

    Examples
    --------
    >>> from abctree.tree.partitioners import Grid
    >>> check_partitioner(Grid(4), d=3)
    """
    generator = checked_rng(rng)
    seed = int(generator.integers(2**31))
    cases = _cases(d, n, generator)
    made = []
    for case in cases:
        boxes = _call(partitioner, case, seed, frozen=False)
        check_boxes(boxes, case.cube, case.name, generator)
        made.append(boxes)
        # What a partitioner made is what it is given in the next round.
        again = dataclasses.replace(
            case, name=f"{case.name}, `current` its own", current=boxes, epsilon=case.epsilon / 2
        )
        check_boxes(_call(partitioner, again, seed, frozen=True), again.cube, again.name, generator)
    # In another order, so that a memory of earlier calls shows.
    for case, boxes in reversed(list(zip(cases, made, strict=True))):
        same = _same_boxes(boxes, _call(partitioner, case, seed, frozen=True))
        require(
            same,
            "the same arguments and the same seed must give the same boxes, but a second call "
            f"gave others (table: {case.name}). A partitioner must keep no memory of earlier "
            "calls and draw only from the `rng` it is given.",
        )


def _cases(d: int, n: int, rng: np.random.Generator) -> list[_Case]:
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
        _Case("ordinary", cube, distance, epsilon),
        _Case("ordinary, `current` given", cube, distance, epsilon, current),
        _Case("some distances infinite", cube, failed, epsilon),
        _Case("all distances equal", cube, np.ones(n), 1.5),
        _Case("all distances infinite", cube, np.full(n, np.inf), 1.0),
        _Case("all distances infinite and epsilon too", cube, np.full(n, np.inf), np.inf),
        _Case("no row accepted", cube, distance + 1.0, 0.5),
        _Case("epsilon tiny", cube, distance, 1e-300),
        _Case("epsilon infinite", cube, failed, np.inf),
        _Case("no rows", cube[:0], distance[:0], epsilon),
        _Case("no rows, `current` given", cube[:0], distance[:0], epsilon, current),
        _Case("one row", cube[:1], distance[:1], epsilon),
        _Case("one point repeated", np.repeat(cube[:1], n, axis=0), distance, epsilon),
        _Case("two points repeated", clump, distance, epsilon),
        _Case("points at the corners of the cube", corners, distance, epsilon),
    ]


def _call(partitioner: Partitioner, case: _Case, seed: int, *, frozen: bool) -> Boxes:
    """One call, on copies; read-only ones if `frozen`, as the columns of a `Table` are."""
    cube, distance = case.cube.copy(), case.distance.copy()
    if frozen:
        cube.flags.writeable = distance.flags.writeable = False
    given = [cube, distance, *_arrays(case.current)]
    before = [array.copy() for array in given]
    try:
        boxes = partitioner.partition(
            cube, distance, case.epsilon, case.current, np.random.default_rng(seed)
        )
    except Exception as error:
        raise AssertionError(
            f"`partition` must accept every table, but raised {error!r} (table: {case.name}"
            f"{', read-only: `partition` must not change its arguments' if frozen else ''})."
        ) from error
    require(
        all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)),
        f"`partition` must not change its arguments, but did (table: {case.name}).",
    )
    return boxes


def _arrays(boxes: Boxes | None) -> list[Any]:
    """Everything that defines a partition."""
    if boxes is None:
        return []
    tree = boxes.tree
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.box)
    return [boxes.lower, boxes.upper, *columns]


def _same_boxes(one: Boxes, other: Boxes) -> bool:
    pairs = zip(_arrays(one), _arrays(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
