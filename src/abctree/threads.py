"""Threads for the time of a call: compiled code releases the interpreter's lock.

The pool ends with the call.  So nothing is left between two runs, no process that is forked later
inherits a lock, and nobody has to say how many threads there are to be: as many as processors.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
