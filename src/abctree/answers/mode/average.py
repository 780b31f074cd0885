"""The fit of the rows around a peak: polynomials of several skewnesses, averaged.

Where their top is, how well that is known, and whether the rows show a peak in every direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.answers.mode.fit import Fit, Shape, Window, highest, within
from abctree.answers.mode.regression import (
    BEFOREHAND,
    SKEWNESSES,
    Polynomial,
    Regression,
    curvature_design,
    degree_for,
    log_rate,
    monomials,
    slope_design,
)
from abctree.types import BoolArray, FloatArray

#: A curvature is told from zero by so many standard errors.
CLEAR = 3.0
#: A direction along which no peak is seen is flat where the rows of the fit spread so far of the
#: prior; else it may bend, and nothing is known of other directions.
WIDE = 0.8
#: Rows nearest to the peak that must bear out the rate there.
NEAREST = 30
#: Above this acceptance rate at the peak the tolerance is too large to see it.
SATURATED = 0.97


@dataclass(frozen=True, eq=False)
class Average:
    """Polynomials of each skewness, weighted by the evidence for them."""

    window: Window
    weight: FloatArray  #: (s,)
    fits: list[Regression]  #: of log P
    densities: list[Polynomial]  #: of the log-density

    @classmethod
    def of(cls, window: Window, *, skewed: bool) -> Average:
        """Fits of all skewnesses to the rows of a window."""
        degree, beta, fits = degree_for(len(window.centre)), None, []
        for skewness in SKEWNESSES:
            fits.append(window.fit(skewness, degree, beta))
            beta = fits[-1].polynomial.beta
        evidence = np.array([fit.log_evidence for fit in fits])
        weight = np.array(BEFOREHAND) * np.exp(evidence - evidence.max())
        if skewed:
            weight[0] = 0.0
        densities = [window.posterior(fit.polynomial) for fit in fits]
        return cls(window, weight / weight.sum(), fits, densities)

    def tops(self, fixed: BoolArray) -> tuple[FloatArray, BoolArray]:
        """The largest point (s, r) in z of each, and the coordinates (r,) on a border."""
        start, _ = highest(self.densities[0], self.window, np.zeros(len(fixed)), fixed)
        found = [highest(density, self.window, start, fixed) for density in self.densities]
        border = self.weight @ np.array([on for _, on in found])
        return np.array([z for z, _ in found]), np.asarray(border > 0.5)

    def pressed(self, tops: FloatArray, border: BoolArray) -> BoolArray:
        """Coordinates (r,) on a border beyond which the density clearly rises."""
        inverse = np.linalg.inv(self.window.root)
        slopes, own = [], []
        for fit, density, z in zip(self.fits, self.densities, tops, strict=True):
            design = inverse.T @ slope_design(z, fit.polynomial.powers)
            slopes.append(inverse.T @ density.slope(z))
            own.append(np.einsum("iq,qp,ip->i", design, fit.covariance, design))
        mean = self.weight @ slopes
        variance = self.weight @ (np.array(own) + (np.array(slopes) - mean) ** 2)
        return np.asarray(border & (np.abs(mean) > CLEAR * np.sqrt(variance)))

    def contradicted(self, z: FloatArray) -> bool:
        """Whether the rows nearest to a point clearly contradict the rate that is fitted there."""
        window, likeliest = self.window, self.fits[int(np.argmax(self.weight))].polynomial
        near = np.argsort(((window.z - z) ** 2).sum(axis=1))[:NEAREST]
        height = monomials(window.z[near], likeliest.powers) @ likeliest.beta
        rate = np.exp(log_rate(height))
        surprise = abs(float(window.accepted[near].sum() - rate.sum()))
        return bool(surprise > CLEAR * np.sqrt(1.0 + (rate * (1.0 - rate)).sum()))

    def bends(self, z: FloatArray, flat: BoolArray) -> bool:
        """Whether the top in other coordinates is elsewhere, a spread along flat ones from z."""
        if flat.all():
            return False
        likeliest = self.densities[int(np.argmax(self.weight))]
        inverse = np.linalg.inv(self.window.root)
        curvature = -(inverse.T @ likeliest.hessian(z) @ inverse)[np.ix_(~flat, ~flat)]
        step = np.diag(np.sqrt(np.diag(self.window.spread)))[flat]
        for away in (*step, *-step):
            slope = (inverse.T @ likeliest.slope(z + inverse @ away))[~flat]
            if slope @ np.linalg.solve(curvature, slope) > 1.0:
                return True
        return False

    def hessian(self, tops: FloatArray) -> FloatArray:
        """(r, r) In z, at the largest points."""
        each = [density.hessian(z) for density, z in zip(self.densities, tops, strict=True)]
        return np.asarray(np.einsum("s,sij->ij", self.weight, each))

    def curvature_error(self, tops: FloatArray, along: FloatArray) -> float:
        """Standard error of the second derivative along a direction (r,) in z."""
        design = [curvature_design(z, along, f.polynomial.powers)
                  for f, z in zip(self.fits, tops, strict=True)]  # fmt: skip
        each = np.array([c @ f.polynomial.beta for c, f in zip(design, self.fits, strict=True)])
        own = np.array([c @ f.covariance @ c for c, f in zip(design, self.fits, strict=True)])
        return float(np.sqrt(self.weight @ (own + (each - self.weight @ each) ** 2)))

    def covariance(self, tops: FloatArray, free: BoolArray) -> FloatArray:
        """Of the largest point, in x, by the delta method: (r, r), nan where it is not free.

        The peak solves ∇q(z; β) = 0, so ∂z/∂β = −(∇²q)⁻¹ ∂∇q/∂β, with other coordinates of x held.
        """
        found = np.full((len(free), len(free)), np.nan)
        pick, inverse = np.ix_(free, free), np.linalg.inv(self.window.root)
        away = (tops - self.weight @ tops) @ self.window.root.T
        total = np.einsum("s,si,sj->ij", self.weight, away, away)[pick]
        for w, fit, density, z in zip(self.weight, self.fits, self.densities, tops, strict=True):
            hessian = (inverse.T @ density.hessian(z) @ inverse)[pick]
            by_beta = (inverse.T @ slope_design(z, fit.polynomial.powers))[free]
            jacobian = np.linalg.lstsq(hessian, by_beta, rcond=None)[0]
            total = total + w * (jacobian @ fit.covariance @ jacobian.T)
        found[pick] = total
        return found


def fit_window(window: Window, *, skewed: bool = False) -> Fit:
    """Fit polynomials to the rows around a peak: where it is, its error, the shape of its top."""
    rows, r, size = window.rows, len(window.centre), np.sqrt(np.diag(window.rows.prior_spread))
    average = Average.of(window, skewed=skewed)
    unknown = np.zeros(r, dtype=bool)
    shape: Shape = "peak"
    while True:
        tops, border = average.tops(unknown)
        z = average.weight @ tops
        free = ~(unknown | average.pressed(tops, border))
        if not free.any():
            break
        along = _unresolved(average, tops, average.covariance(tops, free), free)
        if along is None:
            break
        moves = np.abs(window.root @ along) / size
        if float(np.linalg.norm(moves)) < WIDE:
            shape, unknown = "unclear", np.ones(r, dtype=bool)
            break
        shape, unknown = "flat", unknown | (free & (moves > 0.3 * moves[free].max()))
    if average.contradicted(z) or (shape == "flat" and average.bends(z, unknown)):
        shape, unknown = "unclear", np.ones(r, dtype=bool)
    peak = np.clip(window.centre + window.root @ z, rows.lower, rows.upper)
    if shape == "flat":  # one point is as good as another: the middle
        middle = np.median(window.z[window.accepted] @ window.root.T, axis=0)
        peak = np.where(unknown, window.centre + middle, peak)
    each = [fit.polynomial.value(top) for fit, top in zip(average.fits, tops, strict=True)]
    acceptance = float(np.exp(log_rate(average.weight @ each)))
    each = [density.value(top) for density, top in zip(average.densities, tops, strict=True)]
    height = float(average.weight @ each)
    if acceptance > SATURATED:
        shape, unknown = "flat", np.ones(r, dtype=bool)
    if shape == "peak" and border.any():
        shape = "border"
    known = ~(unknown | border)
    covariance = np.full((r, r), np.nan)
    if known.any():
        covariance = average.covariance(tops, known)
    return Fit(
        peak=peak,
        covariance=covariance,
        spread=within(_spread(average, tops), rows.prior_spread),
        acceptance=acceptance,
        log_density=height,
        epsilon=window.epsilon,
        n_accepted=int(window.accepted.sum()),
        shape=shape,
        unknown=~known,
    )


def _spread(average: Average, tops: FloatArray) -> FloatArray:
    """Inverse (r, r) in x of minus the Hessian at the top, within four times that of the window."""
    slope = average.weight @ [
        density.slope(z) for density, z in zip(average.densities, tops, strict=True)
    ]  # not zero on a border, where it stands for the curvature
    value, vector = np.linalg.eigh(np.outer(slope, slope) - average.hessian(tops))
    scales = average.window.root @ (vector / np.sqrt(np.clip(value, 1.0 / 16.0, 16.0)))
    return np.asarray(scales @ scales.T)


def _unresolved(
    average: Average, tops: FloatArray, covariance: FloatArray, free: BoolArray
) -> FloatArray | None:
    """A direction (r,) in z, of length one, along which the rows do not show a peak, or None.

    One along which the curvature cannot be told from zero, or the peak is known worse than to one
    spread.
    """
    root = average.window.root
    inverse = np.linalg.inv(root)
    pick = np.ix_(free, free)
    sd = np.sqrt(np.einsum("ij,ij->i", root, root))[free]
    inside = (inverse.T @ average.hessian(tops) @ inverse)[pick]
    value, vector = np.linalg.eigh(-inside * np.outer(sd, sd))
    for e, v in zip(value, vector.T, strict=True):
        direction = np.zeros(len(free))
        direction[free] = v * sd
        along = inverse @ direction
        wide = float(v @ (covariance[pick] / np.outer(sd, sd)) @ v)
        if e < CLEAR * average.curvature_error(tops, along) or wide > 1.0:
            return np.asarray(along / np.linalg.norm(along))
    return None
