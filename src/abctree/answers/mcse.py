"""Monte Carlo standard errors of what weighted draws say: the delta method."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtr

from abctree.types import FloatArray

#: Levels of minus and plus one standard deviation.
_ONE_SD = (float(ndtr(-1.0)), float(ndtr(1.0)))


def room(weight: FloatArray) -> float:
    """1 − Σ w² of weights (m,) that sum to one; nan with fewer than two draws that have weight."""
    left = 1.0 - float(weight @ weight)
    return left if np.count_nonzero(weight) > 1 and left > 0.0 else np.nan


def error_of(influence: FloatArray, weight: FloatArray) -> FloatArray:
    """√(Σ w² f² / (1 − Σ w²)) of influences f (m, ...) and weights (m,) that sum to one.

    An estimate that moves with its independent draws by Σ w f, to first order, has this error.  For
    equal weights and f = θ − mean it is s / √m.
    """
    return np.asarray(np.sqrt(weight**2 @ influence**2 / room(weight)))


def levels_around(
    theta: FloatArray, quantile: float, weight: FloatArray, prob: float
) -> FloatArray:
    """Levels (2,) one standard error to either side of `prob`, for draws (m,) and their quantile.

    They are those of a beta distribution after as many equal draws as would know the weighted
    distribution function there as well: inside (0, 1), however few the draws.  A heavy draw that is
    the quantile itself counts half below it and half above.
    """
    below, up_to = theta < quantile, theta <= quantile
    influence = np.sqrt(((below - prob) ** 2 + (up_to - prob) ** 2) / 2.0)
    n = prob * (1.0 - prob) / float(error_of(influence, weight)) ** 2
    return np.asarray(betaincinv(n * prob + 1.0, n * (1.0 - prob) + 1.0, _ONE_SD))
