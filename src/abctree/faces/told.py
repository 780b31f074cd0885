"""What `Session.ask` hands out, what `Session.tell` is given, and what a store keeps of both."""

from __future__ import annotations

import json
import reprlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abctree import streams
from abctree.data import Failure, Rows, Simulations
from abctree.errors import ParameterError, StoreError, wrong
from abctree.problem import Measurement, Problem, finite_rows
from abctree.problem.form import WrongTypeError, floats
from abctree.problem.labels import WrongLabelsError, is_labelled
from abctree.problem.simulators import CAUGHT, WrongShapeError, described, let_through
from abctree.running.journal import Memory
from abctree.running.ledger import CHUNK
from abctree.running.packing import spans, unpack
from abctree.types import FloatArray, IntArray, SeedArray

#: Not a simulator's failures, but slips of who tells them.
_SLIPS = (WrongShapeError, WrongTypeError, WrongLabelsError)
#: Kind of the record of what was handed out.
_ASKED = "asked"
#: How a simulation was answered.
_DISTANCE, _SUMMARY, _FAILED, _UNKNOWN = range(1, 5)
#: The same with what was told, or a checksum of it.
Mark = tuple[int, float]
GIVEN_UP: Mark = (_FAILED, 0.0)
UNKNOWN: Mark = (_UNKNOWN, 0.0)


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
    def of_summaries(cls, summary: FloatArray, reasons: list[str]) -> Self:
        """Of summaries (n, ...); one that is not finite is failed, for the reason of its row."""
        kind = np.where(finite_rows(summary), _SUMMARY, _FAILED).astype(np.uint8)
        return cls(kind, np.full(len(summary), np.inf), summary, reasons)

    @classmethod
    def failed(cls, n: int, reason: str, shape: tuple[int, ...]) -> Self:
        """N simulations that failed for the same reason."""
        kind = np.full(n, _FAILED, dtype=np.uint8)
        return cls(kind, np.full(n, np.inf), np.full((n, *shape), np.nan), [reason] * n)

    @classmethod
    def of_simulations(cls, index: IntArray, done: Simulations) -> Self:
        """What had been told of simulations (n,), as far as it was kept."""
        kind = np.full(len(index), _UNKNOWN if done.summary.size == 0 else _DISTANCE)
        if done.summary.size:
            kind[np.isfinite(done.summary.reshape(len(index), -1)).all(axis=1)] = _SUMMARY
        kind[np.isin(index, [failure.index for failure in done.failures])] = _FAILED
        return cls(kind.astype(np.uint8), done.distance, done.summary, [""] * len(index))

    def take(self, which: IntArray) -> Self:
        """Some of them."""
        reasons = [self.reasons[i] for i in which.tolist()]
        return type(self)(self.kind[which], self.distance[which], self.summary[which], reasons)

    def mark(self, i: int) -> Mark:
        """What one of them is told from others by."""
        kind = int(self.kind[i])
        if kind == _DISTANCE:
            return kind, float(self.distance[i])
        if kind == _SUMMARY:
            return kind, float(zlib.crc32((self.summary[i] + 0.0).tobytes()))
        return kind, 0.0

    def simulations(self, measurement: Measurement, rows: Rows) -> Simulations:
        """The same as the problem would have given them."""
        numbers, theta = rows.index.tolist(), rows.theta
        failed = tuple(
            Failure(numbers[i], tuple(theta[i].tolist()), self.reasons[i])
            for i in np.flatnonzero(self.kind == _FAILED).tolist()
        )
        distance, summary = self.distance.copy(), self.summary.copy()
        distance[self.kind != _DISTANCE] = np.inf
        summary[self.kind != _SUMMARY] = np.nan
        done = np.flatnonzero(self.kind == _SUMMARY)
        if len(done):
            part = Simulations(np.full(len(done), np.inf), summary[done])
            part = measurement.measured(part, theta[done], rows.index[done])
            distance[done] = part.distance
            failed += part.failures
        return Simulations(distance, summary, tuple(sorted(failed, key=lambda f: f.index)))


# Reading what is told ---------------------------------------------------------------------------


def told(
    problem: Problem,
    index: IntArray,
    distances: ArrayLike | None,
    summaries: ArrayLike | None,
    data: Any,
) -> Answers:
    """Answers of simulations (n,), from the one thing that is told of them."""
    given = [x is not None for x in (distances, summaries, data)]
    if sum(given) != 1:
        raise wrong("tell", "be given one of distances, summaries and data", sum(given))
    if distances is not None:
        return _told_distances(problem, index, distances)
    if summaries is not None:
        return _told_summaries(problem, index, summaries)
    return _told_data(problem, index, data)


def _told_distances(problem: Problem, index: IntArray, distances: ArrayLike) -> Answers:
    """Answers from distances (n,), unless these take their scale from the pilot."""
    if problem.needs_pilot:
        raise ParameterError(
            "`distances` must not be told when the distance takes its scale from the pilot. "
            "Tell summaries or data."
        )
    value = _numbers(distances, "distances", (len(index),))
    if (value < 0.0).any():
        raise wrong("distances", "be at least 0", np.nanmin(value))
    summary = np.full((len(index), *problem.shape), np.nan)
    kind = np.where(np.isfinite(value), _DISTANCE, _FAILED).astype(np.uint8)
    return Answers(kind, value, summary, ["distance told is nan or inf"] * len(index))


def _told_summaries(problem: Problem, index: IntArray, summaries: ArrayLike) -> Answers:
    """Answers from summaries (n, ...)."""
    form = problem.model.form
    if form is None:
        value = _numbers(summaries, "summaries", (len(index), *problem.shape))
    else:
        try:
            told = form.numbers(summaries, "`summaries`", 1)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`summaries` must be like the observation: {error}") from None
        value = form.kept(_numbers(told, "summaries", (len(index), *form.shape)), 1)
    return Answers.of_summaries(value, ["summary told is nan or inf"] * len(index))


def _told_data(problem: Problem, index: IntArray, data: Any) -> Answers:
    """Answers from what a simulator would return, one item for each; None if it failed."""
    if problem.measurement.vectorized and is_labelled(data):
        try:
            rows = problem.model.read(data, problem.shape, len(index))
        except CAUGHT as error:
            let_through(error)
            raise ParameterError(f"`data` must be like the observation: {error}") from None
        return Answers.of_summaries(rows, ["data told are nan or inf"] * len(index))
    return Answers.of_summaries(*_summaries(problem, index, _items(index, data)))


def _items(index: IntArray, data: Any) -> Any:
    """The data as an array or a list, as long as `index`."""
    try:
        n = len(data)
        items = data if isinstance(data, np.ndarray) else [data[i] for i in range(n)]
    except (TypeError, KeyError, IndexError):
        n, items = None, None
    if n != len(index):
        got = type(data).__name__ if n is None else f"{n}"
        raise wrong("data", f"be a sequence of one item for each of the {len(index)} numbers", got)
    return items


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
    rows = np.full((len(data), *problem.shape), np.nan)
    source = "data told are" if summary is None else "summary of the data told is"
    reasons = [f"{source} nan or inf"] * len(data)
    if problem.measurement.vectorized:
        try:
            return problem.model.read(_batch(data), problem.shape, len(data)), reasons
        except CAUGHT as first:  # find the rows that cannot be used, keep the others
            let_through(first)
    for i in range(len(data)):
        if data[i] is None:
            reasons[i] = "NothingError: None was told"
            continue
        try:
            piece = _batch(data[i : i + 1]) if problem.measurement.vectorized else data[i]
            rows[i] = problem.model.read(piece, problem.shape)[0]
        except _SLIPS as error:
            raise ParameterError(
                f"`data` of simulation {index[i]} must be like the observation, of shape "
                f"{problem.shape}, but got {reprlib.repr(data[i])}: {str(error).rstrip('.')}. Tell "
                "None for a simulation that failed."
            ) from None
        except CAUGHT as error:
            let_through(error)
            reasons[i] = described(error)
    return rows, reasons


def _batch(data: Any) -> Any:
    """Rows as an array, unless they have labels."""
    return data if any(map(is_labelled, data)) else np.asarray(data)


# What a store says of a session -----------------------------------------------------------------


def record_of_asked(numbers: list[int]) -> tuple[str, bytes]:
    """The record of simulations that are handed out."""
    return _ASKED, json.dumps(spans(np.array(numbers, dtype=np.int64))).encode()


def asked_of(store: Memory) -> set[int]:
    """Numbers that were handed out."""
    try:
        found = [json.loads(data) for kind, data in store.records() if kind == _ASKED]
        return {n for spans in found for first, last in spans for n in range(first, last)}
    except (ValueError, TypeError) as error:
        raise StoreError(f"The state of the session cannot be read ({error}).") from error


def marks_of(store: Memory) -> Iterator[tuple[int, Mark]]:
    """How each simulation of a run was answered."""
    for kind, data in store.records():
        if kind == CHUNK:
            kept = unpack(data)
            answers = Answers.of_simulations(kept.index, kept.done)
            marks = (answers.mark(i) for i in range(len(kept.index)))
            yield from zip(kept.index.tolist(), marks, strict=True)
