"""Local summaries: where data lie along a line near the posterior, and how large the rest is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import abctree
from abctree.answers.reading import choice, fit, local, rows, veto

pytestmark = pytest.mark.xdist_group("local summaries")  # they share runs

N_DATA = 20
PRIOR = {"place": (-5.0, 5.0), "scale": (0.0, 4.0)}
TREND = np.linspace(-3.0, 3.0, N_DATA)  # known; numbers without an order are compared sorted


def series(theta, rng):
    """Twenty numbers around a place and a known trend, of a spread that is not known."""
    return TREND + theta[:, :1] + theta[:, 1:] * rng.standard_normal((len(theta), N_DATA))


@cache
def run(seed, n_simulations=2000, simulator=series, **settings):
    observed = simulator(np.array([[1.0, 1.5]]), np.random.default_rng([9, seed]))[0]
    problem = abctree.Problem(PRIOR, simulator, observed, vectorized=True)
    given = {"n_simulations": n_simulations, "rng": seed, "proposal": "boxes", **settings}
    return abctree.abc_tree(problem, **given)


def exact_moments(observed):
    """Means and standard deviations (2,) of place and scale, by quadrature of the likelihood."""
    place, scale = np.linspace(-5, 5, 801)[:, None], np.linspace(0.02, 4, 800)
    square = np.square(observed - TREND - place[:, :, None]).sum(axis=2)
    log = -N_DATA * np.log(scale) - square / (2.0 * scale**2)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    moments = [
        (np.sum(mass * value), np.sum(mass * value**2))
        for value in np.broadcast_arrays(place, scale)
    ]
    mean, square = np.transpose(moments)
    return mean, np.sqrt(square - mean**2)


def misses(read, seeds=range(6)):
    """How far means are off, in exact standard deviations, and spreads over exact ones."""
    off, wide = [], []
    for seed in seeds:
        result = run(seed)
        mean, spread = exact_moments(result.problem.observed_summary)
        draws = read(result)
        off.append((draws.mean() - mean) / spread)
        wide.append(draws.std() / spread)
    return np.sqrt(np.mean(np.square(off), axis=0)), np.exp(np.mean(np.log(wide), axis=0))


def test_of_a_line_with_noise_they_are_least_squares_and_the_size_of_what_it_leaves():
    rng = np.random.default_rng(1)
    design = rng.standard_normal((2, 12))
    z = rng.standard_normal((4000, 2))
    x = z @ design + 0.5 * rng.standard_normal((4000, 12)) + 3.0
    model = local.LocalModel.of(x, z, z, np.ones(len(z)))
    place = (x - 3.0) @ np.linalg.pinv(design) @ design / 0.5
    rest = np.linalg.norm((x - 3.0) / 0.5 - place, axis=1)
    found = model(x)
    assert found.shape == (4000, 3)
    assert model.free == 10
    # Directions are those of the design up to a rotation, so that distances are the same.
    away = np.linalg.norm(found[1:, :2] - found[0, :2], axis=1)
    assert away == pytest.approx(np.linalg.norm(place[1:] - place[0], axis=1), rel=0.05, abs=0.2)
    assert found[:, 2] == pytest.approx(np.sqrt(20.0) * np.log(rest), abs=0.4)
    assert np.std(found[:, 2]) == pytest.approx(1.0, abs=0.1)  # in units of its own noise


def test_rows_count_by_their_parameters_not_by_their_data():
    """A line through rows near the observation follows its noise, and finds the rest too small."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((20_000, 1))
    x = z + rng.standard_normal((20_000, 8))
    observed = np.array([1.5, -1.5] * 4)
    near = np.argsort(np.linalg.norm(x - observed, axis=1))[:200]
    size = {}
    for name, some in (("by parameters", slice(None)), ("by data", near)):
        model = local.LocalModel.of(x[some], z[some], z[near], np.ones(len(near)))
        rest = model(observed[None])[0, -1] / np.sqrt(2.0 * model.free)
        size[name] = np.exp(rest) / np.sqrt(model.free)
    assert size["by parameters"] == pytest.approx(np.sqrt(18.0 / 7.0), rel=0.05)
    assert size["by data"] < 0.9 * size["by parameters"]  # twin


@pytest.mark.slow
def test_the_answer_knows_a_spread_that_a_distance_on_raw_data_does_not():
    off, wide = misses(lambda result: result.answer())
    assert off.max() < 0.6
    assert np.all((wide > 0.8) & (wide < 1.5))
    off, _ = misses(lambda result: result.adjusted())  # twin: by the run's own summaries
    assert off[1] > 1.5


def made_of(change, n, true=(1.0, 1.5)):
    """Runs on n data sets, each of which is the model's own and changed."""
    for seed in range(n):
        rng = np.random.default_rng([8, seed])
        observed = change(series(np.array([true]), rng)[0], rng)
        problem = abctree.Problem(PRIOR, series, observed, vectorized=True)
        yield abctree.abc_tree(problem, n_simulations=2000, rng=seed)


@pytest.mark.slow
def test_data_of_the_model_fit_though_their_noise_is_not_known(monkeypatch):
    """Draws that are near by the run's own distance are too quiet to have made strong noise."""
    made = list(made_of(lambda x, _: x, 5, (1.0, 3.5)))

    def doubted():
        return sum(replace(result).fit().p_value <= 0.05 for result in made)  # remembers no fit

    assert doubted() <= 1  # two of five are, by chance, in one of forty-four tries
    monkeypatch.setattr(rows.Rows, "local", None)  # twin
    assert doubted() >= 3


@pytest.mark.slow
def test_a_bend_is_told_from_noise_though_the_noise_is_not_known():
    """A bend twice as large as the noise; the same numbers in another order are noise."""
    time = np.linspace(-1.0, 1.0, N_DATA) ** 2
    bend = 3.0 * (time - time.mean()) / time.std()
    bent = [result.fit().p_value for result in made_of(lambda x, _: x + bend, 3)]

    def mixed(x, rng):
        return TREND + rng.permutation(x - TREND + bend)

    twin = [result.fit().p_value for result in made_of(mixed, 3)]
    assert max(bent) <= 0.05
    assert np.mean(twin) > 0.1


@pytest.mark.parametrize(("gap", "fair"), [(0.05, True), (0.3, False)])
def test_a_fit_is_of_draws_by_local_summaries_unless_these_are_far_worse(gap, fair):
    own, by_local = choice.Cell("ridge", 300.0), choice.Cell("ridge", 300.0, "local")
    assert choice.Choice(own, own, {by_local: (gap, 0.1)}, 200).local_is_fair == fair
    assert choice.Choice(own, by_local, {own: (-gap, 0.1)}, 200).local_is_fair
    assert not choice.Choice(own, own, {}, 0).local_is_fair


def test_bends_are_told_from_noise_of_any_size_and_waves_in_another_order_are_not():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((400, 60))
    wave = np.cos(np.linspace(0.0, 3.0 * np.pi, 60))
    plain = fit.bends(noise)
    usual = np.quantile(plain, 0.95)
    assert fit.bends(3.0 * noise) == pytest.approx(plain)
    assert (fit.bends(noise + wave) > usual).mean() > 0.9
    assert (fit.bends(noise + rng.permutation(wave)) > usual).mean() < 0.3  # twin
    assert fit.bends(np.zeros((1, 3))).tolist() == [0.0]


def rare(theta, rng):
    """Two counts that know the parameters, and eight events that hardly ever happen."""
    event = rng.random((len(theta), 8)) < 0.002
    return np.hstack([rng.poisson(100.0 * theta), event])


def test_they_say_nothing_of_data_that_no_line_with_noise_made():
    """Three rare events are a rest so large that those near by its size are anywhere else."""

    def table(observed):
        prior = {"a": (0.0, 10.0), "b": (0.0, 10.0)}
        problem = abctree.Problem(prior, rare, observed, vectorized=True)
        return rows.Rows.of(abctree.abc_tree(problem, n_simulations=5000, rng=1, block=250))

    found = table(np.array([300.0, 200, 1, 1, 1, 0, 0, 0, 0, 0]))
    assert found.local is not None
    assert found.fair_local is None
    chosen = veto.choose(found, 40, np.random.default_rng(1))
    assert {cell.summaries for cell in chosen.scores} == {"own"}
    for twin in (table(np.array([300.0, 200, 0, 0, 0, 0, 0, 0, 0, 0])), rows.Rows.of(run(0))):
        assert twin.fair_local is twin.local is not None


def test_an_answer_says_by_what_it_was_read():
    result = run(0)
    draws = result.answer()
    assert draws.summaries == "local"
    assert "on local summaries" in str(draws.reading)
    assert f"epsilon {draws.epsilon:.4g} of local summaries" in str(result.summary())
    assert result.summary().to_dict()["summaries"] == "local"
    raw = result.posterior(summaries="local", epsilon=draws.epsilon)
    assert raw.summaries == "local"
    assert raw.summary.shape == (len(raw), 3)
    assert np.linalg.norm(raw.summary, axis=1) == pytest.approx(raw.distance)
    assert raw.distance.max() < raw.epsilon
    assert result.posterior().summaries == "own"


def test_pictures_show_an_answer_by_local_summaries_where_draws_are_as_many():
    pytest.importorskip("matplotlib")
    from abctree.faces.report import drawn

    result = run(0)
    at = drawn.tolerance_of(result, result.answer())
    same = result.posterior(epsilon=at)
    assert same.ess == pytest.approx(min(result.answer().ess, same.ess), rel=0.2)
    figure = abctree.plots.tolerance(result)
    dots = [line for line in figure.axes[0].lines if line.get_label() == "answer"]
    assert dots[0].get_xdata() == pytest.approx([at])
    page = drawn.pair_data(result)
    shown = page["readings"][page["start"]]
    assert shown["epsilon"] == at
    means = [row[0] for row in shown["adjusted"]["estimates"]]
    assert means == pytest.approx(result.answer().mean().tolist(), rel=1e-4)


def test_few_summaries_have_no_rest_and_are_read_as_they_are():
    problem = abctree.Problem(
        PRIOR, lambda theta, rng: theta + rng.standard_normal(theta.shape), [1.0, 1.0],
        vectorized=True,
    )  # fmt: skip
    result = abctree.abc_tree(problem, n_simulations=500, rng=1)
    assert not any(cell.summaries == "local" for cell in result.answer().reading.scores)
    with pytest.raises(abctree.ParameterError, match='`summaries` must be "own" or "learned"'):
        result.posterior(summaries="local")


def test_a_model_that_bends_is_read_by_its_own_summaries():
    """Rows that stand in for the observation speak against a line through epidemics."""

    def weeks(theta, rng):
        susceptible, infected, cases = np.full(len(theta), 990), np.full(len(theta), 10), []
        for _ in range(13):
            cases.append(rng.binomial(susceptible, -np.expm1(-theta[:, 0] * infected / 1000)))
            recovered = rng.binomial(infected, -np.expm1(-theta[:, 1]))
            susceptible, infected = susceptible - cases[-1], infected + cases[-1] - recovered
        return np.sqrt(np.column_stack(cases))

    prior = {"infection": (0.2, 3.0), "recovery": (0.1, 1.5)}
    observed = weeks(np.array([[2.0, 0.5]]), np.random.default_rng(3))[0]
    problem = abctree.Problem(prior, weeks, observed, vectorized=True)
    result = abctree.abc_tree(problem, n_simulations=4000, rng=0, proposal="boxes")
    choice = result.answer().reading
    assert choice.chosen == choice.default
    assert choice.chosen.summaries == "own"
    gap, error = choice.scores[choice.default._replace(summaries="local")]
    assert gap > 3.0 * error


@cache
def bent(seed):
    """Five numbers with means that bend within the posterior, and the exact mean and spread."""

    def simulate(theta, rng):
        mean = theta + 0.5 * theta**2 * [1.0, -1.0, 1.0, -1.0, 0.0]
        return mean + 0.5 * rng.standard_normal(mean.shape)

    observed = simulate(np.array([[0.8]]), np.random.default_rng(seed))[0]
    problem = abctree.Problem({"a": (-3.0, 3.0)}, simulate, observed, vectorized=True)
    grid = np.linspace(-3.0, 3.0, 6001)[:, None]
    mean = grid + 0.5 * grid**2 * [1.0, -1.0, 1.0, -1.0, 0.0]
    log = -2.0 * np.square(observed - mean).sum(axis=1)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    centre = mass @ grid[:, 0]
    spread = np.sqrt(mass @ (grid[:, 0] - centre) ** 2)
    result = abctree.abc_tree(problem, n_simulations=6000, rng=seed, proposal="boxes")
    return result, centre, spread


def test_the_runs_own_summaries_mend_a_bend_where_draws_are_many(monkeypatch):
    def off():
        """How far means are off in exact standard deviations: root of the mean square."""
        found = []
        for result, centre, spread in map(bent, range(6)):
            table = rows.Rows.of(result)
            usual = veto.default_cell(table)._replace(summaries="local")
            reading = table.at_observation(usual)
            found.append(
                (np.average(reading.theta[:, 0], weights=reading.weight) - centre) / spread
            )
        return np.sqrt(np.mean(np.square(found)))

    assert off() < 0.2
    raw = bent(0)[0].posterior(summaries="local")
    assert raw.summary.shape == (len(raw), 5 + 2)
    assert np.linalg.norm(raw.summary[:, 5:], axis=1) == pytest.approx(raw.distance)
    monkeypatch.setattr(rows, "_FOR_EACH", np.inf)  # twin
    assert off() > 0.35
    assert bent(0)[0].posterior(summaries="local").summary.shape == (len(raw), 2)


def test_the_better_of_two_readings_is_the_default(monkeypatch):
    table, energy_score = rows.Rows.of(bent(1)[0]), veto.energy_score

    def default(worse):
        def scored(reading, *more):
            by = "local" if reading.rows.x.shape[1] > 5 else "own"
            return energy_score(reading, *more) + 0.1 * (by == worse)

        monkeypatch.setattr(veto, "energy_score", scored)
        return veto.choose(table, 40, np.random.default_rng(1)).default.summaries

    assert default("own") == "local"
    assert default("local") == "own"


def test_a_reading_that_is_worse_at_first_is_asked_of_no_more_rows(monkeypatch):
    table, energy_score = rows.Rows.of(bent(1)[0]), veto.energy_score
    asked = {"raw": 0, "moved": 0}

    def scored(reading, *more):
        is_raw = np.array_equal(reading.weight, table.weight[reading.row])
        asked["raw" if is_raw and reading.rows is table else "moved"] += 1
        return energy_score(reading, *more) + 0.5 * is_raw

    monkeypatch.setattr(veto, "energy_score", scored)
    made = veto.choose(table, 90, np.random.default_rng(1))
    assert made.chosen == made.default
    assert 0 < asked["raw"] < 3 * made.n / 2  # of three sizes
    errors = {cell: error for cell, (_, error) in made.scores.items()}
    assert all(np.isfinite(error) for error in errors.values())


def test_what_is_left_is_clearly_worse_at_one_kind_of_rows_and_worse_at_both(monkeypatch):
    table, picked, kind = rows.Rows.of(bent(1)[0]), rows.Rows.picked, {}

    def known_kinds(*args):
        stand, share = picked(*args)
        assert len(share) == 2
        for (of, j), own in zip(stand, share[0], strict=True):
            kind[of.places[j].tobytes()] = "own" if own > 0.0 else "local"
        return stand, share

    def is_left(gain, noise=0.3):
        """Whether raw draws are taken that are better by so much at each kind of rows."""
        rng = np.random.default_rng(0)

        def scored(reading, truth, *more):
            is_raw = np.array_equal(reading.weight, table.weight[reading.row])
            if not (is_raw and len(reading.row) > 500):
                return 1.0
            return 1.0 - gain[kind[truth.tobytes()]] + noise * rng.standard_normal()

        monkeypatch.setattr(rows.Rows, "picked", known_kinds)
        monkeypatch.setattr(veto, "energy_score", scored)
        return veto.choose(table, 120, np.random.default_rng(1)).chosen.method is None

    error = 0.3 / np.sqrt(60)
    assert is_left({"own": 6.0 * error, "local": 3.0 * error})
    assert is_left({"own": 3.0 * error, "local": 6.0 * error})
    assert not is_left({"own": 6.0 * error, "local": -1.0 * error})
    assert not is_left({"own": -1.0 * error, "local": 6.0 * error})


def test_local_summaries_of_numbers_without_noise_are_finite():
    def line(theta, rng):
        return theta[:, :1] + theta[:, 1:] * np.arange(6.0)

    draws = run(0, simulator=line).posterior(summaries="local", ess=20)
    assert np.isfinite(draws.distance).all()
    assert np.isfinite(draws.summary).all()


def test_rows_far_away_by_the_runs_own_distance_count(monkeypatch):
    """Those of the right noise are not the nearest; the twin knows the nearest only."""
    result, cell = run(1, n_simulations=4000), choice.Cell(None, 200.0, "local")

    every = rows.Rows.of(result).at_observation(cell)
    monkeypatch.setattr(rows, "MOST", 500)
    nearest = rows.Rows.of(result, most=500)
    assert len(nearest.checked_local().rows) == 4000
    again = nearest.at_observation(cell)
    size = {name: r.rows.distance[r.row].max() for name, r in (("all", every), ("again", again))}
    assert size["again"] == pytest.approx(size["all"], rel=0.2)
    monkeypatch.setattr(rows, "MOST", 20_000)
    twin = rows.Rows.of(result, most=500).at_observation(cell)
    assert twin.rows.distance[twin.row].max() > 2.0 * size["all"]


def test_a_run_that_kept_the_nearest_has_no_local_summaries():
    problem = run(0).problem
    result = abctree.rejection(problem, n_simulations=4000, keep=1000, rng=1)
    assert result.answer().summaries == "own"
    with pytest.raises(abctree.ParameterError, match="`keep` must be all simulations"):
        result.posterior(summaries="local")
    result = abctree.rejection(problem, n_simulations=1000, keep=1000, rng=1)
    assert result.posterior(summaries="local", ess=100).summaries == "local"


def test_a_run_whose_summaries_stay_in_its_folder_has_the_same_answer(tmp_path):
    settings = {"n_simulations": 2000, "rng": 0, "keep_summaries": "store", "proposal": "boxes"}
    stored = abctree.abc_tree(run(0).problem, store=tmp_path / "run", **settings)
    assert stored.answer().summaries == "local"
    assert np.array_equal(stored.answer().theta, run(0).answer().theta)


def test_half_of_the_rows_that_stand_in_are_near_by_local_summaries():
    """Those that are near by the run's own distance are of too small a scale."""
    own = rows.Rows.of(run(0))
    by_local = own.local.rows
    stand, share = own.picked(100, 50.0, np.random.default_rng(0))
    number = np.array([of.number[j] for of, j in stand])
    scale = np.array([of.scores.theta[j, 1] for of, j in stand])
    near = np.isin(number, own.number[own.accepted(50.0)])
    near_by_local = np.isin(number, by_local.number[by_local.accepted(50.0)])
    assert share.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert near[share[0] > 0.0].all()
    assert near_by_local[share[1] > 0.0].all()
    exact, _ = exact_moments(run(0).problem.observed_summary)
    assert np.average(scale[near], weights=share[0, near]) < 0.85 * exact[1]
    assert scale[near_by_local].mean() == pytest.approx(exact[1], rel=0.15)


def test_one_row_that_stands_in_is_no_evidence():
    """Its error is not known: nothing is clearly better than the default there."""
    own = rows.Rows.of(run(0))
    made = veto.choose(own, 1, np.random.default_rng(0))
    assert made.n == 2
    assert made.chosen == made.default
    assert run(0).calibration(1).n == 2
