"""Schedules know ties, floors and failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abctree
from abctree.testing import check_schedule
from abctree.tree.schedules import (
    PooledESS,
    RetainedESS,
    as_schedule,
    first_epsilon,
    weighted_quantile,
)

RULES = [abctree.Geometric(0.9), abctree.Quantile(0.5), abctree.Quantile(0.2, weighted=True)]
distances = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0]), min_size=1, max_size=40)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(values=distances)
def test_next_tolerance_is_lower_and_still_accepts(rule, values):
    distance = np.array(values)
    epsilon = distance.max() + 0.25
    lower = rule.next(epsilon, distance, np.ones_like(distance))
    if lower is not None:
        assert lower < epsilon
        assert (distance < lower).any()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_next_tolerance_ends_at_a_floor_of_ties(rule):
    ties = np.full(20, 0.7)
    floor = rule.next(1.0, ties, np.ones(20))
    # Either still above the tie, or there is no lower one; never at the tie, where d < ε fails.
    while floor is not None:
        assert floor > 0.7
        floor = rule.next(floor, ties, np.ones(20))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_next_tolerance_without_acceptances_is_none(rule):
    assert rule.next(1.0, np.empty(0), np.empty(0)) is None


def test_quantile_halves_the_accepted():
    distance = np.arange(1.0, 101.0)
    lower = abctree.Quantile(0.5).next(200.0, distance, np.ones(100))
    assert np.mean(distance < lower) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("rule", [abctree.Quantile(0.5), RetainedESS(0.5)], ids=repr)
def test_a_tolerance_at_a_tie_accepts_the_tie(rule):
    distance = np.repeat([0.0, 1.0, 2.0], [2, 60, 38])
    # At 1, a strict bound, 2 of 100 would be kept; at 2 it is 62.
    assert rule.next(3.0, distance, np.ones(100)) == 2.0
    # Where nothing is larger the tie is all that lowers it; without ties nothing is raised.
    assert rule.next(3.0, np.repeat([0.0, 1.0], [2, 98]), np.ones(100)) == 1.0
    assert rule.next(99.0, np.arange(100.0), np.ones(100)) == 49.0


def test_schedule_without_its_methods_is_refused():
    with pytest.raises(abctree.ParameterError, match="a method `next"):
        as_schedule(object())


def test_median_rule_leaves_a_pile_that_stalls_the_geometric_rule():
    # Most distances pile up at 29.4, the interesting ones are below 1.
    rng = np.random.default_rng(0)
    pile = np.concatenate([rng.normal(29.4, 0.01, 980), rng.uniform(0.0, 5.0, 20)])
    weight = np.ones_like(pile)

    def rounds_until_below_five(rule):
        epsilon, rounds = 40.0, 0
        while epsilon > 5.0:
            accepted = pile[pile < epsilon]
            epsilon = rule.next(epsilon, accepted, weight[: len(accepted)])
            rounds += 1
        return rounds

    assert rounds_until_below_five(abctree.Quantile(0.5)) <= 8
    assert rounds_until_below_five(abctree.Geometric(0.9)) >= 15


@given(values=distances, share=st.floats(0.01, 1.0), failed=st.integers(0, 30))
def test_first_tolerance_accepts_something_and_is_finite(values, share, failed):
    distance = np.array(values + [np.inf] * failed)
    epsilon = first_epsilon(distance, share)
    assert np.isfinite(epsilon)
    assert (distance < epsilon).any()


def test_first_tolerance_counts_failures_as_far():
    distance = np.concatenate([np.arange(1.0, 51.0), np.full(50, np.inf)])
    assert np.sum(distance < first_epsilon(distance, 0.2)) == 20


def test_first_tolerance_without_finite_distances_is_an_error():
    with pytest.raises(abctree.SimulatorError, match="All 3 pilot simulations failed"):
        first_epsilon(np.full(3, np.inf), 0.2)


def test_explicit_plays_its_list():
    rule = as_schedule([3.0, 2.0, 0.5])
    assert rule.first(np.ones(3)) == 3.0
    assert [rule.next(e, np.ones(1), np.ones(1)) for e in (3.0, 2.0, 0.5)] == [2.0, 0.5, None]


@pytest.mark.parametrize("bad", [[], [1.0, 1.0], [1.0, 2.0], [1.0, 0.0]])
def test_explicit_refuses_what_does_not_decrease(bad):
    with pytest.raises(abctree.ParameterError, match="decreasing"):
        abctree.Explicit(bad)


def test_a_list_holds_numbers_and_may_begin_with_infinity():
    with pytest.raises(abctree.ParameterError, match="`epsilons` must be a number, but got 'a'"):
        as_schedule([3.0, "a"])
    made = abctree.problems.gauss(2)
    for proposal in ("adaptive", "boxes"):
        result = abctree.abc_tree(
            made, n_simulations=300, rng=1, schedule=[np.inf, 2.0], proposal=proposal
        )
        assert [played.epsilon for played in result.rounds[1:3]] == [np.inf, 2.0]


@pytest.mark.parametrize("bad", [0.0, 1.0, 1.2, -0.5])
def test_geometric_refuses_a_factor_outside_the_unit_interval(bad):
    with pytest.raises(abctree.ParameterError, match=r"\(0, 1\)"):
        as_schedule(bad)


def test_weighted_quantile_is_the_inverse_distribution_function():
    value, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert weighted_quantile(value, weight, 0.25) == 1.0
    assert weighted_quantile(value, weight, 0.26) == 2.0
    assert weighted_quantile(value, weight, 0.9) == 3.0


def test_adaptive_schedule_is_a_quantile_for_equal_weights_and_waits_for_heavy_ones():
    rule = as_schedule("adaptive")
    distance = np.arange(1.0, 101.0)
    assert rule == RetainedESS(0.5)
    assert rule.next(200.0, distance, np.ones(100)) == 50.0
    assert RetainedESS(0.9).next(200.0, distance, np.ones(100)) == 90.0
    # Where the near draws have nearly all the weight, half of these are enough.
    assert rule.next(200.0, distance, np.where(distance <= 10.0, 1.0, 1e-6)) <= 6.0
    assert rule.next(200.0, np.full(9, 3.0), np.ones(9)) is None
    assert rule.next(200.0, np.empty(0), np.empty(0)) is None


def test_pooled_tolerance_has_the_effective_sample_size_that_is_wanted(rng):
    distance, weight = rng.random(1000), np.ones(1000)
    rule = PooledESS(target=200.0, power=1.0)
    epsilon = rule.pooled(0.9, 1.0, distance, weight, 2000)
    assert np.count_nonzero(distance < epsilon) == pytest.approx(100, abs=1)
    assert rule.pooled(0.9, 1.0, distance, weight, 10**6) == pytest.approx(
        np.sort(distance)[39], abs=1e-3
    )
    # It may rise, by half, and not above the first.
    assert epsilon < rule.pooled(0.09, 1.0, distance, weight, 1000) <= 0.135
    assert rule.pooled(0.09, 0.1, distance, weight, 1000) <= 0.1
    tied = np.where(distance < 0.5, 0.25, distance)
    assert np.count_nonzero(tied < rule.pooled(0.9, 1.0, tied, weight, 2000)) > 400


@pytest.mark.parametrize("name", ["pooled", "adaptive"])
def test_schedules_without_a_public_name_conform(name):
    check_schedule(as_schedule(name))
