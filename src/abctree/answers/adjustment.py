"""Local-linear regression adjustment: accepted draws moved to where the observation is."""

from __future__ import annotations

import numpy as np

from abctree.answers.scores import varies
from abctree.data import effective_sample_size as ess
from abctree.errors import ParameterError, warn
from abctree.types import BoolArray, FloatArray

#: Added to the unit diagonal of the correlation matrix of the summaries.
_RIDGE = 1e-8
#: Eigenvalues below this share of the largest count as dependent summaries.
_DEPENDENT = 1e-10


def linear_adjustment(
    z: FloatArray,
    summary: FloatArray,
    observed: FloatArray,
    distance: FloatArray,
    epsilon: float,
    weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    r"""Draws adjusted by local-linear regression (Beaumont, Zhang and Balding 2002).

    With weights w_i (1 − (d_i/ε)²), fit z ≈ a + B (s − s_obs) by weighted least squares and move
    each draw to z_i − B (s_i − s_obs).  Where z is linear in s with errors that do not depend on s,
    this removes what ε > 0 adds to the posterior; where it is not, it can do harm.

    Parameters
    ----------
    z : (m, k) array
        Accepted draws on a scale without bounds, such as `abctree.answers.scores.Scores`.
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

    Returns
    -------
    z : (m, k) array
        Adjusted draws.
    weight : (m,) array
        `weight` times the kernel weight.

    Warns
    -----
    AbctreeWarning
        If the effective number of draws is below q + 2: then nothing is adjusted, and `z` and
        `weight` come back as they are.  Also if the summaries are linearly dependent: a ridge of
        1e-8 (on standardised summaries, always there) then chooses the smallest slopes.

    Raises
    ------
    ParameterError
        If shapes disagree.
    """
    s = _design(z, summary, observed, distance, weight)
    kernel_weight = weight * _epanechnikov(distance, epsilon)
    used = _usable(s, kernel_weight)
    n, needed = ess(kernel_weight), int(used.sum()) + 2
    if n < needed or needed == 2:
        warn(
            f"The regression on {used.sum()} summaries needs an effective number of draws of "
            f"{needed} or more, and at least one summary that varies, but has {n:.1f}: the draws "
            "are returned unadjusted. Use a larger epsilon or ess, or fewer summaries."
        )
        return z, weight
    return z - _Regression(s[:, used], kernel_weight).shift(z), kernel_weight


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
            warn(
                f"The {len(value)} summaries of the accepted draws are linearly dependent (rank "
                f"{rank}): the regression uses the smallest slopes that fit (a ridge of 1e-8). "
                "Drop summaries that are combinations of others."
            )

    def shift(self, z: FloatArray) -> FloatArray:
        """What the slopes for responses z (m, k) say of s − s_obs: B (s − s_obs), (m, k)."""
        moment = self.centred.T @ (self.weight[:, None] * (z - self.weight @ z))
        slope = self.vector @ (self.inverse[:, None] * (self.vector.T @ moment))
        return np.asarray(self.deviation @ slope)


def _design(
    z: FloatArray,
    summary: FloatArray,
    observed: FloatArray,
    distance: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Differences s − s_obs as (m, q)."""
    m = len(z)
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
    return np.asarray(finite & varies(np.where(finite, s, 0.0)[weight > 0.0]))
