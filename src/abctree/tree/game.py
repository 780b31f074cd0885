"""`Game`: what all rounds of a run share, and the parts that the paper is parametrised by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from abctree.data import Plan, Simulations, Table
from abctree.problem import Problem
from abctree.protocols import (
    BeliefRule,
    Partitioner,
    Policy,
    PooledSchedule,
    Schedule,
    Utility,
)
from abctree.threads import Each, side_by_side
from abctree.types import FloatArray, IntArray

R = TypeVar("R")

#: Rows from which threads save more than they cost.
_MANY = 2000

#: Begins simulations, theta (n, p) and their numbers (n,); the answer waits for them.
Simulate: TypeAlias = Callable[[FloatArray, IntArray], Callable[[], Simulations]]


@dataclass(frozen=True)
class Rules:
    """The parts that Algorithm 2 is parametrised by."""

    partitioner: Partitioner  #: P
    beliefs: BeliefRule  #: α, β on a new partition
    utility: Utility  #: ω
    policy: Policy | None  #: q by another rule than ω
    schedule: Schedule  #: g

    @cached_property  # to ask a protocol takes as long as ten simulations
    def pooled(self) -> PooledSchedule | None:
        """The schedule, if it looks at all rows."""
        return self.schedule if isinstance(self.schedule, PooledSchedule) else None


@dataclass(frozen=True)
class Course(Generic[R]):
    """What all rounds of a run share, whatever its rules are."""

    problem: Problem  #: with its distance fitted
    table: Table  #: the lookup table D; grows by T_s rows each round
    plan: Plan
    rules: R
    simulate: Simulate
    rng: np.random.Generator  #: draws arms and points, and what a partitioner draws
    stop: Callable[[], bool] = lambda: False  #: asked after every block whether to end


class Game(Course[Rules]):
    """What all rounds of bandits share."""

    @property
    def each(self) -> Each:
        """How the folds are dealt with: side by side, unless it is hardly worth it.

        Nor where a density of the user's would be called in threads.
        """
        is_worth_it = len(self.table) >= _MANY and not self.problem.region.has_density
        return side_by_side if is_worth_it else map
