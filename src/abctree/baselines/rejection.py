"""Rejection ABC as a stream: prior draws of any number, the closest of which are kept.

It is the inner loop on one box.  Memory holds the kept rows and a few chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from abctree import streams
from abctree.data import Plan, Simulations
from abctree.problem import Problem
from abctree.proposals.points import draw_points
from abctree.proposals.proposal import UniformCube
from abctree.tree.game import Simulate
from abctree.types import BoolArray, FloatArray, IntArray

#: Prior draws that share a generator.  A change of it changes every run.
_SEGMENT = 8192


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Simulated prior draws."""

    index: IntArray  #: (n,) numbers of the simulations
    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    distance: FloatArray  #: (n,)
    summary: FloatArray  #: (n, ...)

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: BoolArray | IntArray) -> KeptRows:
        """Copy some of the rows."""
        return KeptRows(*(column[rows] for column in vars(self).values()))

    def with_columns(self, n: int) -> KeptRows:
        """The rows with n numbers of summary: all that there are, or 0 for none."""
        flat = self.summary.reshape(len(self), -1)[:, :n]
        return KeptRows(self.index, self.cube, self.theta, self.distance, flat)

    @staticmethod
    def join(parts: list[KeptRows]) -> KeptRows:
        """Rows one after the other."""
        if len(parts) == 1:
            return parts[0]
        return KeptRows(*map(np.concatenate, zip(*(vars(p).values() for p in parts), strict=True)))


class PriorDraws:
    """Prior draws by their numbers: the same whatever the size of the chunks they are taken in."""

    def __init__(self, problem: Problem, root: int, first: int) -> None:
        self._problem, self._generators = problem, streams.Generators(root)
        self._next = first  #: number of the first draw after the segment at hand
        self._cube = np.empty((0, problem.d))
        self._theta = np.empty((0, len(problem.names)))
        self._size = self._cost = 0  #: draws of the segment at hand, and points drawn for them
        self._before = 0  #: points drawn for earlier segments

    def take(self, n: int) -> tuple[FloatArray, FloatArray, float]:
        """The next n draws (n, d) and (n, p), and the points drawn so far, refused ones included.

        Of a segment that has been used in part, the points are counted in proportion.
        """
        cubes, thetas = [], []
        while n > 0:
            if not len(self._cube):
                self._draw()
            m = min(n, len(self._cube))
            cubes.append(self._cube[:m])
            thetas.append(self._theta[:m])
            self._cube, self._theta = self._cube[m:], self._theta[m:]
            n -= m
        used = self._size - len(self._cube)
        n_drawn = self._before + self._cost * used / max(self._size, 1)
        if len(cubes) == 1:
            return cubes[0], thetas[0], n_drawn
        return np.concatenate(cubes), np.concatenate(thetas), n_drawn

    def _draw(self) -> None:
        # Segments are numbered by the draw that they begin with.  The last one is whole, too, so
        # that the draws are the same with a larger budget.
        self._before += self._cost
        n = self._size = _SEGMENT
        rng = self._generators(self._next)
        self._next += n
        whole = UniformCube(self._problem.d)
        if self._problem.region.is_plain:  # none is refused
            self._cube, _ = whole.draw(n, rng)
            self._theta, self._cost = self._problem.region.to_theta(self._cube), n
            return
        drawn = draw_points(self._problem, whole, n, rng)
        self._cube, self._theta, self._cost = drawn.cube, drawn.theta, drawn.n_drawn


class Closest:
    """The rows with the smallest distances of a stream, in the order in which they came.

    Of equal distances at the border the first ones are kept, and the others are counted: then each
    that was kept stands for several.  Without a number to `keep` all are, failures included.
    """

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._parts: list[KeptRows] = []
        self._held = 0
        self._worst = np.inf  #: the largest distance kept, once there are enough
        self._nearest_dropped = np.inf
        self._n_dropped = 0  #: rows dropped at exactly that distance

    @property
    def n_held(self) -> int:
        """Rows held, at most about twice as many as are kept in the end."""
        return self._held

    @property
    def worst(self) -> float:
        """No row at this distance or further is taken any more; inf until enough are held."""
        return self._worst

    def add(self, rows: KeptRows) -> None:
        """Offer rows that come after all others so far."""
        if self._keep is not None:
            # What is further than the nearest dropped so far makes no difference.
            which = np.flatnonzero(rows.distance <= self._nearest_dropped)
            near = rows.distance[which] < self._worst
            self._drop(rows.distance[which[~near]])
            rows = rows.take(which[near])
        if len(rows):
            self._parts.append(rows)
            self._held += len(rows)
        if self._keep is not None and self._held >= 2 * self._keep:
            self._select(self._keep)

    def needed(self, done: Simulations) -> Simulations:
        """The next simulations without what makes no difference here: far distances become inf.

        Those of the nearest row that is not taken stay, for `finish` counts them.
        """
        far = done.distance >= self._worst
        if self._keep is None or not far.any():
            return done
        nearest = done.distance[far].min()
        distance = np.where(far & (done.distance > nearest), np.inf, done.distance)
        summary = done.summary.copy()
        summary[far] = np.nan
        return replace(done, distance=distance, summary=summary)

    def finish(self) -> tuple[KeptRows | None, FloatArray, float]:
        """The rows, how many each stands for (n,), and the ε up to which they are complete.

        None without a row.
        """
        if self._keep is not None and self._held > self._keep:
            self._select(self._keep)
        if not self._parts:
            return None, np.empty(0), self._nearest_dropped
        rows = KeptRows.join(self._parts)
        stands_for = np.ones(len(rows))
        border = self._nearest_dropped
        tied = rows.distance == border
        if np.isfinite(border) and tied.any():
            n = np.count_nonzero(tied)
            stands_for[tied] = (n + self._n_dropped) / n
            border = float(np.nextafter(border, np.inf))
        return rows, stands_for, border

    def _select(self, keep: int) -> None:
        rows = KeptRows.join(self._parts)
        # Stable: of equal distances the earlier row comes first.
        order = np.argsort(rows.distance, kind="stable")
        self._drop(rows.distance[order[keep:]])
        self._worst = float(rows.distance[order[keep - 1]])
        self._parts = [rows.take(np.sort(order[:keep]))]
        self._held = keep

    def _drop(self, distance: FloatArray) -> None:
        nearest = float(distance.min(initial=np.inf))
        if nearest < self._nearest_dropped:
            self._nearest_dropped, self._n_dropped = nearest, 0
        if nearest == self._nearest_dropped < np.inf:
            self._n_dropped += int(np.count_nonzero(distance == nearest))


def rejection(
    draws: PriorDraws,
    closest: Closest,
    simulate: Simulate,
    plan: Plan,
    unit: int,
    n_columns: int,
) -> Iterator[float]:
    """Simulations after those of the pilot, in chunks that end when the caller stops asking.

    Chunks are blocks of the plan.  They end at multiples of `unit`, rows which must be simulated
    together, and at the plan's milestones: their size changes nothing.  So many as its `lookahead`
    may be begun before the oldest has come back; `n_columns` numbers of a summary are kept.

    Yields the number of prior points drawn so far, refused ones included.
    """
    pending: deque[tuple[IntArray, FloatArray, FloatArray, float, Callable[[], Simulations]]]
    pending = deque()
    begun, last = plan.n_pilot, plan.n_simulations
    while begun < last or pending:
        while begun < last and len(pending) <= plan.lookahead:
            end = min((begun + plan.block + unit - 1) // unit * unit, plan.goal(begun))
            index = np.arange(begun, end)
            cube, theta, n_drawn = draws.take(len(index))
            pending.append((index, cube, theta, n_drawn, simulate(theta, index)))
            begun = end
        index, cube, theta, n_drawn, wait = pending.popleft()
        done = wait()
        rows = KeptRows(index, cube, theta, done.distance, done.summary)
        closest.add(rows.with_columns(n_columns))
        yield n_drawn
