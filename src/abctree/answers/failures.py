"""`Failures`: which simulations gave nothing usable, where, and how to see one again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from abctree.answers.failure_policy import Case
from abctree.data import Failure, Round, Table
from abctree.keywords import checks_keywords_of_methods
from abctree.problem import Problem
from abctree.types import BoolArray, FloatArray, IntArray

#: Failures kept whole.
_KEEP = 5
#: Different reasons that are counted apart; after these, numbers in a message are not told apart.
_REASONS = 100
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?")


@checks_keywords_of_methods
class Failures:
    """Simulations that gave nothing usable: all counted, the first few kept whole.

    A failure is a simulation like any other: it is in the table, with an infinite distance, and
    counts as rejected.

    Parameters
    ----------
    table : Table
        The run's table; it may still grow.
    rounds : sequence of Round
        The run's rounds; more may come.
    root : int
        Seed of the simulations' streams.
    unit : int
        Rows that share a generator, ``problem.unit``.
    keep : int
        Failures kept with their parameters and traceback.

    Attributes
    ----------
    count : int
        How many.
    reasons : Counter of str
        How many for each reason.  A reason names its source: "summary raised ...", "distance
        returned ...", or the exception that the simulator raised.
    cases : list of Case
        The first few, in the order in which they came back.
    """

    def __init__(
        self, table: Table, rounds: Sequence[Round], root: int, unit: int, keep: int = _KEEP
    ) -> None:
        self.count = 0
        self.reasons: Counter[str] = Counter()
        self.cases: list[Case] = []
        self._table = table
        self._rounds = rounds
        self._root = root
        self._unit = unit
        self._keep = keep

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        if not self.count:
            return "Failures(none)"
        reason, n = self.reasons.most_common(1)[0]
        return f"Failures({self.count} of {len(self._table)} simulations; {n} times {reason})"

    @property
    def first(self) -> list[Failure]:
        """The first few: number, parameters, reason and traceback."""
        return [case.failure for case in self.cases]

    def add(self, failures: Sequence[Failure], theta: FloatArray, index: IntArray) -> None:
        """Count the failures of a block, theta (n, p) and numbers (n,); keep the first ones."""
        for failure in failures:
            self.count += 1
            self.reasons[self._counted_as(failure.reason)] += 1
            if len(self.cases) < self._keep:
                self.cases.append(Case.of(failure, theta, index, self._unit, self._root))

    def _counted_as(self, reason: str) -> str:
        if reason in self.reasons or len(self.reasons) < _REASONS:
            return reason
        kind = _NUMBER.sub("#", reason)
        return kind if len(self.reasons) < 2 * _REASONS or kind in self.reasons else "other reasons"

    def reproduce(self, problem: Problem, i: int = 0) -> float:
        """Make one of the kept failures again and let its exception through; see `Case.reproduce`.

        The same by hand, for a simulator that takes one theta at a time::

            failure = result.failures.first[i]
            problem.simulate(np.array([failure.theta]), np.array([failure.index]), result.root)

        Parameters
        ----------
        problem : Problem
            ``result.problem``.
        i : int
            Which of `first`.
        """
        return self.cases[i].reproduce(problem)

    @property
    def _failed(self) -> BoolArray:
        return ~np.isfinite(self._table.distance)

    @property
    def by_round(self) -> FloatArray:
        """(S + 1,) Share of the simulations of each round that failed; the pilot is round 0."""
        n_rounds = len(self._rounds)
        made = np.bincount(self._table.round, minlength=n_rounds)
        failed = np.bincount(self._table.round[self._failed], minlength=n_rounds)
        return np.asarray(failed / np.maximum(made, 1))

    def by_box(self, fold: int = 0) -> FloatArray:
        """(K,) Share of the simulations in each box of the last partition that failed.

        All simulations of the run count, wherever they were drawn from; nan in a box without any.

        Parameters
        ----------
        fold : int
            Whose partition: ``result.partitions[fold]``.
        """
        boxes = self._rounds[-1].partitions[fold].boxes
        box = boxes.locate(self._table.cube)
        made = np.bincount(box, minlength=len(boxes))
        failed = np.bincount(box[self._failed], minlength=len(boxes))
        return np.where(made > 0, failed / np.maximum(made, 1), np.nan)

    def text(self) -> list[str]:
        """Lines for a summary: shares by round and by box; none if the table does not know."""
        # Without failures, or where the table holds the closest simulations only.
        if not self.count or self.count > np.count_nonzero(self._failed):
            return []
        shares = [f"{share:.0%}" for share in self.by_round.tolist()]
        if len(shares) > 8:
            shares = [*shares[:4], "...", *shares[-3:]]
        said = f"share of failures by round: {', '.join(shares)}"
        if self._rounds[-1].partitions:
            prior = self._rounds[-1].partitions[0].prior_mass
            mostly = float(prior[self.by_box() > 0.5].sum())
            said += f"; boxes where most simulations fail hold {mostly:.0%} of the prior"
        return [said]
