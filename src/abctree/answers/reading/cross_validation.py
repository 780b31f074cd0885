"""How well a table predicts parameters of data that its prior makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.answers.reading.choice import Cell
from abctree.answers.reading.rows import Rows
from abctree.answers.reading.veto import default_cell
from abctree.answers.run import Run, check_is_run
from abctree.keywords import checks_keywords
from abctree.near import systematic
from abctree.numbers import check_rule, checked_count, checked_rng
from abctree.threads import one_blas_thread
from abctree.types import FloatArray, RNGLike


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Parameters of rows left out of a table, and what the others say of them."""

    names: tuple[str, ...]
    cell: Cell  #: the reading
    truth: FloatArray  #: (n, p) parameters of the rows that were left out
    estimate: FloatArray  #: (n, p) posterior means
    share: FloatArray  #: (n,) what each row counts for; the sum is 1

    @property
    def error(self) -> FloatArray:
        """(p,) Mean squared error in units of the variance of the truths: 1 is no better than none.

        That of `cv4abc` of R's abc (Csilléry, François and Blum 2012).
        """
        centred = self.truth - self.share @ self.truth
        variance, square = self.share @ centred**2, self.share @ (self.estimate - self.truth) ** 2
        share = np.full(variance.shape, np.nan)
        np.divide(square, variance, out=share, where=variance > 0.0)
        return share

    def __repr__(self) -> str:
        errors = ", ".join(f"{n} {e:.3g}" for n, e in zip(self.names, self.error, strict=True))
        return f"CrossValidation({errors}; {len(self.truth)} rows, {self.cell})"


@checks_keywords
def cross_validate(
    result: Run, *, n: int = 100, ess: float | None = None, rng: RNGLike = 0
) -> CrossValidation:
    """Leave out rows of a table, drawn as if from the prior, and read the others at each.

    No simulation is made.  Of a run that went to the observation few rows are far from it, and the
    parameters there are predicted worse than at the observation; a table of prior draws says the
    same everywhere.

    Parameters
    ----------
    result : Result
        A run that kept its summaries.
    n : int
        Rows to leave out, at most; at least 2.
    ess : float, optional
        Effective sample size of each reading, at least 5.  Default: that of `Result.answer`.
    rng : RNGLike
        Picks the rows.

    Raises
    ------
    ParameterError
        If no summaries were kept.
    """
    check_is_run(result)
    n = checked_count("n", n, 2)
    if ess is not None:
        check_rule("ess", ess, "at least 5", "Try 1000.")
    rows = Rows.of(result, most=None).checked()
    cell = default_cell(rows) if ess is None else Cell("ridge", min(ess, rows.largest_ess))
    start = checked_rng(rng).random()
    picked, count = np.unique(systematic(rows.weight, n, start), return_counts=True)
    means = []
    with one_blas_thread():
        for j in picked:
            reading = next(rows.at_row(int(j), (cell,)))
            means.append(reading.weight / reading.weight.sum() @ reading.theta)
    names = tuple(result.problem.names)
    return CrossValidation(names, cell, rows.scores.theta[picked], np.array(means), count / n)
