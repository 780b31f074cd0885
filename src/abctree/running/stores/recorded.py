"""`Recorded`: an executor that asks no simulation twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abctree.data import Simulations
from abctree.errors import StoreError, warn
from abctree.protocols import Executor, NotingExecutor, NotingStore, Store
from abctree.running.stores.notebook import Draft, Notebook, Page, without_summaries
from abctree.running.stores.packing import checksum
from abctree.types import FloatArray, IntArray


class Recorded:
    """Answers from a store what is in it, and has the rest done and kept.

    A run is a function of its settings, its seeds and these answers.  So the same run, begun again
    with the store of one that was killed, is the run that was not killed.

    Where store and executor can, answers are also kept before their block is whole, within about a
    second: of a block that was begun before, only what is missing is done.

    Parameters
    ----------
    store : Store
        Where answers are looked up and kept.
    executor : Executor or None
        Who does what is not in the store; None where a run is only read: it ends there, as if it
        were interrupted.
    n_summaries : int
        Summaries of the simulations before this one are kept, later ones are not: the pilot's if
        the distance learns from them, all if the table has them.

    Attributes
    ----------
    needed : callable
        What of an answer is kept; the run must be the same if it is given this instead.  All of it
        unless a run says otherwise.
    """

    def __init__(self, store: Store, executor: Executor | None, n_summaries: int) -> None:
        self.store = store
        self._executor = executor
        self._n_summaries = n_summaries
        self.needed: Callable[[Simulations], Simulations] = lambda answer: answer
        self._notebook = Notebook(store) if isinstance(store, NotingStore) else None
        self._held: tuple[int, int, Simulations] | None = None

    @property
    def only_reads(self) -> bool:
        """Whether nothing is simulated that is not in the store."""
        return self._executor is None

    def submit(
        self,
        work: Callable[[FloatArray, IntArray], Simulations],
        theta: FloatArray,
        index: IntArray,
        unit: int,
    ) -> Callable[[], Simulations]:
        """The stored answer, or one that is on the disk before it is given.

        The first block is an exception: the pilot looks at it and may end the run, which then has
        nothing worth keeping.  It is kept when the next block is begun.

        Raises
        ------
        StoreError
            If the store has answers to other parameters.
        """
        self._settle()
        first, check = int(index[0]), checksum(theta)
        found = self.store.find(first)
        if found is not None:
            self._check(found, first, len(index), check)
            return lambda: found[1]
        if first < self.store.n_simulations:
            raise self._another_run(first)
        wait = self._begun(work, theta, index, unit, check)
        return lambda: self._kept(first, check, self._waited(wait))

    def flush(self) -> None:
        """Keep the first block, if it is still held back, and all that is finished."""
        self._settle()
        if self._notebook is not None:
            self._notebook.write()

    def _settle(self) -> None:
        if self._held is not None:
            self._append(*self._held)
            self._held = None

    def drop_first(self) -> None:
        """Forget the first block, if it is still held back: the run is not worth keeping."""
        if self._held is not None and self._notebook is not None:
            self._notebook.clear()
        self._held = None

    def _begun(
        self,
        work: Callable[[FloatArray, IntArray], Simulations],
        theta: FloatArray,
        index: IntArray,
        unit: int,
        check: int,
    ) -> Callable[[], Simulations]:
        """Begin what the store has not of a block that it has not as a whole."""
        if self._executor is None:
            return _interrupted
        if self._notebook is None:
            return self._executor.submit(work, theta, index, unit)
        first = int(index[0])
        draft = self._draft(self._notebook, first, len(index), check)
        rows, keeps = draft.missing, self._keeps_summaries(first)
        if not len(rows):
            return lambda: draft.completed(rows, None)
        page = Page(self._notebook, first, check, unit, rows, keeps)
        wait = _submitted(self._executor, work, theta[rows], index[rows], unit, page)
        if not draft.parts:
            return wait

        def completed() -> Simulations:
            done = wait()
            return draft.completed(rows, done if keeps else without_summaries(done))

        return completed

    def _draft(self, notebook: Notebook, first: int, n: int, check: int) -> Draft:
        """What the store has of a block."""
        noted = notebook.noted(first)
        if all(c == check and rows.max() < n for c, rows, _ in noted):
            return Draft(n, tuple((rows, done) for _, rows, done in noted))
        warn(
            f"Some simulations of {self.store!r}, from number {first} on, were finished before "
            "the run was cut off, but with other parameters than it has now, perhaps by another "
            "version. They are made again.",
        )
        return Draft(n, ())

    def _waited(self, wait: Callable[[], Simulations]) -> Simulations:
        """The answer; what is finished of it is kept if it does not come."""
        try:
            return wait()
        except BaseException as error:
            if self._notebook is not None:
                if isinstance(error, KeyboardInterrupt):
                    self._notebook.interrupted()
                self._notebook.write()
            raise

    def _keeps_summaries(self, first: int) -> bool:
        return first < self._n_summaries

    def _append(self, first: int, check: int, answer: Simulations) -> None:
        self.store.append(first, check, answer)
        if self._notebook is not None:
            self._notebook.forget(first)

    def _kept(self, first: int, check: int, answer: Simulations) -> Simulations:
        """What is kept of an answer: no more is given, so that a run sees what a later one will."""
        answer = self.needed(answer)
        if not self._keeps_summaries(first):
            answer = without_summaries(answer)
        self._settle()
        if first == 0:
            self._held = (first, check, answer)
        else:
            self._append(first, check, answer)
        return answer

    def _check(self, found: tuple[int, Simulations], first: int, n: int, check: int) -> None:
        if found[0] != check or len(found[1].distance) != n:
            raise self._another_run(first)

    def _another_run(self, first: int) -> StoreError:
        manifest: Any = self.store.manifest or {}
        return StoreError(
            f"{self.store!r} holds another run: from simulation {first} on it was asked for other "
            "parameters than now. The prior, the constraint, a part or a version must have changed "
            f"since (it was begun with {_listed(manifest.get('versions'))}). Nothing was changed. "
            "Go on with what it was begun with, or start again in a new folder."
        )


def _submitted(
    executor: Executor,
    work: Callable[[FloatArray, IntArray], Simulations],
    theta: FloatArray,
    index: IntArray,
    unit: int,
    page: Page,
) -> Callable[[], Simulations]:
    """Begin some rows of a block, with notes if the executor takes some."""
    if isinstance(executor, NotingExecutor):
        return executor.submit_noted(work, theta, index, unit, page)
    return executor.submit(work, theta, index, unit)


def _interrupted() -> Simulations:
    """The answer of nobody."""
    raise KeyboardInterrupt


def _listed(versions: Any) -> str:
    if not isinstance(versions, dict) or not versions:
        return "unknown versions"
    return ", ".join(f"{name} {version}" for name, version in versions.items())
