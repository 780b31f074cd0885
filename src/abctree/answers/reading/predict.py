"""`Predictive`: what the model makes of posterior draws, beside the data."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from abctree.errors import ParameterError, SimulatorError, wrong
from abctree.numbers import check_rule
from abctree.problem import Problem
from abctree.problem.form import floats
from abctree.problem.simulators import CAUGHT, described, let_through
from abctree.streams import Generators
from abctree.types import Data, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Predictive:
    """Data simulated anew of draws of the posterior, or of the prior."""

    theta: FloatArray  #: (n, p) parameters
    data: tuple[Data, ...]  #: (n,) what the simulator returned for them, before any summary
    summary: FloatArray  #: (n, ...) its summaries
    observed: FloatArray  #: (...) the observed summary
    n_failed: int  #: draws of which the simulator made nothing; they are left out

    def __len__(self) -> int:
        return len(self.theta)

    def __repr__(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        return f"Predictive({len(self)} data sets{failed})"

    @cached_property
    def array(self) -> FloatArray:
        """(n, ...) The data as numbers.

        Raises
        ------
        ParameterError
            If they are none, or of several shapes.
        """
        try:
            rows = [floats(data, "simulator") for data in self.data]
        except TypeError as error:
            raise ParameterError(f"`data` must be numbers for this, but {error}.") from None
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            raise ParameterError(
                f"`data` must have one shape for this, but has {len(shapes)}. Take a statistic of "
                "fixed size of each."
            )
        return np.array(rows)

    def interval(self, level: float = 0.9) -> FloatArray:
        """(2, ...) Central interval of each number of the data."""
        check_rule("level", level, "in (0, 1)", "Try 0.9.")
        tail = (1.0 - level) / 2.0
        return np.asarray(np.quantile(self.array, [tail, 1.0 - tail], axis=0))

    @property
    def p_values(self) -> FloatArray:
        """(...) Of each summary: twice the smaller share of data sets that are at or beyond it.

        Of posterior draws these are conservative, for the same data chose the draws.
        """
        below = (self.summary <= self.observed).mean(axis=0)
        above = (self.summary >= self.observed).mean(axis=0)
        return np.asarray(np.minimum(1.0, 2.0 * np.minimum(below, above)))

    def p_value(self, statistic: Callable[[Data], float], observed: Data) -> float:
        """Share of data sets of which a statistic is at least that of the observed data."""
        own, *others = (float(statistic(data)) for data in (observed, *self.data))
        if np.isnan([own, *others]).any():  # would count as smaller than any
            raise wrong("statistic", "return a number", "nan of some data", "Leave nan out of it.")
        return float(np.mean(np.array(others) >= own))


class Maps(Protocol):
    """A pool, such as those of `concurrent.futures`, `multiprocessing` and `mpi4py.futures`."""

    def map(self, fn: Callable[[int], Made], starts: Iterable[int], /) -> Iterable[Made]:
        """Results of a function, in order."""


@runtime_checkable
class MapsUnordered(Maps, Protocol):
    """A pool that gives results as they come, such as those of `multiprocessing`."""

    def imap_unordered(self, fn: Callable[[int], Made], starts: Iterable[int], /) -> Iterable[Made]:
        """Results of a function, each as soon as it is there."""


class Made(NamedTuple):
    """What one call of the simulator made: numbers, data and summaries of rows, or why none."""

    first: int  #: row with which the call begins
    rows: list[tuple[int, Data, FloatArray]]
    reason: str


#: Makes the calls that begin with some rows; gives them back in any order.
MakeCalls = Callable[[Sequence[int]], Iterable[Made]]


class Keeps(Protocol):
    """Where calls of the simulator are kept when they are finished."""

    def of_model(self, name: str) -> Keeps:
        """The same for one model of several."""

    def all_made(
        self, problem: Problem, theta: FloatArray, root: int, starts: Sequence[int], make: MakeCalls
    ) -> list[Made]:
        """The calls that begin with some rows of theta (n, p); those are made that are not kept."""


def predictive(
    problem: Problem, theta: FloatArray, root: int, pool: Maps | None, kept: Keeps | None
) -> Predictive:
    """Simulate data of parameters (n, p) and keep them as they are."""
    model = problem.model
    step = model.batch_size if model.vectorized else 1
    starts = range(0, len(theta), step)
    make: MakeCalls = partial(_each, pool, partial(_made, problem, theta, root, step))
    parts = make(starts) if kept is None else kept.all_made(problem, theta, root, starts, make)
    parts = sorted(parts, key=lambda part: part.first)
    made = [row for part in parts for row in part.rows]
    if not made:
        raise SimulatorError(f"No data could be simulated: {parts[0].reason.rstrip('.')}.")
    which, data, summary = zip(*made, strict=True)
    n_failed = len(theta) - len(made)
    number = np.array(which)
    return Predictive(theta[number], data, np.array(summary), problem.observed_summary, n_failed)


def _each(pool: Maps | None, make: Callable[[int], Made], starts: Sequence[int]) -> Iterator[Made]:
    """Calls, as soon as they are there if the pool tells."""
    if pool is None:
        yield from map(make, starts)
    elif isinstance(pool, futures.Executor):
        calls = [pool.submit(make, first) for first in starts]
        try:
            yield from (call.result() for call in futures.as_completed(calls))
        finally:
            for call in calls:
                call.cancel()
    elif isinstance(pool, MapsUnordered):
        yield from pool.imap_unordered(make, starts)
    else:
        yield from pool.map(make, starts)


def _made(problem: Problem, theta: FloatArray, root: int, step: int, first: int) -> Made:
    """What one call of the simulator makes of the rows from `first` on.

    One that raises is repeated row by row, as in a run: one bad row does not lose the others.
    """
    some = np.arange(len(theta))[first : first + step]
    try:
        rows = _called(problem, theta, root, some)
    except CAUGHT as error:
        let_through(error)
        if len(some) == 1:
            return Made(first, [], described(error))
        each = [_made(problem, theta, root, 1, row) for row in some.tolist()]
        return Made(first, [row for one in each for row in one.rows], each[0].reason)
    usable = [row for row in rows if np.isfinite(row[2]).all()]
    return Made(first, usable, "the summaries are nan or inf")


def _called(
    problem: Problem, theta: FloatArray, root: int, some: IntArray
) -> list[tuple[int, Data, FloatArray]]:
    """Numbers, data and summaries of some rows, of one call."""
    model = problem.model
    data = model.simulator(*model.arguments(theta[some], some, Generators(root)))
    own = _copied(data)
    summary = model.read(data, problem.shape, len(some))
    each = list(floats(own, "simulator")) if model.vectorized else [own]
    return list(zip(some.tolist(), each, summary, strict=True))


def _copied(data: Data) -> Data:
    """A copy, which neither the next simulation nor the summary writes into, if one can be made."""
    with contextlib.suppress(Exception):
        return copy.deepcopy(data)
    return data
