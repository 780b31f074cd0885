"""What weighted draws say: weights, means, deviations, probabilities, and the errors of these."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from abctree.answers.weighted import (
    ByParameter,
    Probabilities,
    Weighted,
    error_of,
    room,
    scatter,
)
from abctree.data import effective_sample_size
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords_of_methods, place_of
from abctree.numbers import check_rule, unit_of
from abctree.problem.priors.circles import Direction, circles_of, opened
from abctree.problem.region import Region
from abctree.protocols import Category, Circle, HasCategories
from abctree.types import FloatArray


@checks_keywords_of_methods
class Moments(ByParameter):
    """Estimates from weighted draws; those of `Periodic` parameters go around the circle."""

    theta: FloatArray  #: (m, p)
    log_weights: FloatArray  #: (m,) raw
    names: tuple[str, ...]  #: of the columns of `theta`
    region: Region | None
    slope_error: FloatArray | None

    # Weights --------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> FloatArray:
        """(m,) Weights that sum to one; all 0 if every raw weight is 0."""
        largest = np.max(self.log_weights, initial=-np.inf)
        if largest == -np.inf:
            return np.zeros(len(self.theta))
        weight = np.exp(self.log_weights - largest)
        return np.asarray(weight / weight.sum())

    @cached_property
    def ess(self) -> float:
        """Kish effective sample size, (Σ w)² / Σ w²; 0 without draws."""
        return effective_sample_size(self.weights)

    @property
    def largest_weight(self) -> float:
        """Share of the weight in one draw, in [0, 1]."""
        return float(self.weights.max(initial=0.0))

    # Moments --------------------------------------------------------------------------------

    @property
    def circles(self) -> tuple[Circle, ...]:
        """The `Periodic` parameters, if there are draws."""
        return () if self.region is None or self.ess == 0.0 else circles_of(self.region.prior)

    @cached_property
    def _directions(self) -> dict[int, Direction]:
        """Where the draws of each `Periodic` parameter lie, by its column."""
        return {
            circle.column: Direction.of(self.theta[:, circle.column], self.weights, circle)
            for circle in self.circles
        }

    @cached_property
    def unwrapped(self) -> FloatArray:
        """(m, p) The draws, those of a `Periodic` parameter counted from opposite its mean.

        They lie within half a turn of the mean, perhaps outside of (low, high).
        """
        return opened(self.theta, self.circles, self.mean()) if self.circles else self.theta

    def mean(self) -> FloatArray:
        """(p,) Posterior means, that of a `Periodic` parameter the circular one; nan without draws.

        The circular mean is the direction of the mean of unit vectors.
        """
        if self.ess == 0.0:
            return np.full(self.theta.shape[1], np.nan)
        mean = np.asarray(self.weights @ self.theta)
        for column, direction in self._directions.items():
            mean[column] = direction.mean
        return mean

    def cov(self) -> FloatArray:
        """(p, p) Posterior covariance, Σ w (θ − mean)(θ − mean)ᵀ / (1 − Σ w²).

        For equal weights this is the usual m − 1 in the denominator.  nan with fewer than two
        draws that have weight.  Of a `Periodic` parameter the draws are `unwrapped`.
        """
        return scatter(self.unwrapped, self.weights) / room(self.weights)

    def std(self) -> FloatArray:
        """(p,) Posterior standard deviations; of a `Periodic` parameter the circular.

        It is √(−2 ln R), R the length of the mean of unit vectors: that of a wrapped normal law.
        """
        unit = unit_of(self.unwrapped)  # the square of 1e-200 is 0
        square = np.diag(scatter(self.unwrapped / unit, self.weights)) / room(self.weights)
        std = np.asarray(unit * np.sqrt(square))
        for column, direction in self._directions.items():
            std[column] = direction.std if np.isfinite(std[column]) else np.nan
        return std

    @cached_property
    def _laws(self) -> tuple[Weighted, ...]:
        """The draws of each parameter, sorted."""
        return tuple(Weighted.of(column, self.weights) for column in self.unwrapped.T)

    # Errors ---------------------------------------------------------------------------------

    def mcse(
        self, method: Literal["mean", "std", "quantile"] = "mean", prob: float | None = None
    ) -> FloatArray:
        """(p,) Monte Carlo standard errors: how far an estimate is off for want of draws.

        By the jackknife, from what a mean or a standard deviation would be without one of the
        draws; for a quantile from the error of the weighted distribution function where it may
        lie, carried over to the parameter by the draws on both sides.  It is larger than ``std() /
        √ess``, by a third as a rule, for weights are largest in the tails.  It knows nothing of
        what ε > 0 does to the posterior, nor of a region that no proposal has visited.  For means
        and quantiles of an `adjusted` posterior that of its slopes is in it, to first order.

        Parameters
        ----------
        method : {"mean", "std", "quantile"}
            Of which estimate.
        prob : float, optional
            Level of the quantile, in (0, 1).

        Returns
        -------
        (p,) array
            nan with fewer than two draws that have weight; 0 for a parameter that never varies.

        Raises
        ------
        ParameterError
            If the method is unknown, or `prob` is missing, outside (0, 1) or not asked for.
        """
        check_rule("method", method, '"mean", "std" or "quantile"')
        if (prob is None) == (method == "quantile"):
            raise ParameterError(
                f'`prob` must be given for method="quantile", and for no other, but got {prob} '
                f'with {method!r}. Say mcse("quantile", prob=0.95).'
            )
        if prob is not None:
            check_rule("prob", prob, "in (0, 1)", "Try 0.95.")
        if np.isnan(room(self.weights)):
            return np.full(self.theta.shape[1], np.nan)
        varies = np.ptp(self.theta, axis=0) > 0.0  # the mean of equal values is rounded
        centred = np.where(varies, self.theta - self.mean(), 0.0)
        if method != "std":
            for column, direction in self._directions.items():
                centred[:, column] = direction.influence_on_mean()
            error = error_of(centred, self.weights)
            slopes = np.ones_like(error) if self.slope_error is None else self.slope_error
            if prob is None:
                return np.asarray(error * slopes)
            own = [draws.error_of_quantile(prob) for draws in self._laws]
            return np.hypot(own, error * np.sqrt(slopes**2 - 1.0))
        std, unit = self.std(), unit_of(centred)
        centred, scaled = centred / unit, std / unit
        influence = unit * (centred**2 - scaled**2) / np.where(std > 0.0, 2.0 * scaled, 1.0)
        for column, direction in self._directions.items():
            influence[:, column] = direction.influence_on_std()
        return error_of(influence, self.weights)

    @property
    def categories(self) -> tuple[Category, ...]:
        """The `Categorical` parameters."""
        prior = None if self.region is None else self.region.prior
        return prior.categories if isinstance(prior, HasCategories) else ()

    def probabilities(self, name: str) -> Probabilities:
        """Posterior probabilities of the values of a discrete parameter.

        Parameters
        ----------
        name : str
            Of the parameter.

        Returns
        -------
        Probabilities
            ``.values`` (k,) in increasing order, those of a `Categorical` that never occurred
            included; ``.probability`` (k,), nan without draws; ``.mcse`` (k,), Monte Carlo standard
            errors, nan with fewer than two draws.

        Raises
        ------
        ParameterError
            If there is no parameter of this name.
        """
        j = place_of(name, self.names)
        known = [category.values for category in self.categories if category.column == j]
        values = np.unique(np.append(known[0] if known else (), self.theta[:, j]))
        return Probabilities.of(self.theta[:, j], self.weights, values)
