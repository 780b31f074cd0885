"""The scale of a peak: whether a narrow one says more of its rows than the broad one around it.

A run that looks for thin peaks leaves dense little clusters of rows, and where the run was lucky a
fit to such a cluster finds a thin peak, with a small error.  So every peak that is thin beside the
accepted rows is also climbed to from broader starts, and stands only where its rows are far more
likely under it than under the broader fit.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from abctree.answers.mode.fit import Rows, Window, climb, reach, root_of, to_z
from abctree.answers.mode.regression import log_likelihood, monomials, n_terms
from abctree.types import FloatArray

#: Each start is so many times as broad as the one before, and a fit is broad beside another if its
#: spread is half as many times that of the other.
_BROADER = 4.0
#: A thin peak stands where a gain in likelihood as large as its own has a smaller chance than this.
#: The chance is for a fixed place; thin peaks are looked for everywhere, by the run and by the fit.
_CHANCE = 1e-6


def climb_in_scale(
    rows: Rows, epsilon: float, start: FloatArray, spread: FloatArray
) -> Window | None:
    """Climb as `climb`; to a broader peak where a thin one is not borne out."""
    best = climb(rows, epsilon, start, spread)
    size = np.ptp(rows.x[rows.distance < epsilon], axis=0)
    wide = _BROADER**2 * (spread if best is None else best.spread)
    while (np.sqrt(np.diag(wide)) < 0.5 * size).all():
        broad = climb(rows, epsilon, start if best is None else best.centre, wide)
        wide = _BROADER**2 * wide
        if broad is None or (
            best is not None and _size(broad.spread) < 0.5 * _BROADER * _size(best.spread)
        ):
            continue
        if _gain(best, rows, start, spread, broad) > _needed(rows.r):
            break
        best, wide = broad, _BROADER**2 * broad.spread
    return best


def _size(spread: FloatArray) -> float:
    """Geometric mean of the standard deviations along the axes of a covariance (r, r)."""
    return float(np.exp(0.5 * np.linalg.slogdet(spread)[1] / len(spread)))


def _needed(r: int) -> float:
    """Twice the gain in log-likelihood of a quadratic that chance exceeds with `_CHANCE`."""
    return float(special.chdtri(n_terms(r), _CHANCE))


def _gain(
    thin: Window | None, rows: Rows, start: FloatArray, spread: FloatArray, broad: Window
) -> float:
    """Twice what the rows of a thin peak gain in log-likelihood over a broad one."""
    if thin is not None and thin.quadratic is not None:
        height = monomials(thin.z, thin.quadratic.powers) @ thin.quadratic.beta
        own = log_likelihood(height, thin.accepted)
        x = thin.centre + thin.z @ thin.root.T
        return broad.surprise(x, thin.accepted, own)
    # Too few rows for a fit: by the rate among them.
    z = to_z(rows.x, start, root_of(spread))
    near = np.einsum("ij,ij->i", z, z) < reach(rows.r) ** 2
    accepted = rows.distance[near] < broad.epsilon
    n, hits = len(accepted), int(accepted.sum())
    own = float(special.xlogy([hits, n - hits], [hits / n, 1.0 - hits / n]).sum()) if n else 0.0
    return broad.surprise(rows.x[near], accepted, own)
