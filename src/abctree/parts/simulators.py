"""The three ways to call a simulator, behind one: theta and numbers of simulations to summaries.

A simulation that raises or returns something unusable is a row of nan and a `Failure`; the other
rows are untouched.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from abctree import streams
from abctree.data import Failure
from abctree.types import FloatArray, IntArray, SimulatorFunction

#: Tracebacks kept in one call; the rest are counted with their reason.
_TRACEBACKS = 3


class Model(Protocol):
    """Simulator and summary as one function on a batch."""

    @property
    def unit(self) -> int:
        """Rows with the same ``index // unit`` share a generator and must stay together."""

    def __call__(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...]
    ) -> tuple[FloatArray, list[Failure]]:
        """Summaries (n, *shape), nan where a simulation failed, and the failures."""


def _failure(index: int, theta: FloatArray, error: Exception, kept: int) -> Failure:
    trace = traceback.format_exc() if kept < _TRACEBACKS else ""
    return Failure(int(index), tuple(theta.tolist()), f"{type(error).__name__}: {error}", trace)


class WrongShapeError(ValueError):
    """What was returned does not have the shape of the observation."""


def as_row(value: Any, shape: tuple[int, ...], source: str) -> FloatArray:
    """One summary as floats of the wanted shape."""
    if value is None:
        raise WrongShapeError(f"{source} returned None")
    row = np.asarray(value, dtype=np.float64)
    if row.shape != shape:
        raise WrongShapeError(f"{source} returned shape {row.shape}, but {shape} is needed")
    return row


@dataclass(frozen=True)
class OneByOne:
    """``simulator(theta (p,), rng)``, with a generator of its own for each simulation."""

    simulator: SimulatorFunction
    summary: Callable[[Any], Any] | None
    unit: int = 1

    def __call__(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...]
    ) -> tuple[FloatArray, list[Failure]]:
        """Summaries (n, *shape), nan where a simulation failed, and the failures."""
        rows = np.full((len(theta), *shape), np.nan)
        failures: list[Failure] = []
        for i, number in enumerate(index.tolist()):
            try:
                rows[i] = self.one(theta[i], number, root, shape)
            except Exception as error:  # noqa: BLE001 - a user's simulator may raise anything
                failures.append(_failure(number, theta[i], error, len(failures)))
        return rows, failures

    def one(self, theta: FloatArray, number: int, root: int, shape: tuple[int, ...]) -> FloatArray:
        """The summary of one simulation; raises what the simulator raises."""
        data = self.simulator(theta.copy(), streams.generator(root, number))
        if self.summary is None:
            return as_row(data, shape, "simulator")
        return as_row(self.summary(data), shape, "summary")


@dataclass(frozen=True)
class Vectorized:
    """``simulator(theta (m, p), rng)``: one generator for the rows of a unit.

    A call that raises is repeated row by row, so that one bad row does not lose the others.
    """

    simulator: SimulatorFunction
    summary: Callable[[Any], Any] | None
    unit: int = 1000

    def __call__(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...]
    ) -> tuple[FloatArray, list[Failure]]:
        """Summaries (n, *shape), nan where a simulation failed, and the failures."""
        rows = np.full((len(theta), *shape), np.nan)
        failures: list[Failure] = []
        bounds = [*np.flatnonzero(np.diff(index // self.unit, prepend=-1)).tolist(), len(index)]
        for a, b in pairwise(bounds):
            try:
                rows[a:b] = self._call(theta[a:b], index[a:b], root, shape)
            except Exception as error:  # noqa: BLE001
                if b - a == 1:
                    failures.append(_failure(int(index[a]), theta[a], error, len(failures)))
                    continue
                for i in range(a, b):
                    self._alone(theta, index, root, i, rows, failures)
        return rows, failures

    def _alone(
        self,
        theta: FloatArray,
        index: IntArray,
        root: int,
        i: int,
        rows: FloatArray,
        failures: list[Failure],
    ) -> None:
        try:
            rows[i] = self._call(theta[i : i + 1], index[i : i + 1], root, rows.shape[1:])[0]
        except Exception as error:  # noqa: BLE001
            failures.append(_failure(int(index[i]), theta[i], error, len(failures)))

    def _call(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...]
    ) -> FloatArray:
        data = self.run(theta, index, root)
        source = "simulator" if self.summary is None else "summary"
        return as_row(
            data if self.summary is None else self.summary(data), (len(theta), *shape), source
        )

    def run(self, theta: FloatArray, index: IntArray, root: int) -> Any:
        """What the simulator returns for the rows of one unit."""
        return self.simulator(theta.copy(), streams.generator(root, int(index[0])))


@dataclass(frozen=True)
class Seeded(Vectorized):
    """``simulator(theta (m, p), seeds (m,))``: one 64-bit seed for each simulation.

    For compiled simulators: a row depends on its theta and its seed only, so rows may be grouped
    in any way.
    """

    def run(self, theta: FloatArray, index: IntArray, root: int) -> Any:
        """What the simulator returns for some rows."""
        return self.simulator(theta.copy(), streams.seeds(root, index))
