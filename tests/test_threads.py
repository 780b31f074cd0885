"""Threads that nobody asked for: they save time, and no number knows of them."""

from __future__ import annotations

import os
import threading
from functools import partial

import numpy as np
import pytest

import abctree
from abctree.problems import gauss, gaussian_mixture, lotka_volterra


def noisy(theta, rng):
    """A plain function of the user's, some calls of which fail."""
    data = theta + 0.3 * rng.standard_normal(theta.shape)
    return np.where(theta[:, :1] > 0.8, np.nan, data)


def constrained():
    return abctree.Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)},
        noisy,
        np.array([0.5, 0.6]),
        vectorized=True,
        constraint=lambda t: t["a"] < t["b"],
    )


RUNS = {
    "default": partial(abctree.abc_tree, gauss(2), n_simulations=6000),
    "boxes": partial(abctree.abc_tree, gaussian_mixture(5), n_simulations=9000, proposal="boxes"),
    "kernels": partial(
        abctree.abc_tree, gauss(3), n_simulations=5000, proposal=["boxes", "kernels"]
    ),
    "summaries": partial(abctree.abc_tree, lotka_volterra(), n_simulations=5000),
    "constraint and failures": partial(abctree.abc_tree, constrained(), n_simulations=5000),
    "cart": partial(abctree.abc_tree, gauss(2), n_simulations=4000, partitioner="cart"),
    "map_tree": partial(abctree.map_tree, gauss(2), n_simulations=4000),
    "rejection": partial(abctree.rejection, gauss(2), n_simulations=20_000),
    "smc": partial(abctree.smc, gauss(2), n_simulations=4000),
}


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


@pytest.mark.parametrize("name", RUNS)
def test_run_has_the_same_numbers_on_any_number_of_processors(monkeypatch, name):
    alone = on(monkeypatch, 1, RUNS[name])
    for n in (2, 3):
        assert_equal(alone, on(monkeypatch, n, RUNS[name]))


def test_run_with_summaries_in_its_store_has_the_same_numbers(monkeypatch, tmp_path):
    alone, *others = (
        on(monkeypatch, n, RUNS["summaries"], keep_summaries="store", store=tmp_path / str(n))
        for n in (1, 2, 3)
    )
    for other in others:
        assert_equal(alone, other)


def test_folds_are_dealt_with_in_threads_that_end_with_their_round(monkeypatch, started):
    on(monkeypatch, 1, RUNS["default"])
    assert not started
    on(monkeypatch, 2, RUNS["default"])
    assert len(started) >= 4
    assert not any(name.startswith("abctree") for name in map(str, threading.enumerate()))
    # Where it is not worth it there is none.
    started.clear()
    on(monkeypatch, 2, partial(abctree.abc_tree, gauss(2), n_simulations=1000))
    assert not started
