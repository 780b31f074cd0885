"""What the top of a fit looks like: whether there is a peak in every direction."""

from __future__ import annotations

import numpy as np
from scipy import special

from abctree.analysis.mode.regression import (
    design_of,
    n_coefficients,
    rate_slope,
    regression,
)
from abctree.analysis.mode.surface import Local, Surface
from abctree.types import BoolArray, FloatArray

#: A curvature is told from zero by so many standard errors.
_CLEAR = 3.0
#: A top is flat where its inner curvature is less than this share of that of the whole fit.
_FLAT_TOP = 0.35
#: A spread whose reach covers this share of all rows along a direction has no end in the table.
_WHOLE = 0.4
#: The inner rows contradict a peak when they would do so by chance with this probability.
_DOUBT = 0.02


def unresolved(
    local: Local,
    surface: Surface,
    z: FloatArray,
    hessian: FloatArray,
    border: BoolArray,
    covariance: FloatArray,
) -> FloatArray | None:
    """A direction (r,) in x along which the rows do not show a peak, or None.

    One along which the curvature cannot be told from zero, or along which the peak is known worse
    than to half a radius.
    """
    free = ~border
    if not free.any():
        return None
    inverse = np.linalg.inv(local.root)
    pick = np.ix_(free, free)
    if not np.isfinite(covariance[pick]).all():
        return unit(np.eye(local.r)[:, free][:, 0])
    inside = (inverse.T @ hessian @ inverse)[pick]
    # Scaled by the spread, so that eigenvalues are about one.
    sd = np.sqrt(np.einsum("ij,ij->i", local.root, local.root))[free]
    value, vector = np.linalg.eigh(-inside * np.outer(sd, sd))
    for e, v in zip(value, vector.T, strict=True):
        direction = np.zeros(local.r)
        direction[free] = v * sd
        along = np.asarray(np.linalg.solve(local.root, direction), dtype=np.float64)
        error = _curvature_error(surface, z, along)
        wide = float(v @ (covariance[pick] / np.outer(sd, sd)) @ v)
        if e < _CLEAR * error or wide > (0.5 * local.radius) ** 2:
            return unit(direction)
    return None


def _curvature_error(surface: Surface, z: FloatArray, along: FloatArray) -> float:
    """Standard error of the second derivative of the log-density along a direction in z."""
    r = len(z)
    i, j = np.triu_indices(r)
    by_beta = np.zeros(n_coefficients(r))
    by_beta[1 + r :] = along[i] * along[j] * np.where(i == j, 1.0, 2.0)
    first, _ = rate_slope(surface.height(z))
    return float(first * np.sqrt(by_beta @ surface.covariance @ by_beta))


def is_endless(local: Local, direction: FloatArray) -> bool:
    """Whether the fit covers much of the table along a direction: a ridge, or no peak at all."""
    along = local.rows.x @ direction
    sd = float(np.linalg.norm(local.root.T @ direction))
    return bool(local.radius * sd > _WHOLE * np.ptp(along))


def plateau(local: Local, surface: Surface, z: FloatArray) -> FloatArray | None:
    """A direction in x along which a quartic fit says that the quadratic has an invented peak."""
    r, q = local.r, n_coefficients(local.r)
    if local.accepted.sum() < 4 * (q + r):
        return None
    value, vector = np.linalg.eigh(surface.hessian)
    w = (local.z - z) @ vector
    design = np.column_stack([design_of(w), w**4 / 24.0])
    beta, information = regression(design, local.accepted)
    covariance = np.linalg.inv(information)
    i, j = np.triu_indices(r)
    squares = 1 + r + np.flatnonzero(i == j)
    for k in range(r):
        inner, error = beta[squares[k]], np.sqrt(covariance[squares[k], squares[k]])
        if inner > _FLAT_TOP * value[k] and inner - value[k] > _CLEAR * error:
            return unit(local.root @ vector[:, k])
    return None


def inner_slope(
    local: Local, surface: Surface, z: FloatArray, border: BoolArray
) -> FloatArray | None:
    """The slope (r,) in x of the log-density at the peak by the inner rows alone; None if flat."""
    inner = ((local.z - z) ** 2).sum(axis=1) < (0.5 * local.radius) ** 2
    y = local.accepted[inner]
    least = n_coefficients(local.r) + local.r
    free = np.flatnonzero(~border)
    if y.sum() < least or (~y).sum() < min(least, 10) or len(free) == 0:
        return None
    beta, information = regression(design_of(local.z[inner] - z), y)
    first, _ = rate_slope(float(beta[0]))
    back = np.linalg.inv(local.root).T
    slope = back @ (first * beta[1 : 1 + local.r] + surface.prior_slope(z))
    covariance = np.linalg.inv(information)[1 : 1 + local.r, 1 : 1 + local.r]
    covariance = first**2 * (back @ covariance @ back.T)
    surprise = slope[free] @ np.linalg.solve(covariance[np.ix_(free, free)], slope[free])
    if surprise < special.chdtri(len(free), _DOUBT):
        return None
    found = np.zeros(local.r)
    found[free] = slope[free]
    return found


def unit(direction: FloatArray) -> FloatArray:
    """A direction of length one."""
    return np.asarray(direction / np.linalg.norm(direction))
