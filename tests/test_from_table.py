"""Tables that were made elsewhere: labels decide, and what the prior cannot make is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import abctree
from abctree import ParameterError

from .conftest import z_score

RNG = np.random.default_rng(0)
PRIOR = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
THETA = RNG.uniform(size=(1000, 2))
SUMMARY = THETA + 0.05 * RNG.normal(size=THETA.shape)
OBSERVED = {"u": 0.2, "v": 0.8}


def module(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")


#: A table of two columns by name, the second first.
TABLES = {
    "dict": dict,
    "structured": lambda held: np.rec.fromarrays([*held.values()], names=[*held]),
    "pandas": lambda held: module("pandas").DataFrame(held),
    "polars": lambda held: module("polars").DataFrame(held),
    "pyarrow": lambda held: module("pyarrow").table(held),
}


def swapped(kind, names, values):
    return TABLES[kind]({names[1]: values[:, 1], names[0]: values[:, 0]})


@pytest.mark.parametrize("kind", TABLES)
def test_columns_of_a_table_are_found_by_name(kind):
    theta, summary = swapped(kind, "ab", THETA), swapped(kind, "uv", SUMMARY)
    found = abctree.from_table(theta, summary, OBSERVED, prior=PRIOR).posterior()
    np.testing.assert_allclose(found.mean(), [0.2, 0.8], atol=0.05)
    # The twin: by position it is another answer.
    plain = abctree.from_table(THETA, SUMMARY[:, ::-1], [0.2, 0.8], prior=PRIOR).posterior()
    assert np.abs(plain.mean() - [0.2, 0.8]).min() > 0.3


def test_rows_of_two_tables_in_another_order_are_refused():
    pd = module("pandas")
    theta = pd.DataFrame(THETA, columns=[*"ab"])
    summary = pd.DataFrame(SUMMARY, columns=[*"uv"])
    with pytest.raises(ParameterError, match="must have their rows in one order"):
        abctree.from_table(theta.sample(frac=1, random_state=1), summary, OBSERVED)
    weights = pd.Series(np.ones(1000)).sample(frac=1, random_state=1)
    with pytest.raises(ParameterError, match="`theta` and `weights` must have their rows in one"):
        abctree.from_table(theta, summary, OBSERVED, weights=weights)
    some = theta.sample(frac=0.5, random_state=1)
    assert abctree.from_table(some, summary.loc[some.index], OBSERVED).n_simulations == 500


@pytest.mark.parametrize(
    ("prior", "theta"),
    [
        ({"a": (0.0, 0.5), "b": (0.0, 1.0)}, THETA),
        ({"a": abctree.Integers(0, 1), "b": (0.0, 1.0)}, THETA),
        ({"a": abctree.Categorical([0, 1]), "b": (0.0, 1.0)}, np.round(2.0 * THETA)),
        ({("a", "b"): abctree.Dirichlet([1, 1])}, THETA),
        ({"a": (0.0, 1.0), "b": 2.0}, THETA),
    ],
)
def test_parameters_that_the_prior_cannot_make_are_refused(prior, theta):
    with pytest.raises(ParameterError, match="`theta` must lie in the support of `prior`, but row"):
        abctree.from_table(theta, SUMMARY, [0.2, 0.8], prior=prior)


@pytest.mark.parametrize("prior", ["normal", "cauchy", "poisson", "dirichlet"])
def test_draws_of_the_prior_itself_are_in_its_support(prior):
    stats = module("scipy.stats")
    specs = {
        "normal": {"a": stats.norm(0, 1e-3)}, "cauchy": {"a": stats.cauchy()},
        "poisson": {"a": stats.poisson(3)}, "dirichlet": {("a", "b"): abctree.Dirichlet([0.2, 3])},
    }  # fmt: skip
    made = abctree.Problem(specs[prior], lambda t, r: t[0] + r.normal(), 0.5)
    theta = made.prior.from_cube(np.random.default_rng(1).uniform(size=(5000, made.d)))
    result = abctree.from_table(theta, theta[:, :1], [0.5], prior=specs[prior])
    assert result.n_simulations == 5000


@pytest.mark.parametrize("which", ["theta", "summary"])
def test_text_is_no_number(which):
    given = {"theta": THETA, "summary": SUMMARY}
    given[which] = given[which].astype(str)
    with pytest.raises(ParameterError, match=f"`{which}` must .*not real numbers"):
        abctree.from_table(given["theta"], given["summary"], [0.2, 0.8])


def test_copies_of_rows_are_told():
    """Thirty copies of each row look like thirty simulations."""
    theta, summary = np.repeat(THETA[:40], 30, axis=0), np.repeat(SUMMARY[:40], 30, axis=0)
    with pytest.warns(abctree.AbctreeWarning, match="1160 of the 1200 rows are copies"):
        result = abctree.from_table(theta, summary, [0.2, 0.8])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        result.answer()
        assert np.abs(result.fit().misses).max() < 1e6
    with warnings.catch_warnings():  # twins: other simulations of the same parameters, and counts
        warnings.simplefilter("error")
        abctree.from_table(theta, summary + np.arange(1200)[:, None] / 1e6, [0.2, 0.8])
        abctree.from_table(np.round(theta * 9.0), np.round(9.0 * summary), [2.0, 7.0])


def test_a_table_of_one_point_is_refused():
    with pytest.raises(ParameterError, match="`theta` must have a column that varies"):
        abctree.from_table(np.full((200, 1), 0.5), SUMMARY[:200], [0.2, 0.8])


def test_columns_of_one_name_are_refused():
    theta = module("pandas").DataFrame(THETA, columns=["a", "a"])
    with pytest.raises(ParameterError, match="must have columns of different names, but got a, a"):
        abctree.from_table(theta, SUMMARY, [0.2, 0.8])


def test_a_distance_is_checked_as_that_of_a_run():
    def apart(simulated, observed):
        return np.abs(simulated - observed).max(axis=1)

    with pytest.raises(abctree.SimulatorError, match="distance must be at least 0, but got"):
        abctree.from_table(THETA, SUMMARY, [0.2, 0.8], distance=lambda s, o: np.log(apart(s, o)))
    some = abctree.from_table(
        THETA,
        SUMMARY,
        [0.2, 0.8],
        distance=lambda s, o: np.where(s[:, 0] < 0.5, apart(s, o), np.nan),
    )
    n = np.count_nonzero(SUMMARY[:, 0] >= 0.5)
    assert some.failures.count == np.isinf(some.table.distance).sum() == n


def test_weights_that_are_no_ratios_of_densities_spoil_the_evidence_alone_and_are_told():
    # Draws of a density 2 a, each with the weight 1 / (2 a), and as many populations give it.
    theta = np.sqrt(RNG.uniform(size=(4000, 2)))
    summary = theta + 0.05 * RNG.normal(size=theta.shape)
    ratio = 1.0 / (4.0 * theta.prod(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = abctree.from_table(theta, summary, [0.2, 0.8], weights=ratio)
    with pytest.warns(abctree.AbctreeWarning, match="The mean of `weights` is 0.00025"):
        wrong = abctree.from_table(theta, summary, [0.2, 0.8], weights=ratio / ratio.sum())
    np.testing.assert_allclose(wrong.answer().mean(), right.answer().mean())
    assert wrong.evidence(0.2).estimate < 0.001 * right.evidence(0.2).estimate


def test_weighted_rows_have_the_posterior_and_the_evidence_of_the_prior():
    # Closed forms at a tolerance: a point of the disc around the observation, and the noise.
    epsilon, noise, observed = 0.1, 0.05, np.array([0.5, 0.4])
    variance = noise**2 + epsilon**2 / 4.0
    found, twin = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        theta = (1.9 - np.sqrt(3.61 - 3.6 * rng.uniform(size=(2000, 2)))) / 1.8
        ratio = 1.0 / (1.9 - 1.8 * theta).prod(axis=1)
        summary = theta + noise * rng.normal(size=theta.shape)
        for weights, into in ((ratio, found), (None, twin)):
            result = abctree.from_table(
                theta,
                summary,
                observed,
                prior={"theta1": (0.0, 1.0), "theta2": (0.0, 1.0)},
                distance="euclidean",
                weights=weights,
            )
            draws = result.posterior(epsilon=epsilon)
            evidence = result.evidence(epsilon).estimate / (np.pi * epsilon**2)
            spread = np.diag(draws.cov()).mean() / variance
            into.append([*(draws.mean() - observed), spread - 1.0, evidence - 1.0])
    z, z_twin = ([z_score(column, 0.0) for column in np.transpose(rows)] for rows in (found, twin))
    assert np.abs(z).max() < 3.5
    assert (np.std(found, axis=0) / np.sqrt(40) < [0.002, 0.002, 0.02, 0.02]).all()
    assert np.abs(z_twin).max() > 7.0  # weights dropped


@pytest.mark.parametrize("observed", [[0.2, np.nan, 0.8], np.ma.masked_invalid([0.2, np.nan, 0.8])])
def test_what_is_missing_in_the_observation_is_left_out(observed):
    """The table may have nan there, too: no simulation fails for it."""
    wide = np.insert(SUMMARY, 1, np.nan, axis=1)
    with pytest.raises(ParameterError, match='Write missing="ignore"'):
        abctree.from_table(THETA, wide, observed)
    with pytest.raises(ParameterError, match='`missing` must be "refuse" or "ignore"'):
        abctree.from_table(THETA, wide, observed, missing="summary")
    with pytest.raises(ParameterError, match=r"rows of shape \(3,\)"):
        abctree.from_table(THETA, SUMMARY, observed, missing="ignore")
    found = abctree.from_table(THETA, wide, observed, missing="ignore")
    plain = abctree.from_table(THETA, SUMMARY, [0.2, 0.8])
    np.testing.assert_array_equal(found.table.distance, plain.table.distance)
    np.testing.assert_array_equal(found.answer().theta, plain.answer().theta)


def test_labels_decide_what_is_missing():
    pandas = module("pandas")
    table = swapped("pandas", "uv", SUMMARY).assign(w=np.nan)
    observed = pandas.Series({"w": np.nan, "u": 0.2, "v": 0.8})
    found = abctree.from_table(THETA, table, observed, missing="ignore")
    plain = abctree.from_table(THETA, SUMMARY, [0.2, 0.8])
    np.testing.assert_array_equal(found.table.distance, plain.table.distance)


@pytest.mark.parametrize("power", [-1000, -550, 550, 1000])
def test_a_table_is_read_alike_in_every_unit_of_its_summaries(power):
    """The squares of these are no floats."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.0, 1.0, (600, 1))
    summary = theta + 0.1 * rng.normal(size=(600, 2))

    def read(unit):
        result = abctree.from_table(theta, unit * summary, [0.5 * unit] * 2)
        line = abctree.answers.Posterior.adjusted(result.posterior(), "linear")
        return result.answer().theta, line.theta, result.fit().misses

    for found, usual in zip(read(2.0**power), read(1.0), strict=True):
        np.testing.assert_allclose(found, usual, rtol=1e-12)


def test_a_frame_of_one_row_is_an_observation():
    theta, summary = table()
    observed = summary.iloc[[3]][["y", "x"]]
    found = abctree.from_table(theta, summary, observed)
    expected = abctree.from_table(theta, summary, summary.iloc[3])
    np.testing.assert_array_equal(found.table.distance, expected.table.distance)
    assert found.fit().names == ("y", "x")


def test_rows_that_are_labelled_as_other_simulations_are_refused():
    theta, summary = table()
    chosen = theta["a"] > 0.0
    n = min(chosen.sum(), (~chosen).sum())
    with pytest.raises(abctree.ParameterError, match="is in the index of `summary` alone"):
        abctree.from_table(theta[chosen][:n], summary[~chosen][:n], [0.0, 0.0])
    both = theta[chosen], summary[chosen]
    kept = abctree.from_table(*both, [0.0, 0.0])
    # Without labels positions count.
    again = abctree.from_table(both[0], both[1].reset_index(drop=True), [0.0, 0.0])
    np.testing.assert_array_equal(kept.table.distance, again.table.distance)


def table():
    pd = module("pandas")
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(200, 2))
    summary = theta + rng.normal(size=theta.shape)
    return pd.DataFrame(theta, columns=["a", "b"]), pd.DataFrame(summary, columns=["x", "y"])


def test_half_a_row_is_no_cross_validation():
    run = abctree.from_table(THETA, SUMMARY, [0.2, 0.8])
    with pytest.raises(ParameterError, match="`n` must be a whole number of at least 2"):
        abctree.cross_validate(run, n=2.5)


def test_a_column_alone_is_told_how_to_be_a_table():
    series = module("pandas").Series(THETA[:, 0])
    with pytest.raises(ParameterError, match=r"write np\.reshape\(theta, \(-1, 1\)\)\.$"):
        abctree.from_table(series, SUMMARY, [0.2, 0.8])
    table = abctree.from_table(np.reshape(series, (-1, 1)), SUMMARY, [0.2, 0.8])
    assert table.table.theta.shape == (1000, 1)
