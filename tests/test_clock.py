"""`stop={"seconds": ...}` counts from the first simulation, whoever makes it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import abctree
from tests.conftest import Clock

METHODS = [
    abctree.abc_tree, abctree.map_tree, partial(abctree.smc, block=20), abctree.rejection,
]  # fmt: skip
#: Seconds that workers take to start, and a simulation; the limit of the runs.
START, LIMIT = 100.0, 150.0


class SlowToStart:
    """An executor whose workers start when they are first asked, like a pool's."""

    def __init__(self, clock, start=START):
        self.clock, self.start = clock, start

    def chunks(self, work, rows):
        self.clock.now += self.start
        self.start = 0.0
        yield rows, work(rows)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [0.0, START, 100 * START])
def test_start_of_workers_is_not_counted(method, start, monkeypatch):
    clock = Clock(monkeypatch)
    executor = SlowToStart(clock, start)
    result = method(
        clock.problem(), n_simulations=1000, rng=1, stop={"seconds": LIMIT}, executor=executor
    )
    assert result.stopped_because == "150 seconds passed"
    assert LIMIT <= result.n_simulations < LIMIT + 25  # it is asked after a block


@pytest.mark.parametrize("method", METHODS)
def test_clock_of_a_resumed_run_begins_with_its_first_new_simulation(method, monkeypatch, tmp_path):
    clock = Clock(monkeypatch)
    clock.reading = 0.0

    def slow_to_read(t):
        clock.now += clock.reading
        return np.ones(len(t["a"]), dtype=bool)

    def simulate(theta, rng):
        clock.reading = 0.0
        return clock.simulate(theta, rng)

    p = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [1.0], constraint=slow_to_read)
    method(p, n_simulations=1000, rng=1, stop={"seconds": LIMIT}, store=tmp_path)
    before = abctree.load(tmp_path, p).n_simulations
    clock.reading = START
    more = abctree.resume(
        tmp_path, p, stop={"seconds": LIMIT}, executor=SlowToStart(clock, 100 * START)
    )
    assert more.stopped_because == "150 seconds passed"
    assert LIMIT <= more.n_simulations - before < LIMIT + 60


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spawn", "fork"])
def test_workers_that_start_are_not_counted(kind):
    said = []

    class Asked:
        every_block = True

        def reason(self, progress):
            said.append((time.monotonic() - began, progress.seconds))
            return "asked"

    p = abctree.Problem({"a": (-5.0, 5.0)}, slow_and_random, [1.0])
    began = time.monotonic()
    executor = abctree.Processes(2, kind)
    abctree.abc_tree(p, n_simulations=200, rng=1, executor=executor, stop=Asked())
    wall, seconds = said[0]
    assert seconds >= 5 * 0.02 / 2  # five simulations of two workers, and not less
    if kind == "spawn":  # a worker loads NumPy first
        assert wall - seconds > 0.1


def slow_and_random(theta, rng):
    time.sleep(0.02)
    return theta + rng.normal(size=1)


def test_seconds_are_counted_where_workers_have_another_clock(monkeypatch):
    """A worker whose clock is off by an hour moves the beginning at most to that of the run."""
    clock = Clock(monkeypatch)

    class Elsewhere(SlowToStart):
        off = 0.0

        def chunks(self, work, rows):
            for part, done in super().chunks(work, rows):
                yield part, replace(done, began=done.began + self.off)

    for off in (-3600.0, 3600.0):
        executor = Elsewhere(clock, 0.0)
        executor.off = off
        result = abctree.rejection(
            clock.problem(), n_simulations=1000, rng=1, stop={"seconds": LIMIT},
            executor=executor,
        )  # fmt: skip
        assert LIMIT <= result.n_simulations <= LIMIT + 40
        assert np.isfinite(result.table.distance).all()


@pytest.mark.parametrize("executor", [abctree.Serial, lambda timeout: abctree.Threads(2)])
def test_simulations_that_are_given_up_count_from_their_beginning(executor):
    """The twin has no limit of time: its clock runs as well."""
    said = []

    class Asked:
        every_block = True

        def reason(self, progress):
            said.append(progress.seconds)
            return "asked"

    def simulate(theta, rng):
        time.sleep(0.05)
        return theta + rng.normal(size=1)

    p = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [1.0])
    with contextlib.suppress(abctree.SimulatorError):  # nothing but failures
        abctree.abc_tree(p, n_simulations=200, rng=1, executor=executor(timeout=0.02), stop=Asked())
    assert said[0] >= 5 * 0.02 * 0.9
