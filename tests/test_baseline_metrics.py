"""Regret of proposals by hand, and the classifier two-sample test of the benchmarks."""

from __future__ import annotations

import numpy as np
import pytest

import abctree
from abctree import metrics
from benchmarks.c2st import c2st

PRIOR = np.array([0.5, 0.3, 0.2])
ETA = np.array([0.2, 0.4, 0.0])
P = np.array([0.1, 0.12, 0.0]) / 0.22


def by_hand(name, q):
    """The formulas of the paper, arm by arm; the third arm never accepts."""
    dispersion = P[0] * 0.5 / q[0] + P[1] * 0.3 / q[1]
    if name == "omega1":
        return -((q[0] - P[0]) ** 2 + (q[1] - P[1]) ** 2 + q[2] ** 2)
    if name == "omega2":
        return (q[0] * P[0] / 0.5 + q[1] * P[1] / 0.3) / dispersion
    if name == "omega3":
        divergence = q[0] * np.log(q[0] / P[0]) + q[1] * np.log(q[1] / P[1])
        return np.log(0.2 * q[0] + 0.4 * q[1]) - divergence
    return 0.22 / dispersion


@pytest.mark.parametrize("name", ["omega1", "omega2", "omega3", "ess"])
def test_regret_is_the_mean_loss_in_utility(name):
    proposals = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.6, 0.4, 0.0]])
    if name != "omega3":
        proposals = np.vstack([proposals, PRIOR])
    # The best proposal, by a grid over the two arms that accept.
    share = np.linspace(1e-4, 1.0 - 1e-4, 200_001)
    best = np.max(by_hand(name, np.array([share, 1.0 - share, np.zeros_like(share)])))
    expected = best - np.mean([by_hand(name, q) for q in proposals])
    assert metrics.regret(proposals, ETA, PRIOR, name) == pytest.approx(expected, abs=1e-8)
    assert expected > 1e-3


@pytest.mark.parametrize(
    ("name", "utility"),
    [
        ("omega1", abctree.PosteriorMatch()),
        ("omega2", abctree.SamplingEfficiency()),
        ("omega3", abctree.AcceptanceMinusDivergence()),
        ("ess", abctree.EffectiveSampleSize()),
    ],
)
def test_regret_of_the_optimal_proposal_is_zero_and_of_others_positive(name, utility):
    rng = np.random.default_rng(0)
    for _ in range(20):
        prior, eta = rng.dirichlet(np.ones(6)), rng.uniform(0.05, 0.6, 6)
        best = utility.optimal_proposal(eta, prior)
        assert metrics.regret(best, eta, prior, name) == pytest.approx(0.0, abs=1e-12)
        other = 0.9 * best + 0.1 * rng.dirichlet(np.ones(6))
        assert metrics.regret(other, eta, prior, name) > 1e-9


def test_regret_where_a_proposal_misses_or_wastes():
    missing = np.array([1.0, 0.0, 0.0])
    for name in ("omega2", "ess"):
        rule = metrics.regret(np.array([P, missing]), ETA, PRIOR, name)
        best = metrics.regret(missing, ETA, PRIOR, name)  # its own utility is 0
        assert rule == pytest.approx(0.5 * (best + metrics.regret(P, ETA, PRIOR, name)))
    assert metrics.regret(PRIOR, ETA, PRIOR, "omega3") == np.inf


def test_regret_under_a_utility_of_ones_own():
    class Acceptance:
        def optimal_proposal(self, eta, prior_mass):
            return np.eye(len(eta))[np.argmax(eta)]

        def value(self, q, eta, prior_mass):
            return q @ eta

    assert metrics.regret(PRIOR, ETA, PRIOR, Acceptance()) == pytest.approx(0.4 - 0.22)


@pytest.mark.parametrize(
    ("proposals", "utility", "message"),
    [
        (np.ones(2) / 2, "omega1", "must have shape"),
        (np.array([0.5, 0.6, 0.1]), "omega1", "sum to one"),
        (np.array([1.5, -0.5, 0.0]), "omega1", "probabilities"),
        (np.empty((0, 3)), "omega1", "probabilities"),
        (PRIOR, "omega9", "`utility` must be"),
        (PRIOR, abctree.EffectiveSampleSize(0.65), "whose value is not known"),
    ],
)
def test_regret_refuses_what_it_cannot_judge(proposals, utility, message):
    with pytest.raises(abctree.ParameterError, match=message):
        metrics.regret(proposals, ETA, PRIOR, utility)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_c2st_is_a_half_for_one_law_and_fires_on_a_shift_or_a_scale():
    rng = np.random.default_rng(0)
    reference = rng.normal([0.0, 5.0], [1.0, 1e3], size=(250, 2))
    same = rng.normal([0.0, 5.0], [1.0, 1e3], size=(250, 2))
    assert c2st(same, reference, max_iter=60) == pytest.approx(0.5, abs=0.09)
    assert c2st(same + np.array([1.5, 0.0]), reference, max_iter=60) > 0.7
    assert c2st(same * [4.0, 1.0], reference, max_iter=60) > 0.65


def test_c2st_of_two_separate_laws_is_one():
    rng = np.random.default_rng(1)
    assert c2st(rng.normal(9.0, 1.0, (100, 1)), rng.normal(0.0, 1.0, (100, 1))) == 1.0


def test_c2st_refuses_shapes_that_differ():
    with pytest.raises(ValueError, match="one shape"):
        c2st(np.zeros((3, 1)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="finite"):
        c2st(np.full((3, 1), np.nan), np.zeros((3, 1)))
