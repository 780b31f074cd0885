"""`Pooled`: what all executors with a pool have in common.

A block is cut into tasks, which begin at once.  A task that is lost with its worker is done again;
one that loses its worker every time is taken apart until the simulation that does it is found.
Neither this, nor the number of workers, nor the size of the tasks changes what comes back.
"""

from __future__ import annotations

import importlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import suppress
from functools import partial
from inspect import signature
from multiprocessing.context import BaseContext
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self, cast

import numpy as np

from abctree.data import Rows, Simulations
from abctree.errors import AbctreeError, ParameterError, wrong
from abctree.numbers import check_rule, checked_count
from abctree.protocols import Chunk, Work
from abctree.running.executors.sending import check_guarded, pack
from abctree.running.executors.serial import POSITIVE, failed, rows_of
from abctree.running.executors.worker import (
    Answer,
    WorkerLostError,
    simulate_here,
    simulate_there,
)
from abctree.threads import processors

_log = logging.getLogger("abctree")

#: Seconds that a task may go on, and that nothing may come, before the run hears of it.
_SECONDS = 1.0
#: Seconds that a task should last: sending one costs about a ten-thousandth of a second.
_TARGET = 0.02
#: Most rows of a task while nothing is known about the simulator.
_FIRST = 16
#: Weight of the last task in the estimate of the time.
_NEWS = 0.3
#: Workers that a simulation may lose alone before it is given up; others may have killed some.
_LIVES = 3
#: Errors by which other pools say that a task has lost its worker.
_LOST = {"WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError"}
#: By which a pool says that it was shut down with its tasks; the second is of loky.
_ENDED = {"CancelledError", "ShutdownExecutorError"}
_NOTHING: Chunk = (
    Rows(np.empty((0, 0)), np.empty(0, dtype=np.int64)),
    Simulations(np.empty(0), np.empty(0)),
)


class Pace:
    """Seconds that a simulation takes, learned from the tasks that came back."""

    def __init__(self, target: float = _TARGET) -> None:
        self._seconds: float | None = None
        self.target = target

    def note(self, n: int, seconds: float) -> None:
        """A task of n rows took so long in its worker."""
        one = seconds / n
        old = one if self._seconds is None else self._seconds
        self._seconds = (1.0 - _NEWS) * old + _NEWS * one

    def seconds(self, n: int) -> float:
        """How long n simulations take, one after another; 0 while nothing is known."""
        return n * (self._seconds or 0.0)

    def rows(self, n: int, n_workers: int) -> int:
        """Rows of a task of a block of n: long enough, but something to do for every worker."""
        known = self._seconds is not None
        most = int(min(n, self.target / max(self._seconds or 0.0, 1e-9))) if known else _FIRST
        return max(1, min(most, -(-n // n_workers)))


class Pooled:
    """What all executors with a pool have in common.

    A pool that its `source` makes is made when it is first needed.  It is shut down by `close`, or
    at the end of the outermost ``with``; a run of abctree is such a ``with``.  To keep it for
    several runs, put them into a ``with`` of your own.  A closed executor can be used again.
    """

    def __init__(
        self,
        source: futures.Executor | Callable[[], futures.Executor],
        *,
        n_workers: int | None,
        chunk: int | None,
        timeout: float | None,
        shares_memory: bool = False,  # the work need not be pickled
        context: BaseContext | None = None,  # how processes are started, if that is known
        ask: Callable[[], int] | None = None,  # how many workers there are now
        seconds: float | None = None,  # that a task should last
    ) -> None:
        check_rule("timeout", timeout, *POSITIVE)
        if shares_memory and timeout is not None:
            raise ParameterError(
                "`timeout` must be None for threads, which cannot be stopped, but got "
                f"{timeout!r}. Use abctree.Processes(timeout=...)."
            )
        self.chunk = None if chunk is None else checked_count("chunk", chunk)
        self.timeout = None if timeout is None else float(timeout)
        self.context = context
        self._source = source
        self._n_workers = None if n_workers is None else checked_count("n_workers", n_workers)
        self._shares_memory = shares_memory
        self._pool: futures.Executor | None = None
        self._pace = Pace(seconds or _TARGET)
        self._ask = ask
        self._work: Work | None = None
        self._packed = "", b""
        self._unsent = 0  # tasks that take the work with them: it may be news to their workers
        self._depth = 0

    @property
    def n_workers(self) -> int:
        """Tasks that run at the same time, as far as is known."""
        if self._n_workers is not None:
            return self._n_workers
        if self._ask is not None and (now := self._ask()):
            return now
        pool = self._pool or self._source
        for name in ("_max_workers", "num_workers"):  # the standard library and loky; MPI and Ray
            if isinstance(n := getattr(pool, name, None), int) and n > 0:
                return n
        return processors()

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """Begin the simulations of all rows; the iterator waits for them.

        A task that has gone on for a second sends what it has, and the rest is a new one.

        Raises
        ------
        ParameterError
            If the work has to be sent to other processes but cannot be pickled.
        """
        size = self.chunk or self._pace.rows(len(rows), self.n_workers)
        return Block(self, work, rows.parts(size))

    def _submit(
        self, work: Work, rows: Rows, *, whole: bool
    ) -> tuple[futures.Executor, futures.Future[Answer]]:
        """One task, and the pool that it went to; `whole` sends the work with it in any case."""
        if not self._shares_memory and self._work is not work:
            self._packed, self._work = pack(work), work  # an error comes before there is a pool
            self._tell_of_work()
        pool = self._pool or self._open()
        given = rows, _SECONDS, self.timeout
        try:
            future = pool.submit(self._task(work, whole=whole), *given)
        except futures.BrokenExecutor:  # it broke while it had nothing to do
            pool = self._mended(pool)
            future = pool.submit(self._task(work, whole=whole), *given)
        except Exception as error:
            raise closed(pool, f"takes no task ({type(error).__name__}: {error})") from error
        if not hasattr(future, "add_done_callback"):
            raise no_pool(pool, f"a task is {future!r}")
        return pool, future

    def _task(self, work: Work, *, whole: bool) -> Callable[..., Answer]:
        """What a worker is asked to do with some rows."""
        if self._shares_memory:
            return partial(simulate_here, work)
        token, payload = self._packed
        whole = whole or self._unsent > 0
        self._unsent -= 1
        return partial(simulate_there, token, payload if whole else None)

    def _tell_of_work(self) -> None:
        pool = self._pool
        if pool and hasattr(pool, "prepare"):  # each worker loads the work before its next task
            pool.prepare(*self._packed)
            self._unsent = 0
        else:
            self._unsent = self.n_workers

    def _open(self) -> futures.Executor:
        check_guarded(self.context)
        pool = self._source if isinstance(self._source, futures.Executor) else self._source()
        if not isinstance(pool, futures.Executor):
            raise no_pool(pool, "it was made by the function that was given")
        self._pool = pool
        self._tell_of_work()
        return pool

    def _mended(self, broken: futures.Executor) -> futures.Executor:
        """A sound pool, where this one has broken."""
        if self._pool is broken:
            self._pool = None
            if isinstance(self._source, futures.Executor):
                self._source = _made_again(broken, self.n_workers)
            else:
                _shut(broken)
        return self._pool or self._open()

    def close(self) -> None:
        """Shut the pool down, unless it is the user's.  What is pending is cancelled."""
        pool, self._pool = self._pool, None
        self._work, self._packed = None, ("", b"")
        if pool is not None and not isinstance(self._source, futures.Executor):
            _shut(pool)

    def __enter__(self) -> Self:
        check_guarded(self.context)
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.close()


def closed(pool: futures.Executor, how: str) -> AbctreeError:
    """The error of a pool of the user's that has ended, or lost its scheduler."""
    return AbctreeError(
        f"`executor` must stay open while the run is on, but {type(pool).__name__} {how}. "
        "Begin it again; a run with a store goes on by abctree.resume."
    )


def no_pool(pool: object, why: str) -> ParameterError:
    """The error of what is not a pool like those of `concurrent.futures`."""
    return wrong("executor", "be a pool of concurrent.futures", f"{pool!r}: {why}")


def _shut(pool: futures.Executor) -> None:
    """End a pool; nobody waits for what it does."""
    can_cancel = "cancel_futures" in signature(pool.shutdown).parameters
    pool.shutdown(wait=False, **({"cancel_futures": True} if can_cancel else {}))


def _made_again(broken: futures.Executor, n: int) -> futures.Executor:
    """A pool in the place of one of the user's that broke."""
    name, is_reusable, _ = type(broken).__module__.partition(".reusable_executor")
    if is_reusable:  # of loky, or of the one in joblib
        return cast("futures.Executor", importlib.import_module(name).get_reusable_executor(n))
    raise AbctreeError(
        f"A worker process died, and with it its pool, {type(broken).__name__}, which only you "
        "can make again. Give abctree.Processes(n), or a function that makes the pool, as in "
        f"abctree.Pool(lambda: {type(broken).__name__}(n))."
    )


# The tasks of a block ------------------------------------------------------------------------


class Task(NamedTuple):
    """Rows that are made in one call."""

    rows: Rows
    deaths: int = 0  #: workers that died with this unit alone
    is_alone: bool = False  #: whether its pool has nothing else to do: the blame is certain


class Block:
    """The tasks of a block, begun at once: see `Ahead`."""

    def __init__(self, crew: Pooled, work: Work, parts: Iterable[Rows]) -> None:
        self._crew = crew
        self._work = work
        self._ready: deque[Chunk] = deque()
        self._running: dict[futures.Future[Answer], tuple[Task, futures.Executor]] = {}
        self._suspects: deque[Task] = deque()  # one of these broke a pool
        self._ended: SimpleQueue[futures.Future[Answer]] = SimpleQueue()
        for rows in parts:
            self._begin(Task(rows))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        if not (self._ready or self._running or self._suspects):
            raise StopIteration
        try:
            while not self._ready:
                if not self._running:  # if it breaks again, the blame is certain
                    self._begin(self._suspects.popleft()._replace(is_alone=True), whole=True)
                self._collect(self._ended.get(timeout=_SECONDS))
        except Empty:
            return _NOTHING
        except BaseException as error:
            self._give_up()
            if isinstance(error, KeyboardInterrupt):
                self._crew.close()
            raise
        return self._ready.popleft()

    def finished(self) -> Iterator[Chunk]:
        """Chunks that have come back; what was lost with a worker is left to who waits for it."""
        troubled = []
        with suppress(Empty):
            while True:
                future = self._ended.get_nowait()
                if future.cancelled() or future.exception() is not None:
                    troubled.append(future)
                else:
                    self._collect(future)
        for future in troubled:
            self._ended.put(future)
        while self._ready:
            yield self._ready.popleft()

    def __del__(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        for future in list(self.__dict__.get("_running", ())):
            future.cancel()

    def _begin(self, task: Task, *, whole: bool = False) -> None:
        pool, future = self._crew._submit(self._work, task.rows, whole=whole)
        self._running[future] = task, pool
        future.add_done_callback(self._ended.put)

    def _collect(self, future: futures.Future[Answer]) -> None:
        """Take what a task that ended has to say, and begin what it left to be done."""
        task, pool = self._running.pop(future)
        try:
            answer = future.result()
        except Exception as error:
            if type(error).__name__ in _ENDED:
                raise closed(pool, "has cancelled its tasks") from error
            if not isinstance(error, futures.BrokenExecutor) and not _is_lost(error):
                raise
            self._recover(task, pool, error)
            return
        if not isinstance(answer, Answer):
            raise no_pool(pool, f"a task gave {answer!r}, and not what it returned")
        done, seconds = answer
        if done is None:
            self._begin(task, whole=True)
            return
        n = len(done)
        self._crew._pace.note(n, seconds)
        self._ready.append((task.rows[:n], done))
        if n < len(task.rows):
            self._begin(task._replace(rows=task.rows[n:]))

    def _recover(self, task: Task, pool: futures.Executor, error: Exception) -> None:
        """Begin again what was lost with a worker, or with its pool."""
        _log.warning("a worker was lost with %d simulations: %s", len(task.rows), error)
        if isinstance(error, WorkerLostError) or _is_lost(error):
            for part in self._after_death(task, error):
                self._begin(part)
        elif task.is_alone:
            self._crew._mended(pool)
            self._suspects.extendleft(reversed(self._after_death(task, error)))
        elif self._crew._pool is pool:
            self._suspects.append(task)
        else:  # another task was to blame, and the pool is a new one already
            self._begin(task)

    def _after_death(self, task: Task, error: Exception) -> list[Task]:
        """What to do again when a worker died with a task.

        Units are done apart, so that one cannot take the others with it.  A unit that alone keeps
        losing its worker is done row by row, as one that raises.  A row that does is a failure.
        """
        units = list(task.rows.parts(1))
        if len(units) > 1:
            return [Task(unit) for unit in units]
        deaths = task.deaths + 1
        is_final = error.is_final if isinstance(error, WorkerLostError) else _gives_up(error)
        if deaths < _LIVES and not is_final:
            return [Task(task.rows, deaths)]
        if len(task.rows) > 1:
            return [Task(row, _LIVES - 1) for row in rows_of(task.rows)]
        is_known = isinstance(error, WorkerLostError)
        reason = str(error) if is_known else "WorkerDiedError: the worker process died"
        self._ready.append((task.rows, failed(self._work, task.rows, reason)))
        return []


def _is_lost(error: Exception) -> bool:
    """Whether a pool of another package says that a task, and no other, has lost its worker."""
    return type(error).__name__ in _LOST or _gives_up(error)


def _gives_up(error: Exception) -> bool:
    """Whether it has tried the task on several workers, and all of them were killed."""
    return type(error).__name__ == "KilledWorker"
