"""Draws of modes that lie apart, and a regression on each mode by itself."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are imported when they are used

from abctree.data import effective_sample_size
from abctree.near import spread
from abctree.problem.ridge import Fitted, Ridge
from abctree.types import FloatArray, IntArray

#: Draws are of one mode if a chain of neighbours leads from one to the other, each among so many
#: nearest ones of the next and the other way round.  With ten, a line of thousands of draws of one
#: mode is cut in most tables, with these in none of hundreds.
_NEIGHBOURS = 25
#: A mode has at least this effective sample size, and so many times the number of summaries.
_AT_LEAST, _FOR_EACH = 100.0, 10.0
#: Draws that are looked at, of more every k-th: in ten dimensions those of 20 000 take seconds.
_MOST = 3_000


def modes(z: FloatArray, weight: FloatArray, n_summaries: int) -> IntArray | None:
    """Number the modes of draws z (m, k) with weights (m,): (m,), or None where there is one.

    Numbers are 0, 1, ...  Few draws apart from all modes count to the nearest.
    """
    least = max(_AT_LEAST, _FOR_EACH * n_summaries)
    if z.size == 0 or effective_sample_size(weight) < 2.0 * least:
        return None
    k = 1 + (len(z) - 1) // _MOST
    draws, share, label = z[::k], weight[::k], _chained(z[::k])
    # Each effective sample size is k times the square of a sum over a sum of squares, maybe 0.
    stays = (k * np.bincount(label, share) ** 2 > least * np.bincount(label, share**2))[label]
    large, mode = np.unique(label[stays], return_inverse=True)
    return nearest_mode(z, draws[stays], mode) if len(large) > 1 else None


def nearest_mode(z: FloatArray, draws: FloatArray, mode: IntArray) -> IntArray:
    """(n,) Modes of points z (n, k): those of the nearest of draws (m, k), whose modes are (m,)."""
    unit = spread(draws)
    return np.asarray(mode[scipy.spatial.cKDTree(draws / unit).query(z / unit)[1]])


def _chained(z: FloatArray) -> IntArray:
    """(m,) The number of the chain of neighbours that a draw of z (m, k) is of."""
    x = z / spread(z)
    # Beside the spread of all modes are narrow: neighbours are as close as they typically are.
    away = x[_neighbours(x)] - x[:, None]
    typical = np.median(np.abs(away).max(axis=1), axis=0)
    x /= np.where(typical > 0.0, typical, 1.0)
    neighbour = _neighbours(x)
    ends = np.arange(0, neighbour.size + 1, neighbour.shape[1])
    near = scipy.sparse.csr_matrix((np.ones(neighbour.size), neighbour.ravel(), ends))
    label = scipy.sparse.csgraph.connected_components(near.minimum(near.T), directed=False)[1]
    return np.asarray(label, dtype=np.int64)


def _neighbours(x: FloatArray) -> IntArray:
    """(m, n) Numbers of the nearest of points (m, k) to each, itself among them."""
    return np.asarray(scipy.spatial.cKDTree(x).query(x, min(_NEIGHBOURS + 1, len(x)))[1])


class ByMode:
    """Ridge regressions on x (m, q) of each mode by itself, to be read off at x = 0.

    One for modes far apart would have their mean slopes, with noise that is large beside a mode.
    """

    def __init__(self, x: FloatArray, weight: FloatArray, label: IntArray) -> None:
        parts = [np.flatnonzero(label == i) for i in np.unique(label)]
        self.fits = [(part, Ridge(x[part], weight[part])) for part in parts]

    def __call__(self, y: FloatArray) -> Fitted:
        """Fit y (m, k); what is said of the observation is for each row (m, k)."""
        fitted = np.empty((3, *y.shape))
        for part, fit in self.fits:
            for whole, of_mode in zip(fitted, fit(y[part]), strict=True):
                whole[part] = of_mode
        return Fitted(*fitted)

    def pull(self, y: FloatArray) -> FloatArray:
        """(m, k) How far each row moves the fit to y at x = 0, over how far it moves the mean."""
        pull = np.empty_like(y)
        for part, fit in self.fits:
            pull[part] = fit.pull(y[part])
        return pull
