"""`Runner`: what every sequential method does around its algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from abctree.algorithms.outer_loop import Game, outer_loop
from abctree.algorithms.pilot import Pilot, run_pilot
from abctree.analysis.result import Failures, Result
from abctree.data import Arms, Boxes, Mixture, Progress, Round, Simulations, Table
from abctree.methods.settings import Settings
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
    ) -> None:
        self.root = seeds.root
        self.rng = np.random.default_rng(seeds.algorithm)
        self.problem = problem
        self.settings = settings
        self.table = table
        self.executor = executor
        self.failures = Failures()
        self.rounds: list[Round] = []
        self.began = time.monotonic()

    def to_the_end(
        self,
        rules: tuple[StoppingRule, ...],
        watch: Callable[[Progress], None] | None,
    ) -> Result:
        """Play until the budget is spent or a rule says stop."""
        plan = self.settings.plan
        pilot = run_pilot(
            self.problem, self.table, self.executor, plan.n_pilot, plan.n_folds, self.root, self.rng
        )
        self.problem = pilot.problem
        self.failures.add(pilot.simulations.failures)
        mixtures = tuple(Mixture(float(n), ()) for n in pilot.n_drawn)
        self.rounds.append(self._round_zero(pilot, mixtures))
        hurried = [rule for rule in rules if getattr(rule, "every_block", False)]
        reason: str | None = None
        game = Game(
            self.problem, self.table, plan, self.settings.rules, self.simulate, self.rng,
            stop=lambda: self._reason(hurried, self._now()) is not None,
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
            stopped_because=reason or self._reason(hurried, self._now()) or self._budget(),
            seconds=time.monotonic() - self.began,
            root=self.root,
            default_weights=self.settings.weights,
        )

    def simulate(self, theta: FloatArray, index: IntArray) -> Callable[[], Simulations]:
        """Begin a block; failures are noted when it comes back."""
        work = Discrepancy(self.problem, self.root)
        wait = self.executor.submit(work, theta, index, self.problem.unit)

        def noted() -> Simulations:
            result = wait()
            self.failures.add(result.failures)
            return result

        return noted

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
