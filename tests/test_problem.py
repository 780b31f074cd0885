"""`Problem`: what it takes, what it refuses, and what its dry run says."""

from __future__ import annotations

import decimal

import numpy as np
import pytest

import abctree

PRIOR = {"m": (-5.0, 5.0)}


def noisy(theta, rng):
    return theta[0] + 0.05 * rng.normal()


# The observation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "observed",
    [
        np.ma.array([1.0, 1.1, 0.9, -999.0], mask=[0, 0, 0, 1]),
        np.ma.masked,
        np.array([1 + 2j]),
        1 + 0j,
        "1.5",
        b"1.5",
        ["1.5", "2"],
        np.datetime64("2024-01-01"),
        np.array([3], dtype="m8[s]"),
        10**400,
        [10**400, 1],
        10**5000,  # too long to be written
        [[1.0], [2.0, 3.0]],
        {"a": 1.0},
        object(),
        [1.0, None],
        [1.0, np.nan],
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_observation_that_is_not_real_numbers_is_refused_in_one_sentence(observed):
    with pytest.raises(abctree.ParameterError, match="`observed` must be") as caught:
        abctree.Problem(PRIOR, noisy, observed)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_summary_sees_the_mask_of_the_observation(vectorized):
    observed = np.ma.array([1.0, 1.1, 0.9, -999.0], mask=[0, 0, 0, 1])
    made = abctree.Problem(
        PRIOR, noisy, observed, summary=lambda x: x.mean(axis=-1), vectorized=vectorized
    )
    assert made.observed_summary == pytest.approx(1.0)
    # The twin: without its mask the last number is one like the others.
    bare = abctree.Problem(
        PRIOR, noisy, observed.data, summary=lambda x: x.mean(axis=-1), vectorized=vectorized
    )
    assert bare.observed_summary == pytest.approx(-249.0)


@pytest.mark.parametrize(
    "observed",
    [3, True, [1, 2], np.float32(0.5), np.ma.array([1.0, 2.0]), [decimal.Decimal("0.5"), 2]],
    ids=repr,
)
def test_all_kinds_of_real_numbers_are_observations_and_stay_the_user_s(observed):
    made = abctree.Problem(PRIOR, noisy, observed)
    np.testing.assert_array_equal(made.observed_summary, np.array(observed, dtype=float))
    assert not made.observed_summary.flags.writeable


def test_the_observation_is_copied():
    mine = np.zeros(2)
    made = abctree.Problem(PRIOR, noisy, mine)
    mine[0] = 7.0
    assert made.observed_summary[0] == 0.0


# Simulations of varying size --------------------------------------------------------------------


def varying(theta, rng):
    return rng.normal(theta[0], 1.0, size=rng.integers(1, 20))


def test_samples_of_varying_size_are_failures_that_say_what_to_do():
    made = abctree.Problem(PRIOR, varying, np.ones(4), distance="energy")
    result = abctree.abc_tree(made, n_simulations=300, rng=1)
    assert result.failures.count > 200
    assert all("give a `summary` of fixed size" in reason for reason in result.failures.reasons)


@pytest.mark.parametrize("distance", ["energy", "wasserstein"])
def test_quantiles_make_samples_of_varying_size_comparable(distance):
    levels = (np.arange(8) + 0.5) / 8
    made = abctree.Problem(
        PRIOR, varying, np.ones(4), distance=distance, summary=lambda x: np.quantile(x, levels)
    )
    result = abctree.abc_tree(made, n_simulations=2000, rng=1)
    assert result.failures.count == 0
    assert abs(result.posterior().mean()[0] - 1.0) < 0.5
