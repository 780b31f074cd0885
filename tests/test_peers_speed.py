"""The comparison with other libraries: one law for all simulators, and runs without any peer."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from abctree.problems.truth import GaussianMixtureTruth
from benchmarks import peers_speed, peers_speed_cases
from benchmarks.speed import Version
from experiments import command

CASES = [case for case in peers_speed_cases.CASES if not case.endswith("simulator")]


def of_arrays(theta, rng):
    return peers_speed_cases.simulate(theta, rng)


def one_by_one(theta, rng):
    return np.array([peers_speed_cases.simulate_one(a, b, rng) for a, b in theta])


def swapped(theta, rng):
    """The twin: each component with the spread of the other."""
    wide = rng.random(len(theta)) < 0.3
    away, sd = np.where(wide, 0.0, 3.0), np.where(wide, 0.5, 1.0)
    return theta + away[:, None] + sd[:, None] * rng.standard_normal(theta.shape)


def z_of(simulator, rng):
    """Share of hits of the ball around the data, in standard errors from its closed form."""
    theta = np.tile([[1.5, 1.5], [-1.0, -1.0]], (10_000, 1))
    hits = np.linalg.norm(simulator(theta, rng) - peers_speed_cases.OBSERVED, axis=1) < 1.0
    rate = GaussianMixtureTruth(2).likelihood(theta, 1.0)
    error = np.sqrt((rate * (1.0 - rate)).sum())
    assert error / rate.sum() < 0.01
    return (hits.sum() - rate.sum()) / error


@pytest.mark.parametrize("simulator", [of_arrays, one_by_one])
def test_simulators_have_the_law_of_the_truth(simulator):
    assert abs(z_of(simulator, np.random.default_rng(1))) < 3.5
    assert abs(z_of(swapped, np.random.default_rng(1))) > 10


def test_simulators_have_the_law_of_the_truth_for_the_generator_of_elfi():
    assert abs(z_of(of_arrays, np.random.RandomState(1))) < 3.5


def test_methods_and_simulators_are_cases_of_libraries_that_are_known():
    named = {*peers_speed.METHODS, *peers_speed.REJECTIONS, *peers_speed.REJECTIONS.values()}
    assert named == set(peers_speed_cases.CASES)
    assert {peers_speed.library(case) for case in named} == set(peers_speed.PACKAGES)


def test_scores_are_those_of_the_weighted_draws():
    theta = GaussianMixtureTruth(2).draws(4000, 0.0, rng=1)
    answer = {"theta": theta, "weights": np.full(4000, 3.0), "epsilon": 0.5, "made": 8000}
    found = peers_speed.scores(0.004, answer)
    assert found["µs"] == pytest.approx(0.5)
    assert found["ESS"] == pytest.approx(4000)
    assert found["TV20"] < 0.07
    # The twin: all weight on the wide mode.
    answer["weights"] = 1.0 * (theta[:, 0] > 0.5)
    assert peers_speed.scores(0.004, answer)["TV20"] > 0.5
    assert peers_speed.scores(0.004, answer)["ESS"] < 3000


def test_tables_have_medians_with_ranges_and_ratios_of_neighbours():
    line = {"case": "x", "T": 1000, "made": [1000, 1000, 1200], "µs": [3.0, 30.0, 4.0]}
    line |= {"ε": [0.5, 0.5, 0.5], "ESS": [10.0, 11.0, 12.0], "TV20": [0.1, 0.3, 0.2]}
    numbers = {"versions": {"x": "1.0"}, "load": [0.5, 1.5], "rows": [line]}
    numbers["rejection"] = [{**line, "simulator, µs": [1.0, 10.0, 2.0]}]
    found = peers_speed.tables(numbers)
    assert (
        "| x | 1000 (1000 to 1200) | 4 (3 to 30) | 0.5 | 11 (10 to 12) | 0.2 (0.1 to 0.3) |"
        in found["peers_speed-1000"]
    )
    assert "| x | 4 (3 to 30) | 2 (1 to 10) | 3 (2 to 3) |" in found["peers_speed-rejection"]
    assert "x 1.0" in found["peers_speed-load"]
    assert "0.5 at the beginning" in found["peers_speed-load"]


@pytest.mark.slow
def test_without_a_peer_ours_are_measured_and_the_others_named(tmp_path, monkeypatch, capsys):
    missing = dict.fromkeys(peers_speed.PACKAGES, "no_such_package")
    monkeypatch.setattr(peers_speed, "PACKAGES", missing | {"abctree": "abctree"})
    peers_speed.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "ELFI is left out: python -m pip install no_such_package" in printed
    numbers = command.read_json(tmp_path / "benchmarks" / "results" / "peers_speed.json")
    ours = [case for case in peers_speed.METHODS if case.startswith("abctree")]
    assert [line["case"] for line in numbers["rows"]] == ours
    assert all(line["made"] == [2000] and line["µs"][0] > 0.0 for line in numbers["rows"])
    (rejection,) = numbers["rejection"]
    assert rejection["simulator, µs"][0] < rejection["µs"][0]


@pytest.fixture(scope="module")
def process():
    """A process of all cases."""
    with Version(command.ROOT / "src", peers_speed.CASES) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_answers_with_weighted_draws_and_their_largest_distance(case, process):
    if importlib.util.find_spec(peers_speed.PACKAGES[peers_speed.library(case)]) is None:
        pytest.skip("needs the library")
    _, found = process.time(case, 2000, 1)
    _, again = process.time(case, 2000, 1)
    theta, weights = np.array(found["theta"]), np.array(found["weights"])
    assert theta.shape == (len(weights), 2)
    # A population of ours that the budget cuts short answers from half of its size on.
    assert len(weights) >= peers_speed_cases.draws_of(2000) // 2
    assert np.abs(theta).max() <= 5.0
    assert weights.min() >= 0.0
    assert weights.sum() > 0.0
    # ELFI's thresholds end where the next one would not fit into the budget.
    assert 0.5 * 2000 <= found["made"] <= 3 * 2000
    # Of 2 000 prior draws the closest 60 are within about .98: π ε² of 10 × 10.
    assert 0.0 < found["epsilon"] < 2.0
    assert again == found
