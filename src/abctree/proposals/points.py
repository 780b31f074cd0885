"""Points to simulate.

Candidates that a proposal, the prior or the constraint refuses cost no simulation: others are drawn
for them, and all are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from abctree.data import Partition
from abctree.errors import ParameterError
from abctree.problem import Problem
from abctree.proposals.proposal import OnBoxes, Proposal
from abctree.types import BoolArray, FloatArray, IntArray

#: Points refused in a row after which everything is taken to be refused.
_HOPELESS = 10_000_000
#: Most points that are proposed at once, beyond those that are wanted.
_BATCH = 1_000_000
#: Share of the prior in the arms that are drawn again.
_ELSEWHERE = 1.0 / 256.0
_NO_PRIOR = (
    "`constraint` must leave some of the prior, but refused {n} points in a row. "
    "Check its direction, or reparametrise."
)

#: What is known of proposed points: arrays of one length.
Columns: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Points:
    """Points to simulate, and the candidates that were looked at for them."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    looked: IntArray  #: (n,) candidates that were looked at when each was found

    @property
    def n_drawn(self) -> int:
        """Candidates that were looked at for all of them."""
        return int(self.looked[-1]) if len(self.looked) else 0

    def then(self, more: Points) -> Points:
        """These points, and more."""
        pairs = (self.cube, more.cube), (self.theta, more.theta)
        cube, theta = (np.concatenate(pair) for pair in pairs)
        return Points(cube, theta, np.append(self.looked, self.n_drawn + more.looked))

    def split(self, n: int) -> tuple[Points, Points]:
        """The first n points, and the others as if they had been drawn alone."""
        first = Points(self.cube[:n], self.theta[:n], self.looked[:n])
        return first, Points(self.cube[n:], self.theta[n:], self.looked[n:] - first.n_drawn)


def draw_allowed(
    propose: Callable[[int], Columns],
    allowed: Callable[..., BoolArray],
    n: int,
    hopeless: str = _NO_PRIOR,
    per_point: float = 1.0,
) -> tuple[Columns, int]:
    """The first n allowed ones of proposed points, and how many had to be looked at for them.

    Parameters
    ----------
    propose : callable
        Draws so many points.
    allowed : callable
        Which of them (m,) may be simulated, given their columns.
    n : int
        Points wanted, at least 1.
    hopeless : str
        What to say if there are none; ``{n}`` is the number of points that were refused.
    per_point : float
        Points to propose at first for each that is wanted.

    Raises
    ------
    ParameterError
        If ten million points in a row are refused.
    """
    parts: list[Columns] = []
    have = n_drawn = refused = 0
    want = int(n * per_point)
    while have < n:
        columns = propose(want)
        use, looked_at = _first(allowed(*columns), n - have)
        parts.append(columns if len(use) == want else tuple(c[use] for c in columns))
        have += len(use)
        n_drawn += looked_at
        refused = 0 if len(use) else refused + looked_at
        if refused > _HOPELESS:
            raise ParameterError(hopeless.format(n=refused))
        want = int(min(_BATCH, 16 + 1.2 * (n - have) * (n_drawn + 1) / (have + 1)))
    if len(parts) == 1:
        return parts[0], n_drawn
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True)), n_drawn


def _first(allowed: BoolArray, n: int) -> tuple[IntArray, int]:
    """Rows of the first n allowed points, and how many points had to be looked at."""
    use = np.flatnonzero(allowed)[:n]
    return use, int(use[-1]) + 1 if 0 < n == len(use) else len(allowed)


def draw_points(
    problem: Problem, proposal: Proposal, n: int, rng: np.random.Generator, per_point: float = 1.0
) -> Points:
    """n points of a proposal that the constraint allows.

    One that it refuses is drawn again, at no cost; see `draw_allowed` for `per_point`.

    Raises
    ------
    ParameterError
        If practically everything is refused.
    """
    if n == 0:
        none = np.empty(0, dtype=np.int64)
        return Points(np.empty((0, problem.d)), np.empty((0, len(problem.names))), none)

    n_proposed = 0

    def propose(want: int) -> Columns:
        nonlocal n_proposed
        cube, kept = proposal.draw(want, rng)
        theta = np.full((want, len(problem.names)), np.nan)
        theta[kept] = problem.prior.from_cube(cube[kept])
        looked = np.arange(n_proposed + 1, n_proposed + want + 1)
        n_proposed += want
        return cube, theta, looked, kept

    def allowed(cube: FloatArray, theta: FloatArray, _: IntArray, kept: BoolArray) -> BoolArray:
        rows = np.flatnonzero(kept)
        rows = rows[problem.region.feasible(theta[rows], cube[rows])]
        answer = np.zeros(len(kept), dtype=bool)
        answer[rows] = True
        return answer

    (cube, theta, looked, _), _ = draw_allowed(propose, allowed, n, per_point=per_point)
    return Points(cube, theta, looked)


def draw_in_arms(
    problem: Problem, partition: Partition, arm: IntArray, rng: np.random.Generator
) -> Points:
    """Feasible points of given arms (n,): θ ~ π(· | Ω_I).

    Where points may be refused, the arm is drawn again with its point, among those given and, now
    and then, all: nothing may be allowed in any that is given.  The law is then that of
    `draw_points` with the frequencies of the arms, but for that share of the prior.
    """
    played = np.bincount(arm, minlength=len(partition)) / max(len(arm), 1)
    q = (1.0 - _ELSEWHERE) * played + _ELSEWHERE * partition.prior_mass
    share = partition.cube_proposal(q)
    # Only where no box needs more points than another do the arms as given have this law.
    given = [arm] if (partition.feasible == 1.0).all() else []
    return draw_points(problem, OnBoxes(partition.boxes, share, given), len(arm), rng)
