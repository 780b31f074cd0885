"""Algorithm 1: Bandit ABC on a fixed partition at a fixed tolerance.

The boxes are arms, acceptance is the reward.  The paper is ``F = 1`` fold and ``block = 1``.  With
F folds the simulation number i belongs to fold i mod F; a fold draws from its own partition and
beliefs, and those learn from the *other* folds' rows only, so that no draw shapes the proposal
that it is weighted by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abctree.data import Simulations, Table
from abctree.problem import Problem
from abctree.proposals.points import density_of, draw_from, draw_in_arms
from abctree.proposals.proposal import OnBoxes
from abctree.tree.fold import Fold
from abctree.tree.game import Game
from abctree.types import FloatArray, IntArray

#: Acceptances that end a round which grows, in quotas: of a simulator without noise most draws
#: are accepted, and ε can fall further.
_EASY = 2


class Pulls(NamedTuple):
    """Points to simulate, and where they came from."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    arm: IntArray  #: (n,)
    proposal: FloatArray  #: (n,) density relative to the prior with which each was drawn
    fold: IntArray  #: (n,)
    #: Fold, density on its boxes (K,), and the candidates of each of its proposals.
    offered: tuple[tuple[int, FloatArray, list[int]], ...]


def inner_loop(game: Game, folds: Sequence[Fold], epsilon: float, s: int) -> int:
    """Play round s until B acceptances or T_max simulations; the number of acceptances.

    Parameters
    ----------
    game : Game
        Its table is the lookup table (the paper's D(ε) and u), to which rows are appended.  Its
        plan has B, T_max, and the number of pulls between two updates of the beliefs.  With a
        `lookahead` so many blocks may be begun before the oldest has come back, so that stragglers
        do not idle the others; beliefs are then as many blocks old.  The order of all updates is
        fixed.  Blocks end at `milestones`, too: earlier budgets of a run that is extended.
    folds : sequence of Fold
        Partition Ω and beliefs α, β, one for each fold.
    epsilon : float
        Tolerance ε.
    s : int
        Number of the round, for the table.
    """
    table, plan = game.table, game.plan
    quota = _EASY * plan.quota if plan.grows else plan.quota
    n_accepted, begun = 0, len(table)  # line 1
    end = plan.end_of_round(begun)
    pending: deque[tuple[Pulls, Callable[[], Simulations]]] = deque()
    while True:
        while n_accepted < quota and begun < end and len(pending) <= plan.lookahead:  # line 2
            if game.stop():
                return n_accepted
            ends = (m - begun for m in plan.milestones if m > begun)
            n = min(plan.block, end - begun, *ends)  # line 3
            index = np.arange(begun, begun + n)
            pulled = pull_arms(game, folds, index)  # lines 4 to 7, and 10
            wait = game.simulate(pulled.theta, index)  # line 8
            pending.append((pulled, wait))
            begun += n
        if not pending:
            return n_accepted
        pulled, wait = pending.popleft()
        result = wait()
        reward = result.distance < epsilon  # line 9
        record(table, game.problem, pulled, result, s)  # line 15
        update_beliefs(folds, pulled, result.distance)  # line 11
        n_accepted += int(np.count_nonzero(reward))  # line 12


def pull_arms(game: Game, folds: Sequence[Fold], index: IntArray) -> Pulls:
    """Lines 4 to 7 and 10 for the simulations of these consecutive numbers (n,), each in its fold.

    The plan's share of the prior in q* bounds every weight by its inverse.  A policy decides on the
    arms in place of lines 4 to 6, as Algorithm 3 does.
    """
    problem, rng, n, n_folds = game.problem, game.rng, len(index), len(folds)
    policy, defensive = game.rules.policy, game.plan.defensive
    first, fold = int(index[0]), index % n_folds
    arm: IntArray = np.empty(n, dtype=np.int32)
    cube = np.empty((n, problem.d))
    theta = np.empty((n, len(problem.names)))
    proposal = np.empty(n)
    offered = []
    for f, own in enumerate(folds):
        begin = (f - first) % n_folds
        n_own = len(range(begin, n, n_folds))
        if not n_own:
            continue
        rows: slice | IntArray = slice(begin, None, n_folds)
        prior_mass, fixed = own.partition.prior_mass, None
        if policy is None:
            eta = own.rates()  # line 4: binned likelihood
            q = game.rules.utility.optimal_proposal(eta, prior_mass)  # lines 5 and 6
            if defensive > 0.0:
                q = (1.0 - defensive) * q + defensive * prior_mass
        else:  # which may also fix the arms (Algorithm 3)
            fixed, q = policy.pull(own.beliefs.arms(), own.partition, n_own, rng)
        on_boxes = OnBoxes(own.partition.boxes, own.partition.cube_proposal(q))
        own.sources[0].law = on_boxes
        if fixed is None:  # lines 7 and 8
            at, theta_at, n_drawn = draw_from(problem, own.sources, n_own, rng)
        else:
            points = draw_in_arms(problem, own.partition, fixed, rng)
            own.sources[0].tally.add(points)
            at, theta_at, n_drawn = points.cube, points.theta, [points.n_drawn]
        if len(n_drawn) > 1:
            rows = rng.permutation(np.arange(begin, n, n_folds))
        cube[rows], theta[rows] = at, theta_at
        arm[rows] = at_arm = own.partition.boxes.locate(at)
        # Line 10, u = 1 / proposal.
        proposal[rows] = density_of(at, on_boxes.value[at_arm], own.sources)
        offered.append((f, on_boxes.value, n_drawn))
    return Pulls(cube, theta, arm, proposal, fold, tuple(offered))


def record(
    table: Table, problem: Problem, pulled: Pulls, result: Simulations, round_index: int
) -> None:
    """The rows of a block, as line 15 returns them."""
    table.append(
        cube=pulled.cube,
        theta=pulled.theta,
        distance=result.distance,
        proposal=pulled.proposal,
        prior_weight=problem.region.weight(pulled.cube) if problem.region.has_density else 1.0,
        arm=pulled.arm,
        round=round_index,
        fold=pulled.fold,
        denominator=np.nan,  # known at the end of the round
        summary=result.summary,
    )


def update_beliefs(folds: Sequence[Fold], pulled: Pulls, distance: FloatArray) -> None:
    """Line 11: each fold learns from the rows of the others (with F = 1, from its own)."""
    for f, density, n_drawn in pulled.offered:
        folds[f].add(density, n_drawn)
    for f, game in enumerate(folds):
        if len(folds) == 1:
            game.beliefs.learn(pulled.arm, distance)
        else:
            teaches = pulled.fold != f
            arm = game.partition.boxes.locate(pulled.cube[teaches])
            game.beliefs.learn(arm, distance[teaches])
