"""The sbibm tasks: simulators against moments and closed forms, smoothing, and the batched C2ST."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.special import expit

from abctree.answers import Posterior
from benchmarks.c2st import c2st
from benchmarks.sbibm import methods, scoring, smoothing, tables, tasks
from benchmarks.sbibm.odes import lotka_volterra_curves, sir_infected

#: The observations and reference draws of sbibm, which are no part of the repository.
DATA = Path(os.environ.get("ABCTREE_SBIBM", "no-such-folder"))
needs_data = pytest.mark.skipif(
    not DATA.exists(), reason="ABCTREE_SBIBM does not name the folder of sbibm's observations"
)
N = 20_000


def deviations(values, expected):
    """Standard errors by which the means of columns differ from what they should be."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.abs(values.mean(axis=0) - expected) / error


def test_two_moons_has_the_moments_of_a_half_moon_around_the_shifted_point():
    theta = np.tile([0.3, -0.7], (N, 1))
    x = tasks.two_moons(theta, np.random.default_rng(0))
    away = x - [0.25 - 0.4 / np.sqrt(2.0), -1.0 / np.sqrt(2.0)]
    found = np.column_stack([away, away[:, 1] ** 2])
    expected = [0.1 * 2.0 / np.pi, 0.0, (0.1**2 + 0.01**2) / 2.0]
    assert (deviations(found, expected) < 4.0).all()
    # A whole moon, the mistake of an angle in (-π, π), is told apart.
    angle = np.random.default_rng(1).uniform(-np.pi, np.pi, N)
    assert deviations((0.1 * np.cos(angle))[:, None], expected[:1])[0] > 20.0
    assert np.allclose(np.hypot(*away.T).mean(), 0.1, atol=0.001)


def test_slcp_draws_four_pairs_of_the_stated_covariance():
    theta = np.tile([0.5, -1.0, 1.2, -0.9, 0.7], (N, 1))
    x = tasks.slcp(theta, np.random.default_rng(0)).reshape(N, 4, 2) - [0.5, -1.0]
    first, second, rho = 1.2**2, 0.9**2, np.tanh(0.7)
    expected = [first**2 + 1e-6, second**2 + 1e-6, rho * first * second]
    for k in range(4):
        a, b = x[:, k, 0], x[:, k, 1]
        found = np.column_stack([a * a, b * b, a * b])
        assert (deviations(found, expected) < 4.0).all()
        assert deviations(found[:, 2:], 0.7 * first * second)[0] > 8.0  # ρ without the tanh
    assert abs(np.corrcoef(x[:, 0, 0], x[:, 1, 0])[0, 1]) < 0.03


def test_gaussian_simulators_have_the_stated_variances():
    theta = np.tile([1.0, -2.0], (N, 1))
    linear = tasks.gaussian_linear(theta, np.random.default_rng(0)) - theta
    assert (deviations(linear**2, 0.1) < 4.0).all()
    assert (deviations(linear**2, 0.01) > 50.0).all()  # .1 read as a standard deviation
    mixed = tasks.gaussian_mixture(theta, np.random.default_rng(1)) - theta
    assert (deviations(mixed**2, 0.505) < 4.0).all()
    assert (deviations(mixed**4, 1.5 * (1.0 + 1e-4)) < 4.0).all()
    # One component for both coordinates: squares are dependent.
    product = (mixed[:, :1] * mixed[:, 1:]) ** 2
    assert deviations(product, 0.5 * (1.0 + 1e-4))[0] < 4.0
    assert deviations(product, 0.505**2)[0] > 8.0


def test_spikes_have_logistic_rates_and_their_statistics_are_sums_of_the_design():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(100), rng.normal(size=(100, 9))])
    theta = np.tile(0.4 * rng.normal(size=10), (N, 1))
    bits = tasks.Spikes(design, raw=True)(theta, np.random.default_rng(1))
    assert set(np.unique(bits)) == {0.0, 1.0}
    expected = expit(design @ theta[0])
    assert (deviations(bits, expected) < 4.5).all()
    assert (deviations(bits, stats.norm.cdf(design @ theta[0])) > 8.0).any()
    sums = tasks.Spikes(design)(theta, np.random.default_rng(1))
    assert np.allclose(sums, bits @ design)


def test_glm_prior_penalises_second_differences():
    precision = np.linalg.inv(tasks.glm_covariance())
    f = np.random.default_rng(0).normal(size=9)
    first = f - np.r_[0.0, f[:-1]]
    second = first - np.r_[0.0, first[:-1]] + np.sqrt(np.arange(9) / 9.0) * f
    assert f @ precision[1:, 1:] @ f == pytest.approx(second @ second)
    assert precision[0, 0] == pytest.approx(0.5)
    assert np.allclose(precision[0, 1:], 0.0)


def test_distractors_are_a_mixture_of_t_in_the_stated_order():
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(2, 92, 92)) / 10.0) + np.eye(92)
    location = np.stack([np.full(92, -1.0), np.full(92, 2.0)])
    simulate = tasks.Distractors(
        np.random.default_rng(1).permutation(100),
        np.array([0.25, 0.75]),
        location,
        np.array([9.0, 9.0]),
        root,
    )
    noise = simulate.noise(N, np.random.default_rng(2))
    assert (deviations(noise, 1.25) < 4.5).all()
    spread = 9.0 / 7.0 * np.einsum("kab,kab->ka", root, root)
    second = 0.25 * (spread[0] + 1.0) + 0.75 * (spread[1] + 4.0)
    assert (deviations(noise**2, second) < 4.5).all()
    assert (deviations(noise**2, second - 2.0 / 9.0 * spread.mean(axis=0)) > 4.5).any()  # normal
    theta = np.tile([0.5, -1.0, 0.01, 0.01, 0.0], (5, 1))
    data = np.empty((5, 100))
    data[:, simulate.order] = simulate(theta, np.random.default_rng(3))
    assert np.allclose(data[:, :8], np.tile([0.5, -1.0], 4), atol=0.05)


def test_sir_curve_is_that_of_the_equation_and_tests_are_binomial():
    theta = np.array([[0.61, 0.19], [1.8, 0.1], [0.15, 0.2]])
    curves = sir_infected(theta, 10, 17)
    for (b, g), curve in zip(theta, curves, strict=True):
        exact = solve_ivp(
            lambda _, y, b=b, g=g: [-b * y[0] * y[1], b * y[0] * y[1] - g * y[1]],
            (0.0, 153.0), [1.0 - 1e-6, 1e-6], t_eval=17.0 * np.arange(10), rtol=1e-10, atol=1e-14,
        )  # fmt: skip
        assert np.abs(curve - exact.y[1]).max() < 5e-5
    tests = tasks.sir(np.tile(theta[:1], (N, 1)), np.random.default_rng(0))[:, 1:4]
    rate = curves[0, 1:4]
    assert (deviations(tests, 1000.0 * rate) < 4.0).all()
    spread = (tests - 1000.0 * rate) ** 2
    assert (deviations(spread, 1000.0 * rate * (1.0 - rate)) < 4.0).all()
    assert deviations(spread, 1000.0 * rate)[1] > 4.0  # Poisson


def test_lotka_volterra_curve_is_that_of_the_equation_and_noise_is_on_the_logarithm():
    rng = np.random.default_rng(0)
    theta = np.exp([-0.125, -3.0, -0.125, -3.0] + 0.5 * rng.standard_normal((12, 4)))
    curves = lotka_volterra_curves(theta, 10, 2.1)
    for (a, b, c, d), curve in zip(theta, curves, strict=True):
        exact = solve_ivp(
            lambda _, y, a=a, b=b, c=c, d=d: [y[0] * (a - b * y[1]), y[1] * (d * y[0] - c)],
            (0.0, 19.0), [30.0, 1.0], t_eval=2.1 * np.arange(10), rtol=1e-10, atol=1e-13,
            method="LSODA",
        ).y.ravel()  # fmt: skip
        seen = exact > 1e-6
        assert np.abs(np.log(curve[seen] / exact[seen])).max() < 1e-3
    counts = tasks.lotka_volterra(np.tile(theta[:1], (N, 1)), np.random.default_rng(1))
    noise = np.log(counts) - np.log(np.clip(curves[0], 1e-10, 1e4))
    assert (deviations(noise, 0.0) < 4.5).all()
    assert (deviations(noise**2, 0.01) < 4.5).all()
    assert (deviations(noise**2, 0.0121) > 4.5).all()


def test_log_task_compares_logarithms():
    observed = np.full(20, 3.0)
    problem = tasks.make_problem("lotka_volterra_log", observed, tasks.lotka_volterra)
    assert np.allclose(problem.observed_summary, np.log(3.0))
    plain = tasks.make_problem("lotka_volterra", observed, tasks.lotka_volterra)
    assert np.allclose(plain.observed_summary, 3.0)
    assert problem.prior.from_cube(np.full((1, 4), 0.5))[0] == pytest.approx(
        np.exp([-0.125, -3.0, -0.125, -3.0])
    )


@needs_data
@pytest.mark.parametrize("name", list(tasks.TASKS))
def test_task_simulates_what_was_observed(name):
    task = tasks.Task.load(name, DATA)
    problem = task.problem(3)
    theta = problem.prior.from_cube(np.random.default_rng(0).random((50, problem.d)))
    assert theta.shape == (50, tasks.TASKS[name])
    data = task.simulator(theta, np.random.default_rng(1))
    assert data.shape == (50, task.observations.shape[1])
    assert tasks.references(name, DATA).shape == (10, 10_000, tasks.TASKS[name])
    # Of the tasks with many data their true parameters make ones much nearer than the prior does.
    truth = np.tile(task.true_parameters[3], (50, 1))
    near = problem.distance(problem_summary(problem, task, truth), problem.observed_summary)
    far = problem.distance(problem_summary(problem, task, theta), problem.observed_summary)
    if name != "slcp_distractors":  # whose noise hides it
        assert np.median(near) < np.median(far)


def problem_summary(problem, task, theta):
    data = task.simulator(theta, np.random.default_rng(2))
    return data if problem.model.summary is None else problem.model.summary(data)


@needs_data
def test_tasks_with_more_data_hold_those_with_less():
    bits = tasks.Task.load("bernoulli_glm_raw", DATA)
    sums = tasks.Task.load("bernoulli_glm", DATA)
    assert np.allclose(bits.observations @ sums.simulator.design, sums.observations, atol=1e-3)
    more, less = tasks.Task.load("slcp_distractors", DATA), tasks.Task.load("slcp", DATA)
    data = np.empty_like(more.observations)
    data[:, more.simulator.order] = more.observations
    assert np.allclose(data[:, :8], less.observations)


# Smoothing --------------------------------------------------------------------------------------


def posterior_of(theta, weight=None, bounds=None):
    theta = np.asarray(theta, dtype=float)
    weight = np.ones(len(theta)) if weight is None else weight
    names = tuple(f"t{j}" for j in range(theta.shape[1]))
    return Posterior(
        theta=theta, log_weights=np.log(weight), distance=np.zeros(len(theta)), epsilon=1.0,
        names=names, n_simulations=len(theta), bounds=bounds,
    )  # fmt: skip


def test_published_kde_takes_the_bandwidth_that_cross_validation_takes():
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KernelDensity

    rng = np.random.default_rng(0)
    points = rng.standard_normal((150, 2)) * [1.0, 0.3]
    grid = np.linspace(0.1, 0.5, 20) * points.std()
    search = GridSearchCV(KernelDensity(kernel="gaussian"), {"bandwidth": grid}, cv=20)
    wanted = search.fit(points).best_params_["bandwidth"]
    draws = smoothing.published_kde(points, 200_000, rng)
    found = np.sqrt(draws.var(axis=0) - points.var(axis=0))
    assert found == pytest.approx([wanted, wanted], rel=0.25)
    assert wanted < 0.8 * grid[-1]


def test_smooth_draws_keep_the_mean_and_the_variances():
    rng = np.random.default_rng(0)
    normal = rng.multivariate_normal([3.0, -1.0], [[1.0, 0.9], [0.9, 1.0]], size=400)
    posterior = posterior_of(normal, rng.uniform(0.2, 2.0, 400))
    draws, h = smoothing.smooth_draws(posterior, 100_000, rng)
    # What looks normal becomes a normal law with the covariance of the draws.
    assert h > 0.8
    assert draws.mean(axis=0) == pytest.approx(posterior.mean(), abs=0.02)
    assert np.cov(draws.T) == pytest.approx(posterior.cov(), abs=0.03)
    assert abs(posterior.cov()[0, 1]) > 0.5
    skew = posterior_of(np.exp(normal), rng.uniform(0.2, 2.0, 400))
    draws, h = smoothing.smooth_draws(skew, 100_000, rng)
    assert 0.05 < h < 0.6
    assert draws.var(axis=0) == pytest.approx(np.diag(skew.cov()), rel=0.05)


def test_smooth_draws_stay_in_bounds_and_two_modes_stay_apart(monkeypatch):
    rng = np.random.default_rng(0)
    side = np.where(rng.random(500) < 0.5, -0.9, 0.9)
    theta = np.column_stack([side, -side]) + 0.03 * rng.standard_normal((500, 2))
    posterior = posterior_of(theta, bounds=np.tile([-1.0, 1.0], (2, 1)))
    draws, _ = smoothing.smooth_draws(posterior, 5_000, rng)
    assert (np.abs(draws) < 1.0).all()
    between = np.mean(np.abs(draws) < 0.6, axis=0)
    assert (between < 0.01).all()
    # So do those of the product; its rule of thumb for all draws, as of a normal law, fills it.
    thumb = posterior.sample(5_000, rng, smooth=True)
    assert (np.mean(np.abs(thumb) < 0.6, axis=0) < 0.01).all()
    monkeypatch.setattr("abctree.answers.posterior.modes", lambda *_: None)
    thumb = posterior.sample(5_000, rng, smooth=True)
    assert (np.mean(np.abs(thumb) < 0.6, axis=0) > 0.1).all()
    # The published one leaves the prior.
    assert (np.abs(smoothing.published_kde(theta, 5_000, rng)) > 1.0).any()


# Methods ----------------------------------------------------------------------------------------


def small_problem():
    return tasks.make_problem("gaussian_mixture", np.array([1.0, -2.0]), tasks.gaussian_mixture)


def test_every_row_gives_draws_that_are_near_the_observation(monkeypatch):
    monkeypatch.setattr(methods, "_MANY", 1)
    rng = np.random.default_rng(0)
    found = []
    makers = (
        methods._rejection_rows,
        methods._published_smc,
        methods._smc_row,
        methods._tree_rows,
        methods._answer_row,
    )
    for make in makers:
        found += methods._guarded(make, small_problem(), 2_000, 300, rng)
    assert {row.row for row in found} == set(methods.ROWS)
    for row in found:
        assert row.draws is not None, row.about
        assert row.draws.shape == (300, 2)
        assert row.draws.dtype == np.float32
        # The prior has a mean of 0 and a standard deviation of 5.8.
        assert np.abs(row.draws.mean(axis=0) - [1.0, -2.0]).max() < 0.6
        assert row.draws.std() < 3.0


def test_row_that_fails_is_recorded_and_the_others_go_on():
    def make(problem, budget, n, rng):
        yield "bad", lambda: (_ for _ in ()).throw(RuntimeError("no luck"))
        yield "nan", lambda: (np.full((n, 1), np.nan), {})
        yield "good", lambda: (np.zeros((n, 1)), {"ess": 1.0})
        raise ValueError("the run broke")

    found = methods._guarded(make, small_problem(), 10, 3, np.random.default_rng(0))
    assert [row.draws is None for row in found] == [True, True, False, True]
    assert "no luck" in found[0].about["error"]
    assert "the run broke" in found[3].about["error"]


def test_regression_is_left_out_where_it_would_add_noise_alone():
    rng = np.random.default_rng(0)
    summary = rng.normal(size=(800, 2)) * 0.01
    side = np.where(rng.random(800) < 0.5, -1.0, 1.0)

    def posterior(theta):
        names = tuple(f"t{j}" for j in range(theta.shape[1]))
        return Posterior(
            theta=theta, log_weights=np.zeros(800), distance=np.hypot(*summary.T), epsilon=0.04,
            names=names, n_simulations=800, summary=summary, observed=np.zeros(2),
        )  # fmt: skip

    far = posterior(side[:, None] * np.ones(2) + summary)
    assert methods.is_noise(far, far.adjusted())
    near = posterior(np.column_stack([side, 0.02 * rng.normal(size=800) + summary[:, 0]]))
    assert not methods.is_noise(near, near.adjusted())


def test_last_particles_fill_up_from_the_population_before():
    import abctree

    run = abctree.smc(small_problem(), n_simulations=1_000, n_particles=50, rng=1)
    theta = methods._last_particles(run, 50)
    assert theta.shape == (50, 2)
    last = run.rounds[-1]
    rows = run.table.theta[last.first : last.last]
    accepted = rows[run.table.distance[last.first : last.last] < last.epsilon]
    assert 0 < len(accepted) <= 50
    assert np.array_equal(theta[: len(accepted)], accepted)


# C2ST -------------------------------------------------------------------------------------------


def three_pairs(p, n):
    rng = np.random.default_rng(p)
    reference = rng.normal(size=(2, n, p)) * 3.0 + 1.0
    draws = rng.normal(size=(3, n, p)) * 3.0 + 1.0
    draws[1:] += np.array([1.0, 6.0])[:, None, None]
    return draws, reference, np.array([0, 1, 1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize(("p", "n"), [(1, 300), (2, 250), (4, 150)])
def test_batched_c2st_is_that_of_scikit_learn(p, n):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.set_num_threads(1)
    from benchmarks.c2st_batched import c2st_batched

    draws, reference, which = three_pairs(p, n)
    wanted = [c2st(d, reference[w], max_iter=150) for d, w in zip(draws, which, strict=True)]
    found = c2st_batched(draws, reference, which, max_iter=150, double=True)
    # In double precision one computation: at most a point at the border may change sides.
    assert found.mean == pytest.approx(wanted, abs=1.0 / (2 * n))
    single = c2st_batched(draws, reference, which, max_iter=150)
    assert single.mean == pytest.approx(wanted, abs=0.01)
    assert wanted[2] > 0.8 > 0.65 > wanted[0]
    if p == 2:
        other = c2st_batched(draws, reference, which, seed=2, max_iter=150, double=True)
        assert np.abs(other.mean - wanted).max() > 1.0 / (2 * n)


def test_batched_c2st_stops_each_network_by_itself_and_all_at_the_deadline():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.set_num_threads(1)
    from benchmarks.c2st_batched import c2st_batched

    draws, reference, which = three_pairs(1, 200)
    draws[2] += 1000.0
    seen = []
    found = c2st_batched(
        draws, reference, which, max_iter=400, report=lambda *net: seen.append(net)
    )
    assert len(seen) == 15
    assert (found.accuracy[2] == 1.0).all()
    assert len(np.unique(found.epochs)) > 3
    assert found.converged[2].all()
    late = c2st_batched(draws, reference, which, deadline=time.monotonic() - 1.0)
    assert (late.epochs == 1).all()
    assert not late.converged.any()
    with pytest.raises(ValueError, match="one shape"):
        c2st_batched(draws, reference[:, :-5], which)
    with pytest.raises(ValueError, match="finite"):
        c2st_batched(np.full_like(draws, np.nan), reference, which)


# Tables -----------------------------------------------------------------------------------------


def pair_of(observation, **more):
    return {"task": "sir", "observation": observation, "simulations": 1_000, "row": "x", **more}


@pytest.mark.slow
def test_scoring_goes_on_with_the_pairs_that_are_not_trained_to_the_end(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pair = pair_of(0, number=0)
    (tmp_path / "sir-0-1000.json").write_text(json.dumps([pair, pair_of(1, error="no")]))
    key = ["sir", 0, 1_000, "x"]
    nets = [
        {"key": key, "fold": f, "accuracy": 0.5 + 0.1 * f, "epochs": 20, "converged": True}
        for f in range(5)
    ]
    (tmp_path / "scores-2.jsonl").write_text("".join(json.dumps(net) + "\n" for net in nets))
    # There are no draws in this folder: whatever is tried fails, and is said to have.
    found = scoring.score(tmp_path, tmp_path, "cpu", 60.0, 5)
    assert found[0]["c2st"] == pytest.approx(0.7)
    assert "c2st" not in found[1]
    assert not (tmp_path / "scores-2.error").exists()
    nets[3]["converged"] = False
    (tmp_path / "scores-2.jsonl").write_text("".join(json.dumps(net) + "\n" for net in nets))
    scoring.score(tmp_path, tmp_path, "cpu", 60.0, 5)
    assert "sir-0-1000.npz" in (tmp_path / "scores-2.error").read_text()


def test_joined_scores_replace_what_they_score_anew_and_keep_the_rest():
    earlier = {"about": ["a"], "pairs": [pair_of(0, c2st=0.5), pair_of(1, c2st=0.6)]}
    later = {"about": ["b"], "pairs": [pair_of(1, c2st=0.7), pair_of(2), pair_of(0)]}
    both = scoring.joined(later, earlier)
    assert both["about"] == ["a", "b"]
    assert both["pairs"] == [pair_of(0, c2st=0.5), pair_of(1, c2st=0.7), pair_of(2)]


def test_tables_say_the_means_with_errors_and_keep_the_rest_of_the_page(tmp_path):
    pairs = [
        {"task": "sir", "observation": o, "simulations": 100_000, "row": row, "c2st": value,
         "converged": True}
        for row, values in {methods.TREE_ADJUSTED: (0.5, 0.6), methods.REJ: (0.7, 0.72)}.items()
        for o, value in enumerate(values)
    ]  # fmt: skip
    pairs.append({"task": "sir", "observation": 2, "simulations": 1_000, "row": "x", "error": "no"})
    about = {
        "versions": {"python": "3"}, "first_seed": 1, "device": "cpu", "cpu_count": 2,
    }  # fmt: skip
    numbers, page = tmp_path / "n.json", tmp_path / "page.md"
    numbers.write_text(json.dumps({"about": [about], "pairs": pairs}))
    (tmp_path / "sbibm_published_wide.csv").write_text(
        "task,num_simulations,REJ-ABC,SMC-ABC\nsir,100000,0.713,0.613\n"
    )
    (tmp_path / "sbibm_published.csv").write_text(
        "source,task,algorithm,num_simulations,C2ST_mean\n"
    )
    page.write_text(f"# Before\n\n{tables.BEGIN}\nold\n{tables.END}\n\nAfter.\n")
    for _ in range(2):
        tables.write(numbers, tmp_path, page)
    text = page.read_text()
    assert text.startswith("# Before")
    assert text.endswith("After.\n")
    assert "old" not in text
    assert "| sir | 0.58 |  | 0.550 ± 0.050 (2) |" in text
    assert "| sir | 1e+05 | 0.710 ± 0.010 (2) | 0.713 |  | 0.613 | yes |" in text
    assert "4 of 5 pairs scored, 1 runs failed" in text
