"""What is run in a worker: a task of any pool, and a worker of `Processes` with its limits.

Memory is counted from when a worker has loaded its work.  The system refuses more than the limit,
which NumPy and Python turn into a `MemoryError`.  Before it comes to that a worker that holds half
of it between two tasks is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from concurrent import futures
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from abctree.data import Rows, Simulations
from abctree.errors import ParameterError
from abctree.numbers import check_rule
from abctree.protocols import Work
from abctree.running.executors.serial import Alarm, simulate

#: Works that a worker remembers: those before and after the pilot, and those of another run.
_REMEMBERED = 4
#: Seconds between two looks at whether the parent is alive.
_TICK = 1.0
#: Seconds that a worker has to end what its simulation has started, before it is killed.
GRACE = 1.0
#: Share of the memory at which a worker is replaced, between two tasks.
_FULL = 0.5
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
#: What a worker is sent to end; a pickle is never empty.
FAREWELL = b""

_works: OrderedDict[str, Work] = OrderedDict()


class Answer(NamedTuple):
    """What comes back of a task."""

    done: Simulations | None  #: of its first rows; None from a worker that does not know the work
    seconds: float = 0.0  #: that they took


class EndedError(BaseException):
    """A worker is to end.  Not an `Exception`: a simulator that catches those lets it through.

    On its way it ends what the simulation has started, such as a program.
    """


class WorkerLostError(futures.BrokenExecutor):
    """A task, and no other, lost its worker; the text is the reason of the failure."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final  #: whether the task is not worth another worker


def simulate_here(work: Work, rows: Rows, seconds: float, timeout: float | None) -> Answer:
    """A task: the first of its rows, those that are begun within so many seconds."""
    began = time.perf_counter()
    return Answer(simulate(work, rows, seconds, timeout), time.perf_counter() - began)


def simulate_there(
    token: str, payload: bytes | None, rows: Rows, seconds: float, timeout: float | None
) -> Answer:
    """A task in another process, which remembers the work from the first time it was sent."""
    work = unpack(token, payload)
    return Answer(None) if work is None else simulate_here(work, rows, seconds, timeout)


def unpack(token: str, payload: bytes | None) -> Work | None:
    """In a worker: the work with this token, which is remembered.

    None if this worker does not know it, and no payload was sent.
    """
    if token not in _works:
        if payload is None:
            return None
        try:
            _works[token] = pickle.loads(payload)  # noqa: S301 - made by `pack` in the parent
        except Exception as error:
            raise ParameterError(
                "The problem must load in worker processes, but there this was raised: "
                f"{type(error).__name__}: {error}. Define its functions in a module that workers "
                "can import; with cloudpickle installed, those of a script or notebook are sent "
                "along."
            ) from error
        run, parent = getattr(_works[token], "process", None), multiprocessing.parent_process()
        if parent is not None and parent.pid == run:
            _end_with_parent()  # the worker of a pool of the user's would wait for ever
        if len(_works) > _REMEMBERED:
            _works.popitem(last=False)
    _works.move_to_end(token)
    return _works[token]


# A worker of `Processes` -----------------------------------------------------------------------


class Limits(NamedTuple):
    """What a worker may use; None: as it likes."""

    n_threads: int | None = None  #: for linear algebra
    memory: int | None = None  #: bytes beyond what it has with its work loaded


class This:
    """What is true of this process."""

    starting = threading.Lock()  #: while it starts a worker
    limits = Limits()
    is_ending = False  #: was told to
    is_watching = False  #: ends when its parent does
    memory_at_start: int | None = None  #: bytes with the work loaded, if memory is limited


def serve(pipe: Connection, other_end: Connection | None, limits: Limits) -> None:
    """Answer calls until the farewell, or until the pipe is closed."""
    This.is_watching = This.is_ending = False
    This.starting = threading.Lock()  # it was forked with that of its parent locked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if other_end is not None:
        other_end.close()
    _end_with_parent()
    Alarm.has_parent = True
    This.limits = limits
    signal.signal(signal.SIGTERM, _unwind)
    set_thread_variables(limits.n_threads)
    _limit_loaded_libraries()
    try:
        while (message := pipe.recv_bytes()) != FAREWELL:
            is_value, value = _answer(message)
            pipe.send((is_value, value, _is_full() or isinstance(value, WorkerLostError)))
    except (EOFError, OSError):
        return
    except EndedError:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _unwind(_signal: int, _frame: FrameType | None) -> None:
    if not This.is_ending:
        This.is_ending = True
        raise EndedError


def load(token: str, payload: bytes) -> None:
    """Load a work, and let the limits hold for what comes."""
    unpack(token, payload)
    _limit_loaded_libraries()
    memory, taken = This.limits.memory, _memory_taken()
    if memory is None or This.memory_at_start is not None or taken is None:
        return
    This.memory_at_start = taken
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken + memory
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _answer(message: bytes) -> tuple[bool, Any]:
    """Whether a call has returned, and what it returned or raised."""
    try:
        fn, args = pickle.loads(message)  # noqa: S301 - from the parent process
        value = fn(*args)
    except MemoryError as error:
        return False, WorkerLostError(f"MemoryError: {error}")
    except EndedError:
        raise
    except BaseException as error:  # noqa: BLE001 - it is the parent's to handle
        return False, _portable(error)
    if This.limits.memory is not None and isinstance(value, Answer) and value.done is not None:
        for failure in value.done.failures:
            if "MemoryError" in failure.reason:  # another process might not have failed
                return False, WorkerLostError(failure.reason)
    return True, value


def _portable(error: BaseException) -> BaseException:
    """The error, or one like it if it would not survive the journey."""
    error.add_note(f"In a worker process:\n{''.join(traceback.format_exception(error))}")
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - an exception of the user's may do anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """Do not outlive a parent that was killed, not even until the end of a long simulation."""
    parent, number = multiprocessing.parent_process(), os.getppid()
    if parent is None or This.is_watching:
        return
    This.is_watching = True

    sentinel: Any = parent.sentinel

    def is_there() -> bool:
        if sentinel is None:  # of loky's workers
            time.sleep(_TICK)
        elif connection.wait([sentinel], _TICK):
            return False
        return os.getppid() == number  # a sibling that was forked may hold the sentinel open

    def watch() -> None:
        while is_there():
            pass
        if signal.getsignal(signal.SIGTERM) is _unwind:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, name="abctree-parent", daemon=True).start()


def _limit_loaded_libraries() -> None:
    if This.limits.n_threads is not None:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(This.limits.n_threads)


def _is_full() -> bool:
    """Whether this process has taken so much that another should go on in its place."""
    memory, start = This.limits.memory, This.memory_at_start
    if memory is None or start is None or (taken := _memory_taken()) is None:
        return False
    return taken - start > _FULL * memory


def _memory_taken() -> int | None:
    """Bytes of private memory that this process has asked for, if the system says."""
    if sys.platform != "linux":
        return None
    try:  # the sixth number is that of the pages of data and stack: what RLIMIT_DATA limits
        return int(Path("/proc/self/statm").read_bytes().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def set_thread_variables(n: int | None) -> None:
    """Let libraries that are loaded from now on use n threads."""
    if n is not None:
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(n)))


def check_memory(memory: float | None) -> None:
    """Raise `ParameterError` unless it is a limit that can be kept here, or None."""
    check_rule("memory", memory, "in (0, inf) or None", "Write 2e9 for two gigabytes.")
    if memory is not None and _memory_taken() is None:
        raise ParameterError(
            f"`memory` must be None on this system, which does not say what a process takes, but "
            f"got {memory!r}."
        )
