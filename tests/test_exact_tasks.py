"""Exact posterior draws of slcp and bernoulli_glm: ranks of what made the data are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from benchmarks.sbibm import exact, tasks

N_DATA, N_DRAWS = 150, 200


def ranks(sampler, made):
    """(N_DATA, p) Share of exact draws below the parameters that made the data."""
    found = []
    for i, (theta, x) in enumerate(made):
        draws = sampler(x, N_DRAWS, np.random.default_rng([1, i]))
        assert draws.shape == (N_DRAWS, len(theta))
        found.append((draws < theta).mean(axis=0))
    return np.array(found)


def p_values(found):
    return np.array([stats.kstest(column, "uniform").pvalue for column in found.T])


@pytest.mark.slow
def test_slcp_is_calibrated_on_its_own_data(tmp_path):
    sampler, rng = exact.Slcp(tmp_path), np.random.default_rng(0)
    theta = rng.uniform(-3.0, 3.0, (N_DATA, 5))
    made = list(zip(theta, tasks.slcp(theta, rng), strict=True))
    assert (p_values(ranks(sampler, made)) > 0.002).all()
    twin = [(t, x.reshape(4, 2)[:, ::-1].ravel()) for t, x in made]
    assert p_values(ranks(sampler, twin)).min() < 1e-6


@pytest.mark.slow
def test_bernoulli_glm_is_calibrated_on_its_own_data(tmp_path):
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(100), rng.standard_normal((100, 9))])
    np.savez(tmp_path / "bernoulli_glm_design.npz", design=design)
    sampler = exact.BernoulliGlm(tmp_path)
    theta = rng.multivariate_normal(np.zeros(10), tasks.glm_covariance(), N_DATA)
    spikes = rng.random((N_DATA, 100)) < expit(theta @ design.T)
    made = list(zip(theta, spikes @ design, strict=True))
    assert (p_values(ranks(sampler, made)) > 0.002).all()
    sampler.precision = 9.0 * sampler.precision  # twin: another prior
    assert p_values(ranks(sampler, made)).min() < 1e-6
