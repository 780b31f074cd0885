"""What to do about simulations that fail: count them, raise, or give up when nothing works."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abctree.data import Failure
from abctree.errors import ParameterError, SimulatorError
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.problem import Problem
from abctree.types import FloatArray, IntArray


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
        The run ends early when more than this share of its last blocks failed; 1 for never.  The
        pilot does not count: what it finds to work is played first.
    at_least : int
        The last blocks are as many as hold this number of simulations.

    Raises
    ------
    ParameterError
        If a value breaks its rule.
    """

    on_failure: Literal["reject", "raise"] = ruled("reject", '"reject" or "raise"')
    limit: float = ruled(0.99, "in (0, 1]")
    at_least: int = ruled(200, "at least 1")


def as_failure_policy(spec: FailurePolicy | str) -> FailurePolicy:
    """The policy from its short name, or as it is.

    Raises
    ------
    ParameterError
        If it is neither.
    """
    if isinstance(spec, FailurePolicy):
        return spec
    if spec not in ("reject", "raise"):
        raise ParameterError(
            f'`on_failure` must be "reject", "raise" or an abctree.FailurePolicy, but got {spec!r}.'
        )
    return FailurePolicy("raise" if spec == "raise" else "reject")


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

        Parameters
        ----------
        problem : Problem
            ``result.problem``, or the one that the run was made with.

        Returns
        -------
        float
            Its distance, if this time nothing goes wrong: then it was not the parameters, nor the
            random numbers, but something outside, such as memory or a licence.

        Raises
        ------
        Exception
            Whatever the simulator, the summary or the distance raises.
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
