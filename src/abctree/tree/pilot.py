"""The pilot: prior draws that scale the distance and give the first tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from abctree.data import Boxes, Simulations, Table
from abctree.errors import SimulatorError
from abctree.problem import Problem, finite_rows
from abctree.problem.measurement import NegativeDistanceError
from abctree.proposals.points import draw_points
from abctree.proposals.proposal import OnBoxes
from abctree.tree.game import Simulate
from abctree.tree.inner_loop import Pulls, record
from abctree.types import FloatArray, IntArray

#: Simulations that are made and looked at before all others, and the least in a block.
_LOOK_AT = 5
#: Blocks after each of which the pilot can end, at most.
_BLOCKS = 20
#: Reasons of failure that the parameters are not to blame for.
_WRONG = (
    "WrongShapeError", "WrongTypeError", "WrongLabelsError", "SimulatorError: ",
    NegativeDistanceError.REASON,
)  # fmt: skip


@dataclass(frozen=True)
class Pilot:
    """What the pilot found: the problem with its distance scaled, and what was drawn."""

    problem: Problem
    simulations: Simulations
    n_drawn: tuple[float, ...]  #: prior points drawn in each fold, refused ones included
    interrupted: bool = False  #: cut short by Ctrl-C


def run_pilot(
    problem: Problem,
    table: Table,
    simulate: Simulate,
    n: int,
    n_folds: int,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> Pilot:
    """Simulate n prior draws into an empty table (round 0), or fewer.

    The first simulations are looked at before the rest is begun, so that a simulator of the wrong
    shape costs nothing: it is a `SimulatorError`.  `stop` is asked after every block, about a
    twentieth of the pilot, whether to end; Ctrl-C cuts the pilot short, once there is a simulation.
    """
    draws = _prior_draws(problem, n, n_folds, rng)
    done, interrupted = _simulated(simulate, draws.theta, n_folds, problem.unit, stop)
    m = len(done.distance)
    drawn, n_drawn = draws.first(m)
    if problem.needs_pilot:
        usable = finite_rows(done.summary)
        problem = problem.fitted(done.summary[usable], drawn.cube[usable])
        done = problem.measurement.measured(done, drawn.theta, np.arange(m))
    record(table, problem, drawn, done, 0)
    return Pilot(problem, done, n_drawn, interrupted)


def _simulated(
    simulate: Simulate,
    theta: FloatArray,
    n_folds: int,
    unit: int,
    stop: Callable[[], bool],
) -> tuple[Simulations, bool]:
    """The first rows, as many as there is time for, and whether Ctrl-C came between."""
    first, *others = _blocks(len(theta), n_folds, unit)
    try:
        done = [simulate(theta[first], first)()]
    except KeyboardInterrupt:
        raise KeyboardInterrupt("before the first simulations had come back") from None
    _look_at(done[0], len(first))
    try:
        # All at once: a pool has something to do, and what is not waited for is given up.
        waiting = [] if stop() else [simulate(theta[rows], rows) for rows in others]
        for wait in waiting:
            done.append(wait())
            if stop():
                break
    except KeyboardInterrupt:
        return Simulations.join(done), True
    return Simulations.join(done), False


def _blocks(n: int, n_folds: int, unit: int) -> list[IntArray]:
    """Rows of each block.  The first has one of every fold; only the first may cut a unit."""
    size = max(_LOOK_AT, -(-n // _BLOCKS))
    ends = [min(n, max(_LOOK_AT, n_folds, unit))]
    while ends[-1] < n:
        ends.append(min(n, -(-(ends[-1] + size) // unit) * unit))
    return [np.arange(a, b) for a, b in pairwise([0, *ends])]


@dataclass(frozen=True)
class _Draws:
    """Prior draws."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    fold: IntArray  #: (n,)
    n_drawn: tuple[int, ...]  #: points drawn in each fold, refused ones included

    def first(self, m: int) -> tuple[Pulls, tuple[float, ...]]:
        """The first m draws, and in proportion the points drawn for them in each fold."""
        n_folds = len(self.n_drawn)
        made = np.bincount(self.fold[:m], minlength=n_folds)
        share = made / np.bincount(self.fold, minlength=n_folds)
        n_drawn = tuple((np.array(self.n_drawn) * share).tolist())
        arm = np.zeros(m, dtype=np.int64)
        proposal = np.full(m, sum(n_drawn) / m)  # 1 without a constraint
        block = Pulls(self.cube[:m], self.theta[:m], arm, proposal, self.fold[:m], offered=())
        return block, n_drawn


def _prior_draws(problem: Problem, n: int, n_folds: int, rng: np.random.Generator) -> _Draws:
    prior = OnBoxes(Boxes.whole(problem.d), np.ones(1))
    fold = np.arange(n) % n_folds
    cube = np.empty((n, problem.d))
    theta = np.empty((n, len(problem.names)))
    n_drawn = []
    for f in range(n_folds):
        points = draw_points(problem, prior, len(range(f, n, n_folds)), rng)
        cube[f::n_folds], theta[f::n_folds] = points.cube, points.theta
        n_drawn.append(points.n_drawn)
    return _Draws(cube, theta, fold, tuple(n_drawn))


def _look_at(first: Simulations, n: int) -> None:
    """Stop at once when the very first simulations cannot be right."""
    wrong = [f for f in first.failures if f.reason.startswith(_WRONG)]
    if len(wrong) == n:
        message = wrong[0].reason.partition(": ")[2].rstrip(".")
        raise SimulatorError(f"{message}. Run `problem.check()` for a dry run.")
