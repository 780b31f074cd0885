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


@dataclass(frozen=True)
class Thompson:
    """Thompson sampling (Algorithm 3 without its top-two step): the arm whose draw is largest.

    Each pull draws every acceptance rate from its Beta belief and plays the arm with the largest
    ``η_k π(Ω_k) / |Ω_k|``, the posterior density of the box.  It seeks the mode: weights of such a
    run have a large variance, for its probabilities of the other arms vanish.

    Parameters
    ----------
    n_draws : int
        Draws of the beliefs from which the probability of each arm is estimated, for the weights.
    """

    n_draws: int = 256

    def pull(
        self, arms: Arms, partition: Partition, n: int, rng: np.random.Generator
    ) -> tuple[IntArray | None, FloatArray]:
        """n arms to play (n,), and the estimated probability q (K,) of each, never 0."""
        least = np.finfo(float).tiny
        alpha, beta = np.maximum(arms.alpha, least), np.maximum(arms.beta, least)
        eta = rng.beta(alpha, beta, size=(max(n, self.n_draws), len(arms)))  # lines 4 and 5
        density = partition.prior_mass / np.exp(partition.log_volume)  # line 6
        played = np.argmax(eta * density, axis=1)  # line 7
        share = np.bincount(played, minlength=len(arms)) / len(played)
        # One pseudo-draw in all keeps every weight finite.
        q = (share * len(played) + partition.prior_mass) / (len(played) + 1.0)
        return played[:n], q
