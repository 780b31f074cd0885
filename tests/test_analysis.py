"""Questions to a finished run, against closed forms and with twins that must fail."""

from __future__ import annotations

import itertools
import sys
import types
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import abctree
from abctree import (
    AbctreeWarning,
    Integers,
    MissingDependencyError,
    ParameterError,
    metrics,
)
from abctree.answers import (
    Evidence,
    Posterior,
    StepFold,
    StepPosterior,
    adjustment,
    diagnostics,
    histogram,
    selection,
)
from abctree.answers.evidence import Gap, evidence, gap_between
from abctree.data import Boxes, Partition, SplitTree


def draws(theta, weight=None, **fields):
    theta = np.asarray(theta, dtype=float)
    theta = theta if theta.ndim == 2 else theta[:, None]
    weight = np.ones(len(theta)) if weight is None else np.asarray(weight, dtype=float)
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    given = {
        "distance": np.full(len(theta), 0.5),
        "epsilon": 1.0,
        "names": tuple("abcdefgh"[: theta.shape[1]]),
        "n_simulations": 10 * len(theta),
    }
    return Posterior(theta=theta, log_weights=log_weight, **{**given, **fields})


def weighted_draws(n=400, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((n, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]]) * [1e-9, 1e6]
    return draws(theta, rng.gamma(0.5, size=n))


# Effective sample size and evidence -------------------------------------------------------------


@given(st.integers(1, 50), st.integers(0, 50), st.floats(1e-200, 1e200))
def test_ess_counts_equal_weights_in_any_unit(n, zeros, unit):
    weight = np.concatenate([np.full(n, unit), np.zeros(zeros)])
    assert metrics.ess(weight) == pytest.approx(n)


def test_ess_of_nothing_is_zero():
    assert metrics.ess(np.empty(0)) == 0.0
    assert metrics.ess(np.zeros(4)) == 0.0


def importance_sample(n, rng):
    """Uniform prior on (0, 1), proposal density .5 + u, distance to .7: Z(.1) = .2."""
    u = np.sqrt(0.25 + 2.0 * rng.random(n)) - 0.5
    return np.abs(u - 0.7), 1.0 / (0.5 + u)


def z_scores(estimates):
    """z of the mean of (estimate - truth) / se, and z of its variance against one."""
    z = np.array([(e.estimate - 0.2) / e.standard_error for e in estimates])
    return abs(z.mean()) * np.sqrt(len(z)), abs(z.var() - 1.0) / np.sqrt(2 / len(z))


def test_evidence_is_unbiased_with_an_honest_standard_error():
    rng = np.random.default_rng(1)
    samples = [importance_sample(800, rng) for _ in range(400)]
    found = [evidence(d, w, 0.1) for d, w in samples]
    assert max(z_scores(found)) < 4
    # The twins: forgotten weights, failures left out of the denominator, an error too small.
    assert z_scores([evidence(d, np.ones(800), 0.1) for d, _ in samples])[0] > 4
    dropped = [evidence(d[d < 0.6], w[d < 0.6], 0.1) for d, w in samples]
    assert z_scores(dropped)[0] > 4
    small = [Evidence(0.1, e.estimate, e.standard_error / 1.3, 1, 800) for e in found]
    assert z_scores(small)[1] > 4


def test_the_error_of_evidence_counts_candidates_that_were_refused():
    """Where every simulation is accepted, what varies is how many candidates one takes."""
    found, without = [], []
    for seed in range(24):
        problem = abctree.Problem(
            {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, lambda theta, rng: np.zeros(len(theta)), 0.0,
            vectorized=True,
        )  # fmt: skip
        run = abctree.abc_tree(problem, n_simulations=300, rng=seed, n_folds=2, block=60)
        found.append(run.evidence(0.5))
        table = run.table
        without.append(evidence(table.distance, run.weights(), 0.5, fold=table.fold))
    spread = np.std([e.estimate for e in found], ddof=1)  # ± 15 %
    assert 0.55 < spread / np.mean([e.standard_error for e in found]) < 1.5
    assert spread / np.mean([e.standard_error for e in without]) > 1.7  # the twin


def test_evidence_of_prior_draws_is_a_share_with_binomial_error():
    distance = np.array([0.1, 0.2, 0.3, np.inf, np.nan, 0.2])
    e = evidence(distance, np.ones(6), 0.3)  # strictly below
    assert (e.estimate, e.n_accepted, e.n_simulations) == (0.5, 3, 6)
    assert e.standard_error == pytest.approx(np.sqrt(0.25 / 5))
    assert e.log_estimate == pytest.approx(np.log(0.5))


@pytest.mark.parametrize("n", [2, 5, 20, 1000])
def test_evidence_of_acceptances_only_is_not_certain(n):
    e = evidence(np.zeros(n), np.ones(n), 1.0)
    assert e.estimate == 1.0
    share = (n + 1) / (n + 2)
    assert e.standard_error == pytest.approx(np.sqrt(share * (1 - share) / n))
    low, high = e.interval(0.95)
    assert high == 1.0
    # At the lower end all are accepted with a probability of 5 %, but for a small factor.
    assert 0.01 < low**n < 0.35
    # With folds, too, and with weights that are nearly equal.
    assert evidence(np.zeros(n), np.ones(n), 1.0, fold=np.arange(n) % 2).standard_error >= 0.7 / n
    nearly = 1.0 + 1e-9 * np.arange(n)
    assert evidence(np.zeros(n), nearly, 1.0).standard_error == pytest.approx(e.standard_error)
    # The twin: one rejection, and the error is that of the sample.
    distance = np.where(np.arange(n) == 0, 9.0, 0.0)
    one = evidence(distance, np.ones(n), 1.0)
    assert one.standard_error == pytest.approx(np.std(distance < 1.0, ddof=1) / np.sqrt(n))


def test_evidence_of_few_simulations_has_an_interval_that_covers():
    """Of two prior draws at Z = 0.7: with an error of 0 both accepted would mean certainty."""
    rng = np.random.default_rng(0)

    def coverage(n, z, interval):
        found = [evidence(rng.random(n), np.ones(n), z) for _ in range(2000)]
        return np.mean([low <= z <= high for low, high in map(interval, found)])

    assert coverage(2, 0.7, Evidence.interval) > 0.9
    assert coverage(20, 0.97, Evidence.interval) > 0.9

    def certain(e):
        return (1.0, 1.0) if e.estimate == 1.0 else e.interval()

    assert coverage(20, 0.97, certain) < 0.6


def test_evidence_interval_stays_a_probability():
    assert Evidence(1.0, 0.9, 0.1, 9, 10).interval()[1] == 1.0
    # Weights may take the estimate itself above one.
    assert Evidence(1.0, 1.1, 0.1, 9, 10).interval()[1] == pytest.approx(1.1)


def test_evidence_adds_the_error_of_a_normaliser_in_quadrature():
    distance, weight = importance_sample(500, np.random.default_rng(2))
    plain = evidence(distance, weight, 0.1)
    both = evidence(distance, weight, 0.1, relative_error=0.2)
    expected = np.hypot(plain.standard_error, 0.2 * plain.estimate)
    assert both.standard_error == pytest.approx(expected)
    assert both.estimate == plain.estimate


def test_evidence_with_folds_has_their_means_and_their_inner_variance():
    distance, weight = importance_sample(500, np.random.default_rng(3))
    fold = np.arange(500) % 5
    e = evidence(distance, weight, 0.1, fold=fold)
    reward = weight * (distance < 0.1)
    assert e.by_fold == pytest.approx([reward[fold == f].mean() for f in range(5)])
    assert e.estimate == pytest.approx(np.mean(e.by_fold))
    inner = sum(reward[fold == f].var(ddof=1) / 100 for f in range(5)) / 25
    assert e.standard_error == pytest.approx(np.sqrt(inner))


@pytest.mark.parametrize("n", [1, 4, 50])
def test_evidence_interval_of_equal_weights_is_that_of_a_poisson_rate(n):
    """Garwood's: the rates at which n or more, and n or fewer, have probability 2.5 %."""
    e = evidence(np.where(np.arange(10**5) < n, 0.0, 9.0), np.ones(10**5), 1.0)
    low, high = e.interval(0.95)
    assert stats.poisson.sf(n - 1, 10**5 * low) == pytest.approx(0.025, rel=5e-3)
    assert stats.poisson.cdf(n, 10**5 * high) == pytest.approx(0.025, rel=5e-3)
    assert e.interval(0.95, log=True) == pytest.approx((np.log(low), np.log(high)))
    assert low < e.interval(0.5)[0] < e.interval(0.5)[1] < high


@pytest.mark.parametrize("unit", [1e-250, 1.0, 1e-5])
def test_evidence_interval_of_many_draws_is_the_normal_one(unit):
    e = Evidence(1.0, 0.02 * unit, 1e-6 * unit, 10**6, 10**9, nearby_weight=unit)
    assert e.interval(0.95) == pytest.approx((0.02 * unit, 0.02 * unit), rel=1.1e-4)
    low, high = e.interval(0.95)
    assert (high - low) / 2 == pytest.approx(1.959964e-6 * unit, rel=1e-3)


def test_evidence_interval_knows_the_weights_just_beyond_epsilon():
    distance, weight = np.array([1.0, 2.0, 3.0, 4.0, 9.0]), np.array([1.0, 1.0, 1.0, 7.0, 50.0])
    e = evidence(distance, weight, 2.5)
    assert (e.nearby_weight, e.largest_weight) == (7.0, 50.0)
    few = evidence(distance, np.ones(5), 2.5, n_simulations=1000)
    same = evidence(distance, weight, 2.5, n_simulations=1000)
    assert few.estimate == same.estimate
    assert few.interval()[1] < 0.7 * same.interval()[1]
    assert evidence(distance, weight, 9.5).nearby_weight == 50.0
    assert evidence(np.full(3, np.inf), np.ones(3), 1.0).nearby_weight == 0.0


def test_evidence_without_acceptances_has_the_rule_of_three():
    e = evidence(np.full(1000, 5.0), np.ones(1000), 1.0)
    assert e.estimate == 0.0
    assert e.n_accepted == 0
    assert np.isnan(e.standard_error)
    assert e.log_estimate == -np.inf
    assert e.interval(0.95) == pytest.approx((0.0, 0.003), rel=2e-3)
    assert e.interval(0.95, log=True)[0] == -np.inf
    # Exact coverage at the bound: with that evidence, 1000 misses have probability 5 %.
    assert (1 - e.interval(0.95)[1]) ** 1000 == pytest.approx(0.05, rel=0.01)
    # A draw of weight 4 stands for a place that is proposed 4 times too rarely.
    assert evidence(np.full(1000, 5.0), np.full(1000, 4.0), 1.0).interval(0.95)[1] == (
        pytest.approx(0.012, rel=2e-3)
    )


def test_evidence_works_on_no_and_one_simulation():
    none = evidence(np.empty(0), np.empty(0), 1.0)
    assert np.isnan(none.estimate)
    assert none.interval() == (0.0, 1.0)
    one = evidence(np.array([0.1]), np.array([1.0]), 1.0)
    assert (one.estimate, one.standard_error) == (1.0, 1.0)
    missed = evidence(np.array([9.0]), np.array([1.0]), 1.0)
    assert missed.interval() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("distance", "weight", "epsilon", "rule"),
    [
        (np.ones(3), np.ones(2), 1.0, "one length"),
        (np.ones(2), np.array([1.0, np.nan]), 1.0, "`weight` must be finite"),
        (np.ones(2), np.array([1.0, -1.0]), 1.0, "`weight` must be finite"),
        (np.ones(2), np.ones(2), 0.0, "`epsilon` must be above 0"),
        (np.ones(2), np.ones(2), np.nan, "`epsilon` must be above 0"),
        (np.ones(2), np.ones(2), 10**400, "`epsilon` must be above 0, but got 1000"),
    ],
)
def test_evidence_and_select_refuse_bad_rows(distance, weight, epsilon, rule):
    with pytest.raises(ParameterError, match=rule):
        evidence(distance, weight, epsilon)
    with pytest.raises(ParameterError, match=rule):
        selection.select(distance, weight, epsilon=epsilon)


def test_evidence_interval_refuses_a_level_that_is_none():
    with pytest.raises(ParameterError, match="`level` must be in"):
        Evidence(1.0, 0.1, 0.01, 5, 50).interval(95)


# Posterior --------------------------------------------------------------------------------------


def test_posterior_moments_are_the_weighted_ones():
    p = draws([[0.0, 1.0], [1.0, 3.0], [4.0, -1.0]], [1.0, 2.0, 1.0])
    assert p.weights == pytest.approx([0.25, 0.5, 0.25])
    assert p.ess == pytest.approx(16 / 6)
    assert p.largest_weight == 0.5
    assert p.mean() == pytest.approx([1.5, 1.5])
    expected = np.cov(p.theta.T, aweights=[1.0, 2.0, 1.0])
    assert p.cov() == pytest.approx(expected)
    assert p.std() == pytest.approx(np.sqrt(np.diag(expected)))


def test_posterior_has_its_columns_by_name():
    theta = np.arange(6.0).reshape(3, 2)
    p = draws(theta)
    assert p[p.names[1]].tolist() == [1.0, 3.0, 5.0]
    with pytest.raises(ParameterError, match=r"`name` must be one of .*, but got 'sigma'"):
        p["sigma"]


def test_posterior_moments_of_equal_weights_are_numpy_s():
    theta = np.random.default_rng(4).normal(size=(50, 3))
    p = draws(theta, np.full(50, 1e-300))
    assert p.cov() == pytest.approx(np.cov(theta.T))
    assert p.std() == pytest.approx(theta.std(axis=0, ddof=1))


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=30),
    st.floats(0.0, 1.0),
)
@settings(max_examples=200)
def test_quantile_equals_that_of_repeated_draws(rows, q):
    theta, count = np.array(rows, dtype=float).T
    if count.sum() == 0:
        return
    repeated = np.repeat(theta, count.astype(int))
    # The exact rule, with whole numbers as far as possible.
    need = q * len(repeated) - 1e-9
    expected = np.sort(repeated)[max(0, int(np.ceil(need)) - 1)]
    assert draws(theta, count).quantile(q)[0] == expected


def test_quantile_takes_many_levels():
    p = weighted_draws()
    levels = [0.05, 0.5, 0.95]
    table = p.quantile(levels)
    assert table.shape == (3, 2)
    assert (np.diff(table, axis=0) > 0).all()
    for row, level in zip(table, levels, strict=True):
        assert np.array_equal(row, p.quantile(level))
        below = p.weights @ (p.theta <= row)
        assert (below >= level - 1e-9).all()
        assert (p.weights @ (p.theta < row) < level + 1e-9).all()


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, "median", [0.5, None]])
def test_quantile_refuses_levels_out_of_range(q):
    with pytest.raises(ParameterError, match="`q` must be in"):
        weighted_draws().quantile(q)


def test_hdi_is_the_shortest_interval_by_brute_force():
    rng = np.random.default_rng(5)
    theta, count = rng.exponential(size=25), rng.integers(0, 4, size=25)
    p = draws(theta, count)
    low, high = p.hdi(0.7)[0]
    held = p.weights[(theta >= low) & (theta <= high)].sum()
    shortest = min(
        b - a
        for a in theta
        for b in theta
        if p.weights[(theta >= a) & (theta <= b)].sum() >= 0.7 - 1e-9
    )
    assert held >= 0.7 - 1e-9
    assert high - low == pytest.approx(shortest)
    # The twin: the equal-tailed interval of a skewed law is longer.
    tails = p.quantile([0.15, 0.85])[:, 0]
    assert tails[1] - tails[0] > shortest


def test_hdi_of_all_the_mass_is_the_range():
    p = weighted_draws()
    assert p.hdi(1.0) == pytest.approx(np.stack([p.theta.min(0), p.theta.max(0)], axis=1))
    with pytest.raises(ParameterError, match="`mass` must be in"):
        p.hdi(0.0)


@pytest.mark.parametrize("weight", [[], [0.0], [0.0, 0.0]])
def test_posterior_without_draws_answers_nan(weight):
    p = draws(np.zeros((len(weight), 2)), weight)
    assert p.ess == 0.0
    assert p.largest_weight == 0.0
    assert np.isnan(p.mean()).all()
    assert np.isnan(p.cov()).all()
    assert np.isnan(p.std()).all()
    assert np.isnan(p.quantile([0.1, 0.9])).all()
    assert p.hdi().shape == (2, 2)
    assert np.isnan(p.hdi()).all()
    assert p.sample(0).shape == (0, 2)
    assert "ESS 0.0" in repr(p)
    with pytest.raises(ParameterError, match="Nothing was accepted"):
        p.sample(1)


def test_posterior_of_one_draw_knows_its_place_but_no_spread():
    p = draws([[2.0, 3.0]])
    assert p.mean() == pytest.approx([2.0, 3.0])
    assert np.isnan(p.cov()).all()
    assert p.quantile(0.9) == pytest.approx([2.0, 3.0])
    assert p.hdi() == pytest.approx(np.array([[2.0, 2.0], [3.0, 3.0]]))
    assert p.sample(3, rng=0, smooth=True) == pytest.approx(np.array([[2.0, 3.0]] * 3))
    two = draws([[2.0, 3.0], [4.0, 3.0]])
    assert two.std() == pytest.approx([np.sqrt(2), 0.0])
    assert two.sample(4, rng=0, smooth=True)[:, 1] == pytest.approx([3.0] * 4, abs=0)


def test_posterior_weights_survive_any_unit():
    p = draws([0.0, 1.0], [1.0, 3.0])
    tiny = Posterior(**{**p.__dict__, "log_weights": p.log_weights - 5000.0})
    assert tiny.weights == pytest.approx([0.25, 0.75])
    assert tiny.mean() == pytest.approx([0.75])


# Draws without weights --------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.integers(1, 60), st.integers(0))
def test_resample_picks_each_draw_n_w_times_rounded(weight, n, seed):
    weight = np.array(weight)
    if weight.max() < 1e-3:
        return
    p = draws(np.arange(len(weight)), weight)
    picked = np.bincount(p.resample(n, rng=seed), minlength=len(weight))
    assert picked.sum() == n
    assert (np.abs(picked - n * p.weights) < 1.0 + 1e-9).all()
    assert (picked[weight == 0.0] == 0).all()


def test_sample_is_repeatable_and_unbiased():
    p = weighted_draws(60)
    assert np.array_equal(p.sample(50, rng=3), p.sample(50, rng=3))
    assert not np.array_equal(p.sample(50, rng=3), p.sample(50, rng=4))
    means = np.array([p.sample(60, rng=s).mean(axis=0) for s in range(400)])
    z = (means.mean(axis=0) - p.mean()) / (means.std(axis=0) / 20)
    assert (np.abs(z) < 4).all()
    # The twin: without weights.
    z = (p.theta.mean(axis=0) - p.mean()) / (means.std(axis=0) / 20)
    assert (np.abs(z) > 4).any()
    for n in (-1, 1.5):
        with pytest.raises(ParameterError, match="`n` must be a whole number of at least 0"):
            p.sample(n)


def test_smooth_sample_keeps_mean_and_covariance():
    p = weighted_draws(80)
    n = 200_000
    x = p.sample(n, rng=0, smooth=True)
    z = (x - p.mean()) / (p.std() * np.sqrt(1 - np.sum(p.weights**2)))
    assert (np.abs(z.mean(axis=0)) < 4 / np.sqrt(n)).all()
    # Variances of near-normal draws have standard error sqrt(2/n) or less here.
    assert (np.abs(z.var(axis=0) - 1.0) < 4 * np.sqrt(2 / n)).all()
    assert np.corrcoef(x.T)[0, 1] == pytest.approx(
        p.cov()[0, 1] / np.prod(p.std()), abs=4 / np.sqrt(n)
    )
    assert len(np.unique(x[:, 0])) > 0.99 * n
    # The twin: a kernel estimate without shrinkage is too wide.
    h = (4 / (4 * p.ess)) ** (1 / 6)
    wide = p.sample(n, rng=0) + h * p.std() * np.random.default_rng(0).normal(size=(n, 2))
    ratio = wide.var(axis=0) / p.std() ** 2
    assert (np.abs(ratio - 1.0) > 4 * np.sqrt(2 / n)).all()


def test_smooth_sample_leaves_discrete_and_fixed_columns():
    rng = np.random.default_rng(6)
    theta = np.column_stack([rng.normal(size=50), rng.integers(0, 4, 50), np.full(50, 0.1)])
    p = draws(theta, continuous=np.array([True, False, True]))
    x = p.sample(30, rng=0, smooth=True)
    assert set(x[:, 1]) <= {0.0, 1.0, 2.0, 3.0}
    assert (x[:, 2] == 0.1).all()
    assert p.std()[2] == 0.0, "the mean of equal values is rounded"
    assert not np.isin(x[:, 0], theta[:, 0]).any()


def test_to_dataframe_has_named_columns_and_a_hint(monkeypatch):
    p = draws([[1.0, 2.0]], [4.0], names=("weight", "b"))
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
    frame = p.to_dataframe()
    assert list(frame) == ["weight", "b", "weight_", "log_weight", "distance"]
    assert frame["weight"] == [1.0]
    assert frame["weight_"] == [1.0]
    assert frame["log_weight"] == pytest.approx([np.log(4.0)])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        p.to_dataframe()


# Choosing the tolerance -------------------------------------------------------------------------


def chosen(distance, weight=None, **kwargs):
    distance = np.asarray(distance, dtype=float)
    weight = np.ones(len(distance)) if weight is None else np.asarray(weight, dtype=float)
    rows, epsilon = selection.select(distance, weight, **kwargs)
    known = {"distance": distance[rows], "epsilon": epsilon, "n_simulations": len(distance)}
    return draws(rows, weight[rows], **known)


def test_select_by_epsilon_is_strict_and_never_takes_failures():
    p = chosen([0.1, 0.5, np.inf, 0.3, np.nan, 0.5], epsilon=0.5)
    assert p.theta[:, 0].tolist() == [0.0, 3.0]
    assert (p.epsilon, p.n_simulations) == (0.5, 6)
    assert len(chosen([0.1, np.inf, np.nan], epsilon=np.inf)) == 1


def test_select_by_ess_takes_the_smallest_epsilon_that_keeps_it():
    p = chosen([0.4, 0.1, 0.3, 0.2, np.inf], ess=2)
    assert sorted(p.theta[:, 0]) == [1.0, 3.0]
    assert p.epsilon == pytest.approx(0.25)  # midway
    last = chosen([0.4, 0.1, 0.3, 0.2, np.inf], ess=4)
    assert len(last) == 4
    assert last.epsilon == np.nextafter(0.4, 1.0)


def test_select_by_ess_is_the_smallest_that_keeps_it_by_brute_force():
    rng = np.random.default_rng(0)
    distance, weight = rng.integers(0, 40, 300) / 10.0, rng.gamma(0.3, size=300)
    p = chosen(distance, weight, ess=30)
    assert p.ess >= 30
    levels = np.unique(distance)
    enough = [metrics.ess(weight[distance <= e]) >= 30 for e in levels]
    kept = min(e for e, _ in zip(levels, enough, strict=True) if all(np.array(enough)[levels >= e]))
    assert kept > levels[np.argmax(enough)], (
        "it is reached, lost to a heavy draw, and reached again"
    )
    assert p.distance.max() == kept
    # Ties are together: the count is that of a strict comparison with epsilon.
    assert len(p) == np.sum(distance <= kept) == np.sum(distance < p.epsilon)
    assert evidence(distance, weight, p.epsilon).estimate == pytest.approx(
        np.exp(p.log_weights).sum() / 300
    )


def test_default_target_does_not_jump_over_a_tie_that_is_nearer():
    # Distances of counts: 500 at 0, 2 500 at 1, and the rest at 2.  The default aims at 600.
    distance = np.repeat([0.0, 1.0, 2.0], [500, 2_500, 17_000])
    assert selection.default_ess(20_000) == 600.0
    assert len(chosen(distance)) == 500
    assert len(chosen(distance, ess=600)) == 3_000  # what is asked for is given
    few = np.repeat([0.0, 1.0, 2.0], [250, 2_500, 17_250])  # less than half of the target
    assert len(chosen(few)) == 2_750
    near = np.repeat([0.0, 1.0, 2.0], [320, 450, 19_230])  # 770 is nearer to 600 than 320 is
    assert len(chosen(near)) == 770


def test_select_by_ess_that_is_lost_again_takes_where_it_was_reached_last():
    weight = np.array([1.0, 1.0, 1.0, 30.0, *np.ones(40), 90.0])
    p = chosen(np.arange(45.0), weight, ess=3.2)
    assert p.ess >= 3.2
    reached = [metrics.ess(weight[: n + 1]) for n in range(45)]
    assert (reached[2], reached[-1]) < (3.2, 3.2)
    assert len(p) == 1 + next(n for n in range(4, 45) if reached[n] >= 3.2)
    three = chosen(np.arange(45.0), weight, ess=3.0)  # reached before the heavy draw, and after it
    assert len(three) > 3


def test_select_takes_equal_distances_together():
    p = chosen([1.0, 0.0, 0.0, 0.0, 2.0], ess=1)
    assert len(p) == 3
    assert p.epsilon == 0.5
    assert len(chosen([1.0] * 50, ess=5)) == 50


def test_select_warns_with_the_best_it_can_reach():
    weight = np.array([1.0, 1.0, 1.0, 50.0])
    with pytest.warns(AbctreeWarning, match=r"of 10 was asked for, but the run reaches 3,"):
        p = chosen([0.1, 0.2, 0.3, 0.4], weight, ess=10)
    assert p.theta[:, 0].tolist() == [0.0, 1.0, 2.0]
    with pytest.warns(AbctreeWarning, match="reaches 2"):
        p = chosen([0.1, 0.2, 0.3, 0.4], ess=3, limit=0.25)
    assert p.epsilon == 0.25
    assert len(p) == 2


def test_select_warns_when_nothing_is_accepted():
    for kwargs in ({"epsilon": 0.5}, {"ess": 5}, {"ess": 5, "limit": 0.5}, {}):
        with pytest.warns(AbctreeWarning, match="Nothing was accepted"):
            p = chosen([np.inf, np.nan, np.inf], **kwargs)
        assert len(p) == 0
        assert p.n_simulations == 3
    with pytest.warns(AbctreeWarning, match="Nothing was accepted"):
        assert chosen([], ess=5).ess == 0.0


def test_select_aims_at_a_thousand_or_three_per_cent_or_a_few_root_t():
    assert selection.default_ess(10**6) == 1000.0
    assert selection.default_ess(10_000) == 300.0
    assert selection.default_ess(400) == 30.0
    assert chosen(np.arange(1, 1001) / 1000.0).ess == pytest.approx(48.0)


def test_a_posterior_carries_the_rows_along():
    run = abctree.rejection(abctree.problems.gauss(2), n_simulations=200, rng=8)
    p, near = run.posterior(epsilon=6.0), run.table.distance < 6.0
    assert len(p) == np.count_nonzero(near) > 10
    for name in ("theta", "cube", "distance", "summary"):
        assert np.array_equal(getattr(p, name), getattr(run.table, name)[near])


def test_select_refuses_contradictions():
    with pytest.raises(ParameterError, match="got both"):
        chosen([0.1], epsilon=1.0, ess=5)
    with pytest.raises(ParameterError, match="`ess` must be above 0"):
        chosen([0.1], ess=0)


# Regression adjustment --------------------------------------------------------------------------


def conjugate(n=40_000, epsilon=3.0, seed=0):
    """θ ~ N(0, 4), y | θ ~ N(θ, 1), y_obs = 1, proposed from N(2, 9): exact N(.8, .8)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(2.0, 3.0, n)
    y = rng.normal(theta, 1.0)
    weight = stats.norm.pdf(theta, 0, 2) / stats.norm.pdf(theta, 2, 3)
    distance = np.abs(y - 1.0)
    rows = np.flatnonzero(distance < epsilon)
    return draws(
        theta[rows],
        weight[rows],
        names=("theta",),
        distance=distance[rows],
        epsilon=epsilon,
        n_simulations=n,
        summary=y[rows, None],
        observed=np.array([1.0]),
    )


def _z_scores(p):
    """Mean and variance of the draws against N(.8, .8), in standard errors."""
    n = p.ess
    mean, variance = p.mean()[0], p.cov()[0, 0]
    return abs(mean - 0.8) / np.sqrt(0.8 / n), abs(variance - 0.8) / (0.8 * np.sqrt(2 / n))


def test_adjustment_recovers_the_conjugate_posterior_at_a_large_epsilon():
    p = conjugate()
    adjusted = p.adjusted("linear")
    assert max(_z_scores(adjusted)) < 4
    assert adjusted.is_adjusted
    assert adjusted.adjusted() is adjusted
    # The twins: no adjustment, and an adjustment that forgets the proposal.
    assert _z_scores(p)[1] > 20
    theta, weight, _ = adjustment.adjust(
        p.theta, p.summary, p.observed, p.distance, p.epsilon, np.ones(len(p))
    )
    assert max(_z_scores(draws(theta, weight))) > 10


def test_adjustment_multiplies_in_the_kernel_weights():
    p = conjugate(500)
    theta, weight, _ = adjustment.adjust(
        p.theta, p.summary, p.observed, p.distance, p.epsilon, np.exp(p.log_weights), "linear"
    )
    kernel = 1 - (p.distance / p.epsilon) ** 2
    assert weight == pytest.approx(np.exp(p.log_weights) * kernel)
    # Weighted least squares with an intercept, by the book.
    design = np.column_stack([np.ones(len(p)), p.summary - p.observed])
    root = np.sqrt(weight)[:, None]
    slope = np.linalg.lstsq(design * root, p.theta * root, rcond=None)[0][1]
    assert theta == pytest.approx(p.theta - (p.summary - p.observed) * slope, rel=1e-6, abs=1e-6)
    assert p.adjusted().log_weights == pytest.approx(np.log(weight))


def test_adjustment_of_a_linear_relation_gives_the_exact_value():
    rng = np.random.default_rng(9)
    s = rng.normal(size=(50, 3))
    theta = 2.0 + s @ np.array([[1.0, 1e8], [2.0, 0.0], [-1.0, 3e8]])
    adjusted, *_ = adjustment.adjust(
        theta, s, np.array([0.5, 0.0, 1.0]), np.full(50, 0.1), np.inf, np.ones(50), "linear"
    )
    assert adjusted == pytest.approx(np.array([[1.5, 3.5e8]] * 50), rel=1e-6)


def test_adjustment_leaves_discrete_columns():
    p = conjugate(2000)
    p = replace(p, theta=np.column_stack([p.theta, np.round(p.theta)]), names=("a", "n"))
    adjusted = replace(p, continuous=np.array([True, False])).adjusted()
    assert np.array_equal(adjusted.theta[:, 1], p.theta[:, 1])
    assert not np.isclose(adjusted.theta[:, 0], p.theta[:, 0]).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_adjustment_returns_few_draws_as_they_are(n):
    p = draws(np.arange(n), summary=np.arange(2.0 * n).reshape(n, 2) ** 2, observed=np.zeros(2))
    with pytest.warns(AbctreeWarning, match="are returned unadjusted"):
        assert p.adjusted() is p


def test_adjustment_counts_draws_by_their_weights():
    rng = np.random.default_rng(12)
    s, weight = rng.normal(size=(100, 1)), np.full(100, 1e-9)
    weight[:2] = 1.0
    with pytest.warns(AbctreeWarning, match=r"but has 2\.0"):
        adjustment.adjust(s, s, np.zeros(1), np.zeros(100), 1.0, weight)


def test_adjustment_says_that_summaries_are_dependent_and_still_adjusts():
    p = conjugate()
    doubled = np.column_stack([p.summary, 3.0 * p.summary])
    raw = np.exp(p.log_weights)
    given = (p.distance, p.epsilon, raw, "linear")
    plain, *_ = adjustment.adjust(p.theta, p.summary, p.observed, *given)
    with pytest.warns(AbctreeWarning, match=r"rank 1\)"):
        adjusted, *_ = adjustment.adjust(p.theta, doubled, np.array([1.0, 3.0]), *given)
    assert adjusted == pytest.approx(plain, rel=1e-5, abs=1e-5)


def test_adjustment_ignores_summaries_that_do_not_vary_or_are_not_finite():
    p = conjugate(2000)
    more = np.column_stack([p.summary, np.full(len(p), 4.0), np.full(len(p), np.nan)])
    raw = np.exp(p.log_weights)
    given = (p.distance, p.epsilon, raw)
    plain, *_ = adjustment.adjust(p.theta, p.summary, p.observed, *given)
    adjusted, *_ = adjustment.adjust(p.theta, more, np.array([1.0, 5.0, 0.0]), *given)
    assert adjusted == pytest.approx(plain)
    with pytest.warns(AbctreeWarning, match="at least one summary that varies"):
        adjustment.adjust(p.theta, more[:, 1:], np.array([5.0, 0.0]), *given)


def test_adjusted_needs_summaries_and_a_known_method():
    with pytest.raises(ParameterError, match="no summaries were kept"):
        draws([0.0, 1.0]).adjusted()
    with pytest.raises(ParameterError, match='`method` must be "ridge"'):
        conjugate(200).adjusted("lasso")
    with pytest.raises(ParameterError, match="`summary` must have one row"):
        adjustment.adjust(
            np.zeros((3, 1)), np.zeros((2, 1)), np.zeros(1), np.zeros(3), 1.0, np.ones(3)
        )


# Step functions ---------------------------------------------------------------------------------


class MapPrior:
    """Independent parameters by their quantile functions."""

    def __init__(self, **laws):
        self.laws = laws
        self.names = tuple(laws)
        self.d = len(laws)

    def from_cube(self, cube):
        columns = [law.ppf(cube[:, j]) for j, law in enumerate(self.laws.values())]
        return np.stack(columns, axis=1).astype(float)

    def to_cube(self, theta):
        columns = [law.cdf(theta[:, j]) for j, law in enumerate(self.laws.values())]
        return np.clip(np.stack(columns, axis=1), 2.0**-1022, 1 - 2**-53)

    def log_volume(self, lower, upper):
        with np.errstate(divide="ignore"):
            width = [
                law.ppf(upper[:, j]) - law.ppf(lower[:, j])
                for j, law in enumerate(self.laws.values())
            ]
            return np.log(width).sum(axis=0)


class Swirl(MapPrior):
    """Two parameters that both depend on both dimensions, and a fixed one."""

    def __init__(self):
        super().__init__(a=stats.uniform(), b=stats.uniform())
        self.names = ("a", "b", "c")

    def from_cube(self, cube):
        a, b = cube.T
        return np.stack([a + b, a - b, np.full(len(cube), 3.0)], axis=1)


def boxes_2d(x, y_left, y_right):
    """Cut at x, then the two sides at their own y: 4 boxes."""
    tree = SplitTree(
        feature=np.array([0, 1, 1, -1, -1, -1, -1]),
        threshold=np.array([x, y_left, y_right, 0, 0, 0, 0]),
        left=np.array([1, 3, 5, -1, -1, -1, -1]),
        right=np.array([2, 4, 6, -1, -1, -1, -1]),
        box=np.array([-1, -1, -1, 0, 1, 2, 3]),
    )
    return Boxes.from_tree(tree, 2)


UNIFORM = MapPrior(a=stats.uniform(-2.0, 4.0), b=stats.uniform(0.0, 10.0))
MASS = np.array([0.1, 0.2, 0.5, 0.2])


def one_fold(prior=UNIFORM, mass=MASS, cuts=(0.25, 0.5, 0.8)):
    boxes = boxes_2d(*cuts)
    return StepFold(boxes, np.asarray(mass), prior.log_volume(boxes.lower, boxes.upper))


def two_folds(prior=UNIFORM):
    return StepPosterior.from_folds(
        [one_fold(prior), one_fold(prior, MASS[::-1], (0.6, 0.3, 0.1))], prior
    )


def test_step_posterior_is_the_mass_over_the_volume():
    step = StepPosterior.from_folds([one_fold()], UNIFORM)
    # Box 2: right of a = -1, below b = 8: volume 3 · 8.
    assert step.pdf(np.array([[0.0, 5.0]])) == pytest.approx([0.5 / 24])
    assert step.pdf(np.array([[-1.5, 1.0]])) == pytest.approx([0.1 / 5])
    assert step.cube_pdf(np.array([[0.5, 0.5]])) == pytest.approx([0.5 / 0.6])
    assert step.pdf(np.array([[2.5, 5.0], [0.0, -1.0], [-3.0, 11.0]])) == pytest.approx([0, 0, 0])


def test_step_posterior_of_folds_is_their_average_and_integrates_to_one():
    step = two_folds()
    folds = [StepPosterior.from_folds([f], UNIFORM) for f in step.folds]
    grid = np.stack(
        np.meshgrid(np.linspace(-1.995, 1.995, 400), np.linspace(0.0125, 9.9875, 400)), -1
    )
    points = grid.reshape(-1, 2)
    average = (folds[0].pdf(points) + folds[1].pdf(points)) / 2
    assert step.pdf(points) == pytest.approx(average)
    assert step.pdf(points).mean() * 40.0 == pytest.approx(1.0, abs=1e-9)


def test_step_posterior_has_the_shape_of_an_unbounded_prior_in_its_last_boxes():
    prior = MapPrior(a=stats.norm(1.0, 2.0), b=stats.uniform(0.0, 1.0))
    fold = one_fold(prior, MASS, (0.25, 0.5, 0.8))
    assert StepPosterior.from_folds([fold], prior).pdf(np.array([[3.0, 0.5]])) == 0.0
    prior.log_density = lambda theta: stats.norm.logpdf(theta[:, 0], 1.0, 2.0)
    step = StepPosterior.from_folds([fold, one_fold(prior, MASS, (0.5, 0.5, 0.5))], prior)
    a, b = np.meshgrid(np.linspace(-19, 21, 2001), [0.1, 0.3, 0.6, 0.9])
    density = step.pdf(np.column_stack([a.ravel(), b.ravel()])).reshape(a.shape)
    height = np.array([0.2, 0.3, 0.3, 0.2]) @ density
    assert (density >= 0.0).all()
    # Heights of b: [0, .2], [.2, .5], [.5, .8], [.8, 1]; every box is unbounded or bounded in a.
    assert height.sum() * 0.02 == pytest.approx(1.0, abs=1e-3)


def test_step_posterior_of_a_fold_comes_from_rates():
    boxes = boxes_2d(0.25, 0.5, 0.8)
    eta = np.array([0.0, 0.1, 0.4, 0.2])
    partition = Partition(boxes, boxes.volume, lambda *_: np.zeros(4), np.ones(4))
    step = StepPosterior.from_folds([StepFold.of(partition, eta)], UNIFORM)
    assert step.folds[0].mass == pytest.approx(boxes.volume * eta / (boxes.volume @ eta))


def test_step_posterior_draws_have_the_masses_of_the_boxes():
    step = two_folds()
    n = 20_000
    cube = UNIFORM.to_cube(step.sample(n, rng=0))
    assert np.array_equal(step.sample(5, rng=1), step.sample(5, rng=1))
    # Chi-squared of the boxes of the first fold, whose masses under the average are exact.
    boxes = step.folds[0].boxes
    exact = [_mass_of(step, boxes.lower[k], boxes.upper[k]) for k in range(4)]
    counts = np.bincount(boxes.locate(cube), minlength=4)
    assert stats.chisquare(counts, n * np.array(exact)).pvalue > 1e-3
    # The twin: one fold only.
    assert stats.chisquare(counts, n * MASS).pvalue < 1e-6


def _mass_of(step, lower, upper):
    """Exact mass of a box under the average of folds, by overlaps."""
    total = 0.0
    for fold in step.folds:
        overlap = np.minimum(upper, fold.boxes.upper) - np.maximum(lower, fold.boxes.lower)
        total += np.sum(fold.mass * np.prod(np.maximum(0, overlap), axis=1) / fold.boxes.volume)
    return total / len(step.folds)


def test_marginal_is_the_exact_overlap_of_boxes():
    step = two_folds()
    assert step.driver("a") == 0
    assert step.driver("b") == 1
    edges, density = step.marginal("b", np.linspace(0, 10, 14))
    exact = [
        _mass_of(step, np.array([0, low / 10]), np.array([1, high / 10]))
        for low, high in itertools.pairwise(edges)
    ]
    assert density * np.diff(edges) == pytest.approx(exact, abs=1e-12)
    assert step.cdf("b", edges) == pytest.approx(np.concatenate([[0], np.cumsum(exact)]))
    assert step.cdf("b", -5.0) == 0.0
    assert step.cdf("b", 15.0) == 1.0
    assert step.cdf("b", np.array([[1.0], [2.0]])).shape == (2, 1)


def test_marginal_and_mean_under_a_normal_prior_agree_with_quadrature():
    prior = MapPrior(a=stats.norm(1.0, 2.0), b=stats.gamma(3.0))
    step = two_folds(prior)
    normal, gamma = prior.laws["a"], prior.laws["b"]
    integrals = (  # of the quantile function, from 0
        lambda u: u - 2.0 * stats.norm.pdf(stats.norm.ppf(u)),
        lambda u: 3.0 * stats.gamma(4.0).cdf(gamma.ppf(u)),
    )
    for j, name in enumerate(prior.names):
        # E θ = ∫ ppf(u) f(u) du over the pieces of the marginal of the cube.
        knots = np.unique([0.0, 1.0] + [c for f in step.folds for c in f.boxes.lower[:, j]])
        mean = 0.0
        for low, high in itertools.pairwise(knots):
            cell = np.array([[0.0, 1.0], [0.0, 1.0]])
            cell[j] = low, high
            mass = _mass_of(step, cell[:, 0], cell[:, 1])
            mean += mass / (high - low) * np.diff(integrals[j]([low, high]))[0]
        assert step.mean()[j] == pytest.approx(mean, abs=2e-4)
        edges, density = step.marginal(name, 40)
        assert np.sum(density * np.diff(edges)) == pytest.approx(0.999, abs=1e-6)
    x = step.sample(10_000, rng=0)
    assert stats.kstest(x[:, 0], lambda v: step.cdf("a", v)).pvalue > 1e-3
    assert stats.kstest(x[:, 0], normal.cdf).pvalue < 1e-6


def diagonal(prior, mass=(0.5, 0.0, 0.0, 0.5)):
    """Four quarters of the square, of which two opposite ones have the mass."""
    return StepPosterior.from_folds([one_fold(prior, mass, (0.5, 0.5, 0.5))], prior)


def test_step_posterior_has_the_moments_and_intervals_of_its_boxes():
    prior = MapPrior(a=stats.uniform(), b=stats.norm(0.0, 2.0))
    step = diagonal(prior)
    law, mean = prior.laws["b"], 4.0 * stats.norm.pdf(0.0)  # E |b|
    assert step.std() == pytest.approx([np.sqrt(1 / 12), 2.0], abs=2e-4)
    assert np.sqrt(np.diag(step.cov())) == pytest.approx(step.std())
    # a and b are independent within a half: the covariance is that of the halves' means.
    between = 0.25 * mean
    error = 2.0 * np.sqrt(1 / 12) / np.sqrt(100_000)
    assert abs(step.cov()[0, 1] - between) < 3.5 * error
    assert abs(diagonal(prior, np.full(4, 0.25)).cov()[0, 1] - between) > 35 * error  # the twin
    levels = np.array([0.05, 0.3, 0.9])
    assert step.quantile(levels) == pytest.approx(np.column_stack([levels, law.ppf(levels)]))
    assert step.quantile(0.5) == pytest.approx([0.5, 0.0], abs=1e-9)
    assert step.hdi(0.8)[1] == pytest.approx(law.ppf([0.1, 0.9]), abs=2e-3)
    assert np.diff(step.hdi(0.8)[0]) == pytest.approx([0.8])
    uneven = diagonal(prior, (0.1, 0.0, 0.0, 0.9))
    assert uneven.hdi(0.9)[0] == pytest.approx([0.5, 1.0], abs=1e-3)
    for wrong in (lambda: step.quantile(1.1), lambda: step.hdi(0.0)):
        with pytest.raises(abctree.ParameterError, match="must be in"):
            wrong()


def test_step_posterior_without_drivers_takes_them_from_draws():
    normal = abctree.MultivariateNormal([1.0, 2.0], [[4.0, 1.2], [1.2, 1.0]])
    prior = abctree.Problem({("a", "b"): normal}, abctree.elsewhere, [0.0]).prior
    step = StepPosterior.from_folds([(Boxes.whole(2), np.ones(1), np.zeros(1))], prior)
    assert np.abs(step.mean() - [1.0, 2.0]).max() < 3.5 * 2.0 / np.sqrt(100_000)
    assert step.cov() == pytest.approx(np.array([[4.0, 1.2], [1.2, 1.0]]), rel=0.02)
    expected = stats.norm.ppf(0.9) * np.array([2.0, 1.0]) + [1.0, 2.0]
    assert step.quantile(0.9) == pytest.approx(expected, abs=0.03)
    assert step.hdi(0.6).mean(axis=1) == pytest.approx([1.0, 2.0], abs=0.1)


def test_marginal_of_a_discrete_parameter_has_the_masses_of_atoms():
    prior = MapPrior(n=stats.randint(1, 5), b=stats.uniform(0.0, 10.0))
    step = StepPosterior.from_folds([one_fold(prior)], prior)
    _, density = step.marginal("n", np.arange(0.5, 5.0))
    # The first atom is left of the cut at .25, mass .3; the others share .7.
    assert density == pytest.approx([0.3, 0.7 / 3, 0.7 / 3, 0.7 / 3])
    assert step.cdf("n", 2.0) == pytest.approx(0.3 + 0.7 / 3)
    # Like NumPy's histogram, a bin holds its left edge, and the last bin both.
    assert step.marginal("n", np.array([1.0, 2.0, 4.0]))[1] == pytest.approx([0.3, 0.7 / 2])
    assert step.mean()[0] == pytest.approx(0.3 + 0.7 / 3 * 9, abs=1e-3)


@pytest.mark.parametrize("high", [5, 200, 3001])
def test_default_bins_of_a_whole_number_hold_equally_many_of_them(high):
    prior = MapPrior(n=stats.randint(1, high), b=stats.uniform(0.0, 10.0))
    whole = Boxes.whole(2)
    step = StepPosterior.from_folds([(whole, np.ones(1), np.zeros(1))], prior)
    edges, density = step.marginal("n")
    width = edges[1] - edges[0]
    assert len(density) <= 50
    assert width == max(1, -(-(high - 1) // 50))
    assert (np.mod(edges, 1.0) == 0.5).all()
    inner = density[1:-1]  # the prior is even, and the outermost bins may be cut
    assert inner == pytest.approx(np.full(len(inner), 1.0 / (high - 1)), rel=1e-9)
    # The twin: fifty equal bins hold none, one or two.
    if high == 200:
        other = step.marginal("n", 40)[1][1:-1]
        assert other.max() > 1.1 * other.min()
    assert len(step.marginal("b")[1]) == 50


def test_default_bins_of_whole_numbers_from_draws_are_half_integers_too():
    class Rounded(Swirl):
        def from_cube(self, cube):
            return np.round(10.0 * super().from_cube(cube))

    prior = Rounded()
    boxes = boxes_2d(0.25, 0.5, 0.8)
    step = StepPosterior.from_folds([(boxes, MASS, np.log(boxes.volume))], prior)
    edges, density = step.marginal("a")
    assert (np.mod(edges, 1.0) == 0.5).all()
    assert density.sum() * (edges[1] - edges[0]) == pytest.approx(1.0, abs=2e-3)


def test_marginal_of_a_joint_prior_comes_from_draws():
    prior = Swirl()
    boxes = boxes_2d(0.25, 0.5, 0.8)
    step = StepPosterior.from_folds([(boxes, MASS, np.log(boxes.volume))], prior)
    assert [step.driver(n) for n in prior.names] == [None, None, None]
    mean = MASS @ ((boxes.lower + boxes.upper) / 2)
    assert step.mean() == pytest.approx([mean.sum(), mean[0] - mean[1], 3.0], abs=4 / 100_000**0.5)
    edges, density = step.marginal("a", 20)
    assert np.sum(density * np.diff(edges)) == pytest.approx(0.999, abs=1e-3)
    edges, density = step.marginal("c", 3)
    assert density * np.diff(edges) == pytest.approx([0.0, 1.0, 0.0])


def test_hdr_is_the_densest_boxes():
    step = StepPosterior.from_folds([one_fold()], UNIFORM)
    # Densities: .1/5, .2/5, .5/24, .2/6.
    region = step.hdr(0.4)
    assert region.mass == pytest.approx([0.2, 0.2])
    assert region.lower == pytest.approx(np.array([[-2.0, 5.0], [-1.0, 8.0]]))
    assert region.upper == pytest.approx(np.array([[-1.0, 10.0], [2.0, 10.0]]))
    assert len(step.hdr(0.41)) == 3
    assert len(step.hdr(1.0)) == 4
    assert step.mode() == pytest.approx([-1.5, 7.5])


def test_hdr_and_mode_use_the_volume_in_theta():
    prior = MapPrior(a=stats.expon(scale=1.0), b=stats.uniform(0.0, 1.0))
    mass = [0.3, 0.3, 0.2, 0.2]  # in the cube the last box is densest
    step = StepPosterior.from_folds([one_fold(prior, mass, (0.9, 0.5, 0.5))], prior)
    assert step.cube_pdf(np.array([[0.95, 0.7]])) > step.cube_pdf(np.array([[0.5, 0.7]]))
    assert step.mode()[0] == pytest.approx(stats.expon.ppf(0.45))
    region = step.hdr(0.6)
    assert region.upper[:, 0] == pytest.approx([stats.expon.ppf(0.9)] * 2)
    assert (step.pdf(np.array([[9.0, 0.7]])) == 0.0).all()  # infinite volume


def test_hdr_of_folds_holds_at_least_its_mass():
    step = two_folds()
    for mass in (0.2, 0.5, 0.8):
        region = step.hdr(mass)
        theta = step.sample(20_000, rng=3)
        inside = (theta[:, None] >= region.lower) & (theta[:, None] <= region.upper)
        share = inside.all(axis=2).any(axis=1).mean()
        assert share > mass - 4 * np.sqrt(mass * (1 - mass) / 20_000)


def test_hdr_works_where_volumes_are_unknown():
    boxes = boxes_2d(0.25, 0.5, 0.8)
    step = StepPosterior.from_folds([(boxes, MASS, np.full(4, np.nan))], UNIFORM)
    assert np.isnan(step.pdf(np.zeros((1, 2)) + 0.1)).all()
    assert step.mode() == pytest.approx([-1.5, 7.5])
    assert len(step.hdr(0.4)) == 2


def test_step_posterior_without_acceptances_is_the_prior_and_says_so():
    empty = one_fold(mass=np.zeros(4))
    step = StepPosterior.from_folds([empty, empty], UNIFORM)
    assert step.empty
    assert step.cube_pdf(np.random.default_rng(0).random((9, 2))) == pytest.approx(np.ones(9))
    half = StepPosterior.from_folds([empty, one_fold()], UNIFORM)
    assert not half.empty
    assert len(half.folds) == 1


def test_density_of_an_atom_that_boxes_cut_is_the_average_over_its_interval():
    parameters = {"n": Integers(1, 4), "b": (0.0, 10.0)}
    prior = abctree.Problem(parameters, lambda theta, _: theta, [0.0, 0.0]).prior
    step = StepPosterior.from_folds([one_fold(prior, MASS, (0.3, 0.5, 0.8))], prior)
    # The cut at .3 leaves 1.2 atoms on the left: a fifth of the second.
    left, right = 0.1 / (1.2 * 5.0), 0.5 / (2.8 * 8.0)
    theta = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [2.5, 2.0]])
    assert step.pdf(theta) == pytest.approx([left, 0.2 * left + 0.8 * right, right, 0.0])
    n, b = np.meshgrid([1.0, 2.0, 3.0, 4.0], np.arange(0.05, 10.0, 0.1))
    assert step.pdf(np.column_stack([n.ravel(), b.ravel()])).sum() * 0.1 == pytest.approx(1.0)


# Step functions under a density or a constraint -------------------------------------------------


class Dense(MapPrior):
    """A prior that is a density: Remark 1."""

    def cube_density(self, cube):
        return sloped(cube)


def sloped(cube):
    """In the triangle a + b < 1 of the cube a density that rises with a; its integral is one."""
    return np.where(cube.sum(axis=1) < 1.0, 6.0 * cube[:, 0], 0.0)


def triangle(cube):
    return np.where(cube.sum(axis=1) < 1.0, 2.0, 0.0)


def grid_of_cube(n=1000, m=999):
    """No point lies on a + b = 1."""
    u, v = (np.arange(n) + 0.5) / n, (np.arange(m) + 0.5) / m
    return np.stack(np.meshgrid(u, v, indexing="ij"), axis=-1).reshape(-1, 2)


GRID = grid_of_cube()
SHAPES = {
    "density": (Dense(a=stats.uniform(-2.0, 4.0), b=stats.uniform(0.0, 10.0)), sloped),
    "constraint": (UNIFORM, triangle),
}
CUTS = (0.25, 0.5, 0.6)
#: The last box, [.25, 1] × [.6, 1], holds little of the triangle, and all others some.
SHAPED_MASS = np.array([0.1, 0.2, 0.4, 0.3])


def shaped(name, mass=SHAPED_MASS, cuts=CUTS):
    """A step function with one fold, and the share of its mass at each point of the grid."""
    prior, density = SHAPES[name]
    boxes = boxes_2d(*cuts)
    box, value = boxes.locate(GRID), density(GRID)
    prior_mass = np.bincount(box, value, minlength=4) / len(GRID)
    fold = StepFold(boxes, mass, prior.log_volume(boxes.lower, boxes.upper), prior_mass)
    step = StepPosterior.from_folds([fold], prior, density=density)
    share = mass[box] * value / np.maximum(prior_mass[box], 1e-300) / len(GRID)
    return step, share / share.sum()


@pytest.mark.parametrize("name", SHAPES)
def test_density_within_a_box_has_the_shape_of_the_prior(name):
    step, share = shaped(name)
    density = step.cube_pdf(GRID)
    np.testing.assert_allclose(density / len(GRID), share, atol=1e-12)
    # In θ: the cube has the volume 40.
    np.testing.assert_allclose(step.pdf(UNIFORM.from_cube(GRID)), density / 40.0, atol=1e-9)
    assert (density[GRID.sum(axis=1) > 1.0] == 0.0).all()
    # The twin: flat in a box.
    flat = StepPosterior(step.folds, step.prior)
    assert not np.allclose(flat.cube_pdf(GRID) / len(GRID), share, atol=1e-7)


@pytest.mark.parametrize("name", SHAPES)
def test_mean_and_marginals_within_a_box_are_those_of_the_prior(name):
    step, share = shaped(name)
    theta = UNIFORM.from_cube(GRID)
    assert [step.driver(n) for n in ("a", "b")] == [0, 1]
    mean, sd = share @ theta, np.sqrt(share @ (theta - share @ theta) ** 2)
    assert (np.abs(step.mean() - mean) < 0.01 * sd).all()
    flat = StepPosterior(step.folds, step.prior)
    assert (np.abs(flat.mean() - mean) > 0.1 * sd).any()
    for j, name_of in enumerate("ab"):
        edges, density = step.marginal(
            name_of, np.linspace(*step.quantile([5e-4, 0.9995])[:, j], 8)
        )
        exact, _ = np.histogram(theta[:, j], edges, weights=share)
        assert density * np.diff(edges) == pytest.approx(exact, abs=0.005)
        assert step.cdf(name_of, edges) == pytest.approx(
            [share[theta[:, j] <= x].sum() for x in edges], abs=0.005
        )
    assert step.cdf("a", [-9.0, 9.0]).tolist() == [0.0, 1.0]


def within_rejects(cube, step, share):
    """Chi-squared on the 20 × 20 cells of the cube."""
    cells = [np.floor(20.0 * u).astype(int) @ [20, 1] for u in (cube, GRID)]
    expected = len(cube) * np.bincount(cells[1], share, minlength=400)
    seen = np.bincount(cells[0], minlength=400)
    assert seen[expected == 0.0].sum() == 0
    common = expected >= 5.0
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    told = expected > 0.0
    expected = expected[told] * seen[told].sum() / expected.sum()
    return stats.chisquare(seen[told], expected).pvalue < 1e-3


@pytest.mark.parametrize("name", SHAPES)
def test_draws_within_a_box_are_those_of_the_prior(name, monkeypatch):
    step, share = shaped(name)
    cube = UNIFORM.to_cube(step.sample(20_000, rng=0))
    assert np.array_equal(step.sample(9, rng=1), step.sample(9, rng=1))
    assert step.sample(0).shape == (0, 2)
    assert not within_rejects(cube, step, share)
    if name == "density":
        # The twin: the first candidate with density, which is uniform.
        monkeypatch.setattr(histogram.folds, "_N_CANDIDATES", 1)
        monkeypatch.setattr(histogram.folds, "_N_FIRST", 1)
        assert within_rejects(UNIFORM.to_cube(step.sample(20_000, rng=0)), step, share)


def test_draws_keep_the_mass_of_a_box_of_which_little_is_allowed(monkeypatch):
    step, share = shaped("constraint", cuts=(0.25, 0.5, 0.721))
    boxes = step.folds[0].boxes
    last = step.folds[0].prior_mass[3] / 2.0 / boxes.volume[3]
    assert 0.001 < last < 0.003  # of the last box
    exact = np.bincount(boxes.locate(GRID), share)
    seen = np.bincount(boxes.locate(UNIFORM.to_cube(step.sample(4000, rng=0))), minlength=4)
    assert stats.chisquare(seen, 4000 * exact).pvalue > 1e-3
    # The twin: another box is drawn early.
    monkeypatch.setattr(histogram.folds, "_N_IN_VAIN", 64)
    seen = np.bincount(boxes.locate(UNIFORM.to_cube(step.sample(4000, rng=0))), minlength=4)
    assert stats.chisquare(seen, 4000 * exact).pvalue < 1e-6


@pytest.mark.parametrize("name", SHAPES)
def test_a_box_without_prior_density_is_left_out(name):
    # All of [.25, 1] × [.8, 1] is refused, though the fold gives it mass.
    step, share = shaped(name, cuts=(0.25, 0.5, 0.8))
    assert step.folds[0].prior_mass[3] == 0.0
    assert step.folds[0].mass[3] == pytest.approx(0.3)
    theta = UNIFORM.from_cube(GRID)
    sd = np.sqrt(share @ (theta - share @ theta) ** 2)
    assert (np.abs(step.mean() - share @ theta) < 0.01 * sd).all()
    draws_of = step.sample(10_000, rng=0)
    assert not within_rejects(UNIFORM.to_cube(draws_of), step, share)
    region = step.hdr(1.0)
    assert len(region) == 3
    assert region.mass.sum() == pytest.approx(1.0)
    assert np.isfinite(step.pdf(theta)).all()


@pytest.mark.parametrize("name", SHAPES)
def test_hdr_and_mode_know_the_density(name):
    step, share = shaped(name)
    mode = step.mode()
    cube = UNIFORM.to_cube(mode[None])
    assert cube.sum() < 1.0
    # The average of the density in a box, itself the weight, ranks the boxes.
    box, density = step.folds[0].boxes.locate(GRID), step.cube_pdf(GRID)
    rank = np.bincount(box, share * density) / np.bincount(box, share)
    order = np.argsort(-rank)
    assert step.hdr(1.0).mass == pytest.approx(step.folds[0].mass[order])
    # A point of the quadrature is nearly as dense as the densest point.
    assert step.cube_pdf(cube)[0] > 0.9 * density.max()


def test_step_posterior_of_folds_under_a_constraint_is_their_average():
    one, share = shaped("constraint")
    other, share_too = shaped("constraint", SHAPED_MASS[::-1], (0.5, 0.3, 0.2))
    both = StepPosterior.from_folds(one.folds + other.folds, UNIFORM, density=triangle)
    average = (share + share_too) / 2
    np.testing.assert_allclose(both.cube_pdf(GRID) / len(GRID), average, atol=1e-12)
    theta = UNIFORM.from_cube(GRID)
    assert both.mean() == pytest.approx(average @ theta, abs=0.01)
    assert not within_rejects(UNIFORM.to_cube(both.sample(20_000, rng=0)), both, average)


def test_step_posterior_says_so_where_nothing_is_allowed():
    step = StepPosterior.from_folds([one_fold()], UNIFORM, density=lambda u: np.zeros(len(u)))
    for ask in (lambda: step.sample(3), step.mean, lambda: step.cdf("a", 0.0), step.mode):
        with pytest.raises(ParameterError, match="`density` must be positive somewhere"):
            ask()
    assert step.pdf(np.array([[0.0, 5.0]])) == 0.0


def test_step_posterior_refuses_nonsense():
    with pytest.raises(ParameterError, match="at least one fold"):
        StepPosterior.from_folds([], UNIFORM)
    for mass in ([1.0, 2.0], [1.0, -1.0, 0.0, 0.0], [np.nan] * 4):
        with pytest.raises(ParameterError, match="`mass` must be finite"):
            StepPosterior.from_folds(
                [StepFold(boxes_2d(0.25, 0.5, 0.8), np.array(mass), np.zeros(4))], UNIFORM
            )
    step = two_folds()
    with pytest.raises(ParameterError, match="`name` must be one of a, b"):
        step.cdf("z", 0.0)
    with pytest.raises(ParameterError, match="`bins` must be increasing"):
        step.marginal("a", np.array([1.0, 0.0]))
    with pytest.raises(ParameterError, match="`bins` must be at least 1"):
        step.marginal("a", 0)
    with pytest.raises(ParameterError, match="`mass` must be in"):
        step.hdr(1.5)


# Metrics ----------------------------------------------------------------------------------------


def test_total_variation_counts_what_lies_outside():
    assert metrics.total_variation([0.5, 0.5], [0.5, 0.5]) == 0.0
    assert metrics.total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert metrics.total_variation([0.2, 0.8], [0.5, 0.5]) == pytest.approx(0.3)
    assert metrics.total_variation([0.0, 0.0], [0.5, 0.5]) == 1.0
    assert metrics.total_variation([0.4, 0.4], [0.5, 0.5]) == pytest.approx(0.2)
    with pytest.raises(ParameterError, match="Divide counts by their total"):
        metrics.total_variation([3, 4], [0.5, 0.5])
    with pytest.raises(ParameterError, match="one shape"):
        metrics.total_variation([0.5, 0.5], [1.0])


def test_histogram_tv_uses_weights_and_the_mass_outside():
    theta = np.array([[0.5, 0.5], [1.5, 0.5], [9.0, 0.5]])
    edges = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0])]
    truth = np.array([[0.5], [0.5]])
    assert metrics.histogram_tv(theta, np.array([2.0, 2.0, 0.0]), edges, truth) == 0.0
    assert metrics.histogram_tv(theta, np.array([1.0, 1.0, 2.0]), edges, truth) == pytest.approx(
        0.5
    )
    assert metrics.histogram_tv(theta[:0], np.empty(0), edges, truth) == 1.0
    with pytest.raises(ParameterError, match="`edges` must hold"):
        metrics.histogram_tv(theta, np.ones(3), edges[:1], truth)


def brute_mmd(x, y, w, v, h):
    w, v = w / w.sum(), v / v.sum()
    mean = v @ y
    sd = np.sqrt(v @ (y - mean) ** 2)
    x, y = (x - mean) / sd, (y - mean) / sd

    def k(a, b):
        return np.exp(-np.sum((a - b) ** 2) / (2 * h * h))

    def within(x, w):
        pairs = [(i, j) for i in range(len(x)) for j in range(len(x)) if i != j]
        total = sum(w[i] * w[j] * k(x[i], x[j]) for i, j in pairs)
        return total / sum(w[i] * w[j] for i, j in pairs)

    across = sum(w[i] * v[j] * k(x[i], y[j]) for i in range(len(x)) for j in range(len(y)))
    return within(x, w) + within(y, v) - 2 * across


def test_mmd_is_the_formula(monkeypatch):
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(12, 3)), rng.normal(0.5, [1, 1e6, 1e-6], size=(9, 3))
    w, v = rng.random(12), rng.random(9)
    expected = brute_mmd(x, y, w, v, 0.7)
    assert metrics.mmd(x, y, w, v, 0.7) == pytest.approx(expected)
    monkeypatch.setattr(metrics, "_BLOCK", 20)  # blocks change nothing
    assert metrics.mmd(x, y, w, v, 0.7) == pytest.approx(expected)


def test_mmd_bandwidth_is_the_median_distance_of_the_standardised_reference():
    rng = np.random.default_rng(14)
    x, y = rng.normal(size=(10, 2)), rng.normal(3.0, 2.0, size=(11, 2))
    z = (y - y.mean(axis=0)) / y.std(axis=0)
    pairs = [np.linalg.norm(z[i] - z[j]) for i in range(11) for j in range(i)]
    expected = brute_mmd(x, y, np.ones(10), np.ones(11), np.median(pairs))
    assert metrics.mmd(x, y) == pytest.approx(expected)
    # The answer does not depend on the units of the parameters.
    assert metrics.mmd(x * [1e-9, 1e9], y * [1e-9, 1e9]) == pytest.approx(expected)


def test_mmd_is_unbiased_at_equal_laws():
    rng = np.random.default_rng(15)
    unbiased, biased = [], []
    for _ in range(200):
        x, y = rng.normal(size=(30, 2)), rng.normal(size=(40, 2))
        h = 1.5
        unbiased.append(metrics.mmd(x, y, bandwidth=h))
        biased.append(unbiased[-1] + (1 - unbiased[-1]) / 40)
    z = np.mean(unbiased) / (np.std(unbiased) / np.sqrt(200))
    assert abs(z) < 4
    # The twin: a V-statistic counts each draw as its own neighbour.
    assert np.mean(biased) / (np.std(biased) / np.sqrt(200)) > 4


def test_mmd_of_weighted_draws_is_that_of_the_weighted_law():
    rng = np.random.default_rng(16)
    y = rng.normal(size=(400, 1))
    weighted, raw = [], []
    for _ in range(50):
        x = rng.normal(0.3, 1.3, size=(200, 1))
        w = stats.norm.pdf(x[:, 0]) / stats.norm.pdf(x[:, 0], 0.3, 1.3)
        weighted.append(metrics.mmd(x, y, w))
        raw.append(metrics.mmd(x, y))
    reference = [metrics.mmd(rng.normal(size=(200, 1)), y) for _ in range(50)]
    error = np.hypot(np.std(weighted), np.std(reference)) / np.sqrt(50)
    assert abs(np.mean(weighted) - np.mean(reference)) < 4 * error
    assert np.mean(raw) - np.mean(reference) > 4 * np.std(raw) / np.sqrt(50)


def test_mmd_of_too_few_draws_is_nan():
    y = np.random.default_rng(17).normal(size=(20, 1))
    assert np.isnan(metrics.mmd(np.zeros((1, 1)), y))
    assert np.isnan(metrics.mmd(np.zeros((0, 1)), y))
    assert np.isnan(metrics.mmd(y, y, np.eye(20)[0]))
    with pytest.raises(ParameterError, match="same columns"):
        metrics.mmd(np.zeros((3, 2)), y)
    with pytest.raises(ParameterError, match="`bandwidth` must be above 0"):
        metrics.mmd(y, np.zeros((9, 1)))


# Verdicts ---------------------------------------------------------------------------------------


def test_bias_alarm_needs_ten_per_cent_and_errors_of_the_difference_and_only_below():
    def alarm(difference, error):
        return diagnostics.bias_alarm(0.1, Gap(difference, error), "Do this.")

    message = alarm(-0.020, 0.003)
    assert "20% ± 3% below" in message
    assert message.endswith("Do this.")
    assert alarm(-0.005, 0.001) is None  # 5 %
    assert alarm(-0.020, 0.010) is None  # two standard errors
    assert alarm(0.020, 0.001) is None  # above: the round weights wait for heavy draws
    assert alarm(0.0, 0.0) is None


def test_gap_between_estimates_has_the_error_of_its_draws():
    rng = np.random.default_rng(5)
    distance, weight = importance_sample(2000, rng)
    other = weight * rng.choice([0.9, 1.1], size=2000)
    gap = gap_between(distance, weight, other, 0.1)
    z = evidence(distance, weight, 0.1)
    assert gap.difference == pytest.approx(z.estimate - evidence(distance, other, 0.1).estimate)
    each = (weight - other) * (distance < 0.1)
    assert gap.error == pytest.approx(each.std(ddof=1) / np.sqrt(2000))
    assert gap.error < 0.2 * z.standard_error, "far from both errors in quadrature"


def test_gap_of_one_heavy_draw_is_its_own_error():
    distance, weight, other = np.zeros(50), np.ones(50), np.ones(50)
    other[0] = 1000.0
    gap = gap_between(distance, weight, other, 1.0)
    assert gap.difference == pytest.approx(-gap.error, rel=0.05)
    z = evidence(distance, other, 1.0).estimate
    assert diagnostics.bias_alarm(z, gap, "") is None
    assert "-95% ± 95%" in diagnostics.on_one_fold(z, gap, "")


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (0, "Nothing was accepted at epsilon 1"),
        (4, "Effective sample size 4.0: too few draws"),
        (42, "about 15% of a standard deviation; quantiles in the tails are not to be trusted"),
        (150, "about 8% of a standard deviation; 90 % intervals are rough"),
        (2500, "about 2% of a standard deviation; enough for intervals"),
    ],
)
def test_verdicts_judge_the_effective_sample_size(n, words):
    said = diagnostics.verdicts(draws(np.arange(n)))
    assert words in said[0]
    # 1 / 4 of the weight in one draw of four is named, too.
    assert len(said) == (2 if n == 4 else 1)


def test_verdicts_name_a_heavy_draw_failures_and_a_vague_evidence():
    weight = np.ones(400)
    weight[0] = 30.0
    p = draws(np.arange(400), weight, n_simulations=1000)
    vague = Evidence(1.0, 0.1, 0.02, 50, 1000)
    said = diagnostics.verdicts(p, vague, failures=120, alarm="Beware.")
    assert said[0] == "Beware."
    assert "One draw holds 7% of the weight" in said[2]
    assert "120 of 1000 simulations failed (12.0%)" in said[3]
    assert "taken to be zero" in said[3]
    assert "known to within 20% only" in said[4]
    quiet = diagnostics.verdicts(draws(np.arange(400)), Evidence(1.0, 0.1, 0.001, 50, 1000))
    assert len(quiet) == 1
    assert "taken to be zero" not in diagnostics.verdicts(p, failures=3)[2]


def test_what_is_heavy_far_away_does_not_raise_the_tolerance_of_the_answer(rng):
    # A thousand even draws below 1, and one at 3 that outweighs them until there are many more.
    distance = np.append(np.sort(rng.random(1000)), 3.0)
    weight = np.append(np.ones(1000), 500.0)
    read = partial(selection.select, ess=100.0)
    assert read(distance, weight, near=2.0)[1] == pytest.approx(distance[99], abs=2e-3)
    assert read(distance, weight)[1] == read(distance, weight, near=4.0)[1]
    far = np.append(distance, np.linspace(3.1, 6.0, 5000))
    more = np.append(weight, np.ones(5000))
    assert read(far, more)[1] > 3.0
    assert read(far, more, near=2.0)[1] < 0.2
