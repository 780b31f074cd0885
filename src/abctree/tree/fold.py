"""`Fold`: one of the games that a run plays side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from abctree.data import Mixture, Partition
from abctree.proposals.cube_kernels import CubeKernels
from abctree.protocols import Beliefs
from abctree.types import FloatArray


@dataclass
class Tally:
    """Points that became simulations, and points drawn, with those that a constraint refused."""

    n_kept: int = 0
    n_drawn: int = 0

    def share(self, n_kept: int, n_drawn: int) -> float:
        """Share of drawn points that become simulations, with these the last to be drawn.

        Points are drawn until enough are kept, so (n - 1) / (N - 1) is unbiased.
        """
        self.n_kept += n_kept
        self.n_drawn += n_drawn
        return max(self.n_kept - 1, 1) / max(self.n_drawn - 1, 1)


@dataclass(frozen=True, eq=False)
class Companion:
    """Kernels that propose beside the boxes of a fold."""

    kernels: CubeKernels
    share: float  #: λ, the chance that a point is drawn from them, in (0, 1)
    tally: Tally = field(default_factory=Tally)

    def mixed(
        self, of_boxes: FloatArray, cube: FloatArray, n_kept: int, n_drawn: int
    ) -> FloatArray:
        """Density (n,) of the boxes and the kernels together, given that of the boxes.

        The last two are those of the kernels' points in this block.
        """
        of_kernels = self.kernels(cube) / self.tally.share(n_kept, n_drawn)
        return np.asarray((1.0 - self.share) * of_boxes + self.share * of_kernels)


@dataclass
class Fold:
    """One fold's game: its partition, what it believes, and what it has drawn so far."""

    partition: Partition
    beliefs: Beliefs
    mixture: Mixture  #: proposals on earlier partitions
    companion: Companion | None = None
    density: FloatArray = field(init=False)  #: (K,) Σ_t N_t c_t on this partition
    n_around: float = 0.0  #: points drawn from the companion's kernels
    tally: Tally = field(default_factory=Tally)  #: of points drawn from boxes

    def __post_init__(self) -> None:
        self.density = np.zeros(len(self.partition))

    def mixture_so_far(self) -> Mixture:
        """All proposals of the fold, this partition's included."""
        so_far = self.mixture.plus(self.partition.boxes, self.density.copy())
        if self.companion is None or self.n_around == 0.0:
            return so_far
        return so_far.beside(self.n_around, self.companion.kernels)
