"""The fitted peak: where the posterior is highest near a start, and how well that is known.

Whether a simulation is accepted depends on θ and not on how θ was proposed.  So the log of the
rate of acceptance is regressed on a polynomial in θ over *all* simulations near the peak, accepted
or not, without weights.  Where the polynomial, with the log-prior, is largest is the mode; the
curvature of the likelihood of the regression says how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from abctree.answers.mode.regression import (
    Polynomial,
    Regression,
    degree_for,
    expansion_of,
    log_likelihood,
    monomials,
    n_terms,
    powers_of,
    regression,
)
from abctree.types import BoolArray, FloatArray

#: The rows of a climb, and those of a fit, which the skewness needs: these shares of a normal
#: posterior with the spread of the peak.
CLIMB, REACH = 0.95, 0.99
#: Longest step, in radii of the fit.
LONGEST_STEP = 0.5
#: Steps of the centre and of the spread, and what counts as having arrived.
STEPS, ARRIVED, SETTLED = 12, 0.05, 0.3

#: What the top looks like: a peak, also one at an end of the prior's support; flat along some
#: parameters, or accepted throughout; or one that too few accepted simulations show.
Shape = Literal["peak", "border", "flat", "unclear"]


@dataclass(frozen=True, eq=False)
class Rows:
    """What a table says about acceptance, in coordinates of a natural size."""

    x: FloatArray  #: (n, r)
    distance: FloatArray  #: (n,) inf for a failure
    log_prior: FloatArray  #: (n,) log-density of the prior up to a constant
    lower: FloatArray  #: (r,) of the prior's support, -inf where there is no bound
    upper: FloatArray  #: (r,)
    prior_spread: FloatArray  #: (r, r) covariance of the prior

    @property
    def r(self) -> int:
        """Coordinates."""
        return int(self.x.shape[1])


@dataclass(frozen=True, eq=False)
class Window:
    """Rows near a centre, in coordinates z with the centre at 0 and a spread of one."""

    rows: Rows
    epsilon: float
    centre: FloatArray
    root: FloatArray  #: (r, r) x = centre + root z
    spread: FloatArray  #: (r, r) root rootᵀ
    z: FloatArray  #: (m, r)
    accepted: BoolArray  #: (m,)
    prior: FloatArray  #: (q,) coefficients of the log-prior
    quadratic: Polynomial | None = None  #: a fit of log P, around whose top the window is
    height: float = -np.inf  #: log-density at that top

    @classmethod
    def of(
        cls,
        rows: Rows,
        epsilon: float,
        centre: FloatArray,
        spread: FloatArray,
        share: float = REACH,
    ) -> Window | None:
        """Rows near a centre; None if too few are accepted, or rejected, for a quadratic."""
        root = root_of(spread)
        z = to_z(rows.x, centre, root)
        near = np.einsum("ij,ij->i", z, z) < reach(rows.r, share) ** 2
        accepted = rows.distance[near] < epsilon
        least = n_terms(rows.r) + rows.r
        if accepted.sum() < least or (~accepted).sum() < min(least, 10):
            return None
        prior = expansion_of(z[near], rows.log_prior[near], powers_of(rows.r, degree_for(rows.r)))
        return cls(rows, epsilon, centre, root, spread, z[near], accepted, prior)

    def quadratic_evidence(self, x: FloatArray) -> float:
        """Log-evidence of a quadratic in other coordinates x (m, r) of the same rows."""
        powers = powers_of(x.shape[1], 2)
        z = to_z(x, self.centre, self.root)
        return regression(monomials(z, powers), powers, self.accepted, 0.0).log_evidence

    def fit(self, skewness: float, degree: int, start: FloatArray | None) -> Regression:
        """A polynomial of log P in z."""
        powers = powers_of(len(self.centre), degree)
        return regression(monomials(self.z, powers), powers, self.accepted, skewness, start)

    def posterior(self, log_rate: Polynomial) -> Polynomial:
        """Of the log-density: a polynomial of log P, and that of the log-prior."""
        beta = self.prior.copy()
        beta[: len(log_rate.beta)] += log_rate.beta  # both by degree
        return Polynomial(powers_of(len(self.centre), degree_for(len(self.centre))), beta)

    def surprise(self, x: FloatArray, accepted: BoolArray, own: float) -> float:
        """Twice how far the log-likelihood of rows (m, r) is below their own; inf outside."""
        z = to_z(x, self.centre, self.root)
        farthest = np.einsum("ij,ij->i", z, z).max(initial=0.0)
        if self.quadratic is None or farthest > reach(z.shape[1], CLIMB) ** 2:
            return np.inf
        height = monomials(z, self.quadratic.powers) @ self.quadratic.beta
        return 2.0 * (own - log_likelihood(height, accepted))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Where the peak may be, (r,) and (r,) in x: the support, and hardly beyond the rows."""
        room = 0.1 * np.sqrt(np.einsum("ij,ij->i", self.root, self.root))
        x = self.rows.x
        return (
            np.maximum(self.rows.lower, x.min(axis=0) - room),
            np.minimum(self.rows.upper, x.max(axis=0) + room),
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted peak, in the coordinates of its `Rows`."""

    peak: FloatArray  #: (r,)
    covariance: FloatArray  #: (r, r) error of `peak`; nan for coordinates that have none
    spread: FloatArray  #: (r, r) of the ε-posterior at the peak: inverse of minus its log's Hessian
    acceptance: float  #: rate at the peak
    log_density: float  #: of the ε-posterior at the peak, up to a constant of the problem
    epsilon: float
    n_accepted: int
    shape: Shape
    unknown: BoolArray  #: (r,) coordinates of a border, or along which the top is flat or unclear

    @property
    def has_error(self) -> bool:
        """Whether it is known for any coordinate how far the peak may be off."""
        return not bool(self.unknown.all())

    def without_error(self) -> Fit:
        """The same where nothing is known of how far the peak may be off."""
        r = len(self.peak)
        nothing = np.full((r, r), np.nan)
        return replace(self, covariance=nothing, shape="unclear", unknown=np.ones(r, dtype=bool))


def reach(r: int, share: float = REACH) -> float:
    """Radius of a fit in spreads: about 3 in two dimensions, 3.9 in five."""
    return float(np.sqrt(special.chdtri(r, 1.0 - share)))


def root_of(spread: FloatArray) -> FloatArray:
    """A matrix (r, r) with root rootᵀ = spread."""
    return np.asarray(np.linalg.cholesky(spread), dtype=np.float64)


def to_z(x: FloatArray, centre: FloatArray, root: FloatArray) -> FloatArray:
    """(m, r) in spreads from a centre, for a spread of root rootᵀ."""
    return np.asarray(np.linalg.solve(root, (x - centre).T).T, dtype=np.float64)


def climb(rows: Rows, epsilon: float, start: FloatArray, spread: FloatArray) -> Window | None:
    """Step to the rows around the peak that is near a start.

    A quadratic is fitted to the rows within `reach` of the centre, the centre goes to its largest
    point (at most half a radius away, inside the prior's support), and the spread becomes that of
    the quadratic, changing at most twofold and never more than the prior's; until both settle.

    Parameters
    ----------
    rows : Rows
        All simulations, failures included.
    epsilon : float
        The tolerance.
    start : (r,) array
        A first centre.
    spread : (r, r) array
        A first covariance, positive definite.

    Returns
    -------
    Window or None
        None where there are too few rows, accepted or rejected, for a quadratic.
    """
    centre, radius = start, reach(rows.r, CLIMB)
    spread = within(spread, rows.prior_spread)
    for step in range(1, STEPS + 1):
        window = Window.of(rows, epsilon, centre, spread, CLIMB)
        if window is None:
            return None
        root, quadratic = window.root, window.fit(0.0, 2, None).polynomial
        density = window.posterior(quadratic)
        z, _ = highest(density, window, np.zeros(rows.r))
        wider = within(_stepped(density, z, root), rows.prior_spread)
        change = np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, wider).T))
        length = float(np.linalg.norm(z))
        settled = length < ARRIVED * radius and np.abs(np.log(change)).max() < SETTLED
        if settled or step == STEPS:
            return replace(window, quadratic=quadratic, height=density.value(z))
        move = min(1.0, LONGEST_STEP * radius / max(length, 1e-300))
        centre = np.clip(centre + move * (root @ z), rows.lower, rows.upper)
        spread = wider
    return None


def within(spread: FloatArray, prior: FloatArray) -> FloatArray:
    """A covariance that is nowhere larger than the prior's."""
    root = np.linalg.cholesky(prior)
    value, vector = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, spread).T))
    if value[-1] <= 1.0:
        return spread
    factor = root @ (vector * np.sqrt(np.clip(value, 0.0, 1.0)))
    return np.asarray(factor @ factor.T)


def _stepped(density: Polynomial, z: FloatArray, root: FloatArray) -> FloatArray:
    """The spread (r, r) of a density in x, changed at most twofold."""
    slope = density.slope(z)  # not zero on a border, where it stands for the curvature
    value, vector = np.linalg.eigh(np.outer(slope, slope) - density.hessian(z))
    scales = root @ (vector * np.sqrt(np.clip(1.0 / np.maximum(value, 1e-3), 0.25, 4.0)))
    return np.asarray(scales @ scales.T)


def highest(
    polynomial: Polynomial, window: Window, z: FloatArray, fixed: BoolArray | None = None
) -> tuple[FloatArray, BoolArray]:
    """The largest point near z by Newton's method: (r,), and which coordinates are on a border.

    Bounds are those of x; a coordinate at a bound that it would leave, or that is `fixed`, stays.
    """
    low, high = window.bounds()
    root, centre, radius = window.root, window.centre, reach(len(z))
    inverse = np.linalg.inv(root)
    x = np.clip(centre + root @ z, low, high)
    stays = np.zeros(len(z), dtype=bool) if fixed is None else fixed
    border = np.zeros(len(z), dtype=bool)
    size = np.sqrt(np.einsum("ij,ij->i", root, root))
    height = polynomial.value(inverse @ (x - centre))
    for _ in range(60):
        z = inverse @ (x - centre)
        slope = inverse.T @ polynomial.slope(z)
        border = ((x <= low) & (slope < 0.0)) | ((x >= high) & (slope > 0.0))
        free = ~(border | stays)
        if not free.any():
            break
        step = np.zeros(len(z))
        step[free] = _ascent(inverse.T @ polynomial.hessian(z) @ inverse, slope, size, free)
        length = float(np.linalg.norm(inverse @ step))
        if length < 1e-7:
            break
        scale = min(1.0, 0.5 / length)
        while scale > 1e-6:
            new = np.clip(x + scale * step, low, high)
            at = inverse @ (new - centre)
            trial = polynomial.value(at)
            if trial > height and at @ at <= radius**2:
                break
            scale *= 0.5
        else:
            break
        x, height = new, trial
    return np.asarray(inverse @ (x - centre)), border


def _ascent(
    hessian: FloatArray, slope: FloatArray, size: FloatArray, free: BoolArray
) -> FloatArray:
    """Newton's step along free coordinates, with directions that curve upwards turned round."""
    s = size[free]
    value, vector = np.linalg.eigh(-hessian[np.ix_(free, free)] * np.outer(s, s))
    value = np.maximum(np.abs(value), 1e-2)
    return np.asarray(s * (vector @ ((vector.T @ (slope[free] * s)) / value)))
