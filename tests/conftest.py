"""Shared pieces of the tests."""

from __future__ import annotations

import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Numba compiles inside the first example of a property: no deadline.
settings.register_profile(
    "abctree", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("abctree")


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


def in_memory(folder):
    """Yields a folder in memory where there is one, for tests that are not about the disk."""
    if not Path("/dev/shm").is_dir():
        yield folder
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
            yield Path(other)


def z_score(estimates, truth):
    """How many standard errors the mean of replicates is from the truth."""
    estimates = np.asarray(estimates, dtype=float)
    return (estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(len(estimates)))


@pytest.fixture
def time_limit():
    """A context in which a test fails after so many seconds, where it could hang for ever."""

    @contextmanager
    def limit(seconds):
        def late(*_):
            raise TimeoutError(f"not done after {seconds} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    return limit
