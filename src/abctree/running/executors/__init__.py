"""Executors: who runs the simulator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import numpy as np

from abctree.errors import ParameterError
from abctree.problem import Problem
from abctree.protocols import Executor
from abctree.running.executors.pooled import Pooled
from abctree.running.executors.pools import Client, Pool, RayPool, Threads, WhereItHelps
from abctree.running.executors.processes import Processes
from abctree.running.executors.serial import Serial

__all__ = [
    "ExecutorLike",
    "Pool",
    "Processes",
    "RayPool",
    "Serial",
    "Threads",
    "as_executor",
    "executor_for",
    "running",
    "workers_of",
]

#: What `abc_tree` accepts as an executor.
ExecutorLike = Executor | futures.Executor | Client | str | int

_NAMED: dict[str, Callable[[], Executor]] = {
    "serial": Serial,
    "threads": Threads,
    "processes": Processes,
    "ray": lambda: Pool(RayPool()),
}

#: Pools that have not the interface of `concurrent.futures`, by the package of their class, and
#: what to give instead.
_INSTEAD = {
    "multiprocessing": "It waits for ever for a worker that dies. Give executor=4, for four "
    "processes, or abctree.Threads(4).",
    "joblib": "Give the pool that joblib uses: "
    "executor=joblib.externals.loky.get_reusable_executor(max_workers=4).",
    "mpi4py": "Give executor=mpi4py.futures.MPIPoolExecutor(), in a script that is begun by "
    "`mpiexec -n 5 python -m mpi4py.futures script.py`; or what is entered: `with "
    "MPICommExecutor(comm, root=0) as pool:`, and where pool is not None, executor=pool.",
    "ray": 'Give executor="ray".',
    "ipyparallel": "Give the pool of its client: executor=client.executor().",
    "distributed": "Give its client: executor=cluster.get_client().",
}
_INSTEAD |= dict.fromkeys(
    ("multiprocess", "billiard", "pathos", "torch"), _INSTEAD["multiprocessing"]
)


def as_executor(spec: ExecutorLike | None) -> Executor:
    """An executor from what a user says.

    None, 1 and "serial" are this process, a larger number so many worker processes; other names
    have as many workers as there are processors.  A pool of `concurrent.futures`, and a client of
    Dask, is wrapped in `Pool`; an executor is taken as it is.
    """
    if spec is None:
        return Serial()
    if isinstance(spec, str) and spec in _NAMED:
        return _NAMED[spec]()
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool) and spec >= 1:
        return Processes(int(spec)) if spec > 1 else Serial()
    is_class = inspect.isclass(spec)
    if not is_class and isinstance(spec, futures.Executor | Client):
        return Pool(spec)
    name = getattr(spec, "__name__", "")
    kind = "class" if is_class else "module" if inspect.ismodule(spec) else ""
    shown = f"the {kind} {name}" if kind else repr(spec)
    if instead := _instead(spec):
        raise ParameterError(
            f"`executor` must be a pool like those of concurrent.futures, but got {shown}. "
            f"{instead}"
        )
    if is_class:
        raise ParameterError(
            f"`executor` must be an object, but got {shown}. Call it first: executor={name}(...)."
        )
    if isinstance(spec, Executor):
        return spec
    raise ParameterError(
        '`executor` must be None, at least 1 process, "serial", "threads", "processes", a '
        "concurrent.futures.Executor, a client of Dask, or an object with a method `chunks(work, "
        f"rows)`, but got {spec!r}."
    )


def executor_for(problem: Problem, spec: ExecutorLike | None) -> Executor:
    """The executor of a run: what the user says, or threads where the simulator is made for them.

    What is not said must not change the run: `workers_of` knows of no threads.
    """
    if spec is None and problem.measurement.is_for_threads:
        return WhereItHelps()
    return as_executor(spec)


def workers_of(spec: ExecutorLike | None) -> int:
    """How many simulations run at the same time, as far as is known now."""
    executor = as_executor(spec)
    return executor.n_workers if isinstance(executor, Pooled) else 1


def _instead(spec: Any) -> str:
    """What to give in the place of a pool of another kind."""
    kind = spec if inspect.isclass(spec) else type(spec)
    if issubclass(kind, futures.Executor | Client):  # a class that is to be called
        return ""
    home = spec.__name__ if inspect.ismodule(spec) else kind.__module__
    package = "distributed" if hasattr(spec, "get_client") else home.partition(".")[0]
    return _INSTEAD.get(package, "")


@contextmanager
def running(executor: Executor) -> Iterator[Executor]:
    """An executor for the time of a run; one that is not of abctree is left as it is."""
    if isinstance(executor, Pooled):
        with executor:
            yield executor
    else:
        yield executor
