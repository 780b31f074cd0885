"""Several data sets in one observation: a distance and a weight for each."""

from __future__ import annotations

import numpy as np
import pytest

import abctree
from abctree.distances import Combined, Energy, Euclidean, Minkowski, Scaled
from abctree.testing import check_distance

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


def plain_rejection(made, epsilon):
    """Means (2,) of the ε-posterior, and of that of the cases alone, by prior draws; an error."""
    rng = np.random.default_rng(7)
    theta, means = rng.uniform(-5.0, 5.0, (200_000, 2)), []
    told = epidemics(theta, rng)
    simulated = np.column_stack([told["cases"], told["deaths"]])
    for deaths in (simulated[:, 3], np.full(len(theta), 4.0)):
        simulated[:, 3] = deaths
        near = theta[made.distance(simulated, made.observed_summary) < epsilon]
        means.append((near.mean(axis=0), near.std(axis=0) / np.sqrt(len(near))))
    return means[0][0], means[1][0], means[0][1]


def test_a_run_has_the_posterior_of_both_data_sets():
    spec = {"cases": "mad", "deaths": ("mad", 2.0)}
    given = {"n_simulations": 2000, "rng": 1, "proposal": "boxes"}
    runs = [
        abctree.abc_tree(problem(spec, simulator=simulator, vectorized=vectorized), **given)
        for simulator, vectorized in ((epidemic, False), (epidemics, True))
    ]
    for result in runs:
        draws = result.posterior()
        exact, of_cases, error = plain_rejection(result.problem, draws.epsilon)
        error = 4.0 * np.hypot(draws.mcse(), error)
        assert (np.abs(draws.mean() - exact) < error).all()
        assert abs(draws.mean() - of_cases)[1] > error[1]  # the twin: one data set is forgotten
        assert result.problem.distance.is_fitted
        assert isinstance(result.problem.distance.parts["cases"][0], Scaled)
        assert result.answer().reading is not None


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
