"""The fitted peak: where the posterior is highest near a start, and how well that is known.

Acceptance depends on θ and not on how θ was proposed.  So its log rate is regressed on θ over *all*
simulations near the peak, without weights; where that, with the log-prior, is largest is the mode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from abctree.answers.mode.regression import (
    SKEWNESSES,
    Regression,
    Surface,
    derivatives,
    expansion_of,
    log_rate,
    n_terms,
    quadratic,
    regression,
)
from abctree.types import BoolArray, FloatArray, IntArray

#: The rows of a climb, and those of a fit, which the skewness needs: these shares of a normal
#: posterior with the spread of the peak.
CLIMB, REACH = 0.95, 0.99
#: A curvature, or a slope on a border, is told from zero by so many standard errors.
CLEAR = 3.0
#: A parameter is flat where the peak's variance, others given, is a larger share of the prior's.
FLAT = 0.64
#: Above this acceptance rate at the peak the tolerance is too large to see it.
SATURATED = 0.97
#: Steps of a climb, and what counts as having arrived; steps to a top.
_STEPS, _ARRIVED, _SETTLED, _NEWTON = 12, 0.05, 0.3, 60


@dataclass(frozen=True, eq=False)
class Rows:
    """What a table says about acceptance at a tolerance, in coordinates of a natural size."""

    group: IntArray  #: (n,) their numbers in the table
    x: FloatArray  #: (n, r)
    distance: FloatArray  #: (n,) inf for a failure
    epsilon: float
    log_prior: FloatArray  #: (n,) log-density of the prior up to a constant
    bounds: FloatArray  #: (2, r) of the prior's support, infinite where there is no bound
    prior_spread: FloatArray  #: (r, r) covariance of the prior

    @property
    def r(self) -> int:
        """Coordinates."""
        return int(self.x.shape[1])

    @property
    def accepted(self) -> BoolArray:
        """(n,)."""
        return self.distance < self.epsilon


@dataclass(frozen=True, eq=False)
class Window:
    """Rows near a centre: x = centre + size · y, and white y has a spread of one."""

    rows: Rows
    centre: FloatArray  #: (r,)
    spread: FloatArray  #: (r, r)
    size: FloatArray  #: (r,)
    white: FloatArray  #: (r, r)
    y: FloatArray  #: (m, r)
    accepted: BoolArray  #: (m,)
    prior: Surface  #: the log-prior

    @classmethod
    def of(cls, rows: Rows, centre: FloatArray, spread: FloatArray, share: float) -> Window | None:
        """Rows near a centre; None if too few are accepted, or rejected, for a quadratic."""
        near = squares(rows.x, centre, spread) < reach(rows.r, share) ** 2
        accepted, least = rows.accepted[near], n_terms(rows.r) + rows.r
        if accepted.sum() < least or (~accepted).sum() < min(least, 10):
            return None
        size = np.sqrt(np.diag(spread))
        white = np.linalg.inv(np.linalg.cholesky(spread)) * size
        y = (rows.x[near] - centre) / size
        prior = expansion_of(y, rows.log_prior[near], white)
        return cls(rows, centre, spread, size, white, y, accepted, prior)

    @cached_property
    def top(self) -> Top:
        """Of a quadratic."""
        return self.highest(quadratic(self.y, self.accepted, self.white))

    def stepped(self, top: Top, most: float) -> FloatArray:
        """The spread (r, r) in x of the density at a top, in variance within a factor of this one.

        The slope is not zero on a border, where it stands for the curvature.
        """
        root, curvature = np.linalg.inv(self.white), np.outer(top.slope, top.slope) - top.hessian
        value, vector = np.linalg.eigh(root.T @ curvature @ root)
        factor = np.sqrt(np.clip(value, 1.0 / most, most))
        scales = self.size[:, None] * root @ (vector / factor)
        return within(scales @ scales.T, self.rows.prior_spread)

    def highest(self, fit: Regression) -> Top:
        """The largest point of the density near the centre, by Newton's method.

        It stays in the prior's support, hardly beyond the rows, and within reach.
        """
        bounds = (self.rows.bounds - self.centre) / self.size
        beyond = np.where(np.ptp(self.y, axis=0) > 0.0, 0.1, 0.0)
        low = np.maximum(bounds[0], self.y.min(axis=0) - beyond)
        high = np.minimum(bounds[1], self.y.max(axis=0) + beyond)

        def density(y: FloatArray) -> FloatArray:
            return fit.value(y) + self.prior.value(y)

        y = np.clip(np.zeros_like(self.centre), low, high)
        for _ in range(_NEWTON):
            slope, hessian = derivatives(density, y, self.white)
            free = ~((y <= low) & (slope < 0.0) | (y >= high) & (slope > 0.0))
            value, vector = np.linalg.eigh(-hessian[np.ix_(free, free)])
            value = np.maximum(np.abs(value), 1e-2)  # what curves upwards is turned round
            step = np.zeros_like(y)
            step[free] = vector @ ((vector.T @ slope[free]) / value)
            length = max(float(np.linalg.norm(self.white @ step)), 1e-300)
            step = step * min(1.0, 0.5 / length)
            halved = np.clip(y + step * 0.5 ** np.arange(20)[:, None], low, high)
            higher = density(halved) > density(y)
            higher &= np.linalg.norm(halved @ self.white.T, axis=1) <= reach(self.rows.r)
            if length <= 1e-6 or not higher.any():
                break
            y = halved[np.argmax(higher)]
        by = derivatives(fit.by_parameters, y, self.white)
        return Top(fit, y, float(density(y)), slope, hessian, ~free, *by)


@dataclass(frozen=True, eq=False)
class Top:
    """The largest point of a density in a window."""

    of: Regression
    y: FloatArray  #: (r,)
    height: float
    slope: FloatArray  #: (r,)
    hessian: FloatArray  #: (r, r)
    border: BoolArray  #: (r,) coordinates at a bound that they would leave
    by_slope: FloatArray  #: (r, n) derivatives of the slope by the parameters
    by_hessian: FloatArray  #: (r, r, n)

    def error(self, free: BoolArray) -> FloatArray:
        """Covariance of the free coordinates by the delta method, the others held.

        The top solves ∇q(y; β) = 0, so ∂y/∂β = −(∇²q)⁻¹ ∂∇q/∂β.
        """
        hessian = self.hessian[np.ix_(free, free)]
        jacobian = np.linalg.lstsq(hessian, self.by_slope[free], rcond=None)[0]
        return np.asarray(jacobian @ self.of.covariance @ jacobian.T)

    def is_clear(self, value: FloatArray, by_parameters: FloatArray) -> BoolArray:
        """Which numbers (...) are above zero by their errors, given their derivatives (..., n)."""
        variance = ((by_parameters @ self.of.covariance) * by_parameters).sum(axis=-1)
        return np.asarray(value > CLEAR * np.sqrt(variance))


@dataclass(frozen=True, eq=False)
class Place:
    """Where a mode may be, in the coordinates of its rows, and what is known of it."""

    rows: Rows  #: those that share its discrete values, at a tolerance
    peak: FloatArray  #: (r,) by a fit, or where the place was found
    spread: FloatArray  #: (r, r) of the ε-posterior there: inverse of minus its log's Hessian
    log_density: float = -np.inf  #: of the ε-posterior there, up to a constant of the problem
    acceptance: float = 0.0  #: rate at the peak
    n_accepted: int = 0
    window: Window | None = None  #: the rows around the peak that it climbed to
    covariance: FloatArray | None = None  #: (r, r) error of `peak`, nan where a coordinate has none
    shape: str = "unclear"  #: "peak", "border" or "flat"
    flat: BoolArray | None = None  #: (r,) coordinates along which there is no peak; None: no fit

    @property
    def unknown(self) -> BoolArray:
        """(r,) Coordinates without an error: flat, on a border, or unclear."""
        if self.covariance is None:
            return np.ones(self.rows.r, dtype=bool)
        return np.asarray(np.isnan(np.diag(self.covariance)))

    def without_error(self, shape: str = "unclear") -> Place:
        """The same where nothing is known of how far the peak may be off."""
        return replace(self, covariance=None, shape=shape)

    def squares(self, x: FloatArray) -> FloatArray:
        """Squared distances (n,) from the peak, in spreads."""
        return squares(x, self.peak, self.spread)


def reach(r: int, share: float = REACH) -> float:
    """Radius of a fit in spreads: about 3 in two dimensions, 3.9 in five."""
    return float(np.sqrt(special.chdtri(r, 1.0 - share)))


def squares(x: FloatArray, centre: FloatArray, spread: FloatArray) -> FloatArray:
    """Squared distances (m,) of x (m, r) from a centre, in spreads."""
    z = np.linalg.solve(np.linalg.cholesky(spread), (x - centre).T)
    return np.asarray((z**2).sum(axis=0))


def within(spread: FloatArray, prior: FloatArray) -> FloatArray:
    """A covariance that is nowhere larger than the prior's."""
    root = np.linalg.cholesky(prior)
    value, vector = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, spread).T))
    if value[-1] <= 1.0:
        return spread
    factor = root @ (vector * np.sqrt(np.clip(value, 0.0, 1.0)))
    return np.asarray(factor @ factor.T)


def climb(rows: Rows, start: FloatArray, spread: FloatArray) -> Window | None:
    """Step to the rows around the peak that is near a start; None where these are too few.

    A quadratic is fitted to the rows within `reach` of the centre, the centre goes to its largest
    point (at most half a radius away, inside the prior's support), and the spread becomes that of
    the quadratic, changing at most twofold and never more than the prior's; until both settle.
    """
    centre, radius = start, reach(rows.r, CLIMB)
    spread = within(spread, rows.prior_spread)
    for _ in range(_STEPS):
        window = Window.of(rows, centre, spread, CLIMB)
        if window is None:
            return None
        top = window.top
        spread = window.stepped(top, 4.0)
        change = np.linalg.eigvals(np.linalg.solve(window.spread, spread)).real
        length = float(np.linalg.norm(window.white @ top.y))
        if length < _ARRIVED * radius and np.abs(np.log(change)).max() < _SETTLED:
            break
        move = min(1.0, 0.5 * radius / max(length, 1e-300))
        centre = np.clip(centre + move * window.size * top.y, *rows.bounds)
    return window


def fit_peak(climbed: Window) -> Place:
    """Fit the peak that a window is around: where it is, its error, the shape of its top.

    Flat coordinates, along which the peak is about as wide as the prior, the others given, and the
    rate does not clearly curve down, are taken to be at their middle in all rows.  In the others a
    quadratic and a skewed surface are fitted, and the peak is the average of theirs, by probability
    over variance.  The error is that of the likelier, and what they disagree about.
    """
    rows, spread, top = climbed.rows, climbed.spread, climbed.top
    wide = np.diag(np.linalg.inv(spread)) * np.diag(rows.prior_spread) * FLAT < 1.0
    by_beta = np.einsum("iiq->iq", top.by_hessian)
    flat = wide & ~top.is_clear(-by_beta[:, : len(top.of.beta)] @ top.of.beta, by_beta)
    window = Window.of(rows, climbed.centre, spread, REACH) or climbed
    if flat.any():
        middle = window.centre + window.size * np.median(window.y[window.accepted], axis=0)
        centre, y = np.where(flat, middle, window.centre), np.where(flat, 0.0, window.y)
        window = replace(window, centre=centre, y=y)
    data, top = (window.y, window.accepted), window.top
    bent = regression(*data, top.of, bends=True)
    each = [regression(*data, bent, kappa, bends=True) for kappa in SKEWNESSES]
    skewed = max(each, key=lambda one: one.log_evidence)
    # A little skewness is told best by bends alone, of which each costs one (Akaike).
    evidence = max(bent.log_evidence - rows.r, skewed.log_evidence)
    odds, other = evidence - top.of.log_evidence, window.highest(skewed)
    if odds > 0.0:
        top, other = other, top
    y, border, covariance = top.y.copy(), top.border | flat, np.full_like(top.hessian, np.nan)
    free = np.ix_(~border, ~border)
    covariance[free] = top.error(~border)
    if not border.all() and np.linalg.eigvalsh(other.hessian[free])[-1] < 0.0:  # a peak, too
        own, others = np.trace(covariance[free]), np.trace(other.error(~border))
        share = own * np.exp(-abs(odds))
        share = share / (share + others)
        apart = (other.y - top.y)[~border]
        y[~border] += share * apart
        covariance[free] += share * (1.0 - share) * np.outer(apart, apart)
    around = np.where(np.outer(flat, flat), rows.prior_spread, 0.0)
    found = Place(
        rows, np.clip(window.centre + window.size * y, *rows.bounds),
        np.where(flat | flat[:, None], around, window.stepped(top, 16.0)), top.height,
        float(np.exp(log_rate(top.of.value(top.y)))), int(window.accepted.sum()), flat=flat,
        covariance=covariance * np.outer(window.size, window.size),
        shape="flat" if flat.any() else "border" if border.any() else "peak",
    )  # fmt: skip
    if found.acceptance > SATURATED or flat.all():
        return found.without_error("flat")
    # A coordinate on a border stands where the density clearly rises towards it, or peaks there;
    # along others it must clearly curve down.
    stands = flat | border & top.is_clear(np.abs(top.slope), top.by_slope)
    inner = np.ix_(~stands, ~stands)
    value, axes = np.linalg.eigh(top.hessian[inner])
    by_parameters = np.einsum("ia,ijq,ja->aq", axes, top.by_hessian[inner], axes)
    return found if top.is_clear(-value, by_parameters).all() else found.without_error()
