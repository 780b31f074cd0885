"""Distances between summaries, or between whole samples, on a batch of simulations.

Each takes ``simulated (n, ...)`` and ``observed (...)`` and returns ``(n,)``.  A row with nan gets
nan or inf, and touches no other row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeGuard

import numpy as np

from abctree.errors import SimulatorError, warn
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.problem import distance_arithmetic as arrays
from abctree.problem.form import floats
from abctree.protocols import Distance, LearnedDistance, StandardisedDistance
from abctree.threads import releases_lock
from abctree.types import FloatArray, IntArray

__all__ = [
    "Energy",
    "Euclidean",
    "FunctionDistance",
    "Mahalanobis",
    "Minkowski",
    "Scaled",
    "Wasserstein",
]

#: The median absolute deviation of a normal law is its sd divided by this.
_MAD_TO_SD = 1.4826022185056018


# Vectors of summaries ---------------------------------------------------------------------------


@checks_keywords
@releases_lock
@dataclass(frozen=True)
class Euclidean:
    """Euclidean distance √Σ (s − s_obs)² of summaries; arrays of any shape are flattened.

    Examples
    --------
    >>> import numpy as np
    >>> Euclidean()(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2))
    array([5., 1.])
    """

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return arrays.euclidean(simulated, observed)

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """Differences (n, m) whose norm is the distance."""
        return arrays.differences(simulated, observed)


@checks_keywords
@releases_lock
@dataclass(frozen=True)
class Minkowski:
    """Minkowski distance (Σ |s − s_obs|^p)^(1/p).

    Parameters
    ----------
    p : float
        At least 1; 1 is "manhattan", inf is "chebyshev" (the largest difference).
    """

    p: float = ruled(2.0, "at least 1")

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return arrays.norm(arrays.differences(simulated, observed), self.p)


@checks_keywords
@releases_lock
@dataclass(frozen=True, eq=False)
class Scaled:
    """Minkowski distance of summaries divided by their spread in pilot simulations.

    The distance does not change when a summary changes its unit.  The scale is fixed once, from
    the pilot: a run never recalibrates it.

    Parameters
    ----------
    by : {"mad", "std"}
        Median absolute deviation times 1.4826 (the sd of a normal law; robust to the wild
        simulations that a wide prior produces), or standard deviation.
    p : float
        Order of the Minkowski distance, at least 1.
    scale : (m,) array_like, optional
        Positive scales, if they are known; otherwise call `fitted`.

    Raises
    ------
    ParameterError
        If an argument breaks its rule, or when called before `fitted`.
    """

    by: Literal["mad", "std"] = ruled("mad", '"mad" or "std"')
    p: float = ruled(2.0, "at least 1")
    scale: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", arrays.positive(self.scale))

    def of_entries(self, keep: IntArray, n: int) -> Scaled:
        """The same for some of n summaries."""
        if self.scale is None or len(self.scale) != n:
            return self
        return replace(self, scale=self.scale[keep])

    @property
    def is_fitted(self) -> bool:
        """Whether the scales are known."""
        return self.scale is not None

    def fitted(self, simulated: FloatArray) -> Scaled:
        """The distance with the scales of pilot summaries (n, ...).

        Rows with a value that is not finite are ignored.  A summary that never varies gets scale 1
        and an `AbctreeWarning`; one with more than half of its values equal, whose MAD is 0, is
        scaled by its standard deviation, again with a warning.  Scales that are known are kept.

        Raises
        ------
        SimulatorError
            If no row is finite.
        """
        if self.is_fitted:
            return self
        rows = arrays.usable_rows(simulated)
        deviation = arrays.deviations(rows)
        scale = deviation
        if self.by == "mad":
            centred = np.abs(rows - np.median(rows, axis=0))
            scale = _MAD_TO_SD * np.median(centred, axis=0)
            tied = (scale == 0.0) & (deviation > 0.0)
            if tied.any():
                warn(
                    f"{arrays.listed(tied)}: more than half of the pilot's values are equal, so "
                    "the MAD is 0; the standard deviation is used. "
                    'Use distance="std" to have it for all.'
                )
            scale = np.where(tied, deviation, scale)
        return replace(self, scale=arrays.ones_where_constant(scale))

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return arrays.norm(self._scaled(simulated, observed), self.p)

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray | None:
        """Differences (n, m) whose Euclidean norm is the distance; None if it is another norm."""
        return self._scaled(simulated, observed) if self.p == 2.0 else None

    def _scaled(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        scale, difference = arrays.to_be_scaled("Scaled", self.scale, simulated, observed)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(difference / scale)


@checks_keywords
@releases_lock
@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """Mahalanobis distance √((s − s_obs)ᵀ C⁻¹ (s − s_obs)).

    It does not change under any invertible linear map of the summaries.  A covariance that is
    nearly singular is inverted on the directions that it knows (pseudo-inverse of the correlation
    matrix), with an `AbctreeWarning`: differences along the others count nothing.

    Parameters
    ----------
    cov : (m, m) array_like, optional
        Covariance of the summaries; if None it is that of the pilot, see `fitted`.

    Raises
    ------
    ParameterError
        If `cov` is not a covariance matrix, or when called before `fitted`.
    """

    cov: FloatArray | None = None
    _root: FloatArray | None = field(default=None, init=False, repr=False)  # W, C⁻¹ = W Wᵀ

    def __post_init__(self) -> None:
        if self.cov is not None:
            cov = arrays.covariance(self.cov)
            object.__setattr__(self, "cov", cov)
            object.__setattr__(self, "_root", arrays.whitening(cov))

    def of_entries(self, keep: IntArray, n: int) -> Mahalanobis:
        """The same for some of n summaries."""
        if self.cov is None or len(self.cov) != n:
            return self
        return Mahalanobis(self.cov[np.ix_(keep, keep)])

    @property
    def is_fitted(self) -> bool:
        """Whether the covariance is known."""
        return self.cov is not None

    def fitted(self, simulated: FloatArray) -> Mahalanobis:
        """The distance with the covariance of pilot summaries (n, ...).

        Rows with a value that is not finite are ignored.  A summary that never varies gets
        variance 1 and an `AbctreeWarning`.  A covariance that is known is kept.

        Raises
        ------
        SimulatorError
            If fewer than two rows are finite.
        """
        if self.is_fitted:
            return self
        rows = arrays.usable_rows(simulated, at_least=2)
        scale = arrays.ones_where_constant(arrays.deviations(rows))
        # Standardised first: a product of two units may overflow.
        correlation = np.atleast_2d(np.cov((rows - rows.mean(axis=0)) / scale, rowvar=False))
        constant = np.diag(correlation) == 0.0
        correlation[constant, constant] = 1.0
        return Mahalanobis(correlation * np.outer(scale, scale))

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return arrays.norm(self.standardised(simulated, observed), 2.0)

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """Differences (n, m) whose norm is the distance."""
        root, difference = arrays.to_be_scaled("Mahalanobis", self._root, simulated, observed)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(difference @ root)


# Samples ----------------------------------------------------------------------------------------


@checks_keywords
@releases_lock
@dataclass(frozen=True)
class Energy:
    """Energy distance of two samples, √(2 E|X−Y| − E|X−X'| − E|Y−Y'|) (Székely and Rizzo 2004).

    For data that are independent observations, when no summary is at hand: it is 0 only for equal
    empirical laws and ignores the order of the observations.  Called directly, it takes an
    observed sample of another size; in a `Problem` all samples have the size of the observation.

    For one-dimensional observations it is computed exactly in O((m + m') log(m + m')) a row, as
    √(2 ∫ (F − G)²); for k > 1 from all pairs.  Scale the coordinates of vectors beforehand.
    """

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """Simulated (n, m) or (n, m, k), observed (m',) or (m', k) -> (n,)."""
        x, y = arrays.paired(simulated, observed)
        usable = np.isfinite(x).all(axis=(1, 2))
        squared = np.full(len(x), np.nan)
        one = x.shape[2] == 1
        squared[usable] = (
            arrays.energy_line(x[usable, :, 0], y[:, 0]) if one else arrays.energy(x[usable], y)
        )
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


@checks_keywords
@releases_lock
@dataclass(frozen=True)
class Wasserstein:
    """Wasserstein distance of order p of two samples.

    Called directly, it takes an observed sample of another size; in a `Problem` all samples have
    the size of the observation.

    One-dimensional observations: exact, (∫ |F⁻¹ − G⁻¹|^p)^(1/p), from sorted values.  Vectors: the
    sliced distance, the p-mean of the exact one over fixed random directions.  Scale the
    coordinates of vectors beforehand.

    Parameters
    ----------
    p : float
        Order, finite and at least 1.
    n_directions : int
        Directions for vectors.
    seed : int
        Seed of the directions; they are the same in every call.
    """

    p: float = ruled(1.0, "in [1, inf)")
    n_directions: int = ruled(50, "a whole number of at least 1")
    seed: int = ruled(0, "a whole number of at least 0")

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """Simulated (n, m) or (n, m, k), observed (m',) or (m', k) -> (n,)."""
        x, y = arrays.paired(simulated, observed)
        usable = np.isfinite(x).all(axis=(1, 2))
        power = np.full(len(x), np.nan)
        slices = [
            arrays.wasserstein_line(x[usable] @ u, y @ u, self.p)
            for u in arrays.directions(self.n_directions, x.shape[2], self.seed)
        ]
        power[usable] = np.mean(slices, axis=0)
        return np.asarray(power ** (1.0 / self.p))


# What a distance has, or has not yet -------------------------------------------------------------


def lacks_scale(distance: Distance) -> TypeGuard[LearnedDistance]:
    """Whether it takes a scale from the pilot, and has none yet."""
    return isinstance(distance, LearnedDistance) and not distance.is_fitted


def standardised(
    distance: Distance, simulated: FloatArray, observed: FloatArray
) -> FloatArray | None:
    """Differences (n, m) whose Euclidean norm is the distance; None if it is no such norm."""
    if not isinstance(distance, StandardisedDistance):
        return None
    return distance.standardised(simulated, observed)


# Functions --------------------------------------------------------------------------------------


@checks_keywords
@dataclass(frozen=True, eq=False)
class FunctionDistance:
    """A user's function as a distance.

    Parameters
    ----------
    function : callable
        Of one pair of summaries ``(...), (...) -> float``, or, `vectorized`, of a batch
        ``(n, ...), (...) -> (n,)``.
    vectorized : bool
        Which of the two it is.

    Raises
    ------
    SimulatorError
        When called, if the function returns another shape.
    """

    function: Callable[..., object]
    vectorized: bool = False

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        if self.vectorized:
            return arrays.one_each(
                self._numbers(self.function(simulated, observed)), len(simulated)
            )
        distance = np.empty(len(simulated))
        for i, row in enumerate(simulated):
            value = self._numbers(self.function(row, observed))
            if value.size != 1:
                raise SimulatorError(
                    f"distance returned shape {value.shape} for one simulation; it must be a "
                    "number."
                )
            distance[i] = value.item()
        return distance

    @staticmethod
    def _numbers(value: object) -> FloatArray:
        try:
            return floats(value, "distance")
        except (TypeError, ValueError):
            raise SimulatorError(
                f"distance must return numbers, but returned {value!r} ({type(value).__name__})."
            ) from None
