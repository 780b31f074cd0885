"""What the checks have in common: a part is called, and a rule that it breaks is raised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import numpy as np

from abctree.types import FloatArray

P = ParamSpec("P")
T = TypeVar("T")


def require(condition: object, rule: str) -> None:
    """Raise `AssertionError` with the rule, also under ``python -O``."""
    if not bool(condition):
        raise AssertionError(rule)


def call(name: str, accepts: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a method, which must accept its arguments and leave them as they were."""
    given = [array for value in (*args, *kwargs.values()) for array in _arrays(value)]
    before = [array.copy() for array in given]
    try:
        answer = function(*args, **kwargs)
    except Exception as error:
        said = f"`{name}` must accept {accepts}, but raised {error!r}."
        raise AssertionError(said) from error
    require(same(given, before), f"`{name}` must not change its arguments, but did.")
    return answer


@contextmanager
def during(what: str) -> Iterator[None]:
    """Say at the end of what is raised when it was."""
    try:
        yield
    except AssertionError as error:
        said = str(error).removesuffix(".")
        raise AssertionError(f"{said} ({what}).") from error.__cause__


def same(one: object, other: object) -> bool:
    """Whether two answers have the same arrays."""
    pairs = zip(_arrays(one), _arrays(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def check_numbers(value: FloatArray, n: int, name: str) -> None:
    """Raise `AssertionError` unless there are n numbers, finite and not negative."""
    require(
        value.shape == (n,) and np.isfinite(value).all() and (value >= 0.0).all(),
        f"{name} must be finite and >= 0, and have shape ({n},), but has shape {value.shape} and "
        f"reaches from {value.min(initial=np.inf)} to {value.max(initial=-np.inf)}.",
    )


def check_rows(
    name: str, function: Callable[[FloatArray], FloatArray], rows: FloatArray, answer: FloatArray
) -> None:
    """Check that a row alone has the same answer as among others."""
    alone = np.concatenate([function(rows[i : i + 1]) for i in range(min(50, len(rows)))])
    require(
        np.allclose(alone, answer[: len(alone)], rtol=1e-9, atol=0.0),
        f"{name} must treat each row on its own, but a row alone has another answer than the same "
        "row among others.",
    )


def check_probabilities(q: FloatArray, n: int, name: str) -> None:
    """Raise `AssertionError` unless q are probabilities of n boxes."""
    check_numbers(q, n, f"{name}, one entry for each box,")
    require(
        abs(float(q.sum()) - 1.0) <= 1e-9,
        f"{name} must sum to 1, but sums to {float(q.sum())!r}.",
    )


def _arrays(value: object) -> list[FloatArray]:
    """The arrays of an argument, those in a record, a dict or a list included."""
    if isinstance(value, np.ndarray):
        return [value]
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return []
    return [array for part in value for array in _arrays(part)]
