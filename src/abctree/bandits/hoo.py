"""Hierarchical optimistic optimisation on the cube (Bubeck, Munos, Stoltz and Szepesvári 2011)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.types import FloatArray

#: Cells are not cut below this depth for each dimension: their midpoints would coincide.
_DEEPEST = 50


@dataclass(frozen=True, eq=False)
class Climb:
    """Points that HOO evaluated, and where it ended."""

    point: FloatArray  #: (T, d) in the cube, in order
    reward: FloatArray  #: (T,) what came of them
    most_played: FloatArray  #: (d,) centre of the cell that a walk to the busier child ends in
    last: FloatArray  #: (d,) the point that would be evaluated next


@dataclass(eq=False, slots=True)
class _Cell:
    """A node (h, i) of the tree."""

    lower: FloatArray
    upper: FloatArray
    depth: int
    n: int = 0  #: evaluations in the cell
    total: float = 0.0  #: of their rewards
    bound: float = math.inf  #: B, of the largest value in the cell
    children: list[_Cell] = field(default_factory=list)

    @property
    def centre(self) -> FloatArray:
        return np.asarray(0.5 * (self.lower + self.upper))


@checks_keywords
def hoo(
    reward: Callable[[FloatArray], float],
    d: int,
    budget: int,
    *,
    rho: float = 0.5,
    nu1: float = 1.0,
    truncate: bool = True,
) -> Climb:
    """Optimistic search for the largest mean reward on the unit cube (T-HOO).

    A binary tree of cells, cut at midpoints, one coordinate after the other.  Each evaluation is at
    the centre of the leaf that a walk to the child of the larger bound ends in, where the bounds
    are ``U = mean + √(2 log T / n) + ν₁ ρ^depth`` and ``B = min(U, max of the children's B)``.

    Parameters
    ----------
    reward : callable
        A point (d,) to a reward in [0, 1]; it may be random.
    d : int
        Dimensions, at least 1.
    budget : int
        T, evaluations, at least 1.
    rho, nu1 : float
        ρ in (0, 1] and ν₁ > 0: how fast the reward may vary within a cell.  The paper takes 1
        for both, at which the bounds of deep cells do not shrink.
    truncate : bool
        Whether leaves are cut only to the depth that is worth it at a known budget,
        ``((log T) / 2 − log(1/ν₁)) / log(1/ρ)``; with ρ = 1 there is no such depth.

    Returns
    -------
    Climb
        Points, rewards, and two answers.

    Notes
    -----
    The version for a known budget, whose bounds change along one path only: O(depth) an evaluation.
    Nothing here is random but `reward`.
    """
    check_rule("rho", rho, "in (0, 1]", "Try 0.5.")
    check_rule("nu1", nu1, "above 0", "Try 1.")
    check_rule("d", d, "at least 1")
    check_rule("budget", budget, "at least 1")
    deepest = float(_DEEPEST * d)
    if truncate and rho < 1.0:
        worth = (0.5 * math.log(budget) + math.log(nu1)) / -math.log(rho)
        deepest = min(deepest, math.ceil(worth))
    root = _Cell(np.zeros(d), np.ones(d), 0)
    _cut(root)
    point, got = np.empty((budget, d)), np.empty(budget)
    for t in range(budget):
        path = _path(root, lambda cell: cell.bound)
        point[t] = path[-1].centre
        got[t] = reward(point[t])
        if path[-1].depth <= deepest:
            _cut(path[-1])
        _learn(path, float(got[t]), 2.0 * math.log(budget), rho, nu1)
    last = _path(root, lambda cell: cell.bound)[-1]
    return Climb(point, got, _path(root, lambda cell: cell.n)[-1].centre, last.centre)


def _path(root: _Cell, worth: Callable[[_Cell], float]) -> list[_Cell]:
    """From the root to a leaf, by the child that is worth more; the second of two alike."""
    path = [root]
    while path[-1].children:
        left, right = path[-1].children
        path.append(right if worth(right) >= worth(left) else left)
    return path


def _cut(cell: _Cell) -> None:
    feature = cell.depth % len(cell.lower)
    middle = cell.centre[feature]
    upper, lower = cell.upper.copy(), cell.lower.copy()
    upper[feature] = lower[feature] = middle
    cell.children = [
        _Cell(cell.lower, upper, cell.depth + 1),
        _Cell(lower, cell.upper, cell.depth + 1),
    ]


def _learn(path: list[_Cell], reward: float, log_term: float, rho: float, nu1: float) -> None:
    """Count an evaluation, and bring the bounds up to date from the leaf to the root."""
    for cell in reversed(path):
        cell.n += 1
        cell.total += reward
        own = cell.total / cell.n + math.sqrt(log_term / cell.n) + nu1 * rho**cell.depth
        best = max((child.bound for child in cell.children), default=math.inf)
        cell.bound = min(own, best)
