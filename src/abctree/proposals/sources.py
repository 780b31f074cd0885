"""`Source`: a proposal that a share of a round is drawn from; and which shares are best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from abctree.problem import Problem
from abctree.proposals.points import Points, draw_points
from abctree.proposals.proposal import Proposal
from abctree.types import FloatArray

#: Steps of the fixed-point iteration.
_STEPS = 25
#: Least relative gain for which the standard shares are left, and what the first proposal keeps.
_GAIN, _KEPT = 0.07, 0.1


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
    n_ahead: int = 0  #: points that are drawn at once, for a call costs as much as many of them
    per_point: float = 1.0  #: candidates to begin with, for each of them
    n_drawn: int = 0  #: candidates of the blocks of this round that have come back
    _ready: Points | None = None

    def draw(self, problem: Problem, n: int, rng: np.random.Generator) -> Points:
        """The next n points."""
        ready = self._ready
        if ready is None or len(ready.cube) < n:
            more = draw_points(problem, self.law, max(n, self.n_ahead), rng, self.per_point)
            self.tally.add(more)
            ready = more if ready is None else ready.then(more)
        first, self._ready = ready.split(n)
        return first


def draw_from(
    problem: Problem, sources: Sequence[Source], n: int, rng: np.random.Generator
) -> list[Points]:
    """n points in all, from each source in proportion to its share."""
    if len(sources) == 1:
        return [sources[0].draw(problem, n, rng)]
    number = rng.multinomial(n, [source.share for source in sources]).tolist()
    return [source.draw(problem, m, rng) for source, m in zip(sources, number, strict=True)]


def density_of(cube: FloatArray, sources: Sequence[Source]) -> FloatArray:
    """Density (n,), relative to the prior, of what becomes a simulation.

    Refused candidates were drawn, too: a share of them did.
    """
    total = np.zeros(len(cube))
    for source in sources:
        total += source.share * source.law.density(cube) / source.tally.share
    return total


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

    def moment(at: FloatArray) -> float:
        return float(weight @ (1.0 / (known + added @ at)))

    if not moment(share) <= (1.0 - _GAIN) * moment(standard):
        return standard
    return np.asarray(_KEPT * np.eye(len(standard))[0] + (1.0 - _KEPT) * share)
