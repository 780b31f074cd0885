"""`Mixture`: all proposals that one fold has ever used, for importance weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from abctree.data.boxes import Boxes
from abctree.types import FloatArray

#: A density over the cube: (n, d) -> (n,).
Density: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Mixture:
    """The sum over the proposals of a fold of their density relative to the cube.

    ``M(u) = n_prior + Σ_t N_t c_t(u)``, where c_t is the density of the t-th proposal and N_t the
    number of cube points drawn from it (those that a constraint refused count: they are what keeps
    the density of the others known exactly).  A draw's mixture weight is ``n / M(u)``.
    """

    n_prior: float  #: cube points drawn from the prior itself
    layers: tuple[tuple[Boxes, FloatArray], ...]  #: per partition: boxes, Σ_t N_t c_t (K,)
    #: Beside the partition of this number, from 1: points drawn, and from what density.
    kernels: tuple[tuple[int, float, Density], ...] = field(default=(), kw_only=True)

    def __call__(self, cube: FloatArray) -> FloatArray:
        """M at the points: (n, d) -> (n,), O(log K) for each partition."""
        total = np.full(len(cube), self.n_prior)
        for boxes, density in self.layers:
            total += density[boxes.locate(cube)]
        for _, n_drawn, kernels in self.kernels:
            total += n_drawn * kernels(cube)
        return total

    def newest(self, cube: FloatArray) -> FloatArray:
        """The share of the newest partition in M: (n, d) -> (n,)."""
        boxes, density = self.layers[-1]
        total = density[boxes.locate(cube)]
        for layer, n_drawn, density_beside in self.kernels:
            if layer == len(self.layers):
                total = total + n_drawn * density_beside(cube)
        return total

    def plus(self, boxes: Boxes, density: FloatArray) -> Mixture:
        """The mixture with the proposals on one more partition."""
        return replace(self, layers=(*self.layers, (boxes, density)))

    def beside(self, n_drawn: float, density: Density) -> Mixture:
        """The mixture with points that were drawn beside the newest partition."""
        return replace(self, kernels=(*self.kernels, (len(self.layers), n_drawn, density)))
