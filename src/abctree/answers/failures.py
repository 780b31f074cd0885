"""Simulations that fail: what a run does about them, all that is known of them, one made again."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abctree.data import Failure, Round, Table
from abctree.errors import SimulatorError, wrong
from abctree.keywords import checks_keywords, checks_keywords_of_methods
from abctree.numbers import ruled
from abctree.problem import Problem
from abctree.types import BoolArray, FloatArray, IntArray

#: Failures kept whole.
_KEEP = 5
#: Different reasons that are counted apart; after these, numbers in a message are not told apart.
_REASONS = 100
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?")


@checks_keywords
@dataclass(frozen=True)
class FailurePolicy:
    """What a failed simulation means for the run.

    A simulation fails when the simulator, the summary or the distance raises, or returns nan, inf,
    None, the wrong shape or something other than real numbers, or when an executor gave it up.

    Parameters
    ----------
    on_failure : {"reject", "raise"}
        Whether a failure counts as a rejection, or ends the run with `FailedSimulationError`.
        Either way its block is first handed to the store, if there is one.
    limit : float
        The run ends early when more than this share, in (0, 1], of its last blocks failed; 1 for
        never.  The pilot does not count: what it finds to work is played first.
    at_least : int
        The last blocks are as many as hold this number of simulations, at least 1.
    """

    on_failure: Literal["reject", "raise"] = ruled("reject", '"reject" or "raise"')
    limit: float = ruled(0.99, "in (0, 1]")
    at_least: int = ruled(200, "a whole number of at least 1")


def as_failure_policy(spec: FailurePolicy | str) -> FailurePolicy:
    """The policy from its short name, or as it is."""
    if isinstance(spec, FailurePolicy):
        return spec
    if spec not in ("reject", "raise"):
        raise wrong("on_failure", 'be "reject", "raise" or an abctree.FailurePolicy', repr(spec))
    return FailurePolicy("raise" if spec == "raise" else "reject")


class Streak:
    """Whether practically all of the last blocks failed."""

    def __init__(self, policy: FailurePolicy) -> None:
        self._policy = policy
        self._blocks: deque[tuple[int, int]] = deque()
        self._n = self._failed = 0

    def add(self, n: int, failed: int) -> None:
        """One more block of n simulations."""
        self._blocks.append((n, failed))
        self._n += n
        self._failed += failed
        while self._n - self._blocks[0][0] >= self._policy.at_least:
            n, failed = self._blocks.popleft()
            self._n -= n
            self._failed -= failed

    @property
    def is_hopeless(self) -> bool:
        """Whether more than the policy's share failed, among enough simulations."""
        enough = self._n >= self._policy.at_least
        return enough and self._failed > self._policy.limit * self._n


@dataclass(frozen=True, eq=False)
class Case:
    """One failure, with all that is needed to see it again."""

    failure: Failure
    theta: FloatArray  #: (m, p) the rows that shared its generator, in the order of `index`
    index: IntArray  #: (m,) their numbers
    root: int  #: seed of the run's streams

    @classmethod
    def of(cls, failure: Failure, theta: FloatArray, index: IntArray, unit: int, root: int) -> Case:
        """The case of a failure in a block, theta (n, p) and index (n,)."""
        rows = np.flatnonzero(index // unit == failure.index // unit)
        return cls(failure, theta[rows].copy(), index[rows].copy(), root)

    def reproduce(self, problem: Problem) -> float:
        """Make the simulation again, with the same parameters and seed.

        Whatever the simulator, the summary or the distance raises is let through.  If this time
        nothing goes wrong, it gives the distance: then it was not the parameters, nor the random
        numbers, but something outside, such as memory or a licence.
        """
        return problem.measurement.rerun(self.theta, self.index, self.root, self.failure.index)


class FailedSimulationError(SimulatorError):
    """A simulation failed under ``on_failure="raise"``.

    ``error.case`` has the failure, and ``error.case.reproduce(problem)`` makes it again.
    """

    def __init__(self, case: Case, names: tuple[str, ...]) -> None:
        super().__init__(case, names)
        self.case = case
        self.names = names

    def __str__(self) -> str:
        failed = self.case.failure
        text = (
            f"Simulation {failed.index} failed at {written_theta(self.names, failed.theta)} "
            f"(seed of the run {self.case.root}): {failed.reason}\n"
            "`error.case.reproduce(problem)` makes it again; with "
            '`on_failure="reject"` it counts as a rejection.'
        )
        return f"{text}\n{failed.traceback}" if failed.traceback else text


def written_theta(names: tuple[str, ...], theta: tuple[float, ...]) -> str:
    """Parameters as a=1.5, b=2, with all digits."""
    return ", ".join(f"{n}={v!r}" for n, v in zip(names, theta, strict=True))


@checks_keywords_of_methods
class Failures:
    """Simulations that gave nothing usable: all counted, the first few kept whole.

    A failure is a simulation like any other: it is in the table, with an infinite distance, and
    counts as rejected.

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

    def __init__(self, table: Table, rounds: Sequence[Round], root: int, unit: int) -> None:
        # The table and the rounds may still grow; rows of one `unit` share a generator.
        self._table, self._rounds, self._root, self._unit = table, rounds, root, unit
        self.count = 0
        self.reasons: Counter[str] = Counter()
        self.cases: list[Case] = []

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
            if len(self.cases) < _KEEP:
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
