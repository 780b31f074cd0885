"""Runs over several models: their probabilities against exact ones, and what each run says."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import integrate, stats

import abctree
from abctree.testing import check_prior

from .conftest import z_score

pytestmark = pytest.mark.xdist_group("models")  # they share runs

N, TOTAL = 5, 12
HIGH = 9.0


def poisson(theta, rng):
    """The sum of five counts, sufficient for the mean and for the model."""
    return rng.poisson(N * theta[:, 0])[:, None]


def geometric(theta, rng):
    return rng.negative_binomial(N, 1.0 / (1.0 + theta[:, 0]))[:, None]


@cache
def exact():
    """Evidence of a sum of 11 to 13, by quadrature, and the posterior means under it."""
    sums = np.arange(TOTAL - 1, TOTAL + 2)
    laws = (
        lambda mean: stats.poisson.pmf(sums, N * mean).sum(),
        lambda mean: stats.nbinom.pmf(sums, N, 1.0 / (1.0 + mean)).sum(),
    )
    z = np.array([integrate.quad(law, 0.0, HIGH)[0] / HIGH for law in laws])
    first = [integrate.quad(lambda m, law=law: m * law(m), 0.0, HIGH)[0] / HIGH for law in laws]
    return z, np.array(first) / z


def problems():
    return {
        f.__name__: abctree.Problem({"mean": (0.0, HIGH)}, f, [float(TOTAL)], vectorized=True)
        for f in (poisson, geometric)
    }


@cache
def run(rng, n_simulations=1500, prior=None):
    models = abctree.Models(problems(), prior=dict(prior) if prior else None)
    settings = {"n_simulations": n_simulations, "proposal": "boxes", "block": 100}
    return abctree.abc_tree(models, rng=rng, keep_summaries=True, **settings)


SEEDS = range(16)
EPSILON = 1.5


def test_probabilities_of_models_are_the_exact_ones():
    z, _ = exact()
    truth = z[0] / z.sum()
    found = [abctree.compare(run(s), epsilon=EPSILON).probability["poisson"] for s in SEEDS]
    assert abs(z_score(found, truth)) < 4.0

    def share(result):
        near = result.table.distance < EPSILON
        return np.mean(result.table.theta[near, 0] == 0)

    assert abs(z_score([share(run(s)) for s in SEEDS], truth)) > 4.0  # weights dropped


def test_errors_of_evidences_are_those_between_seeds():
    z, _ = exact()
    found = [abctree.compare(run(s), epsilon=EPSILON).evidences for s in SEEDS]
    scores = [
        (e.estimate - t) / e.standard_error for es in found for e, t in zip(es, z, strict=True)
    ]
    assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.7
    assert max(map(abs, scores)) < 4.0


def test_a_prior_of_the_models_counts_once():
    z, _ = exact()
    prior = (("poisson", 0.8), ("geometric", 0.2))
    truth = 0.8 * z[0] / (0.8 * z[0] + 0.2 * z[1])
    found = [abctree.compare(run(s, prior=prior), epsilon=EPSILON) for s in range(5)]
    assert abs(z_score([c.probability["poisson"] for c in found], truth)) < 4.0
    flat = abctree.compare(
        run(0, prior=prior), epsilon=EPSILON, prior={"poisson": 1.0, "geometric": 1.0}
    )
    assert flat.evidences[0].estimate == found[0].evidences[0].estimate
    assert flat.probability["poisson"] < found[0].probability["poisson"]


def test_the_run_of_one_model_has_its_posterior():
    _, mean = exact()
    for k, name in enumerate(("poisson", "geometric")):
        draws = [run(s).of_model(name).posterior(EPSILON) for s in SEEDS]
        assert draws[0].names == ("mean",)
        assert abs(z_score([d.mean()[0] for d in draws], mean[k])) < 4.0
    one = run(0).of_model("geometric")
    whole = abctree.compare(run(0), epsilon=EPSILON).evidences[1]
    assert one.evidence(EPSILON).estimate == pytest.approx(whole.estimate)
    assert one.answer().reading is not None
    assert one.predict(5).data[0].shape == (1,)


def test_simulations_leave_a_model_that_is_out_of_reach():
    def far(theta, rng):
        return 1000.0 + theta[:, :1]

    models = abctree.Models(
        {**problems(), "far": abctree.Problem({"mean": (0.0, 1.0)}, far, [12.0], vectorized=True)}
    )
    result = abctree.abc_tree(models, n_simulations=2000, rng=3, block=100)
    comparison = abctree.compare(result, epsilon=EPSILON)
    assert comparison.probability["far"] == 0.0
    share = comparison.interval()
    assert 0.0 < share["far"][1] < 1.0 / 3.0
    # What it may have, for all that is known, the others have not.
    low, high = comparison.evidences[0].interval(), comparison.evidences[2].interval()[1]
    assert share["poisson"][0] <= low[1] / (low[1] + high)
    two = abctree.answers.Evidence(1.0, 0.0, np.nan, 0, 100)
    comparison = replace(comparison, evidences=(comparison.evidences[0], two, two))
    assert comparison.probability["poisson"] == 1.0
    assert comparison.interval()["poisson"][0] < low[1] / (low[1] + two.interval()[1]) < 0.9
    played = result.table.theta[result.table.round > 0, 0]
    assert np.mean(played == 2) < 0.2  # of the prior it has a third


# A utility for the probabilities ----------------------------------------------------------------


@pytest.mark.parametrize("proposal", ["adaptive", "boxes"])
def test_probabilities_are_exact_under_the_utility_for_them(proposal):
    z, _ = exact()
    prior = {"poisson": 0.1, "geometric": 0.9}
    truth = 0.1 * z[0] / (0.1 * z[0] + 0.9 * z[1])
    models = abctree.Models(problems(), prior=prior)
    runs = [
        abctree.abc_tree(
            models, n_simulations=1000, rng=seed, utility="models", proposal=proposal, block=100,
            keep_summaries=True,
        )
        for seed in range(8)
    ]  # fmt: skip
    found = np.array([abctree.compare(r, epsilon=EPSILON).probability["poisson"] for r in runs])
    assert abs(z_score(found, truth)) < 4.0
    assert found.std() < 0.35 * truth

    def share(result):
        near = result.table.distance < EPSILON
        return np.mean(result.table.theta[near, 0] == 0)

    assert abs(z_score([share(r) for r in runs], truth)) > 4.0  # weights dropped
    played = [np.mean(r.table.theta[r.table.round > 0, 0] == 0) for r in runs]
    usual = abctree.abc_tree(models, n_simulations=1000, rng=0, proposal=proposal, block=100).table
    assert np.mean(played) > 2.0 * np.mean(usual.theta[usual.round > 0, 0] == 0)


@pytest.mark.heavy
def test_the_utility_for_probabilities_halves_the_error_of_a_clear_choice():
    """What it may gain, by quadrature, is more than what is asked for here."""
    z, _ = exact()
    models = abctree.Models(problems(), prior={"poisson": 0.05, "geometric": 0.95})
    truth = 0.05 * z[0] / (0.05 * z[0] + 0.95 * z[1])
    square = {}
    for utility in ("ess", "models"):
        runs = [
            abctree.abc_tree(models, n_simulations=1500, rng=seed, utility=utility)
            for seed in range(30)
        ]
        found = [abctree.compare(r, epsilon=EPSILON).probability["poisson"] for r in runs]
        square[utility] = (np.array(found) - truth) ** 2
    gap = square["ess"] - 1.5 * square["models"]
    assert gap.mean() > 2.0 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_shares_of_models_in_boxes_are_those_of_their_points(rng):
    prior = abctree.Models(KINDS, prior={"scalar": 1.0, "seeded": 2.0, "batch": 3.0}).prior
    ends = np.sort(rng.random((20, 2, 3)), axis=1)
    lower, upper = ends[:, 0], ends[:, 1]
    found = prior.parts_of(lower, upper)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for low, high, share in zip(lower, upper, found, strict=True):
        cube = low + (high - low) * rng.random((4000, 3))
        counted = np.bincount(prior.model_at(cube), minlength=3) / 4000
        assert np.abs(counted - share).max() < 5.0 * 0.5 / np.sqrt(4000)


def test_the_utility_for_models_wants_models():
    with pytest.raises(abctree.ParameterError, match=r"`utility` must .* give abctree\.Models"):
        abctree.abc_tree(problems()["poisson"], n_simulations=100, utility="models")


# Of all kinds -----------------------------------------------------------------------------------


def scalar(theta, rng):
    return np.atleast_1d(rng.normal(theta[0] - theta[1]))


def seeded(theta, seeds):
    return np.array(
        [[np.random.default_rng(s).normal(t[0])] for t, s in zip(theta, seeds, strict=True)]
    )


def batch(theta, rng):
    return rng.normal(theta[:, 1:2])


KINDS = {
    "scalar": abctree.Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, scalar, [0.5], constraint=lambda t: t["b"] < t["a"]
    ),
    "seeded": abctree.Problem({"mu": abctree.Integers(0, 3)}, seeded, [0.5], vectorized="seeds"),
    "batch": abctree.Problem(
        {"n": 4.0, "mu": stats.norm(0, 1)}, batch, [0.5], vectorized=True, batch_size=50
    ),
}


@pytest.mark.slow
def test_problems_of_all_kinds_are_one_problem():
    models = abctree.Models(KINDS)
    assert models.d == 3
    assert models.names == ("model", "a/mu/n", "b/mu")
    check_prior(models.prior)
    runs = [
        abctree.abc_tree(models, n_simulations=3000, rng=5, executor=executor)
        for executor in (None, "threads")
    ]
    assert np.array_equal(runs[0].table.distance, runs[1].table.distance)

    # Closed forms: |x - .5| < .25 for a normal law about what each prior has.
    def inside(mu):
        return stats.norm(mu).cdf(0.75) - stats.norm(mu).cdf(0.25)

    truth = [
        2.0 * integrate.quad(lambda u: (1.0 - u) * inside(u), 0.0, 1.0)[0],  # a - b, a > b
        inside(np.arange(4)).mean(),
        stats.norm(0, np.sqrt(2.0)).cdf(0.75) - stats.norm(0, np.sqrt(2.0)).cdf(0.25),
    ]
    for e, t in zip(abctree.compare(runs[0], epsilon=0.25).evidences, truth, strict=True):
        assert abs(e.estimate - t) < 4.0 * e.standard_error
        assert e.standard_error < 0.15 * t
    assert runs[0].of_model("scalar").problem.names == ("a", "b")
    assert (np.diff(runs[0].of_model("scalar").table.theta) < 0.0).all()


def test_a_distance_that_is_scaled_in_the_pilot_is_one_for_all():
    scaled = {
        f.__name__: abctree.Problem(
            {"mean": (0.0, HIGH)}, f, [12.0], vectorized=True, distance="mad"
        )
        for f in (poisson, geometric)
    }
    result = abctree.abc_tree(abctree.Models(scaled), n_simulations=1000, rng=1, proposal="boxes")
    scale = result.problem.distance.scale
    assert result.of_model("poisson").problem.distance.scale == scale
    assert abctree.compare(result).probability["poisson"] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("utility", ["ess", "models"])
def test_runs_over_models_are_kept_and_resumed(tmp_path, utility):
    models = abctree.Models(problems())
    given = {"rng": 1, "utility": utility}
    stopped = abctree.abc_tree(models, n_simulations=600, store=tmp_path / "run", **given)
    again = abctree.load(tmp_path / "run", models)
    assert np.array_equal(again.table.distance, stopped.table.distance)
    more = abctree.resume(tmp_path / "run", models, n_simulations=900)
    assert more.n_simulations == 900
    assert abctree.compare(more).names == ("poisson", "geometric")


def test_what_moves_parameters_wants_one_model():
    result = run(0)
    assert result.answer().reading is None
    for read in (result.adjusted, result.calibration, result.fit):
        with pytest.raises(abctree.ParameterError, match=r"Read result\.of_model"):
            read()
    assert "geometric" in str(result.summary())


def test_there_is_no_mode_over_several_models(tmp_path):
    """Of their parameters together it was one that no model allows."""
    with pytest.raises(abctree.ParameterError, match=r"read result\.of_model\(name\)\.mode"):
        run(0).mode()
    with pytest.raises(abctree.ParameterError, match="`problem` must be one model for a mode"):
        abctree.map_tree(run(0).problem, n_simulations=500, rng=1)
    assert 0.0 < run(0).of_model("poisson").mode().theta[0] < HIGH
    pytest.importorskip("jinja2")
    run(0, 300).report(tmp_path / "page.html")
    assert "of_model" in (tmp_path / "page.html").read_text("utf-8")


def test_bad_models_are_told():
    good = problems()
    one = good["poisson"]
    with pytest.raises(abctree.ParameterError, match="two problems or more"):
        abctree.Models({"one": one})
    other = abctree.Problem({"mean": (0.0, HIGH)}, poisson, [3.0], vectorized=True)
    with pytest.raises(abctree.ParameterError, match="same observed summary"):
        abctree.Models({"one": one, "other": other})
    other = abctree.Problem({"mean": (0.0, HIGH)}, poisson, [12.0], vectorized=True, distance="mad")
    with pytest.raises(abctree.ParameterError, match="same distance"):
        abctree.Models({"one": one, "other": other})
    with pytest.raises(abctree.ParameterError, match="have the names poisson, geometric"):
        abctree.Models(good, prior={"poisson": 1.0})
    with pytest.raises(abctree.ParameterError, match="be positive"):
        abctree.Models(good, prior={"poisson": 1.0, "geometric": 0.0})
    with pytest.raises(abctree.ParameterError, match="hold problems"):
        abctree.Models({"one": one, "other": 3})
    with pytest.raises(abctree.ParameterError, match="be one of poisson, geometric"):
        run(0).of_model("other")
    alone = abctree.rejection(one, n_simulations=200, rng=1)
    with pytest.raises(abctree.ParameterError, match=r"a run of abctree\.Models"):
        alone.of_model("poisson")
    with pytest.raises(abctree.ParameterError, match=r"a run of abctree\.Models"):
        abctree.compare(alone)


def test_runs_without_names_are_not_compared():
    problem = abctree.Problem({"a": (0.0, 1.0)}, lambda t, r: t[0] + r.normal(), 0.5)
    runs = [abctree.rejection(problem, n_simulations=200, rng=seed) for seed in (0, 1)]
    draws = {name: run.posterior() for name, run in zip("ab", runs, strict=True)}
    for given in (runs, {}, {"a": runs[0]}, draws):
        says = f"two runs or more by name, but got {str(given)[:2]}"
        with pytest.raises(abctree.ParameterError, match=re.escape(says)):
            abctree.compare(given)


@pytest.mark.parametrize("given", [{"a": "1", "b": 1}, {"a": None, "b": 1}])
def test_a_prior_of_models_is_made_of_numbers(given):
    problem = abctree.Problem({"a": (0.0, 1.0)}, lambda t, r: t[0] + r.normal(), 0.5)
    with pytest.raises(abctree.ParameterError, match="`prior` must be a number"):
        abctree.Models({"a": problem, "b": problem}, prior=given)
    same = abctree.Models({"a": problem, "b": problem}, prior={"a": 1e308, "b": 1e308})
    assert same.probability == {"a": 0.5, "b": 0.5}


def test_a_model_without_a_draw_is_unknown():
    problem = abctree.Problem({"a": (0.0, 1.0)}, lambda t, r: t[0] + r.normal(), 0.5)
    models = abctree.Models({"a": problem, "b": problem})
    result = abctree.rejection(models, n_simulations=1, rng=1)
    comparison = abctree.compare(result)
    assert sorted(e.interval()[1] == 1.0 for e in comparison.evidences) == [False, True]
    assert "unknown, for nothing was simulated" in str(comparison)
    assert str(comparison).endswith(
        "Draws are too few to see whether the Bayes factors still move below it."
    )
