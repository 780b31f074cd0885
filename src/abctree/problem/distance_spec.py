"""The distance that a user names, gives as a function, or gives as it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import cast

import numpy as np

from abctree.errors import ParameterError
from abctree.problem.distances import (
    Energy,
    Euclidean,
    FunctionDistance,
    Mahalanobis,
    Minkowski,
    Scaled,
    Wasserstein,
)
from abctree.problem.form import Form
from abctree.protocols import Distance, HasOfEntries, LearnedDistance

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


def as_distance(
    spec: str | Distance | Callable[..., object], *, vectorized: bool = False
) -> Distance:
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
    if hasattr(spec, "fitted") and not isinstance(spec, LearnedDistance):
        raise ParameterError(
            "`distance` must say by `is_fitted` whether it has the scale that `fitted` gives it, "
            f"but got {spec!r}. Give it this property."
        )
    if callable(spec):
        return cast("Distance", spec)
    raise ParameterError(f"`distance` must be a name, a Distance or a function, but got {spec!r}.")


def of_entries(distance: Distance, form: Form | None) -> Distance:
    """The distance for an observation of which some entries are missing.

    Raises
    ------
    ParameterError
        If it compares whole rows, and some of them miss a part.
    """
    if form is None or form.keep is None:
        return distance
    if isinstance(distance, Energy | Wasserstein) and len(form.shape) > 1 and form.rows is None:
        raise ParameterError(
            f"`observed` must have whole rows for {type(distance).__name__}, but some of them miss "
            "a part. Drop these rows, from what the simulator returns, too."
        )
    if isinstance(distance, HasOfEntries):
        return distance.of_entries(form.keep, int(np.prod(form.shape)))
    return distance


def _is_function(spec: object) -> bool:
    """Functions of any make, compiled ones (`py_func`) included, but not objects with a call."""
    is_partial = isinstance(spec, functools.partial)
    return inspect.isroutine(spec) or is_partial or hasattr(spec, "py_func")
