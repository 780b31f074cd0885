"""Arrays in, arrays out, compiled by numba; tests/kernel_definitions.py defines them in NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

from abctree.types import FloatArray


@cache
def load() -> Any:
    """The module `compiled`; numba takes a third of a second, which workers do not spend."""
    from abctree.kernels import compiled

    return compiled


def loaded() -> Any:
    """The module `compiled`, or None where nobody has loaded it."""
    return globals().get("compiled")


def within(array: FloatArray, low: float, high: float) -> bool:
    """Whether all numbers are in [low, high]; nan is not."""
    if (compiled := loaded()) is not None:  # of few numbers NumPy takes ten times as long
        return bool(compiled.within(array.reshape(-1), low, high))
    return bool(((array >= low) & (array <= high)).all())
