"""Threads that nobody has asked for: what may be called in them, and how many there are.

Those of `side_by_side` end with the call.  So nothing is left between two runs, and no process that
is forked later inherits a lock.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from abctree.keywords import checks_keywords

T = TypeVar("T")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])
#: The attribute by which a function says that it may be called in threads.
_MARK = "releases_lock"


class Each(Protocol):
    """`map` of one sequence, or `side_by_side`."""

    def __call__(self, call: Callable[[T], R], items: Sequence[T], /) -> Iterable[R]:
        """The answers of a call with each item, in their order."""


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Threads for work that nobody has asked to be split: one for each processor.

    One in a process of `multiprocessing`: those beside it have the others.
    """
    return processors() if multiprocessing.parent_process() is None else 1


def side_by_side(call: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The same as ``map(call, items)``, with calls in several threads at a time.

    For calls that spend their time in compiled code, draw no random numbers, and write nothing that
    another one reads.
    """
    n = min(n_threads(), len(items))
    if n < 2:
        yield from map(call, items)
        return
    with ThreadPoolExecutor(n, thread_name_prefix="abctree") as pool:
        yield from pool.map(call, items)


def one_blas_thread() -> AbstractContextManager[object]:
    """Have linear algebra stay in the thread that calls it.

    Products of small matrices take longer in several, and their last digits depend on how many.
    """
    limits: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """Those of this process: to find them takes milliseconds."""
    import scipy.linalg  # noqa: F401 - which brings its own

    return ThreadpoolController()


@checks_keywords
def releases_lock(function: Function) -> Function:
    """Say that a function of a problem may be called in several threads at a time, and gains by it.

    For a simulator of ``vectorized="seeds"``, its summary and its distance: where each releases the
    interpreter's lock for most of its time, a run without an `executor` uses all processors.  What
    numba has compiled with ``nogil=True`` need not say so, nor need the named distances.

    Parameters
    ----------
    function : callable
        It must not write to anything that outlives the call.

    Returns
    -------
    callable
        The same function.

    Examples
    --------
    >>> import numpy as np
    >>> import abctree
    >>> @abctree.releases_lock
    ... def in_order(data):
    ...     return np.sort(data, axis=1)
    >>> in_order(np.array([[2.0, 1.0]]))
    array([[1., 2.]])
    """
    setattr(function, _MARK, True)
    return function


def is_for_threads(function: Any) -> bool:
    """Whether a function says so, or is compiled such that it releases the lock."""
    if getattr(function, _MARK, None) is True:
        return True
    if isinstance(function, partial):
        return is_for_threads(function.func)
    options = getattr(function, "targetoptions", None)  # of a dispatcher of numba
    return isinstance(options, dict) and options.get("nogil") is True
