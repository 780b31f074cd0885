"""The scale of a peak: whether a narrow one says more of its rows than the broad one around it.

A run that looks for thin peaks leaves dense little clusters of rows, and where the run was lucky a
fit to such a cluster finds a thin peak, with a small error.  So every peak that is thin beside the
accepted rows is also fitted from broader starts, and stands only where its rows are far more likely
under it than under the broader fit.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from abctree.analysis.mode.quadratic import Fit, fit_peak, reach
from abctree.analysis.mode.regression import design_of, log_likelihood, n_coefficients
from abctree.analysis.mode.surface import Rows
from abctree.types import BoolArray, FloatArray

#: Each start is so many times as broad as the one before.
_BROADER = 4.0
#: A fit is broad where its spread is so many times that of the thin one, over all directions.
_BROAD = 2.0
#: A thin peak stands where a gain in likelihood as large as its own has a smaller chance than this.
#: The chance is for a fixed place; thin peaks are looked for everywhere, by the run and by the fit.
_CHANCE = 1e-6


def fit_in_scale(rows: Rows, epsilon: float, start: FloatArray, spread: FloatArray) -> Fit | None:
    """The peak near a start, as `fit_peak`; a broader one where a thin one is not borne out."""
    fit = fit_peak(rows, epsilon, start, spread)
    size = np.ptp(rows.x[rows.distance < epsilon], axis=0)
    wide = _BROADER**2 * (spread if fit is None else fit.spread)
    while (np.sqrt(np.diag(wide)) < 0.5 * size).all():
        broad = fit_peak(rows, epsilon, start if fit is None else fit.peak, wide)
        wide = _BROADER**2 * wide
        if broad is None or (fit is not None and _size(broad.spread) < _BROAD * _size(fit.spread)):
            continue
        if _stands(fit, start, spread, broad):
            break
        fit, wide = broad, _BROADER**2 * broad.spread
    return fit


def _stands(fit: Fit | None, start: FloatArray, spread: FloatArray, broad: Fit) -> bool:
    """Whether a broad fit does not replace a thin one, or a place that is too thin for a fit."""
    if fit is not None:
        return stands(fit, broad)
    return broad.shape in ("saturated", "flat") or _stands_without_fit(start, spread, broad)


def _size(spread: FloatArray) -> float:
    """Geometric mean of the standard deviations along the axes of a covariance (r, r)."""
    return float(np.exp(0.5 * np.linalg.slogdet(spread)[1] / len(spread)))


def stands(thin: Fit, broad: Fit) -> bool:
    """Whether the rows of a thin fit are far more likely under it than under a broad one."""
    local = thin.local
    own = log_likelihood(design_of(local.z), local.accepted, thin.surface.coefficients)
    return _gains(local.centre + local.z @ local.root.T, local.accepted, own, broad)


def _stands_without_fit(start: FloatArray, spread: FloatArray, broad: Fit) -> bool:
    """The same of a place with too few rows for a fit, by the rate among them."""
    rows = broad.local.rows
    z = np.linalg.solve(np.linalg.cholesky(spread), (rows.x - start).T)
    near = np.einsum("ij,ij->j", z, z) < reach(rows.r) ** 2
    accepted = rows.distance[near] < broad.epsilon
    n, hits = len(accepted), int(accepted.sum())
    own = float(special.xlogy([hits, n - hits], [hits / n, 1.0 - hits / n]).sum()) if n else 0.0
    return _gains(rows.x[near], accepted, own, broad)


def _gains(x: FloatArray, accepted: BoolArray, own: float, broad: Fit) -> bool:
    """Whether a log-likelihood of rows is far above that of a broad fit, or it has none of them."""
    z = np.asarray(np.linalg.solve(broad.local.root, (x - broad.local.centre).T).T, np.float64)
    if (np.einsum("ij,ij->i", z, z) > broad.local.radius**2).any():
        return True
    other = log_likelihood(design_of(z), accepted, broad.surface.coefficients)
    return bool(2.0 * (own - other) > special.chdtri(n_coefficients(broad.local.r), _CHANCE))
