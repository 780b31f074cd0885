"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba

F = TypeVar("F")


@overload
def jit(function: F) -> F: ...
@overload
def jit(*, fastmath: set[str]) -> Callable[[F], F]: ...
def jit(function: Any = None, *, fastmath: Any = False) -> Any:
    """Compile at the first call, keep the machine code on disk, and release the GIL."""
    compiled: Any = numba.njit(cache=True, nogil=True, fastmath=fastmath)
    return compiled if function is None else compiled(function)
