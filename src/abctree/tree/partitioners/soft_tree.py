"""Soft trees: the default partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.kernels.growth import grow_soft_tree
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.tree.partitioners.growth import labels
from abctree.types import FloatArray, IntArray


@checks_keywords
@dataclass(frozen=True)
class SoftTree:
    """A regression tree of a soft reward, grown from the root in each round; not in the paper.

    Each box is cut at one of the inner edges of `n_bins` equal slices of itself, best-first, where
    the squared error of the soft label falls most.

    Parameters
    ----------
    min_rows : int or None
        Least rows on each side of a cut, at least 1; None is n / 80, but at least 10, and at most
        100 in one or two dimensions and 20 in more.
    boxes_per_root : float
        The tree has at most this many times √n boxes from n rows; positive.
    n_bins : int
        Slices of a box that are considered, at least 2.
    reach : float
        The soft label reaches 0 at this many ε; positive.
    """

    min_rows: int | None = ruled(None, "a whole number of at least 1 or None")
    boxes_per_root: float = ruled(8.0, "positive")
    n_bins: int = ruled(16, "a whole number of at least 2")
    reach: float = ruled(2.5, "positive")

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,
    ) -> Boxes:
        """Boxes from rows (n, d) and their distances (n,); O(n d) a level of the tree."""
        return self.partition_and_locate(cube, distance, epsilon, current, rng)[0]

    def partition_and_locate(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,
    ) -> tuple[Boxes, IntArray]:
        """The same, and the box of each row (n,)."""
        if type(self).partition is not SoftTree.partition:  # a class that cuts in a way of its own
            boxes = self.partition(cube, distance, epsilon, current, rng)
            return boxes, boxes.locate(cube)
        rows: IntArray = np.arange(len(cube), dtype=np.int32)
        return self.of_rows(cube, distance, rows, epsilon)

    def of_rows(
        self, cube: FloatArray, distance: FloatArray, rows: IntArray, epsilon: float
    ) -> tuple[Boxes, IntArray]:
        """The same from some rows (n,) of a table, increasing, which are put into another order.

        Neither they nor the table are copied.
        """
        n, d = len(rows), cube.shape[1]
        label = labels(distance[rows], epsilon, self.reach)
        most = max(1, int(self.boxes_per_root * np.sqrt(n)))
        least = self.min_rows or max(10, min(n // 80, 100 if d <= 2 else 20))
        feature, threshold, left, right, box, row_box = grow_soft_tree(
            np.ascontiguousarray(cube), label, rows, most, least, self.n_bins
        )
        del label  # as long as the table
        tree = SplitTree(feature, threshold, left, right, box)
        return Boxes.from_tree(tree, d), row_box[row_box >= 0]
