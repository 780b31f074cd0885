"""The linear-nonlinear encoding model: ten parameters, and a likelihood to judge methods by."""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels import simulators
from abctree.kernels.generator import start_state, uniform
from abctree.kernels.jit import jit
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.problem.distances import Scaled
from abctree.problem.priors import MultivariateNormal
from abctree.threads import releases_lock
from abctree.types import FloatArray, SeedArray

N_BINS = 100  #: of time, each with a spike or without
N_LAGS = 9  #: the current bin and the eight before it
NAMES = ("beta", *(f"f{lag}" for lag in range(N_LAGS)))

#: Seed of the stimulus, a stream of the library's own generator; the observed spikes are of seed 7.
_STIMULUS_SEED = 2024

#: A filter that answers to the recent past and is inhibited by what was before.
THETA_TRUE = np.array([-1.0, 0.8, 1.2, 1.0, 0.5, 0.0, -0.4, -0.5, -0.3, -0.1])
#: Summaries of spikes at THETA_TRUE, and their standard deviations under the prior.
OBSERVED, SCALE = np.array(
    [
        (39.0, 16.2482),  # count of spikes
        (11.39939301314409, 9.35537),  # sums of the stimulus, from lag 0 to 8
        (20.58439908302354, 12.3761),
        (19.49661448993014, 13.5643),
        (14.356020674262309, 12.039),
        (4.531346990006908, 10.5501),
        (-1.3137060369810705, 10.2659),
        (-2.5976248243019637, 11.2325),
        (-13.539707748244753, 11.5683),
        (1.677755163711228, 11.1247),
    ]
).T.copy()


@checks_keywords
def linear_nonlinear() -> Problem:
    """Spikes of a neuron that filters white noise (the paper's linear-nonlinear encoding model).

    In each of 100 bins of time there is a spike with probability σ(v_t · f + β), σ the logistic
    function and v_t the stimulus, standard normal white noise, in bin t and the eight bins before
    it.  θ = (β, f), ten parameters.  The prior is that of Gonçalves et al. (2020): β has variance
    2 and f ~ N(0, (FᵀF)⁻¹) with F = D² + diag(√(l/9)), D the first differences, which makes
    filters smooth that fade with the lag.  The paper does not state its prior.

    The summaries are the number of spikes and the sums of the stimulus at each lag over the bins
    with a spike: they are sufficient.  The distance is Euclidean after division by their standard
    deviations under the prior.  `log_posterior` is the truth.

    Returns
    -------
    Problem
        With parameters beta, f0, ..., f8.  About 1 µs a simulation.

    References
    ----------
    P. J. Gonçalves et al., "Training deep neural density estimators to identify mechanistic models
    of neural dynamics", eLife 9, 2020.
    """
    return Problem(
        prior={NAMES: MultivariateNormal(np.zeros(10), prior_covariance())},
        simulator=summaries,
        observed=OBSERVED,
        distance=Scaled(by="std", scale=SCALE),
        vectorized="seeds",
    )


def prior_covariance() -> FloatArray:
    """(10, 10) Covariance of (β, f) under the prior."""
    differences = np.eye(N_LAGS) - np.eye(N_LAGS, k=-1)
    root = differences @ differences + np.diag(np.sqrt(np.arange(N_LAGS) / N_LAGS))
    covariance = np.zeros((N_LAGS + 1, N_LAGS + 1))
    covariance[0, 0] = 2.0
    covariance[1:, 1:] = np.linalg.inv(root.T @ root)
    return covariance


def design() -> FloatArray:
    """(100, 10) What each bin sees: one for the bias, then the stimulus at lags 0 to 8."""
    # The noise begins eight bins early, so that every lag of every bin exists.
    before = N_LAGS - 1
    noise = simulators.normal_draws(np.array([_STIMULUS_SEED], np.uint64), N_BINS + before)[0]
    lags = [noise[before - lag : before - lag + N_BINS] for lag in range(N_LAGS)]
    return np.stack([np.ones(N_BINS), *lags], axis=1)


@releases_lock
def summaries(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """Count of spikes and spike-triggered sums of the stimulus: (n, 10), (n,) -> (n, 10)."""
    return _summaries(np.ascontiguousarray(theta), seeds, design())


@jit
def _summaries(theta: FloatArray, seeds: SeedArray, seen: FloatArray) -> FloatArray:
    n, k = theta.shape
    out = np.zeros((n, k))
    state = np.empty(4, np.uint64)
    for i in range(n):
        start_state(state, seeds[i])
        for t in range(len(seen)):
            drive = 0.0
            for j in range(k):
                drive += seen[t, j] * theta[i, j]
            if uniform(state) * (1.0 + math.exp(-drive)) < 1.0:
                for j in range(k):
                    out[i, j] += seen[t, j]
    return out


def log_posterior(theta: FloatArray, observed: FloatArray = OBSERVED) -> FloatArray:
    """Log of prior times likelihood, up to a constant: (n, 10) -> (n,).

    The log-likelihood is s · θ − Σ_t log(1 + exp(v_t · θ)) with s the observed summaries (10,).
    """
    theta = np.asarray(theta, dtype=np.float64)
    precision = np.linalg.inv(prior_covariance())
    prior = -0.5 * np.einsum("ia,ab,ib->i", theta, precision, theta)
    log_likelihood = theta @ observed - np.logaddexp(0.0, theta @ design().T).sum(axis=1)
    return np.asarray(prior + log_likelihood)
