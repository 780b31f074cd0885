"""`DynamicTree`: a particle of a filter over trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.errors import ParameterError, wrong
from abctree.kernels import dynamic_trees
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.tree.partitioners.growth import labels
from abctree.tree.partitioners.refinement import refinement
from abctree.types import FloatArray, IntArray

# A leaf is offered growth each time it has become larger by this factor; 1.03 gains nothing.
_FACTOR = 1.2


@checks_keywords
@dataclass(frozen=True)
class DynamicTree:
    """A tree drawn from the filtered posterior of a dynamic tree (Taddy, Gramacy and Polson 2011).

    The paper's alternative to CART and BART (Section 3.2, Partitioning Choices).  A tree is a
    Bayesian model of the reward ``1[distance < epsilon]``: cuts have a prior, the rate of a leaf a
    Beta prior.  Particles, each a tree, take in one row after the other; at each row the leaf that
    it falls into stays, is pruned together with its sibling's branch, or grows.  The partition is
    one particle, drawn by its weight, so its size is chosen by the data.

    The filter starts anew in each round, because lowering ε changes the labels of past rows.  It
    reads the rows in the order in which they were simulated.  With ``window="rolling"`` these are
    the last round's only.

    Parameters
    ----------
    n_particles : int
        N, particles in all, >= `n_trees`.
    n_trees : int
        The common refinement of so many trees, >= 1, each from a filter of its own with
        N / `n_trees` of the particles; 1 is the paper's.  A single tree is as coarse as the data
        allow; five serve a run better at the same cost (docs/explanation/partitions.md).
    max_boxes : int
        Most boxes, >= 1.
    min_rows : int
        Least rows on each side of a cut, >= 1, when it is made: as rows arrive, or when trees are
        refined.
    split_prior : tuple of float
        (α, β), 0 < α < 1 and β >= 0: a box that D cuts lead to is cut with prior probability
        ``α (1 + D)^-β``.  A smaller β makes more boxes.
    rate_prior : tuple of float
        Pseudo-counts, > 0, of accepted and of rejected rows in each box.
    n_cuts : int
        Places, drawn at random, where a cut is considered along each coordinate, >= 1.

    Notes
    -----
    About O(n N (log K + d)) in all, and 4 n N bytes.  `abctree.kernels.dynamic_trees` says where it
    departs from the original.

    References
    ----------
    Taddy, M. A., Gramacy, R. B. and Polson, N. G. (2011). Dynamic trees for learning and design.
    Journal of the American Statistical Association 106, 109-123.
    """

    n_particles: int = ruled(50, "a whole number of at least 1")
    n_trees: int = ruled(5, "a whole number of at least 1")
    max_boxes: int = ruled(1000, "a whole number of at least 1")
    min_rows: int = ruled(10, "a whole number of at least 1")
    split_prior: tuple[float, float] = (0.95, 2.0)
    rate_prior: tuple[float, float] = (0.5, 0.5)
    n_cuts: int = ruled(16, "a whole number of at least 1")

    def __post_init__(self) -> None:
        if not self.n_particles >= self.n_trees:
            raise ParameterError(
                f"`n_particles` must be at least `n_trees`, but got {self.n_particles!r} and "
                f"{self.n_trees!r}. Each tree needs particles of its own."
            )
        if not (0.0 < self.split_prior[0] < 1.0 and self.split_prior[1] >= 0.0):
            raise ParameterError(
                "`split_prior` must be (alpha, beta) with 0 < alpha < 1 and beta >= 0, "
                f"but got {self.split_prior!r}."
            )
        if not min(self.rate_prior) > 0.0:
            raise wrong("rate_prior", "be positive", repr(self.rate_prior))

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,  # noqa: ARG002 - the filter starts anew
        rng: np.random.Generator,
    ) -> Boxes:
        """Boxes from a new filter, see `Partitioner`; one where all labels are equal."""
        label = labels(distance, epsilon, None)
        if self.max_boxes == 1 or len(label) == 0 or label.min() == label.max():
            return Boxes.whole(cube.shape[1])
        ones = label.astype(np.int64)
        trees = [self._filtered(cube, ones, rng) for _ in range(self.n_trees)]
        if self.n_trees == 1:
            return Boxes.from_tree(trees[0], cube.shape[1])
        return refinement(trees, cube, self.max_boxes, self.min_rows)

    def _filtered(self, cube: FloatArray, label: IntArray, rng: np.random.Generator) -> SplitTree:
        """One particle after all rows."""
        columns = dynamic_trees.filter_rows(
            cube,
            label,
            rng,
            n_particles=self.n_particles // self.n_trees,
            # Room for a particle that has a box for every `min_rows` rows.
            max_boxes=min(self.max_boxes, 1 + len(label) // self.min_rows),
            min_rows=self.min_rows,
            split_prior=self.split_prior,
            rate_prior=self.rate_prior,
            n_cuts=self.n_cuts,
            factor=_FACTOR,
        )
        return SplitTree(*columns[:5])
