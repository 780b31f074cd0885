"""`Measurement`: what is done at a point; `Discrepancy`: the work that travels to workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from abctree.data import Failure, InterruptedWorkError, Rows, Simulations
from abctree.errors import ParameterError, SimulatorError
from abctree.kernels import within
from abctree.problem.distance_arithmetic import named, one_each
from abctree.problem.distances import lacks_scale, standardised
from abctree.problem.form import FLOAT, floats, names_of_entries
from abctree.problem.other_streams import Watch, search
from abctree.problem.simulators import CAUGHT, Model, let_through, note_failure
from abctree.protocols import Distance, TaughtDistance
from abctree.threads import is_for_threads
from abctree.types import BoolArray, FloatArray, IntArray

#: How far below 0 rounding may take a distance, as a share of the largest number in the summaries,
#: and where these are tiny.
_ROUNDING, _LEAST_ROUNDING = 1e-9, 1e-14
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Simulator and summary, the summary of the data, and the distance between the two."""

    model: Model
    observed_summary: FloatArray
    distance: Distance

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one summary."""
        return self.observed_summary.shape

    @property
    def names(self) -> list[str]:
        """What the user calls the numbers of a summary, flattened."""
        return names_of_entries(self.model.form, self.shape)

    @property
    def unit(self) -> int:
        """Rows that must be simulated together; see `Executor`."""
        return self.model.unit

    @property
    def vectorized(self) -> bool:
        """Whether the simulator takes many points at once."""
        return bool(self.model.vectorized)

    @property
    def is_for_threads(self) -> bool:
        """Whether simulations may go on in several threads at a time, and gain by it."""
        return self.model.is_for_threads and is_for_threads(self.distance)

    @cached_property  # to ask a protocol takes as long as ten simulations
    def needs_pilot(self) -> bool:
        """Whether the distance takes its scale from pilot simulations."""
        return lacks_scale(self.distance)

    def fitted(self, summary: FloatArray, cube: FloatArray) -> Measurement:
        """The same with the distance scaled by the pilot, where it needs to be.

        From its finite summaries (n, ...), at places (n, d) of the cube.
        """
        if not lacks_scale(self.distance):
            return self
        with named(self.names):
            if isinstance(self.distance, TaughtDistance):
                return replace(self, distance=self.distance.taught(summary, cube))
            return replace(self, distance=self.distance.fitted(summary))

    def standardised(self, summary: FloatArray) -> FloatArray | None:
        """Differences (n, m) to the observation whose Euclidean norm is the distance.

        From summaries (n, ...), flattened or not; None where the distance is no such norm.
        """
        shaped = summary.reshape(len(summary), *self.shape)
        return standardised(self.distance, shaped, self.observed_summary)

    @property
    def keeps_order(self) -> bool:
        """Whether the distance compares each summary with its own; of samples no order is known."""
        observed = self.observed_summary.ravel()
        moved = np.arange(len(observed)) < len(observed) // 2
        x = self.standardised(np.where(moved, 2.0 * observed + 1.0, observed)[None])
        return x is not None and x.shape[1] == len(observed) and not x[0, ~moved].any()

    def simulate(self, theta: FloatArray, index: IntArray, root: int) -> Simulations:
        """Simulations number `index` (n,) of the run with seed `root`, without their distances."""
        summary = np.empty((len(theta), *self.shape))
        failures: list[Failure] = []
        for _ in self.model.fill(summary, failures, theta, index, root):
            pass
        return Simulations(np.full(len(theta), np.inf), summary, tuple(failures))

    def measured(self, simulations: Simulations, theta: FloatArray, index: IntArray) -> Simulations:
        """The same simulations with their distances; what is not finite becomes a failure."""
        failures = list(simulations.failures)
        distance = self.distances(simulations.summary, theta, index, failures)
        return replace(simulations, distance=distance, failures=tuple(failures))

    def distances(
        self, summary: FloatArray, theta: FloatArray, index: IntArray, failures: list[Failure]
    ) -> FloatArray:
        """Distances (n,) of summaries, inf and a failure for each row that has none.

        As long as the distance has no scale, summaries are looked at, and all are inf.
        """
        usable = None
        if not within(summary, -_LARGEST, _LARGEST):
            usable = finite_rows(summary)
            source = "simulator" if self.model.summary is None else "summary"
            failures += _unnamed(~usable, failures, theta, index, f"{source} returned nan or inf")
        if self.needs_pilot:
            return np.full(len(summary), np.inf)
        if usable is None:
            return self._distances(summary, theta, index, failures)
        distance = np.full(len(summary), np.inf)
        distance[usable] = self._distances(summary[usable], theta[usable], index[usable], failures)
        return distance

    def _distances(
        self, summary: FloatArray, theta: FloatArray, index: IntArray, failures: list[Failure]
    ) -> FloatArray:
        """Distances (n,) of finite summaries, inf and a failure for each row that has none."""
        if not len(summary):
            return np.empty(0)
        try:
            given = self._called(summary)
            if within(given, 0.0, _LARGEST):
                return given.copy()  # a function may use its array again
            distance = _not_negative(given, summary, self.observed_summary).copy()
        except CAUGHT as first:  # find the rows that raise, keep the others
            let_through(first)
            distance = np.full(len(summary), np.inf)
            for i in range(len(summary)):
                try:
                    distance[i] = self.checked_distances(summary[i : i + 1])[0]
                except CAUGHT as error:
                    let_through(error)
                    known = isinstance(error, SimulatorError)  # its message names the distance
                    source = "" if known else "distance raised "
                    note_failure(failures, index[i], theta[i], error, source)
        bad = ~np.isfinite(distance)
        failures += _unnamed(bad, failures, theta, index, "distance returned nan or inf")
        distance[bad] = np.inf
        return distance

    def checked_distances(self, summary: FloatArray) -> FloatArray:
        """Distances (n,), which may be nan or inf."""
        return _not_negative(self._called(summary), summary, self.observed_summary)

    def _called(self, summary: FloatArray) -> FloatArray:
        """What the distance says (n,)."""
        own = summary.copy()  # a function may write into what it is given
        value = self.distance(own, self.observed_summary)
        if type(value) is np.ndarray and value.dtype == FLOAT and value.shape == (len(own),):
            return value
        return one_each(floats(value, "distance"), len(own))

    def rerun(self, theta: FloatArray, index: IntArray, root: int, number: int) -> float:
        """The distance of simulation `number`, made again alone; what it raises is not caught.

        `theta` (m, p) and `index` (m,) are the rows that were simulated together with it, itself
        included: for a vectorised simulator those of its unit, otherwise its own is enough.
        """
        row = int(np.flatnonzero(index == number)[0])
        summary = self.model.rerun(theta, index, root, self.shape, row)
        if not np.isfinite(summary).all():
            raise SimulatorError(f"The summary of simulation {number} is not finite: {summary!r}")
        if self.needs_pilot:
            raise ParameterError(
                "`problem` must have a fitted distance, but got one that a pilot has to scale. "
                "Give `result.problem`."
            )
        distance = float(self.checked_distances(summary[None])[0])
        if not np.isfinite(distance):
            raise SimulatorError(f"The distance of simulation {number} is {distance}.")
        return distance


def finite_rows(summary: FloatArray) -> BoolArray:
    """Which summaries (n, ...) are finite throughout: (n,)."""
    return np.asarray(np.isfinite(summary).all(axis=tuple(range(1, summary.ndim))))


def _unnamed(
    bad: BoolArray,
    failures: Iterable[Failure],
    theta: FloatArray,
    index: IntArray,
    reason: str,
) -> list[Failure]:
    """Failures for the bad rows (n,) that have none yet."""
    known = {f.index for f in failures}
    rows = [i for i in np.flatnonzero(bad).tolist() if int(index[i]) not in known]
    return [Failure(int(index[i]), tuple(theta[i].tolist()), reason) for i in rows]


class NegativeDistanceError(SimulatorError):
    """A distance below 0: of the simulations that are nearest, or of all, if it is a similarity."""

    #: How the reason of such a failure begins.
    REASON = "NegativeDistanceError: "


def _not_negative(distance: FloatArray, simulated: FloatArray, observed: FloatArray) -> FloatArray:
    """The distances (n,), 0 where rounding took them below; further below 0 they are an error."""
    below = distance < 0.0
    negative = np.flatnonzero(below)
    if not len(negative):
        return distance
    # Of each row by itself, so that the answer does not depend on which rows come together.
    own = np.abs(simulated[negative].reshape(len(negative), -1)).max(axis=1, initial=0.0)
    size = np.maximum(own, np.abs(observed).max(initial=0.0))
    if (distance[negative] < -(_ROUNDING * size + _LEAST_ROUNDING)).any():
        raise NegativeDistanceError(
            f"distance must be at least 0, but got {float(np.nanmin(distance)):.6g}. Return a "
            "distance, not a similarity or the logarithm of a distance; "
            "if rounding made it negative, return max(0.0, ...)."
        )
    return np.where(below, 0.0, distance)


@dataclass(frozen=True)
class Discrepancy:
    """The work of a block: parameters and numbers of simulations in, distances out."""

    measurement: Measurement
    root: int  #: 64-bit seed of the run

    def __post_init__(self) -> None:
        self.__dict__["process"] = os.getpid()  # of the run; no field: it makes no difference

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.__dict__["process"] != os.getpid():
            search(self.root)  # now, for a call may have little time

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one summary."""
        return self.measurement.shape

    def __call__(self, rows: Rows, until: float = np.inf) -> Simulations:
        """Simulate, summarise and measure the first rows: see `Work`."""
        began, n = time.time(), 0
        theta, index, measurement = rows.theta, rows.index, self.measurement
        is_elsewhere = self.__dict__["process"] != os.getpid()
        watch = Watch.of_call(self.root, index, is_elsewhere=is_elsewhere)
        summary = np.empty((len(index), *measurement.observed_summary.shape))
        failures: list[Failure] = []
        interrupt: KeyboardInterrupt | None = None
        try:
            for n in measurement.model.fill(summary, failures, theta, index, self.root):  # noqa: B007 - read below
                if time.monotonic() >= until:
                    break
        except KeyboardInterrupt as error:
            if n == 0:
                raise
            interrupt = error
            # Of the call that Ctrl-C ended, rows may have failed before.
            failures = [failure for failure in failures if failure.index <= index[n - 1]]
        if n < len(index):
            summary, theta, index = summary[:n], theta[:n], index[:n]
        distance = measurement.distances(summary, theta, index, failures)
        done = Simulations(
            distance, summary, tuple(failures), began, () if watch is None else watch.moved()
        )
        if interrupt is not None:
            raise InterruptedWorkError(done) from interrupt
        return done
