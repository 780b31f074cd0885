"""Simulations in several threads or processes, or in a pool of the user's."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Callable
from concurrent import futures
from inspect import signature
from multiprocessing.context import BaseContext
from typing import Any, Literal, Protocol, cast, runtime_checkable

from abctree.errors import AbctreeError, ParameterError
from abctree.keywords import checks_keywords
from abctree.protocols import Work
from abctree.running.executors.limits import check_memory
from abctree.running.executors.parcel import Parcel, remember
from abctree.running.executors.pooled import Pooled, check_count
from abctree.running.executors.workers import Workers

StartMethod = Literal["spawn", "fork", "forkserver"]


@runtime_checkable
class Client(Protocol):
    """What can be asked for a pool of `concurrent.futures`, as a client of Dask."""

    def get_executor(self) -> futures.Executor:
        """The pool."""


@checks_keywords
class Threads(Pooled):
    """Runs simulations in threads of this process.

    For simulators that release the interpreter's lock: compiled code, external programs, the
    network.  They must be safe to call from several threads at a time.

    Parameters
    ----------
    n_workers : int or None
        Number of threads; None for the number of processors that this process may use.
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms, but a task for every worker.  It never
        changes a result.
    timeout : None
        Must be None: a thread cannot be stopped from outside.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        chunk: int | None = None,
        timeout: float | None = None,
    ) -> None:
        _refuse_timeout(timeout)
        super().__init__(chunk=chunk, timeout=None)
        self._n_workers = _count_workers(n_workers)

    def __repr__(self) -> str:
        return f"Threads({self.n_workers})"

    @property
    def n_workers(self) -> int:
        """Number of threads."""
        return self._n_workers

    @property
    def shares_memory(self) -> bool:
        """Nothing is pickled."""
        return True

    def _open(self, work: Work) -> futures.Executor:  # noqa: ARG002
        return futures.ThreadPoolExecutor(self.n_workers, thread_name_prefix="abctree")

    def _shut(self, pool: futures.Executor) -> None:
        pool.shutdown(wait=False, cancel_futures=True)


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
        How they are started.  "spawn" works everywhere and takes a second or two; "fork" is
        immediate, but not safe when this process has threads.
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms, but a task for every worker.  It never
        changes a result.
    timeout : float or None
        Most seconds for a simulation; one that takes longer is a failure.  Code that does not
        return to the interpreter is ended with its worker, a second later.  Watching costs about
        0.2 ms a simulation.
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
        super().__init__(chunk=chunk, timeout=timeout)
        check_memory(memory)
        known = multiprocessing.get_all_start_methods()
        if start_method not in known:
            raise ParameterError(
                f"`start_method` must be one of {known} on this system, but got {start_method!r}."
            )
        if n_threads is not None:
            check_count("n_threads", n_threads)
        self._n_workers = _count_workers(n_workers)
        self.start_method = start_method
        self.n_threads = n_threads
        self.memory = memory

    def __repr__(self) -> str:
        return f"Processes({self.n_workers}, start_method={self.start_method!r})"

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return self._n_workers

    @property
    def context(self) -> BaseContext:
        """How the processes are started."""
        return multiprocessing.get_context(self.start_method)

    def _open(self, work: Work) -> futures.Executor:
        context = self.context
        if self.start_method == "forkserver":  # what is imported there need not be by each worker
            context.set_forkserver_preload(["__main__", __name__, type(work).__module__])
        return Workers(
            self.n_workers,
            context,
            self.n_threads,
            watch=self.timeout is not None,
            memory=self.memory,
        )

    def _send(self, parcel: Parcel) -> bool:
        cast("Workers", self._pool).prepare(remember, parcel.token, parcel.payload)
        return True

    def _shut(self, pool: futures.Executor) -> None:
        cast("Workers", pool).stop()


@checks_keywords
class Pool(Pooled):
    """Runs simulations in any pool with the interface of `concurrent.futures.Executor`.

    For loky, Dask, MPI (``mpi4py.futures.MPIPoolExecutor``), and the pools of the standard library.

    Parameters
    ----------
    executor : concurrent.futures.Executor, client or callable
        The pool, or a client of Dask, which are left open; or a function that makes a pool, which
        is called when it is first needed and again when it broke, and whose pools are shut down.
    n_workers : int or None
        Tasks that it runs at the same time; None to ask it, or, where it does not say, the number
        of processors of this machine.  It only decides how large the tasks are.
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms, but a task for every worker.  It never
        changes a result.
    timeout : float or None
        Most seconds for a simulation, for pools that run tasks in the main thread of a POSIX
        process.  Code that does not return to the interpreter is not interrupted; see `Processes`.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.

    Examples
    --------
    >>> import abctree
    >>> from concurrent.futures import ProcessPoolExecutor
    >>> executor = abctree.Pool(lambda: ProcessPoolExecutor(2))
    """

    def __init__(
        self,
        executor: futures.Executor | Client | Callable[[], futures.Executor],
        *,
        n_workers: int | None = None,
        chunk: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(chunk=chunk, timeout=timeout)
        if isinstance(executor, Client):
            n_workers = n_workers or _threads_of(executor)
            executor = executor.get_executor()
        if not isinstance(executor, futures.Executor) and not callable(executor):
            raise ParameterError(
                "`executor` must be a concurrent.futures.Executor, a client of Dask, or a function "
                f"that makes one of the former, but got {executor!r}."
            )
        if n_workers is not None:
            check_count("n_workers", n_workers)
        self.executor = executor
        self._n_workers = n_workers
        if self.shares_memory:
            _refuse_timeout(timeout)

    def __repr__(self) -> str:
        return f"Pool({self.executor!r})"

    @property
    def n_workers(self) -> int:
        """Tasks that run at the same time, as far as is known."""
        if self._n_workers is not None:
            return self._n_workers
        pool = self._pool or self.executor
        for name in ("_max_workers", "num_workers"):  # the standard library and loky; MPI
            if isinstance(n := getattr(pool, name, None), int) and n > 0:
                return n
        return _processors()

    @property
    def shares_memory(self) -> bool:
        """Whether the pool is one of threads."""
        pool = self.executor
        is_threads = isinstance(pool, futures.ThreadPoolExecutor)
        return is_threads and type(pool).__name__ != "InterpreterPoolExecutor"

    @property
    def context(self) -> BaseContext | None:
        """How its processes are started, where the pool says it."""
        return getattr(self.executor, "_mp_context", None)

    def _open(self, work: Work) -> futures.Executor:  # noqa: ARG002
        return self.executor if isinstance(self.executor, futures.Executor) else self.executor()

    def _shut(self, pool: futures.Executor) -> None:
        if isinstance(self.executor, futures.Executor):
            return  # it is the user's
        can_cancel = "cancel_futures" in signature(pool.shutdown).parameters
        pool.shutdown(wait=False, **({"cancel_futures": True} if can_cancel else {}))

    def _reopen(self, work: Work, pool: futures.Executor) -> futures.Executor:
        if not isinstance(self.executor, futures.Executor):
            return super()._reopen(work, pool)
        name, is_reusable, _ = type(pool).__module__.partition(".reusable_executor")
        if is_reusable:  # of loky, or of the one in joblib
            loky = importlib.import_module(name)
            self.executor = cast("futures.Executor", loky.get_reusable_executor(self.n_workers))
            return self.executor
        raise AbctreeError(
            f"A worker process died, and with it its pool, {type(pool).__name__}, which only you "
            "can make again. Give abctree.Processes(n), or a function that makes the pool, as in "
            f"abctree.Pool(lambda: {type(pool).__name__}(n))."
        )


def _threads_of(client: Any) -> int | None:
    """Tasks that the workers of a client of Dask run at the same time; None if there is none yet.

    Raises
    ------
    ParameterError
        If it can only be awaited.
    """
    if getattr(client, "asynchronous", False):
        raise ParameterError(
            f"`executor` must be a client that can be waited for, but got {client!r}, which is "
            "asynchronous. Make it without asynchronous=True."
        )
    threads = client.nthreads() if hasattr(client, "nthreads") else {}
    return sum(threads.values()) or None


def _refuse_timeout(timeout: float | None) -> None:
    if timeout is not None:
        raise ParameterError(
            f"`timeout` must be None for threads, which cannot be stopped, but got {timeout!r}. "
            "Use abctree.Processes(timeout=...)."
        )


def _count_workers(n: int | None) -> int:
    if n is None:
        return _processors()
    check_count("n_workers", n)
    return n


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
