"""What a check raises: the rule that is broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

import numpy as np

from abctree.types import FloatArray

P = ParamSpec("P")
T = TypeVar("T")


def require(condition: object, rule: str) -> None:
    """Raise `AssertionError` with the rule, also under ``python -O``."""
    if not bool(condition):
        raise AssertionError(rule)


def call(
    name: str, accepts: str, where: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """What a method makes of its arguments, which it must accept and leave as they were."""
    given = [array for value in (*args, *kwargs.values()) for array in _arrays(value)]
    before = [array.copy() for array in given]
    try:
        answer = function(*args, **kwargs)
    except Exception as error:
        said = f"`{name}` must accept {accepts}, but raised {error!r} {where}."
        raise AssertionError(said) from error
    require(
        all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True)),
        f"`{name}` must not change its arguments, but did {where}.",
    )
    return answer


def check_probabilities(q: FloatArray, n: int, name: str, where: str) -> None:
    """Raise `AssertionError` unless q are probabilities of n boxes."""
    require(
        q.shape == (n,),
        f"{name} must have one entry for each box, ({n},), but has shape {q.shape} {where}.",
    )
    require(np.isfinite(q).all(), f"{name} must be finite, but is not {where}.")
    require((q >= 0.0).all(), f"{name} must be >= 0, but its least entry is {q.min()} {where}.")
    require(
        abs(float(q.sum()) - 1.0) <= 1e-9,
        f"{name} must sum to 1, but sums to {float(q.sum())!r} {where}.",
    )


def _arrays(value: object) -> list[FloatArray]:
    """The arrays of an argument, those in a record or a dict included."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, Mapping):
        return [array for part in value.values() for array in _arrays(part)]
    if dataclasses.is_dataclass(value):
        return [array for part in vars(value).values() for array in _arrays(part)]
    return []
