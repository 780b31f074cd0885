"""The Lotka-Volterra jump process with nine summaries, a hard case for the first rounds."""

from __future__ import annotations

import numpy as np

from abctree.kernels import simulators
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.problem.distances import Scaled
from abctree.threads import releases_lock
from abctree.types import FloatArray, SeedArray

START = np.array([100.0, 50.0])  #: prey and predators at time 0
TIMES = np.linspace(0.0, 25.0, 101)  #: when they are recorded
MAX_EVENTS = 10_000  #: after so many the state is held

#: Summaries of one path at THETA_TRUE, and their standard deviations under the prior.
OBSERVED, SCALE = np.array(
    [
        (52.51485148514851, 136.3168261701564),  # mean of x
        (113.51485148514851, 838.5092883189724),  # mean of y
        (6.661933587336447, 0.4108720380293781),  # log(variance + 1) of x
        (7.350129645173582, 1.8132402982976634),  # log(variance + 1) of y
        (0.9534083906871413, 0.057246573202213616),  # autocorrelation of x at lag 1
        (0.8805160462730409, 0.0372600909657957),  # of x at lag 2
        (0.9633781583272997, 0.12071421772370841),  # of y at lag 1
        (0.9036922963321824, 0.12977064265406463),  # of y at lag 2
        (-0.08542505639579259, 0.22023038728710603),  # correlation of x and y
    ]
).T.copy()
THETA_TRUE = np.array([0.8, 0.008, 0.008, 0.4])


@checks_keywords
def lotka_volterra() -> Problem:
    """Prey and predators as a Markov jump process, known by nine summaries of one path.

    With x prey and y predators, four independent events change one of them by one: prey are born
    at rate θ1 x and eaten at θ2 x y, predators are born at θ3 x y and die at θ4 y; θ ~ U(0, 1)^4.
    The process starts at (100, 50) and is recorded every .25 from 0 to 25; after 10 000 events
    the state is held.  The simulation is exact (D. T. Gillespie, "Exact stochastic simulation of
    coupled chemical reactions", J. Phys. Chem. 81, 1977).

    The summaries are the means of x and y, log(variance + 1) of x and y, the autocorrelations of
    x at lags 1 and 2, then those of y (biased: divided by n times the variance), and the
    correlation of x and y.  The observation was simulated at θ = (.8, .008, .008, .4).  The
    distance is Euclidean after division by the summaries' standard deviations under the prior.

    The posterior fills about a millionth of the prior, and most of the prior dies out at once:
    half of all distances lie above 29, a hundredth below 26.6.

    Returns
    -------
    Problem
        With parameters theta1, ..., theta4.  About 15 µs a prior draw.

    References
    ----------
    A. J. Lotka, Elements of Physical Biology, 1925; V. Volterra, Nature 118, 1926.  The summaries
    are those of G. Papamakarios and I. Murray, "Fast ε-free inference of simulation models with
    Bayesian conditional density estimation", NeurIPS 2016.
    """
    return Problem(
        prior={f"theta{j + 1}": (0.0, 1.0) for j in range(4)},
        simulator=_summaries,
        observed=OBSERVED,
        distance=Scaled(by="std", scale=SCALE),
        vectorized="seeds",
    )


@releases_lock
def _summaries(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    return simulators.lotka_volterra(theta, seeds, START, TIMES, MAX_EVENTS)
