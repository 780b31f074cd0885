"""Arguments that must be numbers, or make them: whatever else is given is a `ParameterError`."""

from __future__ import annotations

import numpy as np

from abctree.errors import ParameterError
from abctree.types import RNGLike


def checked_number(name: str, value: object) -> float:
    """A real number, also as an array without dimensions; nan is one."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(f"`{name}` must be a number, but got {value!r}.")
    try:
        return float(value)
    except OverflowError:  # a whole number too large for a float
        return float("inf") if value > 0 else float("-inf")


def checked_count(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`."""
    number = value if isinstance(value, int | float | np.integer) else np.nan
    if isinstance(value, bool) or not (float(number).is_integer() and number >= least):
        raise ParameterError(
            f"`{name}` must be a whole number of at least {least}, but got {value!r}."
        )
    return int(number)


def checked_rng(rng: RNGLike) -> np.random.Generator:
    """The generator that `rng` is or, as in SPEC 7, seeds."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ParameterError(
            "`rng` must be None, a whole number of at least 0, or a Generator of NumPy, but got "
            f"{rng!r}. Write rng=1 for a run that can be repeated."
        ) from None
