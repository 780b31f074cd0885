"""`Particles`: what an SMC-ABC run proposes from a population, and the weights by all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Mixture, Table
from abctree.proposals.coordinates import Coordinates
from abctree.proposals.perturbations import KernelDensity
from abctree.protocols import Prior
from abctree.types import FloatArray, IntArray

#: Densities relative to the prior are kept within exp(± this): weights stay finite and positive.
FAR = 600.0
#: Parts of the particles, each weighted by what the others would have proposed.
_FOLDS = 10


@dataclass(frozen=True, eq=False)
class Particles:
    """Where a population is drawn from: a density over coordinates, known relative to the cube."""

    kernels: KernelDensity
    coordinates: Coordinates
    prior: Prior
    rows: IntArray  #: (N,) of the table, where its particles are

    def density(self, cube: FloatArray) -> FloatArray:
        """Density over the cube: (n, d) -> (n,), O(n N)."""
        return _exp(self.log_ratio(self.prior.from_cube(cube), cube))

    def log_ratio(self, theta: FloatArray, cube: FloatArray) -> FloatArray:
        """Log-density relative to the uniform law of the cube: (n, p), (n, d) -> (n,)."""
        z = self.coordinates.of(theta, cube)
        return np.asarray(self.kernels.log_density(z) - self.coordinates.theta(z)[1])

    def ratio_without_oneself(self, table: Table) -> FloatArray:
        """The density relative to the cube at all rows of the table: (n,).

        At a particle it is that by particles of other folds.  A kernel that is centred at a draw
        says nothing of where such draws come from, and would make its weight too small; so do
        those next to it, whose steps are wider in its direction if they were learned from it.
        """
        z = self.coordinates.of(table.theta, table.cube)
        log_base = self.coordinates.theta(z)[1]
        log_ratio = self.kernels.log_density(z) - log_base
        for fold in range(_FOLDS):
            own = np.arange(fold, len(self.rows), _FOLDS)
            rows, others = self.rows[own], self.kernels.without(own)
            log_density = -np.inf if others is None else others.log_density(z[rows])
            log_ratio[rows] = log_density - log_base[rows]
        return _exp(log_ratio)


def _exp(log_ratio: FloatArray) -> FloatArray:
    """The ratio, where it is a number: it need not be one in the tail of an unbounded prior."""
    return np.asarray(np.exp(np.minimum(log_ratio, FAR)))


def update_mixture(table: Table, mixture: Mixture) -> None:
    """Write M of all rows (n,) into the table, each by proposals learned without it.

    ``M(u) = n_prior + Σ_t N_t q_t(u)`` with N_t the points drawn for population t, refused ones
    included.
    """
    total = np.full(len(table), mixture.n_prior)
    for layer in mixture.layers:
        for n_drawn, law in layer:
            if isinstance(law, Particles):
                total += n_drawn * law.ratio_without_oneself(table)
    table.set_denominator(total)
