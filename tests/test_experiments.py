"""What the experiments measure with, against known values."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import metrics, problems
from abctree.kernels import simulators
from benchmarks import peers, report
from experiments import all as everything
from experiments import (
    command,
    comparison,
    curves,
    encoding,
    finite,
    heston,
    scores,
    sp500,
    theorem1,
    watching,
)
from experiments.methods import METHODS, Method, play

from .conftest import z_score

pytestmark = pytest.mark.xdist_group("experiments")  # they share runs
ROOT = Path(__file__).resolve().parents[1]


# Scores -------------------------------------------------------------------------------------------


def test_marginal_tv_of_a_shifted_normal_is_that_of_its_cells():
    rng = np.random.default_rng(0)
    reference = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    shift = 0.5
    theta = rng.normal(shift, 1.0, (200_000, 1))
    edges = stats.norm.ppf(np.arange(1, 20) / 20)
    mass = np.diff(np.concatenate([[0.0], stats.norm.cdf(edges - shift), [1.0]]))
    expected = 0.5 * np.abs(mass - 0.05).sum()
    found = scores.marginal_tv(theta, np.ones(len(theta)), reference)
    assert found == pytest.approx(expected, abs=0.005)
    assert found != pytest.approx(0.5 * expected, abs=0.005)


def test_marginal_tv_is_zero_for_the_reference_and_a_mean_over_parameters():
    reference = np.random.default_rng(1).normal(size=(2_000, 2))
    ones = np.ones(2_000)
    assert scores.marginal_tv(reference, ones, reference) == pytest.approx(0.0, abs=2e-3)
    away = reference.copy()
    away[:, 1] += 100.0  # all in the last cell
    assert scores.marginal_tv(away, ones, reference) == pytest.approx(0.95 / 2, abs=2e-3)


def test_marginal_tv_uses_the_weights():
    rng = np.random.default_rng(2)
    reference = rng.normal(size=(5_000, 1))
    theta = rng.normal(0.0, 2.0, (50_000, 1))
    weight = np.exp(-0.5 * theta[:, 0] ** 2 + 0.5 * (theta[:, 0] / 2) ** 2)
    weighted = scores.marginal_tv(theta, weight, reference)
    plain = scores.marginal_tv(theta, np.ones(len(theta)), reference)
    assert weighted < 0.03 < 0.15 < plain


@pytest.mark.parametrize("p", [1, 3])
def test_negative_log_probability_of_a_normal_is_known(p):
    rng = np.random.default_rng(p)
    root = rng.normal(size=(p, p)) + 2 * np.eye(p)
    mean = np.arange(p, dtype=float)
    n = 50_000
    theta = mean + rng.normal(size=(n, p)) @ root.T
    point = mean + 0.7 * root.sum(axis=1)
    h = (4.0 / ((p + 2) * n)) ** (1 / (p + 4))
    expected = -stats.multivariate_normal(mean, (1 + h**2) * root @ root.T).logpdf(point)
    found = scores.negative_log_probability(theta, np.ones(n), point)
    assert found == pytest.approx(expected, abs=0.06)
    assert found != pytest.approx(expected + 0.2, abs=0.06)


def test_negative_log_probability_does_not_depend_on_units_up_to_the_jacobian():
    rng = np.random.default_rng(4)
    theta, weight = rng.normal(size=(500, 2)), rng.random(500)
    unit = np.array([10.0, 0.01])
    first = scores.negative_log_probability(theta, weight, np.zeros(2))
    other = scores.negative_log_probability(theta * unit, 3.0 * weight, np.zeros(2))
    assert other == pytest.approx(first + np.log(unit).sum())


def test_negative_log_probability_is_infinite_where_draws_span_no_volume():
    theta = np.column_stack([np.arange(9.0), np.zeros(9)])
    assert scores.negative_log_probability(theta, np.ones(9), np.zeros(2)) == np.inf


def test_mmd_of_some_of_the_draws_is_near_that_of_all():
    """Twin: an even choice that forgets the weights is not."""
    rng = np.random.default_rng(5)
    reference = rng.normal(size=(500, 2))
    theta = rng.normal(0.5, 1.5, (4_000, 2))
    weight = np.exp(theta[:, 0])
    whole = metrics.mmd(theta, reference, weight)
    assert scores.mmd(theta, weight, reference, most=1_500) == pytest.approx(whole, rel=0.1)
    assert scores.mmd(theta, np.ones(4_000), reference, most=1_500) != pytest.approx(whole, rel=0.1)
    assert scores.mmd(theta, weight, reference) != whole
    assert scores.mmd(theta[:900], weight[:900], reference) == metrics.mmd(
        theta[:900], reference, weight[:900]
    )


# Curves -------------------------------------------------------------------------------------------


def small(method: Method, **settings) -> Method:
    return dataclasses.replace(method, settings={**method.settings, **settings})


RUNS = {
    "rejection": METHODS["rejection"],
    "smc": METHODS["SMC-ABC, Silverman, median, N = 1000"],
    "published": METHODS["ABC-Tree, published, ω¹"],
    "default": METHODS["ABC-Tree, default"],
}


@pytest.fixture(scope="module", params=list(RUNS))
def finished(request):
    method = RUNS[request.param]
    return method, play(method, problems.gaussian_mixture(2), 4_000, 1)


def test_curve_ends_with_what_the_run_answers(finished):
    method, result = finished
    for reading in method.readings:
        (known,) = curves.known_after(result, reading, [result.n_simulations])
        draws = known.posterior()
        if reading == "mixture" and result.method == "smc":
            result = abctree.smc(
                problems.gaussian_mixture(2), n_simulations=4_000, rng=1, n_particles=40,
                kernel="silverman", schedule="median", weights="mixture",
            )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abctree.AbctreeWarning)
            answer = result.posterior()
        assert draws.epsilon == pytest.approx(answer.epsilon)
        assert draws.ess == pytest.approx(answer.ess)
        assert np.average(draws.theta, axis=0, weights=draws.weights) == pytest.approx(
            answer.mean()
        )


def test_weights_after_a_round_are_those_of_a_run_that_ended_there():
    """Twin: one round further they are others."""
    problem = problems.gaussian_mixture(2)
    settings = {"n_simulations": 4_000, "rng": 3, "block": 200}
    whole = abctree.abc_tree(problem, **settings)
    shorter = abctree.abc_tree(problem, max_rounds=4, **settings)
    stages = {known.n: known for known in curves._stages(whole, "mixture")}
    assert len(whole.rounds) > 6
    known = stages[len(shorter.table)]
    assert known.weight == pytest.approx(shorter.weights("mixture"), rel=1e-12)
    later = stages[whole.rounds[5].last].weight[: known.n]
    assert later != pytest.approx(known.weight, rel=1e-3)


def test_populations_so_far_are_those_of_a_run_that_ended_there():
    problem = problems.gaussian_mixture(2)
    settings = {"n_simulations": 4_000, "n_particles": 100, "rng": 3, "kernel": "silverman"}
    whole = abctree.smc(problem, **settings)
    shorter = abctree.smc(problem, max_rounds=3, weights="mixture", **settings)
    stages = {known.n: known for known in curves._stages(whole, "mixture")}
    known = stages[len(shorter.table)]
    near = shorter.table.distance < shorter.rounds[1].epsilon
    assert known.weight[near] == pytest.approx(shorter.weights("mixture")[near], rel=1e-9)
    assert (known.weight[~near] == 0.0).all()


def test_curve_knows_nothing_before_the_first_population():
    method = small(METHODS["SMC-ABC, Silverman, median, N = 1000"])
    result = play(method, problems.gaussian_mixture(2), 4_000, 1)
    first = result.rounds[1].last
    early, late = curves.known_after(result, "population", [first - 1, first])
    assert early is None
    assert late.n == first


def test_curve_gives_scores_at_every_point_and_at_the_targets():
    result = play(METHODS["ABC-Tree, default"], problems.gaussian_mixture(2), 4_000, 1)
    rows, final = curves.curve(
        result, "mixture", [100, 1_000, 4_000], lambda theta, _: {"n": float(len(theta))}, [50, 100]
    )
    assert [row["made"] for row in rows] == sorted(row["made"] for row in rows)
    assert final["ε@50"] < final["ε@100"]
    assert final["ESS@100"] == pytest.approx(100, rel=0.1)
    assert rows[-1]["ε"] <= rows[0]["ε"]


# Regret -------------------------------------------------------------------------------------------


class Stubborn:
    """Plays given proposals, one a pull."""

    def __init__(self, proposals):
        self.left = list(proposals)

    def pull(self, arms, partition, n, rng):
        return None, self.left.pop(0)


def test_losses_add_up_to_the_regret():
    eta, prior = np.array([0.1, 0.2, 0.4]), np.full(3, 1 / 3)
    proposals = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    watched = watching.Losses(Stubborn(proposals), eta, prior, finite.UTILITIES, [20, 60])
    arms = abctree.data.Arms(np.ones(3), np.ones(3))
    for _ in proposals:
        watched.pull(arms, None, 10, np.random.default_rng(0))
    for key, utility in finite.UTILITIES.items():
        assert watched.kept[0]["regret"][key] == pytest.approx(
            metrics.regret(proposals[:2], eta, prior, utility)
        )
        assert watched.kept[1]["regret"][key] == pytest.approx(
            metrics.regret(proposals, eta, prior, utility)
        )
    assert watched.kept[1]["offered"] == pytest.approx(10 * proposals.sum(axis=0))


def test_finite_readings_of_prior_draws_are_counts():
    run = finite.one_run("rejection", 1, 1_000)
    assert run["TV, draw weights"] == pytest.approx(run["TV, mixture weights"])
    assert run["regret, ω¹"][-1] > 0.0
    z = finite.truth.FiniteNormalTruth().evidence(1.0)
    n = 1_000
    assert abs(run["acceptance rate"][-1] - z) < 4 * np.sqrt(z / n)


def test_exponent_of_a_power_law_is_found():
    x = np.geomspace(1, 100, 9)
    assert theorem1.exponent(x, 3.0 * x**-1.5) == pytest.approx(-1.5)


def test_coins_fall_with_the_rates_of_their_arms():
    rate = theorem1.rates(4, 0.1)
    theta = np.repeat((np.arange(4) + 0.5) / 4, 20_000)[:, None]
    fell = theorem1.Coins(rate)(theta, np.random.default_rng(0))[:, 0].reshape(4, -1) == 0.0
    for arm in range(4):
        assert abs(z_score(fell[arm], rate[arm])) < 4.0
        assert abs(z_score(fell[arm], rate[arm] + 0.02)) > 4.0


# Encoding: the true posterior ---------------------------------------------------------------------


def mean_scores(theta, observed=encoding.OBSERVED, step=1e-5):
    """z of the mean gradients of the log-posterior, which are 0 under it."""
    unit = step * np.eye(10)
    gradient = np.stack(
        [
            encoding.log_posterior(theta + unit[j], observed)
            - encoding.log_posterior(theta - unit[j], observed)
            for j in range(10)
        ],
        axis=1,
    ) / (2 * step)
    return [z_score(gradient[:, j], 0.0) for j in range(10)]


def test_encoding_draws_are_of_the_true_posterior():
    """Twin: they are not of that of another observation."""
    theta, share = encoding.posterior_draws(2_000)
    assert share > 0.3
    assert np.abs(mean_scores(theta)).max() < 4.0
    other = encoding.OBSERVED + np.r_[2.0, np.zeros(9)]
    assert np.abs(mean_scores(theta, other)).max() > 4.0


# Heston in NumPy ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_summaries_of_returns_are_those_of_the_compiled_model():
    theta = np.tile([3.0, 0.25, 0.25, -0.6, 0.5], (5, 1))
    seeds = np.arange(5, dtype=np.uint64)
    returns = simulators.heston_returns(theta, seeds, 250, 0.02, 1 / 252)
    compiled = simulators.heston(theta, seeds, 250, 0.02, 1 / 252)
    assert sp500.summarise(returns) == pytest.approx(compiled, rel=1e-9)


def test_returns_in_numpy_have_the_law_of_the_compiled_ones():
    """Twin: with another mean variance they do not."""
    n = 2_000

    def worst(xi):
        theta = np.tile([3.0, xi, 0.05, -0.6, 0.5], (n, 1))
        ours = sp500.summarise(sp500.Heston(100)(theta, np.random.default_rng(0)))
        theta = np.tile([3.0, 0.1, 0.05, -0.6, 0.5], (n, 1))
        theirs = simulators.heston(theta, np.arange(n, dtype=np.uint64), 100, 0.02, 1 / 252)
        gap = ours.mean(axis=0) - theirs.mean(axis=0)
        return np.abs(gap / np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / n)).max()

    assert worst(0.1) < 4.0
    assert worst(0.12) > 4.0


# Commands -----------------------------------------------------------------------------------------


def square(x, y):
    return x * x + y


def options_of(workers, seconds=float("inf")):
    return command.Options(workers=workers, seconds=seconds, out=Path("nowhere"))


def test_each_does_not_depend_on_the_number_of_workers():
    tasks = [(i, 2 * i) for i in range(5)]
    one, three = (command.each(square, tasks, options_of(w)) for w in (1, 3))
    assert one == three == [(task, square(*task)) for task in tasks]


def test_each_leaves_out_a_task_that_fails_and_prints_its_error(capsys):
    done = command.each(square, [(1, 1), ("a", 1), (2, 2)], options_of(1))
    assert done == [((1, 1), 2), ((2, 2), 6)]
    assert "TypeError" in capsys.readouterr().out


def test_each_begins_nothing_when_the_time_is_over():
    assert command.each(square, [(1, 1), (2, 2)], options_of(1, seconds=-1.0)) == []


def test_numbers_are_written_as_json_with_five_digits(tmp_path):
    numbers = {
        "a": np.float64(1.23456789), "b": [np.nan, np.inf, 1], "c": {"d": np.arange(3)}, "e": True,
        "long": [[float(i) for i in range(40)]] * 2, "f": None,
    }  # fmt: skip
    rounded = command.rounded(numbers)
    command.write_json(tmp_path / "x" / "y.json", rounded)
    read = json.loads((tmp_path / "x" / "y.json").read_text())
    assert read == rounded
    assert read["a"] == 1.2346
    assert read["b"] == [None, None, 1]
    assert read["c"] == {"d": [0, 1, 2]}
    assert read["e"] is True


def test_numbers_are_kept_joined_or_only_shown(tmp_path, capsys):
    def measure(args):
        return {"runs": {str(args.first_seed): 1.0 / 3.0}}

    def tables(numbers):
        return {"x": f"runs: {numbers['runs']}"}

    file = tmp_path / "benchmarks" / "results" / "x.json"
    args = command.Options(out=tmp_path, folder="benchmarks", first_seed=7)
    command.tabulate("x", args, measure, tables, keep=False)
    assert not file.exists()
    command.tabulate("x", args, measure, tables)
    assert command.read_json(file)["runs"] == {"7": 0.33333}
    assert command.read_json(file)["about"]["seeds"] == [7, 7]
    again = dataclasses.replace(args, first_seed=9, only="part")
    command.tabulate("x", again, measure, tables)
    assert command.read_json(file)["about"]["seeds"] == [7, 7]
    assert command.read_json(file)["again"]["part"]["seeds"] == [9, 9]
    stored = dataclasses.replace(args, from_json=file)
    command.tabulate("x", stored, lambda _: pytest.fail("measured"), tables)
    assert capsys.readouterr().out.endswith("runs: {'9': 0.33333}\n")


def test_a_comparison_without_its_reference_is_skipped_and_asks_for_it(capsys, tmp_path):
    for folder in (None, tmp_path):
        args = command.Options(reference=folder)
        assert comparison.measure(heston.SUBJECT, args) is None
        said = "skipped heston: it needs heston.npz: give the folder that holds it by --reference\n"
        assert capsys.readouterr().out == said


def test_nothing_looks_outside_of_the_repository_unasked():
    """Folders are those of the clone, or temporary: a default of an option never is another."""
    outside = re.compile(r"ROOT\.parent|parents\[2\]|parent\.parent\.parent|expanduser|\.home\(")
    folders = ("src/abctree", "tests", "examples", "experiments", "benchmarks")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if path != Path(__file__).resolve():  # which has the words above
            assert not outside.search(path.read_text("utf-8")), path
    assert outside.search('REFERENCE = ROOT.parent / "data"')


def test_cell_is_a_mean_with_its_standard_error():
    assert command.cell([1.0, 2.0, 3.0]) == "2 ± 0.6"
    assert command.cell([1.0, None, 3.0]) == "2 ± 1 (2 of 3)"
    assert command.cell([None]) == "–"
    assert command.cell([1.5]) == "1.5"
    assert command.cell([1000.0, 2000.0]) == "1500 ± 500"


def test_best_settings_are_smallest_in_distance_and_largest_in_gain():
    settings = {
        "a": {"h": 3.0, "distance": 0.2, "distance, last population": 0.3, peers.SIZE: 30.0},
        "b": {"h": 2.0, "distance": 0.1, "distance, last population": 0.4, peers.SIZE: 300.0},
    }
    best = {"h": "a", "distance": "b", "distance, last population": "a"}
    assert peers.best_of(settings) == best
    assert peers.best_of(settings, least=100.0) == {**best, "distance, last population": "b"}
    assert peers.best_of(settings, least=1000.0) == best


# The list and the document ------------------------------------------------------------------------


def test_every_experiment_is_in_the_list_of_all():
    """An experiment is a module that can be run as a command and is told --quick."""
    listed = {e.name for e in everything.EXPERIMENTS}
    found = {
        path.stem
        for path in (ROOT / "experiments").glob("*.py")
        if "--quick" in path.read_text("utf-8") and "__main__" in path.read_text("utf-8")
    }
    assert found - listed - {"all", *everything.PREPARATIONS} == set()


def test_an_experiment_whose_package_is_missing_is_skipped_with_its_reason():
    absent = everything.Experiment("heston", needs=("no_such_package",))
    assert "no_such_package" in everything.reason_to_skip(absent)
    assert "not there" in everything.reason_to_skip(everything.Experiment("no_such_experiment"))
    assert everything.reason_to_skip(everything.Experiment("theorem1")) is None


all_tables = cache(report.all_tables)


@pytest.mark.parametrize("document", report.DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_is_what_the_report_writes(document):
    text = document.read_text("utf-8")
    assert report.TABLE.search(text)
    assert report.written(text, all_tables()) == text


def test_a_table_that_was_changed_by_hand_is_noticed():
    text = "a\n<!-- table: x -->\n| 1 |\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    new = report.written(text, {"x": "| 2 |"})
    assert new == (
        "a\n<!-- table: x -->\n| 2 |\n<!-- end -->\nb\n"
        f"<!-- table: y -->\n{report.MISSING}\n<!-- end -->\n"
    )
    assert report.written(new, {"x": "| 2 |"}) == new
