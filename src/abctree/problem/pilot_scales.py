"""What scale a distance takes from pilot simulations, or is given."""

from __future__ import annotations

import numpy as np

from abctree.errors import ParameterError, SimulatorError, warn
from abctree.types import BoolArray, FloatArray

#: Eigenvalues of a correlation matrix below this share of the largest count as zero.
_SINGULAR = 1e-10


def positive(scale: object) -> FloatArray:
    """(m,) The scales that a user gives, or `ParameterError`."""
    array = np.ravel(np.asarray(scale, dtype=np.float64))
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise ParameterError(f"`scale` must be positive and finite, but got {array}.")
    return array


def unfitted(name: str) -> ParameterError:
    """The error of a distance that is called before it has its scale."""
    return ParameterError(
        f"`distance` must be fitted before use, but {name} has no scale. "
        "Call .fitted(pilot_summaries); a run does so by itself."
    )


def usable_rows(simulated: FloatArray, at_least: int = 1) -> FloatArray:
    """(n, m) The summaries of the pilot without the rows that are not finite."""
    s = np.asarray(simulated, dtype=np.float64)
    rows = s.reshape(len(s), int(np.prod(s.shape[1:])))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < at_least:
        raise SimulatorError(
            f"the distance takes its scale from pilot simulations, but {len(rows)} of {len(s)} "
            f"gave finite summaries; it needs {at_least}. Check the simulator at prior draws."
        )
    return np.asarray(rows)


def deviations(rows: FloatArray) -> FloatArray:
    """(m,) Standard deviations; exactly 0 where a column never varies."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    width = high - low
    unit = np.where(width > 0.0, width, 1.0)
    # In units of the range: squares of very large or small numbers are lost.
    return np.asarray(np.where(width > 0.0, unit * ((rows - low) / unit).std(axis=0), 0.0))


def ones_where_constant(scale: FloatArray) -> FloatArray:
    """The scales, with 1 and a warning for what never varies."""
    constant: BoolArray = scale == 0.0
    if constant.any():
        warn(
            f"{listed(constant)}: never varies in the pilot, so it has no scale; 1 is used. "
            "Drop it if it says nothing of the parameters."
        )
    return np.where(constant, 1.0, scale)


def listed(which: BoolArray) -> str:
    """The numbers of some summaries, for a message."""
    index = np.flatnonzero(which)
    shown = ", ".join(str(i) for i in index[:10]) + (", ..." if len(index) > 10 else "")
    return f"summary {shown} (counting from 0)"


# Covariances -----------------------------------------------------------------------------------


def covariance(cov: object) -> FloatArray:
    """(m, m) The covariance that a user gives, made exactly symmetric, or `ParameterError`."""
    array = np.asarray(cov, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.isfinite(array).all():
        raise ParameterError(f"`cov` must be a finite square matrix, but got {array!r}.")
    if not (np.diag(array) > 0.0).all():
        raise ParameterError(
            f"`cov` must have positive variances, but its diagonal is {np.diag(array)}."
        )
    sd = np.sqrt(np.diag(array))
    if (np.abs(array - array.T) > 1e-8 * np.outer(sd, sd)).any():
        raise ParameterError(f"`cov` must be symmetric, but got {array!r}.")
    return np.asarray((array + array.T) / 2.0)


def whitening(cov: FloatArray) -> FloatArray:
    """W (m, r) with W Wᵀ = C⁻¹, r the numerical rank."""
    sd = np.sqrt(np.diag(cov))
    value, vector = np.linalg.eigh(cov / sd[:, None] / sd[None, :])
    if value[0] < -_SINGULAR * len(value) * value[-1]:
        raise ParameterError(
            f"`cov` must not have negative eigenvalues, but its correlation has {value[0]:.3g}."
        )
    known = value > _SINGULAR * value[-1]
    if not known.all():
        warn(
            f"the covariance of the {len(value)} summaries has numerical rank {known.sum()}; "
            "differences along the other directions are not counted. Drop summaries that are "
            "combinations of others, or use more pilot simulations."
        )
    return np.asarray(vector[:, known] / np.sqrt(value[known]) / sd[:, None])
