"""`Surrogate`: the acceptance rate at any θ and ε, from regressions of the summaries.

In the nodes of a tree the standardised summaries are regressed on the parameters, each node shrunk
to its parent; the residuals that are left are added to the fitted summaries at a new θ, and the
share of these that is closer than ε is the acceptance rate there.  All rows teach it, rejected ones
too, and it is smooth inside a box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes
from abctree.kernels.surrogate import acceptance_rates, fit_models, residual_lists
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows of a node that has a regression of its own, and those that its parent's is worth to it.
_ROWS, _STRENGTH = 200.0, 60.0
#: Quadratic features need so many rows for each, and are at most so many; else linear ones.
_ROWS_PER_FEATURE, _MOST_FEATURES = 6, 120
#: Draws that the box's own rate is worth, and the scale of the edge of the ball, in ε.
_PSEUDO, _SOFTNESS = 2.0, 0.35
#: Residuals in a list: numbers in all, bounds, and a multiple of √T.
_NUMBERS, _FEWEST, _MOST, _PER_ROOT = 1500, 64, 1024, 2.5


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Acceptance rates at a tolerance; made by `fit_surrogate`."""

    boxes: Boxes
    model_of_box: IntArray  #: (K,)
    beta: FloatArray  #: (M, p, s) coefficients, of summaries in units of ε
    list_of_box: IntArray  #: (K,)
    residual: FloatArray  #: (L, s, R) float32
    number: IntArray  #: (L,) residuals in each list
    box_rate: FloatArray  #: (K,) rates that the boxes are believed to have, at the same ε

    def rate(self, cube: FloatArray) -> FloatArray:
        """η̂ in (0, 1): (n, d) -> (n,), in O(R s) a point."""
        rate = np.empty(len(cube))
        acceptance_rates(
            cube, self.boxes.locate(cube), self.model_of_box, self.beta, self.list_of_box,
            self.residual, self.number, self.box_rate, _SOFTNESS, _PSEUDO, rate,
        )  # fmt: skip
        return rate


def fit_surrogate(
    boxes: Boxes,
    cube: FloatArray,
    z: FloatArray,
    usable: BoolArray,
    box_rate: FloatArray,
    budget: int,
    rng: np.random.Generator,
) -> Surrogate:
    """Fit the regressions, and keep residuals.

    Parameters
    ----------
    boxes : Boxes
        The partition, with its tree.
    cube : (n, d) array
        Points.
    z : (n, s) array
        Their summaries, as differences to the observation whose norm is the distance, in units
        of ε.
    usable : (n,) array
        Which of them did not fail.  A failure is no part of a regression, and is accepted nowhere.
    box_rate : (K,) array
        Acceptance rates of the boxes.
    budget : int
        T: the larger, the more residuals.
    rng : Generator
        Picks the residuals that are kept.
    """
    tree, box = boxes.tree, boxes.locate(cube)
    n_features = min(_MOST_FEATURES, int(np.count_nonzero(usable)) // _ROWS_PER_FEATURE)
    p = 1 + boxes.d + boxes.d * (boxes.d + 1) // 2
    if p > n_features:
        p = 1 + boxes.d
    where = tree.parent, tree.node_of_box
    model_of_box, beta = fit_models(cube, z, usable, box, *where, p, _ROWS, _STRENGTH)
    size = int(np.clip(_NUMBERS / z.shape[1], _FEWEST, min(_MOST, _PER_ROOT * np.sqrt(budget))))
    order = rng.permutation(len(cube))
    lists = residual_lists(cube, z, usable, box, order, *where, model_of_box, beta, size)
    return Surrogate(boxes, model_of_box, beta, *lists, box_rate)
