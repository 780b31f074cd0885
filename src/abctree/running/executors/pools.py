"""`Threads`, `Pool` for any pool with the interface of `concurrent.futures`, and `RayPool`."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from functools import partial
from typing import Any, Protocol, runtime_checkable

from abctree.data import Rows
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import checked_count
from abctree.protocols import Chunk, Work
from abctree.running.executors.pooled import Pooled
from abctree.running.executors.serial import Serial
from abctree.threads import n_threads, processors

#: Seconds of a block from which threads that nobody asked for save more than they cost.
_WORTH = 0.005
#: Seconds that a task of Dask and of Ray should last, which cost some milliseconds each.
_DASK, _RAY = 0.1, 0.05


@runtime_checkable
class Client(Protocol):
    """A client of Dask, as far as it is used here."""

    def get_executor(self) -> futures.Executor:
        """A pool of `concurrent.futures`."""

    def nthreads(self) -> Mapping[str, int]:
        """Tasks that each worker runs at a time."""


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
        n = processors() if n_workers is None else checked_count("n_workers", n_workers)
        make = partial(futures.ThreadPoolExecutor, n, thread_name_prefix="abctree")
        super().__init__(make, n_workers=n, chunk=chunk, timeout=timeout, shares_memory=True)

    def __repr__(self) -> str:
        return f"Threads({self.n_workers})"


class WhereItHelps(Threads):
    """Threads for blocks that take long enough; others are made where the run is.

    How long one takes is known from those before it.  So a block begins when it is waited for.
    """

    def __init__(self) -> None:
        super().__init__(n_threads())
        self._is_new = True
        self._here = Serial()

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """See `Executor`."""
        if len(rows.index) == 1 or self.n_workers == 1:
            return self._here.chunks(work, rows)
        return self._as_paced(work, rows)

    def _as_paced(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        if self._pace.seconds(len(rows)) >= _WORTH:
            yield from super().chunks(work, rows)
            return
        began = time.perf_counter()
        for chunk in self._here.chunks(work, rows):
            if not self._is_new:  # the first call compiles
                self._pace.note(len(chunk[1]), time.perf_counter() - began)
            self._is_new = False
            yield chunk
            began = time.perf_counter()


@checks_keywords
class Pool(Pooled):
    """Runs simulations in any pool with the interface of `concurrent.futures.Executor`.

    For loky, Dask, MPI (``mpi4py.futures.MPIPoolExecutor``), Ray (`RayPool`), and the pools of the
    standard library.

    Parameters
    ----------
    executor : concurrent.futures.Executor, client or callable
        The pool, or a client of Dask, which are left open; or a function that makes a pool, which
        is called when it is first needed and again when it broke, and whose pools are shut down.
    n_workers : int or None
        Tasks that it runs at the same time; None to ask it, or, where it does not say, the number
        of processors of this machine.  It only decides how large the tasks are.
    chunk : int or None
        Rows of a task; None: as many as take about 20 ms (Dask: 100, Ray: 50), but a task for
        every worker.  It never changes a result.
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
        ask = None
        if isinstance(executor, Client):
            ask = partial(_threads_of, executor)
            executor = _waited_for(executor).get_executor()
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
            ask=ask,
            seconds=_DASK if ask else _RAY if isinstance(executor, RayPool) else None,
        )

    def __repr__(self) -> str:
        return f"Pool({self._source!r})"


def _waited_for(client: Client) -> Client:
    if getattr(client, "asynchronous", False):
        raise ParameterError(
            f"`executor` must be a client that can be waited for, but got {client!r}, which is "
            "asynchronous. Make it without asynchronous=True."
        )
    return client


def _threads_of(client: Client) -> int:
    """Tasks that the workers run at a time, at least one for each that its cluster is to have."""
    wanted = getattr(getattr(client, "cluster", None), "plan", ())
    try:
        return max(len(wanted), sum(client.nthreads().values()))
    except Exception:  # noqa: BLE001 - a client that is closed says so when it is given a task
        return len(wanted)


class RayPool(futures.Executor):
    """Tasks of Ray behind the interface of `concurrent.futures`.

    ``executor="ray"`` is one without options.  Ray is connected to as its own first call does it,
    to the cluster of ``ray.init(...)`` or of the variable ``RAY_ADDRESS``, or else on this machine,
    and left as it is.

    Parameters
    ----------
    **options
        What a task needs, as in ``ray.remote``: ``num_cpus=2``, ``num_gpus=1``, ``resources=...``.

    Raises
    ------
    ParameterError
        If Ray is not installed.

    Examples
    --------
    >>> import abctree
    >>> executor = abctree.Pool(lambda: abctree.RayPool(num_cpus=2), chunk=10)
    """

    def __init__(self, **options: Any) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise ParameterError(
                '`executor` must not be "ray" where Ray is not installed. '
                "Install it: pip install 'abctree[ray]'."
            ) from error
        self._cpus = options.get("num_cpus", 1)
        # A task that loses its worker is done again here, so that the blame is found.
        self._call = self._ray.remote(**{"max_retries": 0, "num_cpus": 1, **options})(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Begin a task; one that is cancelled is interrupted."""
        reference = self._call.remote(fn, *args, **kwargs)
        future: futures.Future[Any] = reference.future()

        def cancel(future: futures.Future[Any]) -> None:
            if future.cancelled() and self._ray.is_initialized():
                self._ray.cancel(reference)

        future.add_done_callback(cancel)
        return future

    @property
    def num_workers(self) -> int:
        """Tasks that the processors of the cluster run at a time."""
        n = self._ray.cluster_resources().get("CPU", 0.0) if self._ray.is_initialized() else 0.0
        return int(n / self._cpus) if self._cpus else int(n)


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)
