"""A regression of acceptance on a polynomial of θ whose terms beyond the quadratic are shrunk.

The rate P of acceptance and the polynomial u are linked by P = (1 + exp(−ku))^(−1/k), k = `POWER`.
Up to P = ½ that is u = log P within .001, the log of the ε-likelihood.  Where u rises to zero P
tends to one smoothly, as no rate can be larger.

A log-likelihood of n independent data has third, fourth, … derivatives of the sizes κ, κ², … in
units of its standard deviation, κ about 1/√n.  So the term of degree j has the variance
κ^(2(j − 2)) / j² of the kernel Σ κ^(2(j − 2)) (z·z')^j / j².  And a scale is simplest in its
logarithm: each coordinate y is bent to log(1 + ρy) / ρ, ρ fitted with a quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from scipy import special

from abctree.types import BoolArray, FloatArray, IntArray

#: k of the link.  With k = 1 log-odds are quadratic; they are not where much is accepted, and a
#: prior moves the mode off the top of that hill, where the misfit moves the answer, too.
POWER = 8
#: κ that are averaged over, after none, and their weights beforehand.
SKEWNESSES, BEFOREHAND = (0.2, 0.6), (3.0, 2.0, 1.0)
#: The standard deviation of ρ beforehand.
BEND = 1.0
#: Highest degree, and most terms; with more parameters the degree is lower.
_DEGREE, _MOST_TERMS = 6, 130
#: Ridge on the linear and square terms, in units in which the peak has a spread of one.
_RIDGE = 1e-3
#: Of central differences.
_STEP = 1e-3


@cache
def powers_of(r: int, degree: int) -> IntArray:
    """Exponents (q, r) of all monomials up to a degree, by degree."""
    rows = [
        np.bincount(np.array(of, dtype=np.int64), minlength=r)
        for j in range(degree + 1)
        for of in combinations_with_replacement(range(r), j)
    ]
    powers = np.array(rows, dtype=np.int64)
    powers.setflags(write=False)
    return powers


@cache
def _raised(r: int, degree: int) -> IntArray:
    """Where (r, q) the exponents are one higher in a coordinate; q where that is nowhere."""
    powers = powers_of(r, degree)
    place = {tuple(row): k for k, row in enumerate(powers.tolist())}
    return np.array(
        [[place.get(tuple(row), len(powers)) for row in (powers + e).tolist()]
         for e in np.eye(r, dtype=np.int64)]
    )  # fmt: skip


def n_terms(r: int) -> int:
    """Terms of a quadratic in r coordinates."""
    return (r + 1) * (r + 2) // 2


def degree_for(r: int) -> int:
    """The highest degree of not too many terms, at least 2."""
    fits = (j for j in range(_DEGREE, 2, -1) if special.comb(r + j, j) <= _MOST_TERMS)
    return next(fits, 2)


def monomials(z: FloatArray, powers: IntArray) -> FloatArray:
    """(..., r) -> (..., q): each over its α! (so that coefficients are derivatives at 0)."""
    ladder = [np.ones(z.shape)]
    for j in range(1, int(powers.max()) + 1):
        ladder.append(ladder[-1] * z / j)
    rungs = np.moveaxis(np.array(ladder), -1, 1)  # (degree + 1, r, ...)
    found = np.ones((len(powers), *z.shape[:-1]))
    for i in range(z.shape[-1]):
        found *= rungs[powers[:, i], i]
    return np.moveaxis(found, 0, -1)


@dataclass(frozen=True, eq=False)
class Surface:
    """A polynomial of coordinates y that are bent and then made uncorrelated."""

    white: FloatArray  #: (r, r) applied to what is bent
    degree: int
    beta: FloatArray  #: (q,) the derivatives at 0
    rate: FloatArray  #: (r,) ρ

    def value(self, y: FloatArray) -> FloatArray:
        """(..., r) -> (...)."""
        return np.asarray(self.design(y) @ self.beta)

    @property
    def parameters(self) -> FloatArray:
        """(q + r,) β and ρ."""
        return np.append(self.beta, self.rate)

    def by_parameters(self, y: FloatArray) -> FloatArray:
        """(..., r) -> (..., q + r): derivatives of the value by β and ρ."""
        design, rate = self.design(y), self._rate()
        beta = np.append(self.beta, 0.0)[_raised(len(rate), self.degree)]
        by_bent = design @ beta.T @ self.white
        by_rate = (y / self._inside(y) - self._bent(y)) / rate
        return np.concatenate([design, by_bent * by_rate], axis=-1)

    def raised(self) -> Surface:
        """The same, with terms of a higher degree that are zero."""
        degree = degree_for(len(self.rate))
        beta = np.zeros(len(powers_of(len(self.rate), degree)))
        beta[: len(self.beta)] = self.beta
        return replace(self, degree=degree, beta=beta)

    def moved(self, step: FloatArray) -> Surface:
        """Parameters, as many as the step has."""
        q = len(self.beta)
        rate = self.rate + step[q:] if len(step) > q else self.rate
        return replace(self, beta=self.beta + step[:q], rate=rate)

    def _rate(self) -> FloatArray:
        return np.where(np.abs(self.rate) < 1e-4, 1e-4, self.rate)

    def _inside(self, y: FloatArray) -> FloatArray:
        return np.maximum(1.0 + self._rate() * y, 0.02)

    def _bent(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.log(self._inside(y)) / self._rate())

    def design(self, y: FloatArray) -> FloatArray:
        """(..., r) -> (..., q): what β multiplies."""
        z = self._bent(y) if self.rate.any() else y
        return monomials(z @ self.white.T, powers_of(len(self.rate), self.degree))


def derivatives(
    f: Callable[[FloatArray], FloatArray], y: FloatArray, white: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """First (r, …) and second (r, r, …) derivatives of a function of rows at a point (r,).

    By differences along the axes of white y.
    """
    e = _STEP * np.linalg.inv(white).T
    both, apart = (pair.reshape(-1, len(y)) for pair in (e[:, None] + e, e[:, None] - e))
    steps = (e, -e, both, apart, -apart, -both)
    value = f(y + np.concatenate(steps))  # all at once: a call costs more than its points
    up, down, *corners = np.split(value, np.cumsum([len(step) for step in steps])[:-1])
    slope = (up - down) / (2.0 * _STEP)
    pp, pm, mp, mm = (corner.reshape(len(y), len(y), *corner.shape[1:]) for corner in corners)
    second = (pp - pm - mp + mm) / (4.0 * _STEP**2)
    return white.T @ slope, np.einsum("ai,ab...,bj->ij...", white, second, white)


@dataclass(frozen=True, eq=False)
class Regression:
    """A surface that was fitted to accepted and rejected rows."""

    surface: Surface  #: u
    covariance: FloatArray  #: (n, n) of β, and of ρ if that was fitted
    log_evidence: float  #: of the rows, the parameters integrated out; up to a constant


def regression(
    y: FloatArray, accepted: BoolArray, start: Surface, skewness: float = 0.0, *, bends: bool
) -> Regression:
    """Fit β from that of a start by Newton's method; of quadratics that bend also ρ.

    The ρ of a quadratic is kept where there are terms of a higher degree, which take most of what
    it may be off; but what is not known of it is in the covariance.  Steps that do not raise the
    objective are halved, so this ends at a maximum also where accepted and rejected rows are
    separated.
    """
    surface, q, r = start, len(start.beta), y.shape[1]
    ridge = _ridge(powers_of(r, start.degree), skewness)
    ridge = np.append(ridge, np.full(r, BEND**-2.0)) if bends else ridge
    moves = q if skewness > 0.0 else len(ridge)
    # Without bends it is the same at each step.
    fixed = None if bends else start.design(y)

    def u(surface: Surface) -> FloatArray:
        return surface.value(y) if fixed is None else np.asarray(fixed @ surface.beta)

    def objective(surface: Surface) -> float:
        prior = 0.5 * ridge @ surface.parameters[: len(ridge)] ** 2
        return log_likelihood(u(surface), accepted) - float(prior)

    value, last = objective(surface), False
    for _ in range(30):
        design = surface.by_parameters(y) if fixed is None else fixed
        slope, weight = _derivatives(u(surface), accepted)
        known = (design * weight[:, None]).T @ design + np.diag(ridge)
        if last:
            break
        score = (design.T @ slope - ridge * surface.parameters[: len(ridge)])[:moves]
        step = np.asarray(np.linalg.solve(known[:moves, :moves], score), dtype=np.float64)
        last = bool(score @ step < (1e-3 if moves > q else 1e-6))
        for _ in range(30):
            trial = objective(surface.moved(step))
            if trial >= value:
                break
            step = 0.5 * step
        surface, value = surface.moved(step), trial
    # With ρ at its maximum: a quadratic that is kept where the rows bend is off by far.
    determinant = np.linalg.slogdet(known[:q, :q])[1]
    evidence = value + 0.5 * float(np.log(ridge[:q]).sum() - determinant)
    return Regression(surface, np.asarray(np.linalg.inv(known)), evidence)


def quadratic(y: FloatArray, accepted: BoolArray, white: FloatArray) -> Regression:
    """Fit without bends."""
    share, r = float(accepted.mean()), y.shape[1]
    beta = np.zeros(n_terms(r))
    beta[0] = np.log(share) - np.log1p(-(share**POWER)) / POWER
    return regression(y, accepted, Surface(white, 2, beta, np.zeros(r)), bends=False)


def _ridge(powers: IntArray, skewness: float) -> FloatArray:
    """Inverse variances beforehand of β.

    The kernel's variance of the coefficient of zᵅ, times α!² for coefficients over α!.
    """
    degree = powers.sum(axis=1)
    ridge = np.where(degree > 0, _RIDGE, 1e-9)
    over = np.exp(special.gammaln(degree + 1.0) + special.gammaln(powers + 1.0).sum(axis=1))
    high = degree > 2
    ridge[high] = degree[high] ** 2 / (skewness ** (2 * (degree[high] - 2)) * over[high])
    return ridge


def expansion_of(y: FloatArray, value: FloatArray, white: FloatArray) -> Surface:
    """A polynomial near a smooth function known at y (m, r), near 0 above all.

    The constant where the function is one.
    """
    known, r = np.isfinite(value), y.shape[1]
    flat = Surface(white, 0, value[known][:1], np.zeros(r))
    if np.ptp(value[known]) == 0.0:
        return flat
    z, degree = (y @ white.T)[known], degree_for(r)
    scale = np.exp(-0.5 * np.einsum("ij,ij->i", z, z)) + 1e-3
    design = monomials(z, powers_of(r, degree)) * scale[:, None]
    return replace(
        flat, degree=degree, beta=np.linalg.lstsq(design, value[known] * scale, rcond=None)[0]
    )


def log_rate(u: FloatArray) -> FloatArray:
    """Log of the rate of acceptance."""
    return np.asarray(np.minimum(u, 0.0) - np.log1p(np.exp(-POWER * np.abs(u))) / POWER)


def log_likelihood(u: FloatArray, accepted: BoolArray) -> float:
    """Of accepted and rejected rows (m,)."""
    hit = log_rate(u)
    miss = np.log(-np.expm1(np.minimum(hit[~accepted], -1e-300)))
    return float(hit[accepted].sum() + miss.sum())


def _derivatives(u: FloatArray, accepted: BoolArray) -> tuple[FloatArray, FloatArray]:
    """First and minus the second derivatives (m,) of the log-likelihoods of rows.

    With s = (1 − Pᵏ) / (1 − P) = 1 + P + … + Pᵏ⁻¹ the first is (1 − P) s for an accepted row and
    −P s for a rejected one; the other is k Pᵏ (1 − P) s and P s (s − k Pᵏ), never negative.
    """
    rate = np.exp(log_rate(u))
    power = special.expit(POWER * u)
    miss = 1.0 - rate
    series = np.where(miss > 1e-9, (1.0 - power) / np.maximum(miss, 1e-9), POWER)
    last = POWER * power
    weight = np.where(accepted, last * miss, rate * (series - last)) * series
    weight = np.maximum(weight, 0.0)  # of rounding
    return (accepted - rate) * series, weight
