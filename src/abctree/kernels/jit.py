"""How kernels are compiled."""

from __future__ import annotations

from typing import TypeVar, cast

import numba

F = TypeVar("F")


def jit(function: F) -> F:
    """Compile at the first call, keep the machine code on disk, and release the GIL."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))
