"""`rejection`: prior draws, the closest of which are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from abctree.algorithms.rejection import Closest, PriorDraws, Rows
from abctree.algorithms.rejection import rejection as stream
from abctree.analysis.result import Result
from abctree.data import Arms, Boxes, Mixture, Plan, Progress, Round, Table
from abctree.errors import ParameterError
from abctree.methods.runner import Seeds
from abctree.methods.watch import (
    StopLike,
    Watch,
    checked_count,
    checked_problem,
    summary_size,
)
from abctree.parts.executors import ExecutorLike, as_executor, running
from abctree.parts.executors.policy import FailurePolicy, as_policy
from abctree.parts.stopping import Rounds
from abctree.problem import Problem
from abctree.types import RNGLike

#: Up to so many simulations all are kept by default, and of more the closest so many.
_KEEP_ALL, _KEEP = 1_000_000, 100_000
#: Most rows in a chunk, few enough to stay in a cache, and the seconds that it may take.
_CHUNK, _SECONDS = 16_384, 1.0
#: Most prior draws of the pilot.
_PILOT = 10_000


def rejection(
    problem: Problem,
    *,
    n_simulations: int,
    keep: int | None = None,
    rng: RNGLike = None,
    executor: ExecutorLike | None = None,
    chunk: int | None = None,
    lookahead: int = 1,
    progress: Callable[[Progress], None] | None = None,
    stop: StopLike = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | None = None,
) -> Result:
    r"""Sample the ABC posterior by rejection: prior draws, the closest of which are kept.

    Simulations are streamed: memory holds the kept rows and a few chunks, so that 10⁸ of a cheap
    simulator are feasible.

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the exact number of simulations.
    keep : int, optional
        How many of the closest simulations the result holds; `posterior()` then gives all of them.
        Default: all up to 10⁶ simulations, failures included, and of more the closest 100 000;
        `posterior()` then chooses as after `abctree.abc_tree`.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    executor : int, str or Executor
        Who runs the simulator, as for `abctree.abc_tree`.  It never changes the result.
    chunk : int
        Simulations begun at once, and after which `progress` is told and `stop` is asked.
        Default: as many as take about a second, at most 16 384.  It never changes a result, except
        where `stop` ends the run.
    lookahead : int
        Chunks that may be begun before the oldest has come back.
    progress : callable
        Called with a `Progress` after each chunk.  Its epsilon is the largest distance that is
        still taken.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60}``; see `abctree.stopping`.  "epsilon" ends
        the run when `keep` simulations are closer.
    on_failure : {"reject", "raise"} or FailurePolicy
        As for `abctree.abc_tree`.
    keep_summaries : bool
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.

    Returns
    -------
    Result
        With the same reading methods as a result of `abctree.abc_tree`, but for `histogram`.  Its
        table holds the kept rows, and `n_simulations` counts all.  The evidence is that of all
        simulations: it is known up to the largest ε below which every simulation was kept,
        ``result.rounds[1].epsilon``, and above that tolerance the result cannot be read.

    Raises
    ------
    ParameterError
        If a setting breaks its rule.
    SimulatorError
        If the simulator cannot be used: the first simulations have the wrong shape, or any fails
        with ``on_failure="raise"``.

    Notes
    -----
    Where equal distances lie at the border, the first of them are kept and weighted to stand for
    all.  A distance that scales itself takes its scale from the first min(10 000, T / 50)
    simulations, but at least 100.  Time O(T), memory O(keep).

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> result = abctree.rejection(problem, n_simulations=2000, keep=100, rng=1)
    >>> len(result.table), result.n_simulations, len(result.posterior())
    (100, 2000, 100)
    """
    checked_problem(problem)
    budget = checked_count("n_simulations", n_simulations)
    kept = None if keep is None else checked_count("keep", keep)
    plan = Plan(
        n_simulations=budget,
        n_pilot=min(budget, max(100, min(_PILOT, budget // 50))),
        quota=budget if kept is None else kept,
        block=0 if chunk is None else checked_count("chunk", chunk),
        lookahead=checked_count("lookahead", lookahead, least=0),
        n_folds=1,
        defensive=0.0,
    )
    table = Table(problem.d, len(problem.names), summary_size(problem, keep=keep_summaries))
    closest = Closest(_KEEP if kept is None and budget > _KEEP_ALL else kept)
    with running(as_executor(executor)) as ready:
        watch = Watch(problem, table, ready, Seeds.of(rng), as_policy(on_failure), stop, budget)
        _check_rules(watch)
        why, n_drawn = _stream(watch, plan, closest, progress)
    return _result(watch, plan, closest, why, n_drawn, all_kept=kept is not None)


def _check_rules(watch: Watch) -> None:
    if any(isinstance(rule, Rounds) for rule in watch.rules):
        raise ParameterError('`stop` must not limit "rounds": rejection has none. Limit "seconds".')


def _stream(
    watch: Watch, plan: Plan, closest: Closest, progress: Callable[[Progress], None] | None
) -> tuple[str, float]:
    """Simulate and keep; why it ended, and the prior points drawn, refused ones included."""
    pilot_rows = Table(watch.problem.d, len(watch.problem.names), capacity=plan.n_pilot)
    pilot = watch.pilot(plan.n_pilot, pilot_rows)
    n_columns = watch.table.summary.shape[1]
    closest.add(
        Rows(
            np.arange(plan.n_pilot),
            pilot_rows.cube,
            pilot_rows.theta,
            pilot_rows.distance,
            pilot.simulations.summary,
        ).with_columns(n_columns)
    )
    n_pilot_drawn = n_drawn = float(pilot.n_drawn[0])
    seed = int(watch.rng.integers(2**64, dtype=np.uint64))
    chunk = plan.block or int(min(_CHUNK, 1 + _SECONDS * plan.n_pilot / max(watch.seconds, 1e-9)))
    draws = PriorDraws(watch.problem, seed, plan.n_pilot, plan.n_simulations)
    chunks = stream(
        draws, closest, watch.simulate, first=plan.n_pilot, last=plan.n_simulations,
        chunk=chunk, unit=watch.problem.unit, lookahead=plan.lookahead, n_columns=n_columns,
    )  # fmt: skip
    try:
        for _, more in chunks:
            n_drawn = n_pilot_drawn + more
            reason = _told(watch, closest, progress)
            if reason is not None and watch.n_simulations < plan.n_simulations:
                return reason, n_drawn
    except KeyboardInterrupt:
        return "interrupted", n_drawn
    return f"budget of {plan.n_simulations} simulations spent", n_drawn


def _told(
    watch: Watch, closest: Closest, progress: Callable[[Progress], None] | None
) -> str | None:
    """Tell of a chunk; why to stop after it, or None."""
    rate = closest.n_held / max(1, watch.n_simulations)
    now = watch.played(1, closest.worst, rate, float(closest.n_held))
    if progress is not None:
        progress(now)
    return watch.reason(watch.rules, now) or watch.hurry()


def _result(
    watch: Watch, plan: Plan, closest: Closest, why: str, n_drawn: float, *, all_kept: bool
) -> Result:
    """The kept rows as a table, weighted as a sample of all simulations."""
    made, table = watch.n_simulations, watch.table
    rows, stands_for, border = closest.finish()
    if rows is not None:
        proposal = n_drawn / made / stands_for
        table.append(
            cube=rows.cube,
            theta=rows.theta,
            distance=rows.distance,
            proposal=proposal,
            prior_weight=watch.problem.prior_weight(rows.cube),
            arm=0,
            round=(rows.index >= plan.n_pilot).astype(np.int64),
            fold=0,
            denominator=len(rows) * proposal,
            summary=rows.summary,
        )
    watch.rounds.extend(_rounds(watch, border, n_drawn))
    return Result(
        problem=watch.problem,
        table=table,
        rounds=tuple(watch.rounds),
        plan=plan,
        failures=watch.failures,
        stopped_because=why,
        seconds=watch.seconds,
        root=watch.root,
        method="rejection",
        n_made=made if made > len(table) else None,
        default_epsilon=_just_beyond(table, border) if all_kept else None,
    )


def _just_beyond(table: Table, border: float) -> float:
    """A finite ε at which all kept draws are read, if there is any."""
    finite = table.distance[np.isfinite(table.distance)]
    if np.isfinite(border) or not len(finite):
        return border
    return float(np.nextafter(finite.max(), np.inf))


def _rounds(watch: Watch, border: float, n_drawn: float) -> list[Round]:
    """The pilot, and the stream, whose tolerance is the one up to which it can be read."""
    table = watch.table
    whole = watch.problem.measure(Boxes.whole(watch.problem.d))
    n_pilot = int(np.count_nonzero(table.round == 0))
    ends = [(0, n_pilot, np.inf), (n_pilot, len(table), border)]
    return [
        Round(
            index=s,
            epsilon=epsilon,
            partitions=(whole,),
            arms=(Arms(np.ones(1), np.ones(1)),),
            mixtures=(Mixture(n_drawn, ()),),
            first=first,
            last=last,
            n_accepted=int(np.count_nonzero(table.distance[first:last] < epsilon)),
            ess=float(np.count_nonzero(table.distance < epsilon)),
            rng_state=dict(watch.rng.bit_generator.state),
        )
        for s, (first, last, epsilon) in enumerate(ends)
    ]
