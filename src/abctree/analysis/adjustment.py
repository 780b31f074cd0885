"""Local-linear regression adjustment: accepted draws moved to where the observation is."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit, logit

from abctree.data import effective_sample_size as ess
from abctree.errors import AbctreeWarning, ParameterError
from abctree.types import BoolArray, FloatArray

#: Added to the unit diagonal of the correlation matrix of the summaries.
_RIDGE = 1e-8
#: Eigenvalues below this share of the largest count as dependent summaries.
_DEPENDENT = 1e-10


def linear_adjustment(
    theta: FloatArray,
    summary: FloatArray,
    observed: FloatArray,
    distance: FloatArray,
    epsilon: float,
    weight: FloatArray,
    bounds: FloatArray | None = None,
    continuous: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Draws adjusted by local-linear regression (Beaumont, Zhang and Balding 2002).

    With z the transformed parameters and weights w_i (1 − (d_i/ε)²), fit z ≈ a + B (s − s_obs) by
    weighted least squares and move each draw to z_i − B (s_i − s_obs).  Where z is linear in s with
    errors that do not depend on s, this removes what ε > 0 adds to the posterior; where it is not,
    it can do harm.

    Bounded parameters are regressed on a scale without bounds, logit for two finite bounds and log
    for one, so adjusted draws never leave them.  Columns that never vary and those not in
    `continuous` stay as they are.

    Parameters
    ----------
    theta : (m, p) array
        Accepted parameters.
    summary : (m, ...) array
        Their summaries; flattened to q columns.  Columns that never vary, or with values that are
        not finite, are not used.
    observed : (...) array
        The observed summaries.
    distance : (m,) array
        Distances, below `epsilon`.
    epsilon : float
        The tolerance; with inf all kernel weights are 1.
    weight : (m,) array
        Raw importance weights.
    bounds : (p, 2) array, optional
        Lower and upper bounds of the prior; -inf and inf where there is none.
    continuous : (p,) array of bool, optional
        Which columns to adjust; all by default.

    Returns
    -------
    theta : (m, p) array
        Adjusted parameters.
    weight : (m,) array
        `weight` times the kernel weight.

    Warns
    -----
    AbctreeWarning
        If the effective number of draws is below q + 2: then nothing is adjusted, and `theta` and
        `weight` come back as they are.  Also if the summaries are linearly dependent: a ridge of
        1e-8 (on standardised summaries, always there) then chooses the smallest slopes.

    Raises
    ------
    ParameterError
        If shapes disagree.
    """
    s = _design(theta, summary, observed, distance, weight)
    kernel_weight = weight * _epanechnikov(distance, epsilon)
    used = _usable(s, kernel_weight)
    n, needed = ess(kernel_weight), int(used.sum()) + 2
    if n < needed or needed == 2:
        _warn(
            f"The regression on {used.sum()} summaries needs an effective number of draws of "
            f"{needed} or more, and at least one summary that varies, but has {n:.1f}: the draws "
            "are returned unadjusted. Use a larger epsilon or ess, or fewer summaries."
        )
        return theta, weight
    regression = _Regression(s[:, used], kernel_weight)
    adjusted = theta.copy()
    for j in np.flatnonzero(_moving(theta, continuous)):
        low, high = (-np.inf, np.inf) if bounds is None else bounds[j]
        z = _unbound(theta[:, j], low, high)
        adjusted[:, j] = _bound(z - regression.shift(z), low, high)
    return adjusted, kernel_weight


class _Regression:
    """Weighted linear regression on summaries s − s_obs (m, q)."""

    def __init__(self, s: FloatArray, weight: FloatArray) -> None:
        self.weight = weight / weight.sum()
        mean = self.weight @ s
        scale = np.sqrt(self.weight @ (s - mean) ** 2)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        self.deviation = s * inverse
        self.centred = (s - mean) * inverse
        gram = (self.centred * self.weight[:, None]).T @ self.centred
        value, self.vector = np.linalg.eigh(gram)
        self.inverse = 1.0 / (np.maximum(value, 0.0) + _RIDGE)
        rank = int((value > _DEPENDENT * value[-1]).sum())
        if rank < len(value):
            _warn(
                f"The {len(value)} summaries of the accepted draws are linearly dependent (rank "
                f"{rank}): the regression uses the smallest slopes that fit (a ridge of 1e-8). "
                "Drop summaries that are combinations of others."
            )

    def shift(self, z: FloatArray) -> FloatArray:
        """What the slopes for a response z (m,) say of s − s_obs: B (s − s_obs), (m,)."""
        moment = self.centred.T @ (self.weight * (z - self.weight @ z))
        slope = self.vector @ (self.inverse * (self.vector.T @ moment))
        return np.asarray(self.deviation @ slope)


def _design(
    theta: FloatArray,
    summary: FloatArray,
    observed: FloatArray,
    distance: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Differences s − s_obs as (m, q)."""
    m = len(theta)
    lengths = {len(summary), len(distance), len(weight), m}
    if len(lengths) != 1 or np.shape(summary)[1:] != np.shape(observed):
        raise ParameterError(
            f"`summary` must have one row for each of {m} draws, each like `observed` of shape "
            f"{np.shape(observed)}, but got {np.shape(summary)} with {len(distance)} distances and "
            f"{len(weight)} weights."
        )
    q = int(np.size(observed))
    return np.asarray(np.reshape(summary, (m, q)) - np.reshape(observed, (1, q)), dtype=np.float64)


def _epanechnikov(distance: FloatArray, epsilon: float) -> FloatArray:
    return np.asarray(np.maximum(0.0, 1.0 - (distance / epsilon) ** 2))


def _usable(s: FloatArray, weight: FloatArray) -> BoolArray:
    """Columns that are finite and vary among the rows that count."""
    finite = np.isfinite(s).all(axis=0)
    return np.asarray(finite & _varies(np.where(finite, s, 0.0)[weight > 0.0]))


def _moving(theta: FloatArray, continuous: BoolArray | None) -> BoolArray:
    varies = _varies(theta)
    return varies if continuous is None else np.asarray(varies & continuous)


def _varies(columns: FloatArray) -> BoolArray:
    if len(columns) == 0:
        return np.zeros(columns.shape[1], dtype=bool)
    return np.asarray(columns.max(axis=0) > columns.min(axis=0))


def _unbound(x: FloatArray, low: float, high: float) -> FloatArray:
    """The real line in place of (low, high)."""
    x = _inside(x, low, high)
    if np.isfinite(low) and np.isfinite(high):
        tiny = np.finfo(float).eps
        return np.asarray(logit(np.clip((x - low) / (high - low), tiny, 1.0 - tiny)))
    if np.isfinite(low):
        return np.asarray(np.log(x - low))
    if np.isfinite(high):
        return np.asarray(-np.log(high - x))
    return x


def _bound(z: FloatArray, low: float, high: float) -> FloatArray:
    """The inverse of `_unbound`."""
    if np.isfinite(low) and np.isfinite(high):
        return _inside(low + (high - low) * expit(z), low, high)
    with np.errstate(over="ignore"):  # clipped to the largest number just below
        if np.isfinite(low):
            return _inside(low + np.exp(z), low, high)
        if np.isfinite(high):
            return _inside(high - np.exp(-z), low, high)
    return z


def _inside(x: FloatArray, low: float, high: float) -> FloatArray:
    """Points on a bound, by rounding, moved just inside."""
    return np.asarray(np.clip(x, np.nextafter(low, np.inf), np.nextafter(high, -np.inf)))


def _warn(message: str) -> None:
    warnings.warn(message, AbctreeWarning, stacklevel=4)
