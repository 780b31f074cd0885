"""What a worker process may use: memory, and threads of linear algebra.

Memory is counted from when a worker has loaded its work.  The system refuses more than the limit,
which NumPy and Python turn into a `MemoryError`.  Before it comes to that a worker that holds half
of it between two tasks is replaced.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from abctree.data import Simulations
from abctree.errors import ParameterError

#: Share of the memory at which a worker is replaced, between two tasks.
_FULL = 0.5
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip


class OutOfMemoryError(futures.BrokenExecutor):
    """A task needed more memory than its worker may have; alone in a new one it may not."""


class _Limits:
    """Those of this process."""

    n_threads: int | None = None
    memory: int | None = None  #: bytes that it may take, beyond those at its start
    memory_at_start: int | None = None


# Threads -------------------------------------------------------------------------------------


def limit_threads(n: int | None) -> None:
    """Let linear algebra in this process use n threads; None for what it likes."""
    _Limits.n_threads = n
    os.environ.update(_thread_variables(n))  # for libraries that are loaded from now on
    limit_loaded_libraries()


@contextmanager
def threads_of_children(n: int | None) -> Iterator[None]:
    """Let processes that are started meanwhile load their libraries with n threads."""
    variables = _thread_variables(n)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _thread_variables(n: int | None) -> dict[str, str]:
    return {} if n is None else dict.fromkeys(_THREAD_VARIABLES, str(n))


def limit_loaded_libraries() -> None:
    """The limit again, for libraries that were loaded since."""
    if _Limits.n_threads is not None and (pools := _threadpoolctl()) is not None:
        pools.threadpool_limits(_Limits.n_threads)


def _threadpoolctl() -> Any:
    try:
        return importlib.import_module("threadpoolctl")
    except ImportError:  # scikit-learn brings it, but need not for ever
        return None


# Memory --------------------------------------------------------------------------------------


def check_memory(memory: float | None) -> None:
    """Refuse what is not a limit of memory, or cannot be kept here.

    Raises
    ------
    ParameterError
        If it is not a positive number of bytes, or None, or if this is not Linux.
    """
    if memory is None:
        return
    if not 0.0 < memory < float("inf"):
        raise ParameterError(
            f"`memory` must be a positive number of bytes, or None, but got {memory!r}. "
            "Write 2e9 for two gigabytes."
        )
    if _memory_taken() is None:
        raise ParameterError(
            f"`memory` must be None on this system, which does not say what a process takes, but "
            f"got {memory!r}."
        )


def limit_memory(n: float | None) -> None:
    """Let this process take n bytes more than it has when `count_memory_from_here` is called."""
    _Limits.memory = None if n is None else int(n)


def count_memory_from_here() -> None:
    """What the process has when this is first called is not the simulator's."""
    taken = _memory_taken()
    if _Limits.memory is None or _Limits.memory_at_start is not None or taken is None:
        return
    _Limits.memory_at_start = taken
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken + _Limits.memory
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def is_full() -> bool:
    """Whether this process has taken so much that another should go on in its place."""
    if _Limits.memory is None or _Limits.memory_at_start is None:
        return False
    taken = _memory_taken()
    return taken is not None and taken - _Limits.memory_at_start > _FULL * _Limits.memory


def check_enough_memory(done: Simulations) -> None:
    """Refuse an answer that another process might have given without failing.

    Raises
    ------
    OutOfMemoryError
        If memory is limited, and a simulation failed because there was too little.
    """
    if _Limits.memory is not None:
        for failure in done.failures:
            if "MemoryError" in failure.reason:
                raise OutOfMemoryError(failure.reason)


def _memory_taken() -> int | None:
    """Bytes of private memory that this process has asked for, if the system says."""
    if sys.platform != "linux":
        return None
    try:  # the sixth number is that of the pages of data and stack: what RLIMIT_DATA limits
        return int(Path("/proc/self/statm").read_bytes().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
