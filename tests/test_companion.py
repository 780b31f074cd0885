"""Kernels beside the boxes: their density, their share, and that they bring no bias."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import abctree
from abctree.data import Mixture
from abctree.kernels.student import student_sums
from abctree.proposals import cube_kernels
from abctree.proposals.cube_kernels import CubeKernels
from abctree.tree.companion import best_share

SIDE = 4.0


def normal(d, **kwargs):
    """θ ~ U(−4, 4)^d, y ~ N(θ, I), y_obs = 0."""
    return abctree.Problem(
        {f"theta{j}": (-SIDE, SIDE) for j in range(d)},
        lambda theta, rng: theta + rng.standard_normal(theta.shape),
        np.zeros(d),
        vectorized=True,
        **kwargs,
    )


def ridge(theta, rng):
    """Only the sums are known well: a slanting posterior, twenty times as long as wide."""
    along = theta.sum(axis=1, keepdims=True)
    apart = theta - theta.mean(axis=1, keepdims=True)
    noise = rng.standard_normal((len(theta), 2 * theta.shape[1]))
    d = theta.shape[1]
    return np.hstack([0.02 * along + 0.2 * noise[:, :1], apart + 0.02 * noise[:, d:]])


def slanting(d=3):
    return abctree.Problem(
        {f"theta{j}": (-3.0, 3.0) for j in range(d)}, ridge, np.zeros(d + 1), vectorized=True
    )


# The density ------------------------------------------------------------------------------------


def test_student_sums_are_the_plain_sums(rng):
    y, centre, weight = rng.normal(size=(7, 3)), rng.normal(size=(3, 11)), rng.random(11)
    out = np.empty(7)
    student_sums(y, centre, weight, 5.0, 4, out)
    square = ((y[:, :, None] - centre) ** 2).sum(axis=1)
    np.testing.assert_allclose(out, (1.0 + square / 5.0) ** -4 @ weight, rtol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_density_is_that_of_the_draws(d, rng):
    kernels = CubeKernels.around(rng.beta(2.0, 5.0, (60, d)), np.full(60, 1 / 60))
    draws = kernels.draw(100_000, rng)
    even = stats.qmc.Sobol(d, seed=1).random(2**16)
    assert kernels(even).mean() == pytest.approx(1.0, abs=0.02)
    # Means of functions: by the draws, and by the density.
    for function in (lambda u: u[:, 0], lambda u: (u**2).sum(axis=1), lambda u: u[:, 0] > 0.4):
        value = function(draws).astype(float)
        error = value.std() / np.sqrt(len(value))
        weighted = np.mean(kernels(even) * function(even))
        assert abs(value.mean() - weighted) < 5 * error + 1e-3
        # The twin that must fail: the slope of the log-odds is forgotten.
        flat = kernels(even) * np.prod(even * (1 - even), axis=1)
        assert abs(value.mean() - np.mean(flat * function(even))) > 5 * error + 1e-3


def test_density_of_one_kernel_is_students(rng):
    kernels = CubeKernels(np.zeros((1, 1)), np.ones(1), np.array([[2.0]]))
    u = np.array([[0.1], [0.5], [0.8]])
    z = cube_kernels.log_odds(u)[:, 0]
    exact = stats.t(5, scale=2.0).pdf(z) / (u * (1 - u))[:, 0]
    np.testing.assert_allclose(kernels(u), exact, rtol=1e-12)
    inside = integrate.quad(lambda x: kernels(np.array([[x]]))[0], 0.01, 0.9)[0]
    ends = stats.t(5, scale=2.0).cdf(cube_kernels.log_odds(np.array([0.01, 0.9])))
    assert inside == pytest.approx(ends[1] - ends[0])


def test_kernels_stay_finite_at_the_faces_and_around_equal_points(rng):
    kernels = CubeKernels.around(np.full((60, 2), 0.3), np.full(60, 1 / 60))
    draws = kernels.draw(100, rng)
    assert ((draws > 0.0) & (draws < 1.0)).all()
    assert np.isfinite(kernels(np.array([[0.0, 1.0], [0.3, 0.3], [0.5, 0.0]]))).all()


# The share --------------------------------------------------------------------------------------


def test_share_is_none_for_kernels_that_add_nothing():
    ones = np.ones(5)
    assert best_share(ones, ones, ones, np.zeros(5)) == 0.0


def test_share_is_the_largest_where_boxes_add_nothing():
    ones = np.ones(5)
    assert best_share(ones, ones, np.zeros(5), ones) == pytest.approx(0.95)


def test_share_is_even_where_boxes_and_kernels_each_know_one_half():
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert best_share(np.ones(2), np.ones(2), one, other) == pytest.approx(0.5)
    # 1 / (1 + 1 − λ) + 4 / (1 + λ) is least at λ = 1; with more known there, at less.
    assert best_share(np.array([1.0, 4.0]), np.ones(2), one, other) == pytest.approx(0.95)
    assert best_share(np.array([1.0, 4.0]), np.array([1.0, 4.0]), one, other) < 0.5


# The mixture ------------------------------------------------------------------------------------


def test_mixture_integrates_to_the_points_that_were_drawn():
    result = abctree.abc_tree(slanting(), n_simulations=5_000, rng=1, kernels=True, quota=200)
    mixtures = result.rounds[-1].mixtures
    even = stats.qmc.Sobol(3, seed=1).random(2**17)
    for f, mixture in enumerate(mixtures):
        assert mixture.kernels
        drawn = np.count_nonzero(result.table.fold == f)
        assert mixture(even).mean() == pytest.approx(drawn, rel=0.05)
        # The twin that must fail: the kernels are forgotten.
        boxes = dataclasses.replace(mixture, kernels=())
        assert boxes(even).mean() < 0.85 * drawn


def test_newest_layer_is_what_the_last_round_added(rng):
    boxes = abctree.Grid(4).partition(rng.random((9, 1)), np.ones(9), 1.0, None, rng)
    u = rng.random((20, 1))
    one, other = (lambda cube: cube[:, 0]), (lambda cube: cube[:, 0] ** 2)
    first = Mixture(3.0, ()).plus(boxes, np.full(4, 2.0)).beside(5.0, one)
    second = first.plus(boxes, np.full(4, 7.0))
    np.testing.assert_allclose(first(u), 3.0 + 2.0 + 5.0 * u[:, 0])
    np.testing.assert_allclose(first.newest(u), 2.0 + 5.0 * u[:, 0])
    np.testing.assert_allclose(second.newest(u), 7.0)
    np.testing.assert_allclose(second.beside(2.0, other).newest(u), 7.0 + 2.0 * u[:, 0] ** 2)


def test_denominators_are_the_mixture_at_the_rows():
    result = abctree.abc_tree(slanting(), n_simulations=4_000, rng=2, kernels=True, quota=200)
    for f, mixture in enumerate(result.rounds[-1].mixtures):
        own = result.table.fold == f
        np.testing.assert_allclose(
            result.table.denominator[own], mixture(result.table.cube[own]), rtol=1e-9
        )


# Runs -------------------------------------------------------------------------------------------


def evidence_errors(n_seeds, n, weights="mixture", **kwargs):
    """Relative errors at ε = .7; also with the kernels struck from the denominators."""
    exact = np.pi * 0.7**2 / (2 * SIDE) ** 2
    found, without = [], []
    for seed in range(n_seeds):
        schedule = [4.0, 2.0, 1.0, 0.7]
        result = abctree.abc_tree(
            normal(2, **kwargs), n_simulations=n, rng=seed, schedule=schedule, kernels=True
        )
        table, accepted = result.table, result.table.distance < 0.7
        found.append(result.evidence(0.7, weights=weights).estimate / exact - 1)
        boxes = np.ones(len(table))
        for f, mixture in enumerate(result.rounds[-1].mixtures):
            own = table.fold == f
            boxes[own] = own.sum() / dataclasses.replace(mixture, kernels=())(table.cube[own])
        without.append(boxes[accepted].sum() / len(table) / exact - 1)
    return np.array(found), np.array(without)


def mean_and_error(values):
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def test_evidence_is_right_and_would_not_be_without_the_kernels_in_the_mixture():
    found, without = evidence_errors(12, 10_000)
    mean, error = mean_and_error(found)
    assert error < 0.02
    assert abs(mean) < 3.5 * error
    mean, error = mean_and_error(without)
    assert mean > 5 * error


@pytest.mark.parametrize("weights", ["mixture", "draw", "round"])
def test_evidence_is_right_under_a_constraint(weights):
    half = partial(normal, constraint=lambda t: t["theta0"] > t["theta1"])
    exact = np.pi * 0.7**2 / (2 * SIDE) ** 2  # relative to the half of the prior, as its own
    found = []
    for seed in range(12):
        result = abctree.abc_tree(
            half(2), n_simulations=8_000, rng=seed, schedule=[4.0, 2.0, 1.0, 0.7], kernels=True
        )
        assert result.rounds[-1].mixtures[0].kernels
        found.append(result.evidence(0.7, weights=weights).estimate / exact - 1)
    mean, error = mean_and_error(np.array(found))
    assert error < 0.08
    assert abs(mean) < 3.5 * error


def test_kernels_reach_further_on_a_ridge():
    reached = {}
    for kernels in (False, True):
        runs = [
            abctree.abc_tree(slanting(), n_simulations=15_000, rng=seed, kernels=kernels)
            for seed in range(5)
        ]
        reached[kernels] = np.array([run.posterior(ess=200).epsilon for run in runs])
    assert (reached[True] < reached[False]).all()
    assert reached[True].mean() < 0.9 * reached[False].mean()


def test_no_kernels_without_enough_accepted_draws():
    result = abctree.abc_tree(normal(2), n_simulations=150, rng=1, kernels=True, quota=20)
    plain = abctree.abc_tree(normal(2), n_simulations=150, rng=1, quota=20)
    assert not result.rounds[-1].mixtures[0].kernels
    np.testing.assert_array_equal(result.table.theta, plain.table.theta)


def test_run_with_kernels_resumes_to_the_same_numbers(tmp_path):
    settings = {"n_simulations": 3_000, "rng": 4, "kernels": True, "quota": 200}
    whole = abctree.abc_tree(slanting(), **settings)
    part = abctree.abc_tree(slanting(), **settings, store=tmp_path / "run", stop={"rounds": 3})
    assert len(part.table) < 3_000
    again = abctree.resume(tmp_path / "run", slanting(), stop={})
    assert again.rounds[-1].mixtures[0].kernels
    np.testing.assert_array_equal(again.table.theta, whole.table.theta)
    np.testing.assert_array_equal(again.table.denominator, whole.table.denominator)


def test_histogram_and_marginals_know_the_kernels():
    result = abctree.abc_tree(slanting(), n_simulations=6_000, rng=3, kernels=True, quota=200)
    assert result.rounds[-1].mixtures[0].kernels
    posterior = result.posterior()
    density = result.mixture_ratio(posterior.theta)
    expected = np.zeros(len(density))
    cube = result.problem.prior.to_cube(posterior.theta)
    for mixture in result.rounds[-1].mixtures:
        expected += mixture(cube)
    np.testing.assert_allclose(density, expected / result.n_simulations, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernels": "yes"}, "`kernels` must be True or False"),
        ({"n_folds": 1}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"preset": "published"}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"n_pilot": 1}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"policy": abctree.Thompson()}, "`kernels` must be False"),
    ],
)
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(abctree.ParameterError, match=said):
        abctree.abc_tree(normal(1), n_simulations=100, **{"kernels": True, **settings})
