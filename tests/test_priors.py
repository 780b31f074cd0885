"""Priors: the map of the cube, its inverse, its volumes, its errors.

The central identity: a uniform point of the cube is a draw of the prior, so the volume in θ space
of a box is the integral of ``1 / density(from_cube(u))`` over the box.  It ties `from_cube`,
`log_volume` and `log_density` together.
"""

from __future__ import annotations

import itertools
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import abctree
from abctree import (
    Categorical,
    DensityPrior,
    Dirichlet,
    Integers,
    MultivariateNormal,
    ParameterError,
    PriorTransform,
)
from abctree.problem.priors import Product, as_prior, discrete, distribution, functions

NEW_STYLE = hasattr(stats, "Normal")
needs_new_style = pytest.mark.skipif(not NEW_STYLE, reason="scipy without new-style distributions")

COV = np.array([[1.0, 0.8, -0.3], [0.8, 2.0, 0.1], [-0.3, 0.1, 0.5]])

CONTINUOUS = {
    "interval": ((-5.0, 3.0), stats.uniform(-5, 8)),
    "uniform": (stats.uniform(1, 2), stats.uniform(1, 2)),
    "norm": (stats.norm(1, 2), stats.norm(1, 2)),
    "gamma": (stats.gamma(2.5, scale=3), stats.gamma(2.5, scale=3)),
    "beta": (stats.beta(0.3, 0.7), stats.beta(0.3, 0.7)),
    "t": (stats.t(3), stats.t(3)),
    "cauchy": (stats.cauchy(), stats.cauchy()),
    "loguniform": (stats.loguniform(1e-3, 1e3), stats.loguniform(1e-3, 1e3)),
    "histogram": (
        stats.rv_histogram((np.array([1, 3, 2]), np.array([0.0, 1.0, 2.0, 4.0])), density=False),
        stats.rv_histogram((np.array([1, 3, 2]), np.array([0.0, 1.0, 2.0, 4.0])), density=False)(),
    ),
}
if NEW_STYLE:
    CONTINUOUS["Normal"] = (stats.Normal(mu=1, sigma=2), stats.norm(1, 2))
    CONTINUOUS["Uniform"] = (stats.Uniform(a=-1, b=4), stats.uniform(-1, 5))
    CONTINUOUS["made"] = (stats.make_distribution(stats.gamma)(a=2.5), stats.gamma(2.5))
    CONTINUOUS["scaled"] = (2.0 * stats.Normal(mu=1.0, sigma=1.0) + 1.0, stats.norm(3, 2))

DISCRETE = {
    "randint": (stats.randint(-3, 4), stats.randint(-3, 4)),
    "Integers": (Integers(-3, 3), stats.randint(-3, 4)),
    "poisson": (stats.poisson(3), stats.poisson(3)),
    "binom": (stats.binom(7, 0.3), stats.binom(7, 0.3)),
    "shifted": (stats.geom(0.4, loc=5), stats.geom(0.4, loc=5)),
    "two-sided": (stats.dlaplace(0.8), stats.dlaplace(0.8)),
    "listed": (
        stats.rv_discrete(values=([1, 2, 7], [0.2, 0.3, 0.5])),
        stats.rv_discrete(values=([1, 2, 7], [0.2, 0.3, 0.5])),
    ),
    "listed and shifted": (
        stats.rv_discrete(values=([1, 2, 7], [0.2, 0.3, 0.5]))(loc=10),
        stats.rv_discrete(values=([1, 2, 7], [0.2, 0.3, 0.5]))(loc=10),
    ),
    "Categorical": (
        Categorical([7, 1, 2], [0.5, 0.2, 0.3]),
        stats.rv_discrete(values=([1, 2, 7], [0.2, 0.3, 0.5])),
    ),
}
if hasattr(stats, "Binomial"):
    DISCRETE["Binomial"] = (stats.Binomial(n=7, p=0.3), stats.binom(7, 0.3))


def draws(prior, n, seed=0):
    return prior.from_cube(np.random.default_rng(seed).random((n, prior.d)))


def some_boxes(d, n, seed=0):
    ends = np.random.default_rng(seed).random((2, n, d))
    return ends.min(axis=0), ends.max(axis=0)


def mixed():
    return Product(
        {
            "a": stats.norm(0, 2),
            "b": (-5.0, 5.0),
            "n": stats.randint(1, 21),
            "c": 3.0,
            ("x", "y", "z"): MultivariateNormal([0, 1, 2], COV),
            "k": stats.poisson(3),
            ("p", "q", "r"): Dirichlet([0.5, 1.0, 2.0]),
            "g": stats.gamma(2.0),
            "e": (2.0, 2.0),
            "f": (0.0, 1e-13),
        }
    )


# ---- the law of a uniform point of the cube ----------------------------------------------------


def ks_rejects(theta, cdf, level=1e-3):
    return stats.kstest(theta, cdf).pvalue < level


@pytest.mark.parametrize("name", CONTINUOUS)
def test_product_draws_have_the_law_of_the_distribution(name):
    spec, law = CONTINUOUS[name]
    prior = Product({"a": spec})
    assert not ks_rejects(draws(prior, 20_000)[:, 0], law.cdf)
    # The twin: a cube point pushed towards 0 by a twentieth.
    pushed = np.random.default_rng(0).random((20_000, 1)) ** 1.05
    assert ks_rejects(prior.from_cube(pushed)[:, 0], law.cdf)


def chi_square_rejects(theta, law, level=1e-3):
    atoms = np.arange(-40.0, 60.0)
    expected = len(theta) * law.pmf(atoms)
    common = expected >= 5.0
    seen = np.array([(theta == x).sum() for x in atoms[common]])
    seen = np.append(seen, len(theta) - seen.sum())
    wanted = np.append(expected[common], max(len(theta) - expected[common].sum(), 1e-9))
    statistic = ((seen - wanted) ** 2 / np.maximum(wanted, 1e-9)).sum()
    return stats.chi2.sf(statistic, common.sum() - 1) < level


@pytest.mark.parametrize("name", DISCRETE)
def test_product_draws_have_the_masses_of_a_discrete_distribution(name):
    spec, law = DISCRETE[name]
    prior = Product({"a": spec})
    assert not chi_square_rejects(draws(prior, 20_000)[:, 0], law)
    pushed = np.random.default_rng(0).random((20_000, 1)) ** 1.1
    assert chi_square_rejects(prior.from_cube(pushed)[:, 0], law)


@pytest.mark.parametrize("name", DISCRETE)
def test_product_discrete_atoms_are_those_of_scipy(name):
    spec, law = DISCRETE[name]
    u = np.random.default_rng(1).random((5_000, 1))
    assert np.array_equal(Product({"a": spec}).from_cube(u)[:, 0], law.ppf(u[:, 0]))


def moments_reject(theta, mean, cov, level=4.5):
    """Whether a mean or a second moment is off by more than `level` standard errors."""
    centred = theta - mean
    pairs = list(itertools.combinations_with_replacement(range(len(mean)), 2))
    products = np.stack([centred[:, i] * centred[:, j] for i, j in pairs], axis=1)
    wanted = np.array([cov[i, j] for i, j in pairs])
    error = np.concatenate([centred.mean(axis=0), products.mean(axis=0) - wanted])
    scale = np.concatenate([centred.std(axis=0), products.std(axis=0)]) / np.sqrt(len(theta))
    return bool((np.abs(error) > level * scale + 1e-15).any())


@pytest.mark.parametrize("frozen", [False, True])
def test_multivariate_normal_has_its_moments(frozen):
    mean = np.array([1.0, -2.0, 30.0])
    spec = stats.multivariate_normal(mean, COV) if frozen else MultivariateNormal(mean, COV)
    prior = Product({("x", "y", "z"): spec})
    theta = draws(prior, 50_000)
    assert not moments_reject(theta, mean, COV)
    # The twin: the factor on the wrong side.
    z = stats.norm.ppf(np.random.default_rng(0).random((50_000, 3)))
    assert moments_reject(mean + z @ np.linalg.cholesky(COV), mean, COV)


@pytest.mark.parametrize("a", [(2.0, 3.0, 4.0), (0.1, 0.1, 0.1, 0.1), (1.0, 1.0), (0.5, 30.0, 2.0)])
def test_dirichlet_has_its_moments_and_marginals(a):
    a = np.array(a)
    total = a.sum()
    mean = a / total
    cov = (np.diag(mean) - np.outer(mean, mean)) / (total + 1.0)
    names = tuple("abcd"[: len(a)])
    theta = draws(Product({names: Dirichlet(a)}), 20_000)
    assert not moments_reject(theta, mean, cov)
    for i in range(len(a)):
        assert not ks_rejects(theta[:, i], stats.beta(a[i], total - a[i]).cdf)
    # The twin: one concentration a tenth larger.
    wrong = draws(Product({names: Dirichlet([a[0] * 1.1, *a[1:]])}), 20_000)
    assert ks_rejects(wrong[:, 0], stats.beta(a[0], total - a[0]).cdf)


@pytest.mark.parametrize(
    "a", [(0.1, 0.1, 0.1), (1e-3, 5.0), (5.0, 0.1), (1e6, 0.1, 1.0), (0.01, 0.02, 30.0)]
)
def test_dirichlet_rows_are_shares_up_to_the_ends_of_the_cube(a):
    prior = Product({tuple("abc"[: len(a)]): stats.dirichlet(a)})
    ends = np.array([0.0, 5e-324, 1e-300, 1e-100, 1e-20, 1e-8, 0.3, 0.9, 1 - 1e-10, 1 - 2**-53, 1])
    cube = np.array(list(itertools.product(ends, repeat=prior.d)))
    theta = prior.from_cube(cube)
    assert (theta >= 0.0).all()
    assert np.abs(theta.sum(axis=1) - 1.0).max() < 1e-12
    assert np.isfinite(prior.to_cube(theta)).all()
    lower, upper = some_boxes(prior.d, 50)
    assert np.isfinite(prior.log_volume(lower**20, upper)).all()


def test_dirichlet_keeps_the_digits_of_tiny_shares():
    prior = Product({("a", "b"): Dirichlet([0.1, 0.1])})
    law = stats.beta(0.1, 0.1)
    u = np.array([0.0005, 0.001, 0.002, 0.998, 0.999, 0.9995])  # shares of 1e-27 at both ends
    theta = prior.from_cube(u[:, None])
    assert np.allclose(theta[:, 0], law.ppf(u), rtol=1e-9, atol=0.0)
    assert np.allclose(theta[:, 1], law.isf(u), rtol=1e-9, atol=0.0)
    assert np.allclose(prior.to_cube(theta)[:, 0], u, rtol=0.0, atol=1e-12)
    got = prior.log_volume(u[:-1, None], u[1:, None])
    assert np.allclose(got[:2], np.log(np.diff(law.ppf(u[:3]))), atol=1e-9)
    assert np.allclose(got[-2:], np.log(-np.diff(law.isf(u[3:]))), atol=1e-9)


# ---- shape of theta, ends of the cube ----------------------------------------------------------


def test_product_columns_follow_the_order_of_the_names():
    prior = mixed()
    assert prior.names == tuple("abncxyzkpqrgef")
    assert prior.d == 11
    theta = prior.from_cube(np.full((2, 11), 0.5))
    assert theta.shape == (2, 14)
    by_name = dict(zip(prior.names, theta[0], strict=True))
    assert by_name["a"] == pytest.approx(0.0)
    assert by_name["b"] == 0.0
    assert by_name["n"] == 11.0
    assert by_name["c"] == 3.0
    assert by_name["x"] == pytest.approx(0.0)
    assert by_name["z"] == pytest.approx(2.0)
    assert by_name["k"] == 3.0
    assert by_name["g"] == pytest.approx(stats.gamma(2.0).median())
    assert by_name["e"] == 2.0
    assert by_name["f"] == 5e-14


def test_product_dimensions_follow_the_order_of_the_names():
    prior = Product({"a": stats.norm(), "b": (0.0, 1.0), "c": stats.expon(), "d": (2.0, 4.0)})
    cube = np.array([[0.1, 0.2, 0.3, 0.4]])
    wanted = [stats.norm.ppf(0.1), 0.2, stats.expon.ppf(0.3), 2.8]
    assert np.allclose(prior.from_cube(cube), [wanted], rtol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS | DISCRETE)
def test_product_is_finite_and_inside_the_support_at_the_ends_of_the_cube(name):
    spec, law = (CONTINUOUS | DISCRETE)[name]
    ends = np.array([0.0, 5e-324, 2.3e-308, 1e-200, 2**-53, 1 - 2**-53, 1.0])[:, None]
    theta = Product({"a": spec}).from_cube(ends)
    low, high = law.support()
    assert np.isfinite(theta).all()
    assert (theta >= low).all()
    assert (theta <= high).all()
    assert (np.diff(theta[:, 0]) >= 0.0).all()
    assert (np.abs(theta) < 1e308).all()  # a quantile, not a clipped infinity


def test_product_uniform_is_affine_and_never_passes_its_bounds():
    low, high = np.array([-0.1, 1e9, -3e-13]), np.array([0.2, 1e9 + 1.0, 7e-13])
    prior = Product({name: (a, b) for name, a, b in zip("abc", low, high, strict=True)})
    cube = np.random.default_rng(2).random((1_000, 3))
    assert np.array_equal(prior.from_cube(cube), np.minimum(low + (high - low) * cube, high))
    assert (prior.from_cube(np.ones((1, 3))) == high).all()


def test_product_rows_do_not_depend_on_the_block_they_are_in():
    prior = mixed()
    cube = np.random.default_rng(3).random((257, prior.d))
    rows = np.concatenate([prior.from_cube(u[None, :]) for u in cube])
    assert np.array_equal(prior.from_cube(cube), rows)
    assert np.array_equal(prior.from_cube(np.asfortranarray(cube)), rows)


@pytest.mark.parametrize("prior", [mixed(), Product({"a": (0.0, 1.0)})])
def test_product_takes_no_rows(prior):
    assert prior.from_cube(np.empty((0, prior.d))).shape == (0, len(prior.names))
    assert prior.to_cube(np.empty((0, len(prior.names)))).shape == (0, prior.d)
    assert prior.log_volume(np.empty((0, prior.d)), np.empty((0, prior.d))).shape == (0,)


@pytest.mark.parametrize(
    "spec",
    [
        2.0,
        (2.0, 2.0),
        Categorical([2]),
        Categorical([2, 3], [1, 0]),
        Integers(2, 2),
        stats.randint(2, 3),
    ],
)
def test_product_fixed_parameter_is_a_column_without_a_dimension(spec):
    prior = Product({"c": spec, "a": (0.0, 10.0)})
    assert prior.d == 1
    assert np.array_equal(prior.from_cube([[0.5]]), [[2.0, 5.0]])
    assert np.array_equal(prior.to_cube([[2.0, 5.0]]), [[0.5]])
    assert prior.log_volume([[0.0]], [[0.5]]) == pytest.approx(np.log(5.0))
    assert prior.log_density([[2.0, 5.0]]) == pytest.approx(-np.log(10.0))
    assert prior.log_density([[2.5, 5.0]]) == -np.inf


def new_style(name, **parameters):
    kind = getattr(stats, name, None)
    return kind(**parameters) if kind else stats.norm(1.0, 0.0)  # an older scipy


@pytest.mark.parametrize(
    "make",
    [
        lambda: stats.uniform(1.0, 0.0),
        lambda: stats.norm(loc=1.0, scale=0.0),
        lambda: stats.gamma(2.0, loc=1.0, scale=0.0),
        lambda: stats.truncnorm(1.0, 1.0),
        lambda: stats.loguniform(1.0, 1.0),
        lambda: stats.uniform(1.0, 1e-20),
        lambda: stats.norm(1.0, 1e-20),
        lambda: stats.norm(1e20, 1.0),
        lambda: stats.beta(2.0, 2.0, loc=1.0, scale=1e-300),
        lambda: stats.rv_histogram((np.array([1.0]), np.array([1.0, 1.0]))),
        lambda: new_style("Normal", mu=1.0, sigma=0.0),
        lambda: new_style("Normal", mu=1.0, sigma=1e-20),
        lambda: new_style("Uniform", a=1.0, b=1.0),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_distribution_without_width_is_told_to_write_the_number(make):
    with pytest.raises(ParameterError, match="without width is written as its number, such as 1"):
        Product({"a": make(), "b": (0.0, 1.0)})


def test_a_narrow_distribution_and_one_with_a_heavy_value_are_no_numbers():
    spec = {"a": stats.norm(1.0, 1e-14), "n": stats.poisson(1e-3), "b": (1.0, 1.0 + 1e-15)}
    assert Product(spec).d == 3


# ---- the way back ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTINUOUS)
def test_to_cube_inverts_from_cube(name):
    prior = Product({"a": CONTINUOUS[name][0]})
    cube = np.random.default_rng(4).random((2_000, 1))
    assert np.abs(prior.to_cube(prior.from_cube(cube)) - cube).max() < 1e-9


@pytest.mark.parametrize(
    "spec",
    [MultivariateNormal([1.0, 2.0, 3.0], COV), Dirichlet([0.9, 2.0, 3.0, 1.0])],
)
def test_to_cube_inverts_from_cube_of_a_joint_block(spec):
    prior = Product({tuple("abcd"[: 3 if isinstance(spec, MultivariateNormal) else 4]): spec})
    cube = np.random.default_rng(5).random((2_000, prior.d))
    assert np.abs(prior.to_cube(prior.from_cube(cube)) - cube).max() < 1e-9


@pytest.mark.parametrize("name", DISCRETE)
def test_to_cube_is_the_middle_of_the_atom(name):
    spec, law = DISCRETE[name]
    prior = Product({"a": spec})
    atoms = np.unique(prior.from_cube(np.linspace(0.01, 0.99, 99)[:, None]))
    middle = law.cdf(atoms) - 0.5 * law.pmf(atoms)
    assert np.allclose(prior.to_cube(atoms[:, None])[:, 0], middle, atol=1e-13)
    assert np.array_equal(prior.from_cube(prior.to_cube(atoms[:, None]))[:, 0], atoms)


@pytest.mark.parametrize("name", DISCRETE)
def test_cube_range_is_the_interval_of_the_atom(name):
    spec, law = DISCRETE[name]
    prior = Product({"a": spec})
    atoms = np.unique(prior.from_cube(np.linspace(0.01, 0.99, 99)[:, None]))
    lower, upper = prior.cube_range(atoms[:, None])
    assert np.allclose((upper - lower)[:, 0], law.pmf(atoms), atol=1e-13)
    assert np.allclose(0.5 * (lower + upper), prior.to_cube(atoms[:, None]), atol=1e-13)
    # All of the interval, and nothing beyond it, is mapped to the atom.
    for share in (1e-6, 0.3, 1.0 - 1e-6):
        cube = lower + (upper - lower) * share
        assert np.array_equal(prior.from_cube(cube)[:, 0], atoms)
    above = upper[:-1] + 1e-9
    assert (prior.from_cube(above)[:, 0] > atoms[:-1]).all()


def test_cube_range_of_a_product_is_a_point_but_in_discrete_dimensions():
    prior = mixed()
    theta = draws(prior, 50)
    lower, upper = prior.cube_range(theta)
    # a, b, n, x, y, z, k, two of p, q, r, g, f.
    assert np.flatnonzero((lower < upper).any(axis=0)).tolist() == [2, 6]
    rest = [0, 1, 3, 4, 5, 7, 8, 9, 10]
    assert np.array_equal(lower[:, rest], prior.to_cube(theta)[:, rest])
    assert np.array_equal(lower[:, rest], upper[:, rest])
    assert np.allclose((upper - lower)[:, 2], 0.05)
    assert np.allclose((upper - lower)[:, 6], stats.poisson(3).pmf(theta[:, 7]))
    with pytest.raises(ParameterError, match="theta"):
        prior.cube_range(theta[:, :3])


def test_cube_range_of_outsiders_is_that_of_the_nearest_atom():
    prior = Product({"n": Integers(1, 4), "k": Categorical([0.0, 1.0], [0.3, 0.7])})
    lower, upper = prior.cube_range([[-9.0, 7.0], [9.0, -np.inf]])
    assert np.allclose(lower, [[0.0, 0.3], [0.75, 0.0]])
    assert np.allclose(upper, [[0.25, 1.0], [1.0, 0.3]])


def test_to_cube_sends_outsiders_to_the_nearest_face_of_the_open_cube():
    prior = Product({"a": (0.0, 1.0), "b": stats.gamma(2), "n": Integers(1, 4), "z": stats.norm()})
    cube = prior.to_cube([[-9.0, -9.0, -9.0, -np.inf], [np.inf, np.inf, 9.0, np.inf]])
    assert (cube > 0.0).all()
    assert (cube < 1.0).all()
    assert (cube[0, [0, 1, 3]] < 1e-300).all()
    assert (cube[1, [0, 1, 3]] > 1.0 - 1e-15).all()
    assert np.array_equal(cube[:, 2], [0.125, 0.875])


# ---- volumes and densities ---------------------------------------------------------------------


def quadrature_log_volume(prior, lower, upper, order):
    """The integral of 1 / density over each box, by Gauss-Legendre in every dimension."""
    x, w = np.polynomial.legendre.leggauss(order)
    nodes = np.array(list(itertools.product(0.5 + 0.5 * x, repeat=prior.d)))
    weight = np.prod(np.array(list(itertools.product(0.5 * w, repeat=prior.d))), axis=1)
    answer = []
    for a, b in zip(lower, upper, strict=True):
        density = prior.log_density(prior.from_cube(a + (b - a) * nodes))
        answer.append(np.log((weight * np.exp(-density)).sum() * np.prod(b - a)))
    return np.array(answer)


JOINT = {
    "normal": (("x", "y", "z"), MultivariateNormal([1.0, 2.0, 3.0], COV)),
    "dirichlet": (("x", "y", "z"), Dirichlet([2.0, 3.0, 4.0])),
    "small dirichlet": (("x", "y", "z"), Dirichlet([0.4, 0.7, 0.3])),
    "norm": ("x", stats.norm(1, 2)),
    "gamma": ("x", stats.gamma(2.5, scale=3)),
    "t": ("x", stats.t(3)),
    "interval": ("x", (1.0, 3.0)),
}


@pytest.mark.parametrize("name", JOINT)
def test_log_volume_is_the_integral_of_the_inverse_density(name):
    key, spec = JOINT[name]
    prior = Product({key: spec})
    lower, upper = some_boxes(prior.d, 5)
    lower, upper = 0.05 + 0.9 * lower, 0.05 + 0.9 * upper
    wanted = quadrature_log_volume(prior, lower, upper, 24)
    assert np.abs(prior.log_volume(lower, upper) - wanted).max() < 1e-6
    # The twin: the volume in the cube, up to a constant.
    twin = np.log(upper - lower).sum(axis=1)
    if name != "interval":
        assert np.ptp(twin - wanted) > 0.05


@pytest.mark.parametrize("name", JOINT)
def test_log_volume_of_a_small_box_is_the_determinant_of_the_map(name):
    key, spec = JOINT[name]
    prior = Product({key: spec})
    centre, step = np.full(prior.d, 0.3), 1e-5
    shift = step * np.eye(prior.d)
    jacobian = (prior.from_cube(centre + shift) - prior.from_cube(centre - shift)) / (2.0 * step)
    determinant = abs(np.linalg.det(jacobian[:, : prior.d]))
    log_volume = prior.log_volume((centre - step)[None, :], (centre + step)[None, :])
    wanted = np.log(determinant) + prior.d * np.log(2.0 * step)
    assert log_volume == pytest.approx(wanted, abs=1e-6)


def test_log_volume_of_the_whole_simplex_is_one_over_a_factorial():
    prior = Product({("a", "b", "c", "d"): Dirichlet([0.3, 2.0, 1.0, 5.0])})
    assert prior.log_volume(np.zeros((1, 3)), np.ones((1, 3))) == pytest.approx(-np.log(6.0))


def test_log_volume_adds_up_over_the_parts_of_a_box():
    prior = mixed()
    rng = np.random.default_rng(6)
    edges = [np.unique(np.concatenate([[0.1, 0.9], rng.uniform(0.1, 0.9, 1)])) for _ in range(11)]
    corners = np.array(list(itertools.product([0, 1], repeat=11)))
    lower = np.stack([edge[c] for edge, c in zip(edges, corners.T, strict=True)], axis=1)
    upper = np.stack([edge[c + 1] for edge, c in zip(edges, corners.T, strict=True)], axis=1)
    whole = prior.log_volume(np.full((1, 11), 0.1), np.full((1, 11), 0.9))
    assert np.log(np.exp(prior.log_volume(lower, upper) - whole).sum()) == pytest.approx(
        0, abs=1e-9
    )


def counted(law, lower, upper):
    """The atoms of a law in [lower, upper), by the definition."""
    atoms = np.arange(-200.0, 201.0)
    mass, top = law.pmf(atoms), law.cdf(atoms)
    atoms, mass, top = atoms[mass > 0], mass[mass > 0], top[mass > 0]
    overlap = np.minimum(upper, top) - np.maximum(lower, top - mass)
    return (np.clip(overlap, 0.0, None) / mass).sum()


@pytest.mark.parametrize("name", DISCRETE)
def test_log_volume_counts_the_atoms_of_a_discrete_parameter(name):
    spec, law = DISCRETE[name]
    lower, upper = some_boxes(1, 200, seed=7)
    lower, upper = 0.01 + 0.98 * lower, 0.01 + 0.98 * upper
    got = np.exp(Product({"a": spec}).log_volume(lower, upper))
    wanted = np.array([counted(law, *ends) for ends in zip(lower[:, 0], upper[:, 0], strict=True)])
    assert np.allclose(got, wanted, rtol=1e-8)
    # The twin: lengths in place of counts.
    assert not np.allclose(law.ppf(upper[:, 0]) - law.ppf(lower[:, 0]), wanted, rtol=1e-2)


@pytest.mark.parametrize("width", [1e-6, 1e-10, 1e-14])
def test_log_volume_of_a_small_part_of_an_atom_keeps_its_digits(width):
    law = stats.binom(7, 0.3)
    lower, upper = np.array([[0.5]]), np.array([[0.5 + width]])
    wanted = np.log((upper - lower)[0] / law.pmf(law.ppf(0.5)))
    assert Product({"n": law}).log_volume(lower, upper) == pytest.approx(wanted, abs=1e-9)
    lattice = discrete.Lattice(distribution.Distribution(law))
    assert lattice.log_volume(lower, upper) == pytest.approx(wanted, abs=1e-9)


def test_log_volume_of_whole_atoms_is_their_number():
    prior = Product({"n": Integers(1, 8)})
    assert prior.log_volume([[0.0], [0.25], [0.5]], [[1.0], [0.5], [0.5625]]) == pytest.approx(
        np.log([8.0, 2.0, 0.5])
    )
    prior = Product({"n": stats.binom(60, 0.5)})  # the last atom is lighter than 2**-53
    assert prior.log_volume([[0.0]], [[1.0]]) == pytest.approx(np.log(61.0))
    prior = Product({"n": Categorical([1, 5, 9])})
    assert prior.log_volume([[0.0]], [[1.0]]) == pytest.approx(np.log(3.0))


@pytest.mark.parametrize(
    "spec", [stats.norm(), stats.gamma(2), stats.cauchy(), stats.poisson(3), stats.pareto(0.01)]
)
def test_log_volume_is_infinite_up_to_an_infinite_end(spec):
    prior = Product({"a": spec, "b": (0.0, 1.0)})
    assert prior.log_volume([[0.9, 0.2]], [[1.0, 0.4]]) == np.inf
    assert prior.log_volume([[0.9999, 0.2]], [[1.0, 0.4]]) == np.inf
    assert np.isfinite(prior.log_volume([[0.2, 0.2]], [[0.4, 0.4]])).all()


@pytest.mark.parametrize(
    "spec",
    [
        stats.norm(1e9, 1e-6),
        stats.gamma(2.0, loc=1e9, scale=1e-6),
        stats.beta(0.01, 0.01),
        stats.poisson(3),
        (1e9, 1e9 + 1e-6),
        stats.rv_histogram((np.array([1, 0, 2]), np.array([0.0, 1.0, 2.0, 3.0])), density=False),
    ],
)
def test_log_volume_is_finite_for_boxes_that_rounding_would_close(spec):
    prior = Product({"a": spec})
    lower = np.random.default_rng(8).uniform(0.001, 0.999, (200, 1))
    for width in (1e-3, 1e-8, 2e-16):
        assert np.isfinite(prior.log_volume(lower, lower + width)).all()


def test_log_volume_does_not_lose_digits_when_quantiles_are_nearby():
    far, near = Product({"a": stats.gamma(2.0, loc=1e9)}), Product({"a": stats.gamma(2.0)})
    lower, upper = np.array([[0.3]]), np.array([[0.3 + 1e-9]])
    assert far.log_volume(lower, upper) == pytest.approx(near.log_volume(lower, upper), abs=1e-3)


@pytest.mark.parametrize("name", CONTINUOUS | DISCRETE)
def test_log_density_is_that_of_scipy(name):
    spec, law = (CONTINUOUS | DISCRETE)[name]
    prior = Product({"a": spec})
    theta = np.concatenate([draws(prior, 50)[:, 0], [-1e6, 0.123]])
    wanted = law.logpmf(theta) if name in DISCRETE else law.logpdf(theta)
    assert np.allclose(prior.log_density(theta[:, None]), wanted, rtol=1e-9, atol=1e-9)


def test_log_density_of_joint_blocks_is_that_of_scipy():
    names = ("x", "y", "z")
    prior = Product({names: MultivariateNormal([1.0, 2.0, 3.0], COV)})
    theta = draws(prior, 20)
    wanted = stats.multivariate_normal([1.0, 2.0, 3.0], COV).logpdf(theta)
    assert np.allclose(prior.log_density(theta), wanted)
    prior = Product({names: Dirichlet([0.5, 1.0, 3.0])})
    theta = draws(prior, 20)
    assert np.allclose(prior.log_density(theta), stats.dirichlet([0.5, 1, 3]).logpdf(theta.T))
    assert (prior.log_density([[0.5, 0.5, 0.5], [-0.1, 0.6, 0.5]]) == -np.inf).all()


# ---- large laws on the integers ----------------------------------------------------------------


@pytest.mark.parametrize(
    "law", [stats.poisson(30), stats.binom(40, 0.2), stats.dlaplace(0.3), stats.nbinom(3, 0.2)]
)
def test_lattice_equals_the_table(law):
    read = distribution.Distribution(law)
    table, lattice = discrete.discrete("a", read), discrete.Lattice(read)
    assert isinstance(table, discrete.Atoms)
    cube = np.random.default_rng(9).random((500, 1))
    theta = table.from_cube(cube)
    assert np.array_equal(lattice.from_cube(cube), theta)
    assert np.allclose(lattice.to_cube(theta), table.to_cube(theta), atol=1e-12)
    assert np.allclose(lattice.cube_range(theta), table.cube_range(theta), atol=1e-11)
    assert np.allclose(lattice.log_density(theta), table.log_density(theta))
    lower, upper = some_boxes(1, 500, seed=10)
    lower, upper = 1e-3 + 0.998 * lower, 1e-3 + 0.998 * upper
    assert np.allclose(lattice.log_volume(lower, upper), table.log_volume(lower, upper), atol=1e-8)
    ends = np.array([[0.0], [0.2]]), np.array([[0.3], [1.0]])
    assert np.allclose(lattice.log_volume(*ends), table.log_volume(*ends), atol=1e-8)


def test_lattice_takes_laws_that_no_table_holds():
    law = stats.geom(1e-9)
    prior = Product({"n": law})
    cube = np.random.default_rng(11).random((2_000, 1))
    theta = prior.from_cube(cube)
    assert not ks_rejects(theta[:, 0], law.cdf)
    assert np.abs(prior.to_cube(theta) - cube).max() < 1e-8
    # Half of the mass lies on the first log(2) / 1e-9 atoms.
    assert np.exp(prior.log_volume([[0.0]], [[0.5]])) == pytest.approx(np.log(2.0) * 1e9, rel=1e-6)
    ends = prior.from_cube([[0.0], [1.0]])[:, 0]
    assert ends[0] == 1.0
    assert 3e10 < ends[1] < 4e10


def test_integers_are_exact_for_a_billion_of_billions():
    prior = Product({"n": stats.randint(0, 2**52)})
    theta = prior.from_cube([[0.0], [0.5], [1.0 - 2**-53]])
    assert theta[:, 0].tolist() == [0.0, 2.0**51, 2.0**52 - 1.0]
    assert prior.log_volume([[0.0]], [[1.0]]) == pytest.approx(52.0 * np.log(2.0))


# ---- any scale ---------------------------------------------------------------------------------

scales = st.floats(-10.0, 10.0).map(lambda power: 10.0**power)
bounds = st.tuples(st.floats(-3.0, 3.0), st.floats(1e-3, 3.0), scales).map(
    lambda t: (t[2] * t[0], t[2] * (t[0] + t[1]))
)


@settings(max_examples=60, deadline=None)
@given(bounds, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_product_uniform_stays_in_bounds_and_comes_back_at_any_scale(interval, points):
    prior = Product({"a": interval})
    cube = np.array(points)[:, None]
    theta = prior.from_cube(cube)
    low, high = interval
    assert (theta >= low).all()
    assert (theta <= high).all()
    digits = 4e-16 * (1.0 + max(abs(low), abs(high)) / (high - low))
    assert np.abs(prior.to_cube(theta) - cube).max() <= 4.0 * digits


@settings(max_examples=40, deadline=None)
@given(scales, st.floats(0.01, 0.49), st.floats(0.51, 0.99))
def test_product_does_not_change_when_a_parameter_changes_its_unit(scale, low, high):
    cube = np.array([[low, high, low], [high, low, high]])
    lower, upper = np.full((1, 3), low), np.full((1, 3), high)
    one = Product({"a": stats.norm(1, 2), "b": (1.0, 2.0), "c": stats.gamma(2)})
    other = Product(
        {
            "a": stats.norm(scale, 2 * scale),
            "b": (scale, 2.0 * scale),
            "c": stats.gamma(2, scale=scale),
        }
    )
    assert np.allclose(other.from_cube(cube), scale * one.from_cube(cube), rtol=1e-12, atol=0)
    assert np.allclose(other.to_cube(scale * one.from_cube(cube)), cube, atol=1e-12)
    difference = other.log_volume(lower, upper) - one.log_volume(lower, upper)
    assert difference == pytest.approx(3.0 * np.log(scale), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.just(0.0) | st.floats(1e-6, 1.0), min_size=2, max_size=7),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_categorical_counts_and_returns_for_any_probabilities(weights, one, other):
    assume(np.count_nonzero(weights) >= 2)
    p = np.array(weights) / sum(weights)
    values = 1e-13 * np.arange(len(p)) - 1e-13
    prior = Product({"a": Categorical(values, p)})
    kept = p > 0.0
    assert np.array_equal(prior.from_cube(prior.to_cube(values[kept, None]))[:, 0], values[kept])
    lower, upper = min(one, other), max(one, other)
    edge = np.concatenate([[0.0], np.cumsum(p)])
    overlap = np.clip(np.minimum(upper, edge[1:]) - np.maximum(lower, edge[:-1]), 0.0, None)
    # Rounding of 1e-16 in the edges counts as 1e-16 / p.
    slack = 1e-9 + 1e-15 * (1.0 / p[kept]).sum()
    volume = np.exp(prior.log_volume([[lower]], [[upper]]))[0]
    assert abs(volume - (overlap[kept] / p[kept]).sum()) <= slack


def test_multivariate_normal_works_at_mixed_scales():
    sd = np.array([1e-13, 1e9, 1.0])
    cov = COV * np.outer(sd, sd)
    prior = Product({("x", "y", "z"): MultivariateNormal([0.0, 0.0, 0.0], cov)})
    cube = np.random.default_rng(12).random((100, 3))
    assert np.abs(prior.to_cube(prior.from_cube(cube)) - cube).max() < 1e-12
    assert not moments_reject(draws(prior, 20_000) / sd, np.zeros(3), COV)


# ---- priors that are not products --------------------------------------------------------------


def ordered(cube):
    return np.sort(cube, axis=1)


def test_prior_transform_applies_the_map():
    prior = PriorTransform(ordered, ("a", "b"))
    assert (prior.names, prior.d) == (("a", "b"), 2)
    assert np.array_equal(prior.from_cube([[0.9, 0.2]]), [[0.2, 0.9]])
    assert np.isnan(prior.log_volume([[0.0, 0.0]], [[1.0, 1.0]])).all()
    with pytest.raises(ParameterError, match="no known inverse"):
        prior.to_cube([[0.2, 0.9]])


def test_prior_transform_row_by_row_equals_vectorized():
    cube = np.random.default_rng(13).random((20, 2))
    rows = PriorTransform(np.sort, ("a", "b"), vectorized=False)
    assert np.array_equal(rows.from_cube(cube), PriorTransform(ordered, ("a", "b")).from_cube(cube))
    single = PriorTransform(lambda u: u.sum(), ["s"], d=2, vectorized=False)
    assert np.array_equal(single.from_cube(cube)[:, 0], cube.sum(axis=1))


def as_dynesty_writes_it(u):
    x = np.array(u)
    x[0] = stats.norm.ppf(u[0])
    x[1] = 10.0 * u[1] - 5.0
    return x


def in_place(u):
    u[0] = 2.0 * u[0]
    u[1] = u[0] + u[1]
    return u


ONE_POINT = {
    "dynesty": as_dynesty_writes_it,
    "in place": in_place,
    "a list": lambda u: [u[0], u[0] * u[1]],
    "a tuple of a hierarchy": lambda u: (u[0], stats.norm.ppf(u[1], u[0], 1.0)),
    "loops": lambda u: np.array([sum(u[:2]), max(u)]),
    "branches": lambda u: (u[0], u[1]) if u[0] < u[1] else (u[1], u[0]),
}
MANY_POINTS = {
    "elementwise": lambda u: 4.0 * u - 1.0,
    "columns": lambda u: np.column_stack([u[:, 0], u[:, 0] * u[:, 1]]),
    "transposed": lambda u: np.stack([u.T[0], u.T[1] ** 2], axis=-1),
    "sorted": lambda u: np.sort(u, axis=1),
    "sorted, last axis": np.sort,
    "a matrix": lambda u: u @ np.array([[1.0, 2.0], [0.3, 1.0]]),
}


@pytest.mark.parametrize("name", ONE_POINT)
def test_prior_transform_takes_a_function_of_one_point(name):
    prior = PriorTransform(ONE_POINT[name], ("a", "b"))
    assert not prior.vectorized
    cube = np.random.default_rng(0).random((50, 2))
    before = cube.copy()
    theta = prior.from_cube(cube)
    assert np.array_equal(cube, before)
    assert theta == pytest.approx(np.array([ONE_POINT[name](u.copy()) for u in cube]))
    # As a few points at once would be, one or two, too.
    assert np.array_equal(prior.from_cube(cube[:1]), theta[:1])
    assert np.array_equal(prior.from_cube(cube[:2]), theta[:2])


@pytest.mark.parametrize("name", MANY_POINTS)
def test_prior_transform_takes_many_points_at_once_where_it_can(name):
    prior = PriorTransform(MANY_POINTS[name], ("a", "b"))
    assert prior.vectorized
    cube = np.random.default_rng(0).random((50, 2))
    assert np.array_equal(prior.from_cube(cube), MANY_POINTS[name](cube))


def test_prior_transform_of_one_parameter_or_of_another_size():
    for function in (lambda u: stats.norm.ppf(u[0]), lambda u: [u[0] ** 2], lambda u: float(u[0])):
        assert not PriorTransform(function, ("a",)).vectorized
        assert PriorTransform(function, ("a",)).from_cube([[0.5], [0.2]]).shape == (2, 1)
    assert PriorTransform(stats.norm.ppf, ("a",)).vectorized
    wide = PriorTransform(lambda u: [u[0], u[1], u.sum()], ("a", "b", "c"), 2)
    assert not wide.vectorized
    assert wide.from_cube([[0.25, 0.5]]) == pytest.approx(np.array([[0.25, 0.5, 0.75]]))
    narrow = PriorTransform(lambda u: u.prod(axis=-1, keepdims=True), ("a",), 3)
    assert narrow.vectorized


def test_prior_transform_of_one_point_that_is_called_with_many_makes_nonsense_quietly():
    """What is guarded against: the shape alone does not tell."""
    cube = np.random.default_rng(0).random((50, 2))
    wrong = PriorTransform(as_dynesty_writes_it, ("a", "b"), vectorized=True).from_cube(cube)
    assert wrong.shape == (50, 2)
    right = PriorTransform(as_dynesty_writes_it, ("a", "b")).from_cube(cube)
    assert not np.allclose(wrong, right)
    assert right[:, 1].min() < -4.0


def test_a_problem_takes_a_prior_transform_of_one_point():
    made = abctree.Problem(
        prior_transform=as_dynesty_writes_it, names=("a", "b"),
        simulator=lambda theta, rng: theta + rng.normal(size=2), observed=[1.0, 4.0],
    )  # fmt: skip
    result = abctree.abc_tree(made, n_simulations=500, rng=1)
    assert (np.abs(result.table.theta[:, 1]) <= 5.0).all()
    assert np.ptp(result.table.theta[:, 1]) > 8.0


@pytest.mark.parametrize("one_point", [True, False])
def test_a_prior_transform_that_draws_random_numbers_is_refused(one_point):
    rng = np.random.default_rng(1)

    def draw(cube):
        return [rng.normal(), rng.normal()] if one_point else rng.normal(size=cube.shape)

    with pytest.raises(abctree.ParameterError, match="must make the same parameters of one point"):
        abctree.PriorTransform(draw, ("a", "b"))


@pytest.mark.parametrize("across", [np.sort, lambda x: x / x.max()])
def test_a_prior_transform_that_compares_rows_is_refused(across):
    """A run draws points in batches of any size."""
    with pytest.raises(abctree.ParameterError, match="nor compare rows"):
        abctree.PriorTransform(lambda u: np.stack([across(u[:, 0]), u[:, 1]], 1), ("a", "b"))


def test_an_array_is_no_interval():
    with pytest.raises(abctree.ParameterError, match=r"Use a number \(fixed\), a tuple"):
        abctree.Problem({"a": np.array([0.0, 1.0])}, lambda theta, rng: theta, [1.0])


def test_a_prior_transform_is_real():
    made = abctree.PriorTransform(lambda cube: cube + 1j, ("a", "b"))
    with pytest.raises(abctree.ParameterError, match="must return numbers of shape"):
        made.from_cube([[0.5, 0.5]])


def test_a_prior_transform_that_fits_neither_form_is_told_both():
    prior = PriorTransform(lambda u: np.zeros(7), ("a", "b"))
    with pytest.raises(ParameterError, match=r"or take one point, of shape \(2,\), and return"):
        prior.from_cube([[0.1, 0.2]])


def test_prior_transform_never_sees_the_ends_of_the_cube():
    prior = PriorTransform(stats.norm.ppf, ("a", "b"))
    assert np.isfinite(prior.from_cube([[0.0, 1.0]])).all()


def narrow(theta):
    return -0.5 * (((theta - 0.3) / 1e-4) ** 2).sum(axis=1)


def test_density_prior_is_proportional_to_the_density():
    law = stats.multivariate_normal([1.0, -1.0], [[1.0, 0.7], [0.7, 2.0]])
    prior = DensityPrior(law.logpdf, {"a": (-4.0, 6.0), "b": (-8.0, 6.0)})
    cube = np.random.default_rng(14).random((200, 2))
    theta = prior.from_cube(cube)
    assert np.allclose(theta, [-4.0, -8.0] + cube * [10.0, 14.0])
    density = prior.cube_density(cube)
    assert np.allclose(density / density[0], np.exp(law.logpdf(theta) - law.logpdf(theta)[0]))
    assert np.allclose(prior.log_density(theta), law.logpdf(theta))
    assert prior.log_density([[7.0, 0.0]]) == -np.inf
    assert np.allclose(prior.to_cube(theta), cube)
    assert np.array_equal(prior.cube_range(theta), [prior.to_cube(theta)] * 2)
    assert prior.log_volume([[0.0, 0.0]], [[0.5, 1.0]]) == pytest.approx(np.log(70.0))


def test_density_prior_does_not_overflow_at_a_narrow_peak():
    prior = DensityPrior(narrow, dict.fromkeys("abcde", (-10.0, 10.0)))
    peak = prior.cube_density(prior.to_cube(np.full((1, 5), 0.3)))
    assert 0.5 < peak[0] < 1e3
    # The twin: without the zoom the highest of 1024 points is hopelessly below the peak.
    coarse = narrow(draws(prior, 1_024)).max()
    assert -coarse > 700.0


def test_density_prior_is_zero_where_the_density_is():
    prior = DensityPrior(
        lambda theta: np.where(theta[:, 0] < theta[:, 1], 0.0, -np.inf),
        {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (4.0, 4.0)},
    )
    assert prior.names == ("a", "b", "c")
    assert prior.d == 2
    assert np.array_equal(prior.cube_density([[0.1, 0.9], [0.9, 0.1]]), [1.0, 0.0])


def test_density_prior_row_by_row_equals_vectorized():
    box = {"a": (0.0, 1.0), "b": (0.0, 2.0)}
    one = DensityPrior(lambda row: -float((row**2).sum()), box, vectorized=False)
    all_at_once = DensityPrior(lambda theta: -(theta**2).sum(axis=1), box)
    cube = np.random.default_rng(15).random((50, 2))
    assert np.allclose(one.cube_density(cube), all_at_once.cube_density(cube), rtol=1e-14)
    assert one.shift == pytest.approx(all_at_once.shift)


# ---- reading -----------------------------------------------------------------------------------


def test_as_prior_passes_a_prior_through_and_reads_a_dict():
    prior = mixed()
    assert as_prior(prior) is prior
    transform = PriorTransform(ordered, ("a", "b"))
    assert as_prior(transform) is transform
    assert as_prior({"a": (0.0, 1.0)}).names == ("a",)


@pytest.mark.parametrize("prior", [mixed(), Product({"a": (0.0, 1.0)})])
def test_product_survives_pickling(prior):
    twin = pickle.loads(pickle.dumps(prior))
    cube = np.random.default_rng(16).random((20, prior.d))
    assert np.array_equal(twin.from_cube(cube), prior.from_cube(cube))
    assert repr(twin) == repr(prior)


@needs_new_style
@pytest.mark.parametrize("name", ["Normal", "Mixture", "truncate"])
def test_product_pickles_a_new_style_normal_truthfully_or_not_at_all(name):
    normal = stats.Normal(mu=3.0, sigma=2.0)
    spec = {
        "Normal": lambda: normal,
        "Mixture": lambda: stats.Mixture([normal, stats.Normal(mu=5.0, sigma=1.0)]),
        "truncate": lambda: stats.truncate(normal, lb=0.0),
    }[name]()
    prior = Product({"a": spec})
    cube = np.linspace(0.1, 0.9, 5)[:, None]
    try:
        twin = pickle.loads(pickle.dumps(prior))
    except ParameterError as error:
        assert name != "Normal"
        assert "pickling" in str(error)  # noqa: PT017
    else:
        assert np.array_equal(twin.from_cube(cube), prior.from_cube(cube))


def test_priors_are_immutable():
    box = DensityPrior(lambda theta: -theta[:, 0], {"a": (0.0, 1.0)})
    for prior in (
        mixed(),
        Integers(1, 2),
        Dirichlet([1, 1]),
        PriorTransform(ordered, ("a", "b")),
        box,
    ):
        for field in ("names", "d", "low"):
            with pytest.raises(AttributeError):
                setattr(prior, field, 1)


def test_product_repr_reads_like_the_dict():
    prior = Product({"a": stats.norm(0, scale=2), "b": (-5.0, 5.0), "n": Integers(1, 3), "c": 3.0})
    assert repr(prior) == (
        "Product({'a': norm(0, scale=2), 'b': (-5.0, 5.0), 'n': Integers(low=1, high=3), 'c': 3.0})"
    )


# ---- errors ------------------------------------------------------------------------------------

U = (0.0, 1.0)
unit = {"a": U}


class Unquantified(stats.rv_continuous):
    """A normal distribution whose quantiles fail in the tails, as those of some in scipy do."""

    def _cdf(self, x):
        return stats.norm.cdf(x)

    def _ppf(self, q):
        return np.where(np.abs(q - 0.5) < 0.49, stats.norm.ppf(q), np.nan)


class Volumes:
    """A prior of one's own that is right but for its volumes."""

    names, d = ("a",), 1

    def __init__(self, volume):
        self.volume = volume

    def from_cube(self, cube):
        return np.array(cube)

    def to_cube(self, theta):
        return np.array(theta)

    def log_volume(self, lower, upper):
        return self.volume(lower)


def test_a_prior_of_ones_own_may_not_know_its_volumes():
    for volume in (lambda low: low[:, 0] * np.nan, lambda low: np.log(0.5 + 0.0 * low[:, 0])):
        assert as_prior(Volumes(volume)).names == ("a",)


WRONG = {
    "not a dict": (lambda: Product([1]), "dict"),
    "empty dict": (lambda: Product({}), "at least one parameter"),
    "nothing free": (lambda: Product({"a": 1.0, "b": (2.0, 2.0)}), "free parameter"),
    "name not a str": (lambda: Product({1: U}), "non-empty strings"),
    "empty name": (lambda: Product({"": U}), "non-empty strings"),
    "empty tuple key": (lambda: Product({(): U}), "non-empty strings"),
    "duplicate name": (
        lambda: Product({"a": U, ("a", "b"): Dirichlet([1, 1])}),
        "distinct, but got 'a' twice",
    ),
    "tuple of three": (lambda: Product({"a": (0.0, 1.0, 2.0)}), "length 3"),
    "infinite bound": (lambda: Product({"a": (0.0, np.inf)}), "finite number"),
    "infinite float32": (lambda: Product({"a": np.float32("inf"), "b": U}), "finite number"),
    "nan bound": (lambda: Product({"a": (np.nan, 1.0)}), "finite number"),
    "text bound": (lambda: Product({"a": ("0", "1")}), "finite number"),
    "a bound beyond float64": (lambda: Product({"a": (0, 10**400)}), "finite number"),
    "crossed bounds": (lambda: Product({"a": (1.0, 0.0)}), "low <= high"),
    "infinite width": (lambda: Product({"a": (-1.7e308, 1.7e308)}), "finite width"),
    "nan constant": (lambda: Product({"a": np.nan, "b": U}), "finite number"),
    "a list": (lambda: Product({"a": [0.0, 1.0]}), "one parameter"),
    "None": (lambda: Product({"a": None}), "one parameter"),
    "not frozen": (lambda: Product({"a": stats.norm}), r"Call it, for instance norm\(...\)"),
    "discrete not frozen": (lambda: Product({"a": stats.poisson}), r"Call it"),
    "joint not frozen": (lambda: Product({"a": stats.dirichlet}), r"Call it"),
    "vector parameters": (lambda: Product({"a": stats.norm([0, 1], 1)}), "its own name"),
    "negative scale": (lambda: Product({"a": stats.norm(0, -1)}), "scales must be positive"),
    "no quantiles": (lambda: Product({"a": Unquantified()()}), "quantiles"),
    "heavy sum": (lambda: Product({"a": stats.zipf(1.5)}), "light tails"),
    "joint under a name": (lambda: Product({"a": Dirichlet([1, 1])}), "as one key, a tuple"),
    "scalar under a tuple": (lambda: Product({("a", "b"): stats.norm(0, 1)}), "joint prior"),
    "too few names": (
        lambda: Product({("a", "b"): Dirichlet([1, 1, 1])}),
        "per name, 2, but got 3",
    ),
    "fraction": (lambda: Integers(0, 2.5), "whole number"),
    "huge integer": (lambda: Integers(0, 2**60), "whole number.*larger units"),
    "crossed integers": (lambda: Integers(2, 1), "at least `low`"),
    "labels": (lambda: Categorical(["red", "blue"]), "use codes"),
    "one label": (lambda: Categorical("red"), "use codes"),
    "no values": (lambda: Categorical([]), "at least one"),
    "equal values": (lambda: Categorical([1, 1]), "distinct"),
    "probabilities in a dict": (lambda: Categorical({1: 0.3, 2: 0.7}), "sequence of numbers"),
    "a set, which has no order": (lambda: Categorical({1, 2}, [0.3, 0.7]), "sequence of numbers"),
    "concentrations by name": (
        lambda: Product({("a", "b"): Dirichlet({"b": 1.0, "a": 2.0})}),
        "sequence of numbers",
    ),
    "negative probability": (lambda: Categorical([1, 2], [-0.5, 1.5]), "non-negative"),
    "probabilities of sum two": (lambda: Categorical([1, 2], [1.0, 1.0]), "sum to one"),
    "three probabilities": (lambda: Categorical([1, 2], [0.2, 0.3, 0.5]), "one entry per value"),
    "cov of a vector": (lambda: MultivariateNormal([0, 0], [1, 1]), r"shape \(2, 2\)"),
    "cov of another shape": (lambda: MultivariateNormal([0, 0], np.eye(3)), r"shape \(2, 2\)"),
    "asymmetric cov": (lambda: MultivariateNormal([0, 0], [[1, 0.5], [0, 1]]), "symmetric"),
    "singular cov": (lambda: MultivariateNormal([0, 0], [[1, 1], [1, 1]]), "positive definite"),
    "indefinite cov": (lambda: MultivariateNormal([0, 0], [[1, 2], [2, 1]]), "positive definite"),
    "frozen singular cov": (
        lambda: Product(
            {("a", "b"): stats.multivariate_normal([0, 0], np.ones((2, 2)), allow_singular=True)}
        ),
        "positive definite",
    ),
    "nan mean": (lambda: MultivariateNormal([0, np.nan], np.eye(2)), "finite numbers"),
    "zero concentration": (lambda: Dirichlet([1.0, 0.0]), "positive"),
    "one concentration": (lambda: Dirichlet([1.0]), "at least two"),
    "cube of one row": (lambda: Product(unit).from_cube([0.5]), r"as cube\[None, :\]"),
    "wide cube": (lambda: Product(unit).from_cube([[0.5, 0.5]]), r"shape \(n, 1\)"),
    "text cube": (lambda: Product(unit).from_cube([["x"]]), "array of numbers"),
    "outside the cube": (lambda: Product(unit).from_cube([[1.5]]), "unit cube"),
    "nan in the cube": (lambda: Product(unit).from_cube([[np.nan]]), "unit cube"),
    "narrow theta": (lambda: mixed().to_cube([[0.5]]), r"shape \(n, 14\)"),
    "nan in theta": (lambda: Product(unit).to_cube([[np.nan]]), "nan for 'a'"),
    "unequal corners": (lambda: Product(unit).log_volume([[0.1]], [[0.2], [0.3]]), "corners"),
    "crossed corners": (lambda: Product(unit).log_volume([[0.3]], [[0.2]]), "corners"),
    "as_prior of a function": (lambda: as_prior(ordered), "PriorTransform"),
    "as_prior of a number": (lambda: as_prior(3), "dict or a prior"),
    "as_prior, text for volumes": (lambda: as_prior(Volumes(lambda _: "x")), "number for each box"),
    "as_prior, a volume": (lambda: as_prior(Volumes(lambda _: 0.0)), r"\(2,\) for two of them"),
    "as_prior, endless": (lambda: as_prior(Volumes(lambda low: low[:, 0] + np.inf)), "not known"),
    "as_prior of a class": (lambda: as_prior(Product), "dict or a prior"),
    "transform not callable": (lambda: PriorTransform(3, ("a",)), "callable"),
    "transform without names": (lambda: PriorTransform(ordered, ()), "not be empty"),
    "transform, one string": (lambda: PriorTransform(ordered, 3), "sequence of names"),
    "transform, a set of names": (lambda: PriorTransform(ordered, {"a", "b"}), "sequence of names"),
    "transform of d = 0": (lambda: PriorTransform(ordered, ("a",), 0), "positive integer"),
    "transform, wrong shape": (
        lambda: PriorTransform(lambda u: u[:, 0], ("a", "b")).from_cube([[0.1, 0.2]]),
        r"shape \(1, 2\) for 1 points of the cube, but got shape \(1,\)",
    ),
    "transform to nan": (
        lambda: PriorTransform(lambda u: u * np.nan, ("a",)).from_cube([[0.1]]),
        "finite numbers, but got nan for 'a'",
    ),
    "transform to text": (
        lambda: PriorTransform(lambda _: "no", ("a",)).from_cube([[0.1]]),
        "numbers of shape",
    ),
    "density not callable": (lambda: DensityPrior(3, unit), "callable"),
    "density without bounds": (lambda: DensityPrior(narrow, None), "pairs"),
    "density of a joint bound": (lambda: DensityPrior(narrow, {("a", "b"): U}), "pairs"),
    "density on an infinite box": (lambda: DensityPrior(narrow, {"a": (0, np.inf)}), "finite"),
    "density of nan": (lambda: DensityPrior(lambda t: t[:, 0] * np.nan, unit), "below inf"),
    "density of inf": (lambda: DensityPrior(lambda t: t[:, 0] + np.inf, unit), "below inf"),
    "density of zero": (lambda: DensityPrior(lambda t: t[:, 0] - np.inf, unit), "-inf at 1024"),
    "density, wrong shape": (lambda: DensityPrior(lambda t: t, unit), r"shape \(1024,\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_error_names_the_rule_the_value_and_what_to_do(name):
    build, message = WRONG[name]
    with pytest.raises(ParameterError, match=message) as caught:
        build()
    # One sentence of the house's shape, then advice.
    assert re.fullmatch(
        r"`.+?` must .+, but .+\. .+\.|`.+?` must .+, but .+", str(caught.value), re.DOTALL
    )


def test_density_prior_says_so_when_a_peak_was_missed():
    def two_peaks(theta):
        return -np.abs(theta[:, 0] - 0.3) + 1e4 * (np.abs(theta[:, 0] - 0.7123456789) < 1e-9)

    prior = DensityPrior(two_peaks, unit)
    with pytest.raises(ParameterError, match="Narrow the bounds"):
        prior.cube_density([[0.7123456789]])


def test_density_of_a_prior_that_is_only_a_map_is_by_its_slope(rng):
    def transform(cube):
        return np.column_stack([np.exp(cube[:, 0]), cube[:, 0] + 3.0 * cube[:, 1]])

    problem = abctree.Problem(
        abctree.PriorTransform(transform, names=["a", "b"]), lambda theta, rng: theta[0], 1.0
    )
    cube = 0.05 + 0.9 * rng.random((30, 2))
    theta = problem.prior.from_cube(cube)
    value = functions.log_density_of(problem.prior, theta, cube)
    assert value == pytest.approx(-cube[:, 0] - np.log(3.0), abs=1e-6)
    # A map with a step has no slope, and its prior no density; the mode says so.
    step = abctree.PriorTransform(lambda u: np.where(u < 0.5, 0.0, 6.0 * u - 3.0), names=["a", "b"])
    assert functions.log_density_of(step, cube, cube) is None
    for prior, said in ((step, True), (problem.prior, False)):
        made = abctree.Problem(prior, lambda t, rng: t + rng.normal(size=t.shape), np.ones(2))
        notes = abctree.rejection(made, n_simulations=300, rng=1).mode().notes
        assert any("no density" in note for note in notes) == said
