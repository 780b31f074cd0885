"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba
from numba.core import event

F = TypeVar("F")

#: How the modules begin of which the functions are kernels.
_OURS = "abctree."


@overload
def jit(function: F) -> F: ...
@overload
def jit(*, fastmath: set[str] = ..., inner: bool = ...) -> Callable[[F], F]: ...
def jit(function: Any = None, *, fastmath: Any = False, inner: bool = False) -> Any:
    """Compile at the first call, keep the machine code on disk, and release the GIL.

    No division is checked, so that loops with one are vectorised.  What translates arguments takes
    as long to compile as some loops: what C would call is left out, and what Python calls is left
    out of an inner kernel, which kernels alone may call, for Python's call would crash; it is on
    disk as a part of these.
    """
    compiled: Any = numba.njit(
        cache=not inner,
        nogil=True,
        fastmath=fastmath,
        error_model="numpy",
        no_cfunc_wrapper=True,
        no_cpython_wrapper=inner,
    )
    return compiled if function is None else compiled(function)


def when_compiling(tell: Callable[[], None]) -> None:
    """Call a function when the first kernel of this process is compiled, not read from the disk."""
    global _listener  # noqa: PLW0603 - of the process, as the kernels are
    if _listener is None:
        _listener = _Listener(tell)
        event.register("numba:compile", _listener)


class _Listener(event.Listener):  # type: ignore[misc]
    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: event.Event) -> None:
        if self._tell is not None and event.data["dispatcher"].py_func.__module__.startswith(_OURS):
            tell, self._tell = self._tell, None
            tell()

    def on_end(self, event: event.Event) -> None:
        pass


_listener: _Listener | None = None
