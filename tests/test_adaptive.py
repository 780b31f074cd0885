"""What draws beside the boxes: the laws, their shares, and that they bring no bias."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from math import gamma, pi

import numpy as np
import pytest
from scipy import integrate, special, stats

import abctree
from abctree.data import Boxes, Mixture, Plan, Steps
from abctree.kernels import student, surrogate
from abctree.problems import gaussian_mixture
from abctree.problems.truth import GaussianMixtureTruth
from abctree.proposals import (
    Blend,
    CubeKernels,
    OnBoxes,
    Regressions,
    Students,
    Thinned,
    UniformCube,
    best_shares,
    fit_students,
    fit_surrogate,
    fit_thinned,
    log_odds,
)

from .conftest import z_score

SIDE = 4.0
#: Beyond the tolerance a size of 1 + SOFTNESS counts nothing.
SOFTNESS = 0.35


def normal(d, **kwargs):
    """θ ~ U(−4, 4)^d, y ~ N(θ, I), y_obs = 0."""
    return abctree.Problem(
        {f"theta{j}": (-SIDE, SIDE) for j in range(d)},
        lambda theta, rng: theta + rng.standard_normal(theta.shape),
        np.zeros(d),
        vectorized=True,
        **kwargs,
    )


def ridge(theta, rng):
    """Only the sums are known well: a slanting posterior, twenty times as long as wide."""
    along = theta.sum(axis=1, keepdims=True)
    apart = theta - theta.mean(axis=1, keepdims=True)
    noise = rng.standard_normal((len(theta), 2 * theta.shape[1]))
    d = theta.shape[1]
    return np.hstack([0.02 * along + 0.2 * noise[:, :1], apart + 0.02 * noise[:, d:]])


def slanting(d=3):
    return abctree.Problem(
        {f"theta{j}": (-3.0, 3.0) for j in range(d)}, ridge, np.zeros(d + 1), vectorized=True
    )


def adaptive(problem, n, rng=1, **kwargs):
    given = {"proposal": "adaptive", "block": n // 20, **kwargs}
    return abctree.abc_tree(problem, n_simulations=n, rng=rng, **given)


def kinds(result):
    """What the run drew from beside the boxes."""
    layers = [layer for m in result.rounds[-1].mixtures for layer in m.layers]
    return {type(law) for layer in layers for _, law in layer} - {Steps}


# The laws ---------------------------------------------------------------------------------------


def tree_of(cube, distance):
    return abctree.SoftTree().partition(cube, distance, 1.0, None, np.random.default_rng(0))


class Hill:
    """A target with a bound."""

    def __call__(self, u):
        return np.exp(-20 * ((u - 0.25) ** 2).sum(axis=1))

    def most(self, u):
        return np.minimum(1.0, 1.5 * self(u))


def laws(d, rng):
    cube = rng.beta(2.0, 5.0, (400, d))
    boxes = tree_of(cube, np.linalg.norm(cube - 0.3, axis=1) / 0.3)
    share = rng.dirichlet(np.ones(len(boxes)))
    on_boxes = OnBoxes(boxes, share)
    _, students = fit_students(cube, rng.random(400), np.ones(400), rng)
    return {
        "uniform": UniformCube(d),
        "boxes": on_boxes,
        "students": students,
        "kernels": CubeKernels.around(cube[:60], np.full(60, 1 / 60)),
        "blend": Blend(((0.3, on_boxes), (0.7, students))),
        "thinned": fit_thinned(Hill(), on_boxes, None, rng),
    }


@pytest.mark.parametrize("name", ["uniform", "boxes", "students", "kernels", "blend", "thinned"])
@pytest.mark.parametrize("d", [1, 3])
def test_density_is_that_of_the_candidates_that_are_kept(name, d, rng):
    law = laws(d, rng)[name]
    draws, some = law.draw(60_000, rng)
    assert (some is None) == (name != "thinned")
    kept = np.ones(len(draws), dtype=bool) if some is None else some
    even = stats.qmc.Sobol(d, seed=1).random(2**16)
    density = law.density(even)
    assert ((draws > 0.0) & (draws < 1.0)).all()
    assert kept.mean() == pytest.approx(density.mean(), abs=0.02)
    assert kept.all() == (some is None)
    functions = (lambda u: u[:, 0], lambda u: (u**2).sum(axis=1), lambda u: u[:, 0] > 0.4)
    for function in functions:
        value = function(draws) * kept
        error = value.std() / np.sqrt(len(value))
        assert abs(value.mean() - np.mean(density * function(even))) < 5 * error + 2e-3


@pytest.mark.parametrize("name", ["students", "kernels", "blend", "thinned"])
@pytest.mark.parametrize("d", [1, 6])
def test_density_of_many_points_is_that_of_each(name, d, rng):
    law, cube = laws(d, rng)[name], rng.random((300, d))
    alone = [law.density(cube[i : i + 1])[0] for i in range(300)]
    np.testing.assert_array_equal(law.density(cube), alone)


def test_forgetting_what_was_refused_would_be_noticed(rng):
    law = laws(3, rng)["thinned"]
    draws, kept = law.draw(60_000, rng)
    even = stats.qmc.Sobol(3, seed=1).random(2**14)
    value = draws[kept][:, 0]
    error = value.std() / np.sqrt(len(value))
    # The twin: the density of the candidates, not of those that are kept.
    assert abs(value.mean() - np.mean(law.base.density(even) * even[:, 0])) > 5 * error


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_student_sums_are_the_plain_sums(d, rng):
    cube, centre, weight = rng.random((7, d)), rng.normal(size=(d, 11)), rng.random(11)
    whiten, out = rng.normal(size=(d, d)), np.empty(7)
    y = log_odds(cube)[0] @ whiten.T
    square = ((y[:, :, None] - centre) ** 2).sum(axis=1)
    for power in (3, 4, 5, 11):
        student.student_sums(cube, whiten, centre, weight, 5.0, power, out)
        expected = (1.0 + square / 5.0) ** -power @ weight / (cube * (1.0 - cube)).prod(axis=1)
        np.testing.assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "law",
    [
        CubeKernels(np.zeros((1, 1)), np.ones(1), np.array([[2.0]])),
        Students(np.ones(1), np.zeros((1, 1)), np.array([[[2.0]]])),
    ],
)
def test_density_of_one_law_is_students(law):
    u = np.array([[0.1], [0.5], [0.8]])
    exact = stats.t(5, scale=2.0).pdf(log_odds(u)[0][:, 0]) / (u * (1 - u))[:, 0]
    np.testing.assert_allclose(law.density(u), exact, rtol=1e-12)
    inside = integrate.quad(lambda x: law.density(np.array([[x]]))[0], 0.01, 0.9)[0]
    ends = stats.t(5, scale=2.0).cdf(log_odds(np.array([[0.01], [0.9]]))[0][:, 0])
    assert inside == pytest.approx(ends[1] - ends[0])


def test_laws_stay_finite_at_the_faces_and_around_equal_points(rng):
    same = np.full((60, 2), 0.3)
    _, students = fit_students(same, np.ones(60), np.ones(60), rng)
    for law in (CubeKernels.around(same, np.full(60, 1 / 60)), students):
        draws, _ = law.draw(100, rng)
        assert ((draws > 0.0) & (draws < 1.0)).all()
        assert np.isfinite(law.density(np.array([[0.0, 1.0], [0.3, 0.3], [0.5, 0.0]]))).all()
    # The product of sixty slopes of 1e-7 is no number of double precision; the density is one.
    many = Students(np.ones(1), np.zeros((1, 60)), 1e3 * np.eye(60)[None])
    log_density = special.gammaln(32.5) - special.gammaln(2.5) - 30 * np.log(5 * np.pi * 1e6)
    log_density -= 32.5 * np.log1p(60 * np.log(1e-7) ** 2 / 1e6 / 5.0)
    found = many.density(np.full((1, 60), 1e-7))[0]
    assert np.log(found) == pytest.approx(log_density - 60 * np.log(1e-7), rel=1e-6)


def test_student_laws_find_two_narrow_modes(rng):
    centre = np.where(rng.random((600, 1)) < 0.5, 0.2, 0.8)
    cube = centre + 0.01 * rng.standard_normal((600, 2))
    share, students = fit_students(cube, np.ones(600), np.ones(600), rng)
    assert share > 0.9
    exact = np.log(sum(0.5 * stats.multivariate_normal([c, c], 1e-4).pdf(cube) for c in (0.2, 0.8)))
    assert np.mean(np.log(students.density(cube)) - exact) > -1.0
    # The twin: one law of all points.
    one = stats.multivariate_normal(cube.mean(axis=0), np.cov(cube.T)).logpdf(cube)
    assert np.mean(one - exact) < -2.0


# The surrogate ----------------------------------------------------------------------------------


def rows_of(d, n, rng, noise=0.3):
    """Points, and summaries that are linear in them with normal noise: z in units of ε = 1."""
    cube = rng.random((n, d))
    return cube, 4.0 * (cube - 0.5) + noise * rng.standard_normal((n, d))


def box_of(boxes, cube):
    """Boxes of points, both of the kinds that a run has: else kernels are compiled again."""
    cube.flags.writeable = False
    return boxes.locate(cube).astype(np.int32)


def surrogate_of(boxes, cube, z, usable, rate, budget, rng):
    regressions = Regressions.fitted(boxes, box_of(boxes, cube), cube, z, usable)
    return fit_surrogate(regressions, cube, z, usable, rate, budget, rng)


def test_models_solve_the_normal_equations_of_their_node(rng):
    cube, z = rows_of(2, 2000, rng)
    usable = rng.random(2000) < 0.9
    boxes = tree_of(cube, np.linalg.norm(z, axis=1))
    tree, box = boxes.tree, box_of(boxes, cube)
    model, beta = surrogate.fit_models(
        cube, z, usable, box, tree.parent, tree.node_of_box, 3, 200.0, 60.0
    )
    assert len(beta) > 3
    x = np.hstack([np.ones((2000, 1)), cube - 0.5])
    every = x[usable]
    root = np.linalg.lstsq(every, z[usable], rcond=None)[0]
    np.testing.assert_allclose(beta[0].T, root, rtol=1e-6)
    # A node below the root: its rows, and sixty of the parent's.
    node = next(i for i in (tree.left[0], tree.right[0]))
    below = [node]
    for i in below:
        below += [j for j in (tree.left[i], tree.right[i]) if j >= 0]
    here = usable & np.isin(tree.node_of_box[box], below)
    gram = 60.0 * every.T @ every / len(every)
    expected = np.linalg.solve(x[here].T @ x[here] + gram, x[here].T @ z[here] + gram @ root)
    assert np.isclose(beta, expected.T, rtol=1e-5).all(axis=(1, 2)).any()
    assert set(model) <= set(range(len(beta)))


def test_rate_is_that_of_the_model(rng):
    cube, z = rows_of(2, 20_000, rng)
    boxes = tree_of(cube, np.linalg.norm(z, axis=1))
    rate = np.full(len(boxes), 0.05)
    surrogate = surrogate_of(boxes, cube, z, np.ones(20_000, bool), rate, 100_000, rng)
    at = np.array([[0.5, 0.5], [0.65, 0.5], [0.7, 0.7], [0.1, 0.9]])
    # What comes out there, and how much of it counts: 1 in the ball, and less beyond its edge.
    size = np.linalg.norm(4.0 * (at - 0.5) + 0.3 * rng.standard_normal((40_000, 1, 2)), axis=2)
    counts = np.maximum(0.0, 1.0 - (np.maximum(size - 1.0, 0.0) / SOFTNESS) ** 2) ** 2
    exact = counts.mean(axis=0)
    assert surrogate.rate(at) == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(750))
    assert exact[3] < 0.01 < (size < 1.0).mean(axis=0)[2]
    # The twin: without the residuals every point inside the ball would be accepted.
    hard = dataclasses.replace(surrogate, residual=np.zeros_like(surrogate.residual))
    assert hard.rate(at[2:3])[0] > exact[2] + 0.1


def test_where_no_residual_reaches_the_rate_is_that_of_a_student_law(rng):
    # d = 1, s = 2: the summaries go along a line, and the second has its own noise.
    cube = rng.random((4_000, 1))
    z = np.hstack([14.0 * (cube - 0.5), np.zeros_like(cube)]) + rng.normal(size=(4_000, 2)) * [1, 2]
    every = np.ones(4_000, bool)
    surrogate = surrogate_of(Boxes.whole(1), cube, z, every, np.full(1, 1e-9), 10_000, rng)
    lists = surrogate.residual[0, :2, : surrogate.number[0]].astype(float)
    away = np.array([[1.0]])
    shift = surrogate.beta[0] @ [1.0, 0.5, 0.25]
    assert np.linalg.norm(lists + shift[:, None], axis=0).min() > 1.0 + SOFTNESS
    law = stats.multivariate_t(lists.mean(axis=1), np.cov(lists, bias=True) + np.eye(2) / 4.0, df=5)
    hits, worth = 2.0 * np.pi * law.pdf(-shift), len(lists[0]) + 2.1
    assert surrogate.rate(away)[0] == pytest.approx((hits + 1e-10) / worth, rel=1e-5)
    # The twin: the box alone, of which nothing is left so far away.
    assert surrogate.rate(away)[0] > 1e3 * 2.1e-9 / worth


def test_summaries_of_any_size_have_a_law(rng):
    def simulate(theta, rng):
        return np.exp(np.minimum(1000 * theta[:, :1] * theta[:, 1:], 700)) + rng.normal(
            size=(len(theta), 2)
        )

    problem = abctree.Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, simulate, np.ones(2), vectorized=True
    )
    result = adaptive(problem, 600)
    assert np.isfinite(result.table.denominator).all()


def test_failures_lower_the_rate_and_leave_the_regression_alone(rng):
    cube, z = rows_of(2, 20_000, rng)
    boxes, at = Boxes.whole(2), np.array([[0.5, 0.5]])
    failed = rng.random(20_000) < 0.5
    rate = np.full(1, 0.05)
    every = surrogate_of(boxes, cube, z, np.ones(20_000, bool), rate, 10**6, rng)
    z[failed] = 1e9
    half = surrogate_of(boxes, cube, z, ~failed, rate, 10**6, rng)
    assert half.rate(at)[0] == pytest.approx(0.5 * every.rate(at)[0], abs=0.1)
    np.testing.assert_allclose(half.beta, every.beta, atol=0.05)


def test_rate_without_noise_is_a_step(rng):
    cube, z = rows_of(1, 5000, rng, noise=0.0)
    rate = np.full(1, 1e-3)
    surrogate = surrogate_of(Boxes.whole(1), cube, 1e6 * z, np.ones(5000, bool), rate, 10_000, rng)
    inside, outside = surrogate.rate(np.array([[0.5], [0.5 + 1e-6]]))
    assert inside > 0.95
    assert outside < 0.01


# Shares -----------------------------------------------------------------------------------------


def test_shares_are_standard_unless_others_are_better_by_enough():
    standard = np.array([0.3, 0.7, 0.0])
    same = np.ones((5, 3))
    np.testing.assert_array_equal(best_shares(np.ones(5), np.ones(5), same, standard), standard)
    only = np.array([[0.0, 0.0, 1.0]] * 5)
    share = best_shares(np.ones(5), np.ones(5), only, standard)
    np.testing.assert_allclose(share, [0.1, 0.0, 0.9], atol=1e-6)


def test_a_share_of_less_than_a_tenth_is_none():
    added = np.vstack([np.tile([0.0, 1.0, 0.0], (95, 1)), np.tile([0.0, 0.0, 1.0], (5, 1))])
    share = best_shares(np.ones(100), np.full(100, 1e-3), added, np.array([1.0, 0.0, 0.0]))
    assert share[2] > 0.15  # in proportion to the root of what it alone reaches
    share = best_shares(np.ones(100), np.full(100, 1.0), added, np.array([1.0, 0.0, 0.0]))
    assert share[2] == 0.0


def test_shares_minimise_the_second_moment(rng):
    weight, known, added = rng.random(200), rng.random(200), rng.exponential(size=(200, 3)) ** 3
    share = (best_shares(weight, known, added, np.array([1.0, 0, 0])) - [0.1, 0, 0]) / 0.9
    least = weight @ (1.0 / (known + added @ share))
    for other in rng.dirichlet(np.ones(3), 200):
        assert least < weight @ (1.0 / (known + added @ other)) * (1 + 1e-3)


# The schedule and the plan ----------------------------------------------------------------------


def test_rounds_grow_and_end_where_the_budget_did():
    plan = Plan(10_000, 100, 10, 10, grows=True, milestones=(1000,))
    ends = [100]
    while ends[-1] < 10_000:
        ends.append(plan.end_of_round(ends[-1]))
    assert 1000 in ends
    assert ends[1] == 150
    assert ends[-1] == 10_000
    assert all(b - a >= 50 for a, b in pairwise(ends))
    assert all(b <= 1.6 * a for a, b in pairwise(ends) if 150 < a < 3000)  # the last takes the rest
    assert plan.end_of_round(5000) > 8500  # later rounds are longer
    first = dataclasses.replace(plan, n_simulations=1000, milestones=())
    assert [first.end_of_round(n) for n in ends if n < 1000] == [n for n in ends[1:] if n <= 1000]


# The mixture ------------------------------------------------------------------------------------


def test_mixture_integrates_to_the_points_that_were_drawn():
    result = adaptive(normal(3), 2_000)
    assert kinds(result) >= {UniformCube, Thinned}
    even = stats.qmc.Sobol(3, seed=1).random(2**14)
    mixtures = result.rounds[-1].mixtures
    # Candidates are drawn until enough are kept: their number is known to 1 / √n.
    assert sum(m(even).mean() for m in mixtures) == pytest.approx(2_000, rel=0.1)
    # The twin: the refused are left out.
    assert sum(forgetful(m)(even).mean() for m in mixtures) < 1_500


def test_newest_layer_is_what_the_last_round_added(rng):
    boxes = abctree.Grid(4).partition(rng.random((9, 1)), np.ones(9), 1.0, None, rng)
    u, uniform = rng.random((20, 1)), UniformCube(1)
    first = Mixture(3.0).plus((1.0, Steps(boxes, np.full(4, 2.0))), (5.0, uniform))
    second = first.plus((1.0, Steps(boxes, np.full(4, 7.0))))
    np.testing.assert_allclose(first(u), 3.0 + 2.0 + 5.0)
    np.testing.assert_allclose(first.newest(u), 7.0)
    np.testing.assert_allclose(second.newest(u), 7.0)
    np.testing.assert_allclose(second(u), 17.0)


def test_denominators_are_the_mixture_at_the_rows():
    result = adaptive(slanting(), 1_000, rng=2)
    for f, mixture in enumerate(result.rounds[-1].mixtures):
        own = result.table.fold == f
        np.testing.assert_allclose(
            result.table.denominator[own], mixture(result.table.cube[own]), rtol=1e-9
        )


def test_prior_draws_are_counted_with_those_of_the_rounds():
    result = adaptive(normal(2), 2_000, n_pilot=100)
    assert 0.8 * 195 < result.n_prior_draws < 195.01


# Runs -------------------------------------------------------------------------------------------


def mean_and_error(values):
    values = np.asarray(values)
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def forgetful(mixture):
    """The mixture as if candidates that were refused had not been drawn."""
    layers = [
        [(n / law.n_candidates if isinstance(law, Thinned) else n, law) for n, law in layer]
        for layer in mixture.layers
    ]
    return dataclasses.replace(mixture, layers=layers)


def kept_only(result):
    """Weights by the forgetful mixtures."""
    table, weight = result.table, np.empty(len(result.table))
    for f, mixture in enumerate(result.rounds[-1].mixtures):
        own = table.fold == f
        weight[own] = own.sum() / forgetful(mixture)(table.cube[own])
    return weight


@pytest.mark.parametrize("d", [1, 2])
def test_evidence_is_right_and_would_not_be_without_the_refused(d):
    exact = pi ** (d / 2) / gamma(d / 2 + 1) * 0.5**d / (2 * SIDE) ** d
    found, broken = [], []
    for seed in range(12):
        result = adaptive(normal(d), 1_500, rng=seed, n_folds=2)
        assert Thinned in kinds(result)
        found.append(result.evidence(0.5).estimate / exact - 1)
        near = result.table.distance < 0.5
        broken.append(kept_only(result)[near].mean() * near.mean() / exact - 1)
    mean, error = mean_and_error(found)
    assert error < 0.06
    assert abs(mean) < 3.5 * error
    # The twin's error, judged with that of the same runs as a control.
    mean, error = mean_and_error(np.subtract(broken, found))
    assert mean > 5 * error


def test_evidence_is_right_under_a_constraint():
    problem = normal(2, constraint=lambda t: t["theta0"] > t["theta1"])
    exact = np.pi * 0.7**2 / (2 * SIDE) ** 2  # relative to the half of the prior, as its own
    runs = [adaptive(problem, 1_000, rng=seed, n_folds=2) for seed in range(12)]
    for weights in ("mixture", "draw", "round"):
        found = [run.evidence(0.7, weights=weights).estimate / exact - 1 for run in runs]
        mean, error = mean_and_error(found)
        assert error < 0.08
        assert abs(mean) < 3.5 * error, weights


def test_evidence_is_right_with_a_density_a_discrete_parameter_and_failures():
    def simulate(theta, rng):
        y = theta[:, :1] + 0.5 * theta[:, 1:] + rng.standard_normal((len(theta), 1))
        y[rng.random(len(y)) < 0.2] = np.nan
        return y

    problem = abctree.Problem(
        {"a": stats.norm(0.0, 2.0), "k": abctree.Integers(0, 3)}, simulate, [1.0], vectorized=True
    )
    mean, sd = 0.5 * np.arange(4) - 1.0, np.sqrt(5.0)
    low, high = stats.norm.cdf((-0.3 - mean) / sd), stats.norm.cdf((0.3 - mean) / sd)
    exact = 0.8 * np.mean(high - low)
    runs = [adaptive(problem, 1_500, rng=s, n_folds=2) for s in range(10)]
    mean, error = mean_and_error([run.evidence(0.3).estimate / exact - 1 for run in runs])
    assert error < 0.05
    assert abs(mean) < 3.5 * error


def test_density_prior_is_known_to_the_target():
    prior = abctree.DensityPrior(
        lambda theta: -0.5 * (theta**2).sum(axis=1), {"a": (-6.0, 6.0), "b": (-6.0, 6.0)}
    )
    problem = abctree.Problem(
        prior, lambda theta, rng: theta + rng.standard_normal(theta.shape), np.zeros(2),
        vectorized=True,
    )  # fmt: skip
    exact = stats.chi2(2).cdf(0.6**2 / 2.0)
    runs = [adaptive(problem, 1_500, rng=s, n_folds=2) for s in range(10)]
    mean, error = mean_and_error([run.evidence(0.6).estimate / exact - 1 for run in runs])
    assert error < 0.04
    assert abs(mean) < 3.5 * error


def test_a_density_that_is_zero_nearly_everywhere_thins_without_a_word():
    """The bound of thinning is then above 0, though next to no candidate has a weight."""

    def density(theta):
        return np.where(np.abs(theta[:, 0]) < 1e-3, 0.0, -np.inf)

    problem = abctree.Problem(
        abctree.DensityPrior(density, {"a": (-3.0, 3.0)}),
        lambda theta, rng: theta + rng.normal(size=theta.shape), [0.5], vectorized=True,
    )  # fmt: skip
    exact = stats.norm.cdf(0.7) - stats.norm.cdf(0.3)
    found = [adaptive(problem, 1000, rng=s).evidence(0.2).estimate for s in range(8)]
    assert abs(z_score(found, exact)) < 3.5
    assert np.std(found) / np.sqrt(8) < 0.05 * exact


def test_it_reaches_further_than_boxes_on_a_ridge():
    reached = {}
    for proposal in ("boxes", "adaptive"):
        runs = [adaptive(slanting(), 3_000, rng=seed, proposal=proposal) for seed in range(3)]
        reached[proposal] = np.array([run.posterior(ess=100).epsilon for run in runs])
    assert (reached["adaptive"] < reached["boxes"]).all()
    assert reached["adaptive"].mean() < 0.8 * reached["boxes"].mean()


def test_rounds_of_a_run_grow_whatever_is_accepted():
    played = adaptive(normal(1), 600).rounds
    assert [r.n_simulations for r in played] == [100, 50, 60, 84, 117, 189]


@pytest.mark.parametrize("size", [1.0, 1e-150])
def test_any_tolerance_can_be_modelled(size):
    # Without noise all that is accepted is at a distance of zero, or is far.
    problem = abctree.Problem(
        {"k": abctree.Integers(0, 3)}, lambda theta, rng: size * theta, [size], vectorized=True
    )
    result = adaptive(problem, 300, n_folds=2)
    assert result.epsilon < 1e-300
    assert np.isfinite(result.table.denominator).all()
    assert result.evidence(0.5 * size).estimate == pytest.approx(0.25, rel=0.3)


def test_ties_are_accepted_whole():
    def simulate(theta, rng):
        return np.floor(3.0 * theta[:, :1] + rng.standard_normal((len(theta), 1)))

    problem = abctree.Problem({"a": (-3.0, 3.0)}, simulate, [0.0], vectorized=True)
    result = adaptive(problem, 3_000)
    exact = (result.table.distance == 0.0).sum()
    assert exact > 300
    assert result.epsilon > 0.0


def test_without_noise_the_tolerance_falls_much_further():
    times = np.arange(10) / 4

    def simulate(theta, rng):
        return np.exp(-theta[:, :1] * times) * np.cos(theta[:, 1:] * times)

    problem = abctree.Problem(
        {"a": (0.0, 1.0), "b": (0.0, 5.0)},
        simulate,
        np.exp(-0.2 * times) * np.cos(2.0 * times),
        vectorized=True,
    )
    reached = {
        proposal: abctree.abc_tree(problem, n_simulations=2_000, rng=1, proposal=proposal)
        .posterior(ess=60)
        .epsilon
        for proposal in ("boxes", "adaptive")
    }
    assert reached["adaptive"] < 0.2 * reached["boxes"]


@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (normal(2), {"keep_summaries": False}),
        (normal(2, distance="manhattan"), {}),
        (normal(2, distance=abctree.distances.Scaled(p=1.0, scale=np.ones(2))), {}),
        (normal(2, distance=lambda s, o: np.abs(s - o).max(axis=1)), {}),
    ],
)
def test_without_a_model_there_are_boxes_and_kernels(problem, settings):
    result = adaptive(problem, 2_000, **settings)
    assert Thinned not in kinds(result)
    assert len(result.rounds) > 4


@pytest.mark.parametrize("distance", ["euclidean", "mad", "std", "mahalanobis"])
def test_summaries_are_modelled_in_units_of_the_distance(distance, rng):
    result = adaptive(normal(2, distance=distance), 1_000)
    assert Thinned in kinds(result)
    z = result.problem.measurement.standardised(result.table.summary)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), result.table.distance, rtol=1e-12)


def test_masses_of_the_step_function_are_those_of_weighted_draws():
    gains = []
    for seed in range(3):
        result = adaptive(gaussian_mixture(5), 4_000, rng=seed)
        exact = GaussianMixtureTruth(5).draws(2_000, result.epsilon, rng=0)
        # The twin: what is believed of the boxes, as if draws were uniform in them.
        plan = dataclasses.replace(result.plan, proposal=("boxes",))
        believed = dataclasses.replace(result, plan=plan).histogram()
        found = result.histogram()
        gains.append(np.log(found.pdf(exact)).mean() - np.log(believed.pdf(exact)).mean())
        # Where there is no draw, the belief stands.
        near = result.table.distance < result.epsilon
        for one, other, arms in zip(
            found.folds, believed.folds, result.rounds[-1].arms, strict=True
        ):
            empty = (
                np.bincount(one.boxes.locate(result.table.cube[near]), minlength=len(arms.mean))
                == 0
            )
            assert empty.any()
            ratio = one.mass[empty] / other.mass[empty]
            np.testing.assert_allclose(ratio, ratio[0])
    assert min(gains) > 0.03


def test_a_list_names_the_laws():
    result = abctree.abc_tree(slanting(), n_simulations=2_000, rng=1, proposal=["kernels", "boxes"])
    assert kinds(result) == {UniformCube, CubeKernels}
    alone = abctree.abc_tree(slanting(), n_simulations=500, rng=1, proposal=["boxes"])
    plain = abctree.abc_tree(slanting(), n_simulations=500, rng=1, proposal="boxes")
    np.testing.assert_array_equal(alone.table.theta, plain.table.theta)


@pytest.mark.parametrize(("schedule", "n", "reach"), [("pooled", 1000, 1.5), ("median", 6000, 1)])
def test_kernels_reach_beyond_a_tolerance_that_stays(schedule, n, reach):
    settings = {"proposal": ["boxes", "kernels"], "schedule": schedule, "n_folds": 2}
    result = abctree.abc_tree(slanting(), n_simulations=n, rng=1, **settings)
    odds, _ = log_odds(result.table.cube)
    furthest = []
    for played in result.rounds:
        for law in (law for m in played.mixtures for _, law in m.layer(-1)):
            if isinstance(law, CubeKernels):
                centre = (law.root @ law.centre).T
                row = np.linalg.norm(centre[:, None] - odds, axis=2).argmin(axis=1)
                np.testing.assert_allclose(odds[row], centre, atol=1e-8)
                furthest.append(result.table.distance[row].max() / played.epsilon)
    assert 0.9 * reach < max(furthest) < reach


@pytest.mark.slow
def test_a_run_resumes_and_is_extended_to_the_same_numbers(tmp_path):
    settings = {"n_simulations": 1_000, "rng": 4, "proposal": "adaptive", "n_folds": 2}
    whole = abctree.abc_tree(slanting(), **settings)
    part = abctree.abc_tree(slanting(), **settings, store=tmp_path / "run", stop={"rounds": 3})
    assert len(part.table) < 1_000
    again = abctree.resume(tmp_path / "run", slanting(), stop={})
    np.testing.assert_array_equal(again.table.theta, whole.table.theta)
    np.testing.assert_array_equal(again.table.denominator, whole.table.denominator)
    longer = abctree.resume(tmp_path / "run", slanting(), n_simulations=1_500)
    np.testing.assert_array_equal(longer.table.theta[:1_000], whole.table.theta)
    assert len(longer.table) == 1_500


def test_executors_and_the_look_ahead_change_nothing_that_they_should_not():
    settings = {"n_simulations": 600, "rng": 4, "proposal": "adaptive", "lookahead": 1}
    one = abctree.abc_tree(slanting(), **settings)
    two = abctree.abc_tree(slanting(), **settings, executor="threads")
    np.testing.assert_array_equal(one.table.denominator, two.table.denominator)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"proposal": "kernels"}, '`proposal` must be "boxes", "adaptive", or a list'),
        ({"proposal": ["thinned"]}, "`proposal` must be"),
        ({"proposal": True}, "`proposal` must be"),
        ({"n_folds": 1}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"preset": "published"}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"n_pilot": 1}, "`n_folds` and `n_pilot` must be at least 2"),
        ({"policy": abctree.Thompson()}, '`proposal` must be "boxes" with a `policy`'),
    ],
)
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(abctree.ParameterError, match=said):
        abctree.abc_tree(normal(1), n_simulations=100, **{"proposal": "adaptive", **settings})
