"""`Mixture`: all proposals that one fold has ever used, for importance weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data.boxes import Boxes
from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class Mixture:
    """The sum over the proposals of a fold of their density relative to the cube.

    ``M(u) = n_prior + Σ_t N_t c_t(u)``, where c_t is the density of the t-th proposal and N_t the
    number of cube points drawn from it (those that a constraint refused count: they are what keeps
    the density of the others known exactly).  A draw's mixture weight is ``n / M(u)``.
    """

    n_prior: float  #: cube points drawn from the prior itself
    layers: tuple[tuple[Boxes, FloatArray], ...]  #: per partition: boxes, Σ_t N_t c_t (K,)

    def __call__(self, cube: FloatArray) -> FloatArray:
        """M at the points: (n, d) -> (n,), O(log K) for each partition."""
        total = np.full(len(cube), self.n_prior)
        for boxes, density in self.layers:
            total += density[boxes.locate(cube)]
        return total

    def newest(self, cube: FloatArray) -> FloatArray:
        """The share of the newest partition in M: (n, d) -> (n,)."""
        boxes, density = self.layers[-1]
        return density[boxes.locate(cube)]

    def plus(self, boxes: Boxes, density: FloatArray) -> Mixture:
        """The mixture with the proposals on one more partition."""
        return Mixture(self.n_prior, (*self.layers, (boxes, density)))
