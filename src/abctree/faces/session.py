"""`Session`: ask and tell, for simulations that are made elsewhere.

A run is a function of its settings, its seeds and the answers to its simulations.  So a session
keeps the answers, and nothing else: to find out what to ask next it plays the run again from the
beginning, with the answers that it has, up to the block that waits for one that it has not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abctree import streams
from abctree.answers.result import Result
from abctree.errors import (
    AbctreeError,
    ParameterError,
    SimulatorError,
    StoreError,
    warn,
)
from abctree.faces.session_book import (
    DISTANCE,
    OPEN,
    Answers,
    Ask,
    Book,
    Desk,
    WaitingError,
    another_run,
    told_data,
    told_distances,
    told_summaries,
)
from abctree.faces.session_file import read_arrays, write_arrays
from abctree.keywords import check_keywords, checks_keywords_of_methods
from abctree.methods.run_folder import play
from abctree.numbers import checked_count
from abctree.problem import Problem
from abctree.running.manifest import check_version, manifest_of, spec_of
from abctree.running.settings import names_of
from abctree.running.spec import RunSpec
from abctree.running.stopping import is_hurried
from abctree.running.versions import changes
from abctree.types import Data, FloatArray, IntArray, RNGLike

#: Version of what `Session.save` writes.
_SCHEMA = 1
_SETTINGS = [name for name in names_of("abc_tree") if name != "executor"]


def elsewhere(theta: FloatArray, rng: np.random.Generator) -> NoReturn:  # noqa: ARG001
    """The simulator of a problem whose simulations are made elsewhere; never to be called."""
    raise SimulatorError("The answers come from `Session.tell`, and no simulator is here to call.")


@checks_keywords_of_methods
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
        check_keywords("Session", settings, _SETTINGS)
        given = {**settings, "problem": problem, "n_simulations": n_simulations, "rng": rng}
        spec = RunSpec.of("abc_tree", given)
        _check_spec(spec)
        self._begin(problem, spec, Book(problem, spec.plan.n_simulations))

    def _begin(self, problem: Problem, spec: RunSpec, book: Book) -> None:
        self._problem = problem
        self._spec = spec
        self._book = book
        self._desk = Desk(book)
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

        Raises
        ------
        ParameterError
            If n is no whole number of at least 0.
        """
        if n is not None:
            n = checked_count("n", n, least=0)
        book = self._book
        free = np.flatnonzero((book.kind == OPEN) & book.known & ~book.asked)
        numbers = free[:n] if not self.done else free[:0]
        book.asked[numbers] = True
        return self._ask(numbers)

    def outstanding(self) -> Ask:
        """Simulations that were handed out and are not answered: to be told, made again, or given
        up.  The same number always has the same parameters and seed.
        """  # noqa: D205
        book = self._book
        waiting = book.asked & (book.kind == OPEN)
        return self._ask(np.flatnonzero(waiting & (not self.done)))

    def _ask(self, numbers: IntArray) -> Ask:
        root = self._spec.seeds.root
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
        simulation, and so is one of `data` that is None, or with which the summary raises.

        Parameters
        ----------
        numbers : (n,) int
            As they were asked.  An answer told before may be told again.  One that comes after the
            simulation had failed or was given up is taken in the place of the failure, unless the
            run has gone on with that, its block being whole: then it is dropped.
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
            If a number was never asked, an answer contradicts one told before, has a wrong shape
            or type, or the arguments do not fit together; then none of the answers counts.
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
            answers = told_distances(self._problem, index, distances)
        elif summaries is not None:
            answers = told_summaries(self._problem, index, summaries)
        else:
            answers = told_data(self._problem, index, data)
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
        index = index[self._book.kind[index] == OPEN]
        n_new = self._book.write(index, Answers.failed(len(index), reason, self._problem.shape))
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

    # Playing --------------------------------------------------------------------------------

    def _play(self) -> None:
        """Play the run as far as the answers reach."""
        if self._result is not None or not self._desk.may_go_on:
            return
        try:
            self._result = self._played(WaitingError)
        except WaitingError:
            return

    def _played(self, missing: type[BaseException]) -> Result:
        self._desk.missing = missing
        spec = self._spec
        if (self._book.kind == DISTANCE).any():  # then there are no summaries to keep
            spec = replace(spec, summary_size=0)
        return play(self._problem, spec, self._desk, None, None)

    def result(self) -> Result:
        """The result: of the whole run, or of the blocks that are answered by now.

        Raises
        ------
        ParameterError
            Before the pilot is told.
        """
        if self._result is not None:
            return self._result
        n_pilot = self._spec.plan.n_pilot
        missing = int(np.count_nonzero(self._book.kind[:n_pilot] == OPEN))
        if missing:
            raise ParameterError(
                f"`tell` must have been given the pilot, but {missing} of its {n_pilot} "
                "simulations are not answered. There is nothing to see yet."
            )
        result = self._played(KeyboardInterrupt)  # as if interrupted where the answers end
        budget = self._spec.plan.n_simulations
        reason = f"unfinished: {result.n_simulations} of {budget} simulations told"
        return replace(result, stopped_because=reason)

    # Keeping --------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """All that the session is, as arrays and one text of JSON: what `save` writes."""
        manifest = {
            "session": _SCHEMA,
            "run": manifest_of(self._spec, self._problem),
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
            n_told = int(np.count_nonzero(state["kind"]))
            spec = spec_of(run, problem, parts, n_told)
            for sentence in changes(spec.code, sys.maxsize):
                warn(sentence)
            check_version(run)
            book = Book(problem, spec.plan.n_simulations)
            book.restore(state, reasons)
        except AbctreeError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise StoreError(
                f"The state of the session cannot be read ({type(error).__name__}: {error})."
            ) from error
        session = cls.__new__(cls)
        session._begin(problem, spec, book)
        if not book.begun[book.known].all():
            raise another_run()
        return session

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file, in the place of what it held before.

        It is a .npz of arrays and JSON, without any code.  After a crash the file is either the
        old or the new one.
        """
        write_arrays(path, self.state)

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
        return cls.from_state(read_arrays(path), problem, **parts)


def _check_spec(spec: RunSpec) -> None:
    if spec.on_failure.on_failure == "raise":
        raise ParameterError(
            '`on_failure` must be "reject" in a session, but got "raise". Raise where you make the '
            "simulations."
        )
    for rule in spec.stop:
        if is_hurried(rule):
            raise ParameterError(
                f"`stop` must not look at the clock, which is yours in a session, but got {rule!r}."
            )
