"""All proposals that a fold has ever used, the importance weights they give, and their worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from abctree.data.boxes import Boxes
from abctree.data.table import Table, Which
from abctree.threads import Each
from abctree.types import FloatArray

#: Rows of which the denominators are brought up to date at once.
_PART = 8192
#: Rows of which weights are worked out at once.
_LONG = 2**18


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

    @property
    def mass(self) -> float:
        """The integral over the cube."""
        return float(self.boxes.volume @ self.value)


#: What a round drew from: candidates that were looked at, and the density of one that is kept.
Layer: TypeAlias = tuple[tuple[float, Density], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """The sum over the proposals of a fold of their density relative to the cube.

    ``M(u) = n_prior + Σ_t N_t c_t(u)``, where c_t is the density of the t-th proposal and N_t the
    number of candidates looked at (those that the proposal or a constraint refused count: they are
    what keeps the density of the others known exactly).  A draw's mixture weight is ``n / M(u)``.
    """

    n_prior: float  #: cube points drawn from the prior itself, in the pilot
    #: One for each round.  Σ_t N_t c_t on boxes, which change with the beliefs, is one `Steps`.
    layers: tuple[Layer, ...] = ()

    def __repr__(self) -> str:
        return f"Mixture({self.n_prior:g} prior draws, {len(self.layers)} proposals)"

    def __call__(self, cube: FloatArray) -> FloatArray:
        """M at the points: (n, d) -> (n,)."""
        total = np.full(len(cube), self.n_prior)
        for layer in self.layers:
            for n_drawn, law in layer:
                total += n_drawn * law.density(cube)
        return total

    @property
    def n_candidates(self) -> float:
        """Points that were looked at, those that a proposal or a constraint refused included."""
        number = self.n_prior
        for layer in self.layers:
            for n_drawn, law in layer:
                number += n_drawn * (law.mass if isinstance(law, Steps) else 1.0)
        return float(number)

    def newest(self, cube: FloatArray) -> FloatArray:
        """The share of the newest layer in M: (n, d) -> (n,)."""
        return sum((n * law.density(cube) for n, law in self.layer(-1)), np.zeros(len(cube)))

    def plus(self, *layer: tuple[float, Density]) -> Mixture:
        """The mixture with the proposals of one more round."""
        return Mixture(self.n_prior, (*self.layers, layer))

    def layer(self, s: int) -> Layer:
        """Layer s, from 0; empty if there is none."""
        return next(iter(self.layers[s:]), ())

    def on_boxes(self, s: int) -> Steps | None:
        """What layer s drew from boxes, or None."""
        return next((law for _, law in self.layer(s) if isinstance(law, Steps)), None)


def mixture_weights(table: Table, rows: Which = slice(None)) -> FloatArray:
    """Raw weights (n,) of all or some rows: ``n_f / M_f(θ)`` times the prior's density in the cube.

    M_f is the sum of all proposals of the row's fold (`Mixture`).  Their mean over rows accepted at
    ε estimates the evidence times `Region.normaliser`.
    """
    folds = table.fold
    fold, weight = folds[rows], table.denominator[rows]
    if isinstance(rows, slice):  # a view
        weight = weight.copy()
    size = np.zeros(int(folds.max(initial=0)) + 1)
    for a in range(0, len(folds), _LONG):  # what is worked out from a part takes little room
        size += np.bincount(folds[a : a + _LONG], minlength=len(size))
    for a in range(0, len(weight), _LONG):
        part = weight[a : a + _LONG]
        np.divide(size[fold[a : a + _LONG]], part, out=part)
    if table.has_prior_weights:
        weight *= table.prior_weight[rows]
    return weight


def effective_sample_size(weight: FloatArray) -> float:
    """Kish's effective sample size of weights (n,), ``(Σ w)² / Σ w²``; 0 without draws.

    Weights may be in any unit, normalised or not.
    """
    largest = weight.max(initial=0.0)
    if largest == 0.0:
        return 0.0
    w = weight / largest  # squares of very small weights are lost
    return float(w.sum() ** 2 / np.dot(w, w))


def running_ess(weight: FloatArray) -> FloatArray:
    """Effective sample sizes (n,) of the first 1, 2, ... draws, of which one has weight."""
    w = weight / weight.max()
    return np.asarray(np.cumsum(w) ** 2 / np.maximum(np.cumsum(w * w), np.finfo(float).tiny))


def update_denominators(
    table: Table, mixtures: tuple[Mixture, ...], begin: int, each: Each = map
) -> None:
    """Bring M of all rows up to date after a round: old rows (before `begin`) miss its layer only.

    O(n log K) for the old rows and O(log K) for each earlier partition for the new ones.
    """

    def updated(part: slice) -> FloatArray:
        cube, fold = table.cube[part], table.fold[part]
        denominator = table.denominator[part].copy()
        for f, mixture in enumerate(mixtures):
            rows = (fold == f).nonzero()[0]
            if part.start >= begin:
                denominator[rows] = mixture(cube[rows])
            elif mixture.layers:
                denominator[rows] += mixture.newest(cube[rows])
        return denominator

    parts = [
        slice(a, min(a + _PART, end))
        for first, end in ((0, begin), (begin, len(table)))
        for a in range(first, end, _PART)
    ]
    for part, denominator in zip(parts, each(updated, parts), strict=True):
        table.set_denominator(denominator, part)
