"""The simulation of a cluster: exact where the answer can be told by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import cluster


def test_one_worker_is_always_busy():
    times = cluster.lognormal(np.zeros((300, 1)), np.random.default_rng(1))
    for block, lookahead in ((1, 0), (40, 0), (40, 3)):
        assert cluster.wall(times, [100, 200], 1, block, lookahead) == pytest.approx(times.sum())


def test_a_block_waits_for_its_last_simulation():
    times = np.array([1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    # The pilot ends at 1; the straggler keeps the second worker until 4, and the next block waits.
    assert cluster.wall(times, [2, 5], 2, block=2, lookahead=0) == 6.0
    # Begun ahead, the next block is done meanwhile.
    assert cluster.wall(times, [2, 5], 2, block=2, lookahead=1) == 5.0
    # More workers than tasks are idle.
    assert cluster.wall(times, [2, 5], 9, block=2, lookahead=0) == 6.0


def test_times_have_a_mean_of_one():
    theta = np.random.default_rng(2).uniform(-5.0, 5.0, size=(20_000, 2))
    for times_of in cluster.TIMES.values():
        assert times_of(theta, np.random.default_rng(3)).mean() == pytest.approx(1.0, abs=0.03)
    assert cluster.near(theta, np.random.default_rng(3)).max() > 2.0
