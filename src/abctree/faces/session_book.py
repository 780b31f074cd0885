"""The book of a session: what was asked, what was answered, and a run's view of it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abctree import streams
from abctree.data import Failure, Rows, Simulations
from abctree.errors import ParameterError, StoreError
from abctree.problem import Discrepancy, Measurement, Problem, finite_rows
from abctree.problem.arrays import WrongTypeError, floats
from abctree.problem.labels import WrongLabelsError, is_labelled
from abctree.problem.simulators import (
    CAUGHT,
    WrongShapeError,
    described,
)
from abctree.protocols import Chunk, Work
from abctree.types import BoolArray, FloatArray, IntArray, SeedArray

#: Not a simulator's failures, but slips of who tells them.
_SLIPS = (WrongShapeError, WrongTypeError, WrongLabelsError)
#: How a simulation was answered.
OPEN, DISTANCE, SUMMARY, FAILED = range(4)


@dataclass(frozen=True, eq=False)
class Ask:
    """Simulations to be made."""

    numbers: IntArray  #: (n,) what to call them in `Session.tell`
    theta: FloatArray  #: (n, p) their parameters
    seeds: SeedArray  #: (n,) a 64-bit seed for each
    names: tuple[str, ...]  #: of the columns of theta
    root: int  #: seed of the run's streams

    def __len__(self) -> int:
        return len(self.numbers)

    def rng(self, i: int) -> np.random.Generator:
        """The generator that `abc_tree` would give to the simulation in row i."""
        return streams.generator(self.root, int(self.numbers[i]))


@dataclass(frozen=True)
class Answers:
    """Answers to some simulations."""

    kind: NDArray[np.uint8]  #: (n,)
    distance: FloatArray  #: (n,)
    summary: FloatArray  #: (n, ...)
    reasons: list[str]  #: n, of the failed ones

    @classmethod
    def of(
        cls,
        kind: int,
        distance: FloatArray,
        summary: FloatArray,
        usable: BoolArray,
        reasons: list[str],
    ) -> Self:
        """Of one kind; those that cannot be used are failed, for the reason of their row."""
        kinds = np.where(usable, kind, FAILED).astype(np.uint8)
        return cls(kinds, distance, summary, reasons)

    @classmethod
    def failed(cls, n: int, reason: str, shape: tuple[int, ...]) -> Self:
        """N simulations that failed for the same reason."""
        kind = np.full(n, FAILED, dtype=np.uint8)
        return cls(kind, np.full(n, np.inf), np.full((n, *shape), np.nan), [reason] * n)


class Book:
    """What was asked, and what was answered, by number; N is the budget."""

    def __init__(self, problem: Problem, n: int) -> None:
        self.kind = np.zeros(n, dtype=np.uint8)
        self.asked = np.zeros(n, dtype=bool)
        self.known = np.zeros(n, dtype=bool)  #: whether theta is known
        self.begun = np.zeros(n, dtype=bool)  #: whether the run has got there, in this process
        self.used = np.zeros(n, dtype=bool)  #: whether the block is whole, and the run went on
        self.theta = np.full((n, len(problem.names)), np.nan)
        self.distance = np.full(n, np.inf)
        self.summary: FloatArray | None = None  # made when it is needed
        self.reasons: dict[int, str] = {}
        self._shape = (n, *problem.shape)

    def begin(self, theta: FloatArray, index: IntArray) -> None:
        """The run asks for these simulations: for the first time, or for the same parameters."""
        known = self.known[index]
        if not np.array_equal(theta[known], self.theta[index[known]], equal_nan=True):
            raise another_run()
        self.theta[index] = theta
        self.known[index] = self.begun[index] = True

    def write(self, index: IntArray, answers: Answers) -> int:
        """Take answers; the number of new ones, those in the place of a failure included."""
        self._check(index, answers)
        failed = (self.kind[index] == FAILED) & ~self.used[index] & (answers.kind != FAILED)
        new = (self.kind[index] == OPEN) | failed
        rows = index[new]
        for number in index[failed].tolist():
            del self.reasons[number]
        self.kind[rows] = answers.kind[new]
        self.distance[rows] = answers.distance[new]
        if (answers.kind == SUMMARY).any():
            self._summaries()[rows] = answers.summary[new]
        for i in np.flatnonzero(new & (answers.kind == FAILED)).tolist():
            self.reasons[int(index[i])] = answers.reasons[i]
        return len(rows)

    def _check(self, index: IntArray, answers: Answers) -> None:
        """Answers must not contradict each other, but one may come after a failure."""
        old = self.kind[index]
        wrong = (old != OPEN) & (old != FAILED) & (old != answers.kind)
        both = (old == answers.kind) & (old != OPEN)
        wrong |= both & (self.distance[index] != answers.distance) & (old == DISTANCE)
        for i in np.flatnonzero(both & (old == SUMMARY)).tolist():
            wrong[i] = not np.array_equal(self._summaries()[index[i]], answers.summary[i])
        if wrong.any():
            raise ParameterError(
                f"`tell` must not change an answer, but that of simulation {index[wrong][0]} is "
                "another than the one told before."
            )

    def _summaries(self) -> FloatArray:
        if self.summary is None:
            self.summary = np.full(self._shape, np.nan)
        return self.summary

    def has(self, index: IntArray) -> bool:
        """Whether all of these simulations are answered."""
        return bool(self.kind[index].all())

    def read(self, measurement: Measurement, theta: FloatArray, index: IntArray) -> Simulations:
        """The answers to a block, as the measurement would have given them."""
        kind = self.kind[index]
        distance = self.distance[index]
        summary = np.full((len(index), *self._shape[1:]), np.nan)
        failures = [
            Failure(i, tuple(self.theta[i].tolist()), self.reasons[i])
            for i in index[kind == FAILED].tolist()
        ]
        rows = np.flatnonzero(kind == SUMMARY)
        if len(rows):
            summary[rows] = self._summaries()[index[rows]]
            if not measurement.needs_pilot:
                part = Simulations(np.full(len(rows), np.inf), summary[rows])
                part = measurement.measured(part, theta[rows], index[rows])
                distance[rows] = part.distance
                failures += part.failures
        return Simulations(distance, summary, tuple(sorted(failures, key=lambda f: f.index)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The book for a file: only the rows that have something to say."""
        number = np.flatnonzero((self.kind != OPEN) | self.asked)
        kind = self.kind[number]
        rows = number[kind == SUMMARY]
        return {
            "number": number,
            "kind": kind,
            "asked": self.asked[number],
            "theta": self.theta[number],
            "distance": self.distance[number],
            "summary": self._summaries()[rows] if len(rows) else np.empty((0, *self._shape[1:])),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], reasons: dict[int, str]) -> None:
        """What `arrays` gave."""
        number = np.asarray(arrays["number"], dtype=np.int64)
        if len(number) and number.min() < 0:
            raise ValueError("negative numbers")
        kind = np.asarray(arrays["kind"], dtype=np.uint8)
        if (kind > FAILED).any() or set(number[kind == FAILED].tolist()) != set(reasons):
            raise ValueError("kinds of answers that do not exist, or have no reason")
        self.kind[number] = kind
        self.asked[number] = np.asarray(arrays["asked"], dtype=bool)
        self.theta[number] = np.asarray(arrays["theta"], dtype=np.float64)
        self.known[number] = True
        self.distance[number] = np.asarray(arrays["distance"], dtype=np.float64)
        rows = number[kind == SUMMARY]
        if len(rows):
            self._summaries()[rows] = np.asarray(arrays["summary"], dtype=np.float64)
        self.reasons = reasons


class WaitingError(Exception):
    """The run waits for an answer."""


class Desk:
    """An executor that looks answers up in the book."""

    def __init__(self, book: Book) -> None:
        self.missing: type[BaseException] = WaitingError
        self._book = book
        self._read: dict[tuple[int, bool], Simulations] = {}
        self._awaited: IntArray | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether the block that was waited for is answered."""
        return self._awaited is None or self._book.has(self._awaited)

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """The told answers; raises when they are waited for and are not all there."""
        if not isinstance(work, Discrepancy):
            raise TypeError("a session answers for a problem only")
        self._book.begin(rows.theta, rows.index)
        return self._told(work.measurement, rows)

    def _told(self, measurement: Measurement, rows: Rows) -> Iterator[Chunk]:
        index = rows.index
        self._awaited = index
        if not self._book.has(index):
            raise self.missing
        self._book.used[index] = True
        key = (int(index[0]), measurement.needs_pilot)
        if key not in self._read:
            self._read[key] = self._book.read(measurement, rows.theta, index)
        yield rows, self._read[key]


def another_run() -> StoreError:
    """What to raise when the answers are not those that the run asks for."""
    return StoreError(
        "The session holds the answers to other parameters than the run now asks for. The prior, "
        "the constraint, a part or a version must have changed since it was saved."
    )


# Reading what is told ---------------------------------------------------------------------------


def told_distances(problem: Problem, index: IntArray, distances: ArrayLike) -> Answers:
    """Answers from distances (n,).

    Raises
    ------
    ParameterError
        If they are no distances, or the problem's take their scale from the pilot.
    """
    if problem.needs_pilot:
        raise ParameterError(
            "`distances` must not be told when the distance takes its scale from the pilot. "
            "Tell summaries or data."
        )
    value = _numbers(distances, "distances", (len(index),))
    if (value < 0.0).any():
        raise ParameterError(f"`distances` must be at least 0, but got {np.nanmin(value)}.")
    summary = np.full((len(index), *problem.shape), np.nan)
    reasons = ["distance told is nan or inf"] * len(index)
    return Answers.of(DISTANCE, value, summary, np.isfinite(value), reasons)


def told_summaries(problem: Problem, index: IntArray, summaries: ArrayLike) -> Answers:
    """Answers from summaries (n, ...).

    Raises
    ------
    ParameterError
        If they are no numbers, or of another shape.
    """
    form = problem.model.form
    if form is None:
        value = _numbers(summaries, "summaries", (len(index), *problem.shape))
    else:
        try:
            told = form.numbers(summaries, "`summaries`", 1)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`summaries` must be like the observation: {error}") from None
        value = form.kept(_numbers(told, "summaries", (len(index), *form.shape)), 1)
    return _summarised(value, ["summary told is nan or inf"] * len(index))


def told_data(problem: Problem, index: IntArray, data: Any) -> Answers:
    """Answers from what a simulator would return, one item for each.

    Raises
    ------
    ParameterError
        If there are more or fewer items, or one is not None and has a wrong shape or type.
    """
    if problem.measurement.vectorized and is_labelled(data):
        try:
            rows = problem.model.read(data, (len(index), *problem.shape))
        except CAUGHT as error:
            raise ParameterError(f"`data` must be like the observation: {error}") from None
        return _summarised(rows, ["data told are nan or inf"] * len(index))
    return _summarised(*_summaries(problem, index, _items(index, data)))


def _items(index: IntArray, data: Any) -> Any:
    """The data as an array or a list, as long as `index`."""
    try:
        n = len(data)
        items = data if isinstance(data, np.ndarray) else [data[i] for i in range(n)]
    except (TypeError, KeyError, IndexError):
        n, items = None, None
    if n != len(index):
        got = type(data).__name__ if n is None else f"{n}"
        raise ParameterError(
            f"`data` must be a sequence of one item for each of the {len(index)} numbers, but got "
            f"{got}."
        )
    return items


def _summarised(summary: FloatArray, reasons: list[str]) -> Answers:
    distance = np.full(len(summary), np.inf)
    return Answers.of(SUMMARY, distance, summary, finite_rows(summary), reasons)


def _numbers(value: Any, name: str, shape: tuple[int, ...]) -> FloatArray:
    try:
        array = floats(value, f"`{name}`")
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"`{name}` must be real numbers of shape {shape}: {error}.") from None
    if array.shape != shape:
        raise ParameterError(f"`{name}` must have shape {shape}, but got {array.shape}.")
    return array


def _summaries(problem: Problem, index: IntArray, data: Any) -> tuple[FloatArray, list[str]]:
    """Summaries (n, ...) of what simulators returned, nan where it cannot be used, and why."""
    summary = problem.model.summary
    shape = problem.shape
    rows = np.full((len(data), *shape), np.nan)
    source = "data told are" if summary is None else "summary of the data told is"
    reasons = [f"{source} nan or inf"] * len(data)
    if problem.measurement.vectorized:
        try:
            return problem.model.read(_batch(data), rows.shape), reasons
        except CAUGHT:  # find the rows that cannot be used, keep the others
            shape = (1, *shape)
    for i in range(len(data)):
        if data[i] is None:
            reasons[i] = "NothingError: None was told"
            continue
        try:
            piece = _batch(data[i : i + 1]) if problem.measurement.vectorized else data[i]
            rows[i] = problem.model.read(piece, shape).reshape(problem.shape)
        except _SLIPS as error:
            raise _wrong_data(problem, int(index[i]), data[i], error) from None
        except CAUGHT as error:
            reasons[i] = described(error)
    return rows, reasons


def _batch(data: Any) -> Any:
    """Rows as an array, unless they have labels."""
    return data if any(map(is_labelled, data)) else np.asarray(data)


def _wrong_data(problem: Problem, number: int, item: Any, error: Exception) -> ParameterError:
    what = "items" if problem.model.summary is None else "items with a summary"
    if isinstance(error, WrongLabelsError):
        return ParameterError(
            f"`data` of simulation {number} must be like the observation: {error}"
        )
    if isinstance(error, WrongTypeError):
        got = reprlib.repr(item)
    elif problem.model.summary is None:
        got = f"one of shape {np.shape(item)}"
    else:
        got = f"one for which the {str(error).partition(', but ')[0]}"
    return ParameterError(
        f"`data` must have {what} of shape {problem.shape}, real numbers, but got {got} for "
        f"simulation {number}. Tell None for a simulation that failed."
    )
