"""MAP-Tree as a run: budgets, stores, settings; its boxes, its beliefs, and what it finds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import Dyadic, LimitedShrinkage, MultiLevel, Peaks, problems
from abctree.data import Boxes
from abctree.testing import check_partitioner

P0 = problems.gaussian_mixture(2)


def same(one, other):
    return np.array_equal(one.table.theta, other.table.theta) and np.array_equal(
        one.table.distance, other.table.distance
    )


# Runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 37, 1_501])
def test_budget_is_exact(n):
    result = abctree.map_tree(P0, n_simulations=n, rng=1)
    assert result.n_simulations == len(result.table) == n
    assert str(result.summary())


@pytest.mark.slow
def test_a_seed_repeats_a_run_whatever_the_executor():
    one = abctree.map_tree(P0, n_simulations=1_500, rng=2)
    other = abctree.map_tree(P0, n_simulations=1_500, rng=2, executor="threads")
    assert same(one, other)
    assert one.mode().theta.tolist() == other.mode().theta.tolist()
    assert not same(one, abctree.map_tree(P0, n_simulations=1_500, rng=3))


@pytest.mark.slow
def test_a_stored_run_is_loaded_and_resumed_with_its_mode(tmp_path):
    whole = abctree.map_tree(P0, n_simulations=1_800, rng=4)
    first = abctree.map_tree(P0, n_simulations=1_800, rng=4, store=tmp_path / "a")
    assert same(first, whole)
    read = abctree.load(tmp_path / "a", P0)
    assert same(read, whole)
    assert read.mode().theta.tolist() == whole.mode().theta.tolist()
    more = abctree.resume(tmp_path / "a", P0, n_simulations=2_400)
    assert more.n_simulations == 2_400
    assert np.array_equal(more.table.theta[:1_700], whole.table.theta[:1_700])


@pytest.mark.slow
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path):
    calls = []

    def simulate(theta, rng):
        calls.append(len(theta))
        if sum(calls) > 1_000 and len(calls) < 10**6:
            calls.extend([0] * 10**6)
            raise KeyboardInterrupt
        return theta + rng.normal(size=theta.shape)

    def problem():
        return abctree.Problem(
            {"a": (-5.0, 5.0)}, simulate, observed=np.zeros(1), vectorized=True, batch_size=50
        )

    cut = abctree.map_tree(problem(), n_simulations=2_000, rng=5, store=tmp_path / "a")
    assert cut.stopped_because == "interrupted"
    assert cut.n_simulations < 2_000
    done = abctree.resume(tmp_path / "a", problem())
    whole = abctree.map_tree(problem(), n_simulations=2_000, rng=5)
    assert same(done, whole)


def test_failures_are_rejections():
    def simulate(theta, rng):
        x = theta + rng.normal(size=theta.shape)
        return np.where(theta > 1.0, np.nan, x)

    problem = abctree.Problem({"a": (-5.0, 5.0)}, simulate, np.zeros(1), vectorized=True)
    result = abctree.map_tree(problem, n_simulations=4_000, rng=1)
    assert result.failures.count > 100
    assert abs(result.mode().theta[0]) < 0.5
    assert "simulations failed" in str(result.summary())
    assert "share of failures by round" in str(result.summary())


def test_nothing_accepted_is_said():
    def simulate(theta, rng):
        return np.where(rng.random(len(theta)) < 1e-9, 0.0, np.inf)

    problem = abctree.Problem({"a": (0.0, 1.0)}, simulate, np.array(0.0), vectorized=True)
    with pytest.raises(abctree.SimulatorError, match="pilot"):
        abctree.map_tree(problem, n_simulations=300, rng=1)


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitioner", "policy"),
    [
        ("peaks", "thompson"), ("dyadic", "t3c"), ("cart", "thompson"),
        (Dyadic(n_splits=1, pick="modal"), "t3c"),
    ],
)  # fmt: skip
def test_parts_are_chosen_by_name_or_object(partitioner, policy):
    result = abctree.map_tree(
        P0, n_simulations=2_500, rng=1, partitioner=partitioner, policy=policy
    )  # fmt: skip
    assert np.abs(result.mode().theta + 1.0).max() < 0.8
    assert len(result.partition) > 1


def test_a_finite_space_is_a_grid_of_flat_arms():
    """Example 1: the mode over a hundred values."""
    mode = abctree.map_tree(
        problems.finite_normal(), n_simulations=6_000, rng=1, partitioner=abctree.Grid(100),
        schedule=[1.0],
    ).mode()  # fmt: skip
    assert abs(mode.theta[0] - 50.5) < 2.0
    assert mode.candidates[0].shape == "value"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"policy": "greedy"}, "`policy` must be one of"),
        ({"preset": "x"}, '`preset` must be "published"'),
        ({"n_simulations": 1}, "`n_simulations` must be"),
        ({"defensive": 2.0}, "`defensive` must be in"),
        ({"partitioner": "x"}, "`partitioner` must be"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(settings, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abctree.map_tree(P0, **{"n_simulations": 300, "rng": 1, **settings})


def test_a_problem_must_be_one():
    with pytest.raises(abctree.ParameterError, match="`problem` must be"):
        abctree.map_tree("x", n_simulations=10)


# What it finds ------------------------------------------------------------------------------------


def test_mode_of_example_2_is_found_with_a_small_error():
    """A few of the floor's repetitions; the twin is the paper's kernel mode of the same runs."""
    runs = [abctree.map_tree(P0, n_simulations=5_000, rng=500 + s) for s in range(4)]

    def squares(name):
        return np.array([((run.mode().estimates[name] + 1.0) ** 2).sum() for run in runs])

    assert squares("quadratic").mean() < 0.006
    assert squares("kernel").mean() > 0.006
    assert squares("box").max() < 1.0


SPIKE, PLATEAU = (0.4137, 0.4147), (0.6, 0.9)


def spiky(theta, rng):
    at = theta[:, 0]
    rate = np.where((at >= SPIKE[0]) & (at < SPIKE[1]), 1.0, 0.0)
    rate = np.where((at >= PLATEAU[0]) & (at < PLATEAU[1]), 0.2, rate)
    return np.where(rng.random(len(at)) < rate, 0.0, 1.0)[:, None]


SPIKY = abctree.Problem({"t": (0.0, 1.0)}, spiky, observed=np.zeros(1), vectorized=True)


@cache
def of_spiky():
    return abctree.map_tree(SPIKY, n_simulations=10_000, rng=0, schedule=[0.5])


@pytest.mark.xdist_group("spike")
def test_a_thin_spike_is_found():
    mode = of_spiky().mode()
    assert SPIKE[0] <= mode.theta[0] < SPIKE[1]


@pytest.mark.xdist_group("spike")
def test_a_thin_spike_is_lost_in_coarse_boxes():
    """The twin: without small boxes and a hearing for them, the plateau is all that is played."""
    coarse = abctree.map_tree(
        SPIKY, n_simulations=20_000, rng=0, schedule=[0.5], partitioner=Peaks(most=0),
        beliefs=MultiLevel(), policy=abctree.Thompson(),
    )  # fmt: skip

    def in_spike(run):
        at = run.table.theta[:, 0]
        return int(((at >= SPIKE[0]) & (at < SPIKE[1])).sum())

    assert in_spike(coarse) < 0.1 * in_spike(of_spiky())


# Parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
def test_peaks_conform(d):
    check_partitioner(Peaks(), d=d, rng=d)
    check_partitioner(Peaks(partitioner=Dyadic(), most=3), d=d, rng=d)


def test_peaks_make_a_box_of_surprising_acceptances(rng):
    cube = rng.random((4_000, 2))
    accepted = (np.abs(cube - [0.31, 0.72]) < 0.01).all(axis=1)
    cube[:3], accepted[:3] = [0.31, 0.72] + 0.004 * rng.random((3, 2)), True
    distance = np.where(accepted, 0.0, 1.0)
    boxes = Peaks().partition(cube, distance, 0.5, None, rng)
    own = boxes.volume[boxes.locate(np.array([[0.312, 0.722]]))[0]]
    assert own < 4.0 / 4_000
    assert Peaks(most=0).partition(cube, distance, 0.5, None, rng).volume.min() > 10.0 * own


def beliefs_of(rule, accepted, n):
    """η of four strips: `accepted` of n rows in the second, hardly any of many in the others."""
    problem = abctree.Problem({"a": (0.0, 1.0)}, lambda theta, rng: theta[0], 0.0)
    boxes = Dyadic(n_splits=3, min_draws=1).partition(
        np.linspace(0.01, 0.99, 40)[:, None], np.ones(40), 0.5, Boxes.whole(1),
        np.random.default_rng(0),
    )  # fmt: skip
    partition = problem.region.measure(boxes)
    arm = np.repeat([0, 1, 2, 3], [9_000, n, 9_000, 9_000])
    distance = np.ones(len(arm))
    distance[9_000 : 9_000 + accepted] = 0.0
    distance[::1_500] = 0.0
    weight = np.ones(len(arm))
    started = rule.start(
        partition, arm, distance, weight, epsilon=0.5, first_epsilon=1.0, count_epsilon=0.5
    )
    return started.arms()


def test_limited_shrinkage_believes_the_counts_of_a_surprising_box_and_else_another_rule():
    heard, shrunk = (beliefs_of(rule, 2, 3) for rule in (LimitedShrinkage(), MultiLevel()))
    assert heard.alpha[1] >= 3.0
    assert heard.mean[1] > 0.5
    assert shrunk.mean[1] < 0.3  # the twin
    others = [0, 2, 3]
    assert heard.alpha[others] == pytest.approx(shrunk.alpha[others])
    assert heard.beta[others] == pytest.approx(shrunk.beta[others])


def test_a_box_that_does_not_deserve_its_hearing_is_believed_to_be_like_its_parents():
    heard, shrunk = (beliefs_of(rule, 2, 900) for rule in (LimitedShrinkage(), MultiLevel()))
    assert heard.mean == pytest.approx(shrunk.mean)


def test_dyadic_cuts_the_box_of_the_largest_average_density(rng):
    prior = abctree.Problem({"a": stats.norm(0, 1)}, lambda theta, rng: theta[0], 2.0).prior
    cube = rng.random((20_000, 1))
    rate = np.exp(-0.5 * (prior.from_cube(cube)[:, 0] - 2.0) ** 2)  # the posterior's mode is 1
    distance = np.where(rng.random(len(cube)) < rate, 0.0, 1.0)
    modal = Dyadic(n_splits=40, pick="modal")

    def finest(rule):
        boxes = Boxes.whole(1)
        for _ in range(3):
            boxes = rule.partition(cube, distance, 0.5, boxes, rng)
        k = np.argmin(boxes.volume)
        return prior.from_cube(0.5 * (boxes.lower[k] + boxes.upper[k])[None])[0, 0]

    assert finest(modal.measured(prior)) == pytest.approx(1.0, abs=0.5)
    assert finest(modal) > 1.6  # the twin: volumes of the cube


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LimitedShrinkage(surprise=0.0), "`surprise` must be positive"),
        (lambda: Peaks(most=-1), "`most` must be a whole number of at least 0"),
        (lambda: Peaks(partitioner=3), "`partitioner` must have a method"),
        (lambda: Dyadic(pick="x"), "`pick` must be"),
    ],
)
def test_a_part_that_breaks_its_rule_is_named(make, says):
    with pytest.raises(abctree.ParameterError, match=says):
        make()


def test_published_preset_reads_its_mode_from_boxes_and_kernels():
    mode = abctree.map_tree(P0, n_simulations=600, rng=1, preset="published").mode()
    assert np.isfinite(mode.estimates["kernel"]).all()
    assert np.isfinite(mode.estimates["box"]).all()
