"""A table as the search for modes sees it: kinds of parameters, coordinates of natural size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from abctree.answers.mode.fit import Rows
from abctree.problem.priors.circles import Direction, closed, opened
from abctree.proposals.perturbations import Silverman
from abctree.protocols import Circle
from abctree.types import BoolArray, FloatArray, IntArray

#: Values of a discrete parameter that are looked at one by one beside continuous ones.
_MOST_VALUES = 50
#: Draws of a kernel density estimate.
_MOST = 1500
#: Draws that candidates are looked for among: this share of the simulations, within these numbers.
_LOOK_SHARE, _LOOK_LEAST, _LOOK_MOST = 0.05, 50, 1000
#: Steps of a mean shift.
_SHIFTS = 200


class Known(TypedDict, total=False):
    """What is known of a table beside its rows; None, or left out, where it is not."""

    log_prior: FloatArray | None  #: (n,) of the prior's density, up to a constant; flat by default
    prior_spread: FloatArray | None  #: (p, p) of the prior; by default of a flat one, or of rows
    bounds: FloatArray | None  #: (p, 2) of the support; nan: discrete, fixed or on a simplex
    circles: Sequence[Circle]  #: columns on circles; their bounds are not read


class Landscape:
    """The rows of a table, the kinds of its columns, and coordinates x of a natural size.

    Rows below a tolerance say what size is natural.  Of columns that are fitted θ = base + embed x.
    """

    def __init__(
        self, theta: FloatArray, distance: FloatArray, epsilon: float, names: tuple[str, ...],
        **known: Unpack[Known],
    ) -> None:  # fmt: skip
        (n, p), ends = theta.shape, np.full((theta.shape[1], 2), [-np.inf, np.inf])
        bounds, prior_spread = known.get("bounds"), known.get("prior_spread")
        log_prior, self.circles = known.get("log_prior"), known.get("circles", ())
        bounds, centre = ends.copy() if bounds is None else bounds.copy(), np.zeros(p)
        for circle in self.circles:  # cut open opposite the closest rows
            j, near = circle.column, theta[distance < look_epsilon(distance)]
            equal = np.full(len(near), 1.0 / len(near))
            centre[j] = Direction.of(near[:, j], equal, circle).mean
            bounds[j] = centre[j] - 0.5 * circle.width, centre[j] + 0.5 * circle.width
        theta = opened(theta, self.circles, centre)
        if prior_spread is None:  # of a flat prior, and of the rows where there are no bounds
            width = np.ptp(bounds, axis=1)
            prior_spread = np.diag(np.where(np.isfinite(width), width**2 / 12, theta.var(axis=0)))
        self.theta, self.distance, self.names = theta, distance, names
        self.log_prior = np.zeros(n) if log_prior is None else log_prior
        self.bounds = np.where(np.isnan(bounds), ends, bounds)  # (p, 2)
        number = np.array([len(np.unique(column)) for column in theta.T], dtype=np.int64)
        # On a simplex, which has no bounds, nearly all values differ; integers and codes repeat.
        whole = (theta == np.rint(theta)).all(axis=0) | (number < 0.5 * n)
        discrete = (number > 1) & whole & np.isnan(bounds).any(axis=1)
        continuous = (number > 1) & ~discrete
        lattice = discrete & (number > _MOST_VALUES) & continuous.any()
        # Discrete columns whose values are looked at one by one, and those that are rounded.
        self.values, self.lattice = np.flatnonzero(discrete & ~lattice), np.flatnonzero(lattice)
        #: (n,) Which combination of these values a row has.
        self.group = np.unique(theta[:, self.values], axis=0, return_inverse=True)[1].ravel()
        # Columns that are coordinates; others that are fitted are linear functions of these.
        self.column, self.rest = list[int](), list[int]()
        for j in np.flatnonzero(continuous | lattice).tolist():
            among = np.corrcoef(theta[:, [*self.column, j]], rowvar=False)
            differs = np.linalg.eigvalsh(np.atleast_2d(among))[0] > 1e-10
            (self.column if differs else self.rest).append(j)
        # Half the middle two thirds of the accepted rows; of all where these are one value.
        near, wide = theta[distance < epsilon][:, self.column], theta[:, self.column].std(axis=0)
        low, high = np.quantile(near, [1.0 / 6.0, 5.0 / 6.0], axis=0)
        self.scale = np.where(high - low > 2e-12 * wide, 0.5 * (high - low), wide)  # (r,)
        self.x = theta[:, self.column] / self.scale  # (n, r)
        spread = prior_spread[np.ix_(self.column, self.column)]
        self.prior_spread = spread / np.outer(self.scale, self.scale)
        self.base, self.embed = np.zeros(p), np.zeros((p, len(self.column)))
        self.embed[self.column, np.arange(len(self.column))] = self.scale
        if self.rest:
            design = np.column_stack([np.ones(n), self.x])
            solution = np.linalg.lstsq(design, theta[:, self.rest], rcond=None)[0]
            self.base[self.rest], self.embed[self.rest] = solution[0], solution[1:].T

    def rows(self, numbers: IntArray, epsilon: float) -> Rows:
        """Some rows at a tolerance."""
        return Rows(
            numbers, self.x[numbers], self.distance[numbers], epsilon, self.log_prior[numbers],
            self.bounds[self.column].T / self.scale, self.prior_spread,
        )  # fmt: skip

    def at(self, x: FloatArray, like: int) -> FloatArray:
        """θ (p,) from coordinates; columns that are not fitted as in a row."""
        answer, fitted = self.theta[like].copy(), [*self.column, *self.rest]
        # Ends that were scaled are rounded.
        answer[fitted] = np.clip(self.base + self.embed @ x, *self.bounds.T)[fitted]
        for j in self.lattice:
            seen = np.unique(self.theta[:, j])
            answer[j] = seen[int(np.argmin(np.abs(seen - answer[j])))]
        return closed(answer, self.circles)

    def covariance(self, inner: FloatArray) -> FloatArray:
        """(r, r) -> (p, p); zero for columns that are not fitted, nan for those on a border."""
        gone = (self.embed[:, np.isnan(np.diag(inner))] != 0.0).any(axis=1)
        full = self.embed @ np.nan_to_num(inner, nan=0.0) @ self.embed.T
        return np.where(gone | gone[:, None], np.nan, full)

    def names_of(self, which: BoolArray) -> list[str]:
        """The parameters that some coordinates (r,) move."""
        moved = (self.embed[:, which] != 0.0).any(axis=1)
        return [name for name, moves in zip(self.names, moved, strict=True) if moves]


def kernel_mode(x: FloatArray, weight: FloatArray) -> FloatArray:
    """The largest point of a normal kernel density estimate of draws (m, r): (r,).

    Of many draws an even selection is looked at.  The bandwidth is Silverman's rule.
    """
    step = 1 + (len(x) - 1) // _MOST
    x, w = x[::step], weight[::step] / weight[::step].sum()
    centre, (value, vector) = w @ x, np.linalg.eigh(Silverman().covariance(x, w))
    moves = value > 1e-12 * value.max(initial=0.0)
    root = vector[:, moves] * np.sqrt(value[moves])
    z = (x - centre) @ (root / value[moves])  # in bandwidths
    square = (z**2).sum(axis=1)
    at = z[int(np.argmax(np.exp(z @ z.T - 0.5 * (square[:, None] + square)) @ w))]
    for _ in range(_SHIFTS):  # of the mean, up to the top
        kernel = w * np.exp(-0.5 * ((z - at) ** 2).sum(axis=1))
        last, at = at, kernel @ z / kernel.sum()
        if np.abs(at - last).max(initial=0.0) < 1e-6:
            break
    return np.asarray(centre + root @ at)


def look_epsilon(distance: FloatArray) -> float:
    """The tolerance at which candidates are looked for."""
    n = np.clip(_LOOK_SHARE * len(distance), _LOOK_LEAST, _LOOK_MOST)
    return smallest(distance, n, np.inf)


def smallest(distance: FloatArray, n: float, other: float) -> float:
    """The smallest tolerance at which n rows are accepted, or all; another if none can be."""
    finite = np.sort(distance[np.isfinite(distance)])[: int(n)]
    return float(np.nextafter(finite[-1], np.inf)) if len(finite) else other
