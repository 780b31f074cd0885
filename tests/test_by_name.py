"""Simulators that take their parameters by name."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

import abctree

PRIOR = {"beta": (0.0, 2.0), "gamma": (1.0, 3.0)}


def whole(theta, rng):
    return [theta[0] + 10.0 * theta[1] + rng.normal(), float(np.ndim(theta))]


def named(beta, gamma, rng):
    return [beta + 10.0 * gamma + rng.normal(), 1.0]


def other_order(rng, gamma, beta, unused=3):
    return named(beta, gamma, rng)


def keywords_only(*, rng, beta, gamma):
    return named(beta, gamma, rng)


def any_keywords(generator, **parameters):
    return named(rng=generator, **parameters)


def looked_up(theta, rng):
    assert isinstance(theta["beta"], float)
    return [theta["beta"] + 10.0 * theta["gamma"] + rng.normal(), 1.0]


def looked_up_and_counted(theta, rng):
    assert theta.sum() == theta[0] + theta["gamma"]
    assert type(theta * 2.0) is type(theta[:1]) is np.ndarray
    return [theta["beta"] + 10.0 * theta[-1] + rng.normal(), 1.0]


class Callable:
    def __call__(self, theta, rng):
        return looked_up({"beta": theta["beta"], "gamma": theta["gamma"]}, rng)


def with_more(beta, gamma, rng, scale):
    return named(beta, gamma, rng)


WAYS = [named, other_order, keywords_only, any_keywords, looked_up, looked_up_and_counted,
        Callable(), functools.partial(with_more, scale=2.0)]  # fmt: skip


def simulated(simulator, **kwargs):
    problem = abctree.Problem(PRIOR, simulator, [0.0, 0.0], **kwargs)
    theta = np.array([[0.5, 2.0], [1.0, 1.5]])
    return problem.simulate(theta, np.arange(2), 7)


@pytest.mark.parametrize("simulator", WAYS)
def test_each_way_gives_what_theta_as_a_whole_does(simulator):
    made = simulated(pickle.loads(pickle.dumps(simulator)))
    assert made.failures == ()
    np.testing.assert_array_equal(made.summary, simulated(whole).summary)


def batch(theta, rng):
    return np.column_stack([theta[:, 0] + 10.0 * theta[:, 1] + rng.normal(size=len(theta))] * 2)


def named_batch(gamma, beta, rng):
    assert gamma.shape == beta.shape
    return np.column_stack([beta + 10.0 * gamma + rng.normal(size=len(beta))] * 2)


def looked_up_batch(theta, rng):
    return named_batch(theta["gamma"], theta["beta"], rng)


@pytest.mark.parametrize("simulator", [named_batch, looked_up_batch])
def test_columns_of_a_batch_are_given_by_name(simulator):
    made = simulated(simulator, vectorized=True)
    assert made.failures == ()
    np.testing.assert_array_equal(made.summary, simulated(batch, vectorized=True).summary)


def test_seeds_are_given_by_name():
    def seeded(seeds, gamma, beta):
        return np.column_stack([beta, seeds % 100])

    def plain(theta, seeds):
        return np.column_stack([theta[:, 0], seeds % 100])

    made, expected = (simulated(f, vectorized="seeds").summary for f in (seeded, plain))
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("simulator", [
    whole,
    lambda x, generator: [x[0], x[1]],
    lambda theta, rng=None: [theta[0], 1.0],
    lambda theta, rng, beta=3.0: [theta[0], beta],
    lambda *both: both[0],
    functools.partial(lambda n, theta, rng: theta, 3),
])  # fmt: skip
def test_theta_as_a_whole_is_an_array_and_nothing_is_between(simulator):
    problem = abctree.Problem(PRIOR, simulator, [0.0, 0.0])
    assert problem.model.simulator is simulator


def test_one_parameter_is_a_number_by_its_name_and_an_array_as_theta():
    seen = []
    for prior, simulator in (
        ("mu", lambda mu, rng: seen.append(mu) or mu),
        ("mu", lambda x, rng: seen.append(x) or x),
        ("theta", lambda theta, rng: seen.append(theta) or theta),
    ):
        problem = abctree.Problem({prior: (0.0, 1.0)}, simulator, 0.0)
        problem.simulate(np.array([[0.5]]), np.arange(1), 0)
    assert [np.shape(value) for value in seen] == [(), (1,), (1,)]


@pytest.mark.parametrize(
    ("simulator", "says"),
    [
        (lambda beta, rng: beta, "takes them by name, but .beta, rng. lacks gamma"),
        (lambda beta, gama, rng: beta, "asks for `gama`, .*Did you mean 'gamma'"),
        (lambda beta, gamma, delta, rng: beta, "asks for `delta`, but the parameters are"),
        (lambda beta, gamma: beta, "or the parameters by name, .beta, gamma, rng."),
        (lambda a, b, c: a, "must take two arguments"),
        (lambda theta: theta, "must take two arguments"),
        (lambda theta, rng: theta["gama"], """asks for theta."gama"., .*Did you mean 'gamma'"""),
    ],
)  # fmt: skip
def test_names_that_do_not_fit_are_refused(simulator, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abctree.Problem(PRIOR, simulator, [0.0, 0.0])


def test_the_dry_run_says_how_a_simulator_is_called():
    report = abctree.Problem(PRIOR, other_order, [0.0, 0.0]).check(rng=1)
    assert "as simulator(beta, gamma, rng)" in str(report)
    report = abctree.Problem(PRIOR, named_batch, [0.0, 0.0], vectorized=True).check(rng=1)
    assert "as simulator(beta (n,), gamma (n,), rng)" in str(report)


def test_code_that_takes_names_is_followed_when_it_changes(tmp_path):
    def quiet(beta, gamma, rng):
        return [beta, gamma]

    run = abctree.rejection(abctree.Problem(PRIOR, named, [1.0, 1.0]), n_simulations=200, rng=1,
                            store=tmp_path / "run")  # fmt: skip
    again = abctree.load(tmp_path / "run", abctree.Problem(PRIOR, named, [1.0, 1.0]))
    np.testing.assert_array_equal(run.table.distance, again.table.distance)
    with pytest.warns(abctree.AbctreeWarning, match="The simulator has changed .*quiet now"):
        abctree.load(tmp_path / "run", abctree.Problem(PRIOR, quiet, [1.0, 1.0]))


def test_a_variable_that_counts_columns_is_no_name():
    def counted(theta, rng):
        i, gamma = 0, 1
        return [theta[i] + 10.0 * theta[gamma] + rng.normal(), 1.0]

    problem = abctree.Problem(PRIOR, counted, [0.0, 1.0])
    same = abctree.Problem(PRIOR, named, [0.0, 1.0])
    made, expected = (
        p.simulate(np.array([[0.5, 2.0]]), np.arange(1), 0).summary for p in (problem, same)
    )
    np.testing.assert_array_equal(made, expected)
