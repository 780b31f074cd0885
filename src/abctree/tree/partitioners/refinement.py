"""`refinement`: many trees over the same cube, as one partition into disjoint boxes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.tree.partitioners.growth import Growth
from abctree.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class _Cell:
    """A box on its way: cut as trees 0 .. tree - 1 say, and to be cut at `node` of the next."""

    rows: IntArray  #: rows in the box
    tree: int
    node: int


def refinement(
    trees: Sequence[SplitTree], cube: FloatArray, max_boxes: int, min_rows: int
) -> Boxes:
    """The common refinement of the partitions of some trees, as coarse as the rows allow.

    Every tree is hung below each leaf of those before it, less the cuts that miss the leaf's box.
    A cut is made only if it leaves `min_rows` rows on both sides.  Where it does not, the box stays
    whole and goes on as the side that holds more of its rows: cells that hold (almost) no rows are
    merged with a neighbour.  The box with most rows is cut first, and once there are `max_boxes`,
    the boxes stay as they are.  In either case the boxes tile the cube.

    With ``min_rows=0`` and enough boxes this is the common refinement itself.  Its depth is at most
    the sum of those of the trees.
    """
    growth = Growth(Boxes.whole(cube.shape[1]))
    cells = {0: _Cell(np.arange(len(cube)), 0, 0)}
    heap = [(-len(cube), 0)]
    while heap and len(growth) < max_boxes:
        _, box = heapq.heappop(heap)
        cell = _next_cut(cells.pop(box), trees, growth, box, cube, min_rows)
        if cell is None:
            continue
        tree, node = trees[cell.tree], cell.node
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        parts = growth.split(box, feature, threshold)
        if parts is None:
            continue
        goes_left = cube[cell.rows, feature] < threshold
        for part, rows, child in (
            (parts[0], cell.rows[goes_left], tree.left[node]),
            (parts[1], cell.rows[~goes_left], tree.right[node]),
        ):
            cells[part] = _Cell(rows, cell.tree, int(child))
            heapq.heappush(heap, (-len(rows), part))
    return growth.boxes()


def _next_cut(
    cell: _Cell,
    trees: Sequence[SplitTree],
    growth: Growth,
    box: int,
    cube: FloatArray,
    min_rows: int,
) -> _Cell | None:
    """The cell moved on to the next cut that is to be made in its box; None if there is none."""
    number, node = cell.tree, cell.node
    while number < len(trees) and len(cell.rows) >= 2 * min_rows:
        tree = trees[number]
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        if feature < 0:
            number, node = number + 1, 0
        elif threshold >= growth.upper(box)[feature]:
            node = int(tree.left[node])
        elif threshold <= growth.lower(box)[feature]:
            node = int(tree.right[node])
        else:
            n_left = int(np.count_nonzero(cube[cell.rows, feature] < threshold))
            n_right = len(cell.rows) - n_left
            if min(n_left, n_right) >= min_rows:
                return _Cell(cell.rows, number, node)
            node = int(tree.left[node] if n_left >= n_right else tree.right[node])
    return None
