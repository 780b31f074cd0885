"""`abc_tree`: a posterior from a prior and a simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from abctree.algorithms.outer_loop import Game, outer_loop
from abctree.algorithms.pilot import Pilot, run_pilot
from abctree.analysis.result import Failures, Result
from abctree.data import Arms, Boxes, Mixture, Progress, Round, Simulations, Table
from abctree.errors import ParameterError
from abctree.methods.settings import (
    PartitionerLike,
    ScheduleLike,
    Settings,
    UtilityLike,
    resolve,
)
from abctree.parts.executors import Serial
from abctree.parts.stopping import as_stopping_rules
from abctree.problem import Discrepancy, Problem
from abctree.protocols import BeliefRule, Executor, Policy, StoppingRule
from abctree.types import FloatArray, IntArray, RNGLike

#: Summaries with more numbers than this are not kept in the table unless asked for.
_KEEP_UP_TO = 64


def abc_tree(
    problem: Problem,
    *,
    n_simulations: int,
    rng: RNGLike = None,
    partitioner: PartitionerLike | None = None,
    utility: UtilityLike | None = None,
    schedule: ScheduleLike | None = None,
    beliefs: BeliefRule | None = None,
    policy: Policy | None = None,
    quota: int | None = None,
    n_pilot: int | None = None,
    n_folds: int | None = None,
    window: Literal["extended", "rolling"] | None = None,
    relabel: Literal["next", "last"] | None = None,
    block: int | None = None,
    defensive: float | None = None,
    max_rounds: int | None = None,
    preset: Literal["published"] | None = None,
    stop: StoppingRule | Iterable[StoppingRule] | Mapping[str, float] | None = None,
    executor: Executor | None = None,
    keep_summaries: bool | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    r"""Sample the ABC posterior with bandits on a tree partition (Algorithm 2, ABC-Tree).

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the exact number of simulations, the pilot included.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    partitioner : str or Partitioner
        P: "soft" (default), "cart" or "dyadic", or an object such as ``abctree.Grid(100)``.
    utility : str or Utility
        ω: "omega1", "omega2", "omega3", "ess", or an object.  Default: effective sample size,
        with exponent ½ in one or two dimensions and 0.65 in more.
    schedule : str, float, sequence of float or Schedule
        g: "median" (default) of the accepted distances, a factor (the paper: 0.9), or a decreasing
        list of tolerances.
    beliefs : BeliefRule
        How α and β start on a new partition; default `MultiLevel`, and `GlobalRate` on a grid.
    policy : Policy
        Which arms are played, instead of a utility's optimal proposal; see `abctree.Thompson`.
    quota : int
        B, acceptances that end a round.  Default T / 100.
    n_pilot : int
        Prior draws of the pilot.  Default max(100, T / 50).
    n_folds : int
        F: simulation i belongs to fold i mod F, and a fold's proposals are learned from the other
        folds.  Default 5; 1 is the paper, whose evidence comes out too low.
    window : {"extended", "rolling"}
        Whether partitions learn from the whole table or from the last round.
    relabel : {"next", "last"}
        Tolerance at which the table is relabelled and counted.  The paper: "last".
    block : int
        Pulls between two updates of the beliefs.  Default T / 50; 1 is the paper.
    defensive : float
        Share of the prior in every proposal.  Default 0.05.
    max_rounds : int
        S_max.
    preset : {"published"}
        The paper's settings: CART, ω¹, 0.9 ε, B = 1000, one fold, no pseudo-counts, weights at the
        draw.  Anything given beside it wins over it.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60, "epsilon": 0.1}``; see `abctree.stopping`.
    executor : Executor
        Who runs the simulator; default in this process.
    keep_summaries : bool
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.
    progress : callable
        Called with a `Progress` after each round.

    Returns
    -------
    Result
        Posterior, step function, evidence, the lookup table, and the rounds.

    Raises
    ------
    ParameterError
        If a setting breaks its rule.
    SimulatorError
        If the simulator cannot be used: the first simulations have the wrong shape, or the whole
        pilot fails.

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> result = abctree.abc_tree(problem, n_simulations=2000, rng=1)
    >>> result.n_simulations
    2000
    """
    given = {
        "partitioner": partitioner, "utility": utility, "schedule": schedule, "beliefs": beliefs,
        "policy": policy,
        "quota": quota, "n_pilot": n_pilot, "n_folds": n_folds, "window": window,
        "relabel": relabel, "block": block, "defensive": defensive, "max_rounds": max_rounds,
    }  # fmt: skip
    if not isinstance(problem, Problem):
        raise ParameterError(f"`problem` must be an abctree.Problem, but got {problem!r}.")
    settings = resolve(problem.d, n_simulations, given, preset)
    size = int(np.prod(problem.shape))
    keep = size <= _KEEP_UP_TO if keep_summaries is None else keep_summaries
    table = Table(
        problem.d, len(problem.names), size if keep else 0, capacity=settings.plan.n_simulations
    )
    run = _Run(problem, settings, table, executor or Serial(), rng)
    return run.to_the_end(as_stopping_rules(stop), progress)


class _Run:
    """One run: the pilot, then rounds, watched by stopping rules and a progress callback."""

    def __init__(
        self, problem: Problem, settings: Settings, table: Table, executor: Executor, rng: RNGLike
    ) -> None:
        source = np.random.default_rng(rng)
        #: Seed of the simulations' streams; the algorithm itself draws from `rng`.
        self.root = int(source.integers(2**64, dtype=np.uint64))
        self.rng = np.random.default_rng(source.integers(2**63, size=4))
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

    def simulate(self, theta: FloatArray, index: IntArray) -> Simulations:
        """One block through the executor; failures are noted on the way."""
        work = Discrepancy(self.problem, self.root)
        result = self.executor.run(work, theta, index, self.problem.unit)
        self.failures.add(result.failures)
        return result

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
