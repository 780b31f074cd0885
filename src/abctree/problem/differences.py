"""How vectors of summaries differ: rows of differences and their norms."""

from __future__ import annotations

import numpy as np

from abctree.errors import SimulatorError
from abctree.types import FloatArray


def differences(simulated: FloatArray, observed: FloatArray) -> FloatArray:
    """Differences as rows (n, m)."""
    s = np.asarray(simulated, dtype=np.float64)
    o = np.asarray(observed, dtype=np.float64)
    if s.ndim == 0 or s.shape[1:] != o.shape:
        raise SimulatorError(
            f"simulated summaries must have shape (n, {str(o.shape)[1:-1].rstrip(',')}) like the "
            f"observed ones of shape {o.shape}, but got {s.shape}. "
            'Samples of different sizes need distance="energy" or "wasserstein".'
        )
    with np.errstate(over="ignore", invalid="ignore"):  # inf − inf is the row's own nan
        return np.asarray(s.reshape(len(s), o.size) - o.reshape(1, o.size))


def norm(difference: FloatArray, p: float) -> FloatArray:
    """The p-norm of each row."""
    with np.errstate(over="ignore", invalid="ignore"):
        if p == 2.0:
            return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
        size = np.abs(difference)
        if p == 1.0:
            return np.asarray(size.sum(axis=1))
        largest = np.max(size, axis=1, initial=0.0)
        if np.isinf(p):
            return np.asarray(largest)
        # Divided by the largest: a high power of a plain number overflows.
        unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        return np.asarray(unit * ((size / unit[:, None]) ** p).sum(axis=1) ** (1.0 / p))


def check_length(scale: FloatArray, difference: FloatArray) -> None:
    """Raise `SimulatorError` unless there is one scale, or row of scales, for each summary."""
    if len(scale) != difference.shape[1]:
        raise SimulatorError(
            f"the distance was scaled for {len(scale)} summaries, but got {difference.shape[1]}."
        )
