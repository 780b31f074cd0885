"""Draws that are moved, by a regression or by smoothing, stay in the prior, whatever its kind."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import AbctreeWarning
from abctree.problem.scores import Scores, _canonical

from .conftest import z_score


class Staircase:
    """A prior that has no more than it must: a real parameter, and the tens up to 30."""

    names, d = ("a", "n"), 2

    def from_cube(self, cube):
        return np.column_stack([cube[:, 0], 10.0 * np.floor(4.0 * cube[:, 1])])

    def to_cube(self, theta):
        return np.column_stack([theta[:, 0], (theta[:, 1] / 10.0 + 0.5) / 4.0])

    def log_volume(self, lower, upper):
        return np.log(upper - lower).sum(axis=1)


def ordered(cube):
    return np.sort(cube, axis=1)


def in_half_plane(theta):
    return np.where(theta.sum(axis=1) > 1.0, -theta[:, 0], -np.inf)


def within(low, high, *columns):
    return lambda t: ((t[:, columns] >= low) & (t[:, columns] <= high)).all(axis=1)


def on_simplex(t):
    return (t > 0.0).all(axis=1) & (np.abs(t.sum(axis=1) - 1.0) < 1e-12)


@dataclass(frozen=True, eq=False)
class Kind:
    """A prior of (p,) parameters, data at or beyond its end, and what is in it, written out."""

    given: Any  #: a prior, or arguments of `Problem`
    observed: tuple[float, ...]
    inside: Any  #: theta (m, p) -> (m,)
    discrete: tuple[int, ...] = ()
    noise: float = 0.3

    @cache  # noqa: B019 - a handful, for the length of the tests
    def posterior(self, rng=0):
        given = self.given if isinstance(self.given, dict) else {"prior": self.given}
        given = given if {"prior", "prior_transform"} & set(given) else {"prior": given}
        problem = abctree.Problem(
            **given, simulator=self.simulate, observed=np.array(self.observed), vectorized=True
        )
        return abctree.rejection(problem, n_simulations=3000, rng=rng).posterior(ess=300)

    def simulate(self, theta, rng):
        return theta + self.noise * rng.standard_normal(theta.shape)


FLAT, ANY = {"a": (0.0, 1.0)}, lambda t: np.isfinite(t).all(axis=1)
KINDS = {
    "interval": Kind(FLAT, (1.2,), within(0.0, 1.0, 0)),
    "interval of the size 1e-12": Kind(
        {"a": (0.0, 1e-12)}, (1e-12,), within(0.0, 1e-12, 0), noise=3e-13
    ),
    "half-line": Kind({"a": stats.gamma(0.5)}, (-0.2,), within(0.0, np.inf, 0)),
    "reversed half-line": Kind({"a": stats.weibull_max(1.5)}, (0.2,), within(-np.inf, 0.0, 0)),
    "beta": Kind({"a": stats.beta(2.0, 5.0)}, (-0.2,), within(0.0, 1.0, 0)),
    "normal": Kind({"a": stats.norm(0, 1)}, (4.0,), ANY),
    "cauchy": Kind({"a": stats.cauchy()}, (4.0,), ANY),
    "joint normal": Kind(
        {("a", "b"): abctree.MultivariateNormal([0, 0], [[1, 0.9], [0.9, 1]])}, (1.0, -1.0), ANY
    ),
    "simplex": Kind(
        {("a", "b", "c"): abctree.Dirichlet([1.0, 1.0, 1.0])}, (0.9, -0.2, 0.2), on_simplex
    ),
    "fixed": Kind(
        {"a": (0.0, 1.0), "c": 3.0}, (1.2, 3.0),
        lambda t: within(0.0, 1.0, 0)(t) & (t[:, 1] == 3.0),
    ),
    "whole numbers": Kind(
        {"a": (0.0, 1.0), "n": abctree.Integers(1, 3), "m": stats.poisson(2.0)}, (1.2, 3.4, -0.5),
        lambda t: within(0.0, 1.0, 0)(t) & np.isin(t[:, 1], range(1, 4))
        & np.isin(t[:, 2], range(99)),
        (1, 2), 1.0,
    ),
    "many whole numbers": Kind(
        {"a": (0.0, 1.0), "n": stats.nbinom(0.5, 1e-5)}, (1.2, -10.0),
        lambda t: within(0.0, 1.0, 0)(t) & (t[:, 1] == np.rint(t[:, 1])) & (t[:, 1] >= 0.0),
        (1,),
    ),
    "categories": Kind(
        {"a": (0.0, 1.0), "k": abctree.Categorical([5.0, -1.0, 2.5])}, (1.2, 2.0),
        lambda t: within(0.0, 1.0, 0)(t) & np.isin(t[:, 1], [5.0, -1.0, 2.5]), (1,), 2.0,
    ),
    "only whole numbers": Kind(
        {"n": abctree.Integers(1, 9)}, (9.5,), lambda t: np.isin(t[:, 0], range(1, 10)), (0,)
    ),
    "prior_transform": Kind(
        {"prior_transform": ordered, "names": ("a", "b")}, (0.9, 0.7),
        lambda t: within(0.0, 1.0, 0, 1)(t) & (t[:, 0] <= t[:, 1]),
    ),
    "density": Kind(
        abctree.DensityPrior(lambda t: -t[:, 0], {"a": (0.0, 1.0)}), (-0.3,), within(0.0, 1.0, 0)
    ),
    "density with a forbidden part": Kind(
        abctree.DensityPrior(in_half_plane, {"a": (0.0, 1.0), "b": (0.0, 2.0)}), (0.3, 0.4),
        lambda t: within(0.0, 2.0, 0, 1)(t) & (t[:, 0] <= 1.0) & (t.sum(axis=1) > 1.0),
    ),
    "a prior of the user's": Kind(
        Staircase(), (1.2, 33.0),
        lambda t: within(0.0, 1.0, 0)(t) & np.isin(t[:, 1], [0.0, 10.0, 20.0, 30.0]), (), 2.0,
    ),
    "constraint": Kind(
        {"prior": {"a": stats.norm(0, 1), "b": (-2.0, 2.0)},
         "constraint": lambda t: t["a"] < t["b"]}, (0.5, 0.0),
        lambda t: within(-2.0, 2.0, 1)(t) & (t[:, 0] < t[:, 1]),
    ),
    "narrow constraint": Kind(
        {"prior": {"a": (0.0, 1.0), "b": (0.0, 1.0)},
         "constraint": lambda t: np.abs(t["a"] - t["b"]) < 0.005}, (1.1, 0.9),
        lambda t: within(0.0, 1.0, 0, 1)(t) & (np.abs(t[:, 0] - t[:, 1]) < 0.005),
    ),
    "constraint on whole numbers": Kind(
        {"prior": {"n": abctree.Integers(1, 4), "x": (0.0, 4.0), "c": 2.0},
         "constraint": lambda t: t["x"] < t["n"]}, (2.0, 2.5, 2.0),
        lambda t: within(0.0, 4.0, 1)(t) & np.isin(t[:, 0], [1, 2, 3, 4]) & (t[:, 1] < t[:, 0])
        & (t[:, 2] == 2.0),
        (0,), 1.0,
    ),
}  # fmt: skip
#: Kinds that an adjustment without bounds leaves: what the tests below are good for.
LEFT_BY_A_PLAIN_REGRESSION = ("interval", "half-line", "prior_transform", "constraint")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:The regression would move")
@pytest.mark.filterwarnings("ignore:.*smooth draws were refused")
def test_adjusted_and_smooth_draws_stay_in_the_prior(name):
    kind = KINDS[name]
    raw = kind.posterior()
    adjusted = raw.adjusted()
    assert adjusted.is_adjusted
    assert adjusted.weights[~kind.inside(adjusted.theta)].sum() == 0.0
    assert kind.inside(adjusted.theta).all()
    for column in kind.discrete:
        assert np.array_equal(adjusted.theta[:, column], raw.theta[:, column])
    for posterior in (raw, adjusted):
        smooth = posterior.sample(2000, rng=1, smooth=True)
        assert kind.inside(smooth).all()
    # Something has moved, where there is something that may.
    moved = name != "only whole numbers"
    assert (not np.allclose(adjusted.theta, raw.theta, rtol=1e-9, atol=0.0)) == moved
    assert (len(np.unique(smooth, axis=0)) > 1900) == moved


@pytest.mark.parametrize("name", LEFT_BY_A_PLAIN_REGRESSION)
def test_draws_moved_without_their_prior_leave_it(name):
    """The twin of the test above: the same regression and kernels on the parameters themselves."""
    kind = KINDS[name]
    raw = kind.posterior()
    plain = abctree.answers.Posterior(
        **{**vars_of(raw), "region": None, "cube": None, "bounds": None}
    )
    adjusted = plain.adjusted()
    assert adjusted.weights[~kind.inside(adjusted.theta)].sum() > 0.01
    assert not kind.inside(plain.sample(2000, rng=1, smooth=True)).all()


def vars_of(posterior):
    return {name: getattr(posterior, name) for name in posterior.__dataclass_fields__}


# What a constraint refuses ----------------------------------------------------------------------


def test_adjusted_draws_that_a_constraint_refuses_are_counted_and_told():
    raw = KINDS["constraint"].posterior()
    said = r"would move \d+ of \d+ draws, 0\.\d+ of the weight"
    with pytest.warns(AbctreeWarning, match=said) as told:
        adjusted = raw.adjusted()
    assert told[0].filename == __file__
    assert len(adjusted) == len(raw)
    assert adjusted.notes == (str(told[0].message),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KINDS["interval"].posterior().adjusted().is_adjusted


def test_a_move_is_halved_until_it_is_allowed_and_no_further():
    kind = KINDS["constraint"]
    raw = kind.posterior()
    scores = raw._scores
    far = scores.z + np.array([3.0, -3.0])  # beyond the border for most
    theta, cube, short = scores.moved_within(far)
    assert len(short) > 0.5 * len(raw)
    assert kind.inside(theta).all()
    gone = (stats.norm.ppf(cube) - scores.z)[:, 0] / 3.0
    halvings = -np.log2(gone[gone > 1e-9])
    assert np.allclose(halvings, np.rint(halvings), atol=1e-6)
    twice = scores.moved(scores.z + 2.0 * np.outer(gone[short], [3.0, -3.0]), short)
    assert not twice[2][gone[short] > 1e-9].any()
    assert set(np.flatnonzero(halvings > 0.5)) <= set(short)


def test_smooth_draws_that_a_constraint_keeps_refusing_are_counted_and_told():
    raw = KINDS["interval"].posterior()
    few = np.quantile(raw.theta[:, 0], [0.5, 0.6])

    def constraint(t):
        return np.isin(t["a"], raw.theta[:, 0]) | ((t["a"] > few[0]) & (t["a"] < few[0] + 1e-4))

    region = abctree.Problem(FLAT, lambda t, r: t, [1.0], constraint=constraint).region
    thin = abctree.answers.Posterior(**{**vars_of(raw), "region": region})
    with pytest.warns(AbctreeWarning, match=r"\d+ of 200 smooth draws were refused"):
        draws = thin.sample(200, rng=1, smooth=True)
    assert constraint({"a": draws[:, 0]}).all()


@pytest.mark.parametrize("name", ["interval", "half-line", "reversed half-line", "beta"])
@pytest.mark.filterwarnings("ignore:The regression would move")
def test_draws_of_a_table_made_elsewhere_stay_in_the_bounds_that_are_given(name):
    kind = KINDS[name]
    made = kind.posterior()
    raw = abctree.answers.Posterior(**{**vars_of(made), "region": None, "cube": None})
    assert raw.bounds is not None
    adjusted = raw.adjusted()
    assert adjusted.is_adjusted
    assert kind.inside(adjusted.theta).all()
    assert kind.inside(raw.sample(2000, rng=1, smooth=True)).all()


# Pickles ----------------------------------------------------------------------------------------


def ordered_columns(t):
    return t["a"] < t["b"]


def test_a_pickled_posterior_keeps_its_prior_if_that_can_be_pickled():
    kind = KINDS["constraint"]
    region = abctree.Problem(
        kind.given["prior"], kind.simulate, [0.0, 0.0], constraint=ordered_columns
    ).region
    raw = replace(kind.posterior(), region=region)
    raw.sample(1, rng=0, smooth=True)  # what is cached is no part of it
    sent = pickle.loads(pickle.dumps(raw))
    assert np.array_equal(sent.theta, raw.theta)
    assert np.array_equal(sent.sample(9, rng=1, smooth=True), raw.sample(9, rng=1, smooth=True))


def test_a_posterior_whose_prior_cannot_be_pickled_is_sent_without_and_says_so():
    raw = KINDS["constraint"].posterior()  # the constraint is a lambda
    sent = pickle.loads(pickle.dumps(raw))
    assert np.array_equal(sent.mean(), raw.mean())
    assert sent.region is None
    for use in (sent.adjusted, lambda: replace(sent).sample(9, rng=1, smooth=True)):
        with pytest.warns(AbctreeWarning, match="did not come with them"):
            use()


def test_a_pickled_mode_is_without_its_run():
    result = abctree.rejection(abctree.problems.gauss(1), n_simulations=500, rng=1)
    mode = result.mode()
    sent = pickle.loads(pickle.dumps(mode))
    assert sent.run is None
    assert np.array_equal(sent.theta, mode.theta)


# Accuracy ---------------------------------------------------------------------------------------


def errors(prior, observed, exact, epsilon, read, n_seeds=20):
    """(n, 2) Errors of mean and sd, in exact sds, of y = θ + N(0, 1) accepted within ε."""
    problem = abctree.Problem(
        prior, lambda t, rng: t + rng.standard_normal(t.shape), [observed], vectorized=True
    )
    rows = []
    for seed in range(n_seeds):
        run = abctree.rejection(problem, n_simulations=5000, rng=seed)
        found = read(run.posterior(epsilon=epsilon))
        rows.append([(found.mean()[0] - exact[0]) / exact[1], found.std()[0] / exact[1] - 1.0])
    return np.array(rows)


def adjusted(posterior):
    return posterior.adjusted()


def as_they_are(posterior):
    return posterior


def test_adjusted_draws_of_a_normal_prior_are_those_of_the_exact_posterior():
    """θ ~ N(0, 4), y = 1: exactly N(.8, .8), for scores of a normal prior are linear in it."""
    given = ({"a": stats.norm(0.0, 2.0)}, 1.0, (0.8, np.sqrt(0.8)), 3.0)
    found = errors(*given, adjusted)
    for column in found.T:
        assert abs(z_score(column, 0.0)) < 3.5
        assert column.std(ddof=1) / np.sqrt(len(column)) < 0.01
    # The twin: no adjustment.
    assert all(abs(z_score(column, 0.0)) > 20 for column in errors(*given, as_they_are).T)


def test_a_regression_on_the_cube_itself_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Scores, "z", property(lambda s: s.cube[:, s.moves]))
    monkeypatch.setattr("abctree.problem.scores.ndtr", lambda z: np.clip(z, 0.0, 1.0))
    found = errors({"a": stats.norm(0.0, 2.0)}, 1.0, (0.8, np.sqrt(0.8)), 3.0, adjusted)
    assert max(abs(z_score(column, 0.0)) for column in found.T) > 5


@pytest.mark.parametrize("observed", [0.0, 2.5])
def test_adjustment_of_a_flat_prior_removes_most_of_the_error(observed):
    """θ ~ U(−3, 3): a normal of sd 1, cut at the ends."""
    law = stats.truncnorm(-3.0 - observed, 3.0 - observed, loc=observed)
    given = ({"a": (-3.0, 3.0)}, observed, (law.mean(), law.std()), 1.5)
    found = errors(*given, adjusted)
    assert (found.std(axis=0, ddof=1) / np.sqrt(len(found)) < 0.01).all()
    # What is left is that the relation is not linear; on the logit scale it was .040 for the sd.
    assert (np.abs(found.mean(axis=0)) < 0.035).all()
    # The twin: no adjustment.
    assert np.abs(errors(*given, as_they_are).mean(axis=0)).max() > 0.2


def test_smooth_draws_of_modes_that_lie_apart_are_as_narrow_as_these(monkeypatch):
    """Two modes of sd .1 at ±1; the twin has one bandwidth for both."""
    problem = abctree.Problem(
        {"a": (-3.0, 3.0)},
        lambda t, rng: np.abs(t) + 0.1 * rng.standard_normal(t.shape),
        [1.0],
        vectorized=True,
    )
    raw = abctree.rejection(problem, n_simulations=10_000, rng=1).posterior(ess=500)

    def widening():
        smooth = raw.sample(20_000, rng=2, smooth=True)[:, 0]
        assert np.mean(smooth > 0.0) == pytest.approx(
            raw.weights @ (raw.theta[:, 0] > 0.0), abs=0.02
        )
        return np.abs(smooth).std() / np.sqrt(np.cov(np.abs(raw.theta[:, 0]), aweights=raw.weights))

    assert widening() == pytest.approx(1.0, abs=0.05)
    monkeypatch.setattr("abctree.answers.posterior.modes", lambda *_: None)
    assert widening() > 1.5


@pytest.mark.parametrize("name", ["interval", "normal", "constraint"])
def test_smooth_draws_keep_mean_and_spread(name):
    raw = KINDS[name].posterior()
    smooth = raw.sample(20_000, rng=2, smooth=True)
    assert np.abs((smooth.mean(axis=0) - raw.mean()) / raw.std()).max() < 0.05
    assert np.abs(smooth.std(axis=0) / raw.std() - 1.0).max() < 0.05
    # The twin: kernels without shrinkage are too wide.
    noise = np.random.default_rng(0).normal(size=smooth.shape)
    wide = raw.sample(20_000, rng=2) + 0.5 * raw.std() * noise
    assert np.abs(wide.std(axis=0) / raw.std() - 1.0).min() > 0.05


@pytest.mark.parametrize("canonical", [True, False])
def test_draws_of_a_map_that_sorts_are_smoothed_as_one_mode(canonical, monkeypatch):
    """Else near draws are far apart in the cube, and what is between them is filled: the twin."""
    if not canonical:
        monkeypatch.setattr("abctree.problem.scores._canonical", lambda prior, cube: cube)
    problem = abctree.Problem(
        prior_transform=ordered, names=("a", "b"), observed=[0.3, 0.6], vectorized=True,
        simulator=lambda theta, rng: theta + 0.15 * rng.standard_normal(theta.shape),
    )  # fmt: skip
    worst = []
    for seed in range(4):
        raw = abctree.rejection(problem, n_simulations=4000, rng=seed).posterior(ess=300)
        smooth = raw.sample(20_000, rng=seed, smooth=True)
        spread = np.abs(smooth.std(axis=0) / raw.std() - 1.0)
        worst.append(max(np.abs((smooth.mean(axis=0) - raw.mean()) / raw.std()).max(), *spread))
    assert (np.mean(worst) < 0.025) == canonical


def test_coordinates_are_ordered_only_where_the_map_does_not_tell_them_apart():
    cube = np.random.default_rng(0).random((50, 3))
    maps = {
        "none": lambda u: u * [1.0, 2.0, 3.0],
        "two": lambda u: np.column_stack([np.sort(u[:, :2], axis=1), u[:, 2]]),
        "all": lambda u: np.sort(u, axis=1),
    }
    found = {
        name: _canonical(abctree.PriorTransform(function, ("a", "b", "c")), cube)
        for name, function in maps.items()
    }
    assert np.array_equal(found["none"], cube)
    assert np.array_equal(found["two"], np.column_stack([np.sort(cube[:, :2], axis=1), cube[:, 2]]))
    assert np.array_equal(found["all"], np.sort(cube, axis=1))
    unit = dict.fromkeys("abc", (0.0, 1.0))
    alike = abctree.Problem(unit, lambda theta, _: theta, [0.0] * 3).prior
    assert _canonical(alike, cube) is cube
