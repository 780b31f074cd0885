"""Distances between posteriors: total variation of histograms, and maximum mean discrepancy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist, pdist

from abctree.data import effective_sample_size as ess
from abctree.errors import ParameterError
from abctree.types import FloatArray

__all__ = ["ess", "histogram_tv", "mmd", "total_variation"]

#: Entries of a kernel matrix that are held at once (32 MiB).
_BLOCK = 2**22
#: Rows of the reference that the median heuristic looks at.
_MEDIAN_ROWS = 2000


def total_variation(p: FloatArray, q: FloatArray) -> float:
    """Total variation distance of two histograms, ½ Σ |p − q|, in [0, 1].

    Parameters
    ----------
    p, q : arrays of one shape
        Probabilities of the same cells, >= 0, summing to one or less: what is missing lies outside
        the cells, and counts as one more cell.

    Raises
    ------
    ParameterError
        If shapes differ or these are no probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
    p, q = _probabilities(p, "p"), _probabilities(q, "q")
    if p.shape != q.shape:
        raise ParameterError(f"`p` and `q` must have one shape, but got {p.shape} and {q.shape}.")
    return float((np.abs(p - q).sum() + abs(p.sum() - q.sum())) / 2.0)


def _probabilities(p: FloatArray, name: str) -> FloatArray:
    array = np.asarray(p, dtype=np.float64)
    if not ((array >= 0.0).all() and array.sum() <= 1.0 + 1e-6):
        raise ParameterError(
            f"`{name}` must be probabilities that sum to at most 1, but sums to {array.sum():.6g} "
            f"with smallest {array.min(initial=0.0):.3g}. Divide counts by their total first."
        )
    return array


def histogram_tv(
    theta: FloatArray,
    weight: FloatArray,
    edges: Sequence[FloatArray],
    probabilities: FloatArray,
) -> float:
    """Total variation from the histogram of weighted draws to known cell probabilities.

    Parameters
    ----------
    theta : (m, p) array
        Draws.
    weight : (m,) array
        Weights >= 0, normalised or not.
    edges : sequence of p arrays
        Edges (b_j + 1,) of the bins of each parameter.
    probabilities : (b_1, ..., b_p) array
        The true probabilities of the cells.

    Returns
    -------
    float
        In [0, 1]; 1 without draws, when `probabilities` sums to one.

    Raises
    ------
    ParameterError
        If shapes disagree.
    """
    if np.ndim(theta) != 2 or np.shape(theta)[1] != len(edges):
        raise ParameterError(
            f"`edges` must hold the edges of each of the columns of `theta`, but got {len(edges)} "
            f"for shape {np.shape(theta)}."
        )
    total = float(np.sum(weight))
    shape = tuple(len(e) - 1 for e in edges)
    if total == 0.0:
        return total_variation(np.zeros(shape), probabilities)
    counts = np.histogramdd(theta, bins=[np.asarray(e) for e in edges], weights=weight / total)[0]
    return total_variation(counts, probabilities)


def mmd(
    x: FloatArray,
    y: FloatArray,
    weight_x: FloatArray | None = None,
    weight_y: FloatArray | None = None,
    bandwidth: float | None = None,
) -> float:
    """Squared maximum mean discrepancy MMD² of draws x to a reference y, unbiased.

    The kernel is k(a, b) = exp(−|a − b|² / (2 h²)), after both samples have been standardised by
    the mean and the sd (denominator n) of y.  h is the median distance of pairs of *y* (not of the
    pooled sample), so that all methods compared with one reference are measured by one kernel; it
    is taken from at most 2 000 evenly spaced rows of y.  With weights that sum to one,

        Σ_{i≠j} w_i w_j k(x_i, x_j) / (1 − Σ w²) + (the same of y) − 2 Σ w_i v_j k(x_i, y_j),

    the U-statistic of Gretton et al. (2012) when all weights are equal.  Around 0, and possibly
    negative, for equal laws.

    Parameters
    ----------
    x : (n, p) array
        Draws.  One-dimensional arrays are one column.
    y : (m, p) array
        Reference draws.
    weight_x, weight_y : (n,), (m,) arrays, optional
        Weights >= 0, normalised or not.
    bandwidth : float, optional
        h, in standard deviations of y.

    Returns
    -------
    float
        nan with fewer than two draws that have weight, on either side.

    Raises
    ------
    ParameterError
        If shapes disagree.

    Notes
    -----
    Time O((n + m)²), memory bounded.
    """
    x, y = _columns(x), _columns(y)
    if x.shape[1] != y.shape[1]:
        raise ParameterError(
            f"`x` and `y` must have the same columns, but got shapes {x.shape} and {y.shape}."
        )
    w, v = _normalised(weight_x, len(x)), _normalised(weight_y, len(y))
    if np.count_nonzero(w) < 2 or np.count_nonzero(v) < 2:
        return float("nan")
    mean = v @ y
    sd = np.sqrt(v @ (y - mean) ** 2)
    sd = np.where(sd > 0.0, sd, 1.0)
    x, y = (x - mean) / sd, (y - mean) / sd
    h = _median_distance(y) if bandwidth is None else bandwidth
    if not h > 0.0:
        raise ParameterError(
            f"`bandwidth` must be above 0, but got {h}. Give one if most rows of `y` are equal."
        )
    return _within(x, w, h) + _within(y, v, h) - 2.0 * _mean_kernel(x, w, y, v, h)


def _columns(x: FloatArray) -> FloatArray:
    array = np.asarray(x, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ParameterError(f"Draws must have shape (n, p), but got {array.shape}.")
    return array


def _normalised(weight: FloatArray | None, n: int) -> FloatArray:
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    if w.shape != (n,) or not (w >= 0.0).all():
        raise ParameterError(
            f"Weights must be at least 0, one for each of {n} draws, but got shape {w.shape}."
        )
    total = w.sum()
    return w / total if total > 0.0 else w


def _median_distance(y: FloatArray) -> float:
    step = -(-len(y) // _MEDIAN_ROWS)
    return float(np.median(pdist(y[::step])))


def _within(x: FloatArray, w: FloatArray, h: float) -> float:
    """Mean kernel of two different draws."""
    same = float(w @ w)
    return (_mean_kernel(x, w, x, w, h) - same) / (1.0 - same)


def _mean_kernel(x: FloatArray, w: FloatArray, y: FloatArray, v: FloatArray, h: float) -> float:
    rows = max(1, _BLOCK // max(1, len(y)))
    total = 0.0
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        kernel = np.exp(cdist(x[part], y, "sqeuclidean") / (-2.0 * h * h))
        total += float(w[part] @ kernel @ v)
    return total
