"""The evidence at a tolerance, Z(ε) = P(d < ε), with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords_of_methods
from abctree.markup import page, title
from abctree.numbers import check_rule
from abctree.types import FloatArray, IntArray

#: The interval looks at this many times as many draws as were accepted for weights that may come.
_NEARBY = 2
#: Relative errors are not taken to be smaller: the gamma law would be a spike.
_SMALLEST = 1e-7


@checks_keywords_of_methods
@dataclass(frozen=True, repr=False)
class Evidence:
    """Estimate of Z(ε), the prior probability of a distance below ε.

    Ratios of evidences of two models at one ε, with the same summaries and distance, are ABC Bayes
    factors; the number alone depends on the distance.
    """

    epsilon: float
    estimate: float  #: Z(ε); 0 when nothing was accepted, nan without simulations
    standard_error: float  #: one sd of `estimate`; nan when nothing was accepted
    n_accepted: int  #: rows with a distance below ε and a positive weight
    n_simulations: int  #: T
    largest_weight: float = 1.0  #: of all rows; 1 when all are prior draws
    by_fold: tuple[float, ...] = ()  #: the estimate of each fold, when folds were given
    nearby_weight: float = 1.0  #: largest weight of the closest rows, twice as many as accepted

    def __str__(self) -> str:
        if self.estimate > 0.0:
            return f"{self.estimate:.3g} ± {self.standard_error:.1g}"
        if self._is_unknown:
            return "unknown, for nothing was simulated"
        return f"below {self.interval(0.95)[1]:.2g} (95 %)"

    def __repr__(self) -> str:
        return (
            f"Evidence({self}; epsilon {self.epsilon:.4g}, {self.n_accepted} of "
            f"{self.n_simulations} simulations accepted)"
        )

    def _repr_html_(self) -> str:
        return page(title(repr(self)))

    @property
    def _is_unknown(self) -> bool:
        """Whether there is no draw, as of a model that was never simulated."""
        return self.n_simulations == 0 or self.largest_weight == 0.0

    @property
    def log_estimate(self) -> float:
        """Logarithm of Z; -inf when nothing was accepted."""
        return float(np.log(self.estimate)) if self.estimate != 0.0 else -np.inf

    @property
    def relative_error(self) -> float:
        """Standard error of log Z, to first order; nan when nothing was accepted."""
        return self.standard_error / self.estimate if self.estimate > 0.0 else np.nan

    def interval(self, level: float = 0.95, *, log: bool = False) -> tuple[float, float]:
        """An interval for Z, or for log Z.

        That of Fay and Feuer (1997) for weighted counts: a gamma law that has the mean and variance
        of the estimate below, and above it one that has seen one draw more, with the largest weight
        among the closest `2 n_accepted` rows.  For equal weights it is the exact interval of a
        Poisson rate.  Where weights are uneven a low estimate is one that heavy draws are missing
        from, and so is its standard error: a symmetric interval misses the truth above it.

        It does not reach above 1, or the estimate if that is larger.  When nothing was accepted it
        is ``(0, -log(1 - level) · largest_weight / T)``, the rule of three (3 / T at 95 % for prior
        draws): a region where the proposals have at least 1 / largest_weight of the prior's density
        cannot hold more.

        Parameters
        ----------
        level : float
            Coverage, in (0, 1).
        log : bool
            Whether to give the ends for log Z.

        Returns
        -------
        lower, upper : float
        """
        check_rule("level", level, "in (0, 1)", "Try 0.95.")
        low, high = self._interval(level)
        if not log:
            return low, high
        return float(np.log(low)) if low > 0.0 else -np.inf, float(np.log(high))

    def _interval(self, level: float) -> tuple[float, float]:
        if self.estimate > 0.0:
            tail = (1.0 - level) / 2.0
            more = self.nearby_weight / self.n_simulations / self.estimate
            variance = max(self.relative_error, _SMALLEST) ** 2
            low = self.estimate * _gamma(tail, 1.0, variance)
            high = self.estimate * _gamma(1.0 - tail, 1.0 + more, variance + more**2)
            return low, min(max(1.0, self.estimate), high)
        if self._is_unknown:
            return 0.0, 1.0
        return 0.0, min(1.0, -np.log1p(-level) * self.largest_weight / self.n_simulations)


def _gamma(level: float, mean: float, variance: float) -> float:
    """Quantile of a gamma law."""
    return float(gammaincinv(mean**2 / variance, level) * variance / mean)


def evidence(
    distance: FloatArray,
    weight: FloatArray,
    epsilon: float,
    *,
    relative_error: float = 0.0,
    fold: IntArray | None = None,
    n_simulations: int | None = None,
    n_candidates: Sequence[float] = (),
) -> Evidence:
    """Z(ε) = (1/T) Σ w_i 1[d_i < ε] over all T simulations, failures included.

    The standard error is that of the mean of w · 1[d < ε], from its sample variance over all rows;
    where all were accepted, with a rejection imagined that has not come yet.
    Points that proposals refused before they were simulated are drawn, too, and worth 0: where
    `n_candidates` of each fold were looked at, the variance is over these.  Rows that the run
    stratified (rounds, folds) make the true error a little smaller.  It cannot know of a region
    that no proposal has visited.

    Distances (T,) and raw weights (T,) are those of *all* simulations, or of the closest of
    `n_simulations`: the others count as rejected.  The `relative_error` of a normaliser that stands
    in every weight, such as the share of the prior that a constraint leaves, is added in
    quadrature.  With the `fold` (T,) of each row, which must then be all, the variance is taken
    within folds, and the estimate of each fold is kept in `by_fold`.
    """
    check_rows(distance, weight)
    check_epsilon(epsilon)
    accepted = (distance < epsilon) & (weight > 0.0)
    reward = np.where(accepted, weight, 0.0)
    label = np.zeros(len(reward), dtype=np.int64) if fold is None else fold
    groups = [reward[label == f] for f in np.unique(label)]
    n = len(reward) if n_simulations is None else n_simulations
    groups = groups if n == len(reward) else [reward]
    estimate = float(reward.sum() / n) if n else np.nan
    drawn = n_candidates if len(n_candidates) == len(groups) else np.zeros(len(groups))
    refused = [max(m - len(g), n - len(reward)) for m, g in zip(drawn, groups, strict=True)]
    variance = sum(map(_variance_of_sum, groups, refused)) / max(1, n) ** 2
    total = float(np.sqrt(variance + (relative_error * estimate) ** 2))
    return Evidence(
        epsilon=float(epsilon),
        estimate=estimate,
        standard_error=total if accepted.any() else np.nan,
        n_accepted=int(accepted.sum()),
        n_simulations=n,
        largest_weight=float(weight.max(initial=0.0)),
        nearby_weight=_nearby_weight(distance, weight, int(accepted.sum())),
        by_fold=() if fold is None else tuple(float(g.mean()) for g in groups),
    )


class Gap(NamedTuple):
    """An estimate of Z(ε) less another by the same draws, and the standard error of that."""

    difference: float
    error: float


def gap_between(distance: FloatArray, weight: FloatArray, other: FloatArray, epsilon: float) -> Gap:
    """The estimate by `weight` (T,) less that by `other` weights of the same rows.

    They share their draws: the error is that of the mean of (w − w') · 1[d < ε], and not the two
    errors in quadrature.  A few heavy draws that make a difference make its error as large.
    """
    gap = np.where(distance < epsilon, weight - other, 0.0)
    n = max(1, len(gap))
    return Gap(float(gap.sum()) / n, float(np.sqrt(_variance_of_sum(gap, 0))) / n)


def _nearby_weight(distance: FloatArray, weight: FloatArray, n_accepted: int) -> float:
    """Largest weight of the closest rows that have any."""
    rows = np.flatnonzero(np.isfinite(distance) & (weight > 0.0))
    n = _NEARBY * n_accepted
    if n < len(rows):
        rows = rows[np.argpartition(distance[rows], n)[:n]]
    return float(weight[rows].max(initial=0.0))


def _variance_of_sum(reward: FloatArray, rejected: float) -> float:
    """Variance of the sum over independent rows, some of them rejected and not given.

    A single row says nothing of its spread, so its size stands for it.  Where no row was rejected
    the rows do not show how often that happens: it is taken to be one in n + 2, as for a share of
    which one more success and one more failure are imagined.
    """
    n = len(reward) + rejected
    if n <= 1:
        return float((reward**2).sum())
    mean = float(reward.sum()) / n
    squares = float(((reward - mean) ** 2).sum()) + rejected * mean**2
    unseen = 0.0 if rejected or not reward.all() else n * mean**2 * (n + 1.0) / (n + 2.0) ** 2
    return n * squares / (n - 1) + unseen


def check_rows(distance: FloatArray, weight: FloatArray) -> None:
    """Raise `ParameterError` unless there is one usable weight for each distance."""
    if np.ndim(distance) != 1 or np.shape(distance) != np.shape(weight):
        raise ParameterError(
            "`distance` and `weight` must be one-dimensional and of one length, but got shapes "
            f"{np.shape(distance)} and {np.shape(weight)}. Give all simulations, failures included."
        )
    if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
        raise ParameterError("`weight` must be finite and at least 0.")


def check_epsilon(epsilon: float) -> None:
    """Raise `ParameterError` unless `epsilon` is a tolerance."""
    check_rule("epsilon", epsilon, "above 0", "A distance is accepted if it is below.")
