"""Distances between summaries, or between whole samples, on a batch of simulations.

Each takes ``simulated (n, ...)`` and ``observed (...)`` and returns ``(n,)``.  A row with nan gets
nan or inf, and touches no other row.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
from scipy.spatial.distance import cdist, pdist

from abctree.errors import AbctreeWarning, ParameterError, SimulatorError
from abctree.parts.simulators import floats
from abctree.protocols import Distance
from abctree.types import BoolArray, FloatArray, IntArray

#: The median absolute deviation of a normal law is its sd divided by this.
_MAD_TO_SD = 1.4826022185056018
#: Eigenvalues of a correlation matrix below this share of the largest count as zero.
_SINGULAR = 1e-10


# Vectors of summaries ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Euclidean:
    """Euclidean distance √Σ (s − s_obs)² of summaries; arrays of any shape are flattened.

    Examples
    --------
    >>> import numpy as np
    >>> Euclidean()(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2))
    array([5., 1.])
    """

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return _norm(_difference(simulated, observed), 2.0)


@dataclass(frozen=True)
class Minkowski:
    """Minkowski distance (Σ |s − s_obs|^p)^(1/p).

    Parameters
    ----------
    p : float
        At least 1; 1 is "manhattan", inf is "chebyshev" (the largest difference).

    Raises
    ------
    ParameterError
        If `p` is below 1 or nan.
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        _check_order(self.p)

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return _norm(_difference(simulated, observed), self.p)


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

    by: Literal["mad", "std"] = "mad"
    p: float = 2.0
    scale: FloatArray | None = None

    def __post_init__(self) -> None:
        _check_order(self.p)
        if self.by not in {"mad", "std"}:
            raise ParameterError(f'`by` must be "mad" or "std", but got {self.by!r}.')
        if self.scale is not None:
            object.__setattr__(self, "scale", _positive(self.scale))

    @property
    def is_fitted(self) -> bool:
        """Whether the scales are known."""
        return self.scale is not None

    def fitted(self, simulated: Any) -> Scaled:
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
        rows = _finite_rows(simulated)
        deviation = _deviation(rows)
        scale = deviation
        if self.by == "mad":
            centred = np.abs(rows - np.median(rows, axis=0))
            scale = _MAD_TO_SD * np.median(centred, axis=0)
            tied = (scale == 0.0) & (deviation > 0.0)
            if tied.any():
                _warn(
                    f"{_listed(tied)}: more than half of the pilot's values are equal, so the MAD "
                    'is 0; the standard deviation is used. Use distance="std" to have it for all.'
                )
            scale = np.where(tied, deviation, scale)
        return replace(self, scale=_ones_where_constant(scale))

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        if self.scale is None:
            raise _unfitted("Scaled")
        difference = _difference(simulated, observed)
        _check_length(self.scale, difference)
        with np.errstate(over="ignore", invalid="ignore"):
            return _norm(difference / self.scale, self.p)


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
            cov = _covariance(self.cov)
            object.__setattr__(self, "cov", cov)
            object.__setattr__(self, "_root", _whitening(cov))

    @property
    def is_fitted(self) -> bool:
        """Whether the covariance is known."""
        return self.cov is not None

    def fitted(self, simulated: Any) -> Mahalanobis:
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
        rows = _finite_rows(simulated, at_least=2)
        scale = _ones_where_constant(_deviation(rows))
        # Standardised first: a product of two units may overflow.
        correlation = np.atleast_2d(np.cov((rows - rows.mean(axis=0)) / scale, rowvar=False))
        constant = np.diag(correlation) == 0.0
        correlation[constant, constant] = 1.0
        return Mahalanobis(correlation * np.outer(scale, scale))

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        if self._root is None:
            raise _unfitted("Mahalanobis")
        difference = _difference(simulated, observed)
        _check_length(self._root, difference)
        with np.errstate(over="ignore", invalid="ignore"):
            return _norm(difference @ self._root, 2.0)


# Samples ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Energy:
    """Energy distance of two samples, √(2 E|X−Y| − E|X−X'| − E|Y−Y'|) (Székely and Rizzo 2004).

    For data that are independent observations, when no summary is at hand: it is 0 only for equal
    empirical laws and ignores the order of the observations.  The samples may differ in size.

    For one-dimensional observations it is computed exactly in O((m + m') log(m + m')) a row, as
    √(2 ∫ (F − G)²); for k > 1 from all pairs.  Scale the coordinates of vectors beforehand.
    """

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """Simulated (n, m) or (n, m, k), observed (m',) or (m', k) -> (n,)."""
        x, y = _samples(simulated, observed)
        usable = np.isfinite(x).all(axis=(1, 2))
        squared = np.full(len(x), np.nan)
        one = x.shape[2] == 1
        squared[usable] = _energy_line(x[usable, :, 0], y[:, 0]) if one else _energy(x[usable], y)
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


@dataclass(frozen=True)
class Wasserstein:
    """Wasserstein distance of order p of two samples, which may differ in size.

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

    Raises
    ------
    ParameterError
        If an argument breaks its rule.
    """

    p: float = 1.0
    n_directions: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        _check_order(self.p)
        if np.isinf(self.p):
            raise ParameterError("`p` must be finite, but got inf.")
        if self.n_directions < 1:
            raise ParameterError(f"`n_directions` must be at least 1, but got {self.n_directions}.")

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """Simulated (n, m) or (n, m, k), observed (m',) or (m', k) -> (n,)."""
        x, y = _samples(simulated, observed)
        usable = np.isfinite(x).all(axis=(1, 2))
        power = np.full(len(x), np.nan)
        directions = self._directions(x.shape[2])
        slices = [_wasserstein_line(x[usable] @ u, y @ u, self.p) for u in directions]
        power[usable] = np.mean(slices, axis=0)
        return np.asarray(power ** (1.0 / self.p))

    def _directions(self, k: int) -> FloatArray:
        if k == 1:
            return np.ones((1, 1))
        u = np.random.default_rng(self.seed).standard_normal((self.n_directions, k))
        return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


# Functions and names ----------------------------------------------------------------------------


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

    function: Callable[..., Any]
    vectorized: bool = False

    def __call__(self, simulated: Any, observed: Any) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        n = len(simulated)
        if not self.vectorized:
            return np.array([self._one(row, observed) for row in simulated], dtype=np.float64)
        value = self._numbers(self.function(simulated, observed))
        if value.shape != (n,):
            raise SimulatorError(
                f"distance returned shape {value.shape} for {n} simulations; it must be ({n},). "
                "Reduce over all axes but the first, as in np.abs(s - s_obs).sum(axis=1)."
            )
        return value

    def _one(self, row: Any, observed: Any) -> float:
        value = self._numbers(self.function(row, observed))
        if value.size != 1:
            raise SimulatorError(
                f"distance returned shape {value.shape} for one simulation; it must be a number."
            )
        return float(value.item())

    @staticmethod
    def _numbers(value: Any) -> FloatArray:
        try:
            return floats(value, "distance")
        except (TypeError, ValueError):
            raise SimulatorError(
                f"distance must return numbers, but returned {value!r} ({type(value).__name__})."
            ) from None


_NAMES: dict[str, Callable[[], Distance]] = {
    "euclidean": Euclidean,
    "manhattan": lambda: Minkowski(1.0),
    "chebyshev": lambda: Minkowski(np.inf),
    "mad": lambda: Scaled("mad"),
    "std": lambda: Scaled("std"),
    "mahalanobis": Mahalanobis,
    "energy": Energy,
    "wasserstein": Wasserstein,
}


def as_distance(spec: str | Distance | Callable[..., Any], *, vectorized: bool = False) -> Distance:
    """The distance that `spec` names.

    Parameters
    ----------
    spec : str, Distance or callable
        "euclidean", "manhattan", "chebyshev", "mad", "std", "mahalanobis", "energy" or
        "wasserstein"; a function, see `FunctionDistance`; or any other callable object, which must
        take a batch as the `Distance` protocol says and is returned as it is.
    vectorized : bool
        Whether a function takes a batch ``(n, ...)`` rather than one pair.

    Raises
    ------
    ParameterError
        If `spec` is none of these.
    """
    if isinstance(spec, str):
        if spec not in _NAMES:
            known = ", ".join(f'"{name}"' for name in _NAMES)
            raise ParameterError(f"`distance` must be one of {known}, but got {spec!r}.")
        return _NAMES[spec]()
    if inspect.isclass(spec):
        raise ParameterError(
            f"`distance` must be an object, but got the class {spec.__name__}. Call it first: "
            f"distance={spec.__name__}()."
        )
    if _is_function(spec):
        return FunctionDistance(spec, vectorized=vectorized)
    if callable(spec):
        return cast("Distance", spec)
    raise ParameterError(f"`distance` must be a name, a Distance or a function, but got {spec!r}.")


def _is_function(spec: Any) -> bool:
    """Functions of any make, compiled ones (`py_func`) included, but not objects with a call."""
    is_partial = isinstance(spec, functools.partial)
    return inspect.isroutine(spec) or is_partial or hasattr(spec, "py_func")


# Shapes -----------------------------------------------------------------------------------------


def _difference(simulated: Any, observed: Any) -> FloatArray:
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


def _samples(simulated: Any, observed: Any) -> tuple[FloatArray, FloatArray]:
    """Samples as (n, m, k) and (m', k)."""
    x = np.asarray(simulated, dtype=np.float64)
    y = np.asarray(observed, dtype=np.float64)
    if x.ndim == 2 and y.ndim == 1:
        x, y = x[:, :, None], y[:, None]
    if x.ndim != 3 or y.ndim != 2 or x.shape[2] != y.shape[1] or 0 in {*x.shape[1:], *y.shape}:
        raise SimulatorError(
            "simulated samples must have shape (n, m) with observed (m',), or (n, m, k) with "
            f"(m', k), none of them empty, but got {np.shape(simulated)} and {np.shape(observed)}."
        )
    return x, y


def _check_order(p: float) -> None:
    if not p >= 1.0:
        raise ParameterError(f"`p` must be at least 1, but got {p}.")


def _check_length(scale: FloatArray, difference: FloatArray) -> None:
    if len(scale) != difference.shape[1]:
        raise SimulatorError(
            f"the distance was scaled for {len(scale)} summaries, but got {difference.shape[1]}."
        )


def _positive(scale: Any) -> FloatArray:
    array = np.ravel(np.asarray(scale, dtype=np.float64))
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise ParameterError(f"`scale` must be positive and finite, but got {array}.")
    return array


def _unfitted(name: str) -> ParameterError:
    return ParameterError(
        f"`distance` must be fitted before use, but {name} has no scale. "
        "Call .fitted(pilot_summaries); a run does so by itself."
    )


# Norms ------------------------------------------------------------------------------------------


def _norm(difference: FloatArray, p: float) -> FloatArray:
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


# Pilot scales -----------------------------------------------------------------------------------


def _finite_rows(simulated: Any, at_least: int = 1) -> FloatArray:
    s = np.asarray(simulated, dtype=np.float64)
    rows = s.reshape(len(s), int(np.prod(s.shape[1:])))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < at_least:
        raise SimulatorError(
            f"the distance takes its scale from pilot simulations, but {len(rows)} of {len(s)} "
            f"gave finite summaries; it needs {at_least}. Check the simulator at prior draws."
        )
    return np.asarray(rows)


def _deviation(rows: FloatArray) -> FloatArray:
    """(m,) Standard deviations; exactly 0 where a column never varies."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    width = high - low
    unit = np.where(width > 0.0, width, 1.0)
    # In units of the range: squares of very large or small numbers are lost.
    return np.asarray(np.where(width > 0.0, unit * ((rows - low) / unit).std(axis=0), 0.0))


def _ones_where_constant(scale: FloatArray) -> FloatArray:
    constant: BoolArray = scale == 0.0
    if constant.any():
        _warn(
            f"{_listed(constant)}: never varies in the pilot, so it has no scale; 1 is used. "
            "Drop it if it says nothing of the parameters."
        )
    return np.where(constant, 1.0, scale)


def _listed(which: BoolArray) -> str:
    index = np.flatnonzero(which)
    shown = ", ".join(str(i) for i in index[:10]) + (", ..." if len(index) > 10 else "")
    return f"summary {shown} (counting from 0)"


def _warn(message: str) -> None:
    warnings.warn(message, AbctreeWarning, stacklevel=4)


# Mahalanobis ------------------------------------------------------------------------------------


def _covariance(cov: Any) -> FloatArray:
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


def _whitening(cov: FloatArray) -> FloatArray:
    """W (m, r) with W Wᵀ = C⁻¹, r the numerical rank."""
    sd = np.sqrt(np.diag(cov))
    value, vector = np.linalg.eigh(cov / sd[:, None] / sd[None, :])
    if value[0] < -_SINGULAR * len(value) * value[-1]:
        raise ParameterError(
            f"`cov` must not have negative eigenvalues, but its correlation has {value[0]:.3g}."
        )
    known = value > _SINGULAR * value[-1]
    if not known.all():
        _warn(
            f"the covariance of the {len(value)} summaries has numerical rank {known.sum()}; "
            "differences along the other directions are not counted. Drop summaries that are "
            "combinations of others, or use more pilot simulations."
        )
    return np.asarray(vector[:, known] / np.sqrt(value[known]) / sd[:, None])


# Energy -----------------------------------------------------------------------------------------


def _energy_line(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 ∫ (F − G)² of samples x (n, m) and y (m',)."""
    pooled = np.concatenate([x, np.broadcast_to(y, (len(x), len(y)))], axis=1)
    step = np.concatenate([np.full(x.shape[1], 1 / x.shape[1]), np.full(len(y), -1 / len(y))])
    order = np.argsort(pooled, axis=1)
    gap = np.diff(np.take_along_axis(pooled, order, axis=1), axis=1)
    difference = np.cumsum(step[order], axis=1)[:, :-1]
    return np.asarray(2.0 * np.sum(difference**2 * gap, axis=1))


def _energy(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 E|X−Y| − E|X−X'| − E|Y−Y'| of samples x (n, m, k) and y (m', k), over all pairs."""
    m = x.shape[1]
    # `pdist` holds each pair once; a point has no distance to itself.
    within_y = 2.0 * pdist(y).sum() / len(y) ** 2
    within_x = np.array([2.0 * pdist(row).sum() / m**2 for row in x])
    across = np.array([cdist(row, y).mean() for row in x])
    return np.asarray(2.0 * across - within_x - within_y)


# Wasserstein ------------------------------------------------------------------------------------


def _wasserstein_line(x: FloatArray, y: FloatArray, p: float) -> FloatArray:
    """∫ |F⁻¹ − G⁻¹|^p of samples x (n, m) and y (m',)."""
    i, j, width = _common_levels(x.shape[1], len(y))
    gap = np.abs(np.sort(x, axis=1)[:, i] - np.sort(y)[j])
    return np.asarray((gap if p == 1.0 else gap**p) @ width)


def _common_levels(m: int, n: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Intervals on which both empirical quantile functions are constant: ranks and widths.

    In whole numbers (levels times m n), because i/m and j/n that are equal may differ as floats.
    """
    level = np.union1d(np.arange(m + 1) * n, np.arange(n + 1) * m)
    start = level[:-1]
    return start // n, start // m, np.diff(level) / (m * n)
