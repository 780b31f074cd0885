"""A regression of acceptance on a polynomial of θ whose terms beyond the quadratic are shrunk.

The rate P of acceptance and the polynomial u are linked by P = (1 + exp(−ku))^(−1/k), k = `POWER`:
up to P = ½ that is u = log P within .001, and above P tends to one, which no rate can exceed.

The term of degree j has the variance of the kernel Σ κ^(2(j − 2)) (z·z')^j / j²: a log-likelihood
of n independent data has derivatives of the sizes κ^(j − 2), κ about 1/√n, in units of its standard
deviation.  And each coordinate y is bent to log(1 + ρy) / ρ, in which a scale is simpler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations_with_replacement

import numpy as np
from scipy import special

from abctree.types import BoolArray, FloatArray, IntArray

#: k of the link.
POWER = 8
#: κ, of which that is taken for which there is more evidence.
SKEWNESSES = (0.3, 0.6)
#: The standard deviation of ρ beforehand.
BEND = 1.0
#: Highest degree, and most terms; with more parameters the degree is lower.
_DEGREE, _MOST_TERMS = 6, 130
#: Ridge on the linear and square terms, in units in which the peak has a spread of one.
_RIDGE = 1e-3
#: Of central differences.
_STEP = 5e-4


@cache
def powers_of(r: int, degree: int) -> IntArray:
    """Exponents (q, r) of all monomials up to a degree, by degree."""
    by_degree = (combinations_with_replacement(range(r), j) for j in range(degree + 1))
    return np.array([[of.count(i) for i in range(r)] for of in chain.from_iterable(by_degree)])


@cache
def _raised(r: int, degree: int) -> IntArray:
    """Where (r, q) the exponents are one higher in a coordinate; q where that is nowhere."""
    powers = powers_of(r, degree).tolist()
    place = {tuple(row): k for k, row in enumerate(powers)}
    higher = (tuple(a + (i == j) for j, a in enumerate(row)) for i in range(r) for row in powers)
    return np.array([place.get(row, len(powers)) for row in higher]).reshape(r, -1)


def n_terms(r: int) -> int:
    """Terms of a quadratic in r coordinates."""
    return (r + 1) * (r + 2) // 2


def degree_for(r: int) -> int:
    """The highest degree of not too many terms, at least 2."""
    fits = (j for j in range(_DEGREE, 2, -1) if special.comb(r + j, j) <= _MOST_TERMS)
    return next(fits, 2)


def monomials(z: FloatArray, powers: IntArray) -> FloatArray:
    """(..., r) -> (..., q): each over its α! (so that coefficients are derivatives at 0)."""
    most = int(powers.max())
    found = np.ones((len(powers), *z.shape[:-1]))
    raised = np.ones((most + 1, *z.shape[:-1]))
    for i, power in enumerate(powers.T):
        for j in range(most):  # a multiplication takes a tenth of the time of a power
            raised[j + 1] = raised[j] * z[..., i] / (j + 1)
        found *= raised[power]
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
        if self.degree == 0:
            return np.full(y.shape[:-1], self.beta[0])
        return np.asarray(self.design(y) @ self.beta)

    def design(self, y: FloatArray) -> FloatArray:
        """(..., r) -> (..., q): what β multiplies."""
        powers = powers_of(len(self.rate), self.degree)
        return monomials(self._bent(y)[0] @ self.white.T, powers)

    def by_parameters(self, y: FloatArray, design: FloatArray | None = None) -> FloatArray:
        """(..., r), and their design if it is known -> (..., q + r): derivatives by β and ρ."""
        design = self.design(y) if design is None else design
        by_z = design @ np.append(self.beta, 0.0)[_raised(len(self.rate), self.degree)].T
        return np.concatenate([design, by_z @ self.white * self._bent(y)[1]], axis=-1)

    def _bent(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bent coordinates, and their derivatives by ρ."""
        if not self.rate.any():
            return y, -0.5 * y * y
        rate = np.where(np.abs(self.rate) < 1e-8, 1e-8, self.rate)
        along = np.maximum(rate * y, -0.98)
        bent = np.log1p(along) / rate
        return bent, (y / (1.0 + along) - bent) / rate


def derivatives(
    f: Callable[[FloatArray], FloatArray], y: FloatArray, white: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """First (r, …) and second (r, r, …) derivatives at a point, by differences along white y."""
    e = _STEP * np.linalg.inv(white).T
    both, apart = e[:, None] + e, e[:, None] - e
    pp, pm, mp, mm = f(y + np.array([both, apart, -apart, -both]))
    slope = np.einsum("aa...->a...", pp - mm) / (4.0 * _STEP)
    second = (pp - pm - mp + mm) / (4.0 * _STEP**2)
    return white.T @ slope, np.einsum("ai,ab...,bj->ij...", white, second, white)


@dataclass(frozen=True, eq=False)
class Regression(Surface):
    """A surface u that was fitted to accepted and rejected rows."""

    covariance: FloatArray  #: (q + r, q + r) of β and ρ, which is 0 of a surface without bends
    log_evidence: float  #: of the rows, the parameters integrated out; up to a constant


def regression(
    y: FloatArray, accepted: BoolArray, start: Surface, skewness: float = 0.0, *, bends: bool
) -> Regression:
    """Fit β by Newton's method from that of a start; of quadratics that bend also ρ.

    With a skewness there are terms of a higher degree, which take most of what ρ may be off: it is
    kept, and what is not known of it is in the covariance.  Steps that do not raise the objective
    are halved, so this ends at a maximum also where accepted and rejected rows are separated.
    """
    r = y.shape[1]
    degree = degree_for(r) if skewness > 0.0 else 2
    powers, order = powers_of(r, degree), powers_of(r, degree).sum(axis=1)
    q, n = len(order), len(order) + r * bends
    moves = q if skewness > 0.0 else n
    # Inverse variances beforehand: of β those of the kernel, whose terms here are zᵅ / α!; of ρ.
    over = special.factorial(order) * special.factorial(powers).prod(axis=1)
    high = order**2 / (skewness ** np.maximum(2 * (order - 2), 0) * over)
    ridge = np.select([order == 0, order <= 2], [1e-9, _RIDGE], high)
    ridge = np.append(ridge, np.full(n - q, BEND**-2.0))
    at = np.concatenate([start.beta, np.zeros(q - len(start.beta)), start.rate])

    def surface(at: FloatArray) -> Surface:
        return Surface(start.white, degree, at[:q], at[q:])

    def objective(at: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        value, slope, weight = likelihood(terms @ at[:q], accepted)
        return value - 0.5 * float(ridge @ at[:n] ** 2), slope, weight

    terms = surface(at).design(y)
    (value, slope, weight), last = objective(at), False
    for _ in range(30):
        design = surface(at).by_parameters(y, terms) if bends else terms
        known = (design * weight[:, None]).T @ design + np.diag(ridge)
        if last:
            break
        score = (design.T @ slope - ridge * at[:n])[:moves]
        step = np.zeros(len(at))
        step[:moves] = np.linalg.solve(known[:moves, :moves], score)
        last = bool(score @ step[:moves] < (1e-3 if moves > q else 1e-6))
        for _ in range(30):
            if moves > q:  # with ρ the terms change
                terms = surface(at + step).design(y)
            trial, slope, weight = objective(at + step)
            if trial >= value:
                break
            step *= 0.5
        at, value = at + step, trial
    # With ρ at its maximum: a quadratic that is kept where the rows bend is off by far.
    determinant = np.linalg.slogdet(known[:q, :q])[1]
    evidence = value + 0.5 * float(np.log(ridge[:q]).sum() - determinant)
    covariance = np.zeros((q + r, q + r))
    covariance[:n, :n] = np.linalg.inv(known)
    return Regression(start.white, degree, at[:q], at[q:], covariance, evidence)


def quadratic(y: FloatArray, accepted: BoolArray, white: FloatArray) -> Regression:
    """Fit without bends."""
    share, r = float(accepted.mean()), y.shape[1]
    level = np.array([np.log(share) - np.log1p(-(share**POWER)) / POWER])
    return regression(y, accepted, Surface(white, 0, level, np.zeros(r)), bends=False)


def expansion_of(y: FloatArray, value: FloatArray, white: FloatArray) -> Surface:
    """A polynomial near a smooth function known at y (m, r), near 0 above all; or its constant."""
    known, r = np.isfinite(value), y.shape[1]
    y, value = y[known], value[known]
    if np.ptp(value) == 0.0:
        return Surface(white, 0, value[:1], np.zeros(r))
    surface = Surface(white, degree_for(r), value[:1], np.zeros(r))
    scale = np.exp(-0.5 * ((y @ white.T) ** 2).sum(axis=1)) + 1e-3
    design = surface.design(y) * scale[:, None]
    return replace(surface, beta=np.linalg.lstsq(design, value * scale, rcond=None)[0])


def log_rate(u: FloatArray) -> FloatArray:
    """Log of the rate of acceptance."""
    return np.asarray(special.log_expit(POWER * u) / POWER)


def likelihood(u: FloatArray, accepted: BoolArray) -> tuple[float, FloatArray, FloatArray]:
    """Log-likelihood of rows (m,), its first and minus its second derivatives (m,) by u.

    With s = (1 − Pᵏ) / (1 − P) the first is 1 − Pᵏ for an accepted row and −P s for a rejected one;
    the other is k Pᵏ (1 − Pᵏ) and P s (s − k Pᵏ), never negative.
    """
    u = np.minimum(u, 80.0)  # where 1 − Pᵏ is not yet zero
    hit, power, rest = log_rate(u), special.expit(POWER * u), special.expit(-POWER * u)
    miss = -np.expm1(hit)
    series = rest / miss
    slope = np.where(accepted, rest, -np.exp(hit) * series)
    weight = np.where(accepted, POWER * power * rest, -slope * (series - POWER * power))
    value = np.where(accepted, hit, np.log(miss)).sum()
    return float(value), slope, np.maximum(weight, 0.0)  # of rounding
