"""Priors that are functions of the user's: maps of the unit cube, and densities (Remark 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.problem.priors.cube import (
    checked_boxes,
    checked_cube,
    checked_names,
    checked_theta,
    inside,
    spread,
)
from abctree.problem.priors.product import Product
from abctree.protocols import HasLogDensity, Prior
from abctree.types import FloatArray

# The search for the height of the density: points of the whole box, then of ever smaller boxes.
_N_WIDE, _N_NEAR, _N_ZOOMS, _SHRINK = 1024, 64, 30, 0.7


@checks_keywords
@dataclass(frozen=True)
class PriorTransform:
    """Any map of the unit cube to parameters, as nested samplers use it.

    Parameters
    ----------
    function : callable
        ``function(cube)`` with cube (n, d) in the open cube -> theta (n, p), finite; or of one
        point, (d,) -> (p,), the form of dynesty and UltraNest.
    names : sequence of str
        The p columns of theta.
    d : int, optional
        Dimensions of the cube; p by default.
    vectorized : bool, optional
        Whether the function takes many points at once.  Default: it does if it makes the same of a
        few points together as of each alone, or fails of one alone.

    Raises
    ------
    ParameterError
        If an argument breaks its rule, or the function returns another shape or a non-finite value.

    Notes
    -----
    Volumes in theta space are unknown (nan) and there is no way back to the cube, so `to_cube`
    raises.  Methods that need either say so.

    Examples
    --------
    An ordered pair, uniform on a < b:

    >>> import numpy as np
    >>> from abctree.problem.priors import PriorTransform
    >>> def ordered(cube):
    ...     return np.sort(cube, axis=1)
    >>> PriorTransform(ordered, ("a", "b")).from_cube([[0.9, 0.2]])
    array([[0.2, 0.9]])
    """

    function: Callable[[FloatArray], object]
    names: tuple[str, ...]
    d: int
    vectorized: bool

    def __init__(
        self,
        function: Callable[[FloatArray], object],
        names: Sequence[str],
        d: int | None = None,
        *,
        vectorized: bool | None = None,
    ) -> None:
        if not callable(function):
            raise wrong("function", "be callable", repr(function), "Give a map of the unit cube.")
        given = checked_names(names)
        d = len(given) if d is None else d
        if not isinstance(d, int | np.integer) or d < 1:
            raise wrong("d", "be a positive integer", repr(d), "Give the dimensions of the cube.")
        if vectorized is None:
            vectorized = _takes_many(function, len(given), int(d))
        _check_repeats(function, len(given), int(d), vectorized=vectorized)
        self.__dict__.update(function=function, names=given, d=int(d), vectorized=bool(vectorized))

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) in [0, 1] -> theta (n, p).  The ends are read as the nearest floats inside."""
        points = inside(checked_cube("cube", cube, self.d))
        if len(points) == 0:
            return np.empty((0, len(self.names)))
        theta = self.function(points) if self.vectorized else [self.function(u) for u in points]
        return self._checked(theta, len(points))

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Nothing but a `ParameterError`: the inverse of the map is not known."""
        raise ParameterError(
            f"`prior` must have a known inverse to map theta {np.shape(theta)} to the cube, but "
            "the map of a PriorTransform has no known inverse. Use a Product or keep the cube."
        )

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K, d), (K, d) -> nan (K,): unknown."""
        low, _ = checked_boxes(lower, upper, self.d)
        return np.full(len(low), np.nan)

    def _checked(self, theta: object, n: int) -> FloatArray:
        wanted = (n, len(self.names))
        try:
            rows = _real(theta)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"`function` must return numbers of shape {wanted}, but got something else. "
                f"Return one row for each point, with the columns {self.names}."
            ) from error
        if rows.shape == (n,) and wanted == (n, 1) and not self.vectorized:
            rows = rows[:, None]  # a number for each point
        if rows.shape != wanted:
            raise ParameterError(
                f"`function` must return shape {wanted} for {n} points of the cube, but got shape "
                f"{rows.shape}. Return one row for each point, with the columns {self.names}; or "
                f"take one point, of shape ({self.d},), and return its row."
            )
        if not np.isfinite(rows).all():
            column = self.names[int(np.argmin(np.isfinite(rows).all(axis=0)))]
            raise ParameterError(
                f"`function` must return finite numbers, but got {rows[~np.isfinite(rows)][0]} for "
                f"{column!r}. Map every point of the open cube to a parameter."
            )
        return rows


def _real(theta: object) -> FloatArray:
    if np.asarray(theta).dtype.kind == "c":
        raise TypeError("complex")  # NumPy would drop the imaginary part
    return np.array(theta, dtype=np.float64)


def _takes_many(function: Callable[[FloatArray], object], p: int, d: int) -> bool:
    """Whether a map takes many points (n, d) at once, or one point (d,).

    A map of one point may take a batch without complaint, and make nonsense of its first rows.
    """
    cube = spread(max(p, d) + 3, d)
    alone = [_tried(function, point, (p,)) for point in cube]
    if any(row is None for row in alone):
        return True
    together = _tried(function, cube, (len(cube), p))
    rows = np.array(alone)
    off = np.inf if together is None else np.abs(together - rows)
    return bool((off <= 1e-6 * np.ptp(rows, axis=0)).all())


def _check_repeats(
    function: Callable[[FloatArray], object], p: int, d: int, *, vectorized: bool
) -> None:
    """Refuse a map that makes two things of one point, by chance or by the points beside it."""
    cube = spread(3, d)
    if vectorized:
        first = _tried(function, cube, (3, p))
        rows = [_tried(function, cube[i : i + 1], (1, p)) for i in range(3)]
        alone = [row for row in rows if row is not None]
        second = np.concatenate(alone) if len(alone) == 3 else None
    else:
        first, second = (_tried(function, cube[0], (p,)) for _ in range(2))
    if first is None or second is None:
        return
    differ = np.abs(first - second) > 1e-6 * np.abs(first).max(axis=0)
    if differ.any():
        raise ParameterError(
            "`function` must make the same parameters of one point of the cube each time, whatever "
            f"the other points, but gave {first[differ][0]:.6g} and {second[differ][0]:.6g}. It "
            "must neither draw random numbers nor compare rows: map the cube by quantile "
            "functions, as in scipy.stats.norm.ppf(cube)."
        )


def _tried(
    function: Callable[[FloatArray], object], cube: FloatArray, shape: tuple[int, ...]
) -> FloatArray | None:
    """What a map makes of some of the cube, if it is finite numbers of this shape."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theta = _real(function(cube.copy()))
    except Exception:  # noqa: BLE001 - a function of the user's, called in a way it may not be for
        return None
    theta = theta.reshape(shape) if theta.shape == () and shape == (1,) else theta
    return theta if theta.shape == shape and np.isfinite(theta).all() else None


@checks_keywords
@dataclass(frozen=True, eq=False, repr=False)
class DensityPrior:
    """A prior with a density but no quantile functions, through the paper's Remark 1.

    The cube is the box of the bounds, with the uniform distribution; algorithms draw uniformly in
    their boxes and multiply weights by `cube_density`.

    Parameters
    ----------
    log_density : callable
        ``log_density(theta)`` with theta (n, p) -> (n,), up to a constant; -inf where the prior
        excludes theta.  With ``vectorized=False``, (p,) -> a number.
    bounds : dict
        ``{"a": (low, high), ...}``, the box outside which the density is zero.  A pair of equal
        ends, or a number, fixes a parameter.
    vectorized : bool, default True
        Whether the function takes many rows at once.

    Attributes
    ----------
    shift : float
        What `cube_density` subtracts from the log-density: its largest value at 1024 points of an
        additive recurrence that fills the box and at 30 times 64 points that zoom in on the best of
        them.  The same in every run, on every machine.

    Raises
    ------
    ParameterError
        If the bounds are not finite, or the function returns nan, +inf or another shape, or is -inf
        at every point tried.

    Notes
    -----
    Prefer a `Product` where quantile functions exist: it needs no extra weights.

    Examples
    --------
    >>> import numpy as np
    >>> from abctree.problem.priors import DensityPrior
    >>> prior = DensityPrior(lambda theta: -np.abs(theta).sum(axis=1), {"a": (-9, 9), "b": (-9, 9)})
    >>> prior.cube_density([[0.5, 0.5]]).round(3)  # the peak
    array([1.])
    """

    function: Callable[[FloatArray], object]
    box: Product
    vectorized: bool
    shift: float

    def __init__(
        self,
        log_density: Callable[[FloatArray], object],
        bounds: Mapping[str, tuple[float, float]],
        *,
        vectorized: bool = True,
    ) -> None:
        if not callable(log_density):
            raise wrong(
                "log_density", "be callable", repr(log_density), "Give a function of theta (n, p)."
            )
        own = {"function": log_density, "box": _box(bounds), "vectorized": bool(vectorized)}
        self.__dict__.update(own)
        self.__dict__["shift"] = self._highest()

    def __repr__(self) -> str:
        return f"DensityPrior({self.function!r}, {self.box!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of theta."""
        return self.box.names

    @property
    def d(self) -> int:
        """Dimensions of the cube."""
        return self.box.d

    @property
    def bounds(self) -> FloatArray:
        """(n_parameters, 2) The box; nan for a fixed parameter."""
        return self.box.bounds

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> theta (n, p), affine."""
        return self.box.from_cube(cube)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Theta (n, p) -> (n, d); outsiders go to the nearest face."""
        return self.box.to_cube(theta)

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta (n, p) -> (n, d), (n, d): the part of the cube that is mapped to it, a point."""
        return self.box.cube_range(theta)

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log-volumes of boxes in theta space: (K, d), (K, d) -> (K,)."""
        return self.box.log_volume(lower, upper)

    def log_density(self, theta: FloatArray) -> FloatArray:
        """The user's log-density: (n, p) -> (n,), up to a constant; -inf outside the bounds."""
        rows = checked_theta(theta, self.names)
        answer = np.full(len(rows), -np.inf)
        within = np.isfinite(self.box.log_density(rows))
        answer[within] = self._values(rows[within])
        return answer

    def cube_density(self, cube: FloatArray) -> FloatArray:
        """The density relative to the cube, up to a constant: (n, d) -> (n,), at most about one.

        It is ``exp(log_density(theta) - shift)``.  A `ParameterError` if the log-density is nan or
        +inf, or so far above `shift` that the answer overflows.
        """
        value = self._values(self.from_cube(checked_cube("cube", cube, self.d))) - self.shift
        if (value > 700.0).any():
            raise ParameterError(
                f"`log_density` must be searched with success for its height, but got a value "
                f"{value.max():.4g} above the highest one found. Narrow the bounds."
            )
        return np.exp(value)

    def _values(self, theta: FloatArray) -> FloatArray:
        n = len(theta)
        if n == 0:
            return np.empty(0)
        given = self.function(theta) if self.vectorized else [self.function(row) for row in theta]
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (n,):
            raise ParameterError(
                f"`log_density` must return shape ({n},) for theta of shape {theta.shape}, but got "
                f"shape {values.shape}. Return one number for each row."
            )
        bad = np.isnan(values) | (values == np.inf)
        if bad.any():
            raise ParameterError(
                f"`log_density` must be a number below inf, but got {values[bad][0]} at "
                f"{dict(zip(self.names, theta[bad][0].tolist(), strict=True))}. "
                "Return -inf where the prior excludes theta."
            )
        return values

    def _highest(self) -> float:
        sample = spread(_N_WIDE, self.d)
        best, highest, side = sample[0], -np.inf, 1.0
        for zoom in range(_N_ZOOMS + 1):
            values = self._values(self.from_cube(sample))
            if values.max() > highest:
                best, highest = sample[np.argmax(values)], float(values.max())
            if zoom == 0 and highest == -np.inf:
                raise ParameterError(
                    f"`log_density` must be finite somewhere, but got -inf at {_N_WIDE} points "
                    "spread over the bounds. Narrow the bounds."
                )
            side *= _SHRINK
            sample = np.clip(best + side * (spread(_N_NEAR, self.d) - 0.5), 0.0, 1.0)
        return highest


def _box(bounds: object) -> Product:
    if not isinstance(bounds, Mapping) or any(
        isinstance(key, tuple) or not isinstance(value, tuple | int | float)
        for key, value in bounds.items()
    ):
        raise wrong(
            "bounds", "be a dict of pairs (low, high)", repr(bounds), "Write {'a': (0.0, 1.0)}."
        )
    return Product(bounds)


def log_density_of(prior: Prior, theta: FloatArray, cube: FloatArray) -> FloatArray | None:
    """Log-density (n,) at points, up to a constant, 0 if flat; None where it is not known.

    A prior that is only known as a map of the cube has the density |det ∂θ/∂u|⁻¹, by differences.
    """
    (n, d), value = cube.shape, np.full(len(cube), np.nan)
    if isinstance(prior, HasLogDensity):
        value = np.asarray(prior.log_density(theta))
    if np.isnan(value).all() and theta.shape[1] == d:
        slopes = np.empty((n, d, d))
        for j in range(d):
            low, high = cube.copy(), cube.copy()
            low[:, j] = np.maximum(cube[:, j] - 1e-5, 0.5 * cube[:, j])
            high[:, j] = np.minimum(cube[:, j] + 1e-5, 0.5 + 0.5 * cube[:, j])
            change = prior.from_cube(high) - prior.from_cube(low)
            slopes[:, :, j] = change / (high[:, j] - low[:, j])[:, None]
        sign, log_volume = np.linalg.slogdet(slopes)
        value = np.where((sign != 0.0).all(), -log_volume, np.nan)
    if np.isnan(value).all():
        return None
    finite = value[np.isfinite(value)]
    flat = np.allclose(finite, finite[:1], rtol=1e-12, atol=1e-12)
    return np.zeros(n) if flat else value
