"""`Session`: ask and tell, for simulations that are made elsewhere.

A run is a function of its settings, its seeds and the answers to its simulations.  So a session
keeps the answers, and nothing else: to find out what to ask next it plays the run again from the
beginning, with the answers that it has, up to the block that waits for one that it has not.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abctree import streams
from abctree.analysis.result import Result
from abctree.data import Failure, Simulations
from abctree.errors import AbctreeError, ParameterError, SimulatorError, StoreError
from abctree.methods.manifest import Recipe, check_version, manifest_of, recipe_of
from abctree.methods.run_abc_tree import abc_tree, recipe_for
from abctree.methods.run_folder import play
from abctree.parts.simulators import CAUGHT, described, floats, summarised
from abctree.problem import Discrepancy, Problem, finite_rows
from abctree.types import BoolArray, Data, FloatArray, IntArray, RNGLike, SeedArray

#: Version of what `Session.save` writes.
_SCHEMA = 1
#: How a simulation was answered.
_OPEN, _DISTANCE, _SUMMARY, _FAILED = range(4)
#: Arguments of `abc_tree` that a session has no use for.
_NOT_OURS = {"problem", "n_simulations", "rng", "executor", "store", "progress"}
_COMMON = ("preset", "stop", "on_failure", "keep_summaries")


def elsewhere(theta: FloatArray, rng: np.random.Generator) -> NoReturn:  # noqa: ARG001
    """The simulator of a problem whose simulations are made elsewhere; never to be called."""
    raise SimulatorError("The answers come from `Session.tell`, and no simulator is here to call.")


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


class Session:
    """A run of ABC-Tree whose simulations are made by you: ask for parameters, tell the answers.

    Answers may come in any order and in parts, and some may never come: `give_up` counts them as
    failed.  The result is that of `abc_tree` with the same seed, settings and distances, bit for
    bit.  It is the answers alone that decide, not when or in which order they were told.

    The run moves on by blocks: the next parameters are known when a block has all of its answers.
    With ``lookahead=1`` or more the blocks after it are handed out before.  Each time, the run is
    played again from the beginning, which takes about 10 µs for every simulation made so far: next
    to nothing with the default blocks, but not with ``block=1`` in a run of many thousands.

    Parameters
    ----------
    problem : Problem
        Prior, observation, summary and distance.  Its simulator is never called: it may be
        `abctree.elsewhere`.
    n_simulations : int
        T, the exact number of simulations, the pilot included.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness.
    **settings
        As for `abc_tree`, but for `executor`, `store` and `progress`; of the stopping rules not
        ``"seconds"``, and of the failure policies not "raise".

    Raises
    ------
    ParameterError
        If a setting is unknown or breaks its rule.

    Examples
    --------
    >>> import numpy as np
    >>> import abctree
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, abctree.elsewhere, observed=[1.0])
    >>> session = abctree.Session(problem, n_simulations=500, rng=1)
    >>> while not session.done:
    ...     ask = session.ask()
    ...     x = [theta + ask.rng(i).normal() for i, theta in enumerate(ask.theta)]
    ...     _ = session.tell(ask.numbers, data=x)
    >>> session.result().n_simulations
    500
    """

    def __init__(
        self, problem: Problem, *, n_simulations: int, rng: RNGLike = None, **settings: Any
    ) -> None:
        allowed = set(inspect.signature(abc_tree).parameters) - _NOT_OURS
        for name in settings:
            if name not in allowed:
                raise ParameterError(
                    f"`{name}` must be one of {', '.join(sorted(allowed))}, the settings of a "
                    "session."
                )
        common = {name: settings.pop(name) for name in _COMMON if name in settings}
        recipe = recipe_for(problem, n_simulations, rng, settings, **common)
        _check_recipe(recipe)
        self._begin(problem, recipe, _Book(problem, recipe.settings.plan.n_simulations))

    def _begin(self, problem: Problem, recipe: Recipe, book: _Book) -> None:
        self._problem = problem
        self._recipe = recipe
        self._book = book
        self._desk = _Desk(book)
        self._result: Result | None = None
        self._play()

    # Asking ---------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the run is over: its budget spent, or stopped for a reason."""
        return self._result is not None

    @property
    def n_told(self) -> int:
        """Simulations that are answered or given up."""
        return int(np.count_nonzero(self._book.kind))

    def ask(self, n: int | None = None) -> Ask:
        """Simulations to be made that have not been handed out yet, the first ones first.

        Parameters
        ----------
        n : int, optional
            At most so many; default all that are known by now.

        Returns
        -------
        Ask
            Empty when the run is over, or when it has to wait for answers: see `outstanding`.
        """
        if n is not None and n < 0:
            raise ParameterError(f"`n` must be at least 0, but got {n}.")
        book = self._book
        free = np.flatnonzero((book.kind == _OPEN) & book.known & ~book.asked)
        numbers = free[:n] if not self.done else free[:0]
        book.asked[numbers] = True
        return self._ask(numbers)

    def outstanding(self) -> Ask:
        """Simulations that were handed out and are not answered: to be told, made again, or given
        up.  The same number always has the same parameters and seed.
        """  # noqa: D205
        book = self._book
        waiting = book.asked & (book.kind == _OPEN)
        return self._ask(np.flatnonzero(waiting & (not self.done)))

    def _ask(self, numbers: IntArray) -> Ask:
        root = self._recipe.seeds.root
        seeds = streams.seeds(root, numbers)
        return Ask(numbers, self._book.theta[numbers], seeds, self._problem.names, root)

    # Telling --------------------------------------------------------------------------------

    def tell(
        self,
        numbers: ArrayLike,
        *,
        distances: ArrayLike | None = None,
        summaries: ArrayLike | None = None,
        data: Sequence[Data] | NDArray[Any] | None = None,
    ) -> int:
        """The answers to some simulations, in the order of `numbers`.

        Exactly one of the three must be given.  An answer that is nan or inf is a failed
        simulation, and so is one of `data` that the summary cannot use.

        Parameters
        ----------
        numbers : (n,) int
            As they were asked.  An answer told before may be told again, and one that comes after
            it was given up is dropped.
        distances : (n,) float
            At least 0.  Not with a distance that takes its scale from the pilot.
        summaries : (n, ...) float
            Summaries; the problem's distance measures them.
        data : sequence of n
            What the simulator would return, one item for each, or, for a vectorised problem,
            (n, ...); the problem's summary and distance are applied.

        Returns
        -------
        int
            How many of the answers are new.

        Raises
        ------
        ParameterError
            If a number was never asked, an answer contradicts one told before, or the arguments do
            not fit together; then none of the answers counts.
        SimulatorError
            If the whole pilot failed: the run cannot go on.
        """
        index = self._numbers(numbers)
        given = [x is not None for x in (distances, summaries, data)]
        if sum(given) != 1:
            raise ParameterError(
                f"`tell` must be given one of distances, summaries and data, but got {sum(given)}."
            )
        if distances is not None:
            answers = self._told_distances(index, distances)
        elif summaries is not None:
            answers = self._told_summaries(index, summaries)
        else:
            answers = self._told_data(index, data)
        n_new = self._book.write(index, answers)
        self._play()
        return n_new

    def give_up(self, numbers: ArrayLike, reason: str = "given up") -> int:
        """Count simulations as failed: they are rejections, and remain in the evidence.

        Parameters
        ----------
        numbers : (n,) int
            As they were asked; those that are answered stay answered.
        reason : str
            For the summary.

        Returns
        -------
        int
            How many were open.
        """
        index = self._numbers(numbers)
        index = index[self._book.kind[index] == _OPEN]
        n_new = self._book.write(index, _Answers.failed(len(index), reason, self._problem.shape))
        self._play()
        return n_new

    def _numbers(self, numbers: ArrayLike) -> IntArray:
        array = np.atleast_1d(np.asarray(numbers))
        if array.size == 0:
            return np.empty(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ParameterError(
                f"`numbers` must be whole numbers (n,), but got {array.dtype} of shape "
                f"{array.shape}."
            )
        known = (array >= 0) & (array < len(self._book.kind))
        known[known] = self._book.known[array[known].astype(np.int64)]
        if not known.all():
            raise ParameterError(
                f"`numbers` must have been asked, but {int(array[~known][0])} has not been."
            )
        if len(np.unique(array)) < len(array):
            raise ParameterError("`numbers` must be different from each other.")
        return array.astype(np.int64)

    def _told_distances(self, index: IntArray, distances: ArrayLike) -> _Answers:
        if self._problem.needs_pilot:
            raise ParameterError(
                "`distances` must not be told when the distance takes its scale from the pilot. "
                "Tell summaries or data."
            )
        value = _told_numbers(distances, "distances", (len(index),))
        if (value < 0.0).any():
            raise ParameterError(f"`distances` must be at least 0, but got {np.nanmin(value)}.")
        summary = np.full((len(index), *self._problem.shape), np.nan)
        return _Answers.of(_DISTANCE, value, summary, np.isfinite(value), "distance")

    def _told_summaries(self, index: IntArray, summaries: ArrayLike) -> _Answers:
        value = _told_numbers(summaries, "summaries", (len(index), *self._problem.shape))
        return self._answers(value, ["summary told is nan or inf"] * len(index))

    def _told_data(self, index: IntArray, data: Any) -> _Answers:
        if not hasattr(data, "__len__") or len(data) != len(index):
            raise ParameterError(
                f"`data` must hold one item for each of the {len(index)} numbers, but got "
                f"{len(data) if hasattr(data, '__len__') else type(data).__name__}."
            )
        summary, reasons = _summaries(self._problem, data)
        return self._answers(summary, reasons)

    def _answers(self, summary: FloatArray, reasons: list[str]) -> _Answers:
        usable = finite_rows(summary)
        distance = np.full(len(summary), np.inf)
        answers = _Answers.of(_SUMMARY, distance, summary, usable, "summary")
        return replace(answers, reasons=reasons)

    # Playing --------------------------------------------------------------------------------

    def _play(self) -> None:
        """Play the run as far as the answers reach."""
        if self._result is not None or not self._desk.may_go_on:
            return
        try:
            self._result = self._played(_Waiting)
        except _Waiting:
            return

    def _played(self, missing: type[BaseException]) -> Result:
        self._desk.missing = missing
        recipe = self._recipe
        if (self._book.kind == _DISTANCE).any():  # then there are no summaries to keep
            recipe = replace(recipe, summary_size=0)
        return play(self._problem, recipe, self._desk, None, None)

    def result(self) -> Result:
        """The result: of the whole run, or of the blocks that are answered by now.

        Raises
        ------
        ParameterError
            Before the pilot is told.
        """
        if self._result is not None:
            return self._result
        n_pilot = self._recipe.settings.plan.n_pilot
        missing = int(np.count_nonzero(self._book.kind[:n_pilot] == _OPEN))
        if missing:
            raise ParameterError(
                f"`tell` must have been given the pilot, but {missing} of its {n_pilot} "
                "simulations are not answered. There is nothing to see yet."
            )
        result = self._played(KeyboardInterrupt)  # as if interrupted where the answers end
        budget = self._recipe.settings.plan.n_simulations
        reason = f"unfinished: {result.n_simulations} of {budget} simulations told"
        return replace(result, stopped_because=reason)

    # Keeping --------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """All that the session is, as arrays and one text of JSON: what `save` writes."""
        manifest = {
            "session": _SCHEMA,
            "run": manifest_of(self._recipe, self._problem),
            "reasons": {str(i): reason for i, reason in self._book.reasons.items()},
        }
        return {"manifest": np.array(json.dumps(manifest)), **self._book.arrays()}

    @classmethod
    def from_state(
        cls, state: Mapping[str, NDArray[Any]], problem: Problem, **parts: Any
    ) -> Session:
        """A session as it was; see `load`."""
        try:
            manifest = json.loads(str(state["manifest"]))
            if manifest["session"] != _SCHEMA:
                raise StoreError(
                    f"The session was saved by a newer abctree (schema {manifest['session']}). "
                    "Update abctree."
                )
            reasons = {int(i): str(reason) for i, reason in manifest["reasons"].items()}
            run = manifest["run"]
            recipe = recipe_of(run, problem, parts)
            check_version(run)
            book = _Book(problem, recipe.settings.plan.n_simulations)
            book.restore(state, reasons)
        except AbctreeError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise StoreError(
                f"The state of the session cannot be read ({type(error).__name__}: {error})."
            ) from error
        session = cls.__new__(cls)
        session._begin(problem, recipe, book)
        if not book.begun[book.known].all():
            raise _another_run()
        return session

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file, in the place of what it held before.

        It is a .npz of arrays and JSON, without any code.  After a crash the file is either the
        old or the new one.
        """
        target = Path(path)
        draft = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **self.state)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], problem: Problem, **parts: Any) -> Session:
        """A session from its file.

        Simulations that were handed out remain so: see `outstanding`.

        Parameters
        ----------
        path : path
            What was given to `save`.
        problem : Problem
            The problem of the session: code is not kept in the file.
        **parts
            Partitioner, utility, schedule, beliefs, policy or stop of your own, under the name that
            the session was given it.  Those of abctree need not be given.

        Raises
        ------
        ParameterError
            If the problem or a part is not that of the session.
        StoreError
            If the file is not that of a session, or is damaged.

        Warns
        -----
        AbctreeWarning
            If code has changed since the session began.
        """
        return cls.from_state(_arrays(path), problem, **parts)


def _check_recipe(recipe: Recipe) -> None:
    if recipe.on_failure.on_failure == "raise":
        raise ParameterError(
            '`on_failure` must be "reject" in a session, but got "raise". Raise where you make the '
            "simulations."
        )
    for rule in recipe.stop:
        if getattr(rule, "every_block", False):
            raise ParameterError(
                f"`stop` must not look at the clock, which is yours in a session, but got {rule!r}."
            )


# Answers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answers:
    """Answers to some simulations."""

    kind: NDArray[np.uint8]  #: (n,)
    distance: FloatArray  #: (n,)
    summary: FloatArray  #: (n, ...)
    reasons: list[str]  #: n, of the failed ones

    @classmethod
    def of(
        cls, kind: int, distance: FloatArray, summary: FloatArray, usable: BoolArray, what: str
    ) -> Self:
        kinds = np.where(usable, kind, _FAILED).astype(np.uint8)
        return cls(kinds, distance, summary, [f"{what} told is nan or inf"] * len(kinds))

    @classmethod
    def failed(cls, n: int, reason: str, shape: tuple[int, ...]) -> Self:
        kind = np.full(n, _FAILED, dtype=np.uint8)
        return cls(kind, np.full(n, np.inf), np.full((n, *shape), np.nan), [reason] * n)


class _Book:
    """What was asked, and what was answered, by number; N is the budget."""

    def __init__(self, problem: Problem, n: int) -> None:
        self.kind = np.zeros(n, dtype=np.uint8)
        self.asked = np.zeros(n, dtype=bool)
        self.known = np.zeros(n, dtype=bool)  #: whether theta is known
        self.begun = np.zeros(n, dtype=bool)  #: whether the run has got there, in this process
        self.theta = np.full((n, len(problem.names)), np.nan)
        self.distance = np.full(n, np.inf)
        self.summary: FloatArray | None = None  # made when it is needed
        self.reasons: dict[int, str] = {}
        self._shape = (n, *problem.shape)

    def begin(self, theta: FloatArray, index: IntArray) -> None:
        """The run asks for these simulations: for the first time, or for the same parameters."""
        known = self.known[index]
        if not np.array_equal(theta[known], self.theta[index[known]], equal_nan=True):
            raise _another_run()
        self.theta[index] = theta
        self.known[index] = self.begun[index] = True

    def write(self, index: IntArray, answers: _Answers) -> int:
        """Take answers; the number of new ones."""
        self._check(index, answers)
        new = self.kind[index] == _OPEN
        rows = index[new]
        self.kind[rows] = answers.kind[new]
        self.distance[rows] = answers.distance[new]
        if (answers.kind == _SUMMARY).any():
            self._summaries()[rows] = answers.summary[new]
        for i in np.flatnonzero(new & (answers.kind == _FAILED)).tolist():
            self.reasons[int(index[i])] = answers.reasons[i]
        return len(rows)

    def _check(self, index: IntArray, answers: _Answers) -> None:
        """Answers must not contradict each other; what comes after giving up is dropped."""
        old = self.kind[index]
        wrong = (old != _OPEN) & (old != _FAILED) & (old != answers.kind)
        both = (old == answers.kind) & (old != _OPEN)
        wrong |= both & (self.distance[index] != answers.distance) & (old == _DISTANCE)
        for i in np.flatnonzero(both & (old == _SUMMARY)).tolist():
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

    def read(self, problem: Problem, theta: FloatArray, index: IntArray) -> Simulations:
        """The answers to a block, as the problem would have given them."""
        kind = self.kind[index]
        distance = self.distance[index]
        summary = np.full((len(index), *self._shape[1:]), np.nan)
        failures = [
            Failure(i, tuple(self.theta[i].tolist()), self.reasons[i])
            for i in index[kind == _FAILED].tolist()
        ]
        rows = np.flatnonzero(kind == _SUMMARY)
        if len(rows):
            summary[rows] = self._summaries()[index[rows]]
            if not problem.needs_pilot:
                part = Simulations(np.full(len(rows), np.inf), summary[rows])
                part = problem.measured(part, theta[rows], index[rows])
                distance[rows] = part.distance
                failures += part.failures
        return Simulations(distance, summary, tuple(sorted(failures, key=lambda f: f.index)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The book for a file: only the rows that have something to say."""
        number = np.flatnonzero((self.kind != _OPEN) | self.asked)
        kind = self.kind[number]
        rows = number[kind == _SUMMARY]
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
        if (kind > _FAILED).any() or set(number[kind == _FAILED].tolist()) != set(reasons):
            raise ValueError("kinds of answers that do not exist, or have no reason")
        self.kind[number] = kind
        self.asked[number] = np.asarray(arrays["asked"], dtype=bool)
        self.theta[number] = np.asarray(arrays["theta"], dtype=np.float64)
        self.known[number] = True
        self.distance[number] = np.asarray(arrays["distance"], dtype=np.float64)
        rows = number[kind == _SUMMARY]
        if len(rows):
            self._summaries()[rows] = np.asarray(arrays["summary"], dtype=np.float64)
        self.reasons = reasons


class _Waiting(Exception):  # noqa: N818
    """The run waits for an answer."""


class _Desk:
    """An executor that looks answers up in the book."""

    def __init__(self, book: _Book) -> None:
        self.missing: type[BaseException] = _Waiting
        self._book = book
        self._read: dict[tuple[int, bool], Simulations] = {}
        self._awaited: IntArray | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether the block that was waited for is answered."""
        return self._awaited is None or self._book.has(self._awaited)

    def submit(
        self,
        work: Callable[[FloatArray, IntArray], Simulations],
        theta: FloatArray,
        index: IntArray,
        unit: int,  # noqa: ARG002
    ) -> Callable[[], Simulations]:
        """The told answers; raises when they are waited for and are not all there."""
        if not isinstance(work, Discrepancy):
            raise TypeError("a session answers for a problem only")
        problem = work.problem
        self._book.begin(theta, index)

        def wait() -> Simulations:
            self._awaited = index
            if not self._book.has(index):
                raise self.missing
            key = (int(index[0]), problem.needs_pilot)
            if key not in self._read:
                self._read[key] = self._book.read(problem, theta, index)
            return self._read[key]

        return wait


def _another_run() -> StoreError:
    return StoreError(
        "The session holds the answers to other parameters than the run now asks for. The prior, "
        "the constraint, a part or a version must have changed since it was saved."
    )


# Reading what is told ---------------------------------------------------------------------------


def _told_numbers(value: Any, name: str, shape: tuple[int, ...]) -> FloatArray:
    try:
        array = floats(value, f"`{name}`")
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"`{name}` must be real numbers of shape {shape}: {error}.") from None
    if array.shape != shape:
        raise ParameterError(f"`{name}` must have shape {shape}, but got {array.shape}.")
    return array


def _summaries(problem: Problem, data: Any) -> tuple[FloatArray, list[str]]:
    """Summaries (n, ...) of what simulators returned, nan where it cannot be used, and why."""
    summary = problem.model.summary
    shape = problem.shape
    rows = np.full((len(data), *shape), np.nan)
    source = "data told are" if summary is None else "summary of the data told is"
    reasons = [f"{source} nan or inf"] * len(data)
    if problem.vectorized:
        try:
            return summarised(summary, np.asarray(data), rows.shape), reasons
        except CAUGHT:  # find the rows that cannot be used, keep the others
            shape = (1, *shape)
    for i in range(len(data)):
        try:
            piece = np.asarray(data[i : i + 1]) if problem.vectorized else data[i]
            rows[i] = summarised(summary, piece, shape).reshape(problem.shape)
        except CAUGHT as error:
            reasons[i] = described(error)
    return rows, reasons


def _arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    import zipfile
    import zlib

    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise StoreError(f"There is no session at {os.fspath(path)!r}.") from None
    except (ValueError, OSError, EOFError, KeyError, AttributeError, TypeError) as error:
        wrong: Exception = error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, MemoryError) as error:
        wrong = error
    raise StoreError(
        f"{os.fspath(path)!r} is not the file of a session, or is damaged "
        f"({type(wrong).__name__}: {wrong}). Nothing was changed."
    )
