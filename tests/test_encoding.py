"""The linear-nonlinear encoding model against its likelihood."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.special import expit

from abctree import problems

from .conftest import z_score

model = sys.modules["abctree.problems.encoding"]


def seeds_of(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def expected_summaries(theta):
    """E[s | θ] = Σ_t σ(v_t · θ) v_t."""
    seen = model.design()
    return expit(seen @ theta) @ seen


def worst_z(theta_simulated, theta_expected, n=20_000):
    """Largest |z| of the ten mean summaries."""
    theta = np.tile(theta_simulated, (n, 1))
    s = model.summaries(theta, seeds_of(n))
    expected = expected_summaries(theta_expected)
    return max(abs(z_score(s[:, j], expected[j])) for j in range(10))


def test_summaries_have_the_means_of_the_model():
    assert worst_z(model.THETA_TRUE, model.THETA_TRUE) < 4.0


def test_a_slightly_wrong_filter_is_noticed():
    assert worst_z(model.THETA_TRUE * 1.05, model.THETA_TRUE) > 4.0


def test_number_of_spikes_has_the_variance_of_independent_bins():
    n = 20_000
    count = model.summaries(np.tile(model.THETA_TRUE, (n, 1)), seeds_of(n))[:, 0]
    p = expit(model.design() @ model.THETA_TRUE)
    variance = float((p * (1.0 - p)).sum())
    squares = (count - p.sum()) ** 2
    assert abs(z_score(squares, variance)) < 4.0
    assert abs(z_score(squares, 1.1 * variance)) > 4.0


def test_a_row_depends_on_its_own_parameters_and_seed_only():
    rng = np.random.default_rng(1)
    theta, seeds = rng.normal(size=(50, 10)), seeds_of(50)
    together = model.summaries(theta, seeds)
    alone = [model.summaries(theta[i : i + 1], seeds[i : i + 1])[0] for i in range(50)]
    assert np.array_equal(together, alone)


def test_design_holds_the_stimulus_at_nine_lags():
    seen = model.design()
    assert seen.shape == (100, 10)
    assert (seen[:, 0] == 1.0).all()
    for lag in range(1, 9):  # what bin t sees at a lag is what bin t - lag sees now
        assert np.array_equal(seen[lag:, 1 + lag], seen[:-lag, 1])
    assert abs(seen[:, 1].mean()) < 0.4
    assert 0.7 < seen[:, 1].std() < 1.3


def test_prior_is_that_of_goncalves_et_al():
    precision = np.linalg.inv(model.prior_covariance())
    d = np.diag(np.ones(9)) + np.diag(-np.ones(8), -1)
    f = d @ d + np.diag(np.sqrt(np.arange(9) / 9))
    assert precision[0, 0] == pytest.approx(0.5)
    assert precision[1:, 1:] == pytest.approx(f.T @ f)
    assert precision[0, 1:] == pytest.approx(np.zeros(9))


def test_observation_and_scale_are_what_the_model_gives():
    observed = model.summaries(model.THETA_TRUE[None], np.array([7], np.uint64))[0]
    assert observed == pytest.approx(model.OBSERVED, rel=1e-12)
    theta = np.random.default_rng(2).multivariate_normal(
        np.zeros(10), model.prior_covariance(), 20_000
    )
    assert model.summaries(theta, seeds_of(20_000)).std(axis=0) == pytest.approx(
        model.SCALE, rel=0.03
    )


def test_log_posterior_is_prior_times_bernoulli_likelihood():
    rng = np.random.default_rng(3)
    spikes = rng.random(100) < 0.4
    observed = spikes.astype(float) @ model.design()
    theta = rng.normal(size=(5, 10))
    p = expit(theta @ model.design().T)
    likelihood = np.where(spikes, np.log(p), np.log1p(-p)).sum(axis=1)
    precision = np.linalg.inv(model.prior_covariance())
    prior = np.array([-0.5 * t @ precision @ t for t in theta])
    difference = model.log_posterior(theta, observed) - (prior + likelihood)
    assert np.ptp(difference) < 1e-9


def test_linear_nonlinear_is_a_problem_of_ten_parameters():
    problem = problems.linear_nonlinear()
    assert problem.names == model.NAMES
    assert problem.d == 10
    assert problem.observed_summary == pytest.approx(model.OBSERVED)
