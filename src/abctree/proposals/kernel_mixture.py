"""`KernelMixture`: the density of all that an SMC-ABC run proposed, relative to the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Mixture, Table
from abctree.problem import Problem
from abctree.proposals.coordinates import Coordinates
from abctree.proposals.perturbations import KernelDensity
from abctree.types import FloatArray, IntArray

#: Densities relative to the prior are kept within exp(± this): weights stay finite and positive.
FAR = 600.0


@dataclass(frozen=True, eq=False)
class Proposal:
    """Where a population is drawn from: a density over coordinates, known relative to the cube."""

    density: KernelDensity
    coordinates: Coordinates
    rows: IntArray  #: (N,) of the table, where its particles are

    def log_ratio(self, theta: FloatArray, cube: FloatArray) -> FloatArray:
        """Log-density relative to the uniform law of the cube: (n, p), (n, d) -> (n,)."""
        z = self.coordinates.of(theta, cube)
        return np.asarray(self.density.log_density(z) - self.coordinates.theta(z)[1])

    def ratio_without_oneself(self, table: Table) -> FloatArray:
        """The density relative to the cube at all rows of the table: (n,).

        At a particle it is that of the other particles: a kernel that is centred at a draw says
        nothing of where such draws come from, and would make its weight too small.
        """
        log_ratio = self.log_ratio(table.theta, table.cube)
        own = table.theta[self.rows], table.cube[self.rows]
        log_base = self.coordinates.theta(self.coordinates.of(*own))[1]
        with np.errstate(divide="ignore"):
            itself = np.log(self.density.weight) + self.density.log_peak - log_base
        others = -np.expm1(np.minimum(itself - log_ratio[self.rows], 0.0))
        ratio = _exp(log_ratio)
        ratio[self.rows] *= others / np.maximum(1.0 - self.density.weight, 1e-300)
        return ratio


def _exp(log_ratio: FloatArray) -> FloatArray:
    """The ratio, where it is a number: it need not be one in the tail of an unbounded prior."""
    return np.asarray(np.exp(np.minimum(log_ratio, FAR)))


@dataclass(frozen=True, eq=False)
class KernelMixture(Mixture):
    """The prior draws and all populations of a run, for weights by the mixture of all proposals.

    ``M(u) = n_prior + Σ_t N_t q_t(u)`` with N_t the points drawn for population t, refused ones
    included.
    """

    problem: Problem
    proposals: tuple[tuple[float, Proposal], ...] = ()  #: N_t and q_t, from the second population

    def __call__(self, cube: FloatArray) -> FloatArray:
        """M at points of the cube: (n, d) -> (n,), O(N) for each population."""
        theta = self.problem.prior.from_cube(cube)
        total = np.full(len(cube), self.n_prior)
        for n_drawn, proposal in self.proposals:
            total += n_drawn * _exp(proposal.log_ratio(theta, cube))
        return total

    def at_rows(self, table: Table) -> FloatArray:
        """M at the run's own draws (n,), each without the kernels that are centred at itself."""
        total = np.full(len(table), self.n_prior)
        for n_drawn, proposal in self.proposals:
            total += n_drawn * proposal.ratio_without_oneself(table)
        return total


def update_mixture(table: Table, mixture: Mixture) -> None:
    """Write M of all rows into the table, for weights by the mixture of all populations."""
    if isinstance(mixture, KernelMixture):
        table.set_denominator(mixture.at_rows(table))
