"""How good a posterior or a proposal is: total variation, maximum mean discrepancy, regret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from scipy.spatial.distance import cdist, pdist

from abctree.data import effective_sample_size as ess
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.protocols import HasValue, Utility
from abctree.tree.utilities import (
    AcceptanceMinusDivergence,
    EffectiveSampleSize,
    PosteriorMatch,
    SamplingEfficiency,
    as_utility,
)
from abctree.types import FloatArray

__all__ = ["ess", "histogram_tv", "mmd", "regret", "total_variation", "utility_value"]

#: ω of (q, η, π).
Value: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], float]
#: Entries of a kernel matrix that are held at once (32 MiB).
_BLOCK = 2**22
#: Rows of the reference that the median heuristic looks at.
_MEDIAN_ROWS = 2000


@checks_keywords
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


@checks_keywords
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


@checks_keywords
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
    # By default the median distance of some pairs.
    h = (
        float(np.median(pdist(y[:: -(-len(y) // _MEDIAN_ROWS)])))
        if bandwidth is None
        else bandwidth
    )
    check_rule("bandwidth", h, "above 0", "Give one if most rows of `y` are equal.")
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


# Regret -----------------------------------------------------------------------------------------


@checks_keywords
def regret(
    proposals: FloatArray,
    eta: FloatArray,
    prior_mass: FloatArray,
    utility: str | Utility = "omega1",
) -> float:
    """Average loss in utility of a sequence of proposals (Equation 10, its expectation over runs).

    ``R_T = ω(q*) − (1/T) Σ_t ω(q_t)`` for the true acceptance rates.  inf when a proposal has the
    utility −inf, as under ω³ one has that plays an arm without acceptances.

    Parameters
    ----------
    proposals : (T, K) array
        q_t, each of sum one.  One proposal (K,) is a sequence of one.
    eta : (K,) array
        True acceptance rates of the arms.
    prior_mass : (K,) array
        π(Ω_k), of sum one.
    utility : str or Utility
        "omega1", "omega2", "omega3", "ess", an object of these kinds, or any other utility that has
        a method ``value(q, eta, prior_mass) -> float`` beside `optimal_proposal`.

    Raises
    ------
    ParameterError
        If shapes disagree, or these are no probabilities, or the utility's value is not known.

    Examples
    --------
    >>> import numpy as np
    >>> prior = np.array([0.5, 0.5])
    >>> loss = regret(prior, np.array([0.1, 0.3]), prior)  # p = (1/4, 3/4), |prior − p|² = 1/8
    >>> round(loss, 9)
    0.125
    """
    q = np.atleast_2d(np.asarray(proposals, dtype=np.float64))
    rate, mass = np.asarray(eta, dtype=np.float64), np.asarray(prior_mass, dtype=np.float64)
    if q.ndim != 2 or rate.shape != mass.shape or q.shape[1:] != rate.shape:
        raise ParameterError(
            "`proposals` must have shape (T, K) for `eta` and `prior_mass` of shape (K,), but got "
            f"{q.shape}, {rate.shape} and {mass.shape}."
        )
    if not (len(q) and (q >= 0.0).all() and np.allclose(q.sum(axis=1), 1.0)):
        raise ParameterError("`proposals` must be probabilities that sum to one, one row a time.")
    rule = as_utility(utility)
    value = utility_value(rule)
    best = value(rule.optimal_proposal(rate, mass), rate, mass)
    return best - float(np.mean([value(row, rate, mass) for row in q]))


@checks_keywords
def utility_value(utility: Utility) -> Value:
    """ω itself, as a function of (q, η, π), rather than its maximiser.

    A method ``value`` of the utility's own wins over the formulas known here.

    Raises
    ------
    ParameterError
        If it is not known.
    """
    if isinstance(utility, HasValue):
        return utility.value
    dial = isinstance(utility, EffectiveSampleSize) and utility.gamma != 0.5
    if type(utility) not in _VALUES or dial:
        raise ParameterError(
            f"`utility` must have a method `value(q, eta, prior_mass)`, but got {utility!r}, whose "
            "value is not known. Give one of its own."
        )
    return _VALUES[type(utility)]


def _posterior(eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
    joint = prior_mass * eta
    return np.asarray(joint / joint.sum())


def _omega1(q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
    """−‖q − p‖²."""
    return -float(((q - _posterior(eta, prior_mass)) ** 2).sum())


def _omega2(q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
    """Σ (q p / π) / Σ (p π / q); 0 where q misses a part of p."""
    p = _posterior(eta, prior_mass)
    lively = p > 0.0
    return float((q[lively] * p[lively] / prior_mass[lively]).sum()) / _dispersion(q, p, prior_mass)


def _omega3(q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
    """log Σ q η − KL(q ‖ p); −inf where q plays what p excludes."""
    p = _posterior(eta, prior_mass)
    played = q > 0.0
    if (p[played] == 0.0).any():
        return -float("inf")
    divergence = float((q[played] * np.log(q[played] / p[played])).sum())
    return float(np.log(q @ eta)) - divergence


def _ess_per_simulation(q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
    """Z / Σ (p π / q), Kish's effective sample size per simulation."""
    return float(prior_mass @ eta) / _dispersion(q, _posterior(eta, prior_mass), prior_mass)


def _dispersion(q: FloatArray, p: FloatArray, prior_mass: FloatArray) -> float:
    """Σ p π / q; inf where q misses a part of p."""
    lively = p > 0.0
    with np.errstate(divide="ignore"):
        return float((p[lively] * prior_mass[lively] / q[lively]).sum())


_VALUES: dict[type, Value] = {
    PosteriorMatch: _omega1,
    SamplingEfficiency: _omega2,
    AcceptanceMinusDivergence: _omega3,
    EffectiveSampleSize: _ess_per_simulation,
}
