"""`Boxes`: half-open boxes that tile the unit cube, and the tree that finds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from abctree.kernels import compiled
from abctree.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SplitTree:
    """A binary tree of axis-parallel cuts, as flat arrays of length m.

    A point goes left where ``cube[feature] < threshold``, else right.  The root is node 0 and every
    child has a larger number than its parent, so a loop over nodes upwards visits parents first.
    """

    feature: IntArray  #: (m,) the coordinate that is cut; -1 in a leaf
    threshold: FloatArray  #: (m,) where it is cut; 0 in a leaf
    left: IntArray  #: (m,) left child; -1 in a leaf
    right: IntArray  #: (m,) right child; -1 in a leaf
    box: IntArray  #: (m,) number of the box in a leaf; -1 in an inner node

    @classmethod
    def leaf(cls) -> SplitTree:
        """A tree that is one leaf."""
        none = np.array([-1])
        return cls(none, np.zeros(1), none, none, np.array([0]))

    @property
    def n_nodes(self) -> int:
        """m, leaves and inner nodes."""
        return len(self.feature)

    @property
    def n_boxes(self) -> int:
        """K, leaves."""
        return (len(self.feature) + 1) // 2

    @cached_property
    def parent(self) -> IntArray:
        """(m,) The node above; -1 for the root."""
        parent = np.full(self.n_nodes, -1)
        inner = np.flatnonzero(self.feature >= 0)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return parent

    @cached_property
    def node_of_box(self) -> IntArray:
        """(K,) The leaf node of each box."""
        node = np.empty(self.n_boxes, dtype=np.int64)
        leaves = np.flatnonzero(self.feature < 0)
        node[self.box[leaves]] = leaves
        return node


@dataclass(frozen=True, eq=False)
class Boxes:
    """K half-open boxes ``lower <= cube < upper`` that tile the unit cube (the paper's Ω).

    Every point of the cube has exactly one owner.  Geometry only: what a box is worth is in
    `Partition` and `Arms`.
    """

    lower: FloatArray  #: (K, d)
    upper: FloatArray  #: (K, d)
    tree: SplitTree

    @classmethod
    def whole(cls, d: int) -> Boxes:
        """The one box that is the cube (Algorithm 2, line 1)."""
        return cls(np.zeros((1, d)), np.ones((1, d)), SplitTree.leaf())

    @classmethod
    def from_tree(cls, tree: SplitTree, d: int) -> Boxes:
        """The boxes that a tree of cuts makes of the cube."""
        lower, upper = compiled.boxes_of_tree(
            tree.feature, tree.threshold, tree.left, tree.right, tree.box, d
        )
        return cls(lower, upper, tree)

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def d(self) -> int:
        """Dimensions of the cube."""
        return int(self.lower.shape[1])

    @cached_property
    def volume(self) -> FloatArray:
        """(K,) Volumes in the cube; they sum to one."""
        return np.asarray(np.prod(self.upper - self.lower, axis=1))

    def locate(self, cube: FloatArray) -> IntArray:
        """The box of each point: (n, d) -> (n,), in O(log K) a point."""
        t = self.tree
        return compiled.locate(t.feature, t.threshold, t.left, t.right, t.box, cube)

    def sample(self, box: IntArray, rng: np.random.Generator) -> FloatArray:
        """One uniform point in each named box: (n,) -> (n, d), strictly inside the cube."""
        lower, upper = self.lower[box], self.upper[box]
        point = lower + (upper - lower) * rng.random(lower.shape)
        # Rounding may reach the open upper border, and 0 maps to -inf under an unbounded prior.
        point = np.minimum(point, np.nextafter(upper, lower))
        return np.maximum(point, np.maximum(lower, np.finfo(float).tiny))
