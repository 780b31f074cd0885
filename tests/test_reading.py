"""Readings of a table: regressions, what vetoes them, and what they are worth."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree.answers.reading import modes, regression, rows
from abctree.problems import gaussian_mixture
from abctree.problems.truth import GaussianMixtureTruth

from .conftest import z_score

pytestmark = pytest.mark.xdist_group("readings")  # they share runs

SQUARE = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}


def shift(theta, rng):
    """theta + e, two summaries."""
    return theta + rng.standard_normal(theta.shape)


def steep(theta, rng):
    """Near exp(1.2 theta), two summaries."""
    return np.exp(1.2 * theta) * (1.0 + 0.02 * rng.standard_normal(theta.shape))


def many(theta, rng):
    """Two parameters, measured ten times each with noise 1, and ten numbers of noise."""
    noise = rng.standard_normal((len(theta), 30))
    noise[:, :20] += np.repeat(theta, 10, axis=1)
    return noise


@cache
def run(simulator=shift, observed=(1.0, -2.0), rng=1, n_simulations=3000, **settings):
    problem = abctree.Problem(SQUARE, simulator, np.array(observed), vectorized=True)
    settings = {"proposal": "boxes", **settings}
    return abctree.abc_tree(
        problem, n_simulations=n_simulations, rng=rng, keep_summaries=True, **settings
    )


# Regressions ------------------------------------------------------------------------------------


def regression_data(seed=0, n=80, q=4):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, q)) @ rng.standard_normal((q, q)) + 1.0
    y = x @ rng.standard_normal((q, 2)) + rng.standard_normal((n, 2))
    return x, y, rng.exponential(size=n)


def by_hand(x, y, weight, penalty):
    """Penalised weighted least squares on standardised columns, from the normal equations."""
    w = weight / weight.sum()
    mean, unit = w @ x, np.sqrt(w @ (x - w @ x) ** 2)
    c = (x - mean) / unit
    gram = (c * w[:, None]).T @ c + penalty * np.eye(x.shape[1])
    slope = np.linalg.solve(gram, (c * w[:, None]).T @ (y - w @ y))
    return w @ y + c @ slope, w @ y - mean / unit @ slope


def test_a_penalised_regression_solves_its_normal_equations():
    x, y, weight = regression_data()
    fitted, at_zero, _ = regression.Ridge(x, weight, 0.3)(y)
    expected, there = by_hand(x, y, weight, 0.3)
    assert fitted == pytest.approx(expected)
    assert at_zero == pytest.approx(there)


def test_the_penalty_has_the_least_score_of_cross_validation():
    x, y, weight = regression_data(n=30, q=12)
    w, n = weight / weight.sum(), weight.sum() ** 2 / (weight**2).sum()
    c = (x - w @ x) / np.sqrt(w @ (x - w @ x) ** 2)
    score = {}
    for penalty in 10.0 ** np.arange(-6, 2.5, 0.5):
        gram = (c * w[:, None]).T @ c
        df = 1.0 + np.trace(gram @ np.linalg.inv(gram + penalty * np.eye(12)))
        left = w @ (y[:, 0] - by_hand(x, y, weight, penalty)[0][:, 0]) ** 2
        score[penalty] = left / max(1.0 - df / n, 1e-3) ** 2
    best = min(score, key=score.get)
    assert best not in (min(score), max(score))
    fitted = regression.Ridge(x, weight)(y).there
    assert fitted[:, 0] == pytest.approx(by_hand(x, y, weight, best)[0][:, 0])


def test_slopes_that_may_be_noise_do_not_blur_two_modes():
    """Where summaries say nothing few tables have draws moved; those of the twin ask no proof."""
    widths = {"doubted": [], "chosen": []}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, weight = rng.standard_normal((1000, 2)) + 0.5, np.ones(1000)
        y = np.where(rng.random((1000, 1)) < 0.5, 1.0, -1.0) + 0.01 * rng.standard_normal((1000, 1))
        fit = regression.Ridge(x, weight)
        there = {"doubted": fit(y).there, "chosen": fit.line(y)(x)}
        for how, fitted in there.items():
            widths[how].append((y - fitted)[y[:, 0] > 0.0].std())
    wide = {how: np.mean(np.array(found) > 0.015) for how, found in widths.items()}
    assert wide["doubted"] <= 0.04  # 0.01, and three standard errors
    assert wide["chosen"] > 0.3


@pytest.mark.parametrize("share", [0.025, 0.5])
def test_slopes_that_explain_more_than_a_fiftieth_are_kept(share, rng):
    x, weight = rng.standard_normal((1000, 2)), np.ones(1000)
    noise = rng.standard_normal((1000, 1))
    y = np.sqrt(share) * x[:, :1] + np.sqrt(1.0 - share) * noise
    assert regression.Ridge(x, weight)(y).there.std() == pytest.approx(np.sqrt(share), rel=0.4)


def opposite(theta, rng):
    """|theta| + e: two modes of each parameter, which move in opposite ways."""
    return np.abs(theta) + 0.1 * rng.standard_normal(theta.shape)


def width_of_modes(rng):
    """The sd of |a| where 1 was observed, in that of its posterior, of a wide reading."""
    problem = abctree.Problem({"a": (-3.0, 3.0)}, opposite, [1.0], vectorized=True)
    made = abctree.rejection(problem, n_simulations=5000, rng=rng)
    draws = made.adjusted(ess=1000)
    size = np.abs(draws.theta[:, 0])
    assert np.average(draws.theta[:, 0] > 0.0, weights=draws.weights) == pytest.approx(0.5, abs=0.1)
    return np.sqrt(np.cov(size, aweights=draws.weights)) / 0.1


def test_modes_that_lie_apart_are_moved_each_by_itself(monkeypatch):
    """One regression for both leaves all that the tolerance adds: the twin, which does not look."""
    widths = [width_of_modes(seed) for seed in range(10)]
    assert abs(np.mean(widths) - 1.0) < 0.1
    monkeypatch.setattr("abctree.answers.adjustment.modes", lambda *_: None)
    assert np.mean([width_of_modes(seed) for seed in range(3)]) > 1.5


@pytest.mark.parametrize("k", [1, 2, 5])
def test_draws_of_one_mode_are_not_parted(k):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((2000, k)) if seed % 2 else rng.random((2000, k))
        assert modes.modes(z, rng.random(2000), 2) is None
        z[:, 0] += 12.0 * (rng.random(2000) < 0.3)
        label = modes.modes(z, np.ones(2000), 2)
        assert len(np.unique(label)) == 2
        assert len(np.unique(label[z[:, 0] > 6.0])) == 1


def test_modes_of_many_draws_are_those_of_some(rng):
    z = rng.standard_normal((60_000, 1)) + 12.0 * (rng.random((60_000, 1)) < 0.3)
    label = modes.modes(z, np.ones(60_000), 2)
    right = z[:, 0] > 6.0
    assert len(label) == len(z)
    assert len({*label[right]}) == len({*label[~right]}) == 1
    assert label.max() == 1


def test_a_mode_of_many_draws_has_all_of_them(rng):
    """Of every second draw it would be too small."""
    z = rng.standard_normal((6000, 2))
    z[:150, 0] += 30.0
    assert len(np.unique(modes.modes(z, np.ones(6000), 2))) == 2
    assert modes.modes(z, np.ones(6000), 20) is None


@pytest.mark.parametrize(("n_summaries", "are_two"), [(9, True), (11, False)])
def test_a_mode_has_draws_enough_for_its_own_slopes(n_summaries, are_two, rng):
    z = rng.standard_normal((1000, 2))
    z[:103, 0] += 12.0
    assert (modes.modes(z, np.ones(1000), n_summaries) is not None) == are_two


def test_a_summary_of_tiny_unit_counts_as_any_other():
    x, y, weight = regression_data()
    fitted, at_zero, widening = regression.Ridge(x, weight)(y)
    again = regression.Ridge(x * np.array([1e-150, 1.0, 1e12, 1.0]), weight)(y)
    assert again.there == pytest.approx(fitted)
    assert again.at_observation == pytest.approx(at_zero)
    assert again.widening == pytest.approx(widening)


def test_residuals_are_widened_by_what_the_fit_hides():
    """New responses scatter about the fit by residuals times the widening; the twin leaves it."""
    squares, widened, plain = [], [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((60, 20)) + 0.3
        y = x.sum(axis=1, keepdims=True) + rng.standard_normal((60, 1))
        there, at_observation, widening = regression.Ridge(x, np.ones(60), 1e-9)(y)
        squares.append((rng.standard_normal() - at_observation[0]) ** 2)
        plain.append(np.mean((y - there) ** 2))
        widened.append(plain[-1] * widening[0] ** 2)
    error = np.std(squares) / np.sqrt(len(squares)) / np.mean(squares)
    assert error < 0.1
    assert abs(np.mean(widened) / np.mean(squares) - 1.0) < 3.5 * error
    assert np.mean(plain) / np.mean(squares) < 1.0 - 3.5 * error


def test_what_one_summary_explains_is_what_is_lost_without_it():
    x, y, weight = regression_data()
    drops = regression.Ridge(x, weight).drops(y)
    w = weight / weight.sum()
    total = w @ (y - w @ y) ** 2
    for j in range(x.shape[1]):
        left = [w @ (y - by_hand(c, y, weight, 1e-12)[0]) ** 2 for c in (x, np.delete(x, j, 1))]
        assert drops[j] == pytest.approx(((left[1] - left[0]) / total).max(), rel=1e-5)


def test_a_penalty_leaves_residuals_where_summaries_outnumber_rows():
    """A regression that goes through all points would leave no spread to the answer."""
    spread = {"chosen": [], "none": []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = rng.standard_normal((40, 1))
        x = np.repeat(y, 80, axis=1) + 4.0 * rng.standard_normal((40, 80))
        weight = 1.0 - rng.random(40) ** 2
        for name, penalty in (("chosen", None), ("none", 1e-6)):
            fitted = regression.Ridge(x, weight, penalty)(y).there
            spread[name].append(np.sqrt(weight @ (y - fitted) ** 2 / weight.sum())[0])
    assert 0.15 < np.median(spread["chosen"]) < 0.6  # exact: 1/sqrt(6)
    assert min(spread["chosen"]) > 0.05
    assert max(spread["none"]) < 0.001  # twin


class Nearest:
    """A regressor of a user's: that of least squares."""

    def fit(self, X, y, sample_weight):
        root = np.sqrt(sample_weight)[:, None]
        design = np.column_stack([np.ones(len(X)), X])
        self.slope = np.linalg.lstsq(design * root, y * root[:, 0], rcond=None)[0]

    def predict(self, X):
        return np.column_stack([np.ones(len(X)), X]) @ self.slope


def test_a_regressor_of_the_user_is_used_as_scikit_learn_has_them():
    draws = run().posterior(ess=200)
    assert draws.adjusted(Nearest()).theta == pytest.approx(
        draws.adjusted("linear").theta, abs=1e-6
    )


@pytest.mark.parametrize("method", ["lasso", None, 3])
def test_an_unknown_regression_is_refused(method):
    with pytest.raises(abctree.ParameterError, match=r'`method` must be "ridge"'):
        run().posterior().adjusted(method)


def test_scaled_residuals_have_the_spread_of_the_observation():
    """z = s + exp(s - 1) e: a spread of 1 at s = 1, where the observation is."""
    rng = np.random.default_rng(2)
    s = rng.uniform(0.2, 1.8, 4000)
    z = (s + np.exp(s - 1.0) * rng.standard_normal(4000))[:, None]
    draws = abctree.answers.Posterior(
        theta=z, log_weights=np.zeros(4000), distance=np.abs(s - 1.0), epsilon=0.8, names=("z",),
        n_simulations=4000, summary=s[:, None], observed=np.ones(1),
    )  # fmt: skip
    spread = {m: draws.adjusted(m).std()[0] for m in ("ridge", "heteroscedastic")}
    assert spread["heteroscedastic"] == pytest.approx(1.0, abs=0.05)
    assert spread["ridge"] > 1.05  # twin: residuals taken as they are


def test_a_penalty_reads_many_summaries_where_least_squares_cannot():
    """Thirty summaries and some forty draws; the exact posterior sd is 1 / √10."""
    error = {"linear": [], "ridge": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = many(np.array([[1.0, -2.0]]), rng)[0]
        exact = np.array([data[:10].mean(), data[10:20].mean()])
        result = run(many, tuple(data), seed, 2000)
        for method, errors in error.items():
            draws = result.adjusted(method, ess=80)
            errors.append(np.sqrt(np.square(draws.mean() - exact).mean()) * np.sqrt(10.0))
    assert np.mean(error["ridge"]) < 0.7 * np.mean(error["linear"])


# The answer -------------------------------------------------------------------------------------


def test_the_answer_has_the_spread_of_the_exact_posterior():
    """θ | x ~ N(mean, 1/10) under a flat prior; draws at a tolerance are wider."""
    error = {"answer": [], "posterior": []}
    for seed in range(4):
        data = many(np.array([[1.0, -2.0]]), np.random.default_rng(seed))[0]
        result = run(many, tuple(data.tolist()), seed, 3000)
        for name, errors in error.items():
            errors.append(np.log(getattr(result, name)().std() * np.sqrt(10.0)).mean())
    assert abs(np.mean(error["answer"])) < 0.08
    assert np.mean(error["posterior"]) > 0.5  # twin: not adjusted


@pytest.mark.parametrize("observed", [3.0, 3.5], ids=["a count", "between two counts"])
def test_the_answer_takes_simulations_that_are_equally_near_together(observed):
    """Counts are 0, 1, 2, ... away, and no tolerance is between them."""

    def count(theta, rng):
        return rng.binomial(10, theta[:, 0])

    problem = abctree.Problem({"p": (0.0, 1.0)}, count, observed, vectorized=True)
    result = abctree.abc_tree(problem, n_simulations=600, rng=1)
    answer = result.answer()
    assert answer.ess > 50
    exact = np.mean([stats.beta(1 + n, 11 - n).mean() for n in {int(observed), round(observed)}])
    assert answer.mean()[0] == pytest.approx(exact, abs=4.0 * answer.mcse()[0])
    assert "nan" not in str(result.summary())


def test_rows_that_stand_in_for_the_observation_veto_a_bad_regression():
    """x = exp(3 θ): far from the observation the regression is wrong, and fewer rows are better."""
    result = run(steep, (1.0, 1.0), 3)
    choice = result.answer().reading
    assert choice.chosen != choice.default
    gap, error = choice.scores[choice.chosen]
    assert gap < -2.0 * error
    assert f"better than the default, {choice.default}, " in str(choice)


def default_ess(change):
    """That of a table of 4 000 rows whose weights are changed by their order of distance."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-5.0, 5.0, (4000, 1))
    data = theta + 0.5 * rng.standard_normal(theta.shape)
    weights = change(np.argsort(np.argsort(np.abs(data[:, 0]))), rng)
    result = abctree.from_table(
        {"a": theta[:, 0]}, data, [0.0], prior={"a": (-5.0, 5.0)}, distance="euclidean",
        weights=weights / weights.mean(),
    )  # fmt: skip
    return result.answer().reading.default.ess


def test_more_draws_are_read_where_weights_are_uneven_and_farther_rows_worth_it():
    """Twice a tenth of the simulations, in steps; else a tenth."""

    def uneven(order, rng):
        return np.exp(0.8 * rng.standard_normal(len(order)))

    assert default_ess(lambda order, rng: np.ones(len(order))) == pytest.approx(400.0)
    assert 748.0 <= default_ess(uneven) <= 800.0
    # The nearest rows are worth 450; of more, with thirty times the weight, 900 are worth as much.
    heavy = default_ess(lambda order, rng: uneven(order, rng) * np.where(order < 1000, 1.0, 30.0))
    assert 400.0 <= heavy <= 470.0


@pytest.mark.slow
def test_more_draws_read_a_crowded_table_better_and_one_of_the_prior_worse():
    truth, gain = GaussianMixtureTruth(2), []
    for seed in range(16):
        made = abctree.abc_tree(gaussian_mixture(2), n_simulations=4000, rng=seed)
        less, usual = made.adjusted(ess=400.0), made.adjusted()
        gain.append(np.diff([truth.tv20(draws.theta, draws.weights) for draws in (usual, less)])[0])
    assert z_score(np.array(gain), 0.0) > 3.0
    gain = []
    for seed in range(8):  # twin: more draws are not always better
        problem = abctree.Problem(SQUARE, steep, np.ones(2), vectorized=True)
        made = abctree.rejection(problem, n_simulations=4000, rng=seed)
        assert made.answer().reading.default.ess == pytest.approx(400.0)
        spread = [made.adjusted(ess=ess).std()[0] for ess in (700.0, 400.0)]
        gain.append(np.diff(np.abs(np.log(np.array(spread) / (0.02 / 1.2))))[0])
    assert z_score(np.array(gain), 0.0) < -3.0


def test_nothing_vetoes_a_regression_that_is_right():
    left = [run(rng=seed).answer().reading for seed in range(4)]
    assert sum(choice.chosen == choice.default for choice in left) >= 3
    assert all(len(choice.scores) == 8 for choice in left)


def steps(simulated, observed):
    """A distance of the user's, with many ties."""
    return np.floor(4.0 * np.abs(simulated - observed).sum(axis=1))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"distance": steps},
        {"prior": {"a": stats.cauchy(1.0), "b": stats.cauchy(-2.0)}},
        {"simulator": many, "observed": np.zeros(30)},
    ],
    ids=["norm", "ties", "uneven weights far out", "many summaries"],
)
def test_a_row_is_read_from_the_nearest_of_all_others(settings):
    usual = {"simulator": shift, "observed": np.array([1.0, -2.0]), "distance": "euclidean"}
    problem = abctree.Problem(**{"prior": SQUARE, **usual, **settings}, vectorized=True)
    run = abctree.abc_tree(problem, n_simulations=1500, rng=1, proposal="boxes")
    table = rows.Rows.of(run)
    cells = rows.Cell(None, 30.0), rows.Cell(None, 140.0)
    for j in (0, 100, len(table) - 1):
        distance = problem.distance(table.summary, table.summary[j])
        order = np.argsort(distance, kind="stable")
        order = order[order != j]
        weight = table.weight[order]
        reached = np.cumsum(weight) ** 2 / np.cumsum(weight**2)
        for cell, reading in zip(cells, table.at_row(j, cells), strict=True):
            n = min(np.argmax(np.append(reached, np.inf) >= cell.ess) + 1, len(order) - 1)
            np.testing.assert_array_equal(reading.row, order[:n])


def test_a_summary_of_one_value_is_left_out_however_it_is_rounded():
    x, y, weight = regression_data()
    constant = np.full((len(x), 1), 0.1 * 3.0e5)
    nearly = constant + 1e-9 * x[:, :1]
    fit = regression.Ridge(np.hstack([constant, x, nearly]), weight)
    assert fit.used.tolist() == [False, *[True] * 5]
    alone = regression.Ridge(x, weight)(y)
    without = regression.Ridge(np.hstack([constant, x]), weight)(y)
    assert without.there == pytest.approx(alone.there)
    assert without.widening == pytest.approx(alone.widening)


@pytest.mark.slow
def test_the_answer_is_the_same_each_time_and_says_what_it_is():
    first = run(n_simulations=1000).answer()
    again = run.__wrapped__(n_simulations=1000).answer()
    assert np.array_equal(first.theta, again.theta)
    assert first.is_adjusted
    assert str(first.reading).startswith(f"Read as {first.reading.default}: none of 8")


def test_without_summaries_the_answer_is_the_draws():
    problem = abctree.Problem(SQUARE, shift, np.array([1.0, -2.0]), vectorized=True)
    result = abctree.rejection(problem, n_simulations=500, rng=1, keep_summaries=False)
    draws = result.answer()
    assert np.array_equal(draws.theta, result.posterior().theta)
    assert draws.reading is None
    for ask in (result.fit, result.calibration, result.adjusted):
        with pytest.raises(abctree.ParameterError, match="`keep_summaries` must be True"):
            ask()


def test_a_tiny_table_is_read_as_it_is():
    tiny = run(n_simulations=60)
    assert tiny.answer().reading is None
    for ask in (tiny.fit, tiny.calibration, tiny.adjusted, lambda: abctree.cross_validate(tiny)):
        with pytest.raises(abctree.ParameterError, match=r"100 simulations or more.*Run more\.$"):
            ask()
    problem = abctree.Problem(SQUARE, shift, np.array([1.0, -2.0]), vectorized=True)
    populations = abctree.smc(problem, n_simulations=300, n_particles=10, rng=1)
    assert np.isfinite(populations.table.distance).sum() >= 100
    with pytest.raises(abctree.ParameterError, match='or give smc weights="mixture"'):
        populations.fit()


# Calibration ------------------------------------------------------------------------------------


def test_calibration_sees_that_raw_draws_are_too_wide():
    good = np.array([run(rng=seed).calibration(100).coverage[0.9].mean() for seed in range(4)])
    assert abs(z_score(good, 0.9)) < 4.0
    data = many(np.array([[1.0, -2.0]]), np.random.default_rng(0))[0]
    wide = run(many, tuple(data.tolist()), 0, 2000).calibration(100)
    assert (np.abs(wide.coverage[0.5] - 0.5) < 0.15).all()
    assert wide.raw_coverage[0.5].mean() > 0.65


def test_calibration_sees_intervals_that_are_too_narrow(monkeypatch):
    """Twin: a reading whose draws are shrunk to half of their spread."""
    read = rows.Reading.theta.fget

    def shrunk(reading):
        theta = read(reading)
        mean = reading.weight / reading.weight.sum() @ theta
        return mean + (theta - mean) / 2.0

    monkeypatch.setattr(rows.Reading, "theta", property(shrunk))
    assert (run().calibration(100).coverage[0.9] < 0.75).all()


@pytest.mark.slow
def test_calibration_prints_both_readings_and_what_it_cannot_see():
    text = str(run().calibration(50))
    assert str(run().answer().reading.default) in text
    assert "raw at ESS" in text
    assert "does not see" in text
    with pytest.raises(abctree.ParameterError, match="`n` must be a whole number of at least 1"):
        run().calibration(0)


# Fit --------------------------------------------------------------------------------------------


def test_data_of_the_model_fit_and_others_do_not():
    rng = np.random.default_rng(5)
    good = []
    for seed in range(10):
        theta = rng.uniform(-4.0, 4.0, (1, 2))
        data = tuple(shift(theta, rng)[0].tolist())
        good.append(run(shift, data, seed, 1000).fit().p_value)
    assert np.mean(np.array(good) <= 0.05) <= 0.2  # two of ten
    assert min(good) > 0.009
    off = [run(shift, (8.0, 0.0), seed, 1000).fit() for seed in range(2)]
    assert all(fit.p_value <= 0.05 for fit in off)
    assert "does not make data like these" in str(off[0])
    assert off[0].worst[0] == 0


@pytest.mark.parametrize("distance", ["energy", "wasserstein", "function", "euclidean"])
def test_a_sample_that_is_sorted_fits_where_the_distance_ignores_the_order(distance):
    def sample(theta, rng):
        return theta[:, :1] + theta[:, 1:] * rng.standard_normal((len(theta), 20))

    observed = np.sort(sample(np.array([[0.5, 1.0]]), np.random.default_rng(4))[0])
    prior = {"mean": (-3.0, 3.0), "sd": (0.3, 3.0)}
    own = {"function": lambda s, o: np.abs(np.sort(s) - np.sort(o)).sum(axis=-1)}
    chosen = own.get(distance, distance)
    problem = abctree.Problem(prior, sample, observed, vectorized=True, distance=chosen)
    found = abctree.abc_tree(problem, n_simulations=1000, rng=1, proposal="boxes").fit()
    if distance == "euclidean":  # twin
        assert found.p_value < 0.05
        assert found.bends.any()
    else:
        assert found.p_value > 0.1
        assert not found.bends.any()


@pytest.mark.parametrize("distance", ["euclidean", "mahalanobis", "manhattan"])
def test_a_summary_that_misses_is_named_by_its_number_whatever_the_distance(distance):
    """A covariance turns what it compares: its axes are no summaries."""

    def walk(theta, rng):
        return theta + np.cumsum(rng.standard_normal((len(theta), 8)), axis=1)

    observed = walk(np.zeros((1, 1)), np.random.default_rng(0))[0]
    observed[3] += 12.0
    problem = abctree.Problem(
        {"a": (-3.0, 3.0)}, walk, observed, vectorized=True, distance=distance
    )
    found = abctree.abc_tree(problem, n_simulations=1000, rng=1, proposal="boxes").fit()
    assert found.worst[0] == 3
    assert found.misses.shape == (8,)
    assert "3 (+" in str(found)


def test_a_summary_that_never_varies_and_is_another_one_is_no_fit():
    def fixed(theta, rng):
        noise = theta + rng.standard_normal((len(theta), 3))
        return np.hstack([noise, np.ones((len(theta), 2))])

    def fit_of(last):
        observed = [0.0, 0.5, 0.2, 1.0, last]
        problem = abctree.Problem({"a": (-3.0, 3.0)}, fixed, observed, vectorized=True)
        return abctree.abc_tree(problem, n_simulations=600, rng=1, proposal="boxes").fit()

    found = fit_of(2.0)
    assert found.p_value < 0.01
    assert "rule: 4 (never varies)" in str(found)
    assert fit_of(1.0).p_value > 0.05  # twin


# Cross-validation, and summaries ----------------------------------------------------------------


def test_the_error_of_prediction_is_that_of_the_exact_posterior():
    """Prior variance 100/12, posterior variance 1: an error of .12, less at the borders."""
    problem = abctree.Problem(SQUARE, shift, np.array([1.0, -2.0]), vectorized=True)
    table = abctree.rejection(problem, n_simulations=3000, rng=4)
    errors = np.array(
        [abctree.cross_validate(table, n=150, ess=60, rng=seed).error for seed in range(4)]
    ).mean()
    assert errors == pytest.approx(0.115, abs=0.025)


def test_summaries_that_say_something_are_told_from_noise():
    data = many(np.array([[1.0, -2.0]]), np.random.default_rng(0))[0]
    value = abctree.select_summaries(run(many, tuple(data.tolist()), 0, 2000))
    assert value.shape == (30,)
    assert value[:20].min() > 3.0 * np.median(value[20:])


def test_learned_summaries_read_raw_data_better():
    spread = []
    for seed in range(4):
        data = many(np.array([[1.0, -2.0]]), np.random.default_rng(seed))[0]
        result = run(many, tuple(data.tolist()), seed, 2000)
        own, learned = (
            result.posterior(ess=100, summaries=which).std() for which in ("own", "learned")
        )
        spread.append(np.log(learned / own).mean())
    assert z_score(np.array(spread), 0.0) < -4.0
    with pytest.raises(
        abctree.ParameterError, match='must be "own", "sorted", "local" or "learned"'
    ):
        run().posterior(summaries="deep")


# Prediction -------------------------------------------------------------------------------------


def test_predictions_have_the_spread_of_posterior_and_noise():
    """x' = θ + e with θ | x ~ N(x, 1): mean x, variance 2; of the prior 100/12 + 1."""
    data = np.concatenate([run(rng=seed).predict(300, rng=seed).array for seed in range(6)])
    assert data.shape == (1800, 2)
    means = data.reshape(6, 300, 2).mean(axis=1)
    assert abs(z_score(means[:, 0], 1.0)) < 4.0
    assert abs(z_score(means[:, 1], -2.0)) < 4.0
    assert data.var(axis=0) == pytest.approx(2.0, rel=0.2)
    prior = run().predict(1000, prior=True).array
    assert prior.var(axis=0) == pytest.approx(100.0 / 12.0 + 1.0, rel=0.15)


def test_a_pool_makes_the_same_predictions():
    def one(theta, rng):
        return theta + rng.standard_normal(2)

    alone = abctree.rejection(
        abctree.Problem(SQUARE, one, np.array([1.0, -2.0])), n_simulations=300, rng=1
    )
    for result in (alone, run()):
        with ThreadPoolExecutor(2) as pool:
            found = result.predict(30, rng=3, pool=pool)
        assert np.array_equal(found.array, result.predict(30, rng=3).array)


def test_predictions_say_which_summaries_miss():
    assert run().predict(200).p_values.min() > 0.05
    off = run(shift, (8.0, 0.0)).predict(200)
    assert off.p_values[0] < 0.05
    assert off.p_value(lambda x: x[0], np.array([8.0, 0.0])) < 0.05


def test_predictions_refuse_what_is_no_level_and_no_number():
    place = abctree.Problem(
        {"a": (0.0, 1.0)}, lambda t, r: {"x": t[0], "y": r.normal()}, {"x": 0.5, "y": 0.0}
    )
    made = abctree.rejection(place, n_simulations=200, rng=1).predict(20)
    assert 0.0 < made.p_value(lambda data: data["y"], {"y": 0.0}) < 1.0
    with pytest.raises(
        abctree.ParameterError, match="`statistic` must return a number, but got nan"
    ):
        made.p_value(lambda data: np.nan, {"y": 0.0})
    with pytest.raises(abctree.ParameterError, match="`level` must be in"):
        made.interval(2.0)


def test_predictions_keep_what_the_simulator_returns_and_count_failures():
    def one(theta, rng):
        if theta[0] < 0.0:
            raise ValueError("negative")
        return {"x": rng.normal(theta[0])}

    problem = abctree.Problem({"a": (-1.0, 3.0)}, one, {"x": 0.5}, summary=lambda d: [d["x"]])
    found = abctree.rejection(problem, n_simulations=300, rng=1).predict(40, prior=True)
    assert set(found.data[0]) == {"x"}
    assert len(found) + found.n_failed == 40
    assert found.n_failed > 0
    assert found.summary.shape == (len(found), 1)
    with pytest.raises(abctree.ParameterError, match="`data` must be numbers for this"):
        _ = found.array


# Tables made elsewhere --------------------------------------------------------------------------


def test_a_table_of_ones_own_reads_as_the_run_that_made_it():
    problem = abctree.Problem(SQUARE, shift, np.array([1.0, -2.0]), vectorized=True)
    made = abctree.rejection(problem, n_simulations=2000, rng=3)
    table = made.table
    result = abctree.from_table(
        table.theta, table.summary, [1.0, -2.0], prior=SQUARE, distance="euclidean"
    )
    assert np.array_equal(result.posterior(ess=100).theta, made.posterior(ess=100).theta)
    assert result.evidence(1.0).estimate == made.evidence(1.0).estimate
    assert result.answer().mean() == pytest.approx(made.answer().mean(), abs=0.2)
    assert "a table made elsewhere" in str(result.summary())


def test_weights_of_a_table_make_up_for_other_proposals():
    """Parameters from N(0, 2), read under a flat prior: the posterior mean is x."""
    means = {True: [], False: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        theta = rng.normal(0.0, 2.0, (4000, 1))
        theta = theta[np.abs(theta[:, 0]) < 5.0]
        data = theta + 0.5 * rng.standard_normal(theta.shape)
        weights = 0.1 / stats.norm.pdf(theta[:, 0], 0.0, 2.0)
        for weighted, into in means.items():
            result = abctree.from_table(
                {"a": theta[:, 0]}, data, [2.5], prior={"a": (-5.0, 5.0)}, distance="euclidean",
                weights=weights if weighted else None,
            )  # fmt: skip
            into.append(float(result.posterior(ess=200).mean()[0]))
    assert abs(z_score(np.array(means[True]), 2.5)) < 4.0
    assert z_score(np.array(means[False]), 2.5) < -4.0  # twin: weights forgotten


def test_a_table_without_a_prior_keeps_draws_within_its_range():
    rng = np.random.default_rng(0)
    theta = rng.exponential(size=(2000, 1))
    result = abctree.from_table(theta, theta + 0.1 * rng.standard_normal(theta.shape), [0.02])
    draws = result.adjusted(ess=200)
    assert draws.names == ("theta1",)
    assert draws.is_adjusted
    assert draws.theta.min() >= theta.min()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": np.zeros(5)}, "`theta` must have a row for each simulation"),
        ({"theta": {"a": np.zeros(5), "b": np.zeros(4)}}, "`theta` must have columns of one"),
        ({"theta": np.full((5, 1), np.nan)}, "`theta` must be finite"),
        ({"summary": np.zeros((4, 1))}, "`summary` must have a row for each of the 5"),
        ({"summary": np.zeros((5, 2))}, r"`summary` must have rows of shape \(1,\)"),
        ({"summary": np.full((5, 1), np.inf)}, "`summary` must have a finite row"),
        ({"weights": np.zeros(5)}, "`weights` must be 5 positive numbers, but got 0.0"),
        ({"weights": np.ones((5, 1))}, "`weights` must be 5 positive numbers, but got shape"),
        ({"weights": ["a"] * 5}, "`weights` must hold real numbers"),
        ({"prior": {"a": (0.0, 1.0), "b": (0.0, 1.0)}}, "`theta` must have the parameters"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(change, message):
    given = {"theta": np.linspace(0, 1, 5)[:, None], "summary": np.ones((5, 1)), "observed": [1.0]}
    with pytest.raises(abctree.ParameterError, match=message):
        abctree.from_table(**{**given, **change})


def test_failed_rows_of_a_table_are_counted():
    theta = np.linspace(0.0, 1.0, 500)[:, None]
    summary = theta.copy()
    summary[::5] = np.nan
    result = abctree.from_table(theta, summary, [0.5])
    assert result.failures.count == 100
    assert result.n_simulations == 500


# Models -----------------------------------------------------------------------------------------


def poisson(theta, rng):
    return np.sort(rng.poisson(theta, (len(theta), 3)), axis=1).astype(float)


def geometric(theta, rng):
    return np.sort(rng.geometric(1.0 / (1.0 + theta), (len(theta), 3)) - 1, axis=1).astype(float)


@cache
def models(seed, data=(1.0, 2.0, 4.0), n_simulations=3000):
    found = {}
    for simulator in (poisson, geometric):
        problem = abctree.Problem({"mean": (0.0, 10.0)}, simulator, np.array(data), vectorized=True)
        found[simulator.__name__] = abctree.rejection(
            problem, n_simulations=n_simulations, rng=[seed, len(found)]
        )
    return found


def exact_evidence(data=(1, 2, 4)):
    """Prior probability of the sorted data: orders times the average likelihood on a grid."""
    mean = (np.arange(20_000) + 0.5) / 2000.0
    orders = 6.0
    one = np.prod([stats.poisson.pmf(x, mean) for x in data], axis=0)
    other = np.prod([stats.geom.pmf(x + 1, 1.0 / (1.0 + mean)) for x in data], axis=0)
    return orders * one.mean(), orders * other.mean()


def test_model_probabilities_agree_with_exact_ones():
    first, second = exact_evidence()
    prior = {"poisson": 0.25, "geometric": 0.75}
    exact = 0.25 * first / (0.25 * first + 0.75 * second)
    found = [abctree.compare(models(s), prior=prior, epsilon=0.5) for s in range(10)]
    probability = np.array([c.probability["poisson"] for c in found])
    assert abs(z_score(probability, exact)) < 4.0
    inside = [c.interval()["poisson"][0] < exact < c.interval()["poisson"][1] for c in found]
    assert sum(inside) >= 8
    flat = np.array(
        [abctree.compare(models(s), epsilon=0.5).probability["poisson"] for s in range(10)]
    )
    assert abs(z_score(flat, exact)) > 4.0  # twin: the prior of the models forgotten


def test_bayes_factors_have_intervals():
    first, second = exact_evidence()
    factor = [abctree.compare(models(s), epsilon=0.5).bayes_factor("poisson", "geometric")
              for s in range(10)]  # fmt: skip
    held = sum(low < first / second < high for _, (low, high) in factor)
    assert held >= 8
    comparison = abctree.compare(models(0), epsilon=0.5)
    ratio, (low, high) = comparison.bayes_factor("geometric", "poisson")
    assert low < ratio < high
    with pytest.raises(abctree.ParameterError, match="`name` must be one of"):
        comparison.bayes_factor("geometric", "binomial")


def test_a_model_without_a_draw_has_an_upper_bound():
    found = models(0)
    problem = abctree.Problem(
        {"mean": (90.0, 99.0)}, poisson, np.array([1.0, 2.0, 4.0]), vectorized=True
    )
    far = abctree.rejection(problem, n_simulations=500, rng=1)
    comparison = abctree.compare({**found, "far": far}, epsilon=0.5)
    assert comparison.probability["far"] == 0.0
    low, high = comparison.interval()["far"]
    assert (low, comparison.bayes_factor("poisson", "far")[0]) == (0.0, np.inf)
    assert 0.0 < high < 0.9
    assert "below" in str(comparison)
    assert "below" in str(abctree.compare({"far": far, "too": far}, epsilon=0.5))


def test_runs_that_cannot_be_compared_are_refused():
    other = models(0, (1.0, 2.0, 5.0))
    with pytest.raises(abctree.ParameterError, match="same observed summary"):
        abctree.compare({"one": models(0)["poisson"], "other": other["poisson"]})
    problem = abctree.Problem(
        {"mean": (0.0, 10.0)}, poisson, np.array([1.0, 2.0, 4.0]), vectorized=True, distance="std"
    )
    scaled = abctree.rejection(problem, n_simulations=500, rng=1)
    with pytest.raises(abctree.ParameterError, match="same distance"):
        abctree.compare({"one": models(0)["poisson"], "other": scaled})
    with pytest.raises(abctree.ParameterError, match=r"strings as names, but got \[1, 2\]"):
        abctree.compare({1: models(0)["poisson"], 2: models(0)["geometric"]})
    with pytest.raises(abctree.ParameterError, match="two runs or more"):
        abctree.compare({"one": models(0)["poisson"]})
    with pytest.raises(abctree.ParameterError, match="`prior` must have the names"):
        abctree.compare(models(0), prior={"poisson": 1.0})
    with pytest.raises(abctree.ParameterError, match="`prior` must be positive"):
        abctree.compare(models(0), prior={"poisson": 1.0, "geometric": 0.0})


def test_a_comparison_says_from_which_tolerance_on_it_stands():
    """Sums alone cannot tell the two models apart at a large tolerance."""
    comparison = abctree.compare(models(0, n_simulations=20_000), epsilon=8.0)
    assert len(comparison.epsilons) > 4
    assert comparison.stable_from is None or comparison.stable_from < 8.0


# Kernels ----------------------------------------------------------------------------------------


def test_kernel_adds_the_variance_that_it_has():
    """To x = θ + e the indicator adds ε²/3, and Epanechnikov's kernel ε²/5."""

    def line(theta, rng):
        return theta + 0.5 * rng.standard_normal(theta.shape)

    problem = abctree.Problem({"a": (-5.0, 5.0)}, line, [0.0], vectorized=True)
    runs = [abctree.rejection(problem, n_simulations=20_000, rng=s) for s in range(8)]

    def variance(kernel):
        return [run.posterior(epsilon=2.0, kernel=kernel).std()[0] ** 2 for run in runs]

    flat, bent = variance("indicator"), variance("epanechnikov")
    assert abs(z_score(flat, 0.25 + 4.0 / 3.0)) < 4.0
    assert abs(z_score(bent, 0.25 + 4.0 / 5.0)) < 4.0
    assert abs(z_score(flat, 0.25 + 4.0 / 5.0)) > 4.0  # twin: the kernel forgotten
    with pytest.raises(abctree.ParameterError, match='`kernel` must be "indicator"'):
        runs[0].posterior(kernel="gaussian")


# Calibration by new runs ------------------------------------------------------------------------


def test_ranks_of_new_data_sets_are_uniform(tmp_path):
    problem = abctree.Problem(SQUARE, shift, np.zeros(2), vectorized=True)
    given = {"n_simulations": 400, "rng": 2, "method": "rejection"}
    runs = abctree.calibrate(problem, n_datasets=60, store=tmp_path / "ranks", **given)
    assert runs.ranks.shape == (60, 2)
    assert runs.p_values.min() > 1e-3
    assert abs(runs.expected_coverage(0.5)[0] - 0.5) < 4.0 * np.sqrt(0.25 / 60)
    assert "jointly" in str(runs)

    # What is in the file is not run again; the last line was cut off by a kill.
    lines = (tmp_path / "ranks").read_text("utf-8").splitlines()
    (tmp_path / "ranks").write_text("\n".join([*lines[:59], lines[59][:20]]), "utf-8")
    told = []
    again = abctree.calibrate(
        problem, n_datasets=60, store=tmp_path / "ranks",
        progress=lambda done, n: told.append((done, n)), **given,
    )  # fmt: skip
    assert np.array_equal(again.ranks, runs.ranks)
    assert told == [(60, 60)]
    assert len((tmp_path / "ranks").read_text().splitlines()) == 61


def test_ranks_see_a_reading_that_is_too_sure():
    problem = abctree.Problem(SQUARE, shift, np.zeros(2), vectorized=True)

    def narrow(result):
        draws = result.posterior()
        return replace(draws, theta=draws.mean() + (draws.theta - draws.mean()) / 3.0)

    runs = abctree.calibrate(
        problem, n_datasets=60, n_simulations=400, rng=2, method="rejection", reading=narrow
    )
    assert runs.p_values.max() < 1e-3 or (runs.coverage(0.9) < 0.75).all()
    assert not runs.band(0.9)[0] <= runs.coverage(0.9)[0] <= runs.band(0.9)[1]


def test_a_density_prior_is_drawn_from_for_calibration():
    """Parameters of density 2 a on (0, 1): a mean of 2/3."""
    prior = abctree.DensityPrior(lambda t: np.log(2.0 * t[:, 0]), {"a": (0.0, 1.0)})
    problem = abctree.Problem(prior, shift, np.zeros(1), vectorized=True)
    runs = abctree.calibrate(
        problem, n_datasets=80, n_simulations=60, rng=1, method="rejection",
        reading="posterior",
    )  # fmt: skip
    assert abs(z_score(runs.theta[:, 0], 2.0 / 3.0)) < 4.0
    assert abs(z_score(runs.theta[:, 0], 0.5)) > 4.0  # twin: drawn from the cube


def test_a_reading_that_is_none_is_refused():
    with pytest.raises(abctree.ParameterError, match="`reading` must be"):
        abctree.calibrate(run().problem, n_datasets=1, n_simulations=50, reading="best")


# Pictures ---------------------------------------------------------------------------------------


def test_pictures_of_checks_have_a_line_for_each_parameter_and_model():
    pytest.importorskip("matplotlib")
    ax = abctree.plots.calibration(run().calibration(50)).axes[0]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["two errors", "a", "as accepted", "b"]
    assert len(ax.lines) == 5
    ax = abctree.plots.comparison(abctree.compare(models(0), epsilon=4.0)).axes[0]
    shares = np.array([line.get_ydata() for line in ax.lines])
    assert shares.sum(axis=0) == pytest.approx(1.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["poisson", "geometric"]


@pytest.mark.parametrize("ess", [1.0, 0.0, np.nan, "a"])
def test_an_effective_sample_size_that_no_regression_has_is_refused(ess):
    with pytest.raises(abctree.ParameterError, match="`ess` must be at least 5"):
        abctree.cross_validate(run(), ess=ess)


@pytest.mark.parametrize("reads", [abctree.cross_validate, abctree.select_summaries])
def test_only_a_run_is_read(reads):
    with pytest.raises(abctree.ParameterError, match="`result` must be a run, but got a str"):
        reads("run")
