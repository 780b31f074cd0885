"""Algorithm 1: Bandit ABC on a fixed partition at a fixed tolerance.

The boxes are arms, acceptance is the reward.  The paper is ``F = 1`` fold and ``block = 1``.  With
F folds the simulation number i belongs to fold i mod F; a fold draws from its own partition and
beliefs, and those learn from the *other* folds' rows only, so that no draw shapes the proposal
that it is weighted by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from abctree.data import Mixture, Partition, Simulations, Table
from abctree.errors import ParameterError
from abctree.problem import Problem
from abctree.protocols import Beliefs, Policy
from abctree.types import BoolArray, FloatArray, IntArray

#: Begins simulations, theta (n, p) and their numbers (n,); the answer waits for them.
Simulate = Callable[[FloatArray, IntArray], Callable[[], Simulations]]


#: Points refused in a row after which a constraint is taken to refuse everything.
_HOPELESS = 10_000_000


@dataclass
class Fold:
    """One fold's game: its partition, what it believes, and what it has drawn so far."""

    partition: Partition
    beliefs: Beliefs
    mixture: Mixture  #: proposals on earlier partitions
    density: FloatArray = field(init=False)  #: (K,) Σ_t N_t c_t on this partition
    n_kept: int = 0  #: points that became simulations
    n_drawn: int = 0  #: points drawn, those that a constraint refused included

    def __post_init__(self) -> None:
        self.density = np.zeros(len(self.partition))

    def kept_share(self, n_kept: int, n_drawn: int) -> float:
        """Share of drawn points that become simulations, with these the last to be drawn.

        Points are drawn until enough are kept, so (n - 1) / (N - 1) is unbiased.
        """
        self.n_kept += n_kept
        self.n_drawn += n_drawn
        return max(self.n_kept - 1, 1) / max(self.n_drawn - 1, 1)

    def mixture_so_far(self) -> Mixture:
        """All proposals of the fold, this partition's included."""
        return self.mixture.plus(self.partition.boxes, self.density.copy())


@dataclass(frozen=True)
class Block:
    """Points to simulate, and where they came from."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    arm: IntArray  #: (n,)
    proposal: FloatArray  #: (n,) density relative to the prior with which each was drawn
    fold: IntArray  #: (n,)
    offered: tuple[tuple[int, FloatArray], ...]  #: fold, and points drawn times density (K,)


def inner_loop(
    problem: Problem,
    table: Table,
    folds: Sequence[Fold],
    epsilon: float,
    *,
    policy: Policy,
    simulate: Simulate,
    quota: int,
    budget: int,
    block: int,
    lookahead: int = 0,
    milestones: Sequence[int] = (),
    round_index: int,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Play until B acceptances or T_max simulations; the number of acceptances.

    Parameters
    ----------
    problem : Problem
        Prior and constraint; the simulator is behind `simulate`.
    table : Table
        The lookup table; new rows are appended (the paper's D(ε) and u).
    folds : sequence of Fold
        Partition Ω and beliefs α, β, one for each fold.
    epsilon : float
        Tolerance ε.
    quota, budget, block : int
        B, T_max, and the number of pulls between two updates of the beliefs.
    lookahead : int
        Blocks that may be begun before the oldest has come back, so that stragglers do not idle
        the others; beliefs are then as many blocks old.  The order of all updates is fixed.
    milestones : sequence of int
        Numbers of simulations at which a block ends: earlier budgets of a run that is extended.
    round_index : int
        Number s of the round, for the table.
    stop : callable
        Asked after every block whether to end.
    """
    n_accepted, begun = 0, len(table)  # line 1
    end = begun + budget
    pending: deque[tuple[Block, Callable[[], Simulations]]] = deque()
    while True:
        while n_accepted < quota and begun < end and len(pending) <= lookahead:  # line 2
            if stop():
                return n_accepted
            n = min([block, *(m - begun for m in (*milestones, end) if m > begun)])  # line 3
            pulled = pull_arms(problem, folds, policy, begun, n, rng)  # lines 4 to 7, and 10
            pending.append((pulled, simulate(pulled.theta, begun + np.arange(n))))  # line 8
            begun += n
        if not pending:
            return n_accepted
        pulled, wait = pending.popleft()
        result = wait()
        reward = result.distance < epsilon  # line 9
        record(table, problem, pulled, result, round_index)  # line 15
        update_beliefs(folds, pulled, result.distance)  # line 11
        n_accepted += int(reward.sum())  # line 12


def pull_arms(
    problem: Problem,
    folds: Sequence[Fold],
    policy: Policy,
    first: int,
    n: int,
    rng: np.random.Generator,
) -> Block:
    """Lines 4 to 7 and 10 for the simulations number first..first+n-1, each in its fold."""
    fold = (first + np.arange(n)) % len(folds)
    arm = np.empty(n, dtype=np.int64)
    cube = np.empty((n, problem.d))
    theta = np.empty((n, len(problem.names)))
    proposal = np.empty(n)
    offered = []
    for f in np.unique(fold).tolist():
        game, rows = folds[f], np.flatnonzero(fold == f)
        # Lines 4 to 6 are `UtilityProposal.pull`; a policy may also fix the arms (Algorithm 3).
        fixed, q = policy.pull(game.beliefs.arms(), game.partition, len(rows), rng)
        share = game.partition.cube_proposal(q)
        density = share / game.partition.boxes.volume  # c_k, relative to the cube
        points = (  # lines 7 and 8
            draw_points(problem, game.partition, share, len(rows), rng)
            if fixed is None
            else draw_in_arms(problem, game.partition, fixed, rng)
        )
        cube[rows], theta[rows], arm[rows] = points.cube, points.theta, points.arm
        # Line 10, u = 1 / proposal.  Refused points were drawn, too: a share became simulations.
        proposal[rows] = density[points.arm] / game.kept_share(len(rows), points.n_drawn)
        offered.append((f, points.n_drawn * density))
    return Block(cube, theta, arm, proposal, fold, tuple(offered))


@dataclass(frozen=True)
class Points:
    """Feasible points of the cube, and the number of points drawn to get them."""

    cube: FloatArray
    theta: FloatArray
    arm: IntArray
    n_drawn: int


def draw_points(
    problem: Problem,
    partition: Partition,
    share: FloatArray,
    n: int,
    rng: np.random.Generator,
) -> Points:
    """n feasible points: I ~ Cat(share), θ ~ π(· | Ω_I).

    A point that the constraint refuses is drawn again, arm included, at no cost.

    Raises
    ------
    ParameterError
        If the constraint refuses practically everything.
    """
    cumulative = np.cumsum(share)
    points = _room_for(problem, n)
    have = n_drawn = 0
    want = n
    while have < n:
        arm = pick(cumulative, want, rng)
        cube = partition.boxes.sample(arm, rng)
        theta = problem.prior.from_cube(cube)
        use, looked_at = _first_allowed(problem.feasible(theta, cube), n - have)
        rows = slice(have, have + len(use))
        points.cube[rows], points.theta[rows], points.arm[rows] = cube[use], theta[use], arm[use]
        have += len(use)
        n_drawn += looked_at
        want = _next_batch(n - have, have, n_drawn)
    return replace(points, n_drawn=n_drawn)


def draw_in_arms(
    problem: Problem, partition: Partition, arm: IntArray, rng: np.random.Generator
) -> Points:
    """A feasible point in each given arm (n,): θ ~ π(· | Ω_I)."""
    points = _room_for(problem, len(arm))
    points.arm[:] = arm
    missing = np.arange(len(arm))
    n_drawn = 0
    while len(missing):
        _not_hopeless(have=len(arm) - len(missing), n_drawn=n_drawn)
        points.cube[missing] = partition.boxes.sample(arm[missing], rng)
        points.theta[missing] = problem.prior.from_cube(points.cube[missing])
        n_drawn += len(missing)
        feasible = problem.feasible(points.theta[missing], points.cube[missing])
        missing = missing[~feasible]
    return replace(points, n_drawn=n_drawn)


def _room_for(problem: Problem, n: int) -> Points:
    theta = np.empty((n, len(problem.names)))
    return Points(np.empty((n, problem.d)), theta, np.empty(n, dtype=np.int64), 0)


def pick(cumulative: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """n independent draws of Cat(q) from the cumulative sums of q (K,), in O(n log K)."""
    u = rng.random(n) * cumulative[-1]
    found = np.searchsorted(cumulative, u, side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))


def _first_allowed(allowed: BoolArray, n: int) -> tuple[IntArray, int]:
    """Rows of the first n feasible points, and how many points had to be looked at."""
    use = np.flatnonzero(allowed)[:n]
    return use, int(use[-1]) + 1 if 0 < n == len(use) else len(allowed)


def _next_batch(missing: int, have: int, n_drawn: int) -> int:
    """How many points to draw for the missing ones, given the share that was feasible so far."""
    _not_hopeless(have=have, n_drawn=n_drawn)
    return int(min(1_000_000, 16 + 1.2 * missing * (n_drawn + 1) / (have + 1)))


def _not_hopeless(*, have: int, n_drawn: int) -> None:
    if have == 0 and n_drawn > _HOPELESS:
        raise ParameterError(
            f"`constraint` must leave some of the prior, but refused {n_drawn} points in a row. "
            "Check its direction, or reparametrise."
        )


def record(
    table: Table, problem: Problem, pulled: Block, result: Simulations, round_index: int
) -> None:
    """The rows of a block, as line 15 returns them."""
    table.append(
        cube=pulled.cube,
        theta=pulled.theta,
        distance=result.distance,
        proposal=pulled.proposal,
        prior_weight=problem.prior_weight(pulled.cube),
        arm=pulled.arm,
        round=round_index,
        fold=pulled.fold,
        denominator=np.nan,  # known at the end of the round
        summary=result.summary,
    )


def update_beliefs(folds: Sequence[Fold], pulled: Block, distance: FloatArray) -> None:
    """Line 11: each fold learns from the rows of the others (with F = 1, from its own)."""
    for f, density in pulled.offered:
        folds[f].density += density
    for f, game in enumerate(folds):
        if len(folds) == 1:
            game.beliefs.learn(pulled.arm, distance)
        else:
            teaches = pulled.fold != f
            arm = game.partition.boxes.locate(pulled.cube[teaches])
            game.beliefs.learn(arm, distance[teaches])
