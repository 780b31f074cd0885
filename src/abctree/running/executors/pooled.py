"""What all executors with a pool have in common.

A block is cut into tasks, which begin at once.  A task that is lost with its worker is done again;
one that loses its worker every time is taken apart until the simulation that does it is found.
Neither this, nor the number of workers, nor the size of the tasks changes what comes back.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from multiprocessing.context import BaseContext
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from abctree.data import Rows, Simulations
from abctree.errors import ParameterError
from abctree.protocols import Chunk, Work
from abctree.running.executors.guard import check_guarded
from abctree.running.executors.limits import OutOfMemoryError, check_enough_memory
from abctree.running.executors.parcel import Parcel, pack, unpack
from abctree.running.executors.serial import check_timeout, failed, in_time, rows_of
from abctree.running.executors.workers import OverdueError, WorkerDiedError

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
#: Simulations, and the seconds they took; None from a worker that does not know the work yet.
Answer = tuple[Simulations, float] | None
NOTHING: Chunk = (
    Rows(np.empty((0, 0)), np.empty(0, dtype=np.int64)),
    Simulations(np.empty(0), np.empty(0)),
)


class Pace:
    """Seconds that a simulation takes, learned from the tasks that came back."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def note(self, n: int, seconds: float) -> None:
        """A task of n rows took so long in its worker."""
        one = seconds / n
        old = one if self._seconds is None else self._seconds
        self._seconds = (1.0 - _NEWS) * old + _NEWS * one

    def rows(self, n: int, n_workers: int) -> int:
        """Rows of a task of a block of n: long enough, but something to do for every worker."""
        known = self._seconds is not None
        most = int(min(n, _TARGET / max(self._seconds or 0.0, 1e-9))) if known else _FIRST
        return max(1, min(most, -(-n // n_workers)))


class Pooled(ABC):
    """What all executors with a pool have in common.

    The pool is made when it is first needed.  It is shut down by `close`, or at the end of the
    outermost ``with``; a run of abctree is such a ``with``.  To keep it for several runs, put them
    into a ``with`` of your own.  A closed executor can be used again.

    Parameters
    ----------
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms, but a task for every worker.
    timeout : float or None
        Most seconds for a simulation; one that takes longer is a failure.
    """

    def __init__(self, *, chunk: int | None, timeout: float | None) -> None:
        if chunk is not None:
            check_count("chunk", chunk)
        check_timeout(timeout)
        self.chunk = chunk
        self.timeout = timeout
        self._pool: futures.Executor | None = None
        self._pace = Pace()
        self._work: Work | None = None
        self._parcel = Parcel("", b"")
        self._is_sent = False  # whether the pool was told of the parcel
        self._unsent = 0  # tasks that take it with them: it may be news to their workers
        self._depth = 0

    # What a kind of pool has to say ---------------------------------------------------------

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Tasks that run at the same time."""

    @property
    def shares_memory(self) -> bool:
        """Whether workers can use the work as it is, without pickling it."""
        return False

    @property
    def context(self) -> BaseContext | None:
        """How processes are started, which import the script; None if there are none."""
        return None

    @abstractmethod
    def _open(self, work: Work) -> futures.Executor:
        """A new pool."""

    @abstractmethod
    def _shut(self, pool: futures.Executor) -> None:
        """End a pool; nobody waits for what it does."""

    def _send(self, parcel: Parcel) -> bool:  # noqa: ARG002
        """Have every worker unpack a parcel before its next task, if the pool can do that."""
        return False

    def _reopen(self, work: Work, pool: futures.Executor) -> futures.Executor:
        """A pool in the place of one that broke."""
        self._shut(pool)
        return self._open(work)

    # What all do ----------------------------------------------------------------------------

    def chunks(self, work: Work, rows: Rows) -> Call:
        """Begin the simulations of all rows; the iterator waits for them.

        A task that has gone on for a second sends what it has, and the rest is a new one.

        Raises
        ------
        ParameterError
            If the work has to be sent to other processes but cannot be pickled.
        """
        return Call(
            self, work, rows.parts(self.chunk or self._pace.rows(len(rows), self.n_workers))
        )

    def _begin(
        self, work: Work, rows: Rows, *, whole: bool
    ) -> tuple[futures.Executor, futures.Future[Answer]]:
        """One task, and the pool that it went to; `whole` sends the work with it in any case."""
        if not self.shares_memory:
            self._pack(work)  # an error here comes before there is a pool
        if self._pool is None:
            check_guarded(self.context)
            self._pool = self._open(work)
            self._is_sent = False
        try:
            task = self._task(work, whole=whole)
            future = self._pool.submit(task, rows, _SECONDS, self.timeout)
        except futures.BrokenExecutor:  # it broke while it had nothing to do
            self._mend(work, self._pool)
            task = self._task(work, whole=whole)
            future = self._pool.submit(task, rows, _SECONDS, self.timeout)
        return self._pool, future

    def _mend(self, work: Work, broken: futures.Executor) -> None:
        """Have a sound pool, if the current one is this broken one."""
        if self._pool is broken:
            self._pool = None
            self._pool = self._reopen(work, broken)
            self._is_sent = False

    def _is_current(self, pool: futures.Executor) -> bool:
        """Whether this pool was not replaced meanwhile."""
        return self._pool is pool

    def _note(self, n: int, seconds: float) -> None:
        """A task of n rows took so long in its worker."""
        self._pace.note(n, seconds)

    def close(self) -> None:
        """Shut the pool down.  What is pending is cancelled."""
        pool, self._pool = self._pool, None
        self._work, self._parcel = None, Parcel("", b"")
        if pool is not None:
            self._shut(pool)

    def __enter__(self) -> Self:
        check_guarded(self.context)
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.close()

    def _pack(self, work: Work) -> None:
        """Have the work as a parcel."""
        if self._work is None or not _is_same(work, self._work):
            self._parcel = pack(work)
            self._work = work
            self._is_sent = False

    def _task(self, work: Work, *, whole: bool) -> Callable[..., Answer]:
        """What a worker is asked to do with some rows."""
        if self.shares_memory:
            return partial(simulate_here, work)
        if not self._is_sent:
            self._is_sent = True
            self._unsent = 0 if self._send(self._parcel) else self.n_workers
        if not whole and self._unsent > 0:
            self._unsent -= 1
            whole = True
        return partial(simulate_there, self._parcel.token, self._parcel.payload if whole else None)


def simulate_here(
    work: Work, rows: Rows, seconds: float, timeout: float | None
) -> tuple[Simulations, float]:
    """A task: the first of its rows, those that are begun within so many seconds."""
    began = time.perf_counter()
    until = time.monotonic() + seconds
    done = work(rows, until) if timeout is None else in_time(work, rows, until, timeout)
    return done, time.perf_counter() - began


def simulate_there(
    token: str, payload: bytes | None, rows: Rows, seconds: float, timeout: float | None
) -> Answer:
    """A task in another process, which remembers the work from the first time it was sent."""
    work = unpack(token, payload)
    if work is None:
        return None
    done, took = simulate_here(work, rows, seconds, timeout)
    check_enough_memory(done)
    return done, took


class Task(NamedTuple):
    """Rows that are made in one call."""

    rows: Rows
    deaths: int = 0  #: workers that died with this unit alone
    is_alone: bool = False  #: whether its pool has nothing else to do: the blame is certain


class Call:
    """The tasks of one call of `chunks`: see `Ahead`."""

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
            return NOTHING
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
        pool, future = self._crew._begin(self._work, task.rows, whole=whole)
        self._running[future] = task, pool
        future.add_done_callback(self._ended.put)

    def _collect(self, future: futures.Future[Answer]) -> None:
        """Take what a task that ended has to say; begin again what was lost."""
        if future not in self._running:
            return  # taken before
        task, pool = self._running.pop(future)
        try:
            answer = future.result()
        except Exception as error:
            if not _is_alone_to_blame(error) and not isinstance(error, futures.BrokenExecutor):
                raise
            self._recover(task, pool, error)
        else:
            self._take(task, answer)

    def _take(self, task: Task, answer: Answer) -> None:
        """Take the answer of a task, and begin what it left to be done."""
        if answer is None:
            self._begin(task, whole=True)
            return
        done, seconds = answer
        n = len(done)
        self._crew._note(n, seconds)
        self._ready.append((task.rows[:n], done))
        if n < len(task.rows):
            self._begin(task._replace(rows=task.rows[n:]))

    def _recover(self, task: Task, pool: futures.Executor, error: Exception) -> None:
        """Begin again what was lost with a worker, or with its pool."""
        if _is_alone_to_blame(error):
            for part in self._after_death(task, error):
                self._begin(part)
        elif task.is_alone:
            self._crew._mend(self._work, pool)
            self._suspects.extendleft(reversed(self._after_death(task, error)))
        elif self._crew._is_current(pool):
            self._suspects.extend([task, *self._lost_with(pool)])
        else:  # another task was to blame, and the pool is a new one already
            self._begin(task)

    def _lost_with(self, broken: futures.Executor) -> list[Task]:
        """The other tasks of a pool that broke: all have ended, or are about to."""
        theirs = [future for future, (_, pool) in self._running.items() if pool is broken]
        futures.wait(theirs)
        lost = [f for f in theirs if isinstance(f.exception(), futures.BrokenExecutor)]
        return [self._running.pop(future)[0] for future in lost]

    def _after_death(self, task: Task, error: Exception) -> list[Task]:
        """What to do again when a worker died with a task.

        Units are done apart, so that one cannot take the others with it.  A unit that alone keeps
        losing its worker is done row by row, as one that raises.  A row that does is a failure.
        """
        units = list(task.rows.parts(1))
        if len(units) > 1:
            return [Task(unit) for unit in units]
        deaths = task.deaths + 1
        if deaths < _LIVES and not _is_final(error):
            return [Task(task.rows, deaths)]
        if len(task.rows) > 1:
            return [Task(row, _LIVES - 1) for row in rows_of(task.rows)]
        self._ready.append((task.rows, failed(self._work, task.rows, self._reason(error))))
        return []

    def _reason(self, error: Exception) -> str:
        if isinstance(error, OutOfMemoryError):
            return str(error)
        if isinstance(error, OverdueError):
            limit = self._crew.timeout
            return f"TimeoutError: not done after {limit:g} s, its worker was killed"
        how = str(error) if isinstance(error, WorkerDiedError) else "the worker process died"
        return f"WorkerDiedError: {how}"


def _is_alone_to_blame(error: Exception) -> bool:
    """Whether a task, and no other, lost its worker."""
    return isinstance(error, WorkerDiedError | OverdueError | OutOfMemoryError) or _is_final(error)


def _is_final(error: Exception) -> bool:
    """Whether a task that lost its worker is not worth another one.

    Dask tries a task on several workers before it says that all of them were killed.
    """
    return isinstance(error, OverdueError) or type(error).__name__ == "KilledWorker"


def _is_same(a: object, b: object) -> bool:
    """Whether two works are made of the very same objects, and need not be pickled to compare."""
    if a is b:
        return True
    if type(a) is not type(b) or not is_dataclass(a):
        return False
    return all(vars(a)[f.name] is vars(b)[f.name] for f in fields(a))


def check_count(name: str, n: int) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError(f"`{name}` must be a whole number of at least 1, but got {n!r}.")
