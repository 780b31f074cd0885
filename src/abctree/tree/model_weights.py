"""`ModelWeights`: how much an acceptance rate counts to a utility that compares models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, mixture_weights
from abctree.problem.models import ModelPrior
from abctree.protocols import ModelUtility
from abctree.tree.game import Game
from abctree.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """c, by model."""

    prior: ModelPrior
    weight: FloatArray  #: (m,) in (0, 1]

    def at(self, cube: FloatArray) -> FloatArray:
        """c (n,) at points (n, d)."""
        return np.asarray(self.weight[self.prior.model_at(cube)])

    def in_boxes(self, boxes: Boxes) -> FloatArray:
        """Mean of c (K,) in boxes, which may be of several models."""
        return np.asarray(self.prior.parts_of(boxes.lower, boxes.upper) @ self.weight)


def model_weights(game: Game, rows: IntArray, epsilon: float) -> ModelWeights | None:
    """Those by the evidences that rows give at ε; None if the utility does not ask for them."""
    utility, prior, table = game.rules.utility, game.problem.prior, game.table
    if not (isinstance(prior, ModelPrior) and isinstance(utility, ModelUtility)):
        return None
    near = rows[table.distance[rows] < epsilon]
    model = prior.model_at(table.cube[near])
    evidence = np.zeros(len(prior.share))
    np.add.at(evidence, model, mixture_weights(table, near))
    return ModelWeights(prior, utility.model_weights(evidence))
