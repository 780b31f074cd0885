"""Which executor a user means, and how long it is needed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, cast

from abctree.errors import ParameterError
from abctree.parts.executors.pool import Pool, Processes, Threads
from abctree.parts.executors.serial import Serial
from abctree.protocols import Executor

#: What `abc_tree` accepts as an executor.
ExecutorLike = Executor | futures.Executor | str | int


def as_executor(spec: ExecutorLike | None) -> Executor:
    """An executor from what a user says.

    Parameters
    ----------
    spec : None, int, str, Executor or concurrent.futures.Executor
        None, 0 or 1: in this process.  A larger number: so many worker processes.  "serial",
        "threads" or "processes": with as many workers as there are processors.  A pool of
        `concurrent.futures` is wrapped in `Pool`; an executor is taken as it is.

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    if spec is None or spec == "serial":
        return Serial()
    if spec == "threads":
        return Threads()
    if spec == "processes":
        return Processes()
    if isinstance(spec, int) and not isinstance(spec, bool) and spec >= 0:
        return Processes(spec) if spec > 1 else Serial()
    if isinstance(spec, futures.Executor):
        return Pool(spec)
    if inspect.isclass(spec):
        raise ParameterError(
            f"`executor` must be an object, but got the class {spec.__name__}. Call it first: "
            f"executor={spec.__name__}(...)."
        )
    if hasattr(spec, "submit"):
        return cast("Executor", spec)
    raise ParameterError(
        '`executor` must be None, a number of processes, "serial", "threads", "processes", a '
        f"concurrent.futures.Executor, or an object with a method `submit`, but got {spec!r}."
    )


@contextmanager
def running(executor: Executor) -> Iterator[Executor]:
    """An executor for the time of a run: a context manager is entered, a `close` is called."""
    manager: Any = executor
    if hasattr(manager, "__enter__"):
        with manager as entered:
            yield entered
        return
    try:
        yield executor
    finally:
        if hasattr(manager, "close"):
            manager.close()
