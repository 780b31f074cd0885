"""`Processes`: workers that can be lost one at a time, with limits of time, memory and threads.

A `concurrent.futures.ProcessPoolExecutor` that loses a worker loses everything that was not done,
and does not say which task was to blame.  Here each worker has a pipe of its own and one task at a
time, so the blame is certain, the others go on, and a task that takes too long can be killed.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from multiprocessing import connection
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from typing import Any, Literal

from abctree.data import Rows
from abctree.errors import AbctreeError, ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import checked_count
from abctree.running.executors import sending
from abctree.running.executors.pooled import Pooled
from abctree.running.executors.worker import (
    FAREWELL,
    GRACE,
    THREAD_VARIABLES,
    Limits,
    This,
    WorkerLostError,
    check_memory,
    load,
    serve,
    set_thread_variables,
)
from abctree.threads import processors

StartMethod = Literal["spawn", "fork", "forkserver"]

#: Attempts to start a worker that is killed meanwhile by someone else.
_ATTEMPTS = 5
#: Seconds between two looks at whether a worker is alive.
_TICK = 1.0
#: Seconds between the moment at which a task must be done and that at which its worker is killed.
_GRACE = 1.0
#: Seconds for an idle worker to end by itself.
_PATIENCE = 5.0
#: A function and its arguments.
_Call = tuple[Callable[..., Any], tuple[Any, ...]]
#: Does nothing: the answer says that the worker has started.
_NOTHING: _Call = (int, ())


@checks_keywords
class Processes(Pooled):
    """Runs simulations in processes of this machine.

    A worker that dies (a crash in compiled code, ``os._exit``, too little memory, a signal) is
    replaced, and what it was doing is done again, each simulation alone.  One that loses three
    workers alone is a failure, and the others are kept.

    Parameters
    ----------
    n_workers : int or None
        Number of processes; None for the number of processors that this one may use.
    start_method : {"spawn", "fork", "forkserver"}
        How they are started.  "spawn" works everywhere and takes half a second; "fork" is
        immediate, but not safe when this process has threads.
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms, but a task for every worker.  It never
        changes a result.
    timeout : float or None
        Most seconds for a simulation; one that takes longer is a failure.  Code that does not
        return to the interpreter is ended with its worker, a second or two later.  Watching costs
        about 0.2 ms a simulation.
    n_threads : int or None
        Threads for linear algebra in each worker; None for what the libraries like, which is
        usually one for every processor, in every worker.
    memory : float or None
        Bytes that a worker may take beyond what it has with the problem loaded, on Linux.  One that
        holds half of them after a task is replaced, which loses nothing: for simulators that leak.
        A simulation that needs more, also alone in a new worker, is a failure.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.

    Notes
    -----
    Simulator, summary and distance are pickled, by cloudpickle if it is installed, and sent to each
    worker once.  A script that uses processes has its run under
    ``if __name__ == "__main__":``, because workers import it.

    Examples
    --------
    >>> import abctree
    >>> executor = abctree.Processes(4, timeout=60.0)
    >>> executor
    Processes(4, start_method='spawn')
    """

    def __init__(
        self,
        n_workers: int | None = None,
        start_method: StartMethod = "spawn",
        *,
        chunk: int | None = None,
        timeout: float | None = None,
        n_threads: int | None = 1,
        memory: float | None = None,
    ) -> None:
        check_memory(memory)
        known = multiprocessing.get_all_start_methods()
        if start_method not in known:
            raise ParameterError(
                f"`start_method` must be one of {known} on this system, but got {start_method!r}."
            )
        n_threads = None if n_threads is None else checked_count("n_threads", n_threads)
        context = multiprocessing.get_context(start_method)
        limits = Limits(n_threads, None if memory is None else int(memory))

        if start_method == "forkserver":  # what is imported there need not be by each worker
            context.set_forkserver_preload(["__main__", __name__, "abctree.problem"])
        n = processors() if n_workers is None else checked_count("n_workers", n_workers)
        make = partial(Workers, n, context, limits)
        super().__init__(make, n_workers=n, chunk=chunk, timeout=timeout, context=context)
        self.start_method = start_method
        self.n_threads = n_threads
        self.memory = memory

    def __repr__(self) -> str:
        return f"Processes({self.n_workers}, start_method={self.start_method!r})"


class Workers(futures.Executor):
    """A pool of n processes.

    A task whose worker dies, is killed because it takes too long, or runs out of memory raises
    `WorkerLostError`.  Other tasks are not affected, and the pool can be used as before.
    """

    def __init__(self, n: int, context: BaseContext, limits: Limits) -> None:
        self._kind = context, limits
        # All at once: they boot together, and a fork comes before there are threads.
        self._idle = [Worker(context, limits) for _ in range(n)]
        self._all = set(self._idle)
        self._first: _Call = _NOTHING
        self._over = threading.Event()
        # One thread for each worker: it sends a task, waits for the answer, and takes the next.
        self._threads = futures.ThreadPoolExecutor(n, thread_name_prefix="abctree-worker")
        # At exit before multiprocessing joins its children: these end when their pipe is closed.
        Finalize(self, _end, args=(self._all, self._idle), exitpriority=10)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a worker, after all that was submitted before."""
        return self._threads.submit(self._remotely, (partial(fn, **kwargs) if kwargs else fn, args))

    def prepare(self, token: str, payload: bytes) -> None:
        """Have each worker, also one that is yet to come, load the work before its next task.

        A worker that dies of this is not held against the task.
        """
        self._first = (load, (token, payload))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """End once all is done; with `cancel_futures` now: what is running is killed."""
        if cancel_futures:
            self._over.set()
        self._threads.shutdown(wait=wait and not cancel_futures, cancel_futures=cancel_futures)
        if wait or cancel_futures:
            self._over.set()
            _end(self._all, self._idle)
            self._threads.shutdown(wait=True)

    def _remotely(self, call: _Call) -> Any:
        worker = self._ready()
        try:
            return worker.answer(call)
        finally:
            if worker.is_full:  # before another one takes memory in its place
                worker.dismiss()
                worker.gone()
            if worker.is_full or worker.is_lost or self._over.is_set():
                self._all.discard(worker)
            else:
                self._idle.append(worker)

    def _ready(self) -> Worker:
        """An idle worker, or a new one in the place of one that died."""
        for _ in range(_ATTEMPTS):
            if self._over.is_set():
                raise futures.CancelledError
            try:
                worker = self._idle.pop()  # one for each thread, unless it was lost
            except IndexError:
                worker = Worker(*self._kind)
            if not worker.process.is_alive():
                self._all.discard(worker)
                worker = Worker(*self._kind)
            self._all.add(worker)
            if self._over.is_set():  # seen by nobody else any more
                worker.process.kill()
                worker.gone()
                raise futures.CancelledError
            try:
                return worker.prepared(self._first)
            except WorkerLostError as error:
                self._all.discard(worker)
                how, code = str(error), worker.process.exitcode
                if code == sending.UNGUARDED:
                    raise sending.unguarded() from None
                if code is None or code >= 0:  # killed by nobody
                    break
            except BaseException:
                self._idle.append(worker)
                raise
        raise AbctreeError(
            f"Worker processes could not be started: {how}. See what they printed; in a script the "
            'run must stand under `if __name__ == "__main__":`, because workers import the script.'
        )


class Worker:
    """A process that answers calls, one at a time."""

    def __init__(self, context: BaseContext, limits: Limits) -> None:
        self._prepared_by: _Call | None = None
        self.is_lost = False
        self.is_full = False  #: has taken so much memory that another should go on
        with _starting(limits.n_threads):
            self._pipe, far = context.Pipe()
            # A forked worker has a copy of our end, too, and would never see it closed.
            ours = self._pipe if context.get_start_method() == "fork" else None
            self.process = context.Process(  # type: ignore[attr-defined]
                target=serve, args=(far, ours, limits), name=sending.WORKER
            )
            self.process.start()
            far.close()

    @property
    def is_started(self) -> bool:
        """Whether it has booted, which takes seconds."""
        return self._prepared_by is not None

    def prepared(self, first: _Call) -> Worker:
        """The worker itself, once it has started and done a first call."""
        if first is not self._prepared_by:
            self.answer(first)
            self._prepared_by = first
        return self

    def answer(self, call: _Call) -> Any:
        """What the call returns or raises in the worker."""
        try:
            self._pipe.send(call)
        except OSError:
            raise self._lost() from None
        is_value, value, self.is_full = self._receive(*_limit_of(call[1]))
        if is_value:
            return value
        raise value

    def _receive(self, seconds: float, reason: str) -> Any:
        sources = [self._pipe, self.process.sentinel]
        until = time.monotonic() + seconds
        tick = min(_TICK, seconds)
        while self._pipe not in (ready := connection.wait(sources, tick)):
            # If it died; had it answered before, the pipe would be ready, too.  A process that
            # somebody else forked may hold the sentinel open.
            if ready or not self.process.is_alive():
                raise self._lost()
            if (rest := until - time.monotonic()) <= 0.0:
                self.process.kill()
                self._lost()
                raise WorkerLostError(reason, is_final=True)
            tick = min(_TICK, rest)
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> WorkerLostError:
        self.is_lost = True
        self.process.join(_PATIENCE)
        self._pipe.close()
        return WorkerLostError(f"WorkerDiedError: the worker process {_how(self.process.exitcode)}")

    def dismiss(self) -> None:
        """Let the process end by itself; it must be idle."""
        # A sibling that was forked later may hold our end of the pipe, too: closing is not enough.
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(FAREWELL)
        self._pipe.close()

    def gone(self, patience: float = _PATIENCE) -> None:
        """Wait for the end."""
        self.process.join(max(0.0, patience))
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()


def _limit_of(args: tuple[Any, ...]) -> tuple[float, str]:
    """Seconds after which a worker is at what no alarm ends, and the reason of the failure."""
    match args:
        case (Rows() as rows, float() as seconds, float() as timeout):
            units = rows.index // rows.unit
            # A unit of several rows is tried as a whole and then row by row; none is begun late.
            n, late = min(rows.unit, len(rows)), seconds if units[-1] > units[0] else 0.0
            reason = f"TimeoutError: not done after {timeout:g} s, its worker was killed"
            return late + timeout * (n if n == 1 else 2 * n) + _GRACE, reason
        case _:
            return math.inf, ""


def _end(everyone: set[Worker], idle: list[Worker]) -> None:
    """Dismiss those who are idle, end the others; who still starts would keep us waiting."""
    resting = {worker for worker in idle if worker.is_started}
    idle.clear()
    for worker in list(everyone):
        if worker in resting:
            worker.dismiss()
        else:
            worker.process.terminate()  # what it does, and itself, if it can
    until = time.monotonic() + GRACE
    for worker in list(everyone):
        worker.gone(_PATIENCE if worker in resting else until - time.monotonic())
    everyone.clear()


def _how(exitcode: int | None) -> str:
    """How a process ended, from its exit code."""
    if exitcode is None:
        return "hung up"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        return f"was killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was killed by signal {-exitcode}"


@contextlib.contextmanager
def _starting(n_threads: int | None) -> Iterator[None]:
    """Start a process, one at a time, whose libraries load with so many threads.

    Ctrl-C is for the parent: the process has it blocked until it can ignore it.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    if can_block:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # when started later, it would lift the block
    # A process that is forked meanwhile would keep the worker's end of the pipe open for ever.
    with This.starting:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else set()
        before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
        set_thread_variables(n_threads)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            if can_block:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
