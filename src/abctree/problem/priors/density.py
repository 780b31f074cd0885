"""The density in θ of any prior that has one."""

from __future__ import annotations

import numpy as np

from abctree.protocols import HasLogDensity, Prior
from abctree.types import FloatArray


def log_density_of(prior: Prior, theta: FloatArray, cube: FloatArray) -> FloatArray | None:
    """Log-density (n,) at points, up to a constant, 0 if flat; None where it is not known.

    A prior that is only known as a map of the cube has the density |det ∂θ/∂u|⁻¹, by differences.
    """
    (n, d), value = cube.shape, np.full(len(cube), np.nan)
    if isinstance(prior, HasLogDensity):
        value = np.asarray(prior.log_density(theta))
    if np.isnan(value).all() and theta.shape[1] == d:
        slopes = np.empty((n, d, d))
        for j in range(d):
            low, high = cube.copy(), cube.copy()
            low[:, j] = np.maximum(cube[:, j] - 1e-5, 0.5 * cube[:, j])
            high[:, j] = np.minimum(cube[:, j] + 1e-5, 0.5 + 0.5 * cube[:, j])
            change = prior.from_cube(high) - prior.from_cube(low)
            slopes[:, :, j] = change / (high[:, j] - low[:, j])[:, None]
        sign, log_volume = np.linalg.slogdet(slopes)
        value = np.where((sign != 0.0).all(), -log_volume, np.nan)
    if np.isnan(value).all():
        return None
    finite = value[np.isfinite(value)]
    flat = np.allclose(finite, finite[:1], rtol=1e-12, atol=1e-12)
    return np.zeros(n) if flat else value
