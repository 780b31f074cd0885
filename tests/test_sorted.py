"""Numbers of data without an order, such as independent measurements, are compared sorted."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import abctree

pytestmark = pytest.mark.xdist_group("sorted")  # they share runs

N_DATA = 20
PRIOR = {"place": (-5.0, 5.0), "scale": (0.1, 3.0)}
OUTLIERS, WIDER = 0.15, 8.0


def measured(theta, rng):
    """Independent measurements, some of which are eight times as uncertain as the others."""
    shape = (len(theta), N_DATA)
    wider = np.where(rng.random(shape) < OUTLIERS, WIDER, 1.0)
    return theta[:, :1] + theta[:, 1:] * wider * rng.standard_normal(shape)


@cache
def run(seed, n_simulations=3000, **settings):
    observed = measured(np.array([[1.0, 0.8]]), np.random.default_rng([5, seed]))[0]
    problem = abctree.Problem(PRIOR, measured, observed, vectorized=True, **settings)
    return abctree.abc_tree(problem, n_simulations=n_simulations, rng=seed)


def exact_moments(observed):
    """Means and standard deviations (2,) of place and scale, by quadrature of the likelihood."""
    place, scale = (
        low + (high - low) * (np.arange(250) + 0.5) / 250 for low, high in PRIOR.values()
    )
    place, scale = place[:, None], scale[None]
    log = np.zeros((250, 250))
    for x in observed:
        square = -0.5 * ((x - place) / scale) ** 2
        wide = OUTLIERS / WIDER * np.exp(square / WIDER**2)
        log += np.log(((1.0 - OUTLIERS) * np.exp(square) + wide) / scale)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    mean = np.array([np.sum(mass * of) for of in (place, scale)])
    square = np.array([np.sum(mass * of**2) for of in (place, scale)])
    return mean, np.sqrt(square - mean**2)


def test_the_answer_from_raw_measurements_with_outliers_is_right():
    off = {"answer": [], "twin": []}
    for seed in range(4):
        result = run(seed)
        mean, spread = exact_moments(result.problem.observed_summary)
        for name, draws in (("answer", result.answer()), ("twin", result.adjusted())):
            off[name].append((draws.mean() - mean) / spread)
    root_mean_square = {name: np.sqrt(np.mean(np.square(found))) for name, found in off.items()}
    assert root_mean_square["answer"] < 0.6
    assert root_mean_square["twin"] > 1.2  # by the numbers in the order that they came in


def test_an_answer_by_sorted_numbers_says_so_and_how_to_look_there():
    result = run(0)
    said = str(result.summary())
    assert "on sorted numbers" in said
    assert "No simulation tells the 20 numbers of the data from one another" in said
    assert "summary=np.sort" in said
    twin = str(run(0, summary=np.sort).summary())
    assert "sorted" not in twin


def is_sorted(result):
    """Whether numbers can be compared sorted; where they cannot, answer and summary do not."""
    try:
        return result.posterior(summaries="sorted").summaries == "sorted"
    except abctree.ParameterError as error:
        why = str(error)
    assert "where the order of numbers matters, or may" in why
    assert "sorted" not in str(result.answer().reading)
    assert not any("No simulation tells" in said for said in result.summary().verdicts)
    return False


def test_sorted_draws_are_near_by_sorted_numbers():
    result = run(0)
    draws = result.posterior(summaries="sorted", ess=100)
    every = np.linalg.norm(
        np.sort(result.table.summary, axis=1) - np.sort(result.problem.observed_summary), axis=1
    )
    assert draws.summaries == "sorted"
    assert np.array_equal(draws.distance, every[every < draws.epsilon])


def lasting(theta, rng):
    """A place that lasts."""
    x = rng.standard_normal((len(theta), N_DATA))
    for i in range(1, N_DATA):
        x[:, i] = 0.5 * theta[:, 0] * x[:, i - 1] + x[:, i]
    return x


def lasting_spread(theta, rng):
    """A spread that lasts, as that of markets does: no two numbers are correlated."""
    log = lasting(np.full_like(theta, 1.9), rng)
    return np.exp(0.5 * theta[:, :1] * log) * rng.standard_normal(log.shape)


def trend(theta, rng):
    slope = 0.5 * (theta[:, :1] - 0.5) * np.linspace(-1.0, 1.0, N_DATA)
    return slope + rng.standard_normal((len(theta), N_DATA))


def two_spreads(theta, rng):
    spread = np.repeat(theta[:, :2], N_DATA // 2, axis=1)
    return (1.0 + spread) * rng.standard_normal((len(theta), N_DATA))


@pytest.mark.parametrize("simulator", [lasting, lasting_spread, trend, two_spreads])
def test_an_order_that_says_something_is_kept(simulator):
    """In the twin each simulation has an order of its own."""
    rng = np.random.default_rng(3)
    theta = rng.random((2000, 2))
    data = simulator(theta, rng)
    assert not is_sorted(abctree.from_table(theta, data, data[0], distance="euclidean"))
    mixed = rng.permuted(data, axis=1)
    assert is_sorted(abctree.from_table(theta, mixed, data[0], distance="euclidean"))


def test_few_simulations_do_not_tell_an_order_from_none():
    rng = np.random.default_rng(4)
    theta = rng.random((999, 2))
    data = measured(theta, rng)
    few = abctree.from_table(theta, data, data[0])
    assert not is_sorted(few)
    theta, data = np.vstack([theta, theta[:1]]), np.vstack([data, measured(theta[:1], rng)])
    assert is_sorted(abctree.from_table(theta, data, data[0]))


def test_numbers_without_an_order_are_found_whatever_they_are():
    """Ties, and what all numbers share, are no order."""
    kinds = {
        "counts": lambda t, rng: rng.poisson(4.0 * t[:, :1], (len(t), 8)),
        "coins": lambda t, rng: rng.random((len(t), 12)) < t[:, :1],
        "heavy": lambda t, rng: t[:, :1] * rng.standard_cauchy((len(t), 6)),
        "shared": lambda t, rng: t[:, :1] + rng.normal(size=(len(t), 1)) + rng.random((len(t), 9)),
    }
    for seed in range(3):
        rng = np.random.default_rng([6, seed])
        theta = rng.random((1000, 2))
        for simulator in kinds.values():
            data = np.asarray(simulator(theta, rng), dtype=float)
            table = abctree.from_table(theta, data, data[0], distance="std")
            assert len(table.posterior(summaries="sorted"))


def test_a_trend_that_the_model_lacks_is_seen_though_numbers_are_compared_sorted():
    def series(theta, rng):
        return theta[:, :1] + theta[:, 1:] * rng.standard_normal((len(theta), N_DATA))

    data = np.random.default_rng(7).standard_normal(N_DATA) + np.linspace(-4.0, 4.0, N_DATA)
    p_values = []
    for observed in (data, np.random.default_rng(8).permutation(data)):
        problem = abctree.Problem(PRIOR, series, observed, vectorized=True)
        result = abctree.abc_tree(problem, n_simulations=3000, rng=1, proposal="boxes")
        assert any("No simulation tells" in said for said in result.summary().verdicts)
        p_values.append(result.fit().p_value)
    assert p_values[0] <= 0.02
    assert p_values[1] > 0.05
