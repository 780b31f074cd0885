"""Algorithm 1: Bandit ABC on a fixed partition at a fixed tolerance.

The boxes are arms, acceptance is the reward.  The paper is ``F = 1`` fold and ``block = 1``.  With
F folds the simulation number i belongs to fold i mod F; a fold draws from its own partition and
beliefs, and those learn from the *other* folds' rows only, so that no draw shapes the proposal
that it is weighted by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from abctree.data import Simulations, Table
from abctree.kernels import compiled
from abctree.problem import Problem
from abctree.proposals.points import density_of, draw_from, draw_in_arms
from abctree.proposals.proposal import OnBoxes
from abctree.tree.fold import Fold
from abctree.tree.game import Game
from abctree.types import FloatArray, IntArray

#: Acceptances that end a round which grows, in quotas: of a simulator without noise most draws
#: are accepted, and ε can fall further.
_EASY = 2


#: Of a block's points: in the cube (n, d), in user units (n, p), their arms (n,), and their
#: densities (n,).
Columns: TypeAlias = tuple[FloatArray, FloatArray, IntArray, FloatArray]


class Pulls(NamedTuple):
    """Points to simulate, and where they came from."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    arm: IntArray  #: (n,)
    proposal: FloatArray  #: (n,) density relative to the prior with which each was drawn
    fold: IntArray  #: (n,)
    #: Fold, how its boxes were offered, and the candidates of each of its proposals.
    offered: tuple[tuple[int, OnBoxes, list[int]], ...]


def inner_loop(game: Game, folds: Sequence[Fold], epsilon: float, s: int) -> int:
    """Play round s until B acceptances or T_max simulations; the number of acceptances.

    The table of the game is the lookup table (the paper's D(ε) and u), to which rows are appended;
    its plan has B, T_max, and the number of pulls between two updates of the beliefs.  With a
    `lookahead` so many blocks may be begun before the oldest has come back, so that stragglers do
    not idle the others; beliefs are then as many blocks old.  The order of all updates is fixed.
    Blocks end at `milestones`, too: earlier budgets of a run that is extended.
    """
    table, plan = game.table, game.plan
    quota = _EASY * plan.quota if plan.grows else plan.quota
    n_accepted, begun = 0, len(table)  # line 1
    end, upto = plan.end_of_round(begun), begun
    pending: deque[tuple[Pulls, Callable[[], Simulations]]] = deque()
    while True:
        while n_accepted < quota and begun < end and len(pending) <= plan.lookahead:  # line 2
            if game.stop():
                return n_accepted
            if begun == upto:
                upto = min(end, plan.goal(begun))
            n = min(plan.block, upto - begun)  # line 3
            index = np.arange(begun, begun + n)
            pulled = pull_arms(game, folds, index)  # lines 4 to 7, and 10
            wait = game.simulate(pulled.theta, index)  # line 8
            pending.append((pulled, wait))
            begun += n
        if not pending:
            return n_accepted
        pulled, wait = pending.popleft()
        result = wait()
        record(table, game.problem, pulled, result, s)  # line 15
        update_beliefs(folds, pulled, result.distance)  # line 11
        n_accepted += compiled.count_below(result.distance, epsilon)  # lines 9 and 12


def pull_arms(game: Game, folds: Sequence[Fold], index: IntArray) -> Pulls:
    """Lines 4 to 7 and 10 for the simulations of these consecutive numbers (n,), each in its fold.

    The plan's share of the prior in q* bounds every weight by its inverse.  A policy decides on the
    arms in place of lines 4 to 6, as Algorithm 3 does.
    """
    problem, n, n_folds, first = game.problem, len(index), len(folds), int(index[0])
    cube, density = np.empty((n, folds[0].partition.boxes.d)), np.empty(n)
    arm: IntArray = np.empty(n, np.int32)
    theta = None  # where nothing is refused, and boxes alone draw: points are mapped together
    boxes_alone = game.rules.policy is None and game.plan.proposal == ("boxes",)
    if not (boxes_alone and problem.region.is_plain):
        theta = np.empty((n, len(problem.names)))
    offered: list[tuple[int, OnBoxes, list[int]]] = []
    for f, own in enumerate(folds):
        rows = range((f - first) % n_folds, n, n_folds)
        if not rows:
            continue
        if theta is None:
            on_boxes, n_drawn = _offer(game, own), [len(rows)]  # lines 4 to 6
            on_boxes.draw_into(cube, arm, density, rows, game.rng)  # lines 7, 8, and 10
        else:
            on_boxes, n_drawn = _pull_in_fold(game, own, rows, (cube, theta, arm, density))
        offered.append((f, on_boxes, n_drawn))
    if theta is None:
        theta = np.asarray(problem.region.to_theta(cube), dtype=np.float64)
    fold = index % n_folds if n_folds > 1 else np.zeros(n, np.int64)
    return Pulls(cube, theta, arm, density, fold, tuple(offered))


def _offer(game: Game, own: Fold) -> OnBoxes:
    """Lines 4 to 6: the boxes of a fold, to be played by what is believed of them now."""
    eta = own.rates()  # line 4: binned likelihood
    q = game.rules.utility.optimal_proposal(eta, own.partition.prior_mass)  # lines 5 and 6
    return own.offer(q, game.plan.defensive)


def _pull_in_fold(
    game: Game, own: Fold, rows: range, columns: Columns
) -> tuple[OnBoxes, list[int]]:
    """Lines 4 to 7 and 10 for some rows of a block, from all that a fold draws from."""
    problem, rng, policy, n = game.problem, game.rng, game.rules.policy, len(rows)
    fixed = None
    if policy is None:
        on_boxes = _offer(game, own)
    else:  # which may also fix the arms (Algorithm 3)
        fixed, q = policy.pull(own.beliefs.arms(), own.partition, n, rng)
        on_boxes = own.offer(q)
    if fixed is None:  # lines 7 and 8
        cube, theta, n_drawn = draw_from(problem, own.sources, n, rng)
    else:
        points = draw_in_arms(problem, own.partition, fixed, rng)
        own.sources[0].tally.add(points)
        cube, theta, n_drawn = points.cube, points.theta, [points.n_drawn]
    arm, density = density_of(cube, on_boxes, own.sources)  # line 10, u = 1 / density
    place: slice | IntArray = slice(rows.start, rows.stop, rows.step)
    if len(n_drawn) > 1:  # those of one source came after those of another
        place = rng.permutation(np.arange(rows.start, rows.stop, rows.step))
    for column, own_part in zip(columns, (cube, theta, arm, density), strict=True):
        column[place] = own_part
    return on_boxes, n_drawn


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
    for f, on_boxes, n_drawn in pulled.offered:
        folds[f].add(on_boxes, n_drawn)
    if len(folds) == 1:
        folds[0].beliefs.learn(pulled.arm, distance)
        return
    n = len(distance)
    for f, game in enumerate(folds):
        arm: IntArray = np.empty(n, np.int32)
        kept = np.empty(n)
        n_others = compiled.locate_others(
            *game.partition.boxes.tree.lookup, pulled.cube, distance, pulled.fold, f, arm, kept
        )
        game.beliefs.learn(arm[:n_others], kept[:n_others])
