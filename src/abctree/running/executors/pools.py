"""`Threads`, and `Pool` for any pool with the interface of `concurrent.futures`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from functools import partial
from typing import Any, Protocol, runtime_checkable

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.running.executors.pooled import Pooled, processors


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
        n = processors() if n_workers is None else n_workers
        make = partial(futures.ThreadPoolExecutor, n, thread_name_prefix="abctree")
        super().__init__(make, n_workers=n, chunk=chunk, timeout=timeout, shares_memory=True)

    def __repr__(self) -> str:
        return f"Threads({self.n_workers})"


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
        if isinstance(executor, Client):
            n_workers = n_workers or _threads_of(executor)
            executor = executor.get_executor()
        if not isinstance(executor, futures.Executor) and not callable(executor):
            raise ParameterError(
                "`executor` must be a concurrent.futures.Executor, a client of Dask, or a function "
                f"that makes one of the former, but got {executor!r}."
            )
        is_threads = isinstance(executor, futures.ThreadPoolExecutor)
        super().__init__(
            executor,
            n_workers=n_workers,
            chunk=chunk,
            timeout=timeout,
            shares_memory=is_threads and type(executor).__name__ != "InterpreterPoolExecutor",
            context=getattr(executor, "_mp_context", None),
        )

    def __repr__(self) -> str:
        return f"Pool({self._source!r})"


def _threads_of(client: Any) -> int | None:
    """Tasks that the workers of a client of Dask run at a time; None if there is none yet."""
    if getattr(client, "asynchronous", False):
        raise ParameterError(
            f"`executor` must be a client that can be waited for, but got {client!r}, which is "
            "asynchronous. Make it without asynchronous=True."
        )
    threads = client.nthreads() if hasattr(client, "nthreads") else {}
    return sum(threads.values()) or None
