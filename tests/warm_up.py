"""Compile what tests call beside what `abctree warm-up` compiles; `make` does it once.

Else the first tests would, each worker by itself, while those wait that call the same.
"""

import warnings

import numpy as np

import abctree
from abctree import problems
from abctree.testing import check_belief_rule, check_partitioner, check_policy
from benchmarks.sbibm import odes
from examples import hare_lynx

READY = (
    problems.banana, problems.finite_normal, problems.gaussian_mixture, problems.heston,
    problems.linear_nonlinear, problems.lotka_volterra, hare_lynx.problem,
)  # fmt: skip


def main() -> None:
    """Call each once."""
    warnings.simplefilter("ignore", abctree.AbctreeWarning)
    for make in READY:
        abctree.rejection(make(), n_simulations=10, rng=0)
    for kernel in ("twice-covariance", "local"):
        for weights in ("population", "mixture"):
            given = {"n_simulations": 600, "n_particles": 100, "kernel": kernel, "weights": weights}
            abctree.smc(problems.gauss(2), rng=0, **given).posterior()
    check_partitioner(abctree.DynamicTree(n_particles=5), d=1)
    check_policy(abctree.TopTwo("adaptive"))
    check_belief_rule(abctree.MultiLevel())
    check_belief_rule(abctree.Counts())
    abctree.bandits.top_two([0.2, 0.6], 10, rng=0)
    abctree.bandits.identified([0.5, 0.5], [0.4, 0.7], [10], 10, rng=0)
    odes.sir_infected(np.array([[0.4, 0.1]]), 3, 1)
    odes.lotka_volterra_curves(np.array([[0.5, 0.02, 0.5, 0.02]]), 3, 1.0)


if __name__ == "__main__":
    main()
