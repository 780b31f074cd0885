"""Summaries that the pilot teaches: what they gain, and that they stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import abctree

pytestmark = pytest.mark.xdist_group("learned")  # they share runs
PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
TRUTH = np.array([1.0, -2.0])


def noisy(theta, rng):
    """Ten measurements of each of two parameters with noise 1, and sixty numbers of noise 10."""
    own = np.repeat(theta, 10, axis=1) + rng.standard_normal((len(theta), 20))
    return np.column_stack([own, 10.0 * rng.standard_normal((len(theta), 60))])


@cache
def observed(seed):
    return noisy(TRUTH[None], np.random.default_rng(1000 + seed))[0]


def exact(seed):
    """Posterior means: the prior is flat and wide."""
    return observed(seed)[:20].reshape(2, 10).mean(axis=1)


def problem(seed, summary=None, **more):
    return abctree.Problem(PRIOR, noisy, observed(seed), summary=summary, vectorized=True, **more)


QUICK = {"proposal": "boxes"}


def error(result, seed):
    return float(np.square(result.posterior().mean() - exact(seed)).sum())


class Shuffled(abctree.Learned):
    """Parameters of other simulations."""

    def taught(self, x, cube):
        return super().taught(x, cube[::-1].copy())


def test_learned_summaries_find_what_plain_distances_lose_in_noise():
    learned, plain, shuffled = [], [], []
    for seed in range(4):
        for how, errors in (
            (abctree.Learned(), learned), (None, plain), (Shuffled(), shuffled),
        ):  # fmt: skip
            run = abctree.abc_tree(problem(seed, how), n_simulations=2500, rng=seed, **QUICK)
            errors.append(error(run, seed))
    # The posterior sd of each is .32: learned summaries leave less than its square.
    assert np.mean(learned) < 0.1
    assert np.mean(plain) > 4.0 * np.mean(learned)
    assert np.mean(shuffled) > 4.0 * np.mean(learned)  # twin: nothing was learned


def test_posterior_of_learned_summaries_is_as_narrow_as_the_exact_one():
    def spread(how):
        runs = (
            abctree.abc_tree(problem(s, how), n_simulations=3000, rng=s, **QUICK) for s in range(3)
        )
        return np.mean([run.posterior(ess=100).std() for run in runs])

    assert 0.3 < spread(abctree.Learned()) < 0.45  # the exact one is .316
    assert spread(None) > 0.6  # twin: what ε leaves of the prior in eighty numbers


def test_pilot_counts_and_is_as_long_as_was_said():
    result = abctree.abc_tree(problem(0, abctree.Learned(n_pilot=300)), n_simulations=900, rng=1)
    assert (result.n_simulations, result.plan.n_pilot) == (900, 300)
    default = abctree.abc_tree(problem(0, abctree.Learned()), n_simulations=2000, rng=1)
    assert default.plan.n_pilot == 400  # a fifth, below ten for each of 80 numbers
    said = abctree.abc_tree(problem(0, abctree.Learned()), n_simulations=900, n_pilot=150, rng=1)
    assert said.plan.n_pilot == 150
    kept = abctree.rejection(problem(0, abctree.Learned(n_pilot=300)), n_simulations=900, rng=1)
    assert kept.plan.n_pilot == 300


@pytest.mark.slow
def test_what_was_learned_is_frozen_and_kept(tmp_path):
    how = abctree.Learned(RandomForestRegressor(20), n_pilot=200)
    own = replace(how)
    first = abctree.abc_tree(
        problem(1, how), n_simulations=600, rng=2, store=tmp_path / "run", keep_summaries=False
    )
    again = abctree.abc_tree(problem(1, own), n_simulations=600, rng=2, executor="threads")
    assert np.array_equal(first.table.distance, again.table.distance)
    read = abctree.load(tmp_path / "run", problem(1, how))
    assert np.array_equal(first.table.distance, read.table.distance)
    more = abctree.resume(tmp_path / "run", problem(1, how), n_simulations=800)
    assert np.array_equal(more.table.distance[:600], first.table.distance)
    some = noisy(np.array([[0.0, 0.0], [3.0, 3.0]]), np.random.default_rng(1))
    assert np.array_equal(more.problem.distance.learned(some), first.problem.distance.learned(some))


def test_features_are_learned_from_in_place_of_the_data():
    def features(data):
        return data[:, :20] ** 3

    made = problem(2, abctree.Learned(features=features, n_pilot=300), distance="mad")
    assert made.shape == (20,)
    assert made.check(rng=1).ok
    result = abctree.abc_tree(made, n_simulations=1500, rng=1, proposal="boxes")
    assert result.problem.distance.distance.is_fitted
    assert result.table.summary.shape == (1500, 20)
    assert error(result, 2) < 1.0


def test_failures_teach_nothing():
    def fails(theta, rng):
        out = noisy(theta, rng)
        out[theta[:, 0] > 4.0] = np.nan
        return out

    made = abctree.Problem(
        PRIOR, fails, observed(0), summary=abctree.Learned(n_pilot=300), vectorized=True
    )
    result = abctree.abc_tree(made, n_simulations=900, rng=1)
    assert result.failures.count > 0
    assert np.isfinite(result.table.distance).sum() == 900 - result.failures.count


def test_bad_arguments_are_told():
    with pytest.raises(abctree.ParameterError, match="`regressor` must have fit"):
        abctree.Learned(regressor="ridge")
    with pytest.raises(abctree.ParameterError, match="`n_pilot` must be a whole number"):
        abctree.Learned(n_pilot=3)
    distance = problem(0, abctree.Learned()).distance
    with pytest.raises(abctree.SimulatorError, match="taught by a pilot"):
        distance(np.zeros((1, 80)), np.zeros(80))
    with pytest.raises(abctree.SimulatorError, match="taught by parameters"):
        distance.fitted(np.zeros((1, 80)))


@dataclass
class Broken:
    """A regressor that cannot say what it has learned."""

    how: str

    def fit(self, X, y):
        return self

    def predict(self, X):
        if self.how == "raises":
            raise RuntimeError("no prediction")
        return np.full(len(X), np.nan)


@pytest.mark.parametrize("how", ["raises", "nan"])
def test_a_regressor_that_fails_leaves_failures_and_an_empty_answer(how):
    summary = abctree.Learned(Broken(how), n_pilot=100)
    given = {"n_simulations": 400, "rng": 1}
    with pytest.raises(abctree.SimulatorError, match=r"distance (raised|returned)"):
        abctree.abc_tree(problem(0, summary), **given)
    result = abctree.rejection(problem(0, summary), **given)
    assert result.failures.count == len(result.table)
    with pytest.warns(abctree.AbctreeWarning, match="the posterior is empty"):
        assert len(result.answer().theta) == 0
    assert "failed" in str(result.summary())
