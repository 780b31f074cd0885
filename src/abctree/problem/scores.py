"""Scores z = Φ⁻¹(u): draws on a scale without bounds, where what moves stays in the prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from abctree.problem.models import ModelPrior
from abctree.problem.priors.circles import Direction, circles_of
from abctree.problem.priors.cube import inside
from abctree.problem.region import Region
from abctree.problem.ridge import varies
from abctree.protocols import HasCubeRange, Prior
from abctree.types import BoolArray, FloatArray, IntArray

#: How often a move that is not allowed is halved, before the draw stays where it is.
_HALVINGS = 12
#: Draws by which it is found out that a map does not tell two coordinates apart.
_LOOK_AT = 20


@dataclass(frozen=True, eq=False)
class Scores:
    """The coordinates of draws that may move, and the way back to parameters.

    They are the dimensions of the cube in which the draws differ, without those of discrete
    parameters.  Draws whose prior is not known are their own scores.
    """

    theta: FloatArray  #: (m, p) the draws
    cube: FloatArray | None  #: (m, d) their places; None where the prior is not known
    region: Region | None  #: the prior and the constraint
    bounds: FloatArray | None  #: (p, 2) ends of theta where that is all that is known; nan for none
    moves: BoolArray  #: which coordinates of the cube, or without it of theta, may move
    #: (d,) How far `cube` was turned, that circles are cut open opposite the draws.
    turn: FloatArray | float = 0.0

    @classmethod
    def of(
        cls,
        theta: FloatArray,
        cube: FloatArray | None,
        region: Region | None,
        bounds: FloatArray | None,
        continuous: BoolArray | None,
        weight: FloatArray,
        near: int | None = None,
    ) -> Scores:
        """Take draws theta (m, p), of which those with weight count, and their places (m, d).

        Circles are cut open opposite the mean of the draws, or of the first `near` of them.
        """
        counts = weight > 0.0
        if cube is None or region is None:
            free = np.ones(theta.shape[1], bool) if continuous is None else continuous
            return cls(theta, None, None, bounds, free & varies(theta[counts]))
        cube = _canonical(region.prior, cube)
        fixed = _is_discrete(region.prior, theta[counts])
        if isinstance(region.prior, ModelPrior):  # a parameter of another model is another one
            fixed[:] = True
        turn = _turn(region.prior, theta[:near], weight[:near])
        if turn.any():
            cube = (cube + turn) % 1.0
        return cls(theta, cube, region, None, varies(cube[counts]) & ~fixed, turn)

    def of_others(self, theta: FloatArray, cube: FloatArray) -> Scores:
        """Scores of draws theta (n, p) at places (n, d) on the same scale."""
        if self.cube is None or self.region is None:
            return replace(self, theta=theta)
        cube = _canonical(self.region.prior, cube)
        if np.any(self.turn):
            cube = (cube + self.turn) % 1.0
        return replace(self, theta=theta, cube=cube)

    def __getitem__(self, rows: IntArray) -> Scores:
        """Scores of some of the draws."""
        cube = None if self.cube is None else self.cube[rows]
        return replace(self, theta=self.theta[rows], cube=cube)

    @cached_property
    def z(self) -> FloatArray:
        """(m, k) The scores."""
        if self.cube is None:
            return self.theta[:, self.moves]
        return np.asarray(ndtri(inside(self.cube[:, self.moves])))

    def moved(
        self, z: FloatArray, rows: IntArray | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray | None, BoolArray]:
        """Give some draws other scores (n, k): theta (n, p), cube (n, d), and which are allowed.

        Those are not allowed that the constraint or the bounds refuse, or where the prior has no
        density.
        """
        place = (self.theta if self.cube is None else self.cube)[rows].copy()
        if self.region is None:
            place[:, self.moves] = z
            return place, None, self._in_bounds(place)
        place[:, self.moves] = inside(ndtr(z))
        place = self._turned_back(place)
        theta = self.region.prior.from_cube(place)
        return theta, place, self.region.feasible(theta, place)

    def _turned_back(self, place: FloatArray) -> FloatArray:
        return (place - self.turn) % 1.0 if np.any(self.turn) else place

    def _in_bounds(self, theta: FloatArray) -> BoolArray:
        if self.bounds is None:
            return np.ones(len(theta), dtype=bool)
        low, high = self.bounds.T
        return np.asarray(~((theta < low) | (theta > high)).any(axis=1))

    def moved_within(self, z: FloatArray) -> tuple[FloatArray, FloatArray | None, IntArray]:
        """Give all draws other scores (m, k): theta (m, p), cube (m, d), and which fell short.

        A draw that would not be allowed is moved half as far, until it is.
        """
        theta, cube, allowed = self.moved(z)
        short = left = np.flatnonzero(~allowed)
        for share in 0.5 ** np.arange(1.0, _HALVINGS + 1.0):
            if not len(left):
                break
            some = self.z[left] + share * (z[left] - self.z[left])
            theta[left], place, allowed = self.moved(some, left)
            if cube is not None:
                cube[left] = place
            left = left[~allowed]
        theta[left] = self.theta[left]
        if cube is not None and self.cube is not None:
            cube[left] = self._turned_back(self.cube[left])
        return theta, cube, short


def _turn(prior: Prior, theta: FloatArray, weight: FloatArray) -> FloatArray:
    """(d,) What brings the mean of the draws on each circle to the middle of the cube."""
    turn = np.zeros(prior.d)
    total = float(weight.sum())
    for circle in circles_of(prior) if total > 0.0 else ():
        mean = Direction.of(theta[:, circle.column], weight / total, circle).mean
        turn[circle.dim] = 0.5 - (mean - circle.low) / circle.width
    return turn


def _canonical(prior: Prior, cube: FloatArray) -> FloatArray:
    """The cube with coordinates in increasing order that the prior's map does not tell apart.

    A map such as `np.sort` makes one theta of several points of the cube, and draws that are near
    each other would be far apart there.
    """
    if isinstance(prior, HasCubeRange) or not len(cube):
        return cube
    some, ordered = cube[:_LOOK_AT], cube.copy()
    theta = prior.from_cube(some)
    for i in range(prior.d):
        for j in range(i + 1, prior.d):
            swapped = some.copy()
            swapped[:, [i, j]] = some[:, [j, i]]
            if np.array_equal(prior.from_cube(swapped), theta):
                ordered[:, [i, j]] = np.sort(ordered[:, [i, j]], axis=1)
    return ordered


def _is_discrete(prior: Prior, theta: FloatArray) -> BoolArray:
    """(d,) The dimensions in which a value owns an interval of the cube, not a point."""
    if not isinstance(prior, HasCubeRange):  # a map of the user's own: it makes what it makes
        return np.zeros(prior.d, dtype=bool)
    lower, upper = prior.cube_range(theta)
    return np.asarray((lower < upper).any(axis=0))
