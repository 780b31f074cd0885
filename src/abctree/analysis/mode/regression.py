"""A regression of acceptance on a quadratic, and quadratics as coefficients.

The rate P of acceptance and the quadratic q are linked by P = (1 + exp(−kq))^(−1/k), k = `POWER`.
Up to P = ½ that is q = log P within .001: the quadratic is a model of the log of the ε-likelihood,
which is nearly quadratic wherever the likelihood is nearly normal.  Where q rises to zero and above
it, P tends to one smoothly, as no rate can be larger.  The log-likelihood of accepted and rejected
rows is concave in q for every k; k = 1 is the logistic regression.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from scipy import special

from abctree.types import BoolArray, FloatArray

#: k of the link.  With k = 1 log-odds are quadratic; they are not where much is accepted, and a
#: prior moves the mode off the top of that hill, where the misfit moves the answer, too.
POWER = 8
#: Ridge on all coefficients but the constant, in units in which the peak has a spread of one.
RIDGE = 1e-3
#: Rows for each term of a cubic.
_ROWS_A_TERM = 4


def n_coefficients(r: int) -> int:
    """Of a quadratic in r coordinates."""
    return 1 + r + r * (r + 1) // 2


def design_of(z: FloatArray) -> FloatArray:
    """(m, r) -> (m, q): 1, z_i, then ½ z_i² and z_i z_j for i < j."""
    i, j = np.triu_indices(z.shape[1])
    products = z[:, i] * z[:, j]
    products[:, i == j] *= 0.5
    return np.column_stack([np.ones(len(z)), z, products])


def slope_design(z: FloatArray) -> FloatArray:
    """Derivative (r, q) of the gradient of the quadratic at z (r,) with respect to coefficients."""
    r = len(z)
    i, j = np.triu_indices(r)
    column = np.arange(1 + r, n_coefficients(r))
    answer = np.zeros((r, n_coefficients(r)))
    answer[np.arange(r), 1 + np.arange(r)] = 1.0
    answer[i, column] = z[j]
    answer[j, column] = z[i]
    return answer


def unpacked(beta: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    """Gradient (r,) and Hessian (r, r) of a quadratic from its coefficients."""
    i, j = np.triu_indices(r)
    hessian = np.zeros((r, r))
    hessian[i, j] = beta[1 + r : n_coefficients(r)]
    hessian[j, i] = beta[1 + r : n_coefficients(r)]
    return beta[1 : 1 + r], hessian


def expansion_of(z: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Constant (1,), gradient and Hessian at 0 of a smooth function that is known at z (m, r).

    By least squares, with most of the weight on so many of the nearest rows as determine a cubic; a
    quadratic where there are too few.  Of the cubic the last terms are left out of the answer, but
    without them they would be in its gradient.
    """
    known = np.isfinite(value)
    z, value, r = z[known], value[known], z.shape[1]
    if np.ptp(value) == 0.0:
        return value[:1], np.zeros(r), np.zeros((r, r))
    design = design_of(z)
    cubes = [np.prod(z[:, [*of]], axis=1) for of in combinations_with_replacement(range(r), 3)]
    if len(z) > _ROWS_A_TERM * (design.shape[1] + len(cubes)):
        design = np.column_stack([design, *cubes])
    square = np.einsum("ij,ij->i", z, z)
    last = min(len(z), _ROWS_A_TERM * design.shape[1]) - 1
    scale = np.exp(-0.5 * square / np.partition(square, last)[last]) + 1e-4
    found = np.linalg.lstsq(design * scale[:, None], value * scale, rcond=None)[0]
    solution = np.asarray(found, dtype=np.float64)
    return solution[:1], *unpacked(solution, r)


def log_rate(q: FloatArray) -> FloatArray:
    """Log of the rate of acceptance where the quadratic is q."""
    return np.asarray(np.minimum(q, 0.0) - np.log1p(np.exp(-POWER * np.abs(q))) / POWER)


def rate_slope(q: float) -> tuple[float, float]:
    """First and second derivative of the log of the rate with respect to q; about 1 and 0."""
    room = float(special.expit(-POWER * q))  # 1 − Pᵏ
    return room, -POWER * room * (1.0 - room)


def regression(design: FloatArray, accepted: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients (q,) and information (q, q) of a ridge regression, by Newton's method.

    The objective is strictly concave but for the constant, and steps that do not raise it are
    halved, so this ends at the maximum also where accepted and rejected rows are separated.
    """
    ridge = np.full(design.shape[1], RIDGE)
    ridge[0] = 1e-9
    beta = np.zeros(design.shape[1])
    share = float(accepted.mean())
    beta[0] = np.log(share) - np.log1p(-(share**POWER)) / POWER
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
    return beta, _information(design, _derivatives(design @ beta, accepted)[1], ridge)


def log_likelihood(design: FloatArray, accepted: BoolArray, beta: FloatArray) -> float:
    """Of accepted and rejected rows (m,)."""
    hit = log_rate(design @ beta)
    miss = np.log(-np.expm1(np.minimum(hit[~accepted], -1e-300)))
    return float(hit[accepted].sum() + miss.sum())


def _objective(
    design: FloatArray, accepted: BoolArray, ridge: FloatArray, beta: FloatArray
) -> float:
    return log_likelihood(design, accepted, beta) - float(0.5 * ridge @ beta**2)


def _derivatives(q: FloatArray, accepted: BoolArray) -> tuple[FloatArray, FloatArray]:
    """First and minus the second derivatives (m,) of the log-likelihoods of rows.

    With s = (1 − Pᵏ) / (1 − P) = 1 + P + … + Pᵏ⁻¹ the first is (1 − P) s for an accepted row and
    −P s for a rejected one; the other is k Pᵏ (1 − P) s and P s (s − k Pᵏ), never negative.
    """
    rate = np.exp(log_rate(q))
    power = special.expit(POWER * q)
    miss = 1.0 - rate
    series = np.where(miss > 1e-9, (1.0 - power) / np.maximum(miss, 1e-9), POWER)
    last = POWER * power
    weight = np.where(accepted, last * miss, rate * (series - last)) * series
    weight = np.maximum(weight, 0.0)  # of rounding
    return (accepted - rate) * series, weight


def _information(design: FloatArray, weight: FloatArray, ridge: FloatArray) -> FloatArray:
    return np.asarray((design * weight[:, None]).T @ design + np.diag(ridge))
