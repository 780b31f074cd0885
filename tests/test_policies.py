"""Thompson, top-two and T3C on boxes: densities in θ, shares, and what the weights need."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import T3C, Growth, Thompson, TopTwo
from abctree.data import Arms, Boxes
from abctree.tree import best_box, policies

POLICIES = [Thompson(), TopTwo(), TopTwo("adaptive"), T3C()]


def problem(prior):
    return abctree.Problem(prior, lambda theta, rng: theta[0], observed=0.0)


def strips(*cuts):
    """Boxes of the interval [0, 1]."""
    growth = Growth(Boxes.whole(1))
    for cut in cuts:
        growth.split(len(growth) - 1, 0, cut)
    return growth.boxes()


def measured(prior, *cuts):
    return problem(prior).region.measure(strips(*cuts))


def known(eta, n=1e7):
    """Beliefs that leave no doubt."""
    eta = np.asarray(eta, dtype=float)
    return Arms(n * eta, n * (1.0 - eta))


# Densities ----------------------------------------------------------------------------------------


def test_box_density_is_the_average_prior_density_in_theta():
    cuts = (0.1, 0.3, 0.9)
    partition = measured({"a": stats.beta(2, 5)}, *cuts)
    edges = stats.beta(2, 5).ppf([0.0, *cuts, 1.0])
    expected = np.diff([0.0, *cuts, 1.0]) / np.diff(edges)
    assert policies.box_density(partition) == pytest.approx(expected / expected.max())


def test_box_density_does_not_depend_on_units():
    by_one, by_thousand = ({"a": stats.norm(0, s)} for s in (1.0, 1000.0))
    cuts = (0.2, 0.5, 0.8)
    assert policies.box_density(measured(by_one, *cuts)) == pytest.approx(
        policies.box_density(measured(by_thousand, *cuts))
    )


def test_an_endless_box_counts_as_the_least_dense_of_the_bounded():
    density = policies.box_density(measured({"a": stats.norm()}, 0.1, 0.2, 0.8))
    assert density[0] == density[-1] == density[1:-1].min()
    assert density.max() == 1.0


def test_boxes_count_alike_when_no_volume_is_known():
    assert policies.box_density(measured({"a": stats.norm()}, 0.5)).tolist() == [1.0, 1.0]
    assert policies.box_density(measured({"j": stats.randint(1, 3)}, 0.5)) == pytest.approx(
        [1.0, 1.0]
    )


# Pulls --------------------------------------------------------------------------------------------


def test_a_spread_is_of_the_posterior_masses_and_in_the_weights(rng):
    """The twin: without it all pulls go to the best box."""
    partition = measured({"a": (0.0, 1.0)}, 0.1, 0.4)
    eta = np.array([0.5, 0.2, 0.1])
    mass = eta * [0.1, 0.3, 0.6]
    n = 4_000
    played, q = Thompson(spread=0.75).pull(known(eta), partition, n, rng)
    expected = 0.75 * mass / mass.sum() + 0.25 * np.array([1.0, 0.0, 0.0])
    assert q == pytest.approx(expected, abs=1e-3)
    counts = np.bincount(played, minlength=3)
    assert stats.chisquare(counts, n * expected).pvalue > 1e-3
    alone, _ = Thompson().pull(known(eta), partition, n, rng)
    assert stats.chisquare(np.bincount(alone, minlength=3) + 1e-9, n * expected).pvalue < 1e-9
    with pytest.raises(abctree.ParameterError, match="`spread` must be in"):
        TopTwo(spread=1.0)


def test_thompson_plays_the_box_of_the_largest_posterior_density(rng):
    """Normal prior: rates favour an outer box, rates times density the inner one."""
    partition = measured({"a": stats.norm()}, 0.01, 0.02, 0.5, 0.6, 0.99)
    eta = np.array([0.0, 0.5, 0.1, 0.3, 0.1, 0.0])
    played, _ = Thompson().pull(known(eta), partition, 50, rng)
    value = eta * policies.box_density(partition)
    assert (played == np.argmax(value)).all()
    # The twin: volumes of the cube, which make all densities one, choose the likelihood's box.
    assert np.argmax(eta) != np.argmax(value)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_q_is_a_probability_that_is_never_zero(policy, rng):
    partition = measured({"a": (0.0, 1.0)}, 0.2, 0.4, 0.6, 0.8)
    arms = Arms(np.array([1.0, 5.0, 3.0, 1.0, 0.0]), np.array([9.0, 5.0, 7.0, 30.0, 4.0]))
    played, q = policy.pull(arms, partition, 400, rng)
    assert played.shape == (400,)
    assert q.sum() == pytest.approx(1.0)
    assert (q > 0.0).all()
    share = np.bincount(played, minlength=5) / 400
    assert np.abs(share - q).max() < 0.01


def test_top_two_plays_the_best_box_with_probability_b_and_another_else(rng):
    partition = measured({"a": (0.0, 1.0)}, 0.3, 0.6)
    arms = known([0.2, 0.6, 0.4], n=2_000.0)
    for b in (0.3, 0.8, 1.0):
        played, _ = TopTwo(b).pull(arms, partition, 4_000, rng)
        assert np.mean(played == 1) == pytest.approx(b, abs=4.0 * np.sqrt(0.25 / 4_000))


@pytest.mark.parametrize("policy", [TopTwo(), T3C()], ids=repr)
def test_the_second_box_is_the_one_that_is_hardest_to_tell(policy, rng):
    partition = measured({"a": (0.0, 1.0)}, 0.3, 0.6)
    arms = Arms(np.array([10.0, 6_000.0, 4_500.0]), np.array([30.0, 4_000.0, 5_500.0]))
    played, _ = policy.pull(arms, partition, 500, rng)
    assert set(played) == {0, 1}  # box 2 has the better mean, and is out of question


def test_adaptive_b_is_less_than_half_when_many_boxes_are_close(rng):
    partition = measured({"a": (0.0, 1.0)}, *np.linspace(0.1, 0.9, 9))
    close = known([0.5] + [0.45] * 9, n=20_000.0)
    apart = known([0.5, 0.45] + [0.05] * 8, n=20_000.0)
    share = [
        np.mean(TopTwo("adaptive").pull(a, partition, 4_000, rng)[0] == 0) for a in (close, apart)
    ]
    assert share[0] < 0.35
    assert 0.4 < share[1] < 0.6


def test_one_box_is_always_played(rng):
    whole = problem({"a": (0.0, 1.0)}).region.measure(Boxes.whole(1))
    for policy in POLICIES:
        played, q = policy.pull(Arms(np.zeros(1), np.zeros(1)), whole, 7, rng)
        assert played.tolist() == [0] * 7
        assert q == pytest.approx([1.0])


def test_a_defensive_share_is_drawn_from_the_prior(rng):
    partition = measured({"a": (0.0, 1.0)}, 0.2, 0.9)
    played, q = Thompson(defensive=0.5).pull(known([0.9, 0.1, 0.1]), partition, 8_000, rng)
    share = np.bincount(played, minlength=3) / 8_000
    assert share == pytest.approx([0.5 + 0.1, 0.35, 0.05], abs=0.02)
    assert q == pytest.approx([0.6, 0.35, 0.05], abs=0.001)


def test_volumes_that_a_constraint_takes_away_count(rng):
    half = abctree.Problem(
        {"a": (0.0, 1.0)}, lambda theta, rng: theta[0], observed=0.0,
        constraint=lambda p: p["a"] < 0.5,
    )  # fmt: skip
    partition = half.region.measure(strips(0.3))  # of the second box, two sevenths are allowed
    assert policies.box_density(partition) == pytest.approx([1.0, 1.0], rel=0.15)
    unaware = np.exp(np.log(partition.prior_mass) - partition.log_volume)
    assert unaware[1] / unaware[0] == pytest.approx(2 / 7, rel=0.15)


# Names and errors ---------------------------------------------------------------------------------


def test_policies_are_known_by_name_and_parts_pass_through():
    assert policies.as_policy("thompson") == Thompson()
    assert policies.as_policy("top-two") == TopTwo()
    assert policies.as_policy("t3c") == T3C()
    mine = TopTwo(0.7)
    assert policies.as_policy(mine) is mine


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: policies.as_policy("greedy"), "`policy` must be one of"),
        (lambda: policies.as_policy(3), "`policy` must be one of"),
        (lambda: TopTwo(0.0), "`b` must be in"),
        (lambda: T3C("adapt"), "`b` must be in"),
        (lambda: Thompson(defensive=1.0), "`defensive` must be in"),
        (lambda: Thompson(n_draws=0), "`n_draws` must be a whole number of at least 1"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(make, says):
    with pytest.raises(abctree.ParameterError, match=says):
        make()


def test_best_box_needs_volumes_in_theta():
    """Those of the cube lead to the likelihood's mode: they say that the prior is flat."""
    problem = abctree.Problem({"a": stats.norm(0, 1)}, lambda theta, rng: theta[0], 2.0)
    growth = Growth(Boxes.whole(1))
    for cut in stats.norm.cdf(np.arange(-3.0, 4.5, 0.5)):
        growth.split(len(growth) - 1, 0, float(cut))
    partition = problem.region.measure(growth.boxes())
    middle = problem.prior.from_cube(0.5 * (partition.boxes.lower + partition.boxes.upper))[:, 0]
    rate = np.exp(-0.5 * (middle - 2.0) ** 2)
    arms = Arms(1e6 * rate, 1e6 * (1.0 - rate))
    lower, upper = best_box.best_box((partition,), (arms,))
    centre = problem.prior.from_cube(0.5 * (lower + upper)[None])[0, 0]
    assert centre == pytest.approx(1.0, abs=0.3)
    cube = np.log(arms.mean) + np.log(partition.prior_mass) - np.log(partition.boxes.volume)
    assert middle[np.argmax(cube)] > 1.5
    # Densities of two folds are on one scale: of boxes far from 0 all are low.
    far = Growth(Boxes.whole(1))
    far.split(0, 0, float(stats.norm.cdf(2.0)))
    far.split(1, 0, float(stats.norm.cdf(3.0)))
    other = problem.region.measure(far.boxes())
    arms_there = Arms(np.array([1.0, 9e5, 1.0]), np.array([1e6, 1e5, 1e6]))
    best = best_box.best_box((other, partition), (arms_there, arms))
    assert np.array(best).tolist() == np.array((lower, upper)).tolist()
