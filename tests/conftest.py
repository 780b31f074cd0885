"""Shared pieces of the tests."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

import abctree

# Numba compiles inside the first example of a property: no deadline.
settings.register_profile(
    "abctree", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("abctree")
# A shell that starts the tests in the background has them ignore Ctrl-C, which some are about.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Give each process of the tests a processor: threads of a run would wait for the others."""
    if hasattr(config, "workerinput") and hasattr(os, "sched_setaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        number = int(config.workerinput["workerid"].removeprefix("gw"))
        os.sched_setaffinity(0, {usable[number % len(usable)]})


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave what is imported and collected out of what the garbage collector searches: it stays.

    Of the rest it searches the new less often, for most of a test's time it found nothing.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in memory where there is one: most tests that write are not about the disk."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
            yield Path(other)


@pytest.fixture
def full_disk():
    """Files may not grow beyond a kilobyte, as on a full disk; calling it makes room."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def make_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    yield make_room
    make_room()


def z_score(estimates, truth):
    """How many standard errors the mean of replicates is from the truth."""
    estimates = np.asarray(estimates, dtype=float)
    return (estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(len(estimates)))


def until(holds, seconds=60.0):
    """Wait until something holds, but not for ever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.01)
    raise TimeoutError(f"not within {seconds} s")


def pytest_collection_modifyitems(items):
    """Give tests that take minutes more of them than the others have."""
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker(pytest.mark.timeout(3600))


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: 1e9 + self.now)

    def simulate(self, theta, rng):
        """A simulation takes a second."""
        self.now += 1.0
        return theta + rng.normal(size=theta.shape)

    def problem(self):
        return abctree.Problem({"a": (-5.0, 5.0)}, self.simulate, [1.0])


def command(*arguments):
    """What the command line answers."""
    from abctree.faces import cli

    return CliRunner().invoke(cli.main, [str(a) for a in arguments])
