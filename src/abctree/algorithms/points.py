"""Points to simulate: from boxes, or from kernels around accepted draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Partition
from abctree.errors import ParameterError
from abctree.parts.cube_kernels import CubeKernels
from abctree.problem import Problem
from abctree.types import BoolArray, FloatArray, IntArray

#: Points refused in a row after which a constraint is taken to refuse everything.
_HOPELESS = 10_000_000


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

    def propose(want: int) -> tuple[FloatArray, IntArray]:
        arm = pick(cumulative, want, rng)
        return partition.boxes.sample(arm, rng), arm

    return _allowed(problem, n, propose)


def draw_around(
    problem: Problem,
    kernels: CubeKernels,
    partition: Partition,
    n: int,
    rng: np.random.Generator,
) -> Points:
    """n feasible points from kernels, and the boxes they fall into."""

    def propose(want: int) -> tuple[FloatArray, IntArray]:
        cube = kernels.draw(want, rng)
        return cube, partition.boxes.locate(cube)

    return _allowed(problem, n, propose)


def _allowed(
    problem: Problem, n: int, propose: Callable[[int], tuple[FloatArray, IntArray]]
) -> Points:
    """The first n feasible ones of proposed points, each with its box."""
    points = _room_for(problem, n)
    have = n_drawn = 0
    want = n
    while have < n:
        cube, arm = propose(want)
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
