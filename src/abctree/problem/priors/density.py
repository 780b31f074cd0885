"""`DensityPrior`: a prior given as a density on a box (Remark 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.problem.priors.checks import checked_cube, checked_theta
from abctree.problem.priors.cube import spread
from abctree.problem.priors.product import Product
from abctree.types import FloatArray

# The search for the height of the density: points of the whole box, then of ever smaller boxes.
_N_WIDE, _N_NEAR, _N_ZOOMS, _SHRINK = 1024, 64, 30, 0.7


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
            raise ParameterError(
                f"`log_density` must be callable, but got {log_density!r}. "
                "Give a function of theta (n, p)."
            )
        object.__setattr__(self, "function", log_density)
        object.__setattr__(self, "box", _box(bounds))
        object.__setattr__(self, "vectorized", bool(vectorized))
        object.__setattr__(self, "shift", self._highest())

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
        """The density relative to the cube, up to a constant.

        Parameters
        ----------
        cube : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
            ``exp(log_density(theta) - shift)``; at most about one.

        Raises
        ------
        ParameterError
            If the log-density is nan or +inf, or so far above `shift` that the answer overflows.
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
        raise ParameterError(
            f"`bounds` must be a dict of pairs (low, high), but got {bounds!r}. "
            "Write {'a': (0.0, 1.0)}."
        )
    return Product(bounds)
