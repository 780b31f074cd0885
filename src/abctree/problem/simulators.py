"""The three ways to call a simulator, behind one: theta and numbers of simulations to summaries.

A simulation that raises or returns something unusable is a row of nan and a `Failure`; the other
rows are untouched.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn, TypeAlias

import numpy as np

from abctree import streams
from abctree.data import Failure
from abctree.problem.arrays import floats
from abctree.problem.form import Form
from abctree.types import Data, FloatArray, IntArray, SimulatorFunction, SummaryFunction

#: Tracebacks kept in one call; the rest are counted with their reason.
_TRACEBACKS = 3
#: Characters kept of a reason, and of a traceback.
_LONGEST_REASON = 400
_LONGEST_TRACEBACK = 10_000


#: What counts as a failed simulation.  Ctrl-C does not: it ends the run.
CAUGHT = (Exception, SystemExit, GeneratorExit)


class WrongShapeError(ValueError):
    """What was returned does not have the shape of the observation."""


class NothingError(ValueError):
    """None, or nan in place of an array, was returned: what many simulators say when they fail."""


class SummaryError(Exception):
    """The summary raised; the cause says what."""


def failure(
    number: int, theta: FloatArray, error: BaseException, *, trace: bool, source: str = ""
) -> Failure:
    """The record of a simulation that raised `error`, which is being handled."""
    reason = str(error) if isinstance(error, SummaryError) else described(error)
    text = _printable(_traceback())[-_LONGEST_TRACEBACK:] if trace else ""
    return Failure(int(number), tuple(theta.tolist()), source + reason, text)


def _traceback() -> str:
    try:
        return traceback.format_exc()
    except Exception:  # noqa: BLE001 - an exception of the user's may be broken
        return ""


def described(error: BaseException) -> str:
    """The type and the message of an exception in one line."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception of the user's may have a broken message
        message = "its message cannot be printed"
    line = " ".join(_printable(message[: 2 * _LONGEST_REASON]).split())[:_LONGEST_REASON]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _printable(text: str) -> str:
    """Text without lone surrogates, which no file would take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def as_row(
    value: Data, shape: tuple[int, ...], source: str, form: Form | None = None, lead: int = 0
) -> FloatArray:
    """One summary as floats of the wanted shape, or with `lead` 1 those of several simulations.

    Where there is a form, what is missing in the observation is left out of the wanted shape.
    """
    if value is None:
        raise NothingError(f"{source} returned None")
    if form is None:
        row = floats(value, source)
    else:
        row, shape = form.numbers(value, source, lead), (*shape[:lead], *form.shape)
    if row.shape == shape:
        return row if form is None else form.kept(row, lead)
    if row.shape == () and not np.isfinite(row):
        raise NothingError(f"{source} returned {row}")
    raise WrongShapeError(
        f"{source} returned shape {row.shape}, but {shape} is needed, as of the observation. "
        + _advice(row.shape, shape)
    )


def _advice(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about an array of the wrong shape."""
    if len(wanted) > 1 and given == wanted[::-1]:
        return "Return the transpose, x.T."
    if [n for n in given if n != 1] == [n for n in wanted if n != 1]:
        how = "Return the number itself, as float(x)" if wanted == () else "Reshape what it returns"
        return f"{how}, or give `observed` in the shape that a simulation has."
    return "For data of varying size give a `summary` of fixed size, such as quantiles."


def summarised(
    summary: SummaryFunction | None,
    data: Data,
    shape: tuple[int, ...],
    form: Form | None = None,
    lead: int = 0,
) -> FloatArray:
    """The summary of what a simulator returned, of the wanted shape; see `as_row`."""
    if summary is None:
        return as_row(data, shape, "simulator", form, lead)
    if form is not None and data is not None:
        data = form.of_data(data, lead)
    try:
        value = summary(data)
    except CAUGHT as error:
        raise SummaryError(f"summary raised {described(error)}") from error
    return as_row(value, shape, "summary", form, lead)


def _nth(kept: list[Failure], number: int, theta: FloatArray, error: BaseException) -> Failure:
    return failure(number, theta, error, trace=len(kept) < _TRACEBACKS)


def _reraise(error: BaseException) -> NoReturn:
    """Raise what the user's function raised."""
    if isinstance(error, SummaryError) and error.__cause__ is not None:
        raise error.__cause__
    raise error


@dataclass(frozen=True)
class OneByOne:
    """``simulator(theta (p,), rng)``, with a generator of its own for each simulation."""

    simulator: SimulatorFunction
    summary: SummaryFunction | None
    form: Form | None = None
    unit: int = 1

    def read(self, data: Data, shape: tuple[int, ...]) -> FloatArray:
        """The summary of what the simulator returned, of the wanted shape."""
        return summarised(self.summary, data, shape, self.form)

    def fill(
        self,
        rows: FloatArray,
        failures: list[Failure],
        theta: FloatArray,
        index: IntArray,
        root: int,
    ) -> Iterator[int]:
        """Put summaries into rows (n, ...) of nan, one by one; yields how many are finished."""
        shape = rows.shape[1:]
        for i, number in enumerate(index.tolist()):
            try:
                data = self.simulator(theta[i].copy(), streams.generator(root, number))
                rows[i] = self.read(data, shape)
            except CAUGHT as error:  # a user's simulator may raise anything
                failures.append(_nth(failures, number, theta[i], error))
            yield i + 1

    def rerun(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...], row: int
    ) -> FloatArray:
        """The summary of one row of a call, made again; raises what it raised."""
        try:
            rng = streams.generator(root, int(index[row]))
            return self.read(self.simulator(theta[row].copy(), rng), shape)
        except SummaryError as error:
            _reraise(error)


@dataclass(frozen=True)
class Vectorized:
    """``simulator(theta (m, p), rng)``: one generator for the rows of a unit.

    A call that raises is repeated row by row, so that one bad row does not lose the others.
    """

    simulator: SimulatorFunction
    summary: SummaryFunction | None
    batch_size: int = 1000  #: most rows of a call: those with the same ``index // batch_size``
    form: Form | None = None

    def read(self, data: Data, shape: tuple[int, ...]) -> FloatArray:
        """The summaries of what the simulator returned in one call, of shape (n, ...)."""
        return summarised(self.summary, data, shape, self.form, lead=1)

    @property
    def unit(self) -> int:
        """All rows of a call share its generator."""
        return self.batch_size

    def fill(
        self,
        rows: FloatArray,
        failures: list[Failure],
        theta: FloatArray,
        index: IntArray,
        root: int,
    ) -> Iterator[int]:
        """Put summaries into rows (n, ...) of nan, call by call; yields how many are finished."""
        starts = np.flatnonzero(np.diff(index // self.batch_size, prepend=-1))
        bounds = [*starts.tolist(), len(index)]
        for a, b in pairwise(bounds):
            try:
                rows[a:b] = self._call(theta[a:b], index[a:b], root, rows.shape[1:])
            except CAUGHT as error:
                if b - a == 1:
                    failures.append(_nth(failures, int(index[a]), theta[a], error))
                else:
                    for i in range(a, b):
                        self._alone(theta, index, root, i, rows, failures)
            yield b

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
        except CAUGHT as error:
            failures.append(_nth(failures, int(index[i]), theta[i], error))

    def _call(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...]
    ) -> FloatArray:
        return self.read(self.run(theta, index, root), (len(theta), *shape))

    def rerun(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...], row: int
    ) -> FloatArray:
        """The summary of one row of a call, made again; raises what it raised.

        `theta` and `index` are all rows of its unit: they share a generator.
        """
        try:
            return np.asarray(self._call(theta, index, root, shape)[row])
        except CAUGHT as error:
            if len(index) == 1:
                _reraise(error)
        one = slice(row, row + 1)
        return self.rerun(theta[one], index[one], root, shape, 0)

    def run(self, theta: FloatArray, index: IntArray, root: int) -> Data:
        """What the simulator returns for the rows of one unit."""
        return self.simulator(theta.copy(), streams.generator(root, int(index[0])))


@dataclass(frozen=True)
class Seeded(Vectorized):
    """``simulator(theta (m, p), seeds (m,))``: one 64-bit seed for each simulation.

    For compiled simulators: a row depends on its theta and its seed only, so rows may be grouped
    in any way.
    """

    @property
    def unit(self) -> int:
        """No row shares anything with another."""
        return 1

    def run(self, theta: FloatArray, index: IntArray, root: int) -> Data:
        """What the simulator returns for some rows."""
        return self.simulator(theta.copy(), streams.seeds(root, index))


#: Simulator and summary as one function on a batch.
Model: TypeAlias = OneByOne | Vectorized
