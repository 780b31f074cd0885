"""`Watch`: the clock, the failures and the stopping rules of a run without folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from abctree.algorithms.pilot import Pilot, run_pilot
from abctree.analysis.failures import Failures
from abctree.data import Failure, Progress, Round, Simulations, Table
from abctree.errors import ParameterError
from abctree.methods.runner import Seeds
from abctree.parts.executors.policy import (
    Case,
    FailedSimulationError,
    FailurePolicy,
    Streak,
    Watched,
)
from abctree.parts.stopping import as_stopping_rules
from abctree.problem import Discrepancy, Problem
from abctree.protocols import Executor, StoppingRule
from abctree.types import FloatArray, IntArray

StopLike = StoppingRule | Iterable[StoppingRule] | Mapping[str, float] | None

#: Summaries with more numbers than this are not kept in the table unless asked for.
_KEEP_UP_TO = 64


def summary_size(problem: Problem, *, keep: bool | None) -> int:
    """Columns of the table's summaries; 0 for none."""
    size = int(np.prod(problem.shape))
    return size if keep or (keep is None and size <= _KEEP_UP_TO) else 0


def checked_problem(problem: object) -> None:
    """Raise `ParameterError` unless it is a `Problem`."""
    if not isinstance(problem, Problem):
        raise ParameterError(f"`problem` must be an abctree.Problem, but got {problem!r}.")


def checked_count(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`."""
    number = value if isinstance(value, int | float | np.integer) else np.nan
    if isinstance(value, bool) or not (float(number).is_integer() and number >= least):
        raise ParameterError(
            f"`{name}` must be a whole number of at least {least}, but got {value!r}."
        )
    return int(number)


class Watch:
    """What surrounds an algorithm: it simulates through this, and asks it whether to stop.

    Parameters
    ----------
    problem : Problem
        As given; `problem` is replaced by the one that the pilot fitted.
    table : Table
        The run's table.
    executor : Executor
        Who simulates.
    seeds : Seeds
        Of the run.
    policy : FailurePolicy
        What failures mean.
    stop : StoppingRule, several, or dict
        As users give it.
    budget : int
        Simulations to be made in all.
    """

    def __init__(
        self,
        problem: Problem,
        table: Table,
        executor: Executor,
        seeds: Seeds,
        policy: FailurePolicy,
        stop: StopLike,
        budget: int,
    ) -> None:
        self.problem = problem
        self.table = table
        self.root = seeds.root
        self.rng = np.random.default_rng(seeds.algorithm)
        self.rounds: list[Round] = []
        self.failures = Failures(table, self.rounds, seeds.root, problem.unit)
        self.rules = as_stopping_rules(stop)
        self.hurried = [r for r in self.rules if getattr(r, "every_block", False)]
        self.n_simulations = 0  #: that have come back
        self._began = time.monotonic()
        self._executor = Watched(executor, self._look_at)
        self._policy = policy
        self._streak = Streak(policy)
        self._last = Progress(0, budget, 0, float("inf"), 0.0, 0.0, 0, 0.0)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._began

    def simulate(self, theta: FloatArray, index: IntArray) -> Callable[[], Simulations]:
        """Begin a block."""
        work = Discrepancy(self.problem, self.root)
        return self._executor.submit(work, theta, index, self.problem.unit)

    def pilot(self, n: int, table: Table) -> Pilot:
        """Prior draws into a table, with the failures of a distance that they scale."""
        pilot = run_pilot(self.problem, table, self._executor, n, 1, self.root, self.rng)
        self.problem = pilot.problem
        late = pilot.simulations.failures[self.failures.count :]
        self._count(late, table.theta, np.arange(n))
        self._streak = Streak(self._policy)
        return pilot

    def now(self) -> Progress:
        """Progress, with what was last told of the round."""
        return replace(
            self._last,
            n_simulations=self.n_simulations,
            n_failures=self.failures.count,
            seconds=self.seconds,
        )

    def played(self, s: int, epsilon: float, acceptance_rate: float, ess: float) -> Progress:
        """Progress after a round, or within one."""
        self._last = replace(
            self._last, round=s, epsilon=epsilon, acceptance_rate=acceptance_rate, ess=ess
        )
        return self.now()

    def hurry(self) -> str | None:
        """Why not even to finish the round, or None."""
        if self._streak.is_hopeless:
            first = self.failures.first[0].reason
            return (
                f"{self.failures.count} of {self.n_simulations} simulations failed; "
                f"the first: {first}"
            )
        return self.reason(self.hurried, self.now())

    @staticmethod
    def reason(rules: Sequence[StoppingRule], progress: Progress) -> str | None:
        """The first reason to stop, or None."""
        return next((r for r in (rule.reason(progress) for rule in rules) if r), None)

    def _look_at(self, done: Simulations, theta: FloatArray, index: IntArray) -> None:
        self.n_simulations += len(index)
        self._streak.add(len(index), len(done.failures))
        self._count(done.failures, theta, index)

    def _count(self, failures: Sequence[Failure], theta: FloatArray, index: IntArray) -> None:
        self.failures.add(failures, theta, index)
        if failures and self._policy.on_failure == "raise":
            case = Case.of(failures[0], theta, index, self.problem.unit, self.root)
            raise FailedSimulationError(case, self.problem.names)
