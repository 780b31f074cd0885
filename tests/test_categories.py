"""Categorical parameters are summarised by probabilities."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree.answers.weighted import Probabilities
from tests.conftest import z_score

pytestmark = pytest.mark.xdist_group("categories")  # they share runs

PRIOR = np.array([0.5, 0.3, 0.2])
#: P(1 | k)
CHANCE = np.array([0.1, 0.5, 0.9])
TRUTH = PRIOR * CHANCE / (PRIOR @ CHANCE)
CODES = [0, 3, 10]


def simulate(theta, rng):
    chance = CHANCE[np.searchsorted(CODES, theta[:, 1])]
    return (rng.random(len(theta)) < chance).astype(float)


def posterior(seed, n=1500):
    prior = {"x": (0.0, 1.0), "kind": abctree.Categorical(CODES, PRIOR)}
    problem = abctree.Problem(prior, simulate, 1.0, vectorized=True)
    run = abctree.abc_tree(problem, n_simulations=n, rng=seed, block=150, proposal="boxes")
    return run, run.posterior(epsilon=0.5)


@pytest.fixture(scope="module")
def found():
    return [posterior(seed)[1] for seed in range(8)]


def worst(probabilities):
    return max(abs(z_score(np.array(probabilities)[:, k], TRUTH[k])) for k in range(3))


def test_probabilities_are_those_of_bayes(found):
    known = [draws.probabilities("kind") for draws in found]
    assert worst([p.probability for p in known]) < 3.5
    spread = np.std([p.probability for p in known], axis=0, ddof=1)
    error = np.mean([p.mcse for p in known], axis=0)
    assert (spread < 0.04).all()
    assert (np.abs(np.log(spread / error)) < np.log(2.5)).all()
    for p in known:
        assert p.values.tolist() == CODES
        assert p.probability.sum() == pytest.approx(1.0)


def misses(error):
    """How often 40 equal draws of a value of probability .05 are off by three errors and more."""
    off = [
        k
        for k in range(41)
        if abs(k / 40 - 0.05) >= 3.0 * error(np.repeat([1.0, 0.0], [k, 40 - k]))
    ]
    return stats.binom(40, 0.05).pmf(off).sum()


def test_a_value_that_no_draw_has_is_not_known_to_be_impossible():
    equal = np.full(40, 1.0 / 40.0)
    of = Probabilities.of
    assert misses(lambda x: of(x, equal, np.array([0.0, 1.0])).mcse[1]) < 0.02
    assert of(np.zeros(40), equal, np.zeros(1)).mcse < 1e-9, "there is no other"


def test_the_scatter_of_the_draws_alone_would_say_so():
    assert misses(lambda x: x.std() / np.sqrt(39.0)) > 0.1


def test_shares_of_the_prior_would_be_noticed(found):
    rng = np.random.default_rng(1)
    drawn = [draws.region.prior.from_cube(rng.random((200, 2)))[:, 1] for draws in found]
    shares = [[np.mean(kind == code) for code in CODES] for kind in drawn]
    assert worst(shares) > 10.0


def test_a_summary_has_probabilities_instead_of_a_mean(tmp_path):
    run, draws = posterior(1)
    summary = run.summary(epsilon=0.5)
    p = draws.probabilities("kind")
    lines = str(summary).splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("kind"))
    assert lines[row - 1].split() == ["P(0)", "P(3)", "P(10)"]
    assert [float(word) for word in lines[row].split()[1:]] == pytest.approx(
        p.probability, rel=1e-3
    )
    assert lines[row + 1].split()[1::2] == [f"{e:.1g}" for e in p.mcse]
    assert sum(line.startswith("x ") for line in lines) == 1
    assert "P(10)" in summary._repr_html_()

    told = summary.to_dict()["parameters"]
    assert set(told["kind"]) == {"probabilities", "mcse"}
    assert told["kind"]["probabilities"]["3"] == p.probability[1]
    assert told["x"]["mean"] == draws.mean()[0]

    abctree.export.to_csv(summary, tmp_path / "summary.csv")
    rows = list(csv.DictReader((tmp_path / "summary.csv").read_text().splitlines()))
    assert [r["parameter"] for r in rows] == ["x", "kind = 0", "kind = 3", "kind = 10"]
    assert float(rows[2]["mean"]) == p.probability[1]
    assert np.isnan(float(rows[2]["sd"]))


def test_integers_keep_their_mean_and_may_be_asked_for_probabilities():
    problem = abctree.Problem(
        {"n": abctree.Integers(1, 4), "fixed": abctree.Categorical([2])},
        lambda n, fixed, rng: n + rng.normal(), 2.0,
    )  # fmt: skip
    run = abctree.rejection(problem, n_simulations=1000, keep=100, rng=1)
    draws = run.posterior()
    assert draws.categories == ()
    p = draws.probabilities("n")
    assert p.probability @ p.values == pytest.approx(draws.mean()[0])
    assert "P(" not in str(run.summary())
    with pytest.raises(abctree.ParameterError, match="must be one of n, fixed"):
        draws.probabilities("m")


def test_many_categories_take_several_lines_and_none_is_left_out():
    values = list(range(12))
    problem = abctree.Problem(
        {"k": abctree.Categorical(values)}, lambda theta, rng: theta[0] + rng.normal(), 3.0
    )
    summary = abctree.rejection(problem, n_simulations=600, keep=40, rng=1).summary()
    text = str(summary)
    assert text.count("\nk  ") == 3
    assert all(f"P({value})" in text for value in values)
    assert max(len(line) for line in text.splitlines() if "P(" in line) <= 80


def test_the_model_of_several_is_a_category():
    models = abctree.Models({
        name: abctree.Problem({"mean": (0, 9)}, lambda theta, rng: theta[0] + rng.normal(), 2.0)
        for name in ("one", "two")
    })  # fmt: skip
    draws = abctree.rejection(models, n_simulations=400, keep=100, rng=1).posterior()
    assert draws.probabilities("model").values.tolist() == [0.0, 1.0]
    assert draws.categories[0].column == 0


def test_without_draws_the_values_are_known_and_their_probabilities_are_not():
    problem = abctree.Problem({"kind": abctree.Categorical(CODES)}, lambda kind, rng: kind, 0.5)
    run = abctree.rejection(problem, n_simulations=100, rng=1)
    with pytest.warns(abctree.AbctreeWarning, match="Nothing was accepted"):
        p = run.posterior(epsilon=0.1).probabilities("kind")
    assert p.values.tolist() == CODES
    assert np.isnan(p.probability).all()
    assert np.isnan(p.mcse).all()
