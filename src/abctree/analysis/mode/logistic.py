"""A logistic regression on a quadratic, and quadratics as coefficients."""

from __future__ import annotations

import numpy as np
from scipy import special

from abctree.types import FloatArray

#: Ridge on all coefficients but the constant, in units in which the peak has a spread of one.
RIDGE = 1e-3


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


def quadratic_of(
    z: FloatArray, value: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Constant (1,), gradient and Hessian at 0 of a smooth function, by weighted least squares."""
    known = np.isfinite(value)
    if np.ptp(value[known]) == 0.0:
        return value[known][:1], np.zeros(z.shape[1]), np.zeros((z.shape[1], z.shape[1]))
    scale = np.sqrt(weight[known] + 1e-6)
    design = design_of(z[known]) * scale[:, None]
    found = np.linalg.lstsq(design, value[known] * scale, rcond=None)[0]
    solution = np.asarray(found, dtype=np.float64)
    return solution[:1], *unpacked(solution, z.shape[1])


def logistic(design: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients (q,) and information (q, q) of a ridge logistic regression, by Newton's method.

    The objective is strictly concave but for the constant, and steps that do not raise it are
    halved, so this ends at the maximum also where accepted and rejected rows are separated.
    """
    ridge = np.full(design.shape[1], RIDGE)
    ridge[0] = 1e-9
    beta = np.zeros(design.shape[1])
    share = y.mean()
    beta[0] = np.log(share) - np.log1p(-share)
    value = _objective(design, y, ridge, beta)
    for _ in range(60):
        rate = special.expit(design @ beta)
        score = design.T @ (y - rate) - ridge * beta
        step = np.linalg.solve(_information(design, rate, ridge), score)
        if score @ step < 1e-10:
            break
        for _ in range(30):
            trial = _objective(design, y, ridge, beta + step)
            if trial >= value:
                break
            step = 0.5 * step
        beta, value = beta + step, trial
    return beta, _information(design, special.expit(design @ beta), ridge)


def _objective(design: FloatArray, y: FloatArray, ridge: FloatArray, beta: FloatArray) -> float:
    odds = design @ beta
    return float(y @ odds + special.log_expit(-odds).sum() - 0.5 * ridge @ beta**2)


def _information(design: FloatArray, rate: FloatArray, ridge: FloatArray) -> FloatArray:
    weighted = design * (rate * (1.0 - rate))[:, None]
    return np.asarray(weighted.T @ design + np.diag(ridge))
