"""Several data sets in one observation: a distance and a weight for each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree.distances import Combined, Energy, Euclidean, Minkowski, Scaled
from abctree.testing import check_distance

from .conftest import z_score

OBSERVED = {"cases": [1.0, 2.0, 3.0], "deaths": 4.0}


def epidemic(theta, rng):
    """The fields in another order than that of the observation."""
    return {"deaths": rng.normal(theta[1]), "cases": rng.normal(theta[0], size=3)}


def epidemics(theta, rng):
    n = len(theta)
    return {
        "cases": theta[:, :1] + rng.standard_normal((n, 3)),
        "deaths": theta[:, 1] + rng.standard_normal(n),
    }


PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}


def problem(distance, observed=OBSERVED, simulator=epidemic, **more):
    return abctree.Problem(PRIOR, simulator, observed, distance=distance, **more)


def test_distance_is_the_root_of_the_sum_of_weighted_squares():
    own = Combined({"cases": ("manhattan", 2.0), "deaths": "euclidean"}, scale=[4.0, 0.5])
    made = problem(own)
    simulated = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 3.0, 5.0]])
    expected = [0.0, np.hypot(2.0 * 3.0 / 4.0, 1.0 / 0.5)]
    assert made.distance(simulated, made.observed_summary) == pytest.approx(expected)


def test_plain_euclidean_parts_are_the_euclidean_distance_of_all():
    made = problem(Combined({"cases": "euclidean", "deaths": "euclidean"}, scale=[1.0, 1.0]))
    simulated = np.random.default_rng(1).normal(size=(20, 4))
    whole = Euclidean()(simulated, made.observed_summary)
    assert made.distance(simulated, made.observed_summary) == pytest.approx(whole)
    differences = made.distance.standardised(simulated, made.observed_summary)
    assert np.linalg.norm(differences, axis=1) == pytest.approx(whole)
    mixed = problem(Combined({"cases": "manhattan", "deaths": "mad"}, scale=[1.0, 1.0]))
    fitted = mixed.fitted(simulated, np.zeros((20, 2)))
    assert fitted.distance.standardised(simulated, made.observed_summary) is None


def test_data_sets_of_another_unit_count_as_much():
    """Deaths in thousands and in ones give the same distances; without units they do not."""
    rng = np.random.default_rng(2)
    simulated = rng.normal(size=(300, 4))
    scale = np.array([1.0, 1.0, 1.0, 1000.0])
    large = {**OBSERVED, "deaths": 4000.0}
    spec = {"cases": "energy", "deaths": "euclidean"}
    places = np.zeros((300, 2))  # which only learned summaries look at
    here = problem(spec).fitted(simulated, places)
    there = problem(spec, large).fitted(simulated * scale, places)
    found = here.distance(simulated, here.observed_summary)
    assert there.distance(simulated * scale, there.observed_summary) == pytest.approx(found)
    fixed = Combined(spec, scale=[1.0, 1.0])
    plain = problem(fixed, large)
    assert plain.distance(simulated * scale, plain.observed_summary) != pytest.approx(found)
    # In units of the median distance of two simulations.
    pairs = np.abs(np.diff(simulated[:201, 3]))
    assert here.distance.scale[1] == pytest.approx(np.median(pairs))


def exact_means(made, epsilon):
    """Means (2,) of the ε-posterior: those given summaries, averaged over the ellipsoid d < ε.

    With flat priors from -5 to 5 the mean of k normal summaries of one parameter, s, has the
    density Φ(√k (5 - s)) - Φ(√k (-5 - s)), and the parameter has a normal law about s that is cut
    off there.
    """
    rng = np.random.default_rng(7)
    ball = rng.standard_normal((100_000, 4))
    ball *= epsilon * rng.random((len(ball), 1)) ** 0.25 / np.linalg.norm(ball, axis=1)[:, None]
    steps = made.distance.standardised(np.eye(4) + made.observed_summary, made.observed_summary)
    summary = made.observed_summary + ball @ np.linalg.inv(steps)
    cases, weight, means = summary[:, :3], 1.0, []
    for s, k in ((cases.mean(axis=1), 3), (summary[:, 3], 1)):
        low, high = np.sqrt(k) * (-5.0 - s), np.sqrt(k) * (5.0 - s)
        inside = stats.norm.cdf(high) - stats.norm.cdf(low)
        weight = weight * inside
        cut = stats.norm.pdf(high) - stats.norm.pdf(low)
        means.append(s - cut / inside / np.sqrt(k))
    weight *= np.exp(-0.5 * ((cases - cases.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    return np.average(means, axis=1, weights=weight)


def test_a_run_has_the_posterior_of_both_data_sets():
    spec = {"cases": "mad", "deaths": ("mad", 2.0)}
    given = {"n_simulations": 2000, "proposal": "boxes"}
    means, exact = [], []
    for seed in range(12):
        made = problem(spec, simulator=epidemics, vectorized=True)
        result = abctree.abc_tree(made, rng=seed, **given)
        draws = result.posterior()
        means.append(draws.mean())
        exact.append(exact_means(result.problem, draws.epsilon))
        assert result.problem.distance.is_fitted
        assert isinstance(result.problem.distance.parts["cases"][0], Scaled)
    for found, truth in zip(np.transpose(means), np.transpose(exact), strict=True):
        assert abs(z_score(found - truth, 0.0)) < 3.5
        assert np.std(found - truth) / np.sqrt(12) < 0.06
    # The twins: the likelihood's top, beyond which the prior soon ends; and deaths forgotten.
    deaths = np.array(means)[:, 1]
    assert abs(z_score(deaths, 4.0)) > 5.0
    assert abs(z_score(deaths, 0.0)) > 5.0
    assert result.answer().reading is not None


def test_simulations_one_by_one_have_the_same_posterior():
    spec = {"cases": "mad", "deaths": ("mad", 2.0)}
    result = abctree.abc_tree(problem(spec), n_simulations=2000, rng=1, proposal="boxes")
    draws = result.posterior()
    exact = exact_means(result.problem, draws.epsilon)
    assert (np.abs(draws.mean() - exact) < 4.0 * draws.mcse()).all()


def test_what_is_missing_is_left_out_of_its_data_set():
    observed = {"cases": [1.0, np.nan, 3.0], "deaths": 4.0}
    made = problem(Combined({"cases": "manhattan", "deaths": "euclidean"}, scale=[1.0, 2.0]),
                   observed, missing="ignore")  # fmt: skip
    simulated = np.array([[2.0, 3.0, 6.0]])
    expected = np.hypot(1.0, 2.0 / 2.0)
    assert made.distance(simulated, made.observed_summary) == pytest.approx([expected])
    alone = problem(Combined({"cases": "manhattan", "deaths": "euclidean"}, scale=[1.0, 2.0]),
                    {"cases": [1.0, 2.0, 3.0], "deaths": np.nan}, missing="ignore")  # fmt: skip
    assert alone.distance(np.array([[1.0, 2.0, 5.0]]), alone.observed_summary) == [2.0]


def test_samples_keep_their_shape():
    rng = np.random.default_rng(3)
    observed = {"points": rng.normal(size=(6, 2)), "n": 3.0}
    made = abctree.Problem(
        {"a": (0.0, 1.0)},
        lambda theta, rng: {"points": rng.normal(theta[0], size=(6, 2)), "n": theta[0]},
        observed,
        distance=Combined({"points": Energy(), "n": Minkowski(1.0)}, scale=[1.0, 1.0]),
    )
    points = rng.normal(size=(6, 2))
    expected = np.hypot(Energy()(points[None], observed["points"])[0], 1.0)
    simulated = np.concatenate([points.ravel(), [4.0]])[None]
    assert made.distance(simulated, made.observed_summary) == pytest.approx([expected])


def test_combined_conforms():
    check_distance(problem({"cases": "mad", "deaths": "euclidean"}).distance, np.zeros(4))


def test_bad_parts_are_told():
    with pytest.raises(abctree.ParameterError, match="have the fields of the observation, cases"):
        problem({"cases": "mad"})
    with pytest.raises(abctree.ParameterError, match="which has none"):
        problem({"cases": "mad"}, [1.0, 2.0])
    with pytest.raises(abctree.ParameterError, match="`weight` must be above 0"):
        problem({"cases": ("mad", 0.0), "deaths": "mad"})
    with pytest.raises(abctree.ParameterError, match="`distance` must be one of"):
        problem({"cases": "made", "deaths": "mad"})
    with pytest.raises(abctree.ParameterError, match="have 2 numbers"):
        Combined({"cases": "mad", "deaths": "mad"}, scale=[1.0])
    with pytest.raises(abctree.ParameterError, match="hold a distance for each"):
        Combined({})
    with pytest.raises(abctree.ParameterError, match="know the fields"):
        Combined({"a": "euclidean"}, scale=[1.0])(np.zeros((1, 1)), np.zeros(1))
