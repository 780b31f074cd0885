"""Points to simulate, and the sources that they are drawn from.

Candidates that a proposal, the prior or the constraint refuses cost no simulation: others are drawn
for them, and all are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from abctree.data import Partition
from abctree.errors import ParameterError
from abctree.kernels.compiled import densities
from abctree.problem import Problem
from abctree.proposals.proposal import OnBoxes, Proposal, UniformCube
from abctree.protocols import HasCubeDensity
from abctree.types import BoolArray, FloatArray, IntArray

#: Points refused in a row after which everything is taken to be refused.
_HOPELESS = 10_000_000
#: Most points that are proposed at once, beyond those that are wanted.
_BATCH = 1_000_000
#: Points of the cube for each draw of a prior that is known as a density.
_POINTS = 100
#: Share of the prior in the arms that are drawn again.
_ELSEWHERE = 1.0 / 256.0
#: Most points of a source that are drawn at once.
_AHEAD = 2000
#: Steps of the fixed-point iteration for the best shares.
_STEPS = 25
#: Least relative gain for which the standard shares are left, and what the first proposal keeps.
_GAIN, _KEPT = 0.07, 0.1
#: Share below which a proposal is left out: its density would be looked at for ever after.
_LEAST = 0.1
_NO_PRIOR = (
    "`constraint` must leave some of the prior, but refused {n} points in a row. "
    "Check its direction, or reparametrise."
)

#: What is known of proposed points: arrays of one length.
Columns: TypeAlias = tuple[Any, ...]


class Points(NamedTuple):
    """Points to simulate, and the candidates that were looked at for them."""

    cube: FloatArray  #: (n, d)
    theta: FloatArray  #: (n, p)
    looked: IntArray  #: (n,) candidates that were looked at when each was found
    n_drawn: int  #: candidates that were looked at for all of them

    def then(self, more: Points) -> Points:
        """These points, and more."""
        pairs = (self.cube, more.cube), (self.theta, more.theta)
        cube, theta = (np.concatenate(pair) for pair in pairs)
        looked = np.append(self.looked, self.n_drawn + more.looked)
        return Points(cube, theta, looked, self.n_drawn + more.n_drawn)

    def split(self, n: int) -> tuple[Points, Points]:
        """The first n points, and the others as if they had been drawn alone."""
        cube, theta, looked = self.cube, self.theta, self.looked
        n_drawn = int(looked[n - 1]) if n else 0
        others = Points(cube[n:], theta[n:], looked[n:] - n_drawn, self.n_drawn - n_drawn)
        return Points(cube[:n], theta[:n], looked[:n], n_drawn), others


def draw_allowed(
    propose: Callable[[int], Columns],
    allowed: Callable[..., BoolArray],
    n: int,
    hopeless: str = _NO_PRIOR,
    per_point: float = 1.0,
) -> tuple[Columns, int]:
    """The first n >= 1 allowed ones of proposed points, and how many were looked at for them.

    At first `per_point` points are proposed for each that is wanted.  If ten million in a row are
    refused, a `ParameterError` says `hopeless`, with their number in the place of ``{n}``.
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
    use = allowed.nonzero()[0][:n]
    return use, int(use[-1]) + 1 if 0 < n == len(use) else len(allowed)


def draw_points(
    problem: Problem, proposal: Proposal, n: int, rng: np.random.Generator, per_point: float = 1.0
) -> Points:
    """n points of a proposal that the constraint allows, others drawn again; see `draw_allowed`."""
    if n == 0:
        none = np.empty(0, dtype=np.int64)
        return Points(np.empty((0, problem.d)), np.empty((0, len(problem.names))), none, 0)

    to_theta, is_plain = problem.region.to_theta, problem.region.is_plain
    cube, kept = proposal.draw(int(n * per_point), rng)
    if is_plain and kept is None and len(cube) == n:  # nothing is refused
        theta = np.asarray(to_theta(cube), dtype=np.float64)
        return Points(cube, theta, np.arange(1, n + 1), n)
    drawn = iter([(cube, kept)])
    n_proposed = 0

    def propose(want: int) -> Columns:
        nonlocal n_proposed
        cube, kept = next(drawn, None) or proposal.draw(want, rng)
        kept = np.ones(want, dtype=bool) if kept is None else kept
        rows = slice(None) if kept.all() else kept
        theta = np.full((want, len(problem.names)), np.nan)
        theta[rows] = to_theta(cube[rows])
        looked = np.arange(n_proposed + 1, n_proposed + want + 1)
        n_proposed += want
        return cube, theta, looked, kept

    def allowed(cube: FloatArray, theta: FloatArray, _: IntArray, kept: BoolArray) -> BoolArray:
        if is_plain:
            return kept
        rows = np.flatnonzero(kept)
        rows = rows[problem.region.feasible(theta[rows], cube[rows])]
        answer = np.zeros(len(kept), dtype=bool)
        answer[rows] = True
        return answer

    (cube, theta, looked, _), _ = draw_allowed(propose, allowed, n, per_point=per_point)
    return Points(cube, theta, looked, int(looked[-1]))


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
    given = arm if partition.is_whole else None
    return draw_points(problem, OnBoxes(partition.boxes, share, given), len(arm), rng)


@dataclass
class Tally:
    """Points that became simulations, and candidates that were looked at for them."""

    n_kept: int = 0
    n_drawn: int = 0

    def add(self, points: Points) -> None:
        """Count points."""
        self.n_kept += len(points.cube)
        self.n_drawn += points.n_drawn

    @property
    def share(self) -> float:
        """Share of candidates that become simulations.

        Points are drawn until enough are kept, so (n - 1) / (N - 1) is unbiased.
        """
        return max(self.n_kept - 1, 1) / max(self.n_drawn - 1, 1)


@dataclass
class Source:
    """A law that a fold draws a share of its points from."""

    law: Proposal
    share: float
    tally: Tally = field(default_factory=Tally)
    n_left: int = 0  #: points that it is expected to be asked for: a call costs as much as many
    per_point: float = 1.0  #: candidates to begin with, for each of them
    n_drawn: int = 0  #: candidates of the blocks of this round that have come back
    _ready: Points | None = None

    def draw(self, problem: Problem, n: int, rng: np.random.Generator) -> Points:
        """The next n points."""
        ready, self._ready = self._ready, None
        n_ready = 0 if ready is None else len(ready.looked)
        if ready is None or n_ready < n:
            size = max(n - n_ready, min(self.n_left, _AHEAD))
            more = draw_points(problem, self.law, size, rng, self.per_point)
            self.n_left -= size
            self.tally.add(more)
            ready, n_ready = more if ready is None else ready.then(more), n_ready + size
        if n_ready > n:
            ready, self._ready = ready.split(n)
        return ready


def draw_from(
    problem: Problem, sources: Sequence[Source], n: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, list[int]]:
    """n points in all, from each source in proportion to its share: one source after the other.

    In the cube (n, d) and in user units (n, p), and the candidates of each source.
    """
    if len(sources) == 1:  # of which none is drawn ahead
        points = draw_points(problem, sources[0].law, n, rng)
        sources[0].tally.add(points)
        return points.cube, points.theta, [points.n_drawn]
    number = rng.multinomial(n, [source.share for source in sources]).tolist()
    parts = [source.draw(problem, m, rng) for source, m in zip(sources, number, strict=True)]
    cube = np.concatenate([points.cube for points in parts])
    theta = np.concatenate([points.theta for points in parts])
    return cube, theta, [points.n_drawn for points in parts]


def density_of(
    cube: FloatArray, on_boxes: OnBoxes, sources: Sequence[Source]
) -> tuple[IntArray, FloatArray]:
    """The boxes (n,) of points (n, d), and the density (n,) of what becomes a simulation there.

    Relative to the prior.  The first source draws `on_boxes`.  Refused candidates were drawn, too:
    a share of them became simulations.
    """
    arm: IntArray = np.empty(len(cube), np.int32)
    total = np.empty(len(cube))
    boxes = sources[0]
    densities(
        *on_boxes.boxes.tree.lookup, np.ascontiguousarray(cube), on_boxes.value, boxes.share,
        boxes.tally.share, arm, total,
    )  # fmt: skip
    for source in sources[1:]:
        total += source.share * source.law.density(cube) / source.tally.share
    return arm, total


def best_shares(
    weight: FloatArray, known: FloatArray, added: FloatArray, standard: FloatArray
) -> FloatArray:
    """λ (k,) that minimises the second moment of the weights, or the standard.

    The estimate of the moment is ``Σ_i w_i / (M_i + λ · q_i)``, with the weights w (n,) of accepted
    rows, what is `known` of M (n,), and what each proposal alone would add to it (n, k); it is
    convex, and ``λ_j ← λ_j √(Σ_i w_i q_ij / (M_i + λ · q_i)²)`` never raises it.  The standard (k,)
    is kept unless the gain is 7 %.  A tenth of the answer is the first proposal alone: what the
    rows have not seen yet is worth something, too.
    """
    share = np.full(len(standard), 1.0 / len(standard))
    for _ in range(_STEPS):
        total = known + added @ share
        share = share * np.sqrt(np.maximum((weight / total**2) @ added, 0.0))
        share /= max(share.sum(), np.finfo(float).tiny)
    share = np.where(share < _LEAST, 0.0, share)
    share /= share.sum()

    def moment(at: FloatArray) -> float:
        return float(weight @ (1.0 / (known + added @ at)))

    if not moment(share) <= (1.0 - _GAIN) * moment(standard):
        return standard
    return np.asarray(_KEPT * np.eye(len(standard))[0] + (1.0 - _KEPT) * share)


def prior_draws(problem: Problem, n: int, rng: np.random.Generator) -> FloatArray:
    """Draws (n, p) of the prior and the constraint; of a density by picking from many points."""
    plain = problem.region.is_plain or not isinstance(problem.prior, HasCubeDensity)
    points = draw_points(problem, UniformCube(problem.d), n if plain else _POINTS * n, rng)
    if plain:
        return points.theta
    weight = problem.region.weight(points.cube)
    return np.asarray(points.theta[rng.choice(len(weight), n, p=weight / weight.sum())])
