"""Points to simulate: from the prior, from boxes, or from kernels around accepted draws.

Points that the prior or the constraint refuses cost no simulation: others are drawn for them, and
all are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from abctree.data import Partition
from abctree.errors import ParameterError
from abctree.problem import Problem
from abctree.proposals.cube_kernels import CubeKernels
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
    """Feasible points of the cube, and the number of points drawn to get them."""

    cube: FloatArray
    theta: FloatArray
    arm: IntArray
    n_drawn: int


def draw_allowed(
    propose: Callable[[int], Columns],
    allowed: Callable[..., BoolArray],
    n: int,
    hopeless: str = _NO_PRIOR,
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

    Raises
    ------
    ParameterError
        If ten million points in a row are refused.
    """
    parts: list[Columns] = []
    have = n_drawn = refused = 0
    want = n
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


def draw_prior(problem: Problem, n: int, rng: np.random.Generator) -> Points:
    """n feasible points, uniform in the cube; the only arm is the cube.

    Raises
    ------
    ParameterError
        If the constraint refuses practically everything.
    """

    def propose(want: int) -> tuple[FloatArray, IntArray]:
        cube = np.maximum(rng.random((want, problem.d)), np.finfo(float).tiny)
        return cube, np.zeros(want, dtype=np.int64)

    return _feasible(problem, propose, n)


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

    return _feasible(problem, propose, n)


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

    return _feasible(problem, propose, n)


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
    cumulative = np.cumsum(partition.cube_proposal(q))
    # Only where no box needs more points than another do the arms as given have this law.
    given = [arm] if (partition.feasible == 1.0).all() else []

    def propose(want: int) -> tuple[FloatArray, IntArray]:
        which = given.pop() if given else pick(cumulative, want, rng)
        return partition.boxes.sample(which, rng), which

    return _feasible(problem, propose, len(arm))


def _feasible(
    problem: Problem, propose: Callable[[int], tuple[FloatArray, IntArray]], n: int
) -> Points:
    """The first n feasible ones of proposed points of the cube, each with its box."""

    def with_theta(want: int) -> Columns:
        cube, arm = propose(want)
        return cube, problem.prior.from_cube(cube), arm

    def allowed(cube: FloatArray, theta: FloatArray, arm: IntArray) -> BoolArray:  # noqa: ARG001
        return problem.region.feasible(theta, cube)

    if n == 0:
        cube, theta = np.empty((0, problem.d)), np.empty((0, len(problem.names)))
        return Points(cube, theta, np.empty(0, dtype=np.int64), 0)
    (cube, theta, arm), n_drawn = draw_allowed(with_theta, allowed, n)
    return Points(cube, theta, arm, n_drawn)


def pick(cumulative: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """n independent draws of Cat(q) from the cumulative sums of q (K,), in O(n log K)."""
    u = rng.random(n) * cumulative[-1]
    found = np.searchsorted(cumulative, u, side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))
