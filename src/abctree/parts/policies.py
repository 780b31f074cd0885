"""Policies: which arms are played next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Arms, Partition
from abctree.protocols import Utility
from abctree.types import FloatArray, IntArray


@dataclass(frozen=True)
class UtilityProposal:
    """Arms in proportion to the proposal that is optimal for a utility (Algorithm 1, lines 4-7).

    Parameters
    ----------
    utility : Utility
        ω.
    defensive : float
        Share of the prior in the proposal, in [0, 1): bounds every weight by its inverse.
    """

    utility: Utility
    defensive: float = 0.05

    def pull(
        self,
        arms: Arms,
        partition: Partition,
        n: int,  # noqa: ARG002 - the arms are drawn from q by the inner loop
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[IntArray | None, FloatArray]:
        """No fixed arms, and the probability q (K,) to draw them with."""
        eta = arms.mean  # line 4: binned likelihood
        q = self.utility.optimal_proposal(eta, partition.prior_mass)  # lines 5 and 6
        return None, np.asarray((1.0 - self.defensive) * q + self.defensive * partition.prior_mass)
