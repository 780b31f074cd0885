"""Parameters on circles: a wrapped normal posterior, and what does not know of the circle."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

import abctree
from tests.conftest import z_score

pytestmark = pytest.mark.xdist_group("circles")  # they share runs

#: Of the noise, and the half width of the acceptance in radians.
SIGMA, REACH = 0.3, 0.5
#: The observed angle: almost on the seam of (-π, π).
OBSERVED = 3.1
SEEDS = 8
QUICK = {"n_simulations": 2000, "block": 200, "proposal": "boxes"}


def simulate(theta, rng):
    angle = theta[:, 0] + rng.normal(scale=SIGMA, size=len(theta))
    return np.column_stack([np.cos(angle), np.sin(angle)])


def problem(prior):
    observed = [np.cos(OBSERVED), np.sin(OBSERVED)]
    return abctree.Problem({"phi": prior}, simulate, observed, vectorized=True)


PERIODIC, PLAIN = abctree.Periodic(-np.pi, np.pi), (-np.pi, np.pi)


@cache
def runs(kind):
    made = problem(PERIODIC if kind == "periodic" else PLAIN)
    return tuple(abctree.abc_tree(made, rng=seed, **QUICK) for seed in range(SEEDS))


@cache
def posteriors(kind):
    """Posteriors of several seeds, of the angles within REACH of the observed one."""
    chord = 2.0 * np.sin(REACH / 2.0)
    return tuple(run.posterior(epsilon=chord) for run in runs(kind))


#: R of a wrapped normal law and a uniform one on (-REACH, REACH): the exact ABC posterior.
LENGTH = np.exp(-0.5 * SIGMA**2) * np.sin(REACH) / REACH
STD = np.sqrt(-2.0 * np.log(LENGTH))


def wrapped(angle):
    return (np.asarray(angle) + np.pi) % (2.0 * np.pi) - np.pi


def errors_of_the_mean(draws):
    return [wrapped(d.mean()[0] - OBSERVED) for d in draws]


def test_circular_mean_and_sd_are_those_of_the_closed_form():
    draws = posteriors("periodic")
    mean, std = errors_of_the_mean(draws), [d.std()[0] for d in draws]
    assert abs(z_score(mean, 0.0)) < 3.5
    assert abs(z_score(std, STD)) < 3.5
    assert np.std(mean) / np.sqrt(SEEDS) < 0.02
    assert np.std(std) / np.sqrt(SEEDS) < 0.02


def test_the_same_check_fails_where_the_circle_is_not_known():
    draws = posteriors("plain")
    assert abs(z_score(errors_of_the_mean(draws), 0.0)) > 10.0
    assert abs(z_score([d.std()[0] for d in draws], STD)) > 10.0


def test_standard_errors_are_those_of_replicates():
    draws = posteriors("periodic")
    for estimates, error in (
        (errors_of_the_mean(draws), [d.mcse()[0] for d in draws]),
        ([d.std()[0] for d in draws], [d.mcse("std")[0] for d in draws]),
    ):
        ratio = np.std(estimates, ddof=1) / np.mean(error)
        assert 0.4 < ratio < 2.0, "chi of 7 degrees of freedom: 0.49 and 1.6 are its 1 % ends"


def test_quantiles_and_intervals_go_around_the_seam():
    draws = posteriors("periodic")[0]
    low, middle, high = draws.quantile([0.05, 0.5, 0.95])[:, 0]
    assert low < middle < high < low + 2.5
    assert abs(wrapped(middle - OBSERVED)) < 0.2
    shortest = draws.hdi(0.9)[0]
    assert 0.0 < np.diff(shortest)[0] <= high - low + 1e-12
    np.testing.assert_allclose(wrapped(draws.unwrapped), wrapped(draws.theta), atol=1e-12)
    plain = posteriors("plain")[0].quantile([0.05, 0.95])[:, 0]
    assert plain[1] - plain[0] > 5.0, "the twin"


def adjusted(kind):
    return [run.adjusted(ess=300) for run in runs(kind)]


def test_an_adjustment_finds_the_posterior_on_the_seam():
    draws = adjusted("periodic")
    assert abs(z_score(errors_of_the_mean(draws), 0.0)) < 3.5
    assert np.mean([d.std()[0] for d in draws]) == pytest.approx(SIGMA, rel=0.06)
    theta = np.concatenate([d.theta[:, 0] for d in draws])
    assert (np.abs(theta) <= np.pi).all(), "it stays in the prior"


def test_an_adjustment_that_does_not_know_the_circle_fails():
    draws = adjusted("plain")
    assert np.mean([d.std()[0] for d in draws]) > 2.0


def test_the_answer_is_read_around_the_circle():
    answers = [run.answer() for run in runs("periodic")]
    for answer in answers:
        assert abs(wrapped(answer.mean()[0] - OBSERVED)) < 4.0 * answer.mcse()[0] + 0.05
    # Of one run it is known to 7 %.
    assert np.mean([answer.std()[0] for answer in answers]) == pytest.approx(SIGMA, rel=0.1)
    assert abs(answer.sample(500, rng=1, smooth=True)).max() <= np.pi
    again = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(again.unwrapped, answer.unwrapped)


@pytest.mark.parametrize(
    ("method", "settings"), [(abctree.map_tree, {}), (abctree.abc_tree, {"proposal": "boxes"})]
)
def test_a_mode_on_the_seam_is_found_with_its_error(method, settings):
    given = {"n_simulations": 3000, "block": 300, **settings}

    def z_of(prior):
        modes = [method(problem(prior), rng=seed, **given).mode() for seed in range(3)]
        assert all(np.abs(mode.theta[0]) <= np.pi for mode in modes)
        known = [mode for mode in modes if mode.covariance is not None]
        z = [wrapped(m.theta[0] - OBSERVED) / np.sqrt(m.covariance[0, 0]) for m in known]
        return len(known), np.abs(z)

    n, z = z_of(PERIODIC)
    assert n == 3
    assert z.max() < 3.5
    # The twin: a mode that is sought between the ends is on one of them, and has no error.
    assert z_of(PLAIN)[0] < 3


def test_the_mode_of_the_closest_is_found_around_the_circle():
    settings = {"n_simulations": 3000, "keep": 500, "rng": 1}
    mode = abctree.rejection(problem(PERIODIC), **settings).mode()
    assert abs(wrapped(mode.theta[0] - OBSERVED)) < 0.3


def test_the_step_function_is_counted_from_opposite_its_mean():
    runs = [
        abctree.abc_tree(problem(p), n_simulations=3000, rng=1, block=150)
        for p in (PERIODIC, PLAIN)
    ]
    steps, plain = (run.histogram() for run in runs)
    assert abs(wrapped(steps.mean()[0] - OBSERVED)) < 0.15
    assert SIGMA < steps.std()[0] < 2.0 * SIGMA
    low, high = steps.hdi(0.9)[0]
    assert low < steps.mean()[0] < high < low + 6.0 * SIGMA
    assert steps.cdf("phi", [steps.mean()[0]])[0] == pytest.approx(0.5, abs=0.1)
    assert plain.std()[0] > 2.0, "the twin"


def test_the_cut_makes_no_difference():
    """An angle in degrees, cut elsewhere: the same numbers in another unit."""

    def in_degrees(theta, rng):
        return simulate(np.deg2rad(theta), rng)

    observed = [np.cos(OBSERVED), np.sin(OBSERVED)]
    made = abctree.Problem({"phi": abctree.Periodic(0, 360)}, in_degrees, observed, vectorized=True)
    given = {"n_simulations": 4000, "rng": 3, "block": 200}
    draws = abctree.abc_tree(made, **given).posterior(epsilon=0.4)
    other = abctree.abc_tree(problem(PERIODIC), **given).posterior(epsilon=0.4)
    error = np.hypot(np.deg2rad(draws.mcse()[0]), other.mcse()[0])
    assert abs(wrapped(np.deg2rad(draws.mean()[0]) - other.mean()[0])) < 4.0 * error
    assert np.deg2rad(draws.std()[0]) == pytest.approx(other.std()[0], rel=0.2)


def test_a_pair_plot_shows_one_hump():
    pytest.importorskip("matplotlib.figure")
    draws = posteriors("periodic")[0]
    figure = abctree.plots.pair(draws, truth=[-np.pi])
    low, high = figure.axes[0].get_xlim()
    assert high - low < 4.0
    assert low < np.pi < high
    figure = abctree.plots.pair(posteriors("plain")[0])
    assert np.ptp(figure.axes[0].get_xlim()) > 5.0, "the twin"


def test_without_draws_nothing_is_known():
    draws = posteriors("periodic")[0]
    with pytest.warns(abctree.AbctreeWarning):
        empty = abctree.rejection(problem(PERIODIC), n_simulations=100, rng=1).posterior(
            epsilon=1e-9
        )
    assert np.isnan(empty.mean()).all()
    assert np.isnan(empty.std()).all()
    assert empty.unwrapped.shape == (0, draws.theta.shape[1])


@pytest.mark.parametrize(
    "ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), ("a", 1.0), (-1e308, 1e308)]
)
def test_ends_that_make_no_circle_are_refused(ends):
    with pytest.raises(abctree.ParameterError, match="must be"):
        abctree.Periodic(*ends)
