"""Threads that nobody asked for: they save time, and no number knows of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from functools import partial

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import abctree
from abctree.problems import gauss, gaussian_mixture, lotka_volterra


def noisy(theta, rng):
    """A plain function of the user's, some calls of which fail."""
    data = theta + 0.3 * rng.standard_normal(theta.shape)
    return np.where(theta[:, :1] > 0.8, np.nan, data)


SQUARE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}


def constrained():
    return abctree.Problem(
        SQUARE,
        noisy,
        np.array([0.5, 0.6]),
        vectorized=True,
        constraint=lambda t: t["a"] < t["b"],
    )


RUNS = {
    "default": partial(abctree.abc_tree, gauss(2), n_simulations=6000, block=300),
    "boxes": partial(abctree.abc_tree, gaussian_mixture(5), n_simulations=9000, proposal="boxes"),
    "kernels": partial(
        abctree.abc_tree, gauss(3), n_simulations=5000, block=250, proposal=["boxes", "kernels"]
    ),
    "summaries": partial(abctree.abc_tree, lotka_volterra(), n_simulations=5000, block=250),
    "constraint and failures": partial(
        abctree.abc_tree, constrained(), n_simulations=5000, block=250
    ),
    "cart": partial(abctree.abc_tree, gauss(2), n_simulations=4000, partitioner="cart"),
    "map_tree": partial(abctree.map_tree, gauss(2), n_simulations=4000),
    "rejection": partial(abctree.rejection, gauss(2), n_simulations=20_000),
    "smc": partial(abctree.smc, gauss(2), n_simulations=4000),
}
SLOW = ("kernels", "summaries", "constraint and failures", "cart", "map_tree")


@pytest.fixture
def started(monkeypatch):
    """Names of the threads that have begun."""
    names, start = [], threading.Thread.start

    def noted(thread):
        names.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return names


def on(monkeypatch, n, run, **settings):
    """A run on a machine of n processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n)), raising=False)
    return run(rng=1, **settings)


def columns(result):
    table = result.table
    names = ("cube", "theta", "summary", "distance", "proposal", "denominator", "arm", "fold")
    return {name: getattr(table, name) for name in names}


def assert_equal(one, other):
    for name, column in columns(one).items():
        np.testing.assert_array_equal(column, columns(other)[name], err_msg=name)
    assert one.failures.count == other.failures.count
    assert one.rounds[-1].rng_state == other.rounds[-1].rng_state


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in RUNS]
)
def test_run_has_the_same_numbers_on_any_number_of_processors(monkeypatch, name):
    alone = on(monkeypatch, 1, RUNS[name])
    for n in (2, 3):
        assert_equal(alone, on(monkeypatch, n, RUNS[name]))


@pytest.mark.slow
def test_run_with_summaries_in_its_store_has_the_same_numbers(monkeypatch, tmp_path):
    alone, *others = (
        on(monkeypatch, n, RUNS["summaries"], keep_summaries="store", store=tmp_path / str(n))
        for n in (1, 3)
    )
    for other in others:
        assert_equal(alone, other)


@pytest.mark.parametrize("n_simulations", [600, pytest.param(5000, marks=pytest.mark.slow)])
def test_answer_has_the_same_numbers_on_any_number_of_processors(monkeypatch, n_simulations):
    result = abctree.abc_tree(lotka_volterra(), n_simulations=n_simulations, rng=1)
    read = {}
    for n, blas in ((1, 1), (2, 2), (3, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=n: set(range(n)), raising=False)
        fresh = replace(result)  # which remembers no answer
        with threadpool_limits(blas, "blas"):
            read[n, blas] = fresh.answer(), fresh.fit(), fresh.calibration(20)
    answer, fit, calibration = read.pop((1, 1))
    assert answer.reading.n > 0
    for other, other_fit, other_calibration in read.values():
        np.testing.assert_array_equal(answer.theta, other.theta)
        assert answer.reading == other.reading
        np.testing.assert_array_equal(fit.distances, other_fit.distances)
        np.testing.assert_array_equal(fit.misses, other_fit.misses)
        np.testing.assert_array_equal(calibration.ranks, other_calibration.ranks)


def test_rows_are_read_in_threads_if_the_distance_may_be_called_in_them(monkeypatch, started):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

    def city_block(simulated, observed):
        assert threading.current_thread() is threading.main_thread()
        return np.abs(simulated - observed).sum(axis=1)

    problem = partial(abctree.Problem, SQUARE, noisy, np.array([0.5, 0.6]), vectorized=True)
    for distance, expected in (("euclidean", 2), (city_block, 0)):
        result = abctree.rejection(problem(distance=distance), n_simulations=1000, rng=1)
        started.clear()
        assert result.answer().reading is not None
        assert len(set(started)) == expected


@pytest.mark.slow
def test_folds_are_dealt_with_in_threads_that_end_with_their_round(monkeypatch, started):
    on(monkeypatch, 1, RUNS["default"], executor="serial")
    assert not started
    on(monkeypatch, 2, RUNS["default"], executor="serial")
    assert len(started) >= 4
    assert not any(name.startswith("abctree") for name in map(str, threading.enumerate()))
    # Where it is not worth it there is none.
    started.clear()
    run = partial(abctree.abc_tree, gauss(2), n_simulations=1000, executor="serial")
    on(monkeypatch, 2, run)
    assert not started


# Simulators ---------------------------------------------------------------------------------------


class Sleeper:
    """A simulator that waits, as compiled code would compute, and notes in which threads."""

    def __init__(self):
        self.threads = set()

    def __call__(self, theta, seeds):
        self.threads.add(threading.current_thread().name)
        time.sleep(2e-4 * len(theta))
        return theta + 1e-9 * (seeds[:, None] % 1000)


class WillingSleeper(Sleeper):
    releases_lock = True


def sleepy(simulator, **more):
    prior = {"a": (-1.0, 1.0), "b": (-1.0, 1.0)}
    return abctree.Problem(prior, simulator, np.zeros(2), vectorized="seeds", **more)


@pytest.mark.slow
def test_simulator_that_releases_the_lock_has_all_processors(monkeypatch):
    plain, willing = Sleeper(), WillingSleeper()
    alone = on(monkeypatch, 2, abctree.abc_tree, problem=sleepy(plain), n_simulations=1500)
    assert plain.threads == {"MainThread"}
    result = on(monkeypatch, 2, abctree.abc_tree, problem=sleepy(willing), n_simulations=1500)
    assert len(willing.threads) == 3  # two, and that of the run, before it is known how long it is
    assert_equal(alone, result)
    # Nor on one processor, nor where it is said who simulates.
    for n, executor in ((1, None), (2, "serial")):
        willing.threads.clear()
        run = partial(abctree.rejection, sleepy(willing), n_simulations=500, executor=executor)
        on(monkeypatch, n, run)
        assert willing.threads == {"MainThread"}


def test_short_blocks_stay_where_the_run_is(monkeypatch, started):
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # nothing takes any time
    on(monkeypatch, 2, partial(abctree.rejection, gauss(2), n_simulations=5000))
    assert not started


def test_processes_of_a_pool_leave_the_other_processors_alone(monkeypatch, started):
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    willing = WillingSleeper()
    on(monkeypatch, 2, abctree.abc_tree, problem=sleepy(willing), n_simulations=2500, block=125)
    assert not started


def test_threads_that_nobody_asked_for_do_not_look_ahead(monkeypatch):
    run = partial(abctree.abc_tree, gauss(2), n_simulations=500)
    assert on(monkeypatch, 32, run).plan.lookahead == 0
    assert on(monkeypatch, 32, run, executor="threads").plan.lookahead == 1


def test_ctrl_c_ends_a_run_in_threads(monkeypatch):
    willing = WillingSleeper()
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = on(monkeypatch, 2, abctree.abc_tree, problem=sleepy(willing), n_simulations=10**5)
    timer.join(60.0)
    assert result.stopped_because == "interrupted"
    assert len(willing.threads) == 3
    assert 500 < len(result.table) < 10**5
    assert np.isfinite(result.table.denominator).all()


def test_what_may_be_called_in_threads_is_compiled_or_says_so():
    @abctree.releases_lock
    def says_so(data):
        return data

    class Own:
        def __call__(self, simulated, observed):
            return np.abs(simulated - observed).sum(axis=1)

    compiled, holds = numba.njit(nogil=True)(noisy), numba.njit(noisy)
    of = partial(sleepy, summary=None, distance="euclidean")
    for problem, expected in [
        (of(compiled), True),
        (of(holds), False),
        (of(noisy), False),
        (of(abctree.releases_lock(partial(noisy))), True),
        (of(partial(compiled)), True),
        (of(compiled, summary=np.copy), False),
        (of(compiled, summary=says_so), True),
        (of(compiled, distance="mad"), True),
        (of(compiled, distance=Own()), False),
        (of(compiled, distance=lambda s, o: abs(s - o).sum()), False),
        (gauss(2), True),
        (lotka_volterra(), True),
        (abctree.Models({"one": gauss(2), "other": gauss(2)}), True),
        (abctree.Models({"one": of(compiled), "other": of(noisy)}), False),
        (abctree.Problem({"a": (0.0, 1.0)}, compiled, np.zeros(1), vectorized=True), False),
    ]:
        assert problem.measurement.is_for_threads is expected, problem
