"""How the posterior lies along one dimension of the cube, and which parameter that is."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np

from abctree.answers.weighted import Weighted
from abctree.errors import wrong
from abctree.numbers import unit_of
from abctree.problem.priors.cube import inside
from abctree.protocols import Prior
from abctree.types import BoolArray, FloatArray

#: Points of the quadrature over a marginal.
_N_POINTS = 2**16
#: A default histogram leaves out this much mass on either side, and has so many bins at most.
_TAIL, _N_BINS = 5e-4, 50
#: Values that show whether a parameter is whole; above the second number all floats are.
_N_SOME, _LARGEST_WHOLE = 512, 2.0**50
#: Intervals among which the shortest is looked for.
_N_INTERVALS = 4096
#: Halvings that find a cube coordinate to the last digit.
_HALVINGS = 55


class DrivenMarginal:
    """The law of parameter i that dimension j of the cube drives; exact up to quadrature.

    Along the dimension the density of boxes (K,), (K,) of masses (K,) is constant between knots.
    """

    def __init__(
        self, prior: Prior, i: int, j: int, lower: FloatArray, upper: FloatArray, mass: FloatArray
    ) -> None:
        self.along = partial(along, prior, i, j)
        self.knots = np.unique(np.concatenate([[0.0, 1.0], lower, upper]))
        density = mass / (upper - lower)
        steps = np.zeros(len(self.knots))
        np.add.at(steps, np.searchsorted(self.knots, lower), density)
        np.add.at(steps, np.searchsorted(self.knots, upper), -density)
        # Differences of sums may round to a little below zero.
        piece = np.maximum(0.0, np.cumsum(steps)[:-1]) * np.diff(self.knots)
        cumulative = np.concatenate([[0.0], np.cumsum(piece)])
        self.cumulative = cumulative / cumulative[-1]

    def cdf(self, x: FloatArray) -> FloatArray:
        """P(parameter <= x): (k,) -> (k,)."""
        return np.asarray(np.interp(self._coordinate(x), self.knots, self.cumulative))

    def quantile(self, level: FloatArray) -> FloatArray:
        """The values below which there is a mass of `level`: (k,) -> (k,)."""
        return self.along(np.interp(level, self.cumulative, self.knots))

    def shortest(self, mass: float) -> tuple[float, float]:
        """The ends of `shortest_of`."""
        return shortest_of(self, mass)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        even = self.quantile((np.arange(_N_POINTS) + 0.5) / _N_POINTS)
        unit = unit_of(even)
        return float(even.mean()), float(unit * (even / unit).std())

    def values(self) -> FloatArray:
        """(k,) Some of its values, from all of its range."""
        return self.along((np.arange(_N_SOME) + 0.5) / _N_SOME)

    def _coordinate(self, x: FloatArray) -> FloatArray:
        """The measure of {u_j : parameter i <= x}, by halving: right for atoms, too."""
        low, high = np.zeros(len(x)), np.ones(len(x))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            below = self.along(middle) <= x
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        low = np.where(self.along(np.ones(len(x))) <= x, 1.0, low)
        return np.where(self.along(np.zeros(len(x))) > x, 0.0, low)


class DrawnMarginal:
    """The law of weighted draws (m,), weights (m,) of sum one."""

    def __init__(self, value: FloatArray, weight: FloatArray) -> None:
        self.value, self.weight = value, weight
        self.sorted = Weighted.of(value, weight)
        self.cdf, self.quantile = self.sorted.cdf, self.sorted.quantile

    def shortest(self, mass: float) -> tuple[float, float]:
        """The ends of `shortest_of`."""
        return shortest_of(self, mass)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        mean, unit = float(self.weight @ self.value), unit_of(self.value)
        return mean, float(unit * np.sqrt(self.weight @ ((self.value - mean) / unit) ** 2))

    def values(self) -> FloatArray:
        """(k,) Some of its values, from all of its range."""
        return self.value


#: The marginal law of one parameter.
Marginal: TypeAlias = DrivenMarginal | DrawnMarginal


def shortest_of(marginal: Marginal, mass: float) -> tuple[float, float]:
    """The shortest of the intervals that hold so much and begin at one of 4 096 quantiles."""
    begin = (1.0 - mass) * np.linspace(0.0, 1.0, _N_INTERVALS)
    low, high = marginal.quantile(begin), marginal.quantile(np.minimum(begin + mass, 1.0))
    best = int(np.argmin(high - low))
    return float(low[best]), float(high[best])


def edges_of(marginal: Marginal, bins: int | FloatArray | None) -> FloatArray:
    """Edges of a histogram; see `StepPosterior.marginal`."""
    low, high = marginal.quantile(np.array([_TAIL, 1.0 - _TAIL])).tolist()
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    if bins is None and _is_whole(marginal.values()):
        return _half_integers(low, high, _N_BINS)
    bins = _N_BINS if bins is None else bins
    if np.ndim(bins) == 0:
        if int(bins) < 1:
            raise wrong("bins", "be at least 1", bins)
        return np.linspace(low, high, int(bins) + 1)
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0.0).all():
        raise wrong("bins", "be increasing edges", repr(bins))
    return edges


def _is_whole(value: FloatArray) -> bool:
    """Whether all are whole numbers, and there are several."""
    if value.min() == value.max() or np.abs(value).max() > _LARGEST_WHOLE:
        return False
    return bool((value == np.round(value)).all())


def _half_integers(low: float, high: float, n: int) -> FloatArray:
    """Edges of at most n bins with equally many whole numbers in each, from low to high or more."""
    count = int(high - low) + 1
    width = -(-count // n)
    return np.asarray(low - 0.5 + width * np.arange(-(-count // width) + 1))


def along(prior: Prior, i: int, j: int, u: FloatArray) -> FloatArray:
    """Parameter i along dimension j of the cube, the other dimensions at their middle."""
    cube = np.full((len(u), prior.d), 0.5)
    cube[:, j] = inside(u)
    return np.asarray(prior.from_cube(cube)[:, i])


def drivers(prior: Prior) -> tuple[int | None, ...]:
    """For each parameter the one cube dimension on which it depends, increasingly."""
    grid = np.linspace(0.01, 0.99, 99)
    origins = np.array([0.5, 0.21, 0.83])[:, None] + 0.01 * np.arange(prior.d) / max(1, prior.d)
    depends = np.zeros((prior.d, len(prior.names)), dtype=bool)
    rises = np.ones_like(depends)
    for j in range(prior.d):
        for origin in origins:
            cube = np.tile(origin, (len(grid), 1))
            cube[:, j] = grid
            step = np.diff(prior.from_cube(cube), axis=0)
            depends[j] |= (step != 0.0).any(axis=0)
            rises[j] &= (step >= 0.0).all(axis=0)
    return tuple(_only(depends[:, i], rises[:, i]) for i in range(len(prior.names)))


def _only(depends: BoolArray, rises: BoolArray) -> int | None:
    found = np.flatnonzero(depends)
    return int(found[0]) if len(found) == 1 and rises[found[0]] else None
