"""`Bart`: a draw of a sum of trees, refined into one partition."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.errors import MissingDependencyError
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.tree.partitioners.growth import labels
from abctree.tree.partitioners.refinement import refinement
from abctree.types import FloatArray, IntArray

_INSTALL = "`Bart` needs stochtree, which is not installed. Run: pip install abctree[bart]"

# With fewer rows the forest has nothing to learn from; stochtree's leaves have at least five rows.
_FEWEST_ROWS = 10


@checks_keywords
@dataclass(frozen=True)
class Bart:
    """The common refinement of the trees of one draw of a probit BART forest.

    The paper's "Bayesian Additive Regression Trees" (Section 3.2, Partitioning Choices; Example 2
    has five trees and 1 000 burn-in).  BART (Chipman, George and McCulloch 2010) models the reward
    ``1[distance < epsilon]`` as a probit of a sum of trees.  Its state after the burn-in is a draw
    from its posterior: `n_trees` partitions that overlap.  Arms need one disjoint partition, the
    common refinement: every tree is hung below each leaf of those before it.

    A refinement of many trees is mostly cells without data: 84 cells for five trees in five
    dimensions, hundreds of thousands for fifty.  So a cut is made only where it leaves `min_rows`
    rows on both sides, the fullest box is cut first, and cutting ends at `max_boxes`.  Where a cut
    is not made, the cells on both sides of it are one box.

    Parameters
    ----------
    n_trees : int
        m, trees of the forest, >= 1.
    n_burn_in : int
        Sweeps of the sampler before the draw, >= 0.
    max_boxes : int
        Most boxes, >= 1.
    min_rows : int
        Least rows of a box, >= 1.
    max_rows : int or None
        The forest is fitted to at most so many rows, >= 10, drawn without replacement; its time
        grows with them.  The boxes are refined with all rows.  None for no limit.
    n_warm_start : int
        Sweeps of "grow from root" (He and Hahn 2023) before the burn-in, >= 0.  With 10 of them a
        burn-in of 100 does for most purposes, at a tenth of the time.

    Raises
    ------
    MissingDependencyError
        If stochtree, which samples the forest, is not installed.

    Notes
    -----
    About ``0.1 μs · n_trees · n_burn_in · n`` for the forest, and at most one test of every cut in
    every box for the refinement.

    References
    ----------
    Chipman, H. A., George, E. I. and McCulloch, R. E. (2010). BART: Bayesian additive regression
    trees. Annals of Applied Statistics 4, 266-298.
    """

    n_trees: int = ruled(5, "a whole number of at least 1")
    n_burn_in: int = ruled(1000, "a whole number of at least 0")
    max_boxes: int = ruled(1000, "a whole number of at least 1")
    min_rows: int = ruled(10, "a whole number of at least 1")
    max_rows: int | None = ruled(10_000, f"a whole number of at least {_FEWEST_ROWS} or None")
    n_warm_start: int = ruled(0, "a whole number of at least 0")

    def __post_init__(self) -> None:
        # Now, and not after a pilot of costly simulations.
        if importlib.util.find_spec("stochtree") is None:
            raise MissingDependencyError(_INSTALL)

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,  # noqa: ARG002 - the forest is grown from its roots
        rng: np.random.Generator,
    ) -> Boxes:
        """Boxes from a new forest, see `Partitioner`; one where all labels are equal."""
        label = labels(distance, epsilon, None)
        shown = self._shown(len(label), rng)
        seed = int(rng.integers(2**31 - 1))
        if len(shown) < _FEWEST_ROWS or label[shown].min() == label[shown].max():
            return Boxes.whole(cube.shape[1])
        forest = self._forest(cube[shown], label[shown], seed)
        return refinement(forest, cube, self.max_boxes, self.min_rows)

    def _shown(self, n: int, rng: np.random.Generator) -> IntArray:
        """The rows that the forest is fitted to."""
        if self.max_rows is None or n <= self.max_rows:
            return np.arange(n)
        return np.sort(rng.choice(n, self.max_rows, replace=False))

    def _forest(self, cube: FloatArray, label: FloatArray, seed: int) -> list[SplitTree]:
        """One draw of the forest's trees from their posterior."""
        try:
            from stochtree import BARTModel, OutcomeModel
        except ImportError as error:
            raise MissingDependencyError(_INSTALL) from error
        model = BARTModel()
        warm = self.n_warm_start > 0
        model.sample(
            X_train=np.array(cube),
            y_train=label,
            num_gfr=self.n_warm_start,
            num_burnin=0 if warm else self.n_burn_in,
            num_mcmc=1,
            general_params={
                "random_seed": seed,
                "num_threads": 1,
                "outcome_model": OutcomeModel(outcome="binary", link="probit"),
                "sample_sigma2_global": False,  # it is 1 in a probit model
                # After a warm start stochtree knows no burn-in: the draw is the last of so many.
                "keep_every": self.n_burn_in + 1 if warm else 1,
            },
            mean_forest_params={"num_trees": self.n_trees},
        )
        forest = model.forest_container_mean
        draw = forest.num_samples() - 1
        return [_tree(forest, draw, number) for number in range(self.n_trees)]


def _tree(forest: Any, draw: int, number: int) -> SplitTree:
    """A tree of a forest in our arrays; its nodes are numbered anew, level by level."""
    nodes = [0]
    columns: list[tuple[int, float, int, int, int]] = []
    n_boxes = 0
    for node in nodes:  # grows on the way
        if forest.is_leaf_node(draw, number, node):
            columns.append((-1, 0.0, -1, -1, n_boxes))
            n_boxes += 1
            continue
        feature = int(forest.node_split_index(draw, number, node))
        threshold = float(forest.node_split_threshold(draw, number, node))
        child = len(nodes)
        # stochtree's left is x <= threshold, in float64: x < the next float.
        columns.append((feature, float(np.nextafter(threshold, np.inf)), child, child + 1, -1))
        nodes.append(forest.left_child_node(draw, number, node))
        nodes.append(forest.right_child_node(draw, number, node))
    return SplitTree(*(np.array(column) for column in zip(*columns, strict=True)))
