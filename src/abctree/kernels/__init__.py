"""Arrays in, arrays out, compiled by numba; tests/kernel_definitions.py defines them in NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

from abctree.types import FloatArray

#: Of this module: `compiled` is among them once it is imported.
_names = globals()


@cache
def load() -> Any:
    """The module `compiled`; numba takes a third of a second, which workers do not spend."""
    from abctree.kernels import compiled

    return compiled


def within(array: FloatArray, low: float, high: float) -> bool:
    """Whether all numbers are in [low, high]; nan is not."""
    if (compiled := _names.get("compiled")) is not None:  # NumPy is ten times slower for a few
        found: bool = compiled.within(array.reshape(-1), low, high)
        return found
    return bool(((array >= low) & (array <= high)).all())
