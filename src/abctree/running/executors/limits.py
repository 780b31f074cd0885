"""What a simulation may use in a worker: time, memory, and threads of linear algebra.

Time is limited in two ways.  An alarm interrupts code that returns to the interpreter now and then.
For code that does not, a worker of `Processes` announces until when it means to be done with what
it does, and is killed by its parent if it is not.

Memory is counted from when a worker has loaded its work.  The system refuses more than the limit,
which NumPy and Python turn into a `MemoryError`.  Before it comes to that a worker that holds half
of it between two tasks is replaced.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np

from abctree.data import Failure, Simulations
from abctree.errors import ParameterError
from abctree.protocols import TimedWork
from abctree.running.executors.chunks import split
from abctree.types import FloatArray, IntArray

Work = Callable[[FloatArray, IntArray], Simulations]

#: Seconds between the alarm and the moment at which a parent loses its patience.
_GRACE = 1.0
#: Seconds between two alarms, at least: a simulator may swallow the first.
_AGAIN = 0.1
#: Tracebacks kept of one block.
_TRACEBACKS = 3
#: Share of the memory at which a worker is replaced, between two tasks.
_FULL = 0.5
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip


class Number(Protocol):
    """A number in memory shared with the parent."""

    value: float


class OutOfTimeError(BaseException):
    """The alarm rang.  Not an `Exception`: a simulator that catches those must not catch this."""


class OutOfMemoryError(futures.BrokenExecutor):
    """A task needed more memory than its worker may have; alone in a new one it may not."""


class _Process:
    """What is true of this process: a worker's parent watches, the alarm is set."""

    deadline: Number | None = None
    armed = False
    n_threads: int | None = None
    memory: int | None = None  #: bytes that it may take, beyond those at its start
    memory_at_start: int | None = None


def check_timeout(timeout: float | None) -> None:
    """Refuse what is not a time limit.

    Raises
    ------
    ParameterError
        If it is not a positive number of seconds, or None.
    """
    if timeout is not None and not 0.0 < timeout < float("inf"):
        raise ParameterError(
            f"`timeout` must be a positive number of seconds, or None, but got {timeout!r}."
        )


def check_enforceable() -> None:
    """Refuse a time limit that nothing can enforce.

    Raises
    ------
    ParameterError
        If there is neither an alarm nor a watching parent.
    """
    if _Process.deadline is None and not _has_alarm():
        raise ParameterError(
            "`timeout` must run in the main thread of a process on a POSIX system, where an alarm "
            "can interrupt a simulation, but this is another thread or system. "
            "Use abctree.Processes(timeout=...), which can kill its workers."
        )


def simulate(
    work: Work, theta: FloatArray, index: IntArray, unit: int, timeout: float | None
) -> Simulations:
    """``work(theta, index)``, but no simulation takes longer than `timeout` seconds.

    One that would is a failure.  A unit of m rows that are simulated in one call has m times the
    limit; if that is not enough its rows are simulated one by one, as when the call raises.
    """
    if timeout is None:
        return work(theta, index)
    check_enforceable()
    parts = [_limited(work, theta[u], index[u], timeout) for u in split(index, 1, unit)]
    return Simulations.join(parts)


def simulate_some(
    work: Work,
    theta: FloatArray,
    index: IntArray,
    unit: int,
    timeout: float | None,
    seconds: float,
    take: Callable[[Simulations], None],
) -> None:
    """As `simulate`, but only what is begun within so many seconds, at least the first unit.

    `take` is given the answers to the first rows, in one or several parts.  It also has those that
    were finished before Ctrl-C, which is raised.
    """
    end = time.monotonic() + seconds
    if timeout is not None:
        check_enforceable()
        for u in split(index, 1, unit):
            take(_limited(work, theta[u], index[u], timeout))
            if time.monotonic() >= end:
                return
    elif isinstance(work, TimedWork):
        work.until(end, theta, index, take)
    else:
        take(work(theta, index))


def _limited(work: Work, theta: FloatArray, index: IntArray, timeout: float) -> Simulations:
    began = time.time()
    try:
        with _alarm(timeout * len(index)):
            return work(theta, index)
    except OutOfTimeError:
        if len(index) == 1:
            trace = traceback.format_exc()
            reason = f"TimeoutError: not done after {timeout:g} s"
            return replace(failed(work, theta, index, reason, trace), began=began)
    rows = [slice(i, i + 1) for i in range(len(index))]
    return Simulations.join([_limited(work, theta[i], index[i], timeout) for i in rows])


def failed(
    work: Work, theta: FloatArray, index: IntArray, reason: str, trace: str = ""
) -> Simulations:
    """A simulation that was given up: theta (1, p), index (1,)."""
    # The shape of a summary is the only thing about the work that an executor has to know.
    shape = work.shape if isinstance(work, TimedWork) else ()
    failure = Failure(int(index[0]), tuple(theta[0].tolist()), reason, trace)
    summary = np.full((1, *shape), np.nan)
    return Simulations(np.full(1, np.inf), summary, (failure,), began=time.time())


def joined(parts: list[Simulations]) -> Simulations:
    """Chunks as one block.  Its failures do not tell how it was cut."""
    whole = Simulations.join(parts)
    if not whole.failures:
        return whole
    failures = sorted(whole.failures, key=lambda f: f.index)
    traced = [f.index for f in failures if f.traceback][_TRACEBACKS:]
    dropped = set(traced)
    kept = (replace(f, traceback="") if f.index in dropped else f for f in failures)
    return replace(whole, failures=tuple(kept))


# The alarm -----------------------------------------------------------------------------------


def _has_alarm() -> bool:
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and hasattr(signal, "setitimer")


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in the body after so long."""
    if not _has_alarm():
        with _announced(seconds):
            yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        with _announced(seconds):
            _Process.armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds, max(seconds, _AGAIN))
            try:
                yield
            finally:
                _Process.armed = False  # an alarm from here on is silent
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


def _ring(_signal: int, _frame: FrameType | None) -> None:
    if _Process.armed:
        raise OutOfTimeError


@contextmanager
def _announced(seconds: float) -> Iterator[None]:
    """Tell a watching parent until when the body means to be done."""
    shared = _Process.deadline
    if shared is None:
        yield
        return
    shared.value = time.monotonic() + seconds + _GRACE
    try:
        yield
    finally:
        shared.value = 0.0


def announce_to(deadline: Number) -> None:
    """Let the parent watch this process: 0, or the time (monotonic) until which to wait."""
    _Process.deadline = deadline


def is_over(deadline: Number) -> bool:
    """Whether a watched process is late."""
    return 0.0 < deadline.value < time.monotonic()


# Threads -------------------------------------------------------------------------------------


def limit_threads(n: int | None) -> None:
    """Let linear algebra in this process use n threads; None for what it likes."""
    _Process.n_threads = n
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
    if _Process.n_threads is not None and (pools := _threadpoolctl()) is not None:
        pools.threadpool_limits(_Process.n_threads)


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
    _Process.memory = None if n is None else int(n)


def count_memory_from_here() -> None:
    """What the process has when this is first called is not the simulator's."""
    taken = _memory_taken()
    if _Process.memory is None or _Process.memory_at_start is not None or taken is None:
        return
    _Process.memory_at_start = taken
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken + _Process.memory
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def is_full() -> bool:
    """Whether this process has taken so much that another should go on in its place."""
    if _Process.memory is None or _Process.memory_at_start is None:
        return False
    taken = _memory_taken()
    return taken is not None and taken - _Process.memory_at_start > _FULL * _Process.memory


def check_enough_memory(done: Simulations) -> None:
    """Refuse an answer that another process might have given without failing.

    Raises
    ------
    OutOfMemoryError
        If memory is limited, and a simulation failed because there was too little.
    """
    if _Process.memory is not None:
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
