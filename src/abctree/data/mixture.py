"""`Mixture`: all proposals that one fold has ever used, for importance weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from abctree.data.boxes import Boxes
from abctree.types import FloatArray


class Density(Protocol):
    """A density over the cube, of any integral."""

    def density(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,)."""


@dataclass(frozen=True, eq=False)
class Steps:
    """A density that is constant on each of K boxes."""

    boxes: Boxes
    value: FloatArray  #: (K,)

    def density(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,), O(log K) a point."""
        return np.asarray(self.value[self.boxes.locate(cube)])


#: What a round drew from: candidates that were looked at, and the density of one that is kept.
Layer: TypeAlias = tuple[tuple[float, Density], ...]


@dataclass(frozen=True, eq=False)
class Mixture:
    """The sum over the proposals of a fold of their density relative to the cube.

    ``M(u) = n_prior + Σ_t N_t c_t(u)``, where c_t is the density of the t-th proposal and N_t the
    number of candidates looked at (those that the proposal or a constraint refused count: they are
    what keeps the density of the others known exactly).  A draw's mixture weight is ``n / M(u)``.
    """

    n_prior: float  #: cube points drawn from the prior itself, in the pilot
    #: One for each round.  Σ_t N_t c_t on boxes, which change with the beliefs, is one `Steps`.
    layers: tuple[Layer, ...] = ()

    def __call__(self, cube: FloatArray) -> FloatArray:
        """M at the points: (n, d) -> (n,)."""
        total = np.full(len(cube), self.n_prior)
        for layer in self.layers:
            for n_drawn, law in layer:
                total += n_drawn * law.density(cube)
        return total

    def newest(self, cube: FloatArray) -> FloatArray:
        """The share of the newest layer in M: (n, d) -> (n,)."""
        return sum((n * law.density(cube) for n, law in self.layer(-1)), np.zeros(len(cube)))

    def plus(self, *layer: tuple[float, Density]) -> Mixture:
        """The mixture with the proposals of one more round."""
        return replace(self, layers=(*self.layers, layer))

    def layer(self, s: int) -> Layer:
        """Layer s, from 0; empty if there is none."""
        return next(iter(self.layers[s:]), ())

    def on_boxes(self, s: int) -> Steps | None:
        """What layer s drew from boxes, or None."""
        return next((law for _, law in self.layer(s) if isinstance(law, Steps)), None)
