"""Each optimal proposal maximises its utility, and has the properties claimed for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abctree

UTILITIES = [
    abctree.PosteriorMatch(),
    abctree.SamplingEfficiency(),
    abctree.AcceptanceMinusDivergence(),
    abctree.EffectiveSampleSize(),
    abctree.EffectiveSampleSize(0.65),
    abctree.ModelProbabilities(),
]


def posterior(eta, pi):
    p = eta * pi
    return p / p.sum()


def omega1(q, eta, pi):
    return -np.sum((q - posterior(eta, pi)) ** 2)


def omega2(q, eta, pi):
    p = posterior(eta, pi)
    return np.sum(q * p / pi) / np.sum(p * pi / q)


def omega3(q, eta, pi):
    p = posterior(eta, pi)
    return np.log(np.sum(q * eta)) - np.sum(q * np.log(q / p))


def kish(q, eta, pi):
    """Effective sample size per simulation."""
    p = posterior(eta, pi)
    return np.sum(pi * eta) / np.sum(p * pi / q)


def arms(seed, k=6):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.01, 0.9, k) ** rng.uniform(1, 3), rng.dirichlet(np.ones(k))


@pytest.mark.parametrize(
    ("utility", "omega"),
    [
        (abctree.PosteriorMatch(), omega1),
        (abctree.SamplingEfficiency(clip=1e-9), omega2),
        (abctree.AcceptanceMinusDivergence(), omega3),
        (abctree.EffectiveSampleSize(), kish),
    ],
    ids=lambda x: getattr(x, "__name__", type(x).__name__),
)
@given(seed=st.integers(0, 10_000))
def test_optimal_proposal_beats_all_neighbours(utility, omega, seed):
    eta, pi = arms(seed)
    q = utility.optimal_proposal(eta, pi)
    best = omega(q, eta, pi)
    rng = np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 0.3):
        for _ in range(20):
            other = (1 - size) * q + size * rng.dirichlet(np.ones(len(q)))
            assert omega(other, eta, pi) <= best + 1e-12 * (1 + abs(best))


def test_neighbours_beat_the_optimum_of_another_utility():
    # The twin that must fail: ω¹'s proposal is not optimal for the effective sample size.
    eta, pi = arms(3)
    wrong = abctree.PosteriorMatch().optimal_proposal(eta, pi)
    right = abctree.EffectiveSampleSize().optimal_proposal(eta, pi)
    assert kish(right, eta, pi) > kish(wrong, eta, pi) * 1.01


@given(seed=st.integers(0, 10_000))
def test_posterior_match_has_the_effective_sample_size_of_rejection(seed):
    eta, pi = arms(seed)
    p = posterior(eta, pi)
    q = abctree.PosteriorMatch().optimal_proposal(eta, pi)
    assert np.sum(p * pi / q) == pytest.approx(1.0)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-9, 1.0))
def test_proposal_does_not_depend_on_the_scale_of_the_rates(utility, seed, scale):
    eta, pi = arms(seed)
    np.testing.assert_allclose(
        utility.optimal_proposal(eta * scale, pi), utility.optimal_proposal(eta, pi), rtol=1e-6
    )


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize(
    "eta",
    [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.3, 0.3, 0.3], [1.0, 1e-300, 0.2], [1e-12, 1.0, 1.0]],
)
def test_proposal_is_a_distribution_at_the_edges(utility, eta):
    pi = np.array([0.2, 0.5, 0.3])
    q = utility.optimal_proposal(np.array(eta), pi)
    assert q.sum() == pytest.approx(1.0)
    assert (q >= 0.0).all()
    if not any(eta):
        np.testing.assert_array_equal(q, pi)


def test_sampling_efficiency_solves_the_equation_of_the_supplement():
    eta, pi = arms(11)
    q = abctree.SamplingEfficiency(clip=1e-9).optimal_proposal(eta, pi)
    p = posterior(eta, pi)
    a = np.sum(q * p / pi)
    implicit = np.sqrt(p * pi / (2 * a - p / pi))
    np.testing.assert_allclose(q, implicit / implicit.sum(), rtol=1e-8)


def of_models(q, eta, pi, model):
    """−T Σ_m Var(p̂_m): that of the evidences through the derivatives of the probabilities."""
    z = np.bincount(model, pi * eta)
    variance = np.bincount(model, pi**2 * eta / q)
    p = z / z.sum()
    slope = (np.eye(len(z)) - p[:, None]) / z.sum()  # ∂p_j/∂Z_m
    return -np.sum(slope**2 @ variance)


def for_models(eta, pi, model):
    utility = abctree.ModelProbabilities()
    c = utility.model_weights(np.bincount(model, pi * eta))
    return utility.optimal_proposal(c[model] * eta, pi)


@pytest.mark.parametrize("model", [[0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 2, 2]])
@given(seed=st.integers(0, 10_000))
def test_probabilities_of_models_vary_least_under_their_utility(model, seed):
    eta, pi = arms(seed)
    q = for_models(eta, pi, model)
    best = of_models(q, eta, pi, model)
    rng = np.random.default_rng(seed)
    z = np.bincount(model, pi * eta)
    if z.max() > 0.85 * z.sum():
        return  # the least weight is there
    for size in (1e-4, 1e-2, 0.3):
        for _ in range(20):
            other = (1 - size) * q + size * rng.dirichlet(np.ones(len(q)))
            assert of_models(other, eta, pi, model) <= best + 1e-12 * (1 + abs(best))


def test_neighbours_beat_the_optimum_that_knows_of_no_models():
    eta, pi = np.array([0.4, 0.1, 0.02, 0.01]), np.full(4, 0.25)
    model = np.array([0, 0, 1, 1])
    blind = abctree.EffectiveSampleSize().optimal_proposal(eta, pi)
    right = of_models(for_models(eta, pi, model), eta, pi, model)
    assert right > 0.7 * of_models(blind, eta, pi, model)


def test_of_two_models_the_less_probable_one_counts_as_its_odds():
    c = abctree.ModelProbabilities().model_weights
    np.testing.assert_allclose(c(np.array([0.3, 0.1])), [1 / 9, 1.0])
    np.testing.assert_allclose(c(np.array([0.3, 0.0])), [0.01, 1.0])
    np.testing.assert_allclose(c(np.zeros(3)), 1.0)


def test_a_setting_that_is_no_utility_is_told_what_is():
    for wrong, says in (("omega9", "omega1"), (3, "optimal_proposal")):
        with pytest.raises(abctree.ParameterError, match=says):
            abctree.abc_tree(abctree.problems.gauss(1), n_simulations=100, utility=wrong)
    with pytest.raises(abctree.ParameterError, match=r"\[0, 1\]"):
        abctree.EffectiveSampleSize(1.5)
