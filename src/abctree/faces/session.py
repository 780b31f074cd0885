"""`Session`: ask and tell, for simulations that are made elsewhere.

A run is a function of its settings, its seeds and the answers to its simulations.  A session is
the run with a ledger that is filled by hand: what it keeps is what a run folder has.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abctree import streams
from abctree.answers.result import Result
from abctree.data import Rows
from abctree.errors import ParameterError, SimulatorError, wrong
from abctree.faces.session_run import Waiting
from abctree.faces.told import (
    GIVEN_UP,
    UNKNOWN,
    Answers,
    Ask,
    Mark,
    asked_of,
    marks_of,
    record_of_asked,
    told,
)
from abctree.keywords import check_keywords, checks_keywords_of_methods
from abctree.method import METHODS
from abctree.methods.run_folder import LOOPS, load, resume
from abctree.numbers import checked_count
from abctree.problem import Problem
from abctree.protocols import Chunk
from abctree.running.journal import Journal, Memory
from abctree.running.ledger import Ledger
from abctree.running.manifest import own_parts
from abctree.running.play import play
from abctree.running.settings import names_of
from abctree.running.spec import RunSpec
from abctree.running.stopping import is_hurried
from abctree.types import Data, FloatArray, IntArray, NamedDict, RNGLike


def elsewhere(theta: FloatArray, rng: np.random.Generator) -> NoReturn:  # noqa: ARG001
    """The simulator of a problem whose simulations are made elsewhere; never to be called."""
    raise SimulatorError("The answers come from `Session.tell`, and no simulator is here to call.")


@checks_keywords_of_methods
class Session:
    """A run whose simulations are made by you: ask for parameters, tell the answers.

    Answers may come in any order and in parts, and some may never come: `give_up` counts them as
    failed.  The result is that of the method with the same seed, settings and distances, bit for
    bit.  It is the answers alone that decide, not when or in which order they were told.

    The run moves on by blocks: the next parameters are known when a block has all of its answers.
    With ``lookahead=1`` or more the blocks after it are handed out before.

    Parameters
    ----------
    problem : Problem
        Prior, observation, summary and distance.  Its simulator is never called: it may be
        `abctree.elsewhere`.
    n_simulations : int
        T, the exact number of simulations, the pilot included.
    method : {"abc_tree", "map_tree", "smc", "rejection"}
        Whose run it is.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness.
    **settings
        As for the method, but for `executor`, `store` and `progress`; of the stopping rules not
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
        self,
        problem: Problem,
        *,
        n_simulations: int,
        method: str = "abc_tree",
        rng: RNGLike = None,
        **settings: Any,
    ) -> None:
        if method not in METHODS:
            raise wrong("method", f"be one of {sorted(METHODS)}", repr(method))
        known = [name for name in names_of(method) if name not in ("executor", "method")]
        check_keywords("Session", settings, [*known, "method"])
        given = {"problem": problem, "n_simulations": n_simulations, "rng": rng, **settings}
        spec = RunSpec.of(method, given)
        _check(spec)
        store = Memory()
        run = partial(play, LOOPS[method], problem, spec, progress=False, path=store)
        self._begin(problem, store, run, own_parts(spec))

    def _begin(
        self, problem: Problem, store: Memory, run: Callable[[Waiting], Result], parts: NamedDict
    ) -> None:
        self._problem, self._store, self._parts = problem, store, parts
        self._asked = asked_of(store)
        self._marks: dict[int, Mark] = dict(marks_of(store))
        self._run = Waiting(run)
        weakref.finalize(self, self._run.forget)
        self._run.tell()
        manifest = Ledger(Memory(self._store.records())).manifest or {}
        self._root = int(manifest["seeds"]["root"])

    def __repr__(self) -> str:
        return f"Session({self._problem!r}; {self.n_told} simulations told)"

    # Asking ---------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the run is over: its budget spent, or stopped for a reason."""
        return self._run.result is not None

    @property
    def n_told(self) -> int:
        """Simulations that are answered or given up."""
        return len(self._marks)

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

        Raises
        ------
        ParameterError
            If n is no whole number of at least 0.
        """
        if n is not None:
            n = checked_count("n", n, least=0)
        numbers: list[int] = []
        fresh = self._run.fresh
        while fresh and not self.done and (n is None or len(numbers) < n):
            number = fresh.popleft()
            if number not in self._asked and number not in self._marks:
                numbers.append(number)
        if numbers:
            self._asked.update(numbers)
            self._store.append(*record_of_asked(numbers), flush=False)
        return self._ask(numbers)

    def outstanding(self) -> Ask:
        """Simulations that were handed out and are not answered: to be told, made again, or given
        up.  The same number always has the same parameters and seed.
        """  # noqa: D205
        waiting = self._asked & self._run.wanted.keys() - self._marks.keys()
        return self._ask([] if self.done else sorted(waiting))

    def _ask(self, numbers: list[int]) -> Ask:
        index = np.array(numbers, dtype=np.int64)
        theta = [self._run.wanted[number].theta for number in numbers]
        columns = np.array(theta).reshape(len(numbers), len(self._problem.names))
        seeds = streams.seeds(self._root, index)
        return Ask(index, columns, seeds, self._problem.names, self._root)

    # Telling --------------------------------------------------------------------------------

    def tell(
        self,
        numbers: ArrayLike,
        *,
        data: Sequence[Data] | NDArray[Any] | None = None,
        summaries: ArrayLike | None = None,
        distances: ArrayLike | None = None,
    ) -> int:
        """The answers to some simulations, in the order of `numbers`.

        Exactly one of the three must be given.  An answer that is nan or inf is a failed
        simulation, and so is one of `data` that is None, or with which the summary raises.

        Parameters
        ----------
        numbers : (n,) int
            As they were asked.  An answer told before may be told again.  One that comes after the
            simulation had failed or was given up is taken in the place of the failure, unless the
            run has gone on with that, its block being whole: then it is dropped.
        data : sequence of n
            What the simulator would return, one item for each, or, for a vectorised problem,
            (n, ...); the problem's summary and distance are applied.
        summaries : (n, ...) float
            Summaries; the problem's distance measures them.
        distances : (n,) float
            At least 0.  Not with a distance that takes its scale from the pilot.

        Returns
        -------
        int
            How many of the answers are new.

        Raises
        ------
        ParameterError
            If a number was never asked, an answer contradicts one told before, has a wrong shape
            or type, or the arguments do not fit together; then none of the answers counts.
        SimulatorError
            If the whole pilot failed: the run cannot go on.
        """
        index = self._numbers(numbers)
        return self._take(index, told(self._problem, index, distances, summaries, data))

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
        index = index[[number not in self._marks for number in index.tolist()]]
        return self._take(index, Answers.failed(len(index), reason, self._problem.shape))

    def _numbers(self, numbers: ArrayLike) -> IntArray:
        array = np.atleast_1d(np.asarray(numbers))
        if array.size == 0:
            return np.empty(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise wrong("numbers", "be whole numbers (n,)", f"{array.dtype} of shape {array.shape}")
        for number in array.tolist():
            if number not in self._run.wanted and number not in self._marks:
                raise ParameterError(f"`numbers` must have been asked, but {number} has not been.")
        if len(np.unique(array)) < len(array):
            raise ParameterError("`numbers` must be different from each other.")
        return array.astype(np.int64)

    def _take(self, index: IntArray, answers: Answers) -> int:
        """Take answers; the number of new ones, those in the place of a failure included."""
        marks = [answers.mark(i) for i in range(len(index))]
        pairs = zip(index.tolist(), marks, strict=True)
        chosen = np.flatnonzero([self._is_new(number, mark) for number, mark in pairs])
        chosen = chosen[np.argsort(index[chosen], kind="stable")]
        self._marks.update((int(index[i]), marks[i]) for i in chosen.tolist())
        self._run.tell(*self._chunks(index[chosen], answers.take(chosen)))
        return len(chosen)

    def _is_new(self, number: int, mark: Mark) -> bool:
        """Answers must not contradict each other, but one may come after a failure."""
        old = self._marks.get(number)
        if old is None:
            return True
        if old in (mark, UNKNOWN):
            return False
        if old == GIVEN_UP:
            return number in self._run.wanted  # else the run has gone on with the failure
        raise ParameterError(
            f"`tell` must not change an answer, but that of simulation {number} is another than "
            "the one told before."
        )

    def _chunks(self, index: IntArray, answers: Answers) -> Iterator[Chunk]:
        """Answers as the problem would have given them, for each block alone."""
        wanted = [self._run.wanted[number] for number in index.tolist()]
        blocks = np.array([each.block for each in wanted], dtype=np.int64)
        for block in np.unique(blocks):
            places = np.flatnonzero(blocks == block)
            rows = Rows(np.array([wanted[i].theta for i in places]), index[places])
            work = wanted[places[0]].work
            yield rows, answers.take(places).simulations(work.measurement, rows)

    # Results and keeping ----------------------------------------------------------------------

    def result(self) -> Result:
        """The result: of the whole run, or of the blocks that are answered by now.

        Raises
        ------
        ParameterError
            Before the first simulations of the pilot are told.
        """
        if self._run.result is not None:
            return self._run.result
        store = Memory(self._store.records())
        if Ledger(store).n_simulations == 0:
            raise ParameterError(
                "`tell` must have been given the first simulations of the pilot, but "
                f"{len(self._run.wanted)} are asked for and not all of them are answered. There is "
                "nothing to see yet."
            )
        return load(store, self._problem, **self._parts)

    @property
    def state(self) -> bytes:
        """All that the session is: what `save` writes."""
        return bytes(self._store)

    @classmethod
    def from_state(cls, state: bytes, problem: Problem, **parts: Any) -> Session:
        """A session as it was; see `load`."""
        return cls._of(Memory.of(state), problem, parts)

    def __reduce__(self) -> tuple[Callable[..., Session], tuple[bytes, Problem]]:
        """Pickles, and copies, are of the state and the problem."""
        return partial(type(self).from_state, **self._parts), (self.state, self._problem)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a run folder, in the place of what it held before.

        `abctree.load`, `abctree.resume` and the command line read it as that of any run.  After a
        crash the folder holds either the old or the new session.
        """
        self._store.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], problem: Problem, **parts: Any) -> Session:
        """A session from its folder, or from that of any run.

        Simulations that were handed out remain so: see `outstanding`.

        Parameters
        ----------
        path : path
            What was given to `save`.
        problem : Problem
            The problem of the session: code is not kept in the folder.
        **parts
            Partitioner, utility, schedule, beliefs, policy, kernel or stop of your own, under the
            name that the session was given it.  Those of abctree need not be given.

        Raises
        ------
        ParameterError
            If the problem or a part is not that of the session.
        StoreError
            If the folder holds no run, is damaged, foreign or newer.

        Warns
        -----
        AbctreeWarning
            If code has changed since the session began.
        """
        return cls._of(Memory(Journal(path, "read").records()), problem, parts)

    @classmethod
    def _of(cls, store: Memory, problem: Problem, parts: NamedDict) -> Session:
        Ledger.read(store)  # raises if it is none
        session = cls.__new__(cls)
        to_read = {name: part for name, part in parts.items() if name != "stop"}
        session._begin(
            problem,
            store,
            lambda run: resume(store, problem, executor=run, progress=False, **parts),
            to_read,
        )
        return session


def _check(spec: RunSpec) -> None:
    if spec.summaries_in_store:
        raise wrong("keep_summaries", "be True or False in a session", '"store"')
    hurried = [rule for rule in spec.stop if is_hurried(rule)]
    if spec.on_failure.on_failure == "raise":
        raise ParameterError(
            '`on_failure` must be "reject" in a session, but got "raise". Raise where you make the '
            "simulations."
        )
    if hurried:
        raise wrong("stop", "not look at the clock, which is yours in a session", repr(hurried[0]))
