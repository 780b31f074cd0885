"""Boxes that tile the unit cube, what the prior says of them, and what is believed of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from abctree import kernels
from abctree.markup import page, table, title
from abctree.types import FloatArray, IntArray

#: In the place of nothing, where it divides nothing.
_TINY = float(np.finfo(np.float64).tiny)
#: Boxes that a notebook shows.
_LARGEST = 5


@dataclass(frozen=True, eq=False)
class SplitTree:
    """A binary tree of axis-parallel cuts, as flat arrays of length m; numbers take four bytes.

    A point goes left where ``cube[feature] < threshold``, else right.  The root is node 0 and every
    child has a larger number than its parent, so a loop over nodes upwards visits parents first.
    """

    feature: IntArray  #: (m,) the coordinate that is cut; -1 in a leaf
    threshold: FloatArray  #: (m,) where it is cut; 0 in a leaf
    left: IntArray  #: (m,) left child; -1 in a leaf
    right: IntArray  #: (m,) right child; -1 in a leaf
    box: IntArray  #: (m,) number of the box in a leaf; -1 in an inner node

    def __post_init__(self) -> None:
        for name in ("feature", "left", "right", "box"):
            object.__setattr__(self, name, _short(getattr(self, name)))

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
        return self._links[0]

    @cached_property
    def lookup(self) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """The tree as `kernels.compiled.locate` reads it: a leaf is its own child (m, 2)."""
        return np.maximum(self.feature, 0), self.threshold, self._links[1], self.box

    @cached_property
    def node_of_box(self) -> IntArray:
        """(K,) The leaf node of each box."""
        return self._links[2]

    @cached_property
    def _links(self) -> tuple[IntArray, IntArray, IntArray]:
        """`parent` (m,), children (m, 2), and `node_of_box` (K,)."""
        from abctree.kernels.growth import links_of_tree  # it needs numba, as `kernels.load`

        m = self.n_nodes
        parent: IntArray = np.empty(m, np.int32)
        child: IntArray = np.empty((m, 2), np.int32)
        node: IntArray = np.empty(self.n_boxes, np.int32)
        links_of_tree(self.feature, self.left, self.right, self.box, parent, child, node)
        return parent, child, node


def _short(numbers: IntArray) -> IntArray:
    """The same in four bytes each: more of a tree stays in a cache."""
    return np.asarray(numbers, dtype=np.int32)


@dataclass(frozen=True, eq=False, repr=False)
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
        lower, upper = kernels.load().boxes_of_tree(
            tree.feature, tree.threshold, tree.left, tree.right, tree.box, d
        )
        return cls(lower, upper, tree)

    def __len__(self) -> int:
        return len(self.lower)

    def __repr__(self) -> str:
        return f"Boxes({len(self)} in {self.d} dimensions)"

    @property
    def d(self) -> int:
        """Dimensions of the cube."""
        return int(self.lower.shape[1])

    @cached_property
    def volume(self) -> FloatArray:
        """(K,) Volumes in the cube; they sum to one."""
        return np.asarray(np.multiply.reduce(self.upper - self.lower, axis=1))

    def locate(self, cube: FloatArray) -> IntArray:
        """The box of each point: (n, d) -> (n,), in O(log K) a point."""
        found: IntArray = np.empty(len(cube), np.int32)
        kernels.load().locate(*self.tree.lookup, np.ascontiguousarray(cube), found)
        return found

    def sample(self, box: IntArray, rng: np.random.Generator) -> FloatArray:
        """One uniform point in each named box: (n,) -> (n, d), strictly inside the cube."""
        lower, upper = self.lower[box], self.upper[box]
        point = lower + (upper - lower) * rng.random(lower.shape)
        # Rounding may reach the open upper border, and 0 maps to -inf under an unbounded prior.
        point = np.minimum(point, np.nextafter(upper, lower))
        return np.maximum(point, np.maximum(lower, _TINY))


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Boxes measured by a prior.  Made only by `Region.measure`.

    Without a constraint and with a prior that is a map of the cube, `prior_mass` is the volume of
    the box, exactly.
    """

    boxes: Boxes
    prior_mass: FloatArray  #: (K,) π(Ω_k); sums to one
    #: Log-volumes in θ space of boxes of the cube, as `Prior.log_volume`.
    log_volume_of: Callable[[FloatArray, FloatArray], FloatArray]
    feasible: FloatArray  #: (K,) share of the box that the constraint allows, in (0, 1]

    def __len__(self) -> int:
        return len(self.boxes)

    def __repr__(self) -> str:
        least, most = self.prior_mass.min(), self.prior_mass.max()
        return f"Partition({self.boxes!r}, prior mass from {least:.2g} to {most:.2g})"

    def _repr_html_(self) -> str:
        order = np.argsort(-self.prior_mass, kind="stable")[:_LARGEST]
        heads = ("box", "prior mass", *(f"cube[{j}]" for j in range(self.boxes.d)))
        ends = np.stack([self.boxes.lower, self.boxes.upper], axis=2)
        rows = (
            (f"{k}", f"{self.prior_mass[k]:.3g}", *(f"{a:.3g} to {b:.3g}" for a, b in ends[k]))
            for k in order.tolist()
        )
        return page(title(f"{self!r}; the largest"), table(heads, rows))

    @cached_property  # few runs ask, and quantiles may take long
    def log_volume(self) -> FloatArray:
        """(K,) Log |Ω_k| in θ space; nan where the prior cannot say."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.log_volume_of(self.boxes.lower, self.boxes.upper))

    @property
    def log_density(self) -> FloatArray:
        """(K,) Log of π(Ω_k) / |Ω_k|, of what the constraint leaves of a box.

        Volumes are those in the cube where the prior cannot say them in θ.
        """
        with np.errstate(divide="ignore"):
            unknown = np.isnan(self.log_volume).any()
            volume = np.log(self.boxes.volume) if unknown else self.log_volume
            return np.asarray(np.log(self.prior_mass) - np.log(self.feasible) - volume)

    @cached_property
    def is_whole(self) -> bool:
        """Whether a constraint, if there is one, leaves all of every box."""
        return bool((self.feasible == 1.0).all())

    def cube_proposal(self, q: FloatArray, defensive: float = 0.0) -> FloatArray:
        """Probabilities of drawing a *cube point* in each box such that arms are played as q.

        But for a share of them, in which they are played as under the prior.  Infeasible points
        cost nothing and are drawn again, arm included; a box that is half infeasible is therefore
        offered twice as often.
        """
        share = np.empty(self.prior_mass.shape)
        given = np.asarray(q, dtype=np.float64)
        kernels.load().cube_shares(given, self.prior_mass, defensive, self.feasible, share)
        return share

    def prior_draws(self, density: FloatArray) -> float:
        """As how many prior draws points of this density over the cube (K,) count in every box."""
        kept = density * self.boxes.volume * self.feasible
        return float((kept / self.prior_mass).min())


@dataclass(eq=False)  # not frozen: they are made for each block, in a third of the time
class Arms:
    """Beta(α_k, β_k) beliefs about the acceptance rate μ_k of each box (Section 3.1)."""

    alpha: FloatArray  #: (K,)
    beta: FloatArray  #: (K,)

    @property
    def mean(self) -> FloatArray:
        """(K,) η_k = α_k / (α_k + β_k), Algorithm 1 line 4; 0 where nothing is known."""
        eta = np.empty(len(self.alpha))
        kernels.load().mean_rates(self.alpha, self.beta, eta)
        return eta

    def __len__(self) -> int:
        return len(self.alpha)
