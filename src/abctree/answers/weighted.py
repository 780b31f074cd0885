"""What weighted values say of one parameter: quantiles, intervals, Monte Carlo standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import betaincinv, ndtr

from abctree.keywords import checks_keywords_of_methods
from abctree.numbers import check_rule, checked_levels, unit_of
from abctree.types import FloatArray

#: Levels of a cumulative weight are compared with this much room for rounding.
ROUNDING = 1e-12
#: Levels of the mean, and of one standard deviation to either side of it.
_ONE_SD = ndtr([-1.0, 0.0, 1.0])


class OneParameter(Protocol):
    """The law of one parameter."""

    def quantile(self, level: FloatArray) -> FloatArray:
        """The smallest values below which there is as much: (k,) -> (k,); nan without any."""

    def shortest(self, mass: float) -> tuple[float, float]:
        """The ends of the first of the shortest intervals that hold so much; nan without any."""


@checks_keywords_of_methods
class ByParameter:
    """Quantiles and intervals of each parameter, from its law."""

    @property
    def _laws(self) -> Sequence[OneParameter]:
        raise NotImplementedError

    def quantile(self, q: float | Sequence[float] | FloatArray) -> FloatArray:
        """Quantiles of each parameter: the smallest value with P(θ_j <= value) >= q.

        Parameters
        ----------
        q : float or (k,) array_like
            Levels in [0, 1].

        Returns
        -------
        (p,) or (k, p) array
            nan without draws.

        Raises
        ------
        ParameterError
            If a level is outside [0, 1].
        """
        level = checked_levels(q)
        columns = [law.quantile(level.ravel()) for law in self._laws]
        return np.reshape(np.transpose(columns), (*level.shape, len(columns)))

    def hdi(self, mass: float = 0.9) -> FloatArray:
        """(p, 2) The shortest interval of each parameter that holds `mass` of the posterior.

        The first of several equally short ones; nan without draws.

        Parameters
        ----------
        mass : float
            In (0, 1].
        """
        check_rule("mass", mass, "in (0, 1]", "Try 0.9.")
        return np.array([law.shortest(mass) for law in self._laws]).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Values with weights, sorted."""

    value: FloatArray  #: (m,)
    cumulative: FloatArray  #: (m,) weight up to and with each of them; the last is 1

    @classmethod
    def of(cls, value: FloatArray, weight: FloatArray) -> Weighted:
        """Sort those of values (m,) that have weight."""
        kept = weight > 0.0
        order = np.argsort(value[kept], kind="stable")
        cumulative = np.cumsum(weight[kept][order])
        return cls(value[kept][order], cumulative / cumulative[-1:])

    def cdf(self, x: FloatArray) -> FloatArray:
        """P(value <= x), of the shape of x."""
        return np.append(0.0, self.cumulative)[np.searchsorted(self.value, x, side="right")]

    def quantile(self, level: FloatArray) -> FloatArray:
        """Quantiles that are values, of the shape of `level`."""
        if len(self.value) == 0:
            return np.full(level.shape, np.nan)
        return np.asarray(self.value[np.searchsorted(self.cumulative, level - ROUNDING)])

    def shortest(self, mass: float) -> tuple[float, float]:
        """The shortest interval, from a value to a value."""
        if len(self.value) == 0:
            return np.nan, np.nan
        before = np.concatenate([[0.0], self.cumulative[:-1]])
        end = np.searchsorted(self.cumulative, before + mass - ROUNDING)
        start = np.flatnonzero(end < len(self.value))
        best = start[np.argmin(self.value[end[start]] - self.value[start])]
        return float(self.value[best]), float(self.value[end[best]])

    def error_of_quantile(self, prob: float) -> float:
        """Standard error of the quantile at the level `prob`, in (0, 1).

        The distance from the mean of the draws within one standard error of the level below it to
        that of those above it: the error of the level times the slope of the quantile function,
        from all draws about it.  Levels are those of a beta distribution after as many equal draws
        as would know the weighted distribution function there as well: inside (0, 1), however few
        the draws.
        """
        n = prob * (1.0 - prob) / self.error_of_level(prob) ** 2
        levels = betaincinv(n * prob + 1.0, n * (1.0 - prob) + 1.0, _ONE_SD)
        # A gap between draws has the share of both sides that it parts.
        share = np.interp(self.cumulative[:-1], levels, [0.0, 1.0, 0.0])
        return float(np.diff(self.value) @ share)

    def error_of_level(self, prob: float) -> float:
        """Error of the distribution function at the true quantile, the root of an average.

        With a quantile at θ it is √(Σ w² (1[θ_i ≤ θ] − prob)² / (1 − Σ w²)).  At the quantile of
        the draws it comes out too small: this one is short just where heavy draws beyond it are
        missing.  So it is averaged over the gaps between draws where the true quantile may lie.
        """
        last = np.append(self.value[1:] > self.value[:-1], True)  # equal draws have no gap
        level = np.append(0.0, self.cumulative[last])
        below = np.append(0.0, np.cumsum(np.diff(self.cumulative, prepend=0.0) ** 2)[last])
        total = below[-1]
        variance = ((1.0 - prob) ** 2 * below + prob**2 * (total - below)) / (1.0 - total)
        error = np.sqrt(prob * (1.0 - prob) * total)  # as if weights had nothing to do with θ
        for _ in range(2):
            chance = np.diff(ndtr((level - prob) / error))
            error = np.sqrt(chance @ (variance[1:] + variance[:-1]) / 2.0 / chance.sum())
        return float(error)


def room(weight: FloatArray) -> float:
    """1 − Σ w² of weights (m,) that sum to one; nan with fewer than two draws that have weight."""
    left = 1.0 - float(weight @ weight)
    return left if np.count_nonzero(weight) > 1 and left > 0.0 else np.nan


def error_of(influence: FloatArray, weight: FloatArray) -> FloatArray:
    """√((1 − Σ w²) Σ (w f / (1 − w))²) of influences f (m, ...) and weights (m,) that sum to one.

    An estimate that moves with its independent draws by Σ w f has this error, to first order: the
    jackknife, for without a draw it would be off by w f / (1 − w).  For equal weights and f = θ −
    mean it is s / √m.
    """
    share, unit = weight / (1.0 - weight), unit_of(influence)
    return np.asarray(unit * np.sqrt(room(weight) * (share**2 @ (influence / unit) ** 2)))


def scatter(theta: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ w (θ − mean)(θ − mean)ᵀ for weights that sum to one; 0 and inf where floats end."""
    centred = theta - theta[:1]  # so that what never varies is exactly 0
    centred -= weight @ centred
    unit = unit_of(centred)
    centred /= unit
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray((centred * weight[:, None]).T @ centred * unit * unit[:, None])


def root_of(scatter: FloatArray) -> FloatArray:
    """R with R Rᵀ = scatter, through the correlation: units may differ by many powers of ten."""
    sd = np.sqrt(np.diag(scatter))
    value, vector = np.linalg.eigh(scatter / sd[:, None] / sd[None, :])
    return np.asarray(sd[:, None] * vector * np.sqrt(np.maximum(value, 0.0)))


def log_of(weight: FloatArray) -> FloatArray:
    """Logarithms of weights >= 0; -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weight))


class Probabilities(NamedTuple):
    """Probabilities of the values of one parameter."""

    values: FloatArray  #: (k,) in increasing order
    probability: FloatArray  #: (k,) sums to one; nan without draws
    mcse: FloatArray  #: (k,) Monte Carlo standard errors

    @classmethod
    def of(cls, draws: FloatArray, weight: FloatArray, values: FloatArray) -> Probabilities:
        """Of draws (m,) with weights (m,), all of which are among the values (k,)."""
        hit = (draws[:, None] == values).astype(np.float64)
        if not weight.any():
            return cls(values, np.full(len(values), np.nan), np.full(len(values), np.nan))
        probability = weight @ hit
        if np.isnan(room(weight)):
            return cls(values, probability, np.full(len(values), np.nan))
        # As after as many equal draws without a hit, by a uniform prior: not 0 for want of draws.
        least = 1.0 / (1.0 / (weight @ weight) + 2.0) if len(values) > 1 else 0.0
        return cls(values, probability, np.maximum(error_of(hit - probability, weight), least))
