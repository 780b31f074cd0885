"""`smc`: exact weights for every kind of parameter, exact budgets, and honest labels."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from itertools import pairwise
from itertools import product as cartesian
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr

import abctree
from abctree import problems
from abctree.baselines.smc import accepted_of, draw
from abctree.problems import truth
from abctree.proposals import coordinates, kernel_mixture, perturbations, points

from .conftest import z_score

KERNELS = ["twice-covariance", "componentwise", "silverman", "local"]


def smc(problem, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        return abctree.smc(problem, **kwargs)


def posterior(result, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        return result.posterior(**kwargs)


def gauss_runs(n_runs, **kwargs):
    settings = {"n_simulations": 3000, "n_particles": 200, **kwargs}
    return [smc(problems.gauss(2), rng=seed, **settings) for seed in range(n_runs)]


def variance_ratio(draws, epsilon=None):
    """Posterior variance over that of the exact ε-posterior of Gauss(2)."""
    known = truth.GaussTruth(2).sd(draws.epsilon if epsilon is None else epsilon) ** 2
    return np.diag(draws.cov()).mean() / known


def evidence_ratio(result, **kwargs):
    z = result.evidence(**kwargs)
    return z.estimate / truth.GaussTruth(2).evidence(z.epsilon)


# The law of the draws ---------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_smc_samples_the_epsilon_posterior(kernel):
    runs = gauss_runs(20, kernel=kernel)
    draws = [posterior(r) for r in runs]
    variances = [variance_ratio(d) for d in draws]
    evidences = [evidence_ratio(r) for r in runs]
    assert abs(z_score([d.mean()[0] for d in draws], 0.0)) < 3.5
    assert abs(z_score(variances, 1.0)) < 3.5
    assert abs(z_score(evidences, 1.0)) < 3.5
    assert np.std(variances) / np.sqrt(20) < 0.04
    assert np.std(evidences) / np.sqrt(20) < 0.03
    # The twins: weights dropped, and the draws labelled with the tolerance of one population later.
    dropped = [dataclasses.replace(d, log_weights=np.zeros(len(d))) for d in draws]
    assert z_score([variance_ratio(d) for d in dropped], 1.0) < -5.0
    later = [next((x.epsilon for x in r.rounds if x.epsilon < d.epsilon), 0.5 * d.epsilon)
             for r, d in zip(runs, draws, strict=True)]  # fmt: skip
    mislabelled = [variance_ratio(d, e) for d, e in zip(draws, later, strict=True)]
    assert z_score(mislabelled, 1.0) > 4.0


def test_smc_with_a_proposal_density_that_forgets_its_weights_is_noticed(monkeypatch):
    right = perturbations.KernelDensity.log_density

    def unweighted(self, z):
        n = len(self.weight)
        return right(dataclasses.replace(self, weight=np.full(n, 1.0 / n)), z)

    monkeypatch.setattr(perturbations.KernelDensity, "log_density", unweighted)
    runs = gauss_runs(20, kernel="silverman")
    assert z_score([evidence_ratio(r) for r in runs], 1.0) < -3.5


def test_smc_mixture_weights_answer_at_any_epsilon():
    runs = gauss_runs(16, weights="mixture", kernel="silverman")
    for epsilon in (1.5, 2.5, 5.0):
        ratios = [evidence_ratio(r, epsilon=epsilon) for r in runs]
        assert abs(z_score(ratios, 1.0)) < 3.5
        assert np.std(ratios) / np.sqrt(16) < 0.02
        variances = [variance_ratio(posterior(r, epsilon=epsilon)) for r in runs]
        assert abs(z_score(variances, 1.0)) < 3.5
    # All populations together hold more than the last one.
    pooled = np.mean([posterior(r, epsilon=1.5).ess for r in runs])
    alone = np.mean([posterior(r, epsilon=1.5, weights="population").ess for r in runs])
    assert pooled > 1.3 * alone
    # The twin: each population's own weights as if they were the mixture's are far more uneven.
    draw = np.mean([posterior(r, epsilon=1.5, weights="draw").ess for r in runs])
    assert draw < 0.7 * pooled


def test_smc_mixture_leaves_a_draw_out_of_its_own_denominator():
    # Five dimensions and small steps: a kernel at the draw itself is a large share there.
    known = truth.GaussianMixtureTruth(5).evidence(3.0)
    problem = problems.gaussian_mixture(5)
    right, wrong = [], []
    for seed in range(6):
        result = smc(problem, n_simulations=9000, n_particles=300, kernel="silverman", rng=seed,
                     weights="mixture")  # fmt: skip
        right.append(result.evidence(3.0).estimate / known)
        # The twin: the mixture at the draws as at any other point.
        result.table.set_denominator(result.rounds[-1].mixtures[0](result.table.cube))
        wrong.append(result.evidence(3.0).estimate / known)
    assert abs(z_score(right, 1.0)) < 3.5
    assert np.std(right) / np.sqrt(6) < 0.04
    assert np.mean(wrong) < 0.92
    assert z_score(wrong, 1.0) < -4.0


def without_own_kernel_alone(self, table):
    """The ratio at a particle without the kernel there, in the covariances of all of them."""
    z, own = self.coordinates.of(table.theta, table.cube), self.kernels
    ratio = np.exp(own.log_density(z) - self.coordinates.theta(z)[1])
    volume = np.sqrt(np.linalg.det(2.0 * np.pi * own.covariance)) * own.scale.prod()
    at_itself = own.weight / volume * np.exp(-self.coordinates.theta(z)[1][self.rows])
    ratio[self.rows] = (ratio[self.rows] - at_itself) / (1.0 - own.weight)
    return ratio


@pytest.mark.slow
def test_smc_mixture_leaves_a_draw_out_of_the_steps_that_it_taught(monkeypatch):
    # Steps by ten neighbours reach farther towards each of them than if it had not been there.
    known = truth.GaussTruth(2).evidence(1.5)
    right, wrong = [], []
    for seed in range(100):
        result = smc(problems.gauss(2), n_simulations=1500, n_particles=50, rng=seed,
                     kernel="local", weights="mixture")  # fmt: skip
        right.append(result.evidence(1.5).estimate / known)
        with monkeypatch.context() as twin:
            twin.setattr(
                kernel_mixture.Particles, "ratio_without_oneself", without_own_kernel_alone
            )
            kernel_mixture.update_mixture(result.table, result.rounds[-1].mixtures[0])
        wrong.append(result.evidence(1.5).estimate / known)
    assert abs(z_score(right, 1.0)) < 3.5
    assert np.std(right) / 10.0 < 0.01
    assert z_score(wrong, 1.0) < -3.5


@pytest.mark.parametrize("kernel", KERNELS)
def test_smc_mixture_at_a_draw_does_not_know_of_it(kernel):
    """The proposal that is learned from a draw says the same of its place where it is another."""
    rng = np.random.default_rng(4)
    base = SimpleNamespace(of=lambda theta, cube: theta, theta=lambda z: (z, np.zeros(len(z))))
    rule, weight = perturbations.as_perturbation(kernel), rng.uniform(0.5, 1.5, 40)
    place = rng.normal(size=(40, 2))
    table = SimpleNamespace(theta=place, cube=place)

    def ratio(z):
        density = perturbations.KernelDensity.of(z, weight, rule, np.zeros(2, bool), np.ones(2))
        own = kernel_mixture.Particles(density, base, plain_problem().prior, np.arange(40))
        return own.ratio_without_oneself(table), density.log_density(place)

    moved = place.copy()
    moved[7] += 0.5
    (here, told), (there, told_there) = ratio(place), ratio(moved)
    assert there[7] == pytest.approx(here[7], rel=1e-9)
    assert abs(told_there[7] - told[7]) > 1e-4  # the twin: by all particles
    assert not np.allclose(np.delete(there, 7), np.delete(here, 7), rtol=1e-4)


def test_smc_mixture_weighs_a_particle_far_in_the_tail_of_the_prior():
    # At 40 standard deviations of the prior a kernel is exp(800) times as dense as the prior.
    def dense(n):
        return SimpleNamespace(log_density=lambda z: np.full(len(z), -n))

    density = SimpleNamespace(
        log_density=lambda z: np.array([0.0, -1.0, 0.0]),
        without=lambda some: dense(0.5) if len(some) else None,
    )
    log_base = np.array([-800.0, -799.0, -0.9])
    base = SimpleNamespace(of=lambda theta, cube: theta, theta=lambda z: (z, log_base))
    table = SimpleNamespace(theta=np.zeros((3, 1)), cube=np.full((3, 1), 0.5))
    particles = kernel_mixture.Particles(density, base, plain_problem().prior, np.array([0, 2]))
    ratio = particles.ratio_without_oneself(table)
    assert np.allclose(ratio, np.exp([600.0, 600.0, 0.4]))


def test_smc_mixture_ratio_integrates_to_one():
    problem = abctree.Problem(
        {"a": stats.norm(0, 2), "b": (-1.0, 3.0), "n": abctree.Integers(0, 9)},
        lambda theta, rng: theta + rng.normal(size=theta.shape),
        [0.5, 0.0, 2.0],
        vectorized=True,
        constraint=lambda t: t["a"] < 2.0 + t["b"],
    )
    result = smc(problem, n_simulations=3000, n_particles=100, rng=0)
    cube = np.random.default_rng(1).random((4_000, 3))
    theta = problem.prior.from_cube(cube)
    allowed = problem.region.feasible(theta)
    inside = result.mixture_ratio(theta[allowed])
    assert abs(z_score(inside, 1.0)) < 4.0
    assert inside.std() / np.sqrt(len(inside)) < 0.02
    assert inside.max() > 3.0


# Every kind of parameter, by quadrature ---------------------------------------------------------

MIXED = {
    "a": (0.0, 4.0),
    "n": abctree.Integers(1, 12),
    "k": abctree.Categorical([0.0, 1.0, 5.0], [0.5, 0.2, 0.3]),
    "b": stats.expon(scale=2.0),
    "c": 1.5,
}


def mixed_simulator(theta, rng):
    a, n, k, b, c = theta.T
    return (a + 0.5 * n - 0.4 * k + b + c + rng.normal(size=len(theta)))[:, None]


def mixed_problem(prior=MIXED):
    return abctree.Problem(
        prior, mixed_simulator, [4.0], vectorized=True, constraint=lambda t: t["a"] < 0.5 * t["n"]
    )


@functools.cache
def mixed_truth(epsilon):
    """Evidence, P(n <= 2), P(k = 5) and E a, by quadrature over a and sums over n and k."""

    def below(c):  # the law of b and the noise together, for b of scale 2
        return ndtr(c) - np.exp(0.125 - 0.5 * c) * ndtr(c - 0.5)

    a = np.linspace(0.0, 4.0, 401)
    total, few, five, first, prior = 0.0, 0.0, 0.0, 0.0, 0.0
    for n, (k, p) in cartesian(range(1, 13), [(0.0, 0.5), (1.0, 0.2), (5.0, 0.3)]):
        allowed = (a < 0.5 * n).astype(float)
        # Half of the step that the constraint cuts.
        allowed[np.isclose(a, 0.5 * n)] = 0.5
        gap = 4.0 - (a + 0.5 * n - 0.4 * k + 1.5)
        inner = below(gap + epsilon) - below(gap - epsilon)
        weight = p / 12.0 / 4.0
        mass = weight * integrate.trapezoid(inner * allowed, a)
        prior += weight * integrate.trapezoid(allowed, a)
        total += mass
        few += mass * (n <= 2)
        five += mass * (k == 5.0)
        first += weight * integrate.trapezoid(inner * allowed * a, a)
    return np.array([total / prior, few / total, five / total, first / total])


def mixed_estimates(result, epsilon):
    d = posterior(result, epsilon=epsilon)
    a, n, k, _, c = d.theta.T
    assert (c == 1.5).all()
    assert set(k) <= {0.0, 1.0, 5.0}
    assert (n == np.rint(n)).all()
    assert (a < 0.5 * n).all()
    z = result.evidence(epsilon).estimate
    return [z, d.weights[n <= 2].sum(), d.weights[k == 5.0].sum(), d.weights @ a]


@pytest.mark.parametrize("space", ["theta", "cube"])
def test_smc_is_exact_for_integers_lists_bounds_and_constraints(space):
    runs = [
        smc(mixed_problem(), n_simulations=4000, n_particles=200, rng=s, space=space,
            schedule=[3.0, 1.5, 0.75])
        for s in range(16)
    ]  # fmt: skip
    assert all("no lower tolerance" in r.stopped_because for r in runs)
    exact = mixed_truth(0.75)
    got = np.array([mixed_estimates(r, 0.75) for r in runs])
    for j in range(4):
        assert abs(z_score(got[:, j], exact[j])) < 3.8, j
    assert (got.std(axis=0) / np.sqrt(16) < 0.05 * exact).all()
    # The twin: refused points that are not counted.
    forgetful = []
    for r in runs:
        last = r.rounds[-1]
        n_drawn = last.mixtures[0].layers[-1][0][0]
        forgetful.append(r.evidence(0.75).estimate * n_drawn / last.n_simulations)
    assert z_score(forgetful, exact[0]) > 5.0


def test_smc_twin_with_a_wrong_integer_mass_is_noticed(monkeypatch):
    def density_instead_of_mass(away, sd):
        return stats.norm.pdf(away / (2.0 * sd)) / sd

    monkeypatch.setattr(perturbations, "_rounded_normal", density_instead_of_mass)
    runs = [
        smc(mixed_problem(), n_simulations=4000, n_particles=200, rng=s, schedule=[3.0, 1.5, 0.75])
        for s in range(8)
    ]
    got = np.array([mixed_estimates(r, 0.75) for r in runs])
    assert max(abs(z_score(got[:, j], mixed_truth(0.75)[j])) for j in range(4)) > 5.0


def test_smc_takes_the_cube_of_a_prior_transform_and_the_simplex_of_a_dirichlet():
    noisy = {"vectorized": True, "observed": [0.5, 0.2]}

    def simulate(theta, rng):
        return theta[:, :2] + rng.normal(scale=0.1, size=(len(theta), 2))

    pair = abctree.PriorTransform(lambda cube: np.sort(cube, axis=1)[:, ::-1], ("a", "b"))
    shares = {("a", "b", "c"): abctree.Dirichlet([1.0, 1.0, 1.0])}
    means = {}
    for name, prior in (("pair", pair), ("shares", shares)):
        problem = abctree.Problem(prior, simulate, **noisy)
        runs = [smc(problem, n_simulations=2000, n_particles=100, rng=s, schedule=[0.5, 0.2])
                for s in range(8)]  # fmt: skip
        assert all((d.theta[:, 0] >= 0).all() for d in map(posterior, runs))
        means[name] = np.array([posterior(r).mean()[:2] for r in runs])
        reference = posterior(abctree.rejection(problem, n_simulations=60_000, rng=9), epsilon=0.2)
        error = reference.std()[:2] / np.sqrt(reference.ess)
        spread = means[name].std(axis=0, ddof=1) / np.sqrt(8)
        assert (np.abs(means[name].mean(axis=0) - reference.mean()[:2])
                < 3.8 * np.hypot(error, spread)).all()  # fmt: skip
    assert posterior(runs[0]).theta.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(abctree.ParameterError, match='`space` must be "cube"'):
        abctree.smc(abctree.Problem(pair, simulate, **noisy), n_simulations=100, space="theta")


def test_smc_reaches_the_end_of_a_prior_whose_density_is_infinite_there(monkeypatch):
    """Rounded to floats, 1.2 % of these prior draws are 3, and 2.7 % of the posterior."""
    law = stats.beta(0.1, 0.1, -3, 6)
    problem = abctree.Problem(
        {"a": law}, lambda theta, rng: theta + rng.normal(size=theta.shape), [3.0], vectorized=True
    )
    a = law.ppf((np.arange(20_000) + 0.5) / 20_000)
    near = ndtr(3.5 - a) - ndtr(2.5 - a)
    exact = near[a == 3.0].sum() / near.sum()
    assert exact > 0.02

    def at_the_end():
        runs = [smc(problem, n_simulations=1500, n_particles=100, rng=s, schedule=[3.0, 1.0, 0.5])
                for s in range(8)]  # fmt: skip
        return [d.weights[d.theta[:, 0] == 3.0].sum() for d in map(posterior, runs)]

    assert abs(z_score(at_the_end(), exact)) < 3.5
    with pytest.raises(abctree.ParameterError, match='`space` must be "cube" where many prior'):
        smc(problem, n_simulations=100, space="theta")
    # The twin: steps in the units of the parameter.
    monkeypatch.setattr("abctree.proposals.coordinates._OUTER", 0.5)
    assert max(at_the_end()) < 0.2 * exact


def test_smc_of_a_density_prior_weighs_by_the_density():
    prior = abctree.DensityPrior(lambda t: -0.5 * (t[:, 0] / 0.5) ** 2, {"a": (-3.0, 3.0)})
    problem = abctree.Problem(
        prior, lambda theta, rng: theta + rng.normal(size=theta.shape), [1.0], vectorized=True
    )
    runs = [smc(problem, n_simulations=2000, n_particles=200, rng=s, schedule=[1.0, 0.4])
            for s in range(12)]  # fmt: skip
    grid = np.linspace(-3.0, 3.0, 4001)
    near = ndtr(1.4 - grid) - ndtr(0.6 - grid)
    weight = np.exp(-2.0 * grid**2)
    exact = np.average(grid, weights=weight * near)
    assert abs(z_score([posterior(r).mean()[0] for r in runs], exact)) < 3.5
    z = [r.evidence().estimate for r in runs]
    assert abs(z_score(z, np.average(near, weights=weight))) < 3.5
    # The twin: a flat prior on the box.
    assert abs(z_score([posterior(r).mean()[0] for r in runs], np.average(grid, weights=near))) > 5


# The proposal's density -------------------------------------------------------------------------


def population(rng, n=60):
    z = np.column_stack([rng.normal(size=n), 1e6 * rng.gamma(2.0, size=n), rng.integers(0, 5, n)])
    z[:, 1] += 3e5 * z[:, 0]
    return z, rng.gamma(1.0, size=n)


def brute_force(density, z):
    """The sum over particles, one SciPy call each."""
    total = np.zeros(len(z))
    units = np.diag(density.scale)
    covariances = np.broadcast_to(density.covariance, (len(density.particle), *units.shape))
    for particle, w, c in zip(density.particle, density.weight, covariances, strict=True):
        cov = units @ c @ units
        sd = max(np.sqrt(cov[2, 2]), 0.5)
        # In standard units: SciPy takes a covariance in such different ones for singular.
        away = (z[:, :2] - particle[:2]) / density.scale[:2]
        normal = stats.multivariate_normal(np.zeros(2), c[:2, :2]).pdf(away)
        normal /= np.prod(density.scale[:2])
        up, down = z[:, 2] - particle[2] + 0.5, z[:, 2] - particle[2] - 0.5
        total += w * normal * (ndtr(up / sd) - ndtr(down / sd))
    return total


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_density_is_the_sum_over_particles(kernel, rng):
    z, weight = population(rng)
    lattice = np.array([False, False, True])
    density = perturbations.KernelDensity.of(
        z, weight, perturbations.as_perturbation(kernel), lattice, np.ones(3)
    )
    points = np.concatenate([density.draw(200, rng), z])
    np.testing.assert_allclose(
        np.exp(density.log_density(points)), brute_force(density, points), rtol=1e-8
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_density_is_the_law_of_its_draws(kernel, rng):
    z, weight = population(rng, 20)
    lattice = np.array([False, False, True])
    density = perturbations.KernelDensity.of(
        z, weight, perturbations.as_perturbation(kernel), lattice, np.ones(3)
    )
    draws = density.draw(20_000, rng)
    # E_q[1/q · 1_box] is the volume of a box times the number of its whole values.
    scale = density.scale[:2]
    low, high = density.center[:2] - scale, density.center[:2] + scale
    inside = ((draws[:, :2] > low) & (draws[:, :2] < high)).all(axis=1)
    inside &= (draws[:, 2] >= 1) & (draws[:, 2] <= 3)
    inverse = np.where(inside, np.exp(-density.log_density(draws)), 0.0) / np.prod(2.0 * scale)
    assert abs(z_score(inverse, 3.0)) < 4.0
    assert inverse.std() / np.sqrt(len(inverse)) < 0.2


@given(power=st.integers(-12, 9), shift=st.floats(-5.0, 5.0))
def test_kernel_density_follows_the_units(power, shift):
    rng = np.random.default_rng(0)
    z, weight = rng.normal(size=(40, 2)), rng.gamma(1.0, size=40)
    unit = np.array([10.0**power, 1.0])
    for kernel in KERNELS:
        rule = perturbations.as_perturbation(kernel)
        plain = perturbations.KernelDensity.of(z, weight, rule, np.zeros(2, bool), np.ones(2))
        moved = (z + shift) * unit
        other = perturbations.KernelDensity.of(moved, weight, rule, np.zeros(2, bool), unit)
        points = rng.normal(size=(20, 2))
        np.testing.assert_allclose(
            other.log_density((points + shift) * unit),
            plain.log_density(points) - np.log(unit[0]),
            atol=1e-6,
        )


def test_kernel_density_of_one_particle_or_equal_ones_can_move():
    for z in (np.array([[1.0, 2.0, 3.0]]), np.tile([1.0, 2.0, 3.0], (5, 1))):
        for kernel in KERNELS:
            density = perturbations.KernelDensity.of(
                z, np.ones(len(z)), perturbations.as_perturbation(kernel),
                np.array([False, False, True]),
                np.array([2.0, 1e-9, 1.0]),
            )  # fmt: skip
            draws = density.draw(100, np.random.default_rng(0))
            assert np.isfinite(density.log_density(draws)).all()
            assert (draws.std(axis=0) > 0.0).all()


def test_kernel_density_far_from_all_particles_is_tiny_and_not_nan():
    density = perturbations.KernelDensity.of(
        np.random.default_rng(0).normal(size=(50, 2)), np.ones(50),
        perturbations.as_perturbation("local"),
        np.zeros(2, bool), np.ones(2),
    )  # fmt: skip
    assert (density.log_density(np.full((1, 2), 1e4)) < -1e6).all()


def test_covariance_rules_by_hand():
    z = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 9.0]])
    w = np.array([0.1, 0.2, 0.3, 0.4])
    mean = w @ z
    scatter = sum(wi * np.outer(zi - mean, zi - mean) for wi, zi in zip(w, z, strict=True)) / 0.7
    ess = 1.0 / np.sum(w**2)
    shrunk = perturbations.weighted_covariance(z, w)
    assert np.diag(shrunk) == pytest.approx(np.diag(scatter))
    assert shrunk[0, 1] == pytest.approx(scatter[0, 1] * (1.0 - min(1.0, 3.0 / ess) ** 2))
    big, weight = np.tile(z, (500, 1)), np.tile(w, 500) / 500
    twice = perturbations.as_perturbation("twice-covariance").covariance(big, weight)
    single = perturbations.as_perturbation("componentwise").covariance(big, weight)
    rule = perturbations.as_perturbation("silverman").covariance(big, weight)
    assert twice == pytest.approx(2.0 * 0.7 * scatter, rel=1e-2)
    assert single == pytest.approx(np.diag(np.diag(twice)))
    assert rule == pytest.approx(twice / 2.0 * (1.0 / (500 * ess)) ** (1.0 / 3.0), rel=1e-6)
    near = perturbations.Local(share=1e-9).covariance(z[:, :1], w)  # three neighbours, itself one
    assert near[0, 0, 0] == pytest.approx((0.2 * 1.0 + 0.3 * 4.0) / 0.6)


def test_lattice_coordinates_go_back_and_forth():
    spec = {**MIXED, ("p", "q"): abctree.Dirichlet([1.0, 2.0]), "m": stats.poisson(4.0)}
    prior = abctree.Problem(spec, max, 0.0).prior
    chart = coordinates.coordinates(prior, None)
    cube = np.random.default_rng(0).random((200, prior.d))
    theta = prior.from_cube(cube)
    back, log_density = chart.theta(chart.of(theta, cube))
    np.testing.assert_allclose(back, theta, atol=1e-12)
    assert log_density == pytest.approx(prior.log_density(theta))
    assert chart.is_lattice.sum() == 3
    outside = chart.of(theta, cube)
    outside[:, np.flatnonzero(chart.is_lattice)[1]] = 7.0  # beyond the list of k
    assert (chart.theta(outside)[1] == -np.inf).all()


# Budgets, labels and small numbers --------------------------------------------------------------


def one_by_one(theta, rng):
    return theta + rng.normal(size=2)


def plain_problem(simulator=one_by_one, **kwargs):
    prior = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    return abctree.Problem(prior, simulator, [1.0, -1.0], **kwargs)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 101, 1234])
def test_smc_never_exceeds_its_budget_and_spends_it(n):
    calls = 0

    def count(theta, rng):
        nonlocal calls
        calls += 1
        return one_by_one(theta, rng)

    result = smc(plain_problem(count), n_simulations=n, rng=0)
    assert calls == n == result.n_simulations == len(result.table)
    assert result.stopped_because == f"budget of {n} simulations spent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        assert str(result.summary())
    last = [(r.first, r.last) for r in result.rounds]
    assert last[0][0] == 0
    assert last[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(last))


def test_smc_never_labels_draws_with_a_tolerance_they_do_not_have():
    for budget in range(600, 1400, 50):
        result = smc(plain_problem(), n_simulations=budget, n_particles=100, rng=1)
        answer = result.rounds[result.population]
        d = posterior(result)
        assert d.epsilon == answer.epsilon
        assert d.distance.max() < answer.epsilon
        assert len(d) == len(accepted_of(result.table, answer.index, answer.epsilon))
        # Cut short, it is smaller, and answers only with half of what was asked for.
        assert len(d) >= 100 or d.ess >= 50.0
        cut = result.rounds[-1]
        if cut.ess < 50.0:
            assert result.population < cut.index
            # The twin: the earlier draws under the later label.
            assert d.distance.max() > cut.epsilon


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_smc_result_reads_with_few_draws(reached):
    # Distances count down from 9; the last tolerance is below all but a few.
    problem = abctree.Problem(
        {"a": (0.0, 1.0)}, lambda theta, rng: theta, [0.0], distance=lambda s, o: abs(s[0] - o[0])
    )
    ordered = np.sort(abctree.smc(problem, n_simulations=40, n_particles=30, rng=3,
                                  schedule=[2.0]).table.distance)  # fmt: skip
    epsilon = 1e-9 if reached == 0 else float(ordered[reached])
    result = smc(problem, n_simulations=40, n_particles=30, rng=3, schedule=[epsilon], n_pilot=40)
    d = posterior(result)
    assert len(d) == reached
    assert d.mean().shape == d.std().shape == (1,)
    assert np.isnan(d.mean()).all() == (reached == 0)
    assert result.evidence().estimate == pytest.approx(reached / 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        assert str(result.summary())
        assert any("Nothing was accepted" in w for w in result.warnings) == (reached == 0)


def same(first, second):
    assert len(first.table) == len(second.table)
    for column in ("theta", "cube", "distance", "proposal", "round"):
        np.testing.assert_array_equal(
            getattr(first.table, column), getattr(second.table, column), err_msg=column
        )


@pytest.mark.parametrize("kernel", ["twice-covariance", "local"])
def test_smc_with_the_same_seed_is_the_same_run(kernel):
    kwargs = {"n_simulations": 1500, "n_particles": 100, "kernel": kernel}
    first = smc(plain_problem(), rng=3, **kwargs)
    same(first, smc(plain_problem(), rng=np.random.default_rng(3), **kwargs))
    other = smc(plain_problem(), rng=4, **kwargs)
    assert (first.table.theta != other.table.theta).all()


@settings(max_examples=6)
@given(chunk=st.integers(1, 200))
def test_smc_does_not_depend_on_the_chunks_of_its_executor(chunk):
    def vectorized(theta, rng):
        return theta + rng.normal(size=theta.shape)

    p = plain_problem(vectorized, vectorized=True, batch_size=16)
    whole = smc(p, n_simulations=900, n_particles=60, rng=0)
    same(whole, smc(p, n_simulations=900, n_particles=60, rng=0, executor=abctree.Serial(chunk)))


def test_smc_rescaled_by_many_powers_of_ten_is_the_same_run():
    scale = np.array([1e-12, 1e9])

    def simulate(theta, rng):
        return theta / scale + rng.normal(size=theta.shape)

    scaled = abctree.Problem({"a": (-5e-12, 5e-12), "b": (-5e9, 5e9)}, simulate, [1.0, -1.0],
                             vectorized=True)  # fmt: skip
    plain = plain_problem(lambda theta, rng: theta + rng.normal(size=theta.shape), vectorized=True)
    a = smc(plain, n_simulations=1200, n_particles=100, rng=2)
    b = smc(scaled, n_simulations=1200, n_particles=100, rng=2)
    np.testing.assert_allclose(b.table.cube, a.table.cube, rtol=1e-5)
    np.testing.assert_allclose(b.table.proposal, a.table.proposal, rtol=1e-5)


# Settings ---------------------------------------------------------------------------------------


RULES = ["median", "adaptive", 0.9, abctree.Quantile(0.75), [6.0, 3.0]]


@pytest.mark.parametrize("schedule", RULES)
def test_smc_tolerances_fall_by_the_schedule(schedule):
    result = smc(plain_problem(), n_simulations=1500, n_particles=100, rng=0, schedule=schedule)
    epsilons = [r.epsilon for r in result.rounds[1:]]
    assert (np.diff(epsilons) < 0.0).all()
    assert len(epsilons) >= 2
    for played in result.rounds[1:-1]:
        assert len(accepted_of(result.table, played.index, played.epsilon)) >= 100
    if schedule == 0.9:
        assert epsilons[1] == pytest.approx(0.9 * epsilons[0])
    if isinstance(schedule, list):
        assert epsilons == schedule
        assert result.stopped_because == "the schedule has no lower tolerance"
        assert result.n_simulations < 1500


def coin(**kwargs):
    """14 heads in 20: distances are whole numbers, and the posterior is Beta(15, 7)."""

    def simulate(theta, rng):
        return rng.binomial(20, theta)

    return abctree.Problem({"p": (0.0, 1.0)}, simulate, [14], vectorized=True, **kwargs)


@pytest.mark.parametrize(("schedule", "same"), [("median", "adaptive"), (0.5, 0.5)])
def test_smc_spends_its_budget_at_the_lowest_tolerance_and_is_exact(schedule, same):
    exact = np.array([1.0 / 21.0, 15.0 / 22.0, np.sqrt(15.0 * 7.0 / 23.0) / 22.0])

    def run(seed, weights="mixture", schedule=schedule):
        given = {"n_simulations": 8000, "n_particles": 150, "schedule": schedule}
        return smc(coin(), rng=seed, weights=weights, **given)

    runs = [run(seed) for seed in range(12)]
    assert {r.n_simulations for r in runs} == {8000}
    for r in runs:
        assert r.warnings == ()
        assert r.rounds[-1].epsilon == r.rounds[-2].epsilon
        assert r.population == r.rounds[-1].index
        assert r.rounds[-1].n_accepted > 300

    def estimates(result, kind, *, weighted=True):
        d = posterior(result, epsilon=result.rounds[-1].epsilon, weights=kind)
        assert (d.distance == 0.0).all()
        weight = d.weights if weighted else np.full(len(d), 1.0 / len(d))
        mean = weight @ d.theta[:, 0]
        std = np.sqrt(weight @ (d.theta[:, 0] - mean) ** 2)
        return [result.evidence(d.epsilon, kind).estimate, mean, std]

    # What is kept for weights does not change the run, nor who lowers tolerances of so few values.
    by_population = run(0, "population", same)
    np.testing.assert_array_equal(by_population.table.theta, runs[0].table.theta)
    assert estimates(by_population, None) == estimates(runs[0], "population")
    assert by_population.warnings == ()
    for kind in ("population", "mixture"):
        got = np.array([estimates(r, kind) for r in runs])
        for j in range(3):
            assert abs(z_score(got[:, j], exact[j])) < 3.8, j
        assert (got.std(axis=0, ddof=1) / np.sqrt(12) < 0.03 * exact).all()
        # The twin: weights dropped.
        bare = np.array([estimates(r, kind, weighted=False) for r in runs])
        assert abs(z_score(bare[:, 2], exact[2])) > 8


def test_smc_at_its_lowest_tolerance_is_resumed_bit_for_bit(tmp_path):
    kwargs = {"n_particles": 100, "rng": 2}
    short = smc(coin(), n_simulations=1500, store=tmp_path / "a", **kwargs)
    more = abctree.resume(tmp_path / "a", coin(), n_simulations=2500)
    assert more.n_simulations == 2500
    np.testing.assert_array_equal(more.table.theta[:1500], short.table.theta)


@pytest.mark.parametrize("budget", range(2500, 4000, 250))
def test_smc_answers_by_the_better_of_two_populations_at_the_lowest_tolerance(budget):
    result = smc(coin(), n_simulations=budget, n_particles=100, rng=2)
    lowest = result.rounds[result.population].epsilon
    same_epsilon = [r.ess for r in result.rounds[1:] if r.epsilon == lowest]
    assert posterior(result).ess == pytest.approx(max(same_epsilon))


def test_a_list_of_tolerances_ends_the_run_where_it_ends():
    result = smc(coin(), n_simulations=4000, n_particles=100, rng=0, schedule=[3.0, 0.5])
    assert result.stopped_because == "the schedule has no lower tolerance"
    assert result.n_simulations < 4000


def test_smc_population_grows_until_its_effective_sample_size():
    kwargs = {"n_simulations": 3000, "n_particles": 100, "kernel": "local", "rng": 5}
    plain = smc(plain_problem(), **kwargs)
    grown = smc(plain_problem(), min_ess=100.0, **kwargs)
    assert min(r.ess for r in plain.rounds[2:-1]) < 100.0
    assert all(r.ess >= 100.0 for r in grown.rounds[1:-1])
    assert posterior(grown).ess >= 100.0


def noisy_place(theta, rng):
    return theta + 0.1 * rng.standard_normal(2)


def test_smc_is_answered_by_as_many_draws_as_its_population_has():
    """Far rows of a population are heavy: all of it is worth fewer draws than the nearest are."""
    place = abctree.Problem({"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, noisy_place, [2.0, -1.0])
    error, n_draws = [], []
    for seed in range(4):
        result = abctree.smc(place, n_simulations=5000, rng=seed)
        answer = result.answer()
        error += [*(answer.mean() - [2.0, -1.0])]
        n_draws.append(answer.ess / result.posterior().ess)
        assert (np.abs(answer.std() / 0.1 - 1.0) < 0.25).all()
    assert min(n_draws) > 1.0
    assert np.sqrt(np.mean(np.square(error))) < 0.2 * 0.1


def test_smc_stops_for_a_reason_and_tells_of_each_population():
    told = []
    result = smc(plain_problem(), n_simulations=5000, n_particles=100, rng=0, stop={"epsilon": 2.0},
                 progress=told.append)  # fmt: skip
    assert "epsilon" in result.stopped_because
    assert result.rounds[-1].epsilon <= 2.0 < result.rounds[-2].epsilon
    assert [p.round for p in told] == [r.index for r in result.rounds[1:]]
    assert told[-1].n_simulations == result.n_simulations < 5000
    two = smc(plain_problem(), n_simulations=5000, n_particles=100, rng=0, max_rounds=2)
    assert two.stopped_because == "2 rounds played"
    hurried = smc(plain_problem(), n_simulations=5000, rng=0, stop={"seconds": 1e-9})
    assert "seconds" in hurried.stopped_because
    assert posterior(hurried, epsilon=5.0).n_simulations == hurried.n_simulations < 5000


def test_smc_says_so_when_a_constraint_leaves_no_room_around_the_particles(monkeypatch, rng):
    monkeypatch.setattr(points, "_HOPELESS", 5000)
    run = smc(plain_problem(), n_simulations=600, n_particles=100, rng=1)
    proposal = run.rounds[-1].mixtures[0].layers[-1][0][1]

    def drawn(constraint):
        problem = plain_problem(constraint=constraint)
        return draw(problem, proposal, proposal.coordinates, 5, rng)

    with pytest.raises(abctree.ParameterError, match=r"around .* but refused \d+ steps"):
        drawn(lambda t: np.zeros(len(t["a"]), dtype=bool))
    half, _ = drawn(lambda t: t["a"] > t["b"])  # the twin: some room is enough
    assert len(half.theta) == 5
    assert (half.theta[:, 0] > half.theta[:, 1]).all()


def test_smc_counts_failures_as_rejections():
    def fails_often(theta, rng):
        if theta[0] < 0.0:
            raise ValueError("no")
        return one_by_one(theta, rng)

    result = smc(plain_problem(fails_often), n_simulations=1200, n_particles=100, rng=0)
    failed = result.table.theta[:, 0] < 0.0
    assert np.isinf(result.table.distance[failed]).all()
    assert result.failures.count == failed.sum() > 0
    assert (posterior(result).theta[:, 0] >= 0.0).all()
    with pytest.raises(abctree.SimulatorError, match="failed at a="):
        abctree.smc(plain_problem(fails_often), n_simulations=500, rng=0, on_failure="raise")
    with pytest.raises(abctree.SimulatorError, match="pilot simulations failed"):
        abctree.smc(plain_problem(lambda theta, rng: np.full(2, np.nan)), n_simulations=300, rng=0)


def test_smc_scales_a_distance_by_its_pilot():
    p = plain_problem(lambda theta, rng: theta * np.array([1.0, 1e6]), distance="mad",
                      vectorized=True)  # fmt: skip
    result = smc(p, n_simulations=1000, n_particles=100, rng=0)
    assert not result.problem.needs_pilot
    assert np.isfinite(posterior(result).distance).all()


def test_smc_result_says_what_it_cannot_do():
    result = smc(plain_problem(), n_simulations=600, n_particles=50, rng=0)
    with pytest.raises(abctree.ParameterError, match="cuts boxes"):
        result.histogram()
    with pytest.raises(abctree.ParameterError, match='weights="mixture"'):
        result.posterior(weights="mixture")
    assert result.bias_alarm() is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_simulations": 0}, "`n_simulations` must be a whole number of at least 1"),
        ({"n_particles": 2.5}, "`n_particles` must be a whole number"),
        ({"kernel": "gauss"}, "`kernel` must be one of"),
        ({"schedule": "slow"}, "`schedule` must be"),
        ({"weights": "draw"}, "`weights` must be"),
        ({"min_ess": -1.0}, "`min_ess` must be at least 0"),
        ({"space": "log"}, "`space` must be"),
        ({"block": 0}, "`block` must be a whole number"),
    ],
)
def test_smc_refuses_bad_settings(bad, message):
    with pytest.raises(abctree.ParameterError, match=message):
        abctree.smc(plain_problem(), **{"n_simulations": 100, **bad})
    with pytest.raises(abctree.ParameterError, match="`problem` must be"):
        abctree.smc("problem", n_simulations=100)


@pytest.mark.slow
def test_smc_is_as_strong_as_its_peers_on_example_2():
    # Median rule at 1e5: twice the covariance reaches ε .67 with an effective sample size of 855.
    known = truth.GaussianMixtureTruth(2)
    rows = []
    for seed in range(3):
        d = posterior(smc(problems.gaussian_mixture(2), n_simulations=100_000, rng=seed))
        rows.append((d.epsilon, d.ess, known.tv20(d.theta, d.weights)))
    epsilon, ess, tv20 = np.mean(rows, axis=0)
    assert epsilon < 0.72
    assert ess > 700
    assert tv20 < 0.21
