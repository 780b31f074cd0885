"""The inner loop is Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

import abctree
from abctree.data import Mixture, Plan, Simulations, Table
from abctree.tree import beliefs, fold, game, inner_loop

from .conftest import z_score

RATES = np.array([0.02, 0.1, 0.5, 0.9, 0.3, 0.05, 0.0, 0.6])


def finite_problem(constraint=None):
    """Eight arms; θ is uniform on the cube, acceptance depends on the arm only."""
    return abctree.Problem(
        {"t": (0.0, 1.0)},
        lambda theta, rng: rng.random(),
        observed=0.0,
        constraint=constraint,
    )


def simulate_rates(rng):
    def simulate(theta, index):
        rate = RATES[np.minimum((theta[:, 0] * 8).astype(int), 7)]
        distance = np.where(rng.random(len(theta)) < rate, 0.5, 2.0)
        return lambda: Simulations(distance, np.zeros((len(theta), 0)))

    return simulate


def new_game(problem, n_folds=1):
    partition = problem.region.measure(
        abctree.Grid(8).partition(np.empty((0, 1)), np.empty(0), 1, None, None)
    )
    return [
        fold.Fold(partition, beliefs.BetaBeliefs(np.ones(8), np.ones(8), 1.0), Mixture(0.0, ()))
        for _ in range(n_folds)
    ]


def game_of(
    problem, simulate, rng, *, utility=None, policy=None, quota=10**9, budget=500, block=1,
    defensive=0.0,
):  # fmt: skip
    """A game of one round, on an empty table."""
    rules = game.Rules(None, None, utility or abctree.PosteriorMatch(), policy, None)
    plan = Plan(budget, 0, quota, block, defensive=defensive)
    return game.Game(problem, Table(problem.d, problem.d), plan, rules, simulate, rng)


def play(problem, folds, rng, **settings):
    simulate = simulate_rates(np.random.default_rng(7))
    own = game_of(problem, simulate, rng, **settings)
    return own.table, inner_loop.inner_loop(own, folds, 1.0, 1)


def algorithm_1_by_the_letter(utility, budget, quota, rng, sim_rng):
    """The paper's listing, one simulation at a time, on eight boxes of equal mass."""
    alpha, beta, pi = np.ones(8), np.ones(8), np.full(8, 1 / 8)
    n = t = 0
    rows = []
    while n < quota and t < budget:
        t += 1
        eta = alpha / (alpha + beta)  # line 4
        q = utility.optimal_proposal(eta, pi)  # lines 5 and 6
        arm = int(np.searchsorted(np.cumsum(q), rng.random(1)[0] * q.sum(), side="right"))  # line 7
        theta = (arm + rng.random((1, 1))[0, 0]) / 8  # line 8
        y = int(sim_rng.random(1)[0] < RATES[arm])  # line 9
        u = pi[arm] / q[arm]  # line 10
        alpha[arm] += y  # line 11
        beta[arm] += 1 - y
        n += y  # line 12
        rows.append((arm, theta, y, u))
    return np.array(rows), alpha, beta


@pytest.mark.parametrize(
    "utility",
    [abctree.PosteriorMatch(), abctree.SamplingEfficiency(), abctree.EffectiveSampleSize()],
    ids=repr,
)
def test_inner_loop_at_block_one_is_algorithm_1_line_by_line(utility):
    problem = finite_problem()
    folds = new_game(problem)
    table, accepted = play(problem, folds, np.random.default_rng(3), utility=utility, quota=150)
    rows, alpha, beta = algorithm_1_by_the_letter(
        utility, 500, 150, np.random.default_rng(3), np.random.default_rng(7)
    )
    assert len(table) == len(rows)
    np.testing.assert_array_equal(table.arm, rows[:, 0])
    np.testing.assert_allclose(table.theta[:, 0], rows[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(table.distance < 1.0, rows[:, 2] == 1)
    np.testing.assert_allclose(1.0 / table.proposal, rows[:, 3], rtol=1e-12)
    arms = folds[0].beliefs.arms()
    np.testing.assert_array_equal(arms.alpha, alpha)
    np.testing.assert_array_equal(arms.beta, beta)
    assert accepted == rows[:, 2].sum()


def test_inner_loop_with_a_forgotten_update_is_not_algorithm_1(monkeypatch):
    # The twin that must fail: beliefs that never learn choose other arms.
    problem = finite_problem()
    folds = new_game(problem)
    monkeypatch.setattr(beliefs.BetaBeliefs, "learn", lambda *_: None)
    table, _ = play(problem, folds, np.random.default_rng(3))
    rows, *_ = algorithm_1_by_the_letter(
        abctree.PosteriorMatch(), 500, 10**9, np.random.default_rng(3), np.random.default_rng(7)
    )
    assert (table.arm != rows[:, 0]).mean() > 0.2


def test_inner_loop_ends_at_the_quota_or_the_budget_exactly():
    problem = finite_problem()
    table, accepted = play(problem, new_game(problem), np.random.default_rng(0), quota=20)
    assert accepted == 20  # block 1: not one more
    table, accepted = play(
        problem, new_game(problem), np.random.default_rng(0), budget=333, block=50
    )
    assert len(table) == 333
    assert accepted == np.sum(table.distance < 1.0)


@pytest.mark.parametrize("n_folds", [1, 3])
def test_mixture_weights_are_unbiased_for_the_evidence(n_folds):
    problem = finite_problem()
    estimates, without = [], []
    for seed in range(60):
        folds = new_game(problem, n_folds)
        sim = simulate_rates(np.random.default_rng(1000 + seed))
        own = game_of(
            problem, sim, np.random.default_rng(seed), utility=abctree.EffectiveSampleSize(),
            defensive=0.05, budget=400, block=20,
        )  # fmt: skip
        inner_loop.inner_loop(own, folds, 1.0, 1)
        table = own.table
        m = np.stack([f.mixture_so_far()(table.cube) for f in folds])[table.fold, np.arange(400)]
        weight = np.bincount(table.fold)[table.fold] / m
        accepted = table.distance < 1.0
        estimates.append((weight * accepted).mean())
        without.append(accepted.mean())
    assert abs(z_score(estimates, RATES.mean())) < 3.5
    assert z_score(without, RATES.mean()) > 10  # the twin: weights dropped


def test_folds_learn_from_the_other_folds_only():
    problem = finite_problem()
    folds = new_game(problem, 3)
    table, _ = play(problem, folds, np.random.default_rng(1), budget=300, block=30)
    for f, own in enumerate(folds):
        arms = own.beliefs.arms()
        teaches = table.fold != f
        np.testing.assert_array_equal(
            arms.alpha + arms.beta - 2, np.bincount(table.arm[teaches], minlength=8)
        )


def test_a_distance_of_exactly_epsilon_is_no_acceptance_of_the_quota():
    p = abctree.Problem({"t": (0.0, 1.0)}, lambda theta, rng: 0.0, 0.0)
    partition = p.region.measure(abctree.data.Boxes.whole(1))
    one = fold.Fold(partition, beliefs.BetaBeliefs(np.ones(1), np.ones(1), 1.0), Mixture(0.0, ()))

    def simulate(theta, index):
        return lambda: Simulations(np.full(len(theta), 1.0), np.zeros((len(theta), 0)))

    own = game_of(p, simulate, np.random.default_rng(0), quota=5, budget=40, block=4)
    assert inner_loop.inner_loop(own, [one], 1.0, 1) == 0
    assert len(own.table) == 40
    assert one.beliefs.arms().alpha[0] == 1.0


def test_defensive_share_is_drawn_from_the_prior_and_bounds_every_weight():
    boxes = abctree.Grid(2).partition(np.empty((0, 1)), np.empty(0), 1.0, None, None)
    partition = abctree.data.Partition(
        boxes, np.array([0.9, 0.1]), lambda *_: np.zeros(2), np.ones(2)
    )
    known = beliefs.BetaBeliefs(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 1.0)
    problem = abctree.Problem({"a": (0.0, 1.0)}, lambda theta, rng: 0.0, 0.0)
    own = game_of(problem, None, np.random.default_rng(0), defensive=0.2)
    folds = [fold.Fold(partition, known, Mixture(0.0, ()))]
    pulled = inner_loop.pull_arms(own, folds, np.arange(500))
    q = pulled.offered[0][1].share
    np.testing.assert_allclose(q, 0.8 * np.array([0.0, 1.0]) + 0.2 * partition.prior_mass)
    np.testing.assert_allclose(pulled.proposal, (q / boxes.volume)[pulled.arm])
