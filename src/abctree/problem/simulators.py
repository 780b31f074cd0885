"""`Model`: simulator and summary as one function of theta and the numbers of simulations.

A simulation that raises or returns something unusable is a row of nan and a `Failure`; the other
rows are untouched.
"""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from abctree import streams
from abctree.data import Failure
from abctree.problem.form import FLOAT, Form, floats
from abctree.problem.labels import check_order_of_rows
from abctree.streams import Generators
from abctree.types import Data, FloatArray, IntArray, SeedArray, SimulatorFunction, SummaryFunction

#: Tracebacks kept in one call; the rest are counted with their reason.
_TRACEBACKS = 3
#: Characters kept of a reason, and of a traceback.
_LONGEST_REASON = 400
_LONGEST_TRACEBACK = 10_000


#: What may count as a failed simulation.  A panic of compiled Rust is no `Exception`, either.
CAUGHT = BaseException


def let_through(error: BaseException) -> None:
    """Raise Ctrl-C again, and what a handler of signals has raised: the run is told to end."""
    if isinstance(error, Exception):
        return
    if isinstance(error, KeyboardInterrupt):
        raise error
    handlers = {getattr(signal.getsignal(n), "__code__", None) for n in signal.valid_signals()}
    if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
        raise error


class WrongShapeError(ValueError):
    """What was returned does not have the shape of the observation."""


class NothingError(ValueError):
    """None, or nan in place of an array, was returned: what many simulators say when they fail."""


class SummaryError(Exception):
    """The summary raised; the cause says what."""


def note_failure(
    failures: list[Failure], number: int, theta: FloatArray, error: BaseException, source: str = ""
) -> None:
    """Add the record of a simulation that raised `error`, which is being handled."""
    reason = str(error) if isinstance(error, SummaryError) else described(error)
    text = ""
    with contextlib.suppress(Exception):  # an exception of the user's may be broken
        if len(failures) < _TRACEBACKS:
            text = _printable(traceback.format_exc())[-_LONGEST_TRACEBACK:]
    failures.append(Failure(int(number), tuple(theta.tolist()), source + reason, text))


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


@dataclass(frozen=True)
class Model:
    """Simulator and summary, and how the simulator is called; see `abctree.Problem`.

    A vectorised call that raises is repeated row by row: one bad row does not lose the others.
    """

    simulator: SimulatorFunction
    summary: SummaryFunction | None
    vectorized: bool | Literal["seeds"] = False
    batch_size: int = 1000  #: most rows of a call: those with the same ``index // batch_size``
    form: Form | None = None
    is_for_threads: bool = False  #: whether several calls may go on at a time, and gain by it

    @property
    def unit(self) -> int:
        """Rows that must be simulated together, because they share a generator."""
        return self.batch_size if self.vectorized is True else 1

    def arguments(
        self, theta: FloatArray, index: IntArray, generators: Generators
    ) -> tuple[FloatArray, np.random.Generator | SeedArray]:
        """What the simulator is given for the rows of one call."""
        if self.vectorized == "seeds":
            return theta.copy(), streams.seeds(generators.root, index)
        return (theta if self.vectorized else theta[0]).copy(), generators(int(index[0]))

    def read(self, data: Data, shape: tuple[int, ...], n: int = 1) -> FloatArray:
        """The summaries (n, ...) of what the simulator returned in one call."""
        lead, source = int(bool(self.vectorized)), "simulator"
        if self.summary is not None:
            if lead:
                check_order_of_rows(data, source)
            if self.form is not None and data is not None:
                data = self.form.of_data(data, lead)
            try:
                data, source = self.summary(data), "summary"
            except CAUGHT as error:
                let_through(error)
                raise SummaryError(f"summary raised {described(error)}") from error
        wanted = (n, *shape) if lead else shape
        if type(data) is not np.ndarray:
            if lead:
                check_order_of_rows(data, source)
        elif data.dtype == FLOAT and data.shape == wanted and self.form is None:
            return data if lead else data[None]  # as nearly always, and as `as_row` has it
        row = as_row(data, wanted, source, self.form, lead)
        return row if lead else row[None]

    def fill(
        self,
        rows: FloatArray,
        failures: list[Failure],
        theta: FloatArray,
        index: IntArray,
        root: int,
    ) -> Iterator[int]:
        """Put summaries into rows (n, ...), call by call; yields how many are finished."""
        shape = rows.shape[1:]
        if is_seeded := self.vectorized == "seeds":  # made for all calls at once
            points, seeds = theta.copy(), streams.seeds(root, index)
        else:
            generators = Generators(root)
        for a, b in pairwise(self._ends_of_calls(index) if len(index) > 1 else range(2)):
            try:
                if is_seeded:
                    data = self.simulator(points[a:b], seeds[a:b])
                else:  # without a name: a generator that somebody holds does not serve again
                    data = self.simulator(*self.arguments(theta[a:b], index[a:b], generators))
                rows[a:b] = self.read(data, shape, b - a)
            except CAUGHT as error:  # a user's simulator may raise anything
                let_through(error)
                rows[a:b] = np.nan
                if b - a == 1:
                    note_failure(failures, index[a], theta[a], error)
                else:
                    for one in (slice(i, i + 1) for i in range(a, b)):
                        for _ in self.fill(rows[one], failures, theta[one], index[one], root):
                            pass
            yield b

    def _ends_of_calls(self, index: IntArray) -> Sequence[int]:
        """0, and the rows at which each call of the simulator ends."""
        n = len(index)
        if n < 2 or not self.vectorized:
            return range(n + 1)
        first, last = int(index[0]) // self.batch_size, int(index[-1]) // self.batch_size
        if first == last:
            return 0, n
        starts = np.arange(first + 1, last + 1) * self.batch_size
        return sorted({0, *np.searchsorted(index, starts).tolist(), n})

    def rerun(
        self, theta: FloatArray, index: IntArray, root: int, shape: tuple[int, ...], row: int
    ) -> FloatArray:
        """The summary of one row of a call, made again; raises what it raised.

        `theta` and `index` are all rows of its unit: they share a generator.
        """
        one = slice(row, row + 1)
        if not self.vectorized:
            theta, index, row = theta[one], index[one], 0
        try:
            data = self.simulator(*self.arguments(theta, index, Generators(root)))
            return np.asarray(self.read(data, shape, len(theta))[row])
        except CAUGHT as error:
            let_through(error)
            if len(index) == 1:
                if isinstance(error, SummaryError) and error.__cause__ is not None:
                    raise error.__cause__  # noqa: B904 - as the summary raised it
                raise
        return self.rerun(theta[one], index[one], root, shape, 0)
