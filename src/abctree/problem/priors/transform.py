"""`PriorTransform`: a prior given as a map of the unit cube."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.problem.priors.checks import checked_boxes, checked_cube, checked_names
from abctree.problem.priors.cube import inside, spread
from abctree.types import FloatArray


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
            raise ParameterError(
                f"`function` must be callable, but got {function!r}. Give a map of the unit cube."
            )
        given = checked_names(names)
        dimensions = len(given) if d is None else d
        if not isinstance(dimensions, int | np.integer) or dimensions < 1:
            raise ParameterError(
                f"`d` must be a positive integer, but got {d!r}. Give the dimensions of the cube."
            )
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "names", given)
        object.__setattr__(self, "d", int(dimensions))
        if vectorized is None:
            vectorized = _takes_many(function, len(given), int(dimensions))
        object.__setattr__(self, "vectorized", bool(vectorized))

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) in [0, 1] -> theta (n, p).  The ends are read as the nearest floats inside."""
        points = inside(checked_cube("cube", cube, self.d))
        if len(points) == 0:
            return np.empty((0, len(self.names)))
        theta = self.function(points) if self.vectorized else [self.function(u) for u in points]
        return self._checked(theta, len(points))

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Nothing: the inverse of the map is not known.

        Raises
        ------
        ParameterError
            Always.
        """
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
            rows = np.array(theta, dtype=np.float64)
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
    wrong = np.inf if together is None else np.abs(together - rows)
    return bool((wrong <= 1e-6 * np.ptp(rows, axis=0)).all())


def _tried(
    function: Callable[[FloatArray], object], cube: FloatArray, shape: tuple[int, ...]
) -> FloatArray | None:
    """What a map makes of some of the cube, if it is finite numbers of this shape."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theta = np.array(function(cube.copy()), dtype=np.float64)
    except Exception:  # noqa: BLE001 - a function of the user's, called in a way it may not be for
        return None
    theta = theta.reshape(shape) if theta.shape == () and shape == (1,) else theta
    return theta if theta.shape == shape and np.isfinite(theta).all() else None
