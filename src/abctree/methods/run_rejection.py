"""`rejection`: prior draws, the closest of which are kept."""

from __future__ import annotations

from typing import Literal

import numpy as np

from abctree.answers.failures import FailurePolicy
from abctree.answers.result import Result
from abctree.baselines.rejection import Closest, KeptRows, PriorDraws
from abctree.baselines.rejection import rejection as stream
from abctree.data import Mixture, Table
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.running.executors import ExecutorLike
from abctree.running.ledger import StoreLike
from abctree.running.play import play
from abctree.running.progress import ProgressLike
from abctree.running.runner import INTERRUPTED, Runner
from abctree.running.spec import RunSpec, StopLike
from abctree.types import RNGLike


@checks_keywords
def rejection(
    problem: Problem,
    *,
    n_simulations: int,
    keep: int | None = None,
    rng: RNGLike = None,
    executor: ExecutorLike | None = None,
    chunk: int | None = None,
    lookahead: int = 1,
    progress: ProgressLike = None,
    stop: StopLike = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | None = None,
    store: StoreLike | None = None,
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
        Default: T / 100, or T / 10 of a vectorised simulator, at most 16 384.  It never changes a
        result, except where `stop` ends the run.
    lookahead : int
        Chunks that may be begun before the oldest has come back.
    progress : bool or callable, optional
        As in `abc_tree`; a function is called after each chunk.  The epsilon that is told is the
        largest distance that is still taken.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60}``; see `abctree.stopping`.  "epsilon" ends
        the run when `keep` simulations are closer.
    on_failure : {"reject", "raise"} or FailurePolicy
        As for `abctree.abc_tree`.
    keep_summaries : bool
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.
    store : str, Path or Store
        A new folder in which every chunk is kept before it counts, as for `abctree.abc_tree`: of
        its simulations those that were closer than all but `keep` when they were made, and those
        that failed.  With `keep` closest of T it holds about ``keep * (1 + log(T / keep))`` of
        them, and some hundred bytes for each chunk.

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
        If a setting breaks its rule, or `store` holds a run already.
    StoreError
        If `store` cannot be written to.
    SimulatorError
        If the simulator cannot be used: the first simulations have the wrong shape, or all fail
        from which the distance takes its scale, or any with ``on_failure="raise"``.

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
    spec = RunSpec.of("rejection", locals())
    return play(play_stream, problem, spec, executor, progress, store)


def play_stream(run: Runner) -> Result:
    """Simulate and keep, until the budget is spent or a rule says stop."""
    closest = Closest(run.spec.settings["keep"])
    # The first prior draws, which may scale the distance.
    table = Table(run.problem.d, len(run.problem.names), capacity=run.plan.n_pilot)
    pilot = run.pilot(table)
    summary = pilot.simulations.summary
    rows = KeptRows(np.arange(len(table)), table.cube, table.theta, table.distance, summary)
    closest.add(rows.with_columns(run.spec.summary_size))
    n_drawn = pilot.n_drawn[0]  # points, refused ones included
    why, more = (run.stop_reason(), 0.0) if run.stop() else _stream(run, closest)
    return _result(run, closest, why, n_drawn + more)


def _stream(run: Runner, closest: Closest) -> tuple[str, float]:
    """The rest, in chunks; why it ended, and points drawn for it, refused ones included."""
    plan, n_drawn = run.plan, 0.0
    run.store_only(closest.needed)
    seed = int(run.rng.integers(2**64, dtype=np.uint64))
    chunks = stream(
        PriorDraws(run.problem, seed, plan.n_pilot), closest, run.simulate, plan,
        run.problem.unit, run.spec.summary_size,
    )  # fmt: skip
    try:
        for n_drawn in chunks:
            rate = closest.n_held / run.n_simulations
            reason = run.report_round(1, closest.worst, rate, float(closest.n_held))
            if run.n_simulations < plan.n_simulations and (reason is not None or run.stop()):
                return reason or run.stop_reason(), n_drawn
    except KeyboardInterrupt:
        return INTERRUPTED, n_drawn
    return run.stop_reason(), n_drawn


def _result(run: Runner, closest: Closest, why: str, n_drawn: float) -> Result:
    """The kept rows as a table, weighted as a sample of all simulations."""
    made, table = run.n_simulations, run.table
    rows, stands_for, border = closest.finish()
    if rows is not None:
        proposal = n_drawn / made / stands_for
        table.append(
            cube=rows.cube,
            theta=rows.theta,
            distance=rows.distance,
            proposal=proposal,
            prior_weight=run.problem.region.weight(rows.cube),
            arm=0,
            round=(rows.index >= run.plan.n_pilot).astype(np.int64),
            fold=0,
            denominator=len(rows) * proposal,
            summary=rows.summary,
        )
    n_pilot = int(np.count_nonzero(table.round == 0))
    # The tolerance of the stream is the one up to which it can be read.
    for s, epsilon, ends in ((0, np.inf, (0, n_pilot)), (1, border, (n_pilot, len(table)))):
        ess = float(np.count_nonzero(table.distance < epsilon))
        run.rounds.append(run.round_on_one_box(s, epsilon, (Mixture(n_drawn, ()),), ends, ess))
    answers = run.spec.settings["answers"]
    return run.result(
        why,
        n_made=made if made > len(table) else None,
        default_epsilon=_just_beyond(table, border) if answers else None,
    )


def _just_beyond(table: Table, border: float) -> float:
    """A finite ε at which all kept draws are read, if there is any."""
    finite = table.distance[np.isfinite(table.distance)]
    if np.isfinite(border) or not len(finite):
        return border
    return float(np.nextafter(finite.max(), np.inf))
