"""Ctrl-C at awkward moments: it waits for the simulator, and what is returned is sound."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import abctree
from abctree.answers.mode import from_run
from abctree.baselines import smc
from abctree.problems import gaussian_mixture
from abctree.running.interrupts import Interrupts
from abctree.tree import inner_loop, outer_loop

#: Where Ctrl-C comes: a method, and a function of the library that it calls.
BOXES = partial(abctree.abc_tree, proposal="boxes")  # of thinned draws the mass is about one
PLACES = [
    (BOXES, inner_loop, "pull_arms"),
    (BOXES, inner_loop, "update_beliefs"),
    (BOXES, outer_loop, "_cut_folds"),
    (BOXES, outer_loop, "update_denominators"),
    (abctree.map_tree, inner_loop, "update_beliefs"),
    (abctree.map_tree, outer_loop, "_cut_folds"),
    (abctree.smc, smc, "draw"),
    (abctree.smc, smc, "_record"),
    (abctree.smc, smc, "_learn"),
]


def disturb(monkeypatch, module, name, at=3):
    """Press Ctrl-C when a function is called for the third time."""
    own, calls = getattr(module, name), []

    def disturbed(*args, **kwargs):
        calls.append(name)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return own(*args, **kwargs)

    monkeypatch.setattr(module, name, disturbed)
    return calls


def is_sound(result):
    """Whether the rows are those of the rounds, and the mixture of boxes has a mass of one."""
    is_whole = len(result.table) == result.rounds[-1].last and np.isfinite(result.weights()).all()
    if result.method == "smc":  # its points are refused at random, so that its mass is about one
        return is_whole
    cube = np.random.default_rng(0).random((4000, 2))
    density = result.mixture_ratio(result.problem.prior.from_cube(cube))
    return is_whole and abs(density.mean() - 1.0) < 6.0 * density.std() / np.sqrt(len(cube))


@pytest.mark.parametrize(("method", "module", "name"), PLACES)
def test_ctrl_c_while_the_library_computes_costs_no_row(monkeypatch, method, module, name):
    calls = disturb(monkeypatch, module, name)
    result = method(gaussian_mixture(2), n_simulations=3000, rng=1)
    assert len(calls) >= 3
    assert result.stopped_because == "interrupted"
    assert 60 < result.n_simulations < 3000
    assert is_sound(result)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("method", "module", "name"), PLACES)
def test_without_holding_it_back_the_run_is_lost(monkeypatch, method, module, name):
    monkeypatch.setattr(Interrupts, "__enter__", lambda self: self)
    disturb(monkeypatch, module, name)
    try:
        result = method(gaussian_mixture(2), n_simulations=3000, rng=1)
    except KeyboardInterrupt:
        return
    # Within the inner loop it is caught at any time, but then rows may lack their density.
    assert name == "pull_arms" or not is_sound(result)


def test_ctrl_c_in_the_search_for_the_mode_ends_the_search_and_not_the_run(monkeypatch):
    calls = disturb(monkeypatch, from_run, "find_mode", at=1)
    result = abctree.map_tree(gaussian_mixture(2), n_simulations=2000, rng=1)
    assert not calls, "it is found when it is asked for"
    with pytest.raises(KeyboardInterrupt):
        result.mode()
    assert np.isfinite(result.mode().theta).all()
    result.mode()
    assert len(calls) == 2, "it is found once"


def test_the_second_ctrl_c_does_not_wait(monkeypatch):
    own = outer_loop._cut_folds

    def disturbed(*args):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return own(*args)

    monkeypatch.setattr(outer_loop, "_cut_folds", disturbed)
    with pytest.raises(KeyboardInterrupt):
        abctree.abc_tree(gaussian_mixture(2), n_simulations=2000, rng=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_simulator_is_let_through_at_once():
    calls = []

    def simulate(theta, rng):
        calls.append(1)
        if len(calls) == 500:
            signal.raise_signal(signal.SIGINT)
        return theta + rng.normal(size=2)

    problem = abctree.Problem({"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, simulate, np.zeros(2))
    result = abctree.abc_tree(problem, n_simulations=3000, rng=1)
    assert result.stopped_because == "interrupted"
    assert len(calls) == 500


@contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_somebody_else_stays():
    seen = []
    with handled_by(lambda *_: seen.append(1)), Interrupts():
        signal.raise_signal(signal.SIGINT)
    assert seen == [1]


def test_in_another_thread_there_is_nothing_to_hold_back():
    found = []

    def run():
        found.append(abctree.abc_tree(gaussian_mixture(2), n_simulations=500, rng=1))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60.0)
    assert not thread.is_alive()
    assert found[0].n_simulations == 500
