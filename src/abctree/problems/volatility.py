"""The Heston model of stochastic volatility with seven summaries of the log returns."""

from __future__ import annotations

import numpy as np

from abctree.kernels import simulators
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.problem.distances import Scaled
from abctree.threads import releases_lock
from abctree.types import FloatArray, SeedArray

N_STEPS = 2000
DT = 1 / 252  #: years: one trading day
RISK_FREE_RATE = 0.02  #: μ, a year

#: Summaries of one path at THETA_TRUE, and their standard deviations under the prior.
OBSERVED, SCALE = np.array(
    [
        (-0.0011083431249719348, 0.0011746170190647524),  # mean of r
        (0.0011306622560765193, 0.0011974124920309528),  # mean of r²
        (-3.393019402902552, 0.4499059769404679),  # log sd of r
        (-6.35494914007769, 0.7478536743729546),  # log sd of r²
        (0.08185621530399897, 0.07950864700148169),  # autocorrelation of r² at lag 1
        (0.07535692316041895, 0.0792417970891926),  # at lag 2
        (-0.04201727297607343, 0.06702596583653375),  # correlation of r and r²
    ]
).T.copy()
THETA_TRUE = np.array([3.0, 0.25, 0.25, -0.6, 0.5])


@checks_keywords
def heston() -> Problem:
    """Asset prices with stochastic volatility, known by seven summaries of 2 000 log returns.

    θ = (κ, ξ, ν0, ρ, σ) ~ U(0, 10) × U(0, 1) × U(0, 1) × U(−1, 1) × U(0, 1): the speed at which
    the variance reverts to its mean ξ, its start ν0, the correlation ρ of its shocks with those of
    the price, and their size σ.  Euler steps of dt = 1/252 with full truncation (v⁺ = max(v, 0)),
    from the risk-free rate μ = .02 and standard normals a and b:

    r = (μ − v⁺/2) dt + √v⁺ √dt a,    v ← v + κ (ξ − v⁺) dt + σ √v⁺ √dt (ρ a + √(1 − ρ²) b).

    The price starts at 100, but only its log returns r enter.  The summaries are the means of r
    and r², the logs of the standard deviations of r and r², the autocorrelations of r² at lags 1
    and 2 (biased: divided by n times the variance), and the correlation of r and r².  The
    observation was simulated at θ = (3, .25, .25, −.6, .5).  The distance is Euclidean after
    division by the summaries' standard deviations under the prior.

    Returns
    -------
    Problem
        With parameters kappa, xi, nu0, rho, sigma.  About 50 µs a simulation.

    References
    ----------
    S. L. Heston, "A closed-form solution for options with stochastic volatility", Review of
    Financial Studies 6, 1993.  Full truncation: R. Lord, R. Koekkoek and D. van Dijk, "A
    comparison of biased simulation schemes for stochastic volatility models", Quantitative
    Finance 10, 2010.
    """
    return Problem(
        prior={
            "kappa": (0.0, 10.0),
            "xi": (0.0, 1.0),
            "nu0": (0.0, 1.0),
            "rho": (-1.0, 1.0),
            "sigma": (0.0, 1.0),
        },
        simulator=_summaries,
        observed=OBSERVED,
        distance=Scaled(by="std", scale=SCALE),
        vectorized="seeds",
    )


@releases_lock
def _summaries(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    return simulators.heston(theta, seeds, N_STEPS, RISK_FREE_RATE, DT)
