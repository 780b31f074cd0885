"""What all executors with a pool have in common.

A block is cut into tasks, which begin at once.  A task that is lost with its worker is done again;
one that loses its worker every time is taken apart until the simulation that does it is found.
Neither this, nor the number of workers, nor the size of the tasks changes what comes back.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from multiprocessing.context import BaseContext
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

from abctree.data import Simulations
from abctree.errors import ParameterError
from abctree.protocols import Notes
from abctree.running.executors.chunks import Pace, split
from abctree.running.executors.guard import check_guarded
from abctree.running.executors.limits import (
    OutOfMemoryError,
    Work,
    check_enough_memory,
    check_timeout,
    failed,
    joined,
    simulate,
    simulate_some,
)
from abctree.running.executors.parcel import Parcel, pack, unpack
from abctree.running.executors.workers import OverdueError, WorkerDiedError
from abctree.types import FloatArray, IntArray

#: Workers that a simulation may lose alone before it is given up; others may have killed some.
_LIVES = 3
#: Simulations, and the seconds they took; None from a worker that does not know the work yet.
Answer = tuple[Simulations, float] | None


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

    def submit(
        self, work: Work, theta: FloatArray, index: IntArray, unit: int
    ) -> Callable[[], Simulations]:
        """Begin the simulations of all rows; the answer waits for them.

        An answer that is thrown away, not asked for, takes its pending tasks back.

        Raises
        ------
        ParameterError
            If the work has to be sent to other processes but cannot be pickled.
        """
        return self._submit(work, theta, index, unit, None)

    def submit_noted(
        self, work: Work, theta: FloatArray, index: IntArray, unit: int, notes: Notes
    ) -> Callable[[], Simulations]:
        """As `submit`; what comes back is noted, also while another block is waited for.

        A task that has gone on for `notes.seconds` sends what it has, and the rest is a new one.

        Raises
        ------
        ParameterError
            If the work has to be sent to other processes but cannot be pickled.
        """
        return self._submit(work, theta, index, unit, notes)

    def _submit(
        self, work: Work, theta: FloatArray, index: IntArray, unit: int, notes: Notes | None
    ) -> Block:
        size = self.chunk or self._pace.rows(len(index), self.n_workers)
        return Block(self, work, theta, index, unit, split(index, size, unit), notes)

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
            future = self._pool.submit(task, *rows, self.timeout)
        except futures.BrokenExecutor:  # it broke while it had nothing to do
            self._mend(work, self._pool)
            task = self._task(work, whole=whole)
            future = self._pool.submit(task, *rows, self.timeout)
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


class Rows(NamedTuple):
    """What a task is told of its simulations."""

    theta: FloatArray
    numbers: IntArray
    unit: int
    seconds: float | None  #: after which it is to send what it has


def simulate_here(
    work: Work,
    theta: FloatArray,
    index: IntArray,
    unit: int,
    seconds: float | None,
    timeout: float | None,
) -> tuple[Simulations, float]:
    """A task."""
    began = time.perf_counter()
    if seconds is None:
        done = simulate(work, theta, index, unit, timeout)
    else:
        parts: list[Simulations] = []
        simulate_some(work, theta, index, unit, timeout, seconds, parts.append)
        done = Simulations.join(parts)
    return done, time.perf_counter() - began


def simulate_there(
    token: str,
    payload: bytes | None,
    theta: FloatArray,
    index: IntArray,
    unit: int,
    seconds: float | None,
    timeout: float | None,
) -> Answer:
    """A task in another process, which remembers the work from the first time it was sent."""
    work = unpack(token, payload)
    if work is None:
        return None
    done, took = simulate_here(work, theta, index, unit, seconds, timeout)
    check_enough_memory(done)
    return done, took


class Piece(NamedTuple):
    """Rows of a block that are one task."""

    first: int
    last: int
    deaths: int = 0  #: workers that died with this unit alone


class Block:
    """The tasks of one call of `submit`; calling it waits for them."""

    def __init__(
        self,
        crew: Pooled,
        work: Work,
        theta: FloatArray,
        index: IntArray,
        unit: int,
        chunks: Sequence[slice],
        notes: Notes | None,
    ) -> None:
        self._crew = crew
        self._work = work
        self._theta = theta
        self._index = index
        self._unit = unit
        self._notes = notes
        self._done: dict[int, Simulations] = {}
        self._running: dict[futures.Future[Answer], tuple[Piece, futures.Executor]] = {}
        self._ended: SimpleQueue[futures.Future[Answer]] = SimpleQueue()
        for rows in chunks:
            self._begin(Piece(rows.start, rows.stop))

    def __call__(self) -> Simulations:
        """All simulations, in the order of their rows."""
        try:
            while self._running:
                self._collect(self._next())
        except BaseException as error:
            self._give_up()
            if isinstance(error, KeyboardInterrupt):
                self._crew.close()
            raise
        return joined([self._done[first] for first in sorted(self._done)])

    def _next(self) -> futures.Future[Answer]:
        """The next task that ends."""
        if self._notes is None:
            return self._ended.get()
        while True:
            self._notes.keep()
            with suppress(Empty):
                return self._ended.get(timeout=self._notes.seconds)

    def __del__(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        for future in list(self.__dict__.get("_running", ())):
            future.cancel()

    def _begin(self, piece: Piece, *, whole: bool = False) -> futures.Future[Answer]:
        part = slice(piece.first, piece.last)
        seconds = None if self._notes is None else self._notes.seconds
        rows = Rows(self._theta[part], self._index[part], self._unit, seconds)
        pool, future = self._crew._begin(self._work, rows, whole=whole)
        self._running[future] = piece, pool
        if self._notes is not None:  # at once, whatever is waited for then
            future.add_done_callback(partial(_note, self._notes, piece.first))
        future.add_done_callback(self._ended.put)
        return future

    def _collect(self, future: futures.Future[Answer]) -> None:
        """Take what a task that ended has to say; begin again what was lost."""
        if future not in self._running:
            return  # taken before
        piece, pool = self._running.pop(future)
        try:
            for rest in self._take(piece, future):
                self._begin(rest)
        except Exception as error:
            if _is_alone_to_blame(error):
                for part in self._after_death(piece, error):
                    self._begin(part)
            elif not isinstance(error, futures.BrokenExecutor):
                raise
            elif self._crew._is_current(pool):
                self._one_by_one([piece, *self._lost_with(pool)])
            else:  # another piece was to blame, and the pool is a new one already
                self._begin(piece)

    def _take(self, piece: Piece, future: futures.Future[Answer]) -> list[Piece]:
        """Take the answer of a task, or raise what it raised; what it left to be done."""
        answer = future.result()
        if answer is None:
            self._begin(piece, whole=True)
            return []
        simulations, seconds = answer
        n = len(simulations.distance)
        self._crew._note(n, seconds)
        self._done[piece.first] = simulations
        end = piece.first + n
        return [Piece(end, piece.last)] if end < piece.last else []

    def _lost_with(self, broken: futures.Executor) -> list[Piece]:
        """The other tasks of a pool that broke: all have ended, or are about to."""
        theirs = [future for future, (_, pool) in self._running.items() if pool is broken]
        futures.wait(theirs)
        lost = [f for f in theirs if isinstance(f.exception(), futures.BrokenExecutor)]
        return [self._running.pop(future)[0] for future in lost]

    def _one_by_one(self, suspects: list[Piece]) -> None:
        """One task at a time, after a pool broke: if it breaks again, the blame is certain."""
        queue = deque(suspects)
        while queue:
            piece = queue.popleft()
            future = self._begin(piece, whole=True)
            futures.wait([future])
            _, pool = self._running.pop(future)
            try:
                queue.extendleft(self._take(piece, future))
            except futures.BrokenExecutor as error:
                self._crew._mend(self._work, pool)
                queue.extendleft(reversed(self._after_death(piece, error)))
            if self._notes is not None:
                self._notes.keep()

    def _after_death(self, piece: Piece, error: Exception) -> list[Piece]:
        """What to do again when a worker died with a piece.

        Units are done apart, so that one cannot take the others with it.  A unit that alone keeps
        losing its worker is done row by row, as one that raises.  A row that does is a failure.
        """
        index = self._index[piece.first : piece.last]
        units = split(index, 1, self._unit)
        if len(units) > 1:
            return [Piece(piece.first + unit.start, piece.first + unit.stop) for unit in units]
        deaths = piece.deaths + 1
        if deaths < _LIVES and not _is_final(error):
            return [piece._replace(deaths=deaths)]
        if len(index) > 1:
            rows = range(piece.first, piece.last)
            return [Piece(row, row + 1, _LIVES - 1) for row in rows]
        self._fail(piece, error)
        return []

    def _fail(self, piece: Piece, error: Exception) -> None:
        if isinstance(error, OutOfMemoryError):
            reason = str(error)
        elif isinstance(error, OverdueError):
            reason = f"TimeoutError: not done after {self._crew.timeout:g} s, its worker was killed"
        else:
            how = str(error) if isinstance(error, WorkerDiedError) else "the worker process died"
            reason = f"WorkerDiedError: {how}"
        row = slice(piece.first, piece.last)
        given_up = failed(self._work, self._theta[row], self._index[row], reason)
        self._done[piece.first] = given_up
        if self._notes is not None:
            self._notes.add(piece.first, given_up)


def _note(notes: Notes, first: int, future: futures.Future[Answer]) -> None:
    """Note the answer of a task that has ended, if it has one."""
    if future.cancelled() or future.exception() is not None:
        return
    if (answer := future.result()) is not None:
        notes.add(first, answer[0])


def _is_alone_to_blame(error: Exception) -> bool:
    """Whether a task, and no other, lost its worker."""
    return isinstance(error, WorkerDiedError | OverdueError | OutOfMemoryError) or _is_final(error)


def _is_final(error: Exception) -> bool:
    """Whether a task that lost its worker is not worth another one.

    Dask tries a task on several workers before it says that all of them were killed.
    """
    return isinstance(error, OverdueError) or type(error).__name__ == "KilledWorker"


def _is_same(a: Work, b: Work) -> bool:
    """Whether two works are made of the very same objects, and need not be pickled to compare."""
    if a is b:
        return True
    if type(a) is not type(b) or not is_dataclass(a):
        return False
    return all(getattr(a, f.name) is getattr(b, f.name) for f in fields(a))


def check_count(name: str, n: int) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError(f"`{name}` must be a whole number of at least 1, but got {n!r}.")
