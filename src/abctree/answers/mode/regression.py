"""A regression of acceptance on a polynomial whose terms beyond the quadratic are shrunk.

The rate P of acceptance and the polynomial u are linked by P = (1 + exp(−ku))^(−1/k), k = `POWER`.
Up to P = ½ that is u = log P within .001, the log of the ε-likelihood.  Where u rises to zero P
tends to one smoothly, as no rate can be larger.  The log-likelihood of accepted and rejected rows
is concave in the coefficients for every k.

A log-likelihood of n independent data has third, fourth, … derivatives of the sizes κ, κ², … in
units of its standard deviation, κ about 1/√n.  So the term of degree j has the variance
κ^(2(j − 2)) / j² of the kernel Σ κ^(2(j − 2)) (z·z')^j / j², and κ is averaged over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from scipy import special

from abctree.types import BoolArray, FloatArray, IntArray

#: k of the link.  With k = 1 log-odds are quadratic; they are not where much is accepted, and a
#: prior moves the mode off the top of that hill, where the misfit moves the answer, too.
POWER = 8
#: Ridge on the linear and square terms, in units in which the peak has a spread of one.
RIDGE = 1e-3
#: Most terms of a polynomial; with more parameters its degree is lower.
MOST_TERMS = 130
#: Highest degree.
DEGREE = 6
#: κ that are averaged over, and their weights beforehand.
SKEWNESSES, BEFOREHAND = (0.0, 0.15, 0.3, 0.6), (3.0, 1.0, 1.0, 1.0)


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


def n_terms(r: int) -> int:
    """Terms of a quadratic in r coordinates."""
    return (r + 1) * (r + 2) // 2


def degree_for(r: int) -> int:
    """The highest degree of at most `MOST_TERMS` terms, at least 2."""
    fits = (j for j in range(DEGREE, 2, -1) if special.comb(r + j, j) <= MOST_TERMS)
    return next(fits, 2)


def monomials(z: FloatArray, powers: IntArray) -> FloatArray:
    """(m, r) -> (m, q): each monomial over its α! (so that coefficients are derivatives at 0)."""
    ladder = _ladder(z, int(powers.max()))
    found = np.ones((len(powers), len(z)))
    for i in range(z.shape[1]):
        found *= ladder[powers[:, i], :, i]
    return found.T


def derivatives(z: FloatArray, powers: IntArray, *by: int) -> FloatArray:
    """The monomials (q,) at a point (r,), or their derivatives by one or two coordinates."""
    ladder = _ladder(z, int(powers.max()))
    lower = powers - np.bincount(np.array(by, dtype=np.int64), minlength=len(z))
    return np.asarray(ladder[lower, np.arange(len(z))].prod(axis=1))


def slope_design(z: FloatArray, powers: IntArray) -> FloatArray:
    """Gradients (r, q) of the monomials at a point."""
    return np.array([derivatives(z, powers, i) for i in range(len(z))])


def curvature_design(z: FloatArray, along: FloatArray, powers: IntArray) -> FloatArray:
    """Second derivatives (q,) of the monomials at a point along a direction (r,)."""
    i, j = np.triu_indices(len(z))
    factor = along[i] * along[j] * np.where(i == j, 1.0, 2.0)
    each = [derivatives(z, powers, a, b) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    return np.asarray(factor @ np.array(each))


def _ladder(z: FloatArray, degree: int) -> FloatArray:
    """zʲ / j! for j up to a degree, and zeros at the indices -1 and -2."""
    ladder = np.zeros((degree + 3, *z.shape))
    ladder[0] = 1.0
    for j in range(1, degree + 1):
        ladder[j] = ladder[j - 1] * z / j
    return ladder


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Coefficients of a polynomial, which are its derivatives at 0."""

    powers: IntArray  #: (q, r)
    beta: FloatArray  #: (q,)

    def value(self, z: FloatArray) -> float:
        """At a point (r,)."""
        return float(derivatives(z, self.powers) @ self.beta)

    def slope(self, z: FloatArray) -> FloatArray:
        """Gradient (r,)."""
        return np.asarray(slope_design(z, self.powers) @ self.beta)

    def hessian(self, z: FloatArray) -> FloatArray:
        """(r, r)."""
        found = np.zeros((len(z), len(z)))
        for i in range(len(z)):
            for j in range(i + 1):
                found[i, j] = found[j, i] = derivatives(z, self.powers, i, j) @ self.beta
        return found


@dataclass(frozen=True, eq=False)
class Regression:
    """A polynomial that was fitted to accepted and rejected rows."""

    polynomial: Polynomial  #: u
    covariance: FloatArray  #: (q, q) of its coefficients
    log_evidence: float  #: of the rows, the coefficients integrated out; up to a constant


def regression(
    design: FloatArray, powers: IntArray, accepted: BoolArray, skewness: float,
    start: FloatArray | None = None,
) -> Regression:  # fmt: skip
    """Fit by Newton's method, with the terms beyond the quadratic shrunk.

    The objective is strictly concave, and steps that do not raise it are halved, so this ends at
    the maximum also where accepted and rejected rows are separated.
    """
    degree = powers.sum(axis=1)
    use = degree <= (2 if skewness == 0.0 else degree.max())
    design, powers, degree = design[:, use], powers[use], degree[use]
    ridge = np.where(degree > 0, RIDGE, 1e-9)
    # The kernel's variance of the coefficient of zᵅ, times α!² for coefficients over α!.
    over = np.exp(special.gammaln(degree + 1.0) + special.gammaln(powers + 1.0).sum(axis=1))
    high = degree > 2
    ridge[high] = degree[high] ** 2 / (skewness ** (2 * (degree[high] - 2)) * over[high])
    beta = np.zeros(len(powers))
    if start is None:
        share = float(accepted.mean())
        beta[0] = np.log(share) - np.log1p(-(share**POWER)) / POWER
    else:
        n = min(len(start), len(beta))
        beta[:n] = start[:n]
    value = _objective(design, accepted, ridge, beta)
    for _ in range(30):
        slope, weight = _derivatives(design @ beta, accepted)
        score = design.T @ slope - ridge * beta
        step = np.linalg.solve(_information(design, weight, ridge), score)
        last = score @ step < 1e-6  # it converges quadratically: after this step there is no more
        for _ in range(30):
            trial = _objective(design, accepted, ridge, beta + step)
            if trial >= value:
                break
            step = 0.5 * step
        beta, value = beta + step, trial
        if last:
            break
    weight = _derivatives(design @ beta, accepted)[1]
    information = _information(design, weight, ridge)
    evidence = value + 0.5 * float(np.log(ridge).sum() - np.linalg.slogdet(information)[1])
    covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
    return Regression(Polynomial(powers, beta), covariance, evidence)


def expansion_of(z: FloatArray, value: FloatArray, powers: IntArray) -> FloatArray:
    """Coefficients (q,) of a polynomial near a smooth function known at z (m, r), near 0 above all.

    The constant where the function is one.
    """
    known = np.isfinite(value)
    found = np.zeros(len(powers))
    found[0] = value[known][0]
    if np.ptp(value[known]) > 0.0:
        scale = np.exp(-0.5 * np.einsum("ij,ij->i", z, z)[known]) + 1e-3
        design = monomials(z[known], powers) * scale[:, None]
        found[:] = np.linalg.lstsq(design, value[known] * scale, rcond=None)[0]
    return found


def log_rate(u: FloatArray) -> FloatArray:
    """Log of the rate of acceptance."""
    return np.asarray(np.minimum(u, 0.0) - np.log1p(np.exp(-POWER * np.abs(u))) / POWER)


def log_likelihood(u: FloatArray, accepted: BoolArray) -> float:
    """Of accepted and rejected rows (m,)."""
    hit = log_rate(u)
    miss = np.log(-np.expm1(np.minimum(hit[~accepted], -1e-300)))
    return float(hit[accepted].sum() + miss.sum())


def _objective(
    design: FloatArray, accepted: BoolArray, ridge: FloatArray, beta: FloatArray
) -> float:
    return log_likelihood(design @ beta, accepted) - float(0.5 * ridge @ beta**2)


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


def _information(design: FloatArray, weight: FloatArray, ridge: FloatArray) -> FloatArray:
    return np.asarray((design * weight[:, None]).T @ design + np.diag(ridge))
