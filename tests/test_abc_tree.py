"""`abc_tree` end to end: budgets, seeds, failures, stopping, and results on few draws."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import abctree

from .conftest import z_score


def one_by_one(theta, rng):
    return theta + rng.normal(size=2)


def vectorized(theta, rng):
    return theta + rng.normal(size=theta.shape)


def problem(simulator=vectorized, *, vectorized=True, **kwargs):
    prior = kwargs.pop("prior", {"a": (-5.0, 5.0), "b": (-5.0, 5.0)})
    return abctree.Problem(prior, simulator, [1.0, -1.0], vectorized=vectorized, **kwargs)


def same(first, second):
    assert len(first.table) == len(second.table)
    for column in ("theta", "distance", "proposal", "arm", "round", "fold", "denominator"):
        np.testing.assert_array_equal(
            getattr(first.table, column), getattr(second.table, column), err_msg=column
        )


@pytest.mark.slow
@pytest.mark.parametrize("preset", [None, "published"])
@pytest.mark.parametrize("n", [2, 7, 100, 101, 1234])
def test_abc_tree_spends_its_budget_exactly(preset, n):
    calls = 0

    def count(theta, rng):
        nonlocal calls
        calls += 1
        return one_by_one(theta, rng)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        result = abctree.abc_tree(
            problem(count, vectorized=False), n_simulations=n, rng=0, preset=preset
        )
        assert str(result.summary())
    assert calls == n == result.n_simulations == len(result.table)
    assert "budget" in result.stopped_because


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{}, {"preset": "published"}, {"partitioner": "dyadic"}])
def test_abc_tree_with_the_same_seed_is_the_same_run(kwargs):
    first = abctree.abc_tree(problem(), n_simulations=600, rng=3, **kwargs)
    second = abctree.abc_tree(problem(), n_simulations=600, rng=3, **kwargs)
    other = abctree.abc_tree(problem(), n_simulations=600, rng=4, **kwargs)
    same(first, second)
    assert (first.table.theta != other.table.theta).all()


def test_abc_tree_takes_every_kind_of_rng_of_spec_7():
    seed = np.random.SeedSequence(5)
    runs = [
        abctree.abc_tree(problem(), n_simulations=300, rng=rng, proposal="boxes")
        for rng in (5, seed, np.random.PCG64(5), np.random.default_rng(5))
    ]
    for run in runs[1:]:
        same(runs[0], run)
    generator = np.random.default_rng(5)
    abctree.abc_tree(problem(), n_simulations=300, rng=generator, proposal="boxes")
    again = abctree.abc_tree(problem(), n_simulations=300, rng=generator, proposal="boxes")
    assert (again.table.theta != runs[0].table.theta).any()


@pytest.mark.slow
@settings(max_examples=10)
@given(chunk=st.integers(1, 200), seed=st.integers(0, 1000))
def test_the_execution_chunk_never_changes_a_result(chunk, seed):
    for simulator, mode in ((one_by_one, False), (vectorized, True)):
        p = problem(simulator, vectorized=mode, batch_size=16)
        given = {"n_simulations": 400, "rng": seed, "proposal": "boxes"}
        whole = abctree.abc_tree(p, **given)
        parts = abctree.abc_tree(p, **given, executor=abctree.Serial(chunk))
        same(whole, parts)


def test_a_simulator_with_a_shared_stream_would_be_noticed():
    # The twin that must fail: one generator for all calls ties results to the chunks.
    p = problem(vectorized, vectorized=True, batch_size=10**6)
    whole = abctree.abc_tree(p, n_simulations=400, rng=0, proposal="boxes")
    q = problem(vectorized, vectorized=True, batch_size=10)
    parts = abctree.abc_tree(q, n_simulations=400, rng=0, proposal="boxes")
    assert (whole.table.distance != parts.table.distance).any()


@cache
def plain_run():
    return abctree.abc_tree(problem(), n_simulations=500, rng=2)


@pytest.mark.slow
@settings(max_examples=12)
@given(power=st.floats(-10, 10), shift=st.floats(-3, 3))
def test_rescaling_a_parameter_changes_nothing_in_the_cube(power, shift):
    scale = 10.0**power

    def simulate(theta, rng):
        return np.column_stack([theta[:, 0] / scale - shift, theta[:, 1]]) + rng.normal(
            size=theta.shape
        )

    low, high = (-5.0 + shift) * scale, (5.0 + shift) * scale
    scaled = problem(simulate, prior={"a": (low, high), "b": (-5.0, 5.0)})
    other = abctree.abc_tree(scaled, n_simulations=500, rng=2)
    np.testing.assert_allclose(other.table.cube, plain_run().table.cube, rtol=1e-6)


def test_block_of_one_and_large_blocks_both_run_and_differ():
    one = abctree.abc_tree(problem(), n_simulations=400, rng=0, block=1)
    many = abctree.abc_tree(problem(), n_simulations=400, rng=0, block=200)
    assert len(one.table) == len(many.table) == 400
    assert (one.table.theta != many.table.theta).any()


class Late:
    """Answers in the order it is asked, but simulates as late as it may."""

    def __init__(self):
        self.begun = self.most = 0

    def chunks(self, work, rows):
        self.begun += 1
        self.most = max(self.most, self.begun)
        return self.made(work, rows)

    def made(self, work, rows):
        self.begun -= 1
        yield rows, work(rows)


@pytest.mark.slow
def test_lookahead_keeps_more_blocks_begun_and_is_as_reproducible():
    late = Late()
    first = abctree.abc_tree(
        problem(), n_simulations=3000, rng=1, block=50, lookahead=2, executor=late
    )
    assert late.most == 3
    second = abctree.abc_tree(problem(), n_simulations=3000, rng=1, block=50, lookahead=2)
    same(first, second)
    assert len(first.table) == 3000


def test_lookahead_biases_nothing():
    z = [
        abctree.abc_tree(
            problem(), n_simulations=5000, rng=seed, block=250, lookahead=3, schedule=[4.0, 2.0],
            proposal="boxes",
        ).evidence(2.0).estimate
        for seed in range(10)
    ]  # fmt: skip
    truth = 4 * np.pi / 100  # the ball over the square; the borders are four sds away
    assert abs(z_score(z, truth)) < 3.5


# Failures ---------------------------------------------------------------------------------------


def rubbish(theta, rng):
    """Fails in every way that is known, in turns."""
    x = theta + rng.normal(size=2)
    kind = int(rng.integers(8))
    if kind == 0:
        raise RuntimeError("out of memory")
    return [x, None, x * np.nan, [np.inf, 0.0], x[:1], "text", np.zeros((2, 2)), x][kind]


def test_failed_simulations_are_counted_rejections():
    result = abctree.abc_tree(
        problem(rubbish, vectorized=False), n_simulations=2000, rng=0, proposal="boxes"
    )
    failed = ~np.isfinite(result.table.distance)
    assert result.failures.count == failed.sum() > 1000
    assert np.isnan(result.table.summary[failed]).any(axis=1).sum() > 1000
    posterior = result.posterior()
    assert np.isfinite(posterior.theta).all()
    assert np.isfinite(posterior.distance).all()
    assert any("out of memory" in f.traceback for f in result.failures.first if f.traceback) or (
        result.failures.reasons["RuntimeError: out of memory"] > 0
    )
    assert "failed" in str(result.summary())


def test_failed_simulations_stay_in_the_denominator_of_the_evidence():
    def half(theta, rng):
        return theta + rng.normal(size=2) if rng.random() < 0.5 else None

    whole, halved = (
        abctree.abc_tree(made, n_simulations=5000, rng=0, proposal="boxes").evidence(1.0)
        for made in (problem(), problem(half, vectorized=False))
    )
    error = np.hypot(whole.standard_error / 2, halved.standard_error)
    assert abs(halved.estimate - whole.estimate / 2) < 4 * error
    assert abs(halved.estimate - whole.estimate) > 8 * error  # what dropping them would give


def test_one_bad_row_does_not_lose_the_other_rows_of_a_vectorized_call():
    def simulate(theta, rng):
        if (theta[:, 0] > 4.0).any():
            raise ValueError("a above 4")
        return theta + rng.normal(size=theta.shape)

    result = abctree.abc_tree(problem(simulate), n_simulations=1000, rng=0, proposal="boxes")
    bad = result.table.theta[:, 0] > 4.0
    np.testing.assert_array_equal(~np.isfinite(result.table.distance), bad)
    assert result.failures.reasons["ValueError: a above 4"] == bad.sum() > 0


def test_a_simulator_of_the_wrong_shape_is_an_error_after_five_calls():
    calls = 0

    def simulate(theta, rng):
        nonlocal calls
        calls += 1
        return np.zeros(5)

    with pytest.raises(abctree.SimulatorError, match=r"shape \(5,\), but \(2,\) is needed"):
        abctree.abc_tree(problem(simulate, vectorized=False), n_simulations=1000, rng=0)
    assert calls == 5


def test_a_simulator_that_always_fails_is_an_error_and_not_the_prior():
    def simulate(theta, rng):
        raise RuntimeError("licence server down")

    with pytest.raises(abctree.SimulatorError, match="failed"):
        abctree.abc_tree(problem(simulate, vectorized=False), n_simulations=300, rng=0)


def test_infinite_distances_are_never_accepted():
    def simulate(theta, rng):
        return np.where(theta > 0, np.inf, theta + rng.normal(size=theta.shape))

    result = abctree.abc_tree(problem(simulate), n_simulations=2000, rng=0, proposal="boxes")
    assert (result.posterior(epsilon=np.inf).theta[:, 0] <= 0).all()


# Stopping ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "says"),
    [
        ({"rounds": 2}, "2 rounds"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"ess": 50.0}, "effective sample size"),
        ({"acceptance_rate": 0.99}, "acceptance rate"),
        ({"seconds": 1e-9}, "seconds"),
        ([abctree.stopping.TargetESS(50, epsilon=2.0)], "effective sample size"),
        (abctree.stopping.Rounds(1), "1 rounds"),
    ],
)
def test_abc_tree_stops_for_a_reason_and_gives_a_valid_result(stop, says):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        result = abctree.abc_tree(problem(), n_simulations=20_000, rng=0, stop=stop)
        assert says in result.stopped_because
        assert result.n_simulations < 20_000
        assert np.isfinite(result.table.denominator).all()
        assert len(result.posterior(epsilon=3.0)) > 0
        assert str(result.summary())


def test_interruption_from_the_keyboard_ends_with_what_there_is():
    calls = 0

    def simulate(theta, rng):
        nonlocal calls
        calls += 1
        if calls == 700:
            raise KeyboardInterrupt
        return one_by_one(theta, rng)

    result = abctree.abc_tree(
        problem(simulate, vectorized=False), n_simulations=2000, rng=0, block=50
    )
    assert result.stopped_because == "interrupted"
    assert 600 < result.n_simulations < 700
    assert np.isfinite(result.table.denominator).all()
    assert len(result.posterior(epsilon=2.0)) > 0


@pytest.mark.parametrize("method", ["abc_tree", "map_tree", "smc", "rejection"])
def test_progress_that_is_no_function_costs_no_simulation(method, tmp_path):
    calls = []

    def simulate(theta, rng):
        calls.append(1)
        return theta + rng.normal(size=2)

    with pytest.raises(abctree.ParameterError, match="`progress` must be True, False, None or a"):
        getattr(abctree, method)(
            problem(simulate), n_simulations=500, progress="bar", store=tmp_path / "run"
        )
    assert not calls
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["abc_tree", "map_tree", "smc", "rejection"])
def test_what_progress_raises_is_one_warning_and_changes_nothing(method):
    calls = []

    def watch(progress):
        calls.append(progress)
        raise ZeroDivisionError("no bar")

    play = getattr(abctree, method)
    with pytest.warns(abctree.AbctreeWarning, match="ZeroDivisionError: no bar") as caught:
        result = play(problem(), n_simulations=1500, rng=3, progress=watch)
    assert sum("`progress` raised" in str(w.message) for w in caught) == 1
    assert len(calls) > 1
    plain = play(problem(), n_simulations=1500, rng=3)
    np.testing.assert_array_equal(result.table.distance, plain.table.distance)


def test_an_interruption_in_progress_is_one():
    def watch(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        abctree.abc_tree(problem(), n_simulations=1000, rng=3, progress=watch)


def test_progress_is_told_after_each_round():
    seen = []
    settings = {"n_simulations": 3000, "rng": 0, "proposal": "boxes"}
    result = abctree.abc_tree(problem(), progress=seen.append, **settings)
    assert [p.round for p in seen] == [r.index for r in result.rounds[1:]]
    assert seen[-1].n_simulations == 3000
    assert all(a.epsilon >= b.epsilon for a, b in pairwise(seen))


def test_max_rounds_and_rolling_window():
    result = abctree.abc_tree(
        problem(), n_simulations=20_000, rng=0, max_rounds=3, window="rolling"
    )
    assert len(result.rounds) == 4
    assert result.stopped_because == "3 rounds played"


def test_a_floor_of_tied_distances_is_played_until_the_budget_ends():
    def simulate(theta, rng):
        return np.round(theta + rng.normal(size=theta.shape))

    result = abctree.abc_tree(problem(simulate), n_simulations=5000, rng=0, block=250)
    assert result.n_simulations == 5000
    assert result.epsilon > 0.0
    assert len(result.posterior(epsilon=result.epsilon)) > 100


# Few draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_accepted", [0, 1, 2])
def test_results_work_on_a_handful_of_draws(n_accepted):
    result = abctree.abc_tree(problem(), n_simulations=500, rng=0, proposal="boxes")
    epsilon = np.sort(result.table.distance)[n_accepted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        posterior = result.posterior(epsilon=epsilon)
        assert len(posterior) == n_accepted
        text = str(result.summary(epsilon=epsilon))
        assert "a" in text
        evidence = result.evidence(epsilon)
        low, high = evidence.interval()
        assert 0.0 <= low <= evidence.estimate <= high
        assert result.summary(epsilon=epsilon).to_dict()["n_draws"] == n_accepted


def test_a_target_out_of_reach_is_a_warning_and_the_best_there_is():
    result = abctree.abc_tree(problem(), n_simulations=400, rng=0)
    with pytest.warns(abctree.AbctreeWarning, match="5000"):
        posterior = result.posterior(ess=5000)
    assert posterior.epsilon <= result.rounds[1].epsilon
    assert 0 < posterior.ess < 400


# Settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"n_simulations": 0}, "n_simulations"),
        ({"n_simulations": 10.5}, "n_simulations"),
        ({"n_simulations": True}, "n_simulations"),
        ({"quota": 0}, "quota"),
        ({"block": -1}, "block"),
        ({"n_folds": 0}, "n_folds"),
        ({"defensive": 1.0}, "defensive"),
        ({"defensive": "0.1"}, "`defensive` must be a number, but got '0.1'"),
        ({"defensive": True}, "`defensive` must be a number"),
        ({"executor": abctree.Processes}, r"got the class Processes. .*executor=Processes\("),
        ({"stop": {"seconds": "3"}}, "seconds"),
        ({"window": "growing"}, "window"),
        ({"relabel": "now"}, "relabel"),
        ({"preset": "best"}, "preset"),
        ({"partitioner": "forest"}, "partitioner"),
        ({"partitioner": "grid"}, r"Grid\(100\)"),
        ({"utility": "omega7"}, "utility"),
        ({"schedule": "slow"}, "schedule"),
        ({"beliefs": 3}, "beliefs"),
        ({"stop": {"hours": 3}}, "stop"),
        ({"stop": {"seconds": -3}}, "stop"),
        ({"stop": [3]}, "stop"),
        ({"stop": ""}, "`stop` must hold rules .* but got ''"),
        ({"stop": "seconds"}, "got 'seconds'. Or write stop="),
    ],
)
def test_abc_tree_names_the_setting_that_breaks_its_rule(kwargs, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abctree.abc_tree(problem(), **{"n_simulations": 100, **kwargs})


@pytest.mark.parametrize("method", [abctree.abc_tree, abctree.map_tree, abctree.smc])
@pytest.mark.parametrize("n", [10**17, 2**62, 10**20])  # which NumPy refuses in three ways
def test_a_budget_that_memory_cannot_hold_is_told_in_a_sentence(method, n):
    rule = f"`n_simulations` must be as many as memory can hold, but got {n}. Begin with fewer"
    with pytest.raises(abctree.ParameterError, match=rule):
        method(problem(), n_simulations=n)


@pytest.mark.parametrize("method", [abctree.map_tree, abctree.smc])
def test_other_methods_name_a_setting_that_is_no_number(method):
    name = "defensive" if method is abctree.map_tree else "min_ess"
    with pytest.raises(abctree.ParameterError, match=f"`{name}` must be a number"):
        method(problem(), n_simulations=100, **{name: "1"})


@pytest.mark.parametrize("method", [abctree.abc_tree, abctree.rejection])
@pytest.mark.parametrize("name", ["epsilon", "ess"])
def test_posterior_and_evidence_name_a_tolerance_that_is_no_number(method, name):
    more = {"keep": 50} if method is abctree.rejection else {"proposal": "boxes"}
    result = method(problem(), n_simulations=500, rng=0, **more)
    for value in ("1", [1.0], 1j, True):
        with pytest.raises(abctree.ParameterError, match=f"`{name}` must be (a number|above 0)"):
            result.posterior(**{name: value})
    with pytest.raises(abctree.ParameterError, match=r"`epsilon` must be (a number|above 0)"):
        result.evidence("1")
    if name == "epsilon":  # the twin: numbers of any make are taken
        whole = result.posterior(epsilon=result.rounds[1].epsilon)
        for value in (np.float64(whole.epsilon), np.array(whole.epsilon)):
            assert len(result.posterior(epsilon=value)) == len(whole)


def test_weights_of_all_kinds_estimate_the_same_evidence():
    result = abctree.abc_tree(problem(), n_simulations=20_000, rng=1, block=1000)
    estimates = [result.evidence(1.0, kind) for kind in ("mixture", "round", "draw")]
    for e in estimates[1:]:
        assert abs(e.estimate - estimates[0].estimate) < 4 * np.hypot(
            e.standard_error, estimates[0].standard_error
        )
    with pytest.raises(abctree.ParameterError, match="weights"):
        result.weights("best")


def test_mixture_ratio_integrates_to_one():
    result = abctree.abc_tree(problem(), n_simulations=5000, rng=1, proposal="boxes")
    theta = stats.qmc.scale(stats.qmc.Sobol(2, rng=0).random_base2(14), -5, 5)
    assert result.mixture_ratio(theta).mean() == pytest.approx(1.0, abs=0.02)


def test_regression_adjustment_recovers_the_exact_posterior_of_a_normal_model():
    # θ ~ N(0, 9), y ~ N(θ, 1): the posterior sd is √0.9.  No bounds, so no logit: exactly linear.
    normal = problem(prior={"a": stats.norm(0, 3), "b": stats.norm(0, 3)})
    raw, adjusted = [], []
    for seed in range(6):
        result = abctree.abc_tree(normal, n_simulations=10_000, rng=seed, proposal="boxes")
        draws = result.posterior(epsilon=2.0)
        raw.append(draws.std())
        adjusted.append(draws.adjusted().std())
    assert abs(z_score(np.ravel(adjusted), np.sqrt(0.9))) < 4
    assert np.std(adjusted) < 0.05
    assert z_score(np.ravel(raw), np.sqrt(0.9)) > 10


def test_histogram_has_the_mean_of_the_posterior():
    settings = {"schedule": [4.0, 2.0, 1.0], "proposal": "boxes"}
    result = abctree.abc_tree(problem(), n_simulations=12_000, rng=1, **settings)
    histogram = result.histogram()
    assert histogram.epsilon == 1.0
    np.testing.assert_allclose(histogram.mean(), result.posterior(epsilon=1.0).mean(), atol=0.1)
    np.testing.assert_allclose(histogram.mean(), [1.0, -1.0], atol=0.1)


def test_thompson_plays_the_best_arms_and_wastes_weight():
    finite = abctree.problems.finite_normal()
    settings = {
        "partitioner": abctree.Grid(100), "schedule": [1.0], "n_folds": 1, "quota": 10**6,
        "block": 20, "n_simulations": 4000, "rng": 0,
    }  # fmt: skip
    greedy = abctree.abc_tree(finite, policy=abctree.Thompson(), **settings)
    fair = abctree.abc_tree(finite, utility="ess", **settings)
    assert greedy.rounds[-1].acceptance_rate > 1.5 * fair.rounds[-1].acceptance_rate
    assert greedy.rounds[-1].ess < 0.5 * fair.rounds[-1].ess
    named = abctree.abc_tree(finite, policy="thompson", **settings)
    assert named.rounds[-1].acceptance_rate > 1.5 * fair.rounds[-1].acceptance_rate
    with pytest.raises(abctree.ParameterError, match="policy"):
        abctree.abc_tree(finite, policy="thomson", **settings)
