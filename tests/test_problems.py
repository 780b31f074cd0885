"""Ready-made problems against closed forms, and their truths against brute force.

Each statistical check is a function that returns a p-value or a z-score, judged with standard
errors, and is run a second time on a broken variant that it must reject.
"""

from __future__ import annotations

import math
import os
import pickle
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr

from abctree import ParameterError, problems
from abctree.kernels import generator, simulators
from abctree.problems import predator_prey, truth, volatility
from examples import hare_lynx
from experiments.reference import load_reference

#: Reference tables of many simulations, which are no part of the repository.
REFERENCE = Path(os.environ.get("ABCTREE_REFERENCE", "no-such-folder"))

ALL = {
    "gauss": lambda: problems.gauss(3),
    "gaussian_mixture": lambda: problems.gaussian_mixture(5),
    "banana": problems.banana,
    "finite_normal": problems.finite_normal,
    "lotka_volterra": problems.lotka_volterra,
    "heston": problems.heston,
    "hare_lynx": hare_lynx.problem,
}


def seeds_of(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def z_of_mean(values, expected):
    return abs(values.mean() - expected) / (values.std() / math.sqrt(len(values)))


def z_of_share(hits, n, expected):
    return abs(hits / n - expected) / math.sqrt(expected * (1 - expected) / n)


def z_of_variance(values, expected):
    return z_of_mean((values - values.mean()) ** 2, expected)


# The generator ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def uniform_draws(seeds, n, exponential=False):
    """The first n draws of each seed's stream, (n_seeds, n)."""
    out = np.empty((len(seeds), n))
    state = np.empty(4, np.uint64)
    for i in range(len(seeds)):
        generator.start_state(state, seeds[i])
        for j in range(n):
            out[i, j] = generator.exponential(state) if exponential else generator.uniform(state)
    return out


exponential_draws = partial(uniform_draws, exponential=True)


class Definition:
    """SplitMix64 and xoshiro256++ on Python integers, as published."""

    mask = 2**64 - 1

    @classmethod
    def splitmix(cls, seed, n):
        out = []
        for _ in range(n):
            seed = (seed + 0x9E3779B97F4A7C15) & cls.mask
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & cls.mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & cls.mask
            out.append(z ^ (z >> 31))
        return out

    @classmethod
    def xoshiro(cls, state, n):
        def rotated(x, k):
            return ((x << k) | (x >> (64 - k))) & cls.mask

        s, out = list(state), []
        for _ in range(n):
            out.append((rotated((s[0] + s[3]) & cls.mask, 23) + s[0]) & cls.mask)
            t = (s[1] << 17) & cls.mask
            s[2] ^= s[0]
            s[3] ^= s[1]
            s[1] ^= s[2]
            s[0] ^= s[3]
            s[2] ^= t
            s[3] = rotated(s[3], 45)
        return out


def test_definition_gives_the_published_vectors():
    assert Definition.splitmix(1234567, 3) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    assert Definition.xoshiro([1, 2, 3, 4], 4) == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
    ]


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_uniform_draws_follow_the_definition(seed):
    bits = Definition.xoshiro(Definition.splitmix(seed, 4), 50)
    expected = [((b >> 12) + 0.5) * 2.0**-52 for b in bits]
    drawn = uniform_draws(np.array([seed], dtype=np.uint64), 50)[0]
    assert drawn.tolist() == expected
    assert drawn.min() > 0.0
    assert drawn.max() < 1.0


@pytest.mark.parametrize(
    ("draws", "law"),
    [
        (uniform_draws, stats.uniform()),
        (simulators.normal_draws, stats.norm()),
        (exponential_draws, stats.expon()),
    ],
)
def test_draws_have_their_law(draws, law):
    x = draws(seeds_of(200), 1000).ravel()
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    assert stats.kstest(1.02 * x, law.cdf).pvalue < 1e-6
    for power in (1, 2, 3, 4):
        moment = law.moment(power)
        assert z_of_mean(x**power, moment) < 4
    assert z_of_mean((1.03 * x) ** 2, law.moment(2)) > 6


def test_normal_draws_reach_into_the_tail():
    x = simulators.normal_draws(seeds_of(1000), 1000).ravel()
    start = generator._TAIL_START

    def worst(values):
        return max(
            z_of_share((side * values > t).sum(), len(values), ndtr(-t))
            for t in (3.0, start, 4.0)
            for side in (-1, 1)
        )

    assert worst(x) < 4
    assert worst(x[np.abs(x) < start]) > 6
    beyond = np.abs(x[np.abs(x) > start])
    assert stats.kstest(1 - ndtr(-beyond) / ndtr(-start), "uniform").pvalue > 1e-3


def test_ziggurat_layers_close_at_the_mode():
    edge, density = generator._EDGE, generator._DENSITY
    area = edge[0] * density[1]
    assert edge[255] * (1.0 - density[255]) == pytest.approx(area, rel=1e-9)
    assert (np.diff(edge) < 0).all()


def test_streams_of_neighbouring_seeds_are_independent():
    n = 20_000
    u = uniform_draws(np.arange(n, dtype=np.uint64), 4) - 0.5

    def worst(a, b):
        return np.abs(a.T @ b / len(a) * 12).max() * math.sqrt(len(a))

    assert worst(u[:-1], u[1:]) < 4.5
    assert worst(u[:-1, :-1], u[1:, 1:]) < 4.5
    assert stats.kstest(u[:, 0] + 0.5, "uniform").pvalue > 1e-3
    shared = uniform_draws(np.arange(n, dtype=np.uint64) // np.uint64(2), 4) - 0.5
    assert worst(shared[:-1], shared[1:]) > 20


# All problems -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_problem_rows_depend_on_their_theta_and_seed_only(name):
    problem = ALL[name]()
    theta = problem.prior.from_cube(np.random.default_rng(1).random((40, problem.d)))
    seeds = seeds_of(40)
    simulate = problem.model.simulator
    whole = simulate(theta, seeds)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(whole, simulate(theta, seeds))
    order = np.random.default_rng(2).permutation(40)
    np.testing.assert_array_equal(whole[order], simulate(theta[order], seeds[order]))
    np.testing.assert_array_equal(whole[7:8], simulate(theta[7:8], seeds[7:8]))
    assert (
        (whole != simulate(theta, seeds + np.uint64(1))).any(axis=tuple(range(1, whole.ndim))).all()
    )


@pytest.mark.parametrize("name", ALL)
def test_problem_can_be_sent_to_a_worker(name):
    problem = ALL[name]()
    copy = pickle.loads(pickle.dumps(problem))
    theta = problem.prior.from_cube(np.full((2, problem.d), 0.3))
    index = np.arange(2)
    here, there = (
        p.measurement.measured(p.simulate(theta, index, 5), theta, index).distance
        for p in (problem, copy)
    )
    np.testing.assert_array_equal(here, there)
    assert copy.names == problem.names


@pytest.mark.parametrize("make", [problems.gauss, problems.gaussian_mixture])
@pytest.mark.parametrize("d", [0, -1, 2.5, "2"])
def test_problem_refuses_a_bad_dimension(make, d):
    with pytest.raises(ParameterError, match="`d` must be a whole number of at least 1"):
        make(d)


# Gauss ------------------------------------------------------------------------------------------


def test_gauss_simulator_has_its_moments():
    theta = np.tile([1.0, -3.0], (50_000, 1))
    y = simulators.gauss(theta, seeds_of(50_000))
    for j, mean in enumerate([1.0, -3.0]):
        assert z_of_mean(y[:, j], mean) < 4
        assert z_of_variance(y[:, j], 1.0) < 4
        assert z_of_mean(y[:, j], mean + 0.05) > 6
    assert abs(np.corrcoef(y.T)[0, 1]) * math.sqrt(50_000) < 4


def test_gauss_truth_equals_brute_force():
    n, epsilon, known = 2_000_000, 1.5, truth.GaussTruth(2)
    theta = np.random.default_rng(0).uniform(-10, 10, (n, 2))
    close = np.linalg.norm(simulators.gauss(theta, seeds_of(n)), axis=1) < epsilon
    assert z_of_share(close.sum(), n, known.evidence(epsilon)) < 4
    assert z_of_share(close.sum(), n, known.evidence(1.1 * epsilon)) > 6
    drawn = known.draws(40_000, epsilon, 1)
    assert stats.ks_2samp(theta[close, 0], drawn[:, 0]).pvalue > 1e-3
    assert z_of_variance(drawn[:, 1], known.sd(epsilon) ** 2) < 4
    assert z_of_variance(drawn[:, 1], 1.0) > 6


def test_gauss_evidence_feels_the_ends_of_the_prior():
    # In one dimension P(|y| < ε) is an integral of normal distribution functions.
    for epsilon in (1.0, 9.0):
        exact = quad(lambda y: ndtr(10 - y) - ndtr(-10 - y), 0, epsilon)[0] / 10.0
        assert truth.GaussTruth(1).evidence(epsilon) == pytest.approx(exact, rel=1e-6)
    assert truth.GaussTruth(1).evidence(9.9) < 0.99


# The mixture ------------------------------------------------------------------------------------


def chi_square_of_acceptance(d, likelihood):
    n, epsilon = 4000, 1.5
    points = np.vstack([np.full((1, d), c) for c in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)])
    theta = np.repeat(points, n, axis=0)
    x = simulators.gaussian_mixture(theta, seeds_of(len(theta), seed=d))
    close = (np.linalg.norm(x - 2.0, axis=1) < epsilon).reshape(len(points), n)
    p = likelihood(points, epsilon)
    return stats.chi2.sf((n * (close.mean(axis=1) - p) ** 2 / (p * (1 - p))).sum(), len(points))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_mixture_acceptance_is_the_exact_likelihood(d):
    known = truth.GaussianMixtureTruth(d)
    assert chi_square_of_acceptance(d, known.likelihood) > 1e-3

    def covariance_read_as_deviation(theta, epsilon):
        wide, narrow = ((2 - theta) ** 2).sum(axis=1), 16 * ((-1 - theta) ** 2).sum(axis=1)
        return 0.3 * stats.ncx2.cdf(epsilon**2, d, wide) + 0.7 * stats.ncx2.cdf(
            16 * epsilon**2, d, narrow
        )

    assert chi_square_of_acceptance(d, covariance_read_as_deviation) < 1e-9


def test_mixture_likelihood_is_finite_at_the_observation_and_far_away():
    known = truth.GaussianMixtureTruth(2)
    p = known.likelihood(np.array([[2.0, 2.0], [-1.0, -1.0], [5.0, -5.0]]), 0.5)
    assert np.isfinite(p).all()
    central = 0.7 * stats.chi2.cdf(1.0, 2) + 0.3 * stats.ncx2.cdf(0.25, 2, 18.0)
    assert p[1] == pytest.approx(central, rel=1e-9)


def test_mixture_evidence_is_the_integral_of_the_likelihood():
    for epsilon in (0.5, 2.0):
        line = quad(
            lambda t, e=epsilon: float(
                truth.GaussianMixtureTruth(1).likelihood(np.array([[t]]), e)[0]
            ),
            -5,
            5,
            points=[-1.0, 2.0],
        )[0]
        assert truth.GaussianMixtureTruth(1).evidence(epsilon) == pytest.approx(line / 10, rel=1e-6)
        node, weight = np.polynomial.legendre.leggauss(80)
        grid = np.stack(np.meshgrid(5 * node, 5 * node, indexing="ij"), axis=-1).reshape(-1, 2)
        square = truth.GaussianMixtureTruth(2).likelihood(grid, epsilon) @ (
            25 * np.outer(weight, weight).ravel()
        )
        assert truth.GaussianMixtureTruth(2).evidence(epsilon) == pytest.approx(
            square / 100, rel=2e-5
        )


def mixture_brute_force(d, epsilon, n):
    theta = np.random.default_rng(3).uniform(-5, 5, (n, d))
    x = simulators.gaussian_mixture(theta, seeds_of(n))
    return theta[np.linalg.norm(x - 2.0, axis=1) < epsilon]


@pytest.mark.parametrize(("d", "epsilon", "n"), [(2, 1.0, 400_000), (5, 2.5, 2_000_000)])
def test_mixture_truth_equals_brute_force(d, epsilon, n):
    known = truth.GaussianMixtureTruth(d)
    accepted = mixture_brute_force(d, epsilon, n)
    drawn = known.draws(40_000, epsilon, 4)
    assert z_of_share(len(accepted), n, known.evidence(epsilon)) < 4
    assert z_of_share(len(accepted), n, 1.08 * known.evidence(epsilon)) > 5
    for j in range(d):
        assert stats.ks_2samp(accepted[:, j], drawn[:, j]).pvalue > 1e-3
    assert stats.ks_2samp(accepted.sum(axis=1), drawn.sum(axis=1)).pvalue > 1e-3
    narrow = known.in_narrow_mode(accepted)
    assert z_of_share(narrow.sum(), len(narrow), known.mode_mass(epsilon)) < 4
    # Broken twins: a forgotten offset, and the posterior at another ε.
    assert stats.ks_2samp(accepted[:, 0], drawn[:, 0] + 3.0 * (drawn[:, 0] < 0.5)).pvalue < 1e-9
    other = known.draws(40_000, 0.0, 4)
    assert stats.ks_2samp(accepted[:, 0], other[:, 0]).pvalue < 1e-6
    assert z_of_share(narrow.sum(), len(narrow), known.mode_mass(epsilon) - 0.06) > 4


def test_mixture_density_is_normalised_and_has_the_cell_masses():
    known = truth.GaussianMixtureTruth(2)
    node, weight = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(-5, 5, 21)
    middle = (edges[1:] + edges[:-1]) / 2
    line = (middle[:, None] + 0.25 * node).ravel()
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = known.density(grid).reshape(20, 12, 20, 12)
    cells = np.einsum("iajb,a,b->ij", mass, 0.25 * weight, 0.25 * weight)
    assert cells.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(known.cell_masses(), cells, atol=1e-13)
    assert cells[:11, :11].sum() == pytest.approx(known.mode_mass(), abs=1e-12)
    assert known.density(np.array([[5.1, 0.0]])) == 0.0


def test_mixture_density_peaks_at_minus_one():
    known = truth.GaussianMixtureTruth(2)
    near = np.array([[-1.0, -1.0], [-1.01, -1.0], [-0.99, -0.99], [2.0, 2.0]])
    assert known.density(near).argmax() == 0


def test_tv20_of_exact_draws_is_at_its_floor():
    known = truth.GaussianMixtureTruth(2)
    values = [known.tv20(known.draws(1000, 0.0, seed)) for seed in range(20)]
    assert np.mean(values) == pytest.approx(0.116, abs=0.006)
    shifted = [known.tv20(known.draws(1000, 0.0, seed) + 0.25) for seed in range(20)]
    assert np.mean(shifted) > 0.2


def test_tv20_honours_weights():
    known = truth.GaussianMixtureTruth(2)
    theta = np.random.default_rng(0).uniform(-5, 5, (200_000, 2))
    assert known.tv20(theta, known.density(theta)) < 0.03
    assert known.tv20(theta) > 0.5
    with pytest.raises(ParameterError, match="`d` must be 2"):
        truth.GaussianMixtureTruth(5).tv20(theta)


# The banana -------------------------------------------------------------------------------------


def test_banana_simulator_has_its_moments():
    n = 40_000
    a, b, c, e, f = point = np.array([-1.2, 0.7, 0.9, -0.4, 1.5])
    x = simulators.banana(np.tile(point, (n, 1)), seeds_of(n))
    mean = [a, b + a**2 - 1, c, math.sin(2 * e), f + 0.3 * c * f]
    sd = [0.5, 0.3, 0.5, 0.3, 0.5]
    for j in range(5):
        assert z_of_mean(x[:, j], mean[j]) < 4
        assert z_of_variance(x[:, j], sd[j] ** 2) < 4
    assert z_of_mean(x[:, 1], b + a**2) > 6
    assert np.abs(np.corrcoef(x.T) - np.eye(5)).max() * math.sqrt(n) < 4.5


@pytest.mark.slow
def test_banana_truth_equals_brute_force():
    n, epsilon, known = 2_500_000, 1.0, truth.BananaTruth()
    theta = np.random.default_rng(0).uniform(-3, 3, (n, 5))
    x = simulators.banana(theta, seeds_of(n))
    accepted = theta[np.linalg.norm(x - problems.banana().observed, axis=1) < epsilon]
    assert z_of_share(len(accepted), n, known.evidence(epsilon)) < 4
    assert z_of_share(len(accepted), n, 1.15 * known.evidence(epsilon)) > 6
    drawn = known.draws(30_000, epsilon, 1)

    def worst(draws):
        pairs = [(accepted[:, j], draws[:, j]) for j in range(5)]
        pairs.append((accepted[:, 2] * accepted[:, 4], draws[:, 2] * draws[:, 4]))
        pairs.append((accepted[:, 0] ** 2 + accepted[:, 1], draws[:, 0] ** 2 + draws[:, 1]))
        return min(stats.ks_2samp(one, other).pvalue for one, other in pairs)

    assert worst(drawn) > 1e-3
    # Broken twins: the Jacobian forgotten, and the posterior at ε = 0.
    slope = 1.0 + 0.3 * drawn[:, 2]
    without = np.random.default_rng(2).choice(len(drawn), len(drawn), p=slope / slope.sum())
    assert worst(drawn[without]) < 1e-5
    assert worst(known.draws(30_000, 0.0, 1)) < 1e-5


def banana_marginal(j):
    """Distribution function of θ1, θ3 or θ4 in the true posterior, on a fine grid."""
    t = np.linspace(-3, 3, 6001)
    if j == 0:
        m = 1.2 - t**2
        p = stats.norm.pdf(0.5, t, 0.5) * (ndtr((3 - m) / 0.3) - ndtr((-3 - m) / 0.3))
    elif j == 2:
        s = 1 + 0.3 * t
        inner = ndtr((3 * s - 0.3) / 0.5) - ndtr((-3 * s - 0.3) / 0.5)
        p = stats.norm.pdf(0.5, t, 0.5) * inner / s
    else:
        p = stats.norm.pdf(0.6, np.sin(2 * t), 0.3)
    c = np.concatenate([[0.0], np.cumsum(p[1:] + p[:-1])])
    return lambda v: np.interp(v, t, c / c[-1])


def test_banana_draws_have_the_posterior_s_margins():
    drawn = truth.BananaTruth().draws(40_000, 0.0, 6)
    for j in (0, 2, 3):
        assert stats.kstest(drawn[:, j], banana_marginal(j)).pvalue > 1e-3
        assert stats.kstest(drawn[:, j] + 0.03, banana_marginal(j)).pvalue < 1e-4


def test_banana_density_is_normalised():
    # E[1(θ in A) / density(θ)] under the posterior is the volume of A.
    known = truth.BananaTruth()
    drawn = known.draws(100_000, 0.0, 7)
    lower, upper = np.array([0.1, 0.2, 0.1, 0.0, -0.1]), np.array([0.9, 1.2, 0.9, 1.5, 0.6])
    inside = ((drawn > lower) & (drawn < upper)).all(axis=1)
    values = np.where(inside, 1.0 / known.density(drawn), 0.0)
    volume = np.prod(upper - lower)
    assert z_of_mean(values, volume) < 4
    assert z_of_mean(values, 1.15 * volume) > 5
    assert known.density(np.full((1, 5), 3.5)) == 0.0


def test_banana_evidence_at_zero_tolerance_is_a_density():
    # P(d < ε) / volume tends to the marginal density of x at the observation.
    known = truth.BananaTruth()
    point = np.array([[0.5, 0.95, 0.5, 0.32, 0.26]])
    mean = np.array([0.5, 0.95 + 0.25 - 1, 0.5, math.sin(0.64), 0.26 * 1.15])
    joint = stats.norm.pdf(problems.banana().observed, mean, [0.5, 0.3, 0.5, 0.3, 0.5]).prod()
    marginal = joint / 6**5 / known.density(point)[0]
    volume = 8 * math.pi**2 / 15 * 0.02**5
    assert known.evidence(0.02) / volume / marginal == pytest.approx(1.0, rel=1e-3)


# The finite problem -----------------------------------------------------------------------------


def finite_rates_by_quadrature(sd, epsilon=1.0):
    node, weight = np.polynomial.legendre.leggauss(30)
    u = np.arange(100)[:, None] + (node + 1) / 2
    return (ndtr((50 + epsilon - u) / sd) - ndtr((50 - epsilon - u) / sd)) @ (weight / 2)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_finite_rates_equal_quadrature(epsilon):
    rates = truth.FiniteNormalTruth().rates(epsilon)
    np.testing.assert_allclose(rates, finite_rates_by_quadrature(math.sqrt(5), epsilon), atol=1e-14)
    np.testing.assert_allclose(rates, rates[::-1], rtol=1e-12)
    assert (rates > 0).all()


def test_finite_rates_keep_their_digits_in_the_tail():
    rate = truth.FiniteNormalTruth().rates()[0]
    density = quad(lambda u: stats.norm.pdf(49 - u, scale=math.sqrt(5)), 0, 1)[0]
    # Beyond ten standard deviations the mass is the density at the near end over its slope.
    assert 0.1 < rate / density < 1.0


def test_finite_truth_equals_simulation():
    n, known = 4000, truth.FiniteNormalTruth()
    arm = np.repeat(np.arange(1.0, 101.0), n)[:, None]
    share = (np.abs(simulators.finite_normal(arm, seeds_of(len(arm))) - 50) < 1).reshape(100, n)

    def p_value(rates):
        seen = rates > 2e-3
        excess = n * (share.mean(axis=1) - rates)[seen] ** 2 / (rates * (1 - rates))[seen]
        return stats.chi2.sf(excess.sum(), seen.sum())

    assert p_value(known.rates()) > 1e-3
    assert p_value(finite_rates_by_quadrature(5.0)) < 1e-9
    assert p_value(np.roll(known.rates(), 1)) < 1e-9
    assert known.masses().sum() == pytest.approx(1.0)
    assert known.evidence() == pytest.approx(0.02, abs=1e-12)


def test_finite_problem_gives_each_arm_a_hundredth_of_the_cube():
    problem = problems.finite_normal()
    cube = (np.arange(100)[:, None] + 0.37) / 100
    np.testing.assert_array_equal(problem.prior.from_cube(cube)[:, 0], np.arange(1, 101))


# Prey and predators -----------------------------------------------------------------------------

START = np.array([100.0, 50.0])


def jump(rates, times, n=20_000, max_events=10_000, start=START):
    theta = np.tile(np.asarray(rates, dtype=float), (n, 1))
    return simulators.jump_process(
        theta, seeds_of(n), np.asarray(start, float), np.asarray(times, float), max_events
    )


def test_jump_process_is_a_yule_process_when_only_prey_are_born():
    times = np.array([0.0, 0.5, 1.0])
    path = jump([0.7, 0, 0, 0], times)
    assert (path[:, 0] == START).all()
    for k in (1, 2):
        growth = math.exp(0.7 * times[k])
        x = path[:, k, 0]
        assert z_of_mean(x, 100 * growth) < 4
        assert z_of_variance(x, 100 * growth * (growth - 1)) < 4
        # Twin: the variance of independent Poisson births at the deterministic rate.
        assert z_of_variance(x, 100 * (growth - 1)) > 6
    assert (path[:, :, 1] == 50).all()


def test_jump_process_is_a_death_process_when_only_predators_die():
    path = jump([0, 0, 0, 0.4], [0.5, 2.0, 100.0])
    for k, t in ((0, 0.5), (1, 2.0)):
        p = math.exp(-0.4 * t)
        assert z_of_mean(path[:, k, 1], 50 * p) < 4
        assert z_of_variance(path[:, k, 1], 50 * p * (1 - p)) < 4
        assert z_of_variance(path[:, k, 1], 50 * p) > 6
    assert (path[:, 2, 1] == 0).all()
    assert (path[:, :, 0] == 100).all()


def test_jump_process_drifts_as_the_rates_say():
    rates, dt = np.array([0.8, 0.008, 0.005, 0.4]), 1e-3
    step = jump(rates, [dt], n=200_000)[:, 0] - START
    birth, eaten = rates[0] * 100, rates[1] * 5000
    growth, death = rates[2] * 5000, rates[3] * 50
    assert z_of_mean(step[:, 0], (birth - eaten) * dt) < 4
    assert z_of_mean(step[:, 1], (growth - death) * dt) < 4
    assert z_of_mean(step[:, 0] ** 2, (birth + eaten) * dt) < 4
    # Independent events: to first order no step changes both species.
    assert z_of_mean(step[:, 0] * step[:, 1] + 1e-9, 0.0) < 4
    # Twin: a predator born of each prey eaten, at rate θ2 x y.
    assert z_of_mean(step[:, 1], (eaten - death) * dt) > 4


def test_jump_process_holds_the_state_after_the_last_event():
    path = jump([0.7, 0, 0, 0], [0.0, 5.0, 9.0], n=50, max_events=30)
    assert (path[:, 1:, 0] == 130).all()
    still = jump([0, 0, 0, 0], [1.0, 2.0], n=5)
    assert (still == START).all()


def numpy_summaries(path):
    def of(series):
        c = series - series.mean()
        v = (c**2).sum()
        lags = [(c[k:] * c[:-k]).sum() / v if v > 0 else 0.0 for k in (1, 2)]
        return series.mean(), math.log(series.var() + 1), *lags

    x, y = of(path[:, 0]), of(path[:, 1])
    r = 0.0 if path.std(axis=0).min() == 0 else np.corrcoef(path.T)[0, 1]
    return [x[0], y[0], x[1], y[1], x[2], x[3], y[2], y[3], r]


def test_lotka_volterra_summaries_equal_numpy():
    theta = np.array(
        [[0.8, 0.008, 0.008, 0.4], [0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [0.01, 0, 0, 0]]
    )
    arguments = theta, seeds_of(4), predator_prey.START, predator_prey.TIMES, 10_000
    paths = simulators.jump_process(*arguments)
    expected = np.array([numpy_summaries(path) for path in paths])
    np.testing.assert_allclose(simulators.lotka_volterra(*arguments), expected, rtol=1e-10)


def test_lotka_volterra_distance_is_scaled_by_the_prior_s_deviations():
    problem = problems.lotka_volterra()
    theta = np.random.default_rng(0).random((50, 4))
    index = np.arange(50)
    done = problem.measurement.measured(problem.simulate(theta, index, 3), theta, index)
    by_hand = (done.summary - predator_prey.OBSERVED) / predator_prey.SCALE
    np.testing.assert_allclose(done.distance, np.linalg.norm(by_hand, axis=1), rtol=1e-12)


def reference(name):
    path = REFERENCE / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not shipped: ABCTREE_REFERENCE names the folder that holds it")
    return load_reference(path)


def z_against_reference(run, start):
    """Share of close simulations in the box around most of the reference, against its own."""
    epsilon, n = 0.84, 12_000
    lower, upper = np.quantile(run.theta, [0.1, 0.9], axis=0)
    inside = ((run.theta > lower) & (run.theta < upper)).all(axis=1) & (run.distance < epsilon)
    expected = inside.sum() / run.n_simulations / np.prod(upper - lower)
    theta = np.random.default_rng(0).uniform(lower, upper, (n, 4))
    s = simulators.lotka_volterra(theta, seeds_of(n), start, predator_prey.TIMES, 10_000)
    close = np.linalg.norm((s - run.observed_summary) / run.scale, axis=1) < epsilon
    # Both counts are random.
    error = math.sqrt(expected / n + expected**2 / inside.sum())
    return abs(close.mean() - expected) / error


def test_lotka_volterra_agrees_with_its_reference():
    run = reference("lotka_volterra")
    np.testing.assert_array_equal(run.observed_summary, predator_prey.OBSERVED)
    np.testing.assert_array_equal(run.scale, predator_prey.SCALE)
    np.testing.assert_array_equal(run.theta_true, predator_prey.THETA_TRUE)
    assert z_against_reference(run, predator_prey.START) < 4
    assert z_against_reference(run, predator_prey.START[::-1].copy()) > 5


# Stochastic volatility --------------------------------------------------------------------------


def test_heston_returns_are_normal_when_the_variance_has_no_noise():
    dt, mu, n = 1 / 252, 0.02, 40
    theta = np.tile([5.0, 0.1, 0.9, 0.3, 0.0], (n, 1))
    r = simulators.heston_returns(theta, seeds_of(n), 500, mu, dt)
    v = 0.1 + 0.8 * (1 - 5.0 * dt) ** np.arange(500)

    def p_value(variance):
        standard = (r - (mu - variance / 2) * dt) / np.sqrt(variance * dt)
        return stats.kstest(standard.ravel(), "norm").pvalue

    assert p_value(v) > 1e-3
    assert p_value(np.full(500, 0.9)) < 1e-9
    standard = (r - (mu - v / 2) * dt) / np.sqrt(v * dt)
    assert abs(np.corrcoef(standard[:, 1:].ravel(), standard[:, :-1].ravel())[0, 1]) < 0.03


def test_heston_mean_return_is_the_drift():
    dt, n = 1 / 4, 100_000
    theta = np.tile([1.0, 0.04, 0.04, 0.0, 0.0], (n, 1))
    r = simulators.heston_returns(theta, seeds_of(n), 1, 0.5, dt)[:, 0]
    assert z_of_mean(r, (0.5 - 0.02) * dt) < 4
    assert z_of_mean(r, 0.5 * dt) > 4


@pytest.mark.parametrize("rho", [-1.0, 0.5])
def test_heston_shocks_are_correlated_as_rho_says(rho):
    # To first order in dt, E[r_0 r_1²] = ρ σ ν0 dt² beside the drift's part.
    dt, n, sigma, nu0 = 1 / 252, 400_000, 1.0, 0.09
    theta = np.tile([0.0, 0.0, nu0, rho, sigma], (n, 1))
    r = simulators.heston_returns(theta, seeds_of(n), 2, nu0 / 2, dt)
    product = r[:, 0] * r[:, 1] ** 2
    assert z_of_mean(product, rho * sigma * nu0 * dt**2) < 4
    assert z_of_mean(product, 0.0) > 6


def test_heston_variance_shocks_have_size_sigma():
    # Var(v_1) = σ² ν0 dt whatever ρ is, so E[r_1^4] = 3 dt² (ν0² + σ² ν0 dt) with no drift.
    dt, n, nu0 = 1 / 4, 400_000, 0.4
    for rho in (0.0, 0.9):
        theta = np.tile([0.0, 0.0, nu0, rho, 0.5], (n, 1))
        r = simulators.heston_returns(theta, seeds_of(n), 2, 0.0, dt)[:, 1]
        v2 = nu0**2 + 0.25 * nu0 * dt
        v3 = nu0**3 + 3 * nu0 * 0.25 * nu0 * dt
        v4 = nu0**4 + 6 * nu0**2 * 0.25 * nu0 * dt + 3 * (0.25 * nu0 * dt) ** 2
        expected = 3 * v2 * dt**2 + 6 * v3 * dt * (dt / 2) ** 2 + v4 * (dt / 2) ** 4
        assert z_of_mean(r**4, expected) < 4
        assert z_of_mean(r**4, 3 * nu0**2 * dt**2) > 6


def test_heston_summaries_equal_numpy():
    theta = np.array([[3.0, 0.25, 0.25, -0.6, 0.5], [0.1, 0.01, 0.02, 0.9, 1.0]])
    arguments = theta, seeds_of(2), 2000, 0.02, 1 / 252
    rows = []
    for r in simulators.heston_returns(*arguments):
        s = r**2
        c = s - s.mean()
        lags = [(c[k:] * c[:-k]).sum() / (c**2).sum() for k in (1, 2)]
        rows.append(
            [r.mean(), s.mean(), np.log(r.std()), np.log(s.std()), *lags, np.corrcoef(r, s)[0, 1]]
        )
    np.testing.assert_allclose(simulators.heston(*arguments), rows, rtol=1e-9)


def test_heston_agrees_with_its_reference():
    run = reference("heston")
    np.testing.assert_array_equal(run.observed_summary, volatility.OBSERVED)
    np.testing.assert_array_equal(run.scale, volatility.SCALE)
    np.testing.assert_array_equal(run.theta_true, volatility.THETA_TRUE)
    assert run.names == problems.heston().names


def test_heston_scale_is_the_prior_s_deviation():
    n = 6000
    theta = problems.heston().prior.from_cube(np.random.default_rng(0).random((n, 5)))

    def worst(dt):
        s = simulators.heston(theta, seeds_of(n), 2000, 0.02, dt)
        parts = s.reshape(20, -1, 7).std(axis=1)
        error = parts.std(axis=0) / math.sqrt(20)
        return (np.abs(s.std(axis=0) - volatility.SCALE) / error).max()

    assert worst(1 / 252) < 4.5
    assert worst(1 / 365) > 8


# References -------------------------------------------------------------------------------------


def stored(tmp_path, **changes):
    data = {
        "theta": np.array([[2.0], [1.0], [3.0]]),
        "distance": np.array([0.2, 0.1, 0.3]),
        "n_simulations": 100,
        "names": np.array(["a"]),
        "observed_summary": np.zeros(2),
        "scale": np.ones(2),
        "theta_true": np.array([1.5]),
    }
    path = tmp_path / "run.npz"
    np.savez(path, **{k: v for k, v in (data | changes).items() if v is not None})
    return path


def test_reference_is_sorted_and_gives_evidence_as_a_share(tmp_path):
    run = load_reference(stored(tmp_path))
    assert run.closest(2).tolist() == [[1.0], [2.0]]
    assert run.evidence(0.2) == 0.01
    assert run.evidence(0.25) == 0.02
    with pytest.raises(ParameterError, match=r"`epsilon` must be at most 0\.3"):
        run.evidence(0.31)
    with pytest.raises(ParameterError, match="`n` must be between 0 and 3"):
        run.closest(4)


def test_reference_refuses_a_file_without_its_arrays(tmp_path):
    with pytest.raises(ParameterError, match="scale"):
        load_reference(stored(tmp_path, scale=None))


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_truth_refuses_a_bad_epsilon(epsilon):
    for known in (truth.GaussTruth(2), truth.GaussianMixtureTruth(2), truth.BananaTruth()):
        with pytest.raises(ParameterError, match="`epsilon`"):
            known.draws(1, epsilon)
    with pytest.raises(ParameterError, match="`epsilon`"):
        truth.FiniteNormalTruth().rates(epsilon)


@pytest.mark.parametrize(
    "known", [truth.GaussTruth(3), truth.GaussianMixtureTruth(3), truth.BananaTruth()]
)
def test_truth_draws_are_reproducible_and_counted(known):
    d = 5 if isinstance(known, truth.BananaTruth) else 3
    assert known.draws(0, 1.0, 0).shape == (0, d)
    np.testing.assert_array_equal(known.draws(7, 1.0, 5), known.draws(7, 1.0, 5))
    assert known.evidence(0.0) == 0.0
