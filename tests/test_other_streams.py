"""Simulators that draw from elsewhere than from their generator: no noise is repeated unsaid."""
# ruff: noqa: NPY002 - that is what they do

from __future__ import annotations

import multiprocessing
import pickle
import random
import time
import weakref
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from numba import njit

import abctree
from abctree.data import Rows
from abctree.problem import Discrepancy, other_streams

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
FORK = multiprocessing.get_context("fork")
KEPT = np.random.default_rng(0)
KEPT_TWISTER = np.random.RandomState(0)
KEPT_STANDARD = random.Random(0)


def given(theta, rng):
    return theta + rng.normal(size=1)


def legacy(theta, rng):
    nap()
    return theta + np.random.normal(size=1)


def standard(theta, rng):
    return theta + random.gauss(0.0, 1.0)


def nap():
    """Long enough for all workers to have something to do."""
    time.sleep(0.001)


def kept(theta, rng):
    nap()
    return theta + KEPT.normal(size=1)


def kept_twister(theta, rng):
    nap()
    return theta + KEPT_TWISTER.normal(size=1)


def kept_standard(theta, rng):
    nap()
    return theta + KEPT_STANDARD.gauss(0.0, 1.0)


def many(theta, rng):
    return theta + np.random.normal(size=theta.shape)


@pytest.fixture(scope="module", autouse=True)
def kept_anew():
    """Make anew what was there at the collection: of that the garbage collector does not tell."""
    made = (pickle.loads(pickle.dumps(kept)) for kept in (KEPT, KEPT_TWISTER, KEPT_STANDARD))
    globals().update(zip(("KEPT", "KEPT_TWISTER", "KEPT_STANDARD"), made, strict=True))


class Keeps:
    """Has a generator of its own, which is sent to the workers with it."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def __call__(self, theta, rng):
        nap()
        return theta + self.rng.normal(size=1)


class MakesLate:
    """Makes its generator when it first needs one."""

    rng = None

    def __call__(self, theta, rng):
        if MakesLate.rng is None:
            MakesLate.rng = np.random.default_rng(4)
        nap()
        return theta + MakesLate.rng.normal(size=1)


class PoolOfTheUser:
    """An executor of the user's: it knows nothing of abctree's, and forks."""

    def __init__(self, pool):
        self.pool = pool

    def chunks(self, work, rows):
        begun = [(part, self.pool.apply_async(work, (part,))) for part in rows.parts(5)]
        return ((part, task.get(30)) for part, task in begun)


def problem(simulator, **kwargs):
    return abctree.Problem({"a": (-5.0, 5.0)}, simulator, [0.5], **kwargs)


def play(simulator, executor=None, n=200, rng=1, **kwargs):
    p = simulator if isinstance(simulator, abctree.Problem) else problem(simulator)
    settings = {"n_simulations": n, "rng": rng, "n_pilot": 50, "proposal": "boxes", **kwargs}
    return abctree.abc_tree(p, executor=executor, **settings)


def forked(simulator, **kwargs):
    with ProcessPoolExecutor(3, FORK) as pool:
        return play(simulator, abctree.Pool(pool, chunk=3), **kwargs)


def n_noises(result):
    """Different values of the noise; as it is added, answers at other parameters are not equal."""
    table = result.table
    assert len(np.unique(table.distance)) == len(table)
    return len(np.unique(np.round(table.summary - table.theta, 9)))


def note(result):
    (said,) = (w for w in result.warnings if "draws random numbers" in w)
    return said


def is_silent(result):
    return not any("draws random numbers" in w for w in result.warnings)


@pytest.mark.slow
@pytest.mark.parametrize(("simulator", "name"), [(legacy, "np.random"), (standard, "random")])
def test_no_noise_is_repeated_by_a_pool_that_forks_and_the_stream_is_named(simulator, name):
    result = forked(simulator)
    assert n_noises(result) == 200
    assert f"from {name}: the same seed need not give the same run" in note(result)
    assert f"gave {name} a seed for each task" in note(result)


@pytest.mark.slow
def test_without_a_seed_for_each_task_forks_repeat_noise(monkeypatch):
    monkeypatch.setattr(other_streams, "_seed", lambda *_: None)  # forks inherit this
    assert n_noises(forked(legacy)) < 200
    monkeypatch.setattr(other_streams, "_SEEDED", ())  # the twin of those that are not seeded
    assert "repeat each other's noise" in note(forked(legacy))


@pytest.mark.slow
def test_a_task_that_is_made_again_is_no_alarm():
    work = Discrepancy(problem(legacy).measurement, 1)
    rows = Rows(np.linspace(-4.0, 4.0, 3)[:, None], np.arange(3))
    with ProcessPoolExecutor(1, FORK) as first, ProcessPoolExecutor(1, FORK) as second:
        one, two = (pool.submit(work, rows).result(30) for pool in (first, second))
    np.testing.assert_array_equal(one.summary, two.summary)
    drawn = {*one.other_streams, *two.other_streams}
    assert len(drawn) == 2
    assert len({(stream.name, stream.state) for stream in drawn}) == 2


@pytest.mark.slow
def test_a_pool_behind_an_executor_of_the_user_repeats_no_noise():
    with FORK.Pool(3) as pool:
        result = play(legacy, PoolOfTheUser(pool))
        pool.terminate()
    assert n_noises(result) == 200
    assert "np.random" in note(result)


@pytest.mark.slow
def test_tasks_of_a_vectorised_simulator_repeat_no_noise():
    assert n_noises(forked(problem(many, vectorized=True, batch_size=3))) == 200


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [kept, kept_twister, kept_standard, Keeps(), MakesLate()])
def test_noise_from_a_generator_that_the_simulator_keeps_is_told_to_be_repeated(simulator):
    result = forked(simulator)
    assert n_noises(result) < 200
    kind = {kept_twister: "MT19937", kept_standard: "Random"}.get(simulator, "PCG64")
    assert f"from a {kind} generator of its own" in note(result)
    assert "repeat each other's noise" in note(result)
    assert "posterior cannot be trusted" in note(result)


@pytest.mark.slow
def test_spawned_workers_that_import_a_seed_are_told_to_repeat_noise():
    result = play(kept, abctree.Processes(2, chunk=3))
    assert n_noises(result) < 200
    assert "repeat each other's noise" in note(result)


def counts(theta, rng):
    return rng.poisson(np.exp(theta))


def is_deterministic(theta, rng):
    return np.minimum(theta, 1.0)


def is_rounded(theta, rng):
    return np.round(theta + rng.normal(size=1))


def logs_of_counts(theta, rng):
    return np.log1p(rng.binomial(10_000, 1.0 / (1.0 + np.exp(-theta))))


class KeepsWhatItIsGiven:
    """Remembers the generator of the last simulation."""

    def __call__(self, theta, rng):
        self.rng = rng
        return theta + rng.normal(size=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "simulator",
    [given, counts, is_deterministic, is_rounded, logs_of_counts, KeepsWhatItIsGiven()],
)
def test_equal_answers_are_no_alarm(simulator):
    assert is_silent(forked(simulator))
    assert is_silent(play(simulator))


def test_the_search_for_generators_passes_by_proxies_of_what_is_gone(monkeypatch):
    monkeypatch.setattr(other_streams, "_searches", Counter())
    monkeypatch.setattr(other_streams, "_generators", [])
    held = [weakref.proxy(Counter()), np.random.PCG64(2)]
    with pytest.raises(ReferenceError):
        isinstance(held[0], np.random.PCG64)
    other_streams.search(12345)
    assert any(x is held[1] for x in other_streams._generators)


def test_in_this_process_the_stream_is_named_and_its_state_is_left_alone():
    np.random.seed(1)
    state = np.random.get_state()[1].tolist()
    for executor in (None, abctree.Threads(2)):
        assert is_silent(play(given, executor))
    assert np.random.get_state()[1].tolist() == state
    for executor in (None, abctree.Threads(2)):
        said = note(play(legacy, executor))
        assert "from np.random: the same seed" in said
        assert "Worker processes" not in said


@njit
def compiled_noise():
    return np.random.normal()


def compiled(theta, rng):
    return theta + compiled_noise()


@pytest.mark.slow
def test_the_stream_of_compiled_code_is_named_and_has_no_seed():
    assert "from np.random in numba: the same seed" in note(play(compiled))
    assert "a seed for each task" not in note(forked(compiled))


@pytest.mark.slow
def test_what_was_drawn_elsewhere_is_remembered_in_the_folder(tmp_path):
    p, folder = problem(kept), tmp_path / "run"
    with ProcessPoolExecutor(2, FORK) as pool:
        first = abctree.abc_tree(
            p, n_simulations=100, rng=1, store=folder, executor=abctree.Pool(pool, chunk=3)
        )
    assert "repeat each other's noise" in note(first)
    assert note(abctree.load(folder, p)) == note(first)
    assert note(abctree.resume(folder, p, n_simulations=150)) == note(first)


@pytest.mark.slow
def test_a_resumed_run_whose_workers_begin_again_is_told_to_repeat_noise(tmp_path):
    p, folder = problem(kept), tmp_path / "run"
    for n in (100, 200):
        # One worker, of which no other can be the double, but its successor is.
        with closing(abctree.Processes(1, "fork", chunk=10)) as executor:
            if n == 100:
                abctree.abc_tree(p, n_simulations=n, rng=1, store=folder, executor=executor)
                assert "repeat each other" not in note(abctree.load(folder, p))
            else:
                abctree.resume(folder, p, n_simulations=n, executor=executor)
    assert "repeat each other's noise" in note(abctree.load(folder, p))


@pytest.mark.slow
def test_other_methods_say_it_too():
    for method in (abctree.rejection, abctree.smc):
        # Workers that have drawn before, one more often than the other, need not repeat each other.
        with ProcessPoolExecutor(2, FORK) as pool:
            executor = abctree.Pool(pool, chunk=3)
            result = method(problem(kept), n_simulations=150, rng=1, executor=executor)
        assert "repeat each other's noise" in note(result)
