"""The loop of `rejection`: a stream of prior draws in a `Runner`."""

from __future__ import annotations

import numpy as np

from abctree.answers.result import Result
from abctree.baselines.rejection import Closest, KeptRows, PriorDraws, rejection
from abctree.data import Mixture, Table
from abctree.running.runner import Runner


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
    chunks = rejection(
        PriorDraws(run.problem, seed, plan.n_pilot), closest, run.simulate,
        first=plan.n_pilot, last=plan.n_simulations, chunk=plan.block, unit=run.problem.unit,
        lookahead=plan.lookahead, milestones=plan.milestones, n_columns=run.spec.summary_size,
    )  # fmt: skip
    try:
        for _, n_drawn in chunks:
            rate = closest.n_held / run.n_simulations
            reason = run.report_round(1, closest.worst, rate, float(closest.n_held))
            if run.n_simulations < plan.n_simulations and (reason is not None or run.stop()):
                return reason or run.stop_reason(), n_drawn
    except KeyboardInterrupt:
        return "interrupted", n_drawn
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
