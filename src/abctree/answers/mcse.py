"""Monte Carlo standard errors of what weighted draws say."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtr

from abctree.types import FloatArray

#: Levels of the mean, and of one standard deviation to either side of it.
_ONE_SD = ndtr([-1.0, 0.0, 1.0])


def room(weight: FloatArray) -> float:
    """1 − Σ w² of weights (m,) that sum to one; nan with fewer than two draws that have weight."""
    left = 1.0 - float(weight @ weight)
    return left if np.count_nonzero(weight) > 1 and left > 0.0 else np.nan


def error_of(influence: FloatArray, weight: FloatArray) -> FloatArray:
    """√((1 − Σ w²) Σ (w f / (1 − w))²) of influences f (m, ...) and weights (m,) that sum to one.

    An estimate that moves with its independent draws by Σ w f has this error, to first order: the
    jackknife, for without a draw it would be off by w f / (1 − w).  For equal weights and f = θ −
    mean it is s / √m.
    """
    share = weight / (1.0 - weight)
    return np.asarray(np.sqrt(room(weight) * (share**2 @ influence**2)))


def error_of_quantile(value: FloatArray, cumulative: FloatArray, prob: float) -> float:
    """Standard error of the quantile of weighted draws at the level `prob`, in (0, 1).

    The distance from the mean of the draws within one standard error of the level below it to that
    of those above it: the error of the level times the slope of the quantile function, from all
    draws about it.  Levels are those of a beta distribution after as many equal draws as would know
    the weighted distribution function there as well: inside (0, 1), however few the draws.

    Parameters
    ----------
    value, cumulative : (m,) array
        Sorted draws, and their cumulative weights, the last of which is 1.
    prob : float
        Level of the quantile.
    """
    n = prob * (1.0 - prob) / error_of_level(value, cumulative, prob) ** 2
    levels = betaincinv(n * prob + 1.0, n * (1.0 - prob) + 1.0, _ONE_SD)
    # A gap between draws has the share of both sides that it parts.
    return float(np.diff(value) @ np.interp(cumulative[:-1], levels, [0.0, 1.0, 0.0]))


def error_of_level(value: FloatArray, cumulative: FloatArray, prob: float) -> float:
    """Error of the weighted distribution function at the true quantile, the root of an average.

    With a quantile at θ it is √(Σ w² (1[θ_i ≤ θ] − prob)² / (1 − Σ w²)).  At the quantile of the
    draws it comes out too small: this one is short just where heavy draws beyond it are missing.
    So it is averaged over the gaps between draws where the true quantile may lie.
    """
    last = np.append(value[1:] > value[:-1], True)  # equal draws have no gap between them
    level = np.append(0.0, cumulative[last])
    below = np.append(0.0, np.cumsum(np.diff(cumulative, prepend=0.0) ** 2)[last])
    total = below[-1]
    variance = ((1.0 - prob) ** 2 * below + prob**2 * (total - below)) / (1.0 - total)
    error = np.sqrt(prob * (1.0 - prob) * total)  # as if weights had nothing to do with θ
    for _ in range(2):
        chance = np.diff(ndtr((level - prob) / error))
        error = np.sqrt(chance @ (variance[1:] + variance[:-1]) / 2.0 / chance.sum())
    return float(error)
