"""`Workers`: processes that can be lost one at a time.

A `concurrent.futures.ProcessPoolExecutor` that loses a worker loses everything that was not done,
and does not say which task was to blame.  Here each worker has a pipe of its own and one task at a
time, so the blame is certain, the others go on, and a task that takes too long can be killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.sharedctypes import RawValue
from multiprocessing.util import Finalize
from typing import Any

from abctree.errors import AbctreeError
from abctree.running.executors import guard, limits
from abctree.running.executors.serial import Number, announce_to, is_over

#: Attempts to start a worker that is killed meanwhile by someone else.
_ATTEMPTS = 5
#: Seconds between two looks at the deadline of a worker, and at whether it is alive.
_TICK = 0.05
_ALIVE_TICK = 1.0
#: Seconds for an idle worker to end by itself.
_PATIENCE = 5.0

#: What a worker is sent to end; a pickle is never empty.
_FAREWELL = b""

#: A function, and its arguments by position and by name.
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class WorkerDiedError(futures.BrokenExecutor):
    """The worker that ran this task is dead; the exit code is that of its process."""

    def __init__(self, exitcode: int | None) -> None:
        super().__init__(_how(exitcode))
        self.was_killed = exitcode is not None and exitcode < 0
        self.was_unguarded = exitcode == guard.UNGUARDED


class OverdueError(futures.BrokenExecutor):
    """The worker that ran this task was killed, because it took too long."""


class Workers(futures.Executor):
    """A pool of processes.

    A task whose worker dies raises `WorkerDiedError`, one that misses its deadline
    (`announce_to`) `OverdueError`, and one that runs out of memory `OutOfMemoryError`.
    Other tasks are not affected, and the pool can be used as before.

    Parameters
    ----------
    n : int
        Number of processes.
    context : multiprocessing context
        How they are started.
    n_threads : int or None
        Threads for linear algebra in each; None for what it likes.
    watch : bool
        Whether to look at deadlines.
    memory : float or None
        Bytes that each may take beyond what it has with its work loaded; see `limits`.
    """

    def __init__(
        self,
        n: int,
        context: BaseContext,
        n_threads: int | None,
        *,
        watch: bool,
        memory: float | None = None,
    ) -> None:
        self._start = partial(Worker, context, n_threads, watch=watch, memory=memory)
        # All at once: they boot together, and a fork comes before there are threads.
        self._idle = [self._start() for _ in range(n)]
        self._all = set(self._idle)
        self._first: Call | None = None
        self._over = threading.Event()
        # One thread for each worker: it sends a task, waits for the answer, and takes the next.
        self._threads = futures.ThreadPoolExecutor(n, thread_name_prefix="abctree-worker")
        # At exit before multiprocessing joins its children: these end when their pipe is closed.
        Finalize(self, _end, args=(self._all, self._idle), exitpriority=10)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a worker, after all that was submitted before."""
        return self._threads.submit(self._remotely, (fn, args, kwargs))

    def prepare(self, fn: Callable[..., Any], /, *args: Any) -> None:
        """Have each worker, also one that is yet to come, call ``fn(*args)`` before its next task.

        A worker that dies of this is not held against the task.
        """
        self._first = (fn, args, {})

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """End the workers once they are done."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self.stop()

    def stop(self) -> None:
        """End now: what is pending is cancelled, what is running is killed."""
        self._over.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        _end(self._all, self._idle)
        self._threads.shutdown(wait=True)

    def _remotely(self, call: Call) -> Any:
        worker = self._ready()
        try:
            return worker.answer(call)
        finally:
            if worker.is_lost or self._over.is_set():
                self._all.discard(worker)
            elif worker.is_full:
                worker.dismiss()
                worker.gone()  # before another one takes memory in its place
                self._all.discard(worker)
            else:
                self._idle.append(worker)

    def _resting(self) -> Worker | None:
        """One that has nothing to do and did not die meanwhile."""
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:  # another thread may have taken the last
                return None
            if worker.is_alive:
                return worker
            self._all.discard(worker)

    def _ready(self) -> Worker:
        """An idle worker, or a new one in the place of one that died."""
        for _ in range(_ATTEMPTS):
            if self._over.is_set():
                raise futures.CancelledError
            worker = self._resting() or self._start()
            self._all.add(worker)
            if self._over.is_set():  # seen by nobody else any more
                worker.kill()
                worker.gone()
                raise futures.CancelledError
            try:
                return worker.prepared(self._first)
            except WorkerDiedError as error:
                self._all.discard(worker)
                how = error
                if error.was_unguarded:
                    raise guard.unguarded() from None
                if not error.was_killed:
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

    starting = threading.Lock()

    def __init__(
        self,
        context: BaseContext,
        n_threads: int | None,
        *,
        watch: bool,
        memory: float | None = None,
    ) -> None:
        self._deadline = RawValue("d", 0.0)
        self._tick = _TICK if watch else _ALIVE_TICK
        self.is_started = False  #: has booted, which takes seconds
        self._prepared_by: Call | None = None
        self.is_lost = False
        self.is_full = False  #: has taken so much memory that another should go on
        # A process that is forked meanwhile would keep the worker's end of the pipe open for ever.
        with Worker.starting, _no_interrupts(), limits.threads_of_children(n_threads):
            self._pipe, far = context.Pipe()
            # A forked worker has a copy of our end, too, and would never see it closed.
            ours = self._pipe if context.get_start_method() == "fork" else None
            self._process = context.Process(  # type: ignore[attr-defined]
                target=_serve,
                args=(far, ours, self._deadline, n_threads, memory),
                name=guard.WORKER,
            )
            self._process.start()
            far.close()

    def prepared(self, first: Call | None) -> Worker:
        """The worker itself, once it has started and done a first call.

        Raises
        ------
        WorkerDiedError
            If it does not live to see that.
        """
        if not self.is_started:
            self._receive()
            self.is_started = True
        if first is not None and first is not self._prepared_by:
            self.answer(first)
            self._prepared_by = first
        return self

    def answer(self, call: Call) -> Any:
        """What the call returns or raises in the worker.

        Raises
        ------
        WorkerDiedError, OverdueError, OutOfMemoryError
            If the worker died with it, was killed because it took too long, or had not the memory.
        """
        try:
            self._pipe.send(call)
        except OSError:
            raise self._lost() from None
        is_value, value, self.is_full = self._receive()
        if is_value:
            return value
        raise value

    def _receive(self) -> Any:
        sources = [self._pipe, self._process.sentinel]
        while self._pipe not in (ready := connection.wait(sources, self._tick)):
            # If it died; had it answered before, the pipe would be ready, too.  A process that
            # somebody else forked may hold the sentinel open.
            if ready or not self.is_alive:
                raise self._lost()
            if is_over(self._deadline):
                self.kill()
                self._lost()
                raise OverdueError
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> WorkerDiedError:
        self.is_lost = True
        self._process.join(_PATIENCE)
        self._pipe.close()
        return WorkerDiedError(self._process.exitcode)

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return bool(self._process.is_alive())

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()

    def dismiss(self) -> None:
        """Let the process end by itself; it must be idle."""
        # A sibling that was forked later may hold our end of the pipe, too: closing is not enough.
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(_FAREWELL)
        self._pipe.close()

    def gone(self) -> None:
        """Wait for the end."""
        self._process.join(_PATIENCE)
        if self._process.exitcode is None:
            self.kill()
            self._process.join()


def _end(everyone: set[Worker], idle: list[Worker]) -> None:
    """Dismiss those who are idle, kill the others; who still starts would keep us waiting."""
    resting = {worker for worker in idle if worker.is_started}
    idle.clear()
    for worker in list(everyone):
        if worker in resting:
            worker.dismiss()
        else:
            worker.kill()
    for worker in list(everyone):
        worker.gone()
    everyone.clear()


def _how(exitcode: int | None) -> str:
    """How a process ended, from its exit code."""
    if exitcode is None:
        return "the worker process hung up"
    if exitcode >= 0:
        return f"the worker process exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"the worker process was killed by {name}"


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C is for the parent: a process started here has it blocked until it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # when started later, it would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker -------------------------------------------------------------------------------


def _serve(
    pipe: Connection,
    other_end: Connection | None,
    deadline: Number,
    n_threads: int | None,
    memory: float | None,
) -> None:
    """Answer calls until the farewell, or until the pipe is closed."""
    Worker.starting = threading.Lock()  # it was forked with ours locked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if other_end is not None:
        other_end.close()
    _end_with_parent()
    limits.limit_threads(n_threads)
    announce_to(deadline)
    limits.limit_memory(memory)
    try:
        pipe.send("ready")
        while (message := pipe.recv_bytes()) != _FAREWELL:
            is_value, value = _answer(message)
            is_full = limits.is_full() or isinstance(value, limits.OutOfMemoryError)
            pipe.send((is_value, value, is_full))
    except (EOFError, OSError):
        return


def _answer(message: bytes) -> tuple[bool, Any]:
    try:
        fn, args, kwargs = pickle.loads(message)  # noqa: S301 - from the parent process
        return True, fn(*args, **kwargs)
    except MemoryError as error:
        return False, limits.OutOfMemoryError(f"MemoryError: {error}")
    except BaseException as error:  # noqa: BLE001 - it is the parent's to handle
        return False, _portable(error)


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
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="abctree-parent", daemon=True).start()
