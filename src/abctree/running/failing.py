"""`Failing`: what a run does about simulations that fail: it counts them, tells, or ends."""

from __future__ import annotations

from collections.abc import Sequence

from abctree.answers.diagnostics import HOPELESS
from abctree.answers.failures import Case, FailedSimulationError, Failures, Streak, written_theta
from abctree.data import Failure, Simulations
from abctree.errors import SimulatorError
from abctree.problem import Problem
from abctree.problem.measurement import NegativeDistanceError
from abctree.running.journal import START_ANEW
from abctree.running.ledger import Ledger
from abctree.running.progress import log_failures
from abctree.running.settings import names_of
from abctree.running.spec import RunSpec
from abctree.types import FloatArray, IntArray


class Failing:
    """The failures of a run.  One that is only read does not end by them again."""

    def __init__(
        self, problem: Problem, spec: RunSpec, failures: Failures, ledger: Ledger, *, is_read: bool
    ) -> None:
        self._names, self._unit, self._spec = problem.names, problem.unit, spec
        self._failures, self._ledger, self._is_read = failures, ledger, is_read
        self._n = 0  # simulations that have come back
        self._streak = Streak(spec.on_failure)

    def look_at(self, done: Simulations, theta: FloatArray, index: IntArray) -> None:
        """Look at a block that has come back, theta (n, p) and numbers (n,)."""
        self._n += len(index)
        self._streak.add(len(index), len(done.failures))
        if done.failures:
            self.count(done.failures, theta, index)

    def count(self, failures: Sequence[Failure], theta: FloatArray, index: IntArray) -> None:
        """Count failures of a block; end the run at a negative distance, or at any."""
        if not failures:
            return
        if not self._is_read:
            log_failures(failures, self._failures.reasons)
        self._failures.add(failures, theta, index)
        self._refuse_negative(failures)
        if self._spec.on_failure.on_failure == "raise":
            case = Case.of(failures[0], theta, index, self._unit, self._spec.seeds.root)
            raise FailedSimulationError(case, self._names)

    def _refuse_negative(self, failures: Sequence[Failure]) -> None:
        """End the run at a negative distance: counted as a failure, the nearest would be lost."""
        if self._is_read:
            return  # a run that ended by it can still be looked at
        reason = NegativeDistanceError.REASON
        found = next((f for f in failures if f.reason.startswith(reason)), None)
        if found is not None:
            raise SimulatorError(
                f"{found.reason.removeprefix(reason)} This was simulation {found.index}, at "
                f"{written_theta(self._names, found.theta)}."
            )

    @property
    def hopeless(self) -> str | None:
        """That practically all of the last blocks failed, in words."""
        if not self._failures.count or not self._streak.is_hopeless:
            return None
        count, first = self._failures.count, self._failures.first[0].reason
        return f"{count} of {self._n} {HOPELESS} {first}"

    # Of the pilot ---------------------------------------------------------------------------

    def forget_pilot(self) -> None:
        """Let what the pilot found to work be played, however much of it failed."""
        self._streak = Streak(self._spec.on_failure)

    def refuse_pilot(self, error: SimulatorError) -> None:
        """Say with an error what went wrong first, and what the store has of a pilot."""
        self.refuse_if_all(error)
        if self._kept and not isinstance(error, FailedSimulationError):
            raise SimulatorError(f"{error}{self._kept}") from error

    def refuse_if_all(self, error: SimulatorError | None = None) -> None:
        """Say what went wrong first when the whole pilot failed."""
        n = self._n
        if isinstance(error, FailedSimulationError) or not 0 < n == self._failures.count:
            return
        first = self._failures.first[0]
        can_grow = "n_pilot" in names_of(self._spec.method)
        larger = "; if it works in a small part of the prior only, give a larger n_pilot="
        if error is not None and first.reason.partition(": ")[2].rstrip(".") in str(error):
            return
        raise SimulatorError(
            f"All {n} pilot simulations failed; number {first.index}, at "
            f"{written_theta(self._names, first.theta)}: {first.reason.rstrip('.')}. "
            f"Run `problem.check()` to see what the simulator returns{larger if can_grow else ''}."
            + self._kept
            + (f"\n{first.traceback}" if first.traceback else "")
        ) from error

    @property
    def _kept(self) -> str:
        """What a store has of a pilot that failed, and how to start anew."""
        ledger = self._ledger
        if ledger.store is None or ledger.n_simulations == 0:
            return ""
        all_failed = self._failures.count == self._n
        what = "failures only" if all_failed else "the simulations of this pilot"
        return f" {ledger.store!r} holds {what}. {START_ANEW}"
