"""`Fold`: one of the games that a run plays side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from abctree.data import Mixture, Partition, Steps
from abctree.kernels import compiled
from abctree.proposals.points import Source
from abctree.proposals.proposal import OnBoxes
from abctree.protocols import Beliefs
from abctree.tree.model_weights import ModelWeights
from abctree.types import FloatArray


@dataclass
class Fold:
    """One fold's game: its partition, what it believes, and what it draws from."""

    partition: Partition
    beliefs: Beliefs
    mixture: Mixture  #: proposals of earlier rounds
    models: ModelWeights | None = None  #: of a utility that compares models
    beside: tuple[Source, ...] = ()  #: laws that draw beside the boxes, the same for a round
    sources: tuple[Source, ...] = field(init=False)  #: of a block's points, the boxes first
    density: FloatArray = field(init=False)  #: (K,) Σ_t N_t c_t of the boxes in this round

    def __post_init__(self) -> None:
        self.density = np.zeros(len(self.partition))
        whole = OnBoxes(self.partition.boxes, self.partition.prior_mass)  # until a block is asked
        rest = 1.0 - sum(source.share for source in self.beside)
        self.sources = (Source(whole, rest), *self.beside)

    def rates(self) -> FloatArray:
        """η (K,) as the utility counts them."""
        eta = self.beliefs.arms().mean
        return eta if self.models is None else eta * self.models.in_boxes(self.partition.boxes)

    def offer(self, q: FloatArray, defensive: float = 0.0) -> OnBoxes:
        """Let the boxes be played as q (K,) from now on, but for a share as under the prior."""
        on_boxes = OnBoxes(self.partition.boxes, self.partition.cube_proposal(q, defensive))
        self.sources[0].law = on_boxes
        return on_boxes

    def counted(self, cube: FloatArray) -> FloatArray:
        """How much a rate counts at points (n, d): (n,)."""
        return np.ones(len(cube)) if self.models is None else self.models.at(cube)

    def add(self, on_boxes: OnBoxes, n_drawn: Sequence[int]) -> None:
        """Count the candidates of a block that has come back, first those of the boxes."""
        volume = self.partition.boxes.volume
        compiled.add_densities(self.density, n_drawn[0], on_boxes.share, volume)
        if self.beside:
            for source, n in zip(self.beside, n_drawn[1:], strict=False):
                source.n_drawn += n

    def mixture_so_far(self) -> Mixture:
        """All proposals of the fold, this round's included."""
        on_boxes = Steps(self.partition.boxes, self.density.copy())
        beside = ((float(s.n_drawn), s.law) for s in self.beside if s.n_drawn)
        return self.mixture.plus((1.0, on_boxes), *beside)
