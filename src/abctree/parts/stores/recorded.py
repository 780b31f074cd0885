"""`Recorded`: an executor that asks no simulation twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abctree.data import Simulations
from abctree.errors import StoreError
from abctree.parts.stores.packing import checksum
from abctree.protocols import Executor, Store
from abctree.types import FloatArray, IntArray


class Recorded:
    """Answers from a store what is in it, and has the rest done and kept.

    A run is a function of its settings, its seeds and these answers.  So the same run, begun again
    with the store of one that was killed, is the run that was not killed.

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
        self._store = store
        self._executor = executor
        self._n_summaries = n_summaries
        self.needed: Callable[[Simulations], Simulations] = lambda answer: answer
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
        self.flush()
        first, check = int(index[0]), checksum(theta)
        found = self._store.find(first)
        if found is not None:
            self._check(found, first, len(index), check)
            return lambda: found[1]
        if first < self._store.n_simulations:
            raise self._another_run(first)
        wait = None if self._executor is None else self._executor.submit(work, theta, index, unit)

        def kept() -> Simulations:
            if wait is None:
                raise KeyboardInterrupt
            return self._kept(first, check, wait())

        return kept

    def flush(self) -> None:
        """Keep the first block, if it is still held back."""
        if self._held is not None:
            self._store.append(*self._held)
            self._held = None

    def _kept(self, first: int, check: int, answer: Simulations) -> Simulations:
        """What is kept of an answer: no more is given, so that a run sees what a later one will."""
        n, answer = len(answer.distance), self.needed(answer)
        if first >= self._n_summaries:
            answer = Simulations(
                answer.distance, answer.summary.reshape(n, -1)[:, :0], answer.failures
            )
        self.flush()
        if first == 0:
            self._held = (first, check, answer)
        else:
            self._store.append(first, check, answer)
        return answer

    def _check(self, found: tuple[int, Simulations], first: int, n: int, check: int) -> None:
        if found[0] != check or len(found[1].distance) != n:
            raise self._another_run(first)

    def _another_run(self, first: int) -> StoreError:
        manifest: Any = self._store.manifest or {}
        return StoreError(
            f"{self._store!r} holds another run: from simulation {first} on it was asked for other "
            "parameters than now. The prior, the constraint, a part or a version must have changed "
            f"since (it was begun with {_listed(manifest.get('versions'))}). Nothing was changed. "
            "Go on with what it was begun with, or start again in a new folder."
        )


def _listed(versions: Any) -> str:
    if not isinstance(versions, dict) or not versions:
        return "unknown versions"
    return ", ".join(f"{name} {version}" for name, version in versions.items())
