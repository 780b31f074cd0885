"""The pilot: prior draws that scale the distance and give the first tolerance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.algorithms.inner_loop import Block, draw_points, record
from abctree.data import Boxes, Simulations, Table
from abctree.errors import SimulatorError
from abctree.problem import Discrepancy, Problem, finite_rows
from abctree.protocols import Executor

#: Simulations that are made and looked at before all others.
_LOOK_AT = 5
#: Reasons of failure that the parameters are not to blame for.
_WRONG = ("WrongShapeError", "WrongTypeError", "SimulatorError: ")
_SIMILARITY = "SimulatorError: distance must be at least 0"


@dataclass(frozen=True)
class Pilot:
    """What the pilot found: the problem with its distance scaled, and what was drawn."""

    problem: Problem
    simulations: Simulations
    n_drawn: tuple[int, ...]  #: prior points drawn in each fold, refused ones included


def run_pilot(
    problem: Problem,
    table: Table,
    executor: Executor,
    n: int,
    n_folds: int,
    root: int,
    rng: np.random.Generator,
) -> Pilot:
    """Simulate n prior draws into an empty table (round 0).

    The first simulations are looked at before the rest is made, so that a simulator of the wrong
    shape costs nothing.

    Raises
    ------
    SimulatorError
        If the first simulations have the wrong shape, or all of them fail.
    """
    drawn, n_drawn = _prior_draws(problem, n, n_folds, rng)
    index = np.arange(n)
    work = Discrepancy(problem, root)
    probe = min(n, max(_LOOK_AT, problem.unit))
    result = executor.submit(work, drawn.theta[:probe], index[:probe], problem.unit)()
    _look_at(result, probe)
    if n > probe:
        rest = executor.submit(work, drawn.theta[probe:], index[probe:], problem.unit)
        result = Simulations.join([result, rest()])
    if problem.needs_pilot:
        problem = problem.fitted(result.summary[finite_rows(result.summary)])
        result = problem.measured(result, drawn.theta, index)
    record(table, problem, drawn, result, 0)
    return Pilot(problem, result, n_drawn)


def _prior_draws(
    problem: Problem, n: int, n_folds: int, rng: np.random.Generator
) -> tuple[Block, tuple[int, ...]]:
    whole = problem.measure(Boxes.whole(problem.d))
    fold = np.arange(n) % n_folds
    cube = np.empty((n, problem.d))
    theta = np.empty((n, len(problem.names)))
    n_drawn = []
    for f in range(n_folds):
        rows = np.flatnonzero(fold == f)
        points = draw_points(problem, whole, np.ones(1), len(rows), rng)
        cube[rows], theta[rows] = points.cube, points.theta
        n_drawn.append(points.n_drawn)
    arm = np.zeros(n, dtype=np.int64)
    proposal = np.full(n, sum(n_drawn) / n)  # 1 without a constraint
    return Block(cube, theta, arm, proposal, fold, ()), tuple(n_drawn)


def _look_at(first: Simulations, n: int) -> None:
    """Stop at once when the very first simulations cannot be right."""
    wrong = [f for f in first.failures if f.reason.startswith(_WRONG)]
    similar = [f for f in wrong if f.reason.startswith(_SIMILARITY)]
    if len(wrong) == n or similar:
        message = (similar or wrong)[0].reason.partition(": ")[2].rstrip(".")
        raise SimulatorError(f"{message}. Run `problem.check()` for a dry run.")
