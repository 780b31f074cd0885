"""`Runner`: what every sequential method does around its algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from abctree.algorithms.outer_loop import Game, outer_loop
from abctree.algorithms.pilot import Pilot, run_pilot
from abctree.analysis.failures import Failures
from abctree.analysis.result import Result
from abctree.data import Arms, Boxes, Failure, Mixture, Progress, Round, Simulations, Table
from abctree.errors import SimulatorError
from abctree.methods.settings import Settings
from abctree.parts.executors.policy import (
    Case,
    FailedSimulationError,
    FailurePolicy,
    Streak,
    Watched,
    named,
)
from abctree.problem import Discrepancy, Problem
from abctree.protocols import Executor, StoppingRule
from abctree.types import FloatArray, IntArray, RNGLike


@dataclass(frozen=True)
class Seeds:
    """Where all randomness of a run comes from; with the settings, they are the run."""

    root: int  #: 64-bit seed of the streams of the simulations
    algorithm: tuple[int, ...]  #: entropy of the generator that the algorithm draws from

    @classmethod
    def of(cls, rng: RNGLike) -> Seeds:
        """Seeds from a source of randomness as in SPEC 7; a Generator moves on."""
        source = np.random.default_rng(rng)
        root = int(source.integers(2**64, dtype=np.uint64))
        return cls(root, tuple(source.integers(2**63, size=4).tolist()))


class Runner:
    """One run: the pilot, then rounds, watched by stopping rules and a progress callback."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        table: Table,
        executor: Executor,
        seeds: Seeds,
        policy: FailurePolicy | None = None,
    ) -> None:
        self.root = seeds.root
        self.rng = np.random.default_rng(seeds.algorithm)
        self.problem = problem
        self.settings = settings
        self.table = table
        self.executor = executor
        self._watched = Watched(executor, self._look_at)
        self.policy = policy or FailurePolicy()
        self.streak = Streak(self.policy)
        self.rounds: list[Round] = []
        self.failures = Failures(table, self.rounds, self.root, problem.unit)
        self.began = time.monotonic()

    def to_the_end(
        self,
        rules: tuple[StoppingRule, ...],
        watch: Callable[[Progress], None] | None,
    ) -> Result:
        """Play until the budget is spent or a rule says stop."""
        plan = self.settings.plan
        pilot = self._pilot()
        self.problem = pilot.problem
        mixtures = tuple(Mixture(float(n), ()) for n in pilot.n_drawn)
        self.rounds.append(self._round_zero(pilot, mixtures))
        hurried = [rule for rule in rules if getattr(rule, "every_block", False)]
        reason: str | None = None
        game = Game(
            self.problem, self.table, plan, self.settings.rules, self.simulate, self.rng,
            stop=lambda: self._hurry(hurried) is not None,
        )  # fmt: skip
        for played in outer_loop(game, mixtures):
            self.rounds.append(played)
            now = self._now()
            if watch is not None:
                watch(now)
            reason = "interrupted" if played.interrupted else self._reason(rules, now)
            if reason is not None:
                break
        return Result(
            problem=self.problem,
            table=self.table,
            rounds=tuple(self.rounds),
            plan=plan,
            failures=self.failures,
            stopped_because=reason or self._end(hurried),
            seconds=time.monotonic() - self.began,
            root=self.root,
            default_weights=self.settings.weights,
        )

    def simulate(self, theta: FloatArray, index: IntArray) -> Callable[[], Simulations]:
        """Begin a block."""
        work = Discrepancy(self.problem, self.root)
        return self._watched.submit(work, theta, index, self.problem.unit)

    def _pilot(self) -> Pilot:
        """Round 0, with the failures of a distance that it scales."""
        plan = self.settings.plan
        calls: list[IntArray] = []
        watched = Watched(self._watched, lambda _, __, index: calls.append(index))
        try:
            pilot = run_pilot(
                self.problem, self.table, watched, plan.n_pilot, plan.n_folds, self.root, self.rng
            )
        except SimulatorError as error:
            self._explain(error, sum(map(len, calls)))
            raise
        late = pilot.simulations.failures[self.failures.count :]
        for index in calls:
            rows = [f for f in late if index[0] <= f.index <= index[-1]]
            self._count(rows, self.table.theta[index], index)
        self._explain(None, plan.n_pilot)
        self.streak = Streak(self.policy)
        return pilot

    def _explain(self, error: SimulatorError | None, n: int) -> None:
        """Say what went wrong first when the whole pilot failed."""
        if isinstance(error, FailedSimulationError) or not 0 < n == self.failures.count:
            return
        first = self.failures.first[0]
        if error is not None and first.reason.partition(": ")[2].rstrip(".") in str(error):
            return
        raise SimulatorError(
            f"All {n} pilot simulations failed; number {first.index}, at "
            f"{named(self.problem.names, first.theta)}: {first.reason}. "
            "Run `problem.check()` to see what the simulator returns."
            + (f"\n{first.traceback}" if first.traceback else "")
        ) from error

    def _look_at(self, done: Simulations, theta: FloatArray, index: IntArray) -> None:
        """Note the failures of a block that has come back."""
        self.streak.add(len(index), len(done.failures))
        self._count(done.failures, theta, index)

    def _count(self, failures: Sequence[Failure], theta: FloatArray, index: IntArray) -> None:
        self.failures.add(failures, theta, index)
        if failures and self.policy.on_failure == "raise":
            case = Case.of(failures[0], theta, index, self.problem.unit, self.root)
            raise FailedSimulationError(case, self.problem.names)

    def _round_zero(self, pilot: Pilot, mixtures: tuple[Mixture, ...]) -> Round:
        whole = pilot.problem.measure(Boxes.whole(pilot.problem.d))
        n = len(self.table)
        arms = Arms(np.ones(1), np.ones(1))
        return Round(
            index=0,
            epsilon=float("inf"),
            partitions=(whole,) * len(mixtures),
            arms=(arms,) * len(mixtures),
            mixtures=mixtures,
            first=0,
            last=n,
            n_accepted=int(np.isfinite(self.table.distance).sum()),
            ess=float(n),
            rng_state=dict(self.rng.bit_generator.state),
        )

    def _hurry(self, rules: Iterable[StoppingRule]) -> str | None:
        """Why not even to finish the round, or None."""
        if self.streak.is_hopeless:
            first = self.failures.first[0].reason
            return (
                f"{self.failures.count} of {len(self.table)} simulations failed; the first: {first}"
            )
        return self._reason(rules, self._now())

    def _end(self, hurried: Iterable[StoppingRule]) -> str:
        if len(self.table) >= self.settings.plan.n_simulations:
            return self._reason(hurried, self._now()) or self._budget()
        return self._hurry(hurried) or self._budget()

    def _budget(self) -> str:
        plan = self.settings.plan
        if len(self.table) >= plan.n_simulations:
            return f"budget of {plan.n_simulations} simulations spent"
        return f"{plan.max_rounds} rounds played"

    @staticmethod
    def _reason(rules: Iterable[StoppingRule], progress: Progress) -> str | None:
        return next((r for r in (rule.reason(progress) for rule in rules) if r), None)

    def _now(self) -> Progress:
        return Progress(
            n_simulations=len(self.table),
            budget=self.settings.plan.n_simulations,
            round=self.rounds[-1].index,
            epsilon=self.rounds[-1].epsilon,
            acceptance_rate=self.rounds[-1].acceptance_rate,
            ess=self.rounds[-1].ess,
            n_failures=self.failures.count,
            seconds=time.monotonic() - self.began,
        )
