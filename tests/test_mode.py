"""The posterior mode from a table: where it is, how well it is known, and what it admits."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

import abctree
from abctree import problems
from abctree.answers.mode import find_mode, fit, landscape, places, regression
from abctree.problems import truth


def uniform_rows(n, d, rng, half_width=5.0):
    """θ ~ U(−5, 5)^d, x ~ N(θ, I), x_obs = 0: the mode is 0 at every tolerance."""
    theta = rng.uniform(-half_width, half_width, (n, d))
    return theta, np.linalg.norm(theta + rng.normal(size=(n, d)), axis=1)


def accept(theta, rate, rng):
    """Distances 0 with a probability and 1 else."""
    return np.where(rng.random(len(theta)) < rate, 0.0, 1.0)


# Where it is --------------------------------------------------------------------------------------


def test_mode_of_a_normal_posterior_is_found_within_its_error(rng):
    mode = find_mode(*uniform_rows(20_000, 2, rng), names=["a", "b"])
    assert (np.abs(mode.theta) < 4.0 * mode.standard_error).all()
    assert (mode.standard_error < 0.1).all()
    assert mode.contains([0.0, 0.0], 0.999)
    assert not mode.contains([1.0, 1.0], 0.999)
    assert mode.candidates[0].shape == "peak"
    assert mode.notes == ()


def normal_prior(rng, n=20_000, sd=1.0):
    """θ ~ N(0, sd²), x ~ N(θ, 1), x_obs = 2: the likelihood's mode is 2, the posterior's 1."""
    theta = rng.normal(0.0, sd, (n, 1))
    return theta, np.abs(theta[:, 0] + rng.normal(size=n) - 2.0)


def exact_mode(epsilon):
    def loss(t):
        rate = stats.norm.cdf(2.0 + epsilon - t) - stats.norm.cdf(2.0 - epsilon - t)
        return -stats.norm.logpdf(t) - np.log(rate)

    return optimize.minimize_scalar(loss, bounds=(-1.0, 3.0), method="bounded").x


def test_mode_is_the_posteriors_and_not_the_likelihoods(rng):
    theta, distance = normal_prior(rng)
    mode = find_mode(theta, distance, log_prior=stats.norm.logpdf(theta[:, 0]))
    assert abs(mode.theta[0] - exact_mode(mode.epsilon)) < 3.5 * mode.standard_error[0]
    assert exact_mode(mode.epsilon) == pytest.approx(1.0, abs=0.1)
    likelihood = find_mode(theta, distance)  # the twin, which knows no prior
    assert likelihood.theta[0] - exact_mode(mode.epsilon) > 5.0 * mode.standard_error[0]


def test_mode_of_a_run_is_the_posteriors():
    problem = abctree.Problem(
        {"a": stats.norm(0, 1)}, lambda theta, rng: theta + rng.normal(size=theta.shape),
        observed=np.array([2.0]), vectorized=True,
    )  # fmt: skip
    mode = abctree.map_tree(problem, n_simulations=8_000, rng=3).mode()
    assert abs(mode.theta[0] - exact_mode(mode.epsilon)) < 3.5 * mode.standard_error[0]
    assert mode.standard_error[0] < 0.15


@pytest.mark.slow
def test_mode_does_not_depend_on_units(rng):
    theta, distance = normal_prior(rng)
    prior = stats.norm.logpdf(theta[:, 0])
    one = find_mode(theta, distance, log_prior=prior)
    other = find_mode(1e9 * theta - 7.0, 1e-3 * distance, log_prior=prior - 50.0)
    assert (other.theta + 7.0) / 1e9 == pytest.approx(one.theta, rel=1e-4)
    assert other.standard_error / 1e9 == pytest.approx(one.standard_error, rel=1e-4)
    assert other.epsilon == pytest.approx(1e-3 * one.epsilon)


# How well it is known -----------------------------------------------------------------------------


def fitted(seed, d=1, n=1_500, top=0.6):
    """A fit of rows that are proposed unevenly: acceptance is .6 exp(−|θ|²/2)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1.5, (n, d))
    rate = top * np.exp(-0.5 * (x**2).sum(axis=1))
    bounds = np.full((d, 2), [-np.inf, np.inf]).T
    distance, prior = accept(x, rate, rng), 25.0 * np.eye(d)
    rows = fit.Rows(np.arange(n), x, distance, 0.5, np.zeros(n), bounds, prior)
    return fit.fit_peak(fit.climb(rows, np.full(d, 0.4), np.eye(d)))


def test_error_ellipse_covers_as_it_says():
    fits = [fit for fit in map(fitted, range(100)) if fit.shape == "peak"]
    assert len(fits) > 93
    surprise = np.array([float(fit.peak[0] ** 2 / fit.covariance[0, 0]) for fit in fits])

    def p_value(surprise):
        inside = int((surprise < stats.chi2(1).ppf(0.9)).sum())
        return stats.binomtest(inside, len(surprise), 0.9).pvalue

    assert p_value(surprise) > 1e-3
    assert p_value(4.0 * surprise) < 1e-3  # the twin: half the standard error
    assert p_value(surprise / 4.0) < 1e-2


def test_spread_is_that_of_the_posterior():
    spread = np.mean([fitted(seed, d=2, n=8_000, top=0.15).spread for seed in range(8)], axis=0)
    assert spread == pytest.approx(np.eye(2), abs=0.25)


def errors_with_a_prior(power, monkeypatch, observed=1.5, n_tables=8):
    """(n, 2) Errors of the mode, and stated ones: θ ~ N(0, 4), x ~ N(θ, 1), ε = .8, prior draws."""
    monkeypatch.setattr(regression, "POWER", power)
    prior, epsilon, found = stats.norm(0.0, 2.0), 0.8, []

    def loss(t):
        rate = stats.norm.cdf(observed + epsilon - t) - stats.norm.cdf(observed - epsilon - t)
        return -prior.logpdf(t) - np.log(rate)

    exact = optimize.minimize_scalar(loss, bounds=(-1.0, 4.0), method="bounded").x
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        theta = prior.rvs((10_000, 1), random_state=rng)
        distance = np.abs(theta[:, 0] + rng.normal(size=len(theta)) - observed)
        log_prior = prior.logpdf(theta[:, 0])
        mode = find_mode(theta, distance, log_prior=log_prior, epsilon=epsilon)
        found.append((mode.theta[0] - exact, mode.standard_error[0]))
    return np.array(found)


def test_mode_with_an_informative_prior_is_unbiased_and_its_error_covers(monkeypatch):
    """The twin is a quadratic of the log-odds: off the top of the likelihood it is biased."""

    def z_score(found):
        return found[:, 0].mean() / (found[:, 0].std(ddof=1) / np.sqrt(len(found)))

    def p_value(found):
        inside = int((np.abs(found[:, 0]) < 1.645 * found[:, 1]).sum())
        return stats.binomtest(inside, len(found), 0.9).pvalue

    found = errors_with_a_prior(8, monkeypatch)
    assert abs(z_score(found)) < 3.5
    assert found[:, 0].std() / np.sqrt(len(found)) < 0.006  # of a posterior of .97
    assert p_value(found) > 1e-3
    logistic = errors_with_a_prior(1, monkeypatch, n_tables=6)
    assert abs(z_score(logistic)) > 10.0
    assert p_value(logistic) < 1e-5


@pytest.mark.parametrize("power", [1, 8])
def test_regression_is_at_its_maximum(power, rng, monkeypatch):
    monkeypatch.setattr(regression, "POWER", power)
    z = rng.normal(size=(400, 2))
    accepted = rng.random(400) < 0.3
    design = regression.monomials(z, regression.powers_of(2, 2))
    ridge = np.array([1e-9] + [1e-3] * 5)

    def loss(beta):
        hit = -np.logaddexp(0.0, -power * (design @ beta)) / power  # log P
        miss = np.log(-np.expm1(np.minimum(hit, -1e-300)))
        return -(np.where(accepted, hit, miss).sum() - 0.5 * ridge @ beta**2)

    found = regression.quadratic(z, accepted, np.eye(2))
    beta = found.beta
    best = optimize.minimize(loss, np.array([-1.0] + [0.0] * 5), method="BFGS")
    assert beta == pytest.approx(best.x, abs=1e-3)
    assert loss(beta) <= best.fun + 1e-9
    step = 1e-3 * np.eye(6)[3]
    curvature = (loss(beta + step) + loss(beta - step) - 2.0 * loss(beta)) / 1e-6
    assert np.linalg.inv(found.covariance[:6, :6])[3, 3] == pytest.approx(curvature, rel=1e-3)


def test_quadratic_is_the_log_of_the_rate_where_it_is_small_and_never_more_than_one():
    q = np.array([-30.0, -3.0, np.log(0.5), 0.0, 3.0, 1e4])
    rate = np.exp(regression.log_rate(q))
    assert rate[:3] == pytest.approx(np.exp(q[:3]), rel=1e-3)
    assert (np.diff(rate[:5]) > 0.0).all()
    assert rate.max() == 1.0


def test_regression_ends_when_accepted_and_rejected_are_separated():
    z = np.linspace(-1.0, 1.0, 40)[:, None]
    found = regression.quadratic(z, np.abs(z[:, 0]) < 0.5, np.eye(1))
    assert np.isfinite(found.beta).all()
    assert (np.linalg.eigvalsh(found.covariance[:3, :3]) > 0.0).all()
    assert found.beta[2] < 0.0


def test_regression_ends_when_nearly_all_are_accepted(rng):
    z = rng.normal(size=(3_000, 2))
    accepted = np.arange(3_000) > 3
    found = regression.quadratic(z, accepted, np.eye(2))
    rate = np.exp(regression.log_rate(found.value(z)))
    assert rate.mean() == pytest.approx(0.9987, abs=1e-3)
    assert np.isfinite(found.covariance).all()


def test_polynomial_has_its_coefficients_as_derivatives(rng):
    powers = regression.powers_of(2, 3)
    assert powers.tolist() == [
        [0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2], [3, 0], [2, 1], [1, 2], [0, 3]
    ]  # fmt: skip
    q = regression.Surface(np.eye(2), 3, np.arange(1.0, 11.0), np.zeros(2))

    def value(a, b):  # by hand
        return (
            1 + 2 * a + 3 * b + 4 * a**2 / 2 + 5 * a * b + 6 * b**2 / 2
            + 7 * a**3 / 6 + 8 * a**2 * b / 2 + 9 * a * b**2 / 2 + 10 * b**3 / 6
        )  # fmt: skip

    z = rng.normal(size=2)
    assert float(q.value(z)) == pytest.approx(value(*z))
    assert q.value(z[None])[0] == pytest.approx(value(*z))
    slope, hessian = regression.derivatives(
        q.value, np.zeros(2), np.array([[2.0, 0.0], [-1.0, 3.0]])
    )
    assert slope == pytest.approx([2.0, 3.0], rel=1e-5)
    assert hessian == pytest.approx(np.array([[4.0, 5.0], [5.0, 6.0]]), rel=1e-5)


def test_surface_knows_its_derivatives_by_its_parameters(rng):
    surface = regression.Surface(
        np.array([[1.0, 0.0], [-0.4, 1.2]]), 3, rng.normal(size=10), np.array([0.2, -0.3])
    )
    y = rng.normal(size=(7, 2))
    by_parameters = surface.by_parameters(y)

    def moved(step):
        return dataclasses.replace(
            surface, beta=surface.beta + step[:10], rate=surface.rate + step[10:]
        )

    for k, step in enumerate(1e-5 * np.eye(12)):
        slope = (moved(step).value(y) - moved(-step).value(y)) / 2e-5
        assert by_parameters[:, k] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_expansion_of_a_polynomial_is_itself(rng):
    z, powers = rng.normal(size=(400, 3)), regression.powers_of(3, regression.degree_for(3))
    beta = rng.normal(size=len(powers))
    found = regression.expansion_of(z, regression.monomials(z, powers) @ beta, np.eye(3))
    assert found.beta == pytest.approx(beta, abs=1e-5)
    flat = regression.expansion_of(z, np.full(400, -2.5), np.eye(3))
    assert flat.value(z) == pytest.approx(np.full(400, -2.5))


def test_expansion_has_the_slope_at_its_centre_and_not_that_of_a_quadratic_fit(rng):
    z = rng.uniform(-2.0, 2.0, (300, 1))

    def log_prior(z):
        return stats.cauchy.logpdf(1.0 + 1.1 * z)

    slope = regression.expansion_of(z, log_prior(z[:, 0]), np.eye(1)).beta[1]
    assert slope == pytest.approx(-1.1, abs=0.02)
    near = np.exp(-0.5 * z[:, 0] ** 2)  # the twin
    plain = np.polyfit(z[:, 0], log_prior(z[:, 0]), 2, w=near)
    assert abs(plain[1] + 1.1) > 0.2


# Skewed likelihoods -------------------------------------------------------------------------------


def errors_of_a_scale(n_tables, n=4_000):
    """(n, 2) Errors of the mode of a scale, and stated ones: x = θ √(χ²₉/9), x_obs = 1."""
    found = []
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        theta = rng.uniform(0.2, 3.0, (n, 1))
        distance = np.abs(theta[:, 0] * np.sqrt(rng.chisquare(9, n) / 9.0) - 1.0)
        mode = find_mode(theta, distance, bounds=np.array([[0.01, 10.0]]))

        def loss(t, epsilon=mode.epsilon):
            ends = 9.0 * (np.array([1.0 - epsilon, 1.0 + epsilon]) / t) ** 2
            return -np.log(np.diff(stats.chi2.cdf(ends, 9))[0])

        exact = optimize.minimize_scalar(loss, bounds=(0.5, 2.0), method="bounded").x
        found.append((mode.theta[0] - exact, mode.standard_error[0]))
    return np.array(found)


def test_mode_of_a_skewed_likelihood_is_within_its_error(monkeypatch):
    """The twin is the quadratic alone, which is off by more the better it is known."""

    def surprise(found):
        known = np.isfinite(found[:, 1])
        assert known.mean() > 0.8
        return float(np.mean((found[known, 0] / found[known, 1]) ** 2))

    n = 10
    assert surprise(errors_of_a_scale(n)) < 1.0 + 3.5 * np.sqrt(2.0 / n)
    monkeypatch.setattr(fit, "SKEWNESSES", (1e-3,))
    monkeypatch.setattr(regression, "BEND", 1e-3)
    assert surprise(errors_of_a_scale(3)) > 4.0


# Several ------------------------------------------------------------------------------------------


def test_candidates_have_their_densities_relative_to_the_best():
    table = abctree.rejection(problems.gaussian_mixture(2), n_simulations=60_000, rng=2).table
    mode = find_mode(table.theta, table.distance)
    assert len(mode.candidates) == 2
    narrow, wide = mode.candidates
    assert np.abs(narrow.theta + 1.0).max() < 0.25
    assert np.abs(wide.theta - 2.0).max() < 0.6
    peaks = np.array([[2.0, 2.0], [-1.0, -1.0]])
    rate = truth.GaussianMixtureTruth(2).likelihood(peaks, mode.epsilon)
    assert narrow.density == 1.0
    assert wide.density == pytest.approx(rate[0] / rate[1], rel=0.35)
    assert wide.density < 0.4


def test_one_peak_has_no_rivals(rng):
    assert len(find_mode(*uniform_rows(10_000, 2, rng)).candidates) == 1


def lucky_cluster(rng):
    """Rows of a normal peak, and a dense cluster of which the middle was lucky by chance."""
    theta, distance = uniform_rows(3_000, 1, rng, half_width=6.0)
    cluster = np.linspace(0.28, 0.32, 170)[:, None]
    lucky = np.abs(cluster[:, 0] - 0.3) < 0.007
    hit = np.where(lucky, np.arange(170) % 20 < 12, np.arange(170) % 20 < 4)  # in truth .26
    return np.vstack([theta, cluster]), np.concatenate([distance, np.where(hit, 0.2, 1.0)])


def test_a_lucky_cluster_of_rows_is_no_peak(rng, monkeypatch):
    theta, distance = lucky_cluster(rng)
    mode = find_mode(theta, distance)
    assert abs(mode.theta[0]) < 3.5 * mode.standard_error[0]
    assert mode.spread[0, 0] > 0.1
    monkeypatch.setattr(
        places, "climb_in_scale", fit.climb
    )  # the twin: whatever a thin start shows
    thin = find_mode(theta, distance, epsilon=0.35)
    assert abs(thin.theta[0]) > 0.25
    assert thin.candidates[0].n_accepted < 120


def test_a_true_thin_peak_stands(rng):
    theta = np.concatenate([rng.uniform(-3.0, 3.0, 4_000), rng.uniform(0.7, 0.9, 300)])[:, None]
    at = theta[:, 0]
    rate = 0.2 * np.exp(-0.5 * at**2) + 0.6 * np.exp(-0.5 * ((at - 0.8) / 0.02) ** 2)
    mode = find_mode(theta, accept(theta, rate, rng), epsilon=0.5)
    assert mode.theta[0] == pytest.approx(0.8, abs=0.02)
    assert np.sqrt(mode.spread[0, 0]) < 0.06


def test_a_run_of_which_the_only_fit_climbs_away_has_a_mode():
    """With this seed no place keeps its fit: there was no candidate, and an IndexError."""
    problem = abctree.Problem(
        {"m": stats.cauchy()}, lambda theta, rng: theta[0] + rng.normal(), 3.0
    )
    mode = abctree.map_tree(problem, n_simulations=3_000, rng=9_024).mode()
    assert len(mode.candidates) == 1
    assert 0.0 < mode.theta[0] < 3.0


@pytest.mark.parametrize("seed", [38, 73])
def test_runs_that_were_lucky_in_a_thin_box_do_not_report_it(seed, monkeypatch):
    """Seeds of which the twin is at the thin box."""
    problem = abctree.Problem({"m": (-6.0, 6.0)}, lambda theta, rng: theta[0] + rng.normal(), 1.5)
    policy = abctree.TopTwo(defensive=0.05)
    result = abctree.map_tree(problem, n_simulations=3_000, rng=seed, policy=policy)
    mode = result.mode()
    assert abs(mode.theta[0] - 1.5) < 3.5 * mode.standard_error[0]
    monkeypatch.setattr(places, "climb_in_scale", fit.climb)
    twin = dataclasses.replace(result).mode()  # found anew
    assert abs(twin.theta[0] - 1.5) > 0.4


# What it admits -----------------------------------------------------------------------------------


def test_a_spread_is_never_more_than_the_priors():
    prior = np.array([[2.0, 0.9], [0.9, 1.0]])
    small = 0.1 * prior
    assert fit.within(small, prior) is small
    wide = fit.within(np.diag([0.01, 1e6]), prior)
    assert (np.linalg.eigvalsh(prior - wide) > -1e-9).all()
    assert wide[0, 0] == pytest.approx(0.01, rel=0.3)


def test_a_flat_top_has_no_ellipse(rng):
    theta = rng.random((10_000, 1))
    inside = np.abs(theta[:, 0] - 0.5) < 0.2
    mode = find_mode(theta, accept(theta, np.where(inside, 0.5, 0.0), rng), epsilon=0.5)
    assert mode.covariance is None
    assert 0.3 < mode.theta[0] < 0.7
    assert "no error" in " ".join(mode.notes)
    peaked = 0.5 * np.exp(-0.5 * ((theta[:, 0] - 0.5) / 0.1) ** 2)  # the twin: of the same width
    assert find_mode(theta, accept(theta, peaked, rng), epsilon=0.5).covariance is not None


def test_a_ridge_has_no_ellipse(rng):
    theta = rng.uniform(-3.0, 3.0, (12_000, 2))
    distance = np.abs(theta.sum(axis=1) + rng.normal(0.0, 0.5, len(theta)))
    mode = find_mode(theta, distance, names=["a", "b"])
    assert mode.covariance is None
    assert abs(mode.theta.sum()) < 0.4
    assert "a combination of a, b" in " ".join(mode.notes)
    with pytest.raises(abctree.ParameterError, match="`covariance` must be known"):
        mode.contains([0.0, 0.0])


def simulated(prior, means, scale):
    """A problem of normal noise around the means that parameters have."""
    return abctree.Problem(
        prior,
        lambda theta, rng: means(theta) + scale * rng.normal(size=means(theta).shape),
        observed=np.full(1, 6.0),
        vectorized=True,
    )


TEN = (0.0, 10.0)
RIDGES = {
    "b N": simulated({"b": TEN, "N": TEN}, lambda t: t[:, :1] * t[:, 1:], 0.05),
    "circle": simulated({"b": TEN, "N": TEN}, lambda t: np.hypot(t[:, :1], t[:, 1:]), 0.2),
    "b N, and one more": simulated(
        {"b": TEN, "N": TEN, "n": (0.0, 1.0)}, lambda t: t[:, :1] * t[:, 1:2], 0.05
    ),
    "sum of three": simulated(
        {"a": TEN, "b": TEN, "c": TEN}, lambda t: t.sum(axis=1, keepdims=True), 0.3
    ),
}


@pytest.mark.parametrize("name", RIDGES)
def test_a_ridge_is_said_to_be_none_of_a_peak(name):
    given = {"n_simulations": 6_000, "block": 600, "proposal": "boxes"}
    mode = abctree.abc_tree(RIDGES[name], rng=0, **given).mode()
    assert mode.covariance is None
    assert mode.notes


@pytest.mark.parametrize("n_flat", [1, 2])
def test_a_parameter_that_the_data_do_not_inform_is_named_and_its_spread_the_priors(n_flat):
    flat = {f"n{j}": (0.0, 1.0) for j in range(n_flat)}
    problem = simulated({"a": (0.0, 12.0), **flat}, lambda t: t[:, :1], 1.0)
    named = 0
    for seed in range(3):
        result = abctree.rejection(problem, n_simulations=6_000, rng=seed)
        mode = result.mode()
        assert np.isnan(mode.standard_error[1:]).all()
        assert (
            np.sqrt(np.diag(mode.spread)) <= np.array([12.0, *[1.0] * n_flat]) / 12**0.5 + 0.01
        ).all()
        named += "flat along" in " ".join(mode.notes)
        assert abs(mode.theta[0] - 6.0) < 4.0 * np.nan_to_num(mode.standard_error[0], nan=0.2)
    assert named >= 2


def test_a_tolerance_that_accepts_everything_shows_no_peak(rng):
    theta, distance = uniform_rows(4_000, 1, rng, half_width=1.0)
    mode = find_mode(theta, distance, epsilon=20.0)
    assert mode.covariance is None
    assert mode.notes


def test_a_mode_on_the_border_is_said_to_be_there(rng):
    theta = rng.random((15_000, 2)) * [5.0, 10.0] - [0.0, 5.0]
    x = theta + rng.normal(size=theta.shape)
    distance = np.hypot(x[:, 0] + 1.0, x[:, 1])
    mode = find_mode(theta, distance, names=["a", "b"], bounds=np.array([[0.0, 5.0], [-5.0, 5.0]]))
    assert mode.theta[0] == pytest.approx(0.0, abs=1e-9)
    assert abs(mode.theta[1]) < 4.0 * mode.standard_error[1]
    assert np.isnan(mode.standard_error[0])
    assert "end of the prior's support in a" in " ".join(mode.notes)
    assert mode.contains([3.0, 0.0], 0.999)  # a is not compared


@pytest.mark.parametrize("n_accepted", range(6))
def test_few_accepted_draws_give_a_place_or_say_that_there_is_none(n_accepted, rng):
    theta = rng.uniform(-1.0, 1.0, (500, 2))
    distance = np.full(500, np.inf)
    near = np.argsort(np.linalg.norm(theta - 0.3, axis=1))[:n_accepted]
    distance[near] = 0.1
    mode = find_mode(theta, distance)
    assert mode.covariance is None
    assert mode.notes
    assert mode.n_accepted == n_accepted
    if n_accepted == 0:
        assert np.isnan(mode.theta).all()
        assert mode.candidates == ()
    else:
        assert np.abs(mode.theta - 0.3).max() < 0.3
    assert str(mode.summary())
    json.dumps(mode.summary().to_dict(), allow_nan=False)


@pytest.mark.slow
def test_ten_dimensions_are_no_obstacle():
    mode = abctree.map_tree(problems.gauss(10), n_simulations=8_000, rng=1).mode()
    assert np.sqrt(np.mean(mode.theta**2)) < 0.7  # of a prior draw: 5.8


# Discrete parameters ------------------------------------------------------------------------------


def test_mode_over_values_is_the_value_of_the_highest_mass(rng):
    prior = np.array([0.1, 0.2, 0.4, 0.3])
    rate = np.array([0.9, 0.5, 0.2, 0.2])  # posterior ∝ .09, .10, .08, .06
    value = rng.choice(4, 60_000, p=prior)
    mode = find_mode(
        value[:, None].astype(float), accept(value, rate[value], rng), names=["j"],
        log_prior=np.log(prior)[value], bounds=np.full((1, 2), np.nan), epsilon=0.5,
    )  # fmt: skip
    assert mode.theta[0] == 1.0
    assert [c.theta[0] for c in mode.candidates] == [1.0, 0.0, 2.0, 3.0]
    assert mode.candidates[2].density == pytest.approx(0.8, rel=0.06)
    assert "with probability" in mode.notes[0]
    flat = find_mode(  # the twin: without the prior it is the likelihood's
        value[:, None].astype(float), accept(value, rate[value], rng),
        bounds=np.full((1, 2), np.nan), epsilon=0.5,
    )  # fmt: skip
    assert flat.theta[0] == 0.0


def test_mode_over_values_is_that_of_the_prior_when_all_rows_are_accepted():
    prior = np.array([0.2, 0.5, 0.3])
    value = np.repeat(np.arange(3), 7)
    mode = find_mode(
        value[:, None].astype(float), np.zeros(21),
        log_prior=np.log(prior)[value], bounds=np.full((1, 2), np.nan), epsilon=0.5,
    )  # fmt: skip
    assert mode.theta[0] == 1.0
    assert [c.density for c in mode.candidates] == pytest.approx([1.0, 0.6, 0.4])


@pytest.mark.parametrize("n", [20, 40])
def test_map_tree_over_few_integers_ends_when_every_simulation_is_accepted(n):
    problem = abctree.Problem(
        {"k": abctree.Integers(0, 3)}, lambda theta, rng: np.zeros(1), observed=[0.0]
    )
    assert abctree.map_tree(problem, n_simulations=n, rng=1).mode().theta[0] in range(4)


def test_integers_beside_a_continuous_parameter(rng):
    theta = np.column_stack([rng.integers(0, 4, 16_000), rng.uniform(-4.0, 4.0, 16_000)])
    x = theta + rng.normal(size=theta.shape) * [0.4, 0.7]
    distance = np.hypot(x[:, 0] - 2.0, x[:, 1] - 1.0)
    bounds = np.array([[np.nan, np.nan], [-4.0, 4.0]])
    mode = find_mode(theta, distance, names=["n", "a"], bounds=bounds)
    assert mode.theta[0] == 2.0
    assert abs(mode.theta[1] - 1.0) < 4.0 * mode.standard_error[1]
    assert mode.standard_error[0] == 0.0
    assert "the best values are n=2" in " ".join(mode.notes)


def test_categorical_and_fixed_parameters_of_a_problem():
    prior = {"kind": abctree.Categorical([0.0, 1.0, 2.0]), "a": (-4.0, 4.0), "c": 3.0}

    def simulate(theta, rng):
        noise = np.where(theta[:, 0] == 1.0, 0.4, 2.0)
        return theta[:, 1] + noise * rng.normal(size=len(theta))

    problem = abctree.Problem(prior, simulate, observed=np.array(1.0), vectorized=True)
    mode = abctree.map_tree(problem, n_simulations=6_000, rng=4).mode()
    assert mode.theta[0] == 1.0
    assert mode.theta[2] == 3.0
    assert mode.theta[1] == pytest.approx(1.0, abs=0.25)


# Runs of every kind -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["abc_tree", "rejection", "smc"])
def test_any_run_has_a_mode(method):
    problem = problems.gaussian_mixture(2)
    result = getattr(abctree, method)(problem, n_simulations=6_000, rng=6)
    mode = result.mode()
    assert np.abs(mode.theta + 1.0).max() < 0.25
    for name in ("quadratic", "kernel", "box"):
        assert np.abs(mode.estimates[name] + 1.0).max() < 0.8
    assert (mode.box[0] < mode.box[1]).all()
    assert result.mode(epsilon=1.0).epsilon == 1.0
    for wrong in ("near", [0.1], True, 0.0):
        with pytest.raises(abctree.ParameterError, match="`epsilon` must be above 0 or None, but"):
            result.mode(wrong)
    assert result.mode().run is result
    sent = pickle.loads(pickle.dumps(result))
    assert sent.mode().run is sent, "a pickle of the mode alone has none"


def test_a_table_without_rejected_rows_has_a_kernel_mode_only():
    result = abctree.rejection(problems.gaussian_mixture(2), n_simulations=40_000, rng=1, keep=600)
    mode = result.mode()
    assert np.abs(mode.theta + 1.0).max() < 0.6
    assert mode.covariance is None
    assert mode.theta.tolist() == mode.estimates["kernel"].tolist()
    assert (mode.n_simulations, mode.n_accepted) == (40_000, 600)
    assert "closest simulations only" in mode.notes[0]
    json.dumps(mode.summary().to_dict(), allow_nan=False)


def test_a_constraint_that_excludes_the_peak_leaves_an_allowed_mode():
    problem = abctree.Problem(
        {"a": (-3.0, 3.0), "b": (-3.0, 3.0)},
        lambda theta, rng: theta + 0.5 * rng.normal(size=theta.shape),
        observed=np.array([0.5, 0.5]),
        vectorized=True,
        constraint=lambda p: p["a"] + p["b"] < 0.0,
    )
    result = abctree.rejection(problem, n_simulations=8_000, rng=1)
    mode = result.mode()
    assert mode.theta.sum() < 0.0
    assert np.abs(mode.theta).max() < 1.0


def test_a_mode_on_the_border_of_a_constraint_is_near_it():
    """The twin is any accepted simulation.  The posterior is highest at 0, among those allowed."""
    problem = abctree.Problem(
        {"a": (-3.0, 3.0), "b": (-3.0, 3.0)},
        lambda theta, rng: theta + rng.normal(size=theta.shape),
        observed=np.array([0.2, 0.2]),
        vectorized=True,
        constraint=lambda p: p["a"] + p["b"] < 0.0,
    )
    found, twin = [], []
    for seed in range(6):
        result = abctree.rejection(problem, n_simulations=3_000, rng=seed)
        mode = result.mode()
        if "outside the constraint" in " ".join(mode.notes):
            found.append((mode.theta**2).sum())
            near = result.table.theta_of(result.table.distance < mode.epsilon)
            twin.append((near**2).sum(axis=1).mean())
    assert len(found) > 2
    assert np.mean(found) < 0.1
    assert np.mean(twin) > 0.4


@pytest.mark.slow
def test_a_mode_among_many_discrete_values_has_no_fit_and_says_so():
    """Values that few simulations share: none of them need be accepted at the tolerance."""
    prior = {
        "n": abctree.Integers(1, 7), "k": abctree.Categorical([1.0, 2.0, 10.0]),
        "p": stats.poisson(3.0), "big": stats.poisson(1e7),
        "a": (-5.0, 5.0), "b": stats.norm(1.0, 2.0), "z": stats.norm(0.0, 1.0),
    }  # fmt: skip
    scale = np.array([1.0 / 7.0, 1e-7, 1.0, 1.0, 1.0])
    problem = abctree.Problem(
        prior, lambda t, rng: scale * t[:, [0, 3, 4, 5, 6]] + rng.normal(size=(len(t), 5)),
        np.zeros(5), vectorized=True,
    )  # fmt: skip
    mode = abctree.map_tree(problem, n_simulations=300, rng=0).mode()
    assert np.isfinite(mode.theta).all()
    assert np.isnan(mode.standard_error[:4]).all()
    assert mode.notes


def test_the_document_has_the_constants_of_the_code():
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "map-tree.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| ([^|]*) \|", text, flags=re.MULTILINE)
    assert 10 < len(rows) <= 15
    for module, name, said in rows:
        value = getattr(importlib.import_module(f"abctree.answers.mode.{module}"), name)
        values = value if isinstance(value, tuple) else (value,)
        assert [float(number) for number in said.split(", ")] == [float(v) for v in values], name


# Kernel modes -------------------------------------------------------------------------------------


def test_kernel_mode_of_normal_draws_is_near_their_mean(rng):
    x = rng.normal(size=(1_000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]]) + 3.0
    assert landscape.kernel_mode(x, np.ones(1_000)) == pytest.approx([3.0, 3.0], abs=0.35)


def test_kernel_mode_is_drawn_to_weight(rng):
    x = np.concatenate([rng.normal(-2.0, 0.3, 400), rng.normal(2.0, 0.3, 200)])[:, None]
    weight = np.repeat([1.0, 8.0], [400, 200])
    assert landscape.kernel_mode(x, weight)[0] == pytest.approx(2.0, abs=0.3)
    assert landscape.kernel_mode(x, np.ones(600))[0] == pytest.approx(-2.0, abs=0.3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_kernel_mode_of_a_few_draws_is_among_them(n):
    x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])[:n]
    at = landscape.kernel_mode(x, np.ones(n))
    assert 0.0 <= at[0] <= n - 1
    assert at[1] == pytest.approx(1.0)


def test_a_tolerance_of_zero_is_refused(rng):
    run = abctree.rejection(problems.gauss(1), n_simulations=50, rng=rng)
    with pytest.raises(abctree.ParameterError, match="`epsilon` must be above"):
        run.mode(epsilon=0.0)


def test_a_posterior_that_rises_over_a_narrow_prior_is_not_said_to_be_the_same_everywhere():
    """It is twenty times as high at one end as at the other, and nearly as wide as the prior."""
    problem = abctree.Problem(
        {"a": (0.0, 1.0), "b": (-3.0, 3.0)},
        lambda t, r: t + 0.5 * r.normal(size=t.shape),
        [1.5, 0.0],
        vectorized=True,
    )
    mode = abctree.map_tree(problem, n_simulations=2000, rng=0).mode()
    assert np.isnan(mode.standard_error[0])
    assert not any("as good" in note for note in mode.notes)
    assert any("where its mode is there cannot be told" in note for note in mode.notes)
