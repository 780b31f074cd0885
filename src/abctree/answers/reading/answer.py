"""The answer that users are shown: an adjusted posterior, unless its own table speaks against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.answers.reading.calibration import Calibration, calibration
from abctree.answers.reading.choice import Cell, Choice, Reread, Summaries
from abctree.answers.reading.fit import Fit, fit
from abctree.answers.reading.order import compared
from abctree.answers.reading.regression import Method
from abctree.answers.reading.rows import FEWEST, Rows
from abctree.answers.reading.veto import N_PSEUDO, choose, default_cell
from abctree.answers.run import Run, Weights
from abctree.answers.selection import default_ess
from abctree.numbers import check_rule, checked_count
from abctree.problem.models import Models
from abctree.problem.ridge import Regressor
from abctree.threads import one_blas_thread


def adjusted(run: Run, method: Method | Regressor, ess: float | None) -> Posterior:
    """The adjusted posterior at an effective sample size of the draws before the adjustment."""
    rows = Rows.of(run).checked()
    if ess is not None:
        check_rule("ess", ess, "above 0", "Try 1000.")
    cell = default_cell(rows) if ess is None else Cell(method, min(ess, rows.largest_ess))
    return _read(run, rows, cell._replace(method=method))


def answer(run: Run) -> Posterior:
    """The reading of a run that nothing speaks against; see `Result.answer`."""
    if run.table.summary_size == 0 or isinstance(run.problem, Models):
        return run.posterior()
    rows = Rows.of(run)
    if len(rows) < FEWEST or rows.distance[0] == rows.distance[-1]:
        return run.posterior()
    with one_blas_thread():
        rows = compared(rows)
        choice = choose(rows, N_PSEUDO, np.random.default_rng(run.root))
        return replace(_read(run, rows, choice.chosen), reading=choice)


def calibrated(run: Run, choice: Choice | None, n: int) -> Calibration:
    """How often the intervals of a chosen reading hold the parameters of rows of the table."""
    n = checked_count("n", n)
    rows = compared(Rows.of(run).checked())
    cell = default_cell(rows) if choice is None else choice.chosen
    raw = Cell(None, min(default_ess(run.n_simulations), rows.largest_ess), rows.summaries)
    with one_blas_thread():
        return calibration(rows, cell, raw, n, np.random.default_rng(run.root))


def fitting(run: Run, choice: Choice | None) -> Fit:
    """Whether the model can make data like the observation.

    Draws that are near by the run's own distance may be too quiet to have made the noise of the
    data.  They are taken only where every reading by local summaries is bad.
    """
    rows = Rows.of(run).checked()
    by_local = choice is not None and choice.local_is_fair
    ess = min(default_ess(run.n_simulations), rows.largest_ess)
    with one_blas_thread():
        near = compared(rows)
        near = near.checked_local().rows if by_local else near
        model = rows.local.model if rows.local else None
        return fit(rows.every, near, model, ess, np.random.default_rng(run.root))


def by_other(
    run: Run,
    other: Reread,
    name: Summaries,
    weights: Weights | None = None,
    *,
    epsilon: float | None = None,
    ess: float | None = None,
) -> Posterior:
    """The posterior of a run by other summaries than its own."""
    by = other.summary_of, other.observed
    draws = run.draws_by(other.distance, by, weights, epsilon=epsilon, ess=ess)
    return replace(draws, summaries=name)


def _read(run: Run, rows: Rows, cell: Cell) -> Posterior:
    if cell.summaries == "own":
        draws = run.posterior(epsilon=rows.epsilon(cell.ess))
    else:
        near = rows.checked_local().rows if cell.summaries == "local" else rows.every
        draws = by_other(run, near.reread(), cell.summaries, epsilon=near.epsilon(cell.ess))
    return draws if cell.method is None else draws.adjusted(cell.method)
