"""`Growth`: boxes under construction, and the labels that partitioners learn from."""

from __future__ import annotations

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.keywords import checks_keywords
from abctree.types import FloatArray

# `Boxes.sample` keeps its points at or above this, so no box may end below it.
_TINY = float(np.finfo(np.float64).tiny)


@checks_keywords
class Growth:
    """A partition that is still being cut, one box at a time.

    The boxes always tile the cube.  Box numbers stay 0..K-1: the left part of a cut box keeps its
    number and the right part becomes box K, so arrays and heaps indexed by box stay valid while a
    partition grows.

    Parameters
    ----------
    boxes : Boxes
        Where to start; it is not changed.

    Examples
    --------
    >>> from abctree.data import Boxes
    >>> growth = Growth(Boxes.whole(2))
    >>> growth.split(0, feature=1, threshold=0.5)
    (0, 1)
    >>> growth.boxes().lower[1].tolist()
    [0.0, 0.5]
    """

    def __init__(self, boxes: Boxes) -> None:
        tree = boxes.tree
        self._feature: list[int] = tree.feature.tolist()
        self._threshold: list[float] = tree.threshold.tolist()
        self._left: list[int] = tree.left.tolist()
        self._right: list[int] = tree.right.tolist()
        self._box: list[int] = tree.box.tolist()
        self._node: list[int] = tree.node_of_box.tolist()
        self._depth = _depths(tree)
        # Corners are replaced, never written into, so these rows may be views and may be lent out.
        self._lower: list[FloatArray] = list(boxes.lower)
        self._upper: list[FloatArray] = list(boxes.upper)

    def __len__(self) -> int:
        return len(self._lower)

    def lower(self, box: int) -> FloatArray:
        """(d,) The lower corner of a box."""
        return self._lower[box]

    def upper(self, box: int) -> FloatArray:
        """(d,) The upper corner of a box."""
        return self._upper[box]

    def depth(self, box: int) -> int:
        """The number of cuts between the cube and a box."""
        return self._depth[box]

    def split(self, box: int, feature: int, threshold: float) -> tuple[int, int] | None:
        """Cut a box where ``cube[feature] == threshold``, in O(d) whatever the number of boxes.

        Parameters
        ----------
        box : int
            Number of the box, in 0..K-1.
        feature : int
            Coordinate to cut, in 0..d-1.
        threshold : float
            Where to cut it.

        Returns
        -------
        tuple of int or None
            The numbers of the left and the right part; None, and nothing is cut, where the
            threshold is not strictly inside the box (the midpoint of a very thin box is not).
        """
        lower, upper = self._lower[box], self._upper[box]
        if not max(float(lower[feature]), _TINY) < threshold < float(upper[feature]):
            return None
        new = len(self)
        self._lower.append(_replaced(lower, feature, threshold))
        self._upper.append(upper)
        self._upper[box] = _replaced(upper, feature, threshold)
        self._depth[box] += 1
        self._depth.append(self._depth[box])
        self._grow_tree(box, feature, threshold, new)
        return box, new

    def _grow_tree(self, box: int, feature: int, threshold: float, new: int) -> None:
        node, child = self._node[box], len(self._feature)
        self._feature[node], self._threshold[node] = int(feature), float(threshold)
        self._left[node], self._right[node], self._box[node] = child, child + 1, -1
        self._feature += (-1, -1)
        self._threshold += (0.0, 0.0)
        self._left += (-1, -1)
        self._right += (-1, -1)
        self._box += (box, new)
        self._node[box] = child
        self._node.append(child + 1)

    def boxes(self) -> Boxes:
        """The partition as it is now, a copy: O(K d)."""
        tree = SplitTree(
            np.array(self._feature, dtype=np.int64),
            np.array(self._threshold, dtype=np.float64),
            np.array(self._left, dtype=np.int64),
            np.array(self._right, dtype=np.int64),
            np.array(self._box, dtype=np.int64),
        )
        return Boxes(np.array(self._lower), np.array(self._upper), tree)


def _depths(tree: SplitTree) -> list[int]:
    """(K,) The depth of every box."""
    depth = [0] * tree.n_nodes
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            depth[node] = depth[parent] + 1
    return [depth[node] for node in tree.node_of_box.tolist()]


def _replaced(corner: FloatArray, feature: int, value: float) -> FloatArray:
    changed = corner.copy()
    changed[feature] = value
    return changed


def labels(distance: FloatArray, epsilon: float, width: float | None) -> FloatArray:
    """What a partition is to predict of each row (n,), in [0, 1]; 0 for failures.

    Without a width the paper's reward ``1[distance < epsilon]``; else the soft label
    ``max(0, 1 - distance / (width * epsilon))``, which also tells near misses from far ones.
    """
    if width is None:
        return (distance < epsilon).astype(np.float64)
    reach = float(width) * float(epsilon)
    away = np.ones(len(distance))
    np.divide(distance, reach, out=away, where=distance < reach)
    return np.subtract(1.0, away, out=away)
