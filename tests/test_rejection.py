"""`rejection`: the closest of a stream, in bounded memory, with the evidence of all of it."""

from __future__ import annotations

import dataclasses
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

import abctree
from abctree import problems
from abctree.baselines import rejection
from abctree.problems import truth

from .conftest import z_score


def posterior(result, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        return result.posterior(**kwargs)


def vectorized(theta, rng):
    return theta + rng.normal(size=theta.shape)


def plain_problem(simulator=vectorized, **kwargs):
    prior = kwargs.pop("prior", {"a": (-5.0, 5.0), "b": (-5.0, 5.0)})
    return abctree.Problem(prior, simulator, [1.0, -1.0], **{"vectorized": True, **kwargs})


def whole_steps(theta, rng):
    """Distances that tie."""
    return np.rint(theta + rng.normal(size=theta.shape))


# The law of the draws ---------------------------------------------------------------------------


def test_rejection_samples_the_epsilon_posterior():
    known = truth.GaussTruth(2)
    runs = [
        abctree.rejection(problems.gauss(2), n_simulations=20_000, keep=300, rng=seed)
        for seed in range(30)
    ]
    draws = [posterior(r) for r in runs]
    ratio = [d.cov()[0, 0] / known.sd(d.epsilon) ** 2 for d in draws]
    assert abs(z_score([d.mean()[0] for d in draws], 0.0)) < 3.5
    assert abs(z_score(ratio, 1.0)) < 3.5
    # At a fixed tolerance, below that of the kept draws.
    z = [r.evidence(1.0) for r in runs]
    assert abs(z_score([e.estimate for e in z], known.evidence(1.0))) < 3.5
    binomial = np.sqrt(known.evidence(1.0) / 20_000)
    assert np.mean([e.standard_error for e in z]) == pytest.approx(binomial, rel=0.05)
    assert np.std([e.estimate for e in z]) == pytest.approx(binomial, rel=0.5)
    assert np.mean([r.evidence().estimate for r in runs]) == pytest.approx(300 / 20_000)
    at_border = np.sqrt(0.015 * 0.985 / 20_000)
    assert runs[0].evidence().standard_error == pytest.approx(at_border, rel=1e-3)
    # The twins: the kept draws taken for all, and a tolerance that is half as large.
    forgetful = [dataclasses.replace(r, n_made=None).evidence(1.0).estimate for r in runs]
    assert z_score(forgetful, known.evidence(1.0)) > 20.0
    half = [d.cov()[0, 0] / known.sd(d.epsilon / 2.0) ** 2 for d in draws]
    assert z_score(half, 1.0) > 5.0


MIXED = {
    "a": stats.norm(0.0, 1.0),
    "n": abctree.Integers(0, 6),
    "k": abctree.Categorical([-1.0, 2.0], [0.7, 0.3]),
    "c": 0.5,
}


def test_rejection_is_exact_for_integers_lists_and_constraints():
    def simulate(theta, rng):
        a, n, k, c = theta.T
        return (a + n + k + c + rng.normal(size=len(theta)))[:, None]

    problem = abctree.Problem(
        MIXED, simulate, [2.0], vectorized=True, constraint=lambda t: t["a"] < t["n"] - 1.0
    )
    grid = np.linspace(-8.0, 8.0, 6401)
    density = stats.norm.pdf(grid) * (grid[1] - grid[0])
    prior = total = first = two = 0.0
    for n in range(7):
        for k, p in ((-1.0, 0.7), (2.0, 0.3)):
            allowed = density * (grid < n - 1.0) * p / 7.0
            mean = grid + n + k + 0.5
            near = allowed * (ndtr(2.8 - mean) - ndtr(1.2 - mean))
            prior += allowed.sum()
            total += near.sum()
            first += near @ grid
            two += near.sum() * (k == 2.0)
    runs = [
        abctree.rejection(problem, n_simulations=5000, keep=2500, rng=seed) for seed in range(20)
    ]
    draws = [posterior(r, epsilon=0.8) for r in runs]
    assert all((d.theta[:, 0] < d.theta[:, 1] - 1.0).all() for d in draws)
    assert abs(z_score([d.mean()[0] for d in draws], first / total)) < 3.5
    assert abs(z_score([(d.theta[:, 2] == 2.0).mean() for d in draws], two / total)) < 3.5
    z = [r.evidence(0.8).estimate for r in runs]
    assert abs(z_score(z, total / prior)) < 3.5
    # The twin: an evidence under the prior without its constraint.
    assert abs(z_score(z, total)) > 10.0


def test_rejection_of_a_density_prior_weighs_by_the_density():
    prior = abctree.DensityPrior(lambda t: -0.5 * (t[:, 0] / 0.5) ** 2, {"a": (-3.0, 3.0)})
    problem = abctree.Problem(prior, vectorized, [1.0], vectorized=True)
    runs = [abctree.rejection(problem, n_simulations=4000, keep=2000, rng=s) for s in range(15)]
    grid = np.linspace(-3.0, 3.0, 4001)
    near, weight = ndtr(1.4 - grid) - ndtr(0.6 - grid), np.exp(-2.0 * grid**2)
    means = [posterior(r, epsilon=0.4).mean()[0] for r in runs]
    assert abs(z_score(means, np.average(grid, weights=weight * near))) < 3.5
    assert abs(z_score(means, np.average(grid, weights=near))) > 5.0  # the twin: a flat prior
    z = [r.evidence(0.4).estimate for r in runs]
    assert abs(z_score(z, np.average(near, weights=weight))) < 3.5


class Recorder:
    """A simulator that cannot simulate where a is negative, and keeps what it is asked for."""

    def __init__(self):
        self.seen = []

    def __call__(self, theta, rng):
        self.seen.append(theta[:, 0].copy())
        with np.errstate(invalid="ignore"):
            return np.sqrt(theta) + rng.standard_normal(theta.shape)


def on_half_of_its_box(recorder):
    prior = abctree.DensityPrior(
        lambda t: np.where(t[:, 0] > 0.0, -t[:, 0], -np.inf), {"a": (-3.0, 3.0)}
    )
    return abctree.Problem(prior, recorder, [1.0], vectorized=True)


def test_rejection_simulates_only_where_the_prior_has_density():
    recorder = Recorder()
    runs = [
        abctree.rejection(on_half_of_its_box(recorder), n_simulations=10_000, rng=seed)
        for seed in range(15)
    ]
    assert np.concatenate(recorder.seen).min() > 0.0
    assert all(len(r.failures) == 0 for r in runs)
    grid = (np.arange(4000) + 0.5) * 3.0 / 4000
    near, weight = ndtr(1.4 - np.sqrt(grid)) - ndtr(0.6 - np.sqrt(grid)), np.exp(-grid)
    z = [r.evidence(0.4).estimate for r in runs]
    assert abs(z_score(z, np.average(near, weights=weight))) < 3.5
    assert np.std(z) / np.sqrt(15) < 0.02 * np.mean(z)
    means = [posterior(r, epsilon=0.4).mean()[0] for r in runs]
    assert abs(z_score(means, np.average(grid, weights=weight * near))) < 3.5
    # The twin: refused points are not counted.
    counted = [r.table.proposal[0] for r in runs]
    assert abs(z_score(np.array(z) * counted, np.average(near, weights=weight))) > 10.0


def test_draws_without_a_look_at_the_density_would_be_noticed(monkeypatch):
    draw = rejection.draw_points

    def plain(problem, proposal, n, rng):
        cube = rng.random((n, problem.d))
        theta = problem.prior.from_cube(cube)
        return draw(problem, proposal, n, rng)._replace(cube=cube, theta=theta)

    monkeypatch.setattr(rejection, "draw_points", plain)
    recorder = Recorder()
    abctree.rejection(on_half_of_its_box(recorder), n_simulations=1000, rng=1)
    assert np.concatenate(recorder.seen).min() < 0.0


# What is kept -----------------------------------------------------------------------------------


@settings(max_examples=15)
@given(keep=st.integers(1, 700), chunk=st.integers(1, 400), ties=st.booleans())
def test_rejection_keeps_the_closest_whatever_the_chunk(keep, chunk, ties):
    p = plain_problem(whole_steps if ties else vectorized, batch_size=50)
    everything = abctree.rejection(p, n_simulations=600, rng=7)
    result = abctree.rejection(p, n_simulations=600, keep=keep, chunk=chunk, rng=7)
    order = np.sort(np.argsort(everything.table.distance, kind="stable")[:keep])
    for column in ("theta", "cube", "distance", "summary", "round"):
        np.testing.assert_array_equal(
            getattr(result.table, column), getattr(everything.table, column)[order], column
        )
    # What can be read at all is what the whole table says, ties at the border included.
    border = min(result.rounds[1].epsilon, 1e9)
    for epsilon in (border, 0.7 * border, float(np.median(result.table.distance)) + 1e-9):
        if epsilon <= border:
            mine, all_of_it = result.evidence(epsilon), everything.evidence(epsilon)
            assert mine.estimate == pytest.approx(all_of_it.estimate, rel=1e-12)
            assert mine.n_simulations == all_of_it.n_simulations == 600
            if not ties:
                assert mine.standard_error == pytest.approx(all_of_it.standard_error, rel=1e-9)
    assert len(posterior(result)) == min(keep, 600)


def rows_of(distance, first=0):
    n = len(distance)
    index = np.arange(first, first + n)
    near, none = np.asarray(distance, float), np.empty((n, 0))
    return rejection.KeptRows(index, index[:, None] / 1e3, index[:, None] / 1e3, near, none)


def test_ties_at_the_border_keep_the_first_and_stand_for_all():
    closest = rejection.Closest(3)
    closest.add(rows_of([2.0, 0.0, 1.0, 1.0]))
    closest.add(rows_of([1.0, np.inf, 1.0, 0.0], first=4))
    rows, stands_for, border = closest.finish()
    assert rows.index.tolist() == [1, 2, 7]
    assert stands_for.tolist() == [1.0, 4.0, 1.0]
    assert border == np.nextafter(1.0, 2.0)


def test_ties_of_everything_at_zero_are_a_posterior_with_an_evidence():
    p = abctree.Problem({"a": (0.0, 1.0)}, lambda theta, rng: (rng.random(len(theta)) < theta[:, 0])
                        * 1.0, 1.0, vectorized=True)  # fmt: skip
    result = abctree.rejection(p, n_simulations=8000, keep=500, rng=0)
    assert (result.table.distance == 0.0).all()
    assert len(posterior(result)) == 500
    assert result.evidence().estimate == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(8000))
    mean = posterior(result).mean()[0]
    assert mean == pytest.approx(2.0 / 3.0, abs=4.0 / np.sqrt(18 * 500))


def test_rejection_above_what_was_kept_is_an_error():
    result = abctree.rejection(plain_problem(), n_simulations=2000, keep=50, rng=0)
    border = result.rounds[1].epsilon
    assert result.epsilon == border > result.table.distance.max()
    for read in (result.posterior, result.evidence, result.summary):
        with pytest.raises(abctree.ParameterError, match="larger `keep`"):
            read(2.0 * border)
    with pytest.warns(abctree.AbctreeWarning, match="reaches 50"):
        result.posterior(ess=100)
    assert posterior(result, ess=20).epsilon < border


def test_rejection_keeps_all_by_default_and_less_of_very_many(monkeypatch):
    p = plain_problem(lambda theta, rng: np.where(theta > 0, np.nan, vectorized(theta, rng)))
    result = abctree.rejection(p, n_simulations=1000, rng=0)
    assert len(result.table) == result.n_simulations == 1000
    assert result.n_made is None
    assert result.failures.count == np.isinf(result.table.distance).sum() > 500
    assert result.evidence(np.inf).estimate == pytest.approx(1.0 - result.failures.count / 1000)
    monkeypatch.setattr("abctree.running.settings._KEEP_ALL", 500)
    monkeypatch.setattr("abctree.running.settings._KEEP", 120)
    many = abctree.rejection(p, n_simulations=1000, rng=0)
    assert len(many.table) == 120
    assert len(posterior(many)) < 120  # the default effective sample size, not all that is kept
    assert many.failures.count == result.failures.count
    assert "share of failures" in str(result.summary())
    assert "share of failures" not in str(many.summary())  # its table does not hold them


@pytest.mark.slow
def test_rejection_needs_no_memory_for_what_it_drops():
    def peak(**kwargs):
        tracemalloc.start()
        try:
            abctree.rejection(problems.gaussian_mixture(2), rng=0, chunk=16_384, **kwargs)
            return tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()

    peak(n_simulations=20_000, keep=1000)  # compiles
    short = peak(n_simulations=100_000, keep=1000)
    long = peak(n_simulations=2_000_000, keep=1000)
    assert long < 1.2 * short + 1.0
    assert long < 16.0
    # The twin: everything kept.
    assert peak(n_simulations=400_000) > 30.0


# Budgets, order and small numbers ---------------------------------------------------------------


@pytest.mark.parametrize("mode", [False, True, "seeds"])
@pytest.mark.parametrize("n", [1, 2, 99, 1234])
def test_rejection_spends_its_budget_exactly(mode, n):
    made = []

    def simulate(theta, source):
        made.append(1 if mode is False else len(theta))
        return theta

    p = plain_problem(simulate, vectorized=mode)
    result = abctree.rejection(p, n_simulations=n, keep=5, rng=0)
    assert sum(made) == n == result.n_simulations
    assert result.stopped_because == f"budget of {n} simulations spent"
    assert len(result.table) == min(5, n)
    assert posterior(result).n_simulations == n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        assert f"{n} simulations" in str(result.summary())


@pytest.mark.parametrize("constraint", [None, lambda t: t["a"] < t["b"]])
def test_rejection_does_not_depend_on_chunks_or_look_ahead(constraint):
    p = plain_problem(batch_size=64, constraint=constraint)
    first = abctree.rejection(p, n_simulations=3000, keep=400, rng=3)
    for other in (
        abctree.rejection(p, n_simulations=3000, keep=400, rng=np.random.default_rng(3)),
        abctree.rejection(p, n_simulations=3000, keep=400, rng=3, chunk=1),
        abctree.rejection(p, n_simulations=3000, keep=400, rng=3, chunk=1000, lookahead=3),
        abctree.rejection(p, n_simulations=3000, keep=400, rng=3, executor=abctree.Serial(7)),
    ):
        for column in ("theta", "distance", "proposal", "denominator"):
            np.testing.assert_array_equal(
                getattr(other.table, column), getattr(first.table, column)
            )
    other = abctree.rejection(p, n_simulations=3000, keep=400, rng=4)
    assert (other.table.theta != first.table.theta).any()


def test_rejection_draws_are_the_prior_and_differ_between_segments():
    result = abctree.rejection(plain_problem(), n_simulations=40_000, rng=5)
    u = result.table.cube
    assert len(np.unique(u[:, 0])) == 40_000
    for j in range(2):
        assert stats.kstest(u[:, j], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 4.0 / np.sqrt(40_000)
    assert result.mixture_ratio(result.table.theta[:5]) == pytest.approx(1.0)


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_rejection_result_reads_with_few_draws(reached):
    def simulate(theta, rng):
        return theta if len(made) < reached else np.full(2, np.nan)

    made = []

    def few(theta, rng):
        value = simulate(theta, rng)
        made.append(0)
        return value

    p = plain_problem(few, vectorized=False)
    result = abctree.rejection(p, n_simulations=60, keep=10, rng=0)
    d = posterior(result)
    assert len(d) == len(result.table) == reached
    assert np.isnan(d.mean()).all() == (reached == 0)
    assert d.std().shape == (2,)
    assert result.evidence(9.0).estimate == pytest.approx(reached / 60)
    assert any("Nothing was accepted" in w for w in result.warnings) == (reached == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        assert str(result.summary())


def test_rejection_stops_for_a_reason_and_tells_of_each_chunk():
    told = []
    p = plain_problem(batch_size=100)
    result = abctree.rejection(
        p, n_simulations=50_000, keep=50, rng=0, chunk=1000, stop={"epsilon": 0.5},
        progress=told.append,
    )  # fmt: skip
    assert "epsilon" in result.stopped_because
    assert posterior(result).distance.max() <= 0.5
    assert told[-1].n_simulations == result.n_simulations < 50_000
    assert told[-1].epsilon <= 0.5 < told[-2].epsilon
    # The evidence is that of what was made.
    exact = 2.0 * np.pi * 0.125 / 100.0 * 1.0
    z = result.evidence(0.4)
    assert z.estimate == pytest.approx(exact * 0.16 / 0.25, abs=4.0 * z.standard_error)
    quick = abctree.rejection(p, n_simulations=10**8, keep=50, rng=0, stop={"seconds": 0.2})
    assert "seconds" in quick.stopped_because
    assert quick.n_simulations < 10**8
    with pytest.raises(abctree.ParameterError, match="rejection has none"):
        abctree.rejection(p, n_simulations=100, stop={"rounds": 3})


@pytest.mark.parametrize(("vectorized", "n_chunks"), [(False, 100), ("seeds", 10)])
def test_rejection_of_a_vectorised_simulator_has_larger_chunks(vectorized, n_chunks):
    told = []
    p = abctree.Problem({"a": (0.0, 1.0)}, lambda theta, _: theta, [0.5], vectorized=vectorized)
    abctree.rejection(p, n_simulations=1000, keep=10, rng=0, progress=told.append)
    assert len({now.n_simulations for now in told if now.round}) == n_chunks * 9 // 10


def test_rejection_interrupted_is_a_shorter_run():
    calls = 0

    def interrupts(theta, rng):
        nonlocal calls
        calls += len(theta)
        if calls > 2000:
            raise KeyboardInterrupt
        return vectorized(theta, rng)

    p = plain_problem(interrupts, batch_size=100)
    result = abctree.rejection(p, n_simulations=9000, keep=100, rng=0, chunk=500)
    assert result.stopped_because == "interrupted"
    assert 500 <= result.n_simulations <= 2000
    assert len(posterior(result)) == 100


def test_rejection_ends_early_when_everything_fails():
    p = plain_problem(lambda theta, rng: np.full(theta.shape, np.nan))
    result = abctree.rejection(p, n_simulations=10**7, rng=0)
    assert "failed" in result.stopped_because
    assert result.n_simulations == result.failures.count < 10**6
    with pytest.raises(abctree.SimulatorError, match="failed at a="):
        abctree.rejection(p, n_simulations=1000, rng=0, on_failure="raise")
    with pytest.raises(abctree.SimulatorError, match=r"problem\.check"):
        abctree.rejection(plain_problem(lambda theta, rng: theta[:, :1]), n_simulations=1000)


def test_rejection_scales_a_distance_and_keeps_summaries_for_an_adjustment():
    p = plain_problem(lambda theta, rng: vectorized(theta, rng) * [1.0, 1e6], distance="mad",
                      prior={"a": stats.norm(0, 2), "b": stats.norm(0, 2)})  # fmt: skip
    result = abctree.rejection(p, n_simulations=5000, keep=1000, rng=0)
    assert not result.problem.needs_pilot
    d = posterior(result)
    adjusted = d.adjusted()
    assert d.std()[0] > 1.1 * adjusted.std()[0]
    assert adjusted.std()[0] == pytest.approx(np.sqrt(0.8), rel=0.1)
    without = abctree.rejection(p, n_simulations=500, rng=0, keep_summaries=False)
    assert without.table.summary.shape == (500, 0)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_simulations": 0}, "`n_simulations` must be a whole number of at least 1"),
        ({"keep": 0}, "`keep` must be a whole number of at least 1"),
        ({"keep": True}, "`keep` must be a whole number"),
        ({"chunk": 1.5}, "`chunk` must be a whole number"),
        ({"lookahead": -1}, "`lookahead` must be a whole number of at least 0"),
    ],
)
def test_rejection_refuses_bad_settings(bad, message):
    with pytest.raises(abctree.ParameterError, match=message):
        abctree.rejection(plain_problem(), **{"n_simulations": 100, **bad})
    with pytest.raises(abctree.ParameterError, match="`problem` must be"):
        abctree.rejection("problem", n_simulations=100)
    with pytest.raises(abctree.ParameterError, match="cuts boxes"):
        abctree.rejection(plain_problem(), n_simulations=100, rng=0).histogram()


@pytest.mark.heavy
def test_rejection_makes_a_hundred_million_simulations():
    known = truth.GaussianMixtureTruth(2)
    result = abctree.rejection(problems.gaussian_mixture(2), n_simulations=10**8, keep=1000, rng=0)
    epsilon = result.epsilon
    share = 1000 / result.n_simulations
    assert share == pytest.approx(known.evidence(epsilon), rel=4.0 / np.sqrt(1000))
    draws = posterior(result).theta
    narrow = known.in_narrow_mode(draws).mean()
    assert narrow == pytest.approx(known.mode_mass(epsilon), abs=4.0 * np.sqrt(0.21 / 1000))
