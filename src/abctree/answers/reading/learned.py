"""Summaries learned from a table, of all its rows or of those near the posterior."""

from __future__ import annotations

import numpy as np

from abctree.answers.reading.choice import Reread
from abctree.answers.reading.order import compared
from abctree.answers.reading.rows import Rows
from abctree.answers.run import Run, check_is_run
from abctree.errors import wrong
from abctree.keywords import checks_keywords
from abctree.problem.ridge import Ridge
from abctree.threads import one_blas_thread
from abctree.types import FloatArray


def learned(run: Run) -> Reread:
    """A summary for each parameter: a regression of their scores, over all rows of a run.

    This is semi-automatic ABC (Fearnhead and Prangle 2012) with ridge regression.  Rows count
    alike, however they were proposed: those near the observation, of which there are most, matter
    most.
    """
    if not run.table.is_in_memory:
        raise wrong(
            "summaries",
            'be "own" for a run with keep_summaries="store"',
            '"learned"',
            "They are a regression on all rows. Give the problem summary=abctree.Learned().",
        )
    rows = Rows.of(run, most=None)
    fitted, at_observation, _ = Ridge(rows.x, np.ones(len(rows)))(rows.places)
    spread = fitted.std(axis=0)
    return rows.by((fitted - at_observation) / np.where(spread > 0.0, spread, 1.0)).reread()


def local(run: Run) -> Reread:
    """Where data lie along a line near the posterior, and how large the rest of them is."""
    with one_blas_thread():
        return compared(Rows.of(run).checked()).checked_local().rows.reread()


def in_order(run: Run) -> Reread:
    """The numbers of the data sorted, where no simulation tells one from another."""
    rows = compared(Rows.of(run).checked())
    if rows.summaries != "sorted":
        raise wrong(
            "summaries",
            'be "own", "local" or "learned" where the order of numbers matters, or may',
            '"sorted"',
            "Simulations tell the numbers from one another, or are fewer than a thousand.",
        )
    return rows.every.reread()


@checks_keywords
def select_summaries(result: Run) -> FloatArray:
    """(q,) What each summary adds to the prediction of the parameters, the others given.

    The largest share, over the coordinates of the parameters, of their variance in the table that a
    linear regression on all summaries explains and one without this summary does not.  A summary
    near 0 can be left out, or another one says the same.

    Parameters
    ----------
    result : Result
        A run that kept its summaries.

    Raises
    ------
    ParameterError
        If no summaries were kept.
    """
    check_is_run(result)
    rows = Rows.of(result)
    return Ridge(rows.x, rows.weight).drops(rows.places)
