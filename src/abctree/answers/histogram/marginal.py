"""How the posterior lies along one dimension of the cube, and which parameter that is."""

from __future__ import annotations

import numpy as np

from abctree.problem.priors.cube import HIGHEST, LOWEST
from abctree.protocols import Prior
from abctree.types import BoolArray, FloatArray

#: Halvings that find a cube coordinate to the last digit.
_HALVINGS = 55


class StepMarginal:
    """The marginal in one dimension of the cube: a density that is constant between knots."""

    def __init__(self, lower: FloatArray, upper: FloatArray, mass: FloatArray) -> None:
        self.knots = np.unique(np.concatenate([[0.0, 1.0], lower, upper]))
        density = mass / (upper - lower)
        steps = np.zeros(len(self.knots))
        np.add.at(steps, np.searchsorted(self.knots, lower), density)
        np.add.at(steps, np.searchsorted(self.knots, upper), -density)
        # Differences of sums may round to a little below zero.
        piece = np.maximum(0.0, np.cumsum(steps)[:-1]) * np.diff(self.knots)
        cumulative = np.concatenate([[0.0], np.cumsum(piece)])
        self.cumulative = cumulative / cumulative[-1]

    def cdf(self, u: FloatArray) -> FloatArray:
        """The mass below u, of the shape of u."""
        return np.asarray(np.interp(u, self.knots, self.cumulative))

    def quantile(self, level: FloatArray) -> FloatArray:
        """The coordinate below which there is this mass, of the shape of `level`."""
        return np.asarray(np.interp(level, self.cumulative, self.knots))


def half_integers(low: float, high: float, n: int) -> FloatArray:
    """Edges of at most n bins with equally many whole numbers in each, from low to high or more."""
    count = int(high - low) + 1
    width = -(-count // n)
    return np.asarray(low - 0.5 + width * np.arange(-(-count // width) + 1))


def along(prior: Prior, i: int, j: int, u: FloatArray) -> FloatArray:
    """Parameter i along dimension j of the cube, the other dimensions at their middle."""
    cube = np.full((len(u), prior.d), 0.5)
    cube[:, j] = np.clip(u, LOWEST, HIGHEST)
    return np.asarray(prior.from_cube(cube)[:, i])


def cube_coordinate(prior: Prior, i: int, j: int, x: FloatArray) -> FloatArray:
    """The measure of {u_j : parameter i <= x}, by halving: right for atoms, too."""
    low, high = np.zeros(len(x)), np.ones(len(x))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = along(prior, i, j, middle) <= x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    low = np.where(along(prior, i, j, np.ones(len(x))) <= x, 1.0, low)
    return np.where(along(prior, i, j, np.zeros(len(x))) > x, 0.0, low)


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
