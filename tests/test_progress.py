"""How far a run is: the bar, the function that is told, the log."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import types
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import abctree
from abctree import Progress
from tests.simulators import kill

METHODS = ["abc_tree", "map_tree", "smc", "rejection"]
SEEN = Progress(
    n_simulations=1000, budget=10_000, round=3, epsilon=0.25, acceptance_rate=0.031, ess=412.3,
    n_failures=7, seconds=5.0,
)  # fmt: skip


def problem(simulator=lambda theta, rng: theta + rng.normal(size=2)):
    return abctree.Problem({"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, simulator, [1.0, -1.0])


# What is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "limit", "left"),
    [(5, np.inf, "45s"), (100, np.inf, "15m"), (4000, np.inf, "10h00m"), (10, 40, "30s"),
     (1e5, np.inf, "10d")],
)  # fmt: skip
def test_progress_has_all_that_one_wants_to_know(seconds, limit, left):
    said = str(replace(SEEN, seconds=float(seconds), limit=limit))
    rate = f"{1000 / seconds:.3g}"
    assert said == f"round 3  1000/10k  {rate}/s  {left} left  ε 0.25  acc 3.1%  ESS 412  7 failed"


def test_progress_fits_a_terminal_of_eighty_columns():
    long = Progress(
        n_simulations=123_456, budget=149_999, round=112, epsilon=0.000123456,
        acceptance_rate=0.99999, ess=9999.4, n_failures=98_765, seconds=150.0,
    )  # fmt: skip
    assert len(str(long)) <= 80
    assert len(str(replace(long, seconds=1.2e6))) <= 80
    assert str(replace(long, round=0)).startswith("pilot  123k/150k  823/s  32s left  ")


def test_what_a_former_process_made_is_not_in_the_rate(tmp_path):
    seen = []
    abctree.abc_tree(problem(), n_simulations=500, rng=1, store=tmp_path / "run")
    abctree.resume(tmp_path / "run", problem(), n_simulations=800, progress=seen.append)
    assert (seen[-1].n_simulations, seen[-1].n_read) == (800, 500)
    assert seen[-1].rate == 300 / seen[-1].seconds
    assert seen[0].rate == 0.0


# The bar ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_bar_shows_pilot_and_blocks_and_changes_nothing(method, capsys, monkeypatch):
    monkeypatch.setattr("abctree.running.progress._REFRESH", 0.0)
    play = getattr(abctree, method)
    plain = play(problem(), n_simulations=1200, rng=3)
    assert capsys.readouterr().err == "", "standard error is no terminal"
    shown = play(problem(), n_simulations=1200, rng=3, progress=True)
    states = capsys.readouterr().err.split("\r")
    assert sum(state.startswith("pilot") for state in states) >= 2
    assert sum(state.startswith("round 1 ") for state in states) >= 1
    assert len(states) > len(shown.rounds) + 2
    assert states[-1].strip() == "", "the result is what stays"
    np.testing.assert_array_equal(plain.table.distance, shown.table.distance)


@pytest.mark.parametrize("method", METHODS)
def test_progress_false_is_silent_where_somebody_looks(method, capsys, monkeypatch):
    monkeypatch.setattr("abctree.running.progress.somebody_looks", lambda: True)
    play = getattr(abctree, method)
    play(problem(), n_simulations=300, rng=3, progress=False)
    assert capsys.readouterr().err == ""
    play(problem(), n_simulations=300, rng=3)
    assert "pilot" in capsys.readouterr().err


def test_runs_within_others_have_no_bar(capsys, monkeypatch):
    monkeypatch.setattr("abctree.running.progress.somebody_looks", lambda: True)
    abctree.calibrate(problem(), n_datasets=1, n_simulations=300, rng=1, reading="posterior")
    session = abctree.Session(problem(abctree.elsewhere), n_simulations=100, rng=1)
    session.ask()
    assert capsys.readouterr().err == ""


def test_a_notebook_has_a_bar(monkeypatch, capsys):
    def shell(config):
        return types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(config=config))

    monkeypatch.setitem(sys.modules, "IPython", shell({"TerminalIPythonApp": {}}))
    abctree.rejection(problem(), n_simulations=300, rng=3)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "IPython", shell({"IPKernelApp": {}}))
    abctree.rejection(problem(), n_simulations=300, rng=3)
    assert "pilot" in capsys.readouterr().err


CODE = """
import time, abctree
def simulate(theta, rng):
    time.sleep(0.001)
    if rng.random() < 0.1:
        raise ValueError
    return theta + rng.normal()
problem = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [1.0])
abctree.rejection(problem, n_simulations=400, chunk=400, rng=1)
"""


def on_terminal(columns):
    """What a run writes on a terminal of so many columns."""
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, np.array([24, columns, 0, 0], dtype=np.uint16))
    with subprocess.Popen([sys.executable, "-c", CODE], stderr=theirs, stdout=theirs) as run:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            written += part
        assert run.wait(60) == 0
    os.close(ours)
    return written.decode().split("\r")


@pytest.mark.slow
def test_a_terminal_of_eighty_columns_shows_a_run_while_a_block_is_made():
    states = on_terminal(80)
    assert max(map(len, states)) <= 80
    inside = [state for state in states if state.startswith(("pilot", "round 1"))]
    assert len(inside) > 4, "all but the first simulations are one block"
    words = ("/400  ", "/s  ", " left  ", " failed")
    assert all(word in inside[-1] for word in words), inside


@pytest.mark.slow
def test_a_narrow_terminal_is_not_overrun():
    assert max(map(len, on_terminal(40))) <= 40


@pytest.mark.slow
def test_nothing_is_written_where_there_is_no_terminal():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True, timeout=60)
    assert done.stderr == done.stdout == b""


def test_the_first_compilation_is_said_once(monkeypatch):
    jit = sys.modules["abctree.kernels.jit"]
    monkeypatch.setattr(jit, "_listener", None)
    said = []
    jit.when_compiling(lambda: said.append("now"))
    try:
        for module, expected in (
            ("other", []),
            ("abctree.new", ["now"]),
            ("abctree.more", ["now"]),
        ):
            kernel = jit.numba.njit(types.FunctionType(compile("lambda: 1", "", "eval"), {})())
            kernel.py_func.__module__ = module
            assert kernel() == 1
            assert said == expected
    finally:
        jit.event.unregister("numba:compile", jit._listener)


def test_what_is_compiled_is_said_above_the_bar(capsys, monkeypatch):
    said = []
    monkeypatch.setattr("abctree.running.progress.when_compiling", said.append)
    rejection = abctree.rejection(
        problem(lambda theta, rng: (said and said.pop()(), theta)[1]),
        n_simulations=200, rng=1, progress=True,
    )  # fmt: skip
    lines = capsys.readouterr().err.replace("\r", "\n").split("\n")
    assert rejection.failures.count == 0
    assert next(line for line in lines if "compiles its kernels" in line).startswith("abctree comp")
    assert max(map(len, lines)) <= 80


# Functions --------------------------------------------------------------------------------------


class EveryBlock:
    every_block = True

    def __init__(self):
        self.seen = []

    def __call__(self, progress):
        self.seen.append(progress)


@pytest.mark.parametrize("method", METHODS)
def test_a_function_may_be_told_of_every_block(method):
    told = EveryBlock()
    result = getattr(abctree, method)(problem(), n_simulations=1200, rng=3, progress=told)
    made = [p.n_simulations for p in told.seen]
    assert made == sorted(made)
    assert made[-1] == result.n_simulations
    assert sum(p.round == 0 for p in told.seen) >= 2, "those of the pilot, too"
    assert max(p.n_simulations - q.n_simulations for q, p in pairwise(told.seen)) < 600


# The log ----------------------------------------------------------------------------------------


def test_rounds_failures_and_the_end_are_logged(caplog):
    def simulate(theta, rng):
        if theta[0] > 4.0:
            raise OverflowError("too large")
        return theta + rng.normal(size=2)

    caplog.set_level(logging.INFO, "abctree")
    result = abctree.abc_tree(problem(simulate), n_simulations=1200, rng=3, proposal="boxes")
    said = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "abctree"]
    first = result.failures.first[0].index
    failed = [text for level, text in said if level == "WARNING"]
    assert failed == [f"simulation {first} failed: OverflowError: too large"]
    rounds = [text.split("  ")[0] for level, text in said if text.startswith("round ")]
    assert rounds == [f"round {r.index}" for r in result.rounds[1:]]
    assert said[-1][1].startswith("ended after 1200 simulations and ")
    assert said[-1][1].endswith(result.stopped_because)


def test_reasons_that_all_differ_are_not_all_logged(caplog):
    def simulate(theta, rng):
        if theta[0] > 0.0:
            raise ValueError(f"no solution at {theta[0]}")
        return theta

    caplog.set_level(logging.WARNING, "abctree")
    abctree.rejection(problem(simulate), n_simulations=300, rng=3)
    assert len([r for r in caplog.records if "failed: ValueError" in r.getMessage()]) == 10


@pytest.mark.slow
def test_lost_workers_are_logged(caplog):
    with abctree.Processes(1) as workers:
        result = abctree.rejection(problem(kill), n_simulations=100, rng=3, executor=workers)
    lost = [
        r.getMessage() for r in caplog.records if r.getMessage().startswith("a worker was lost")
    ]
    assert result.failures.count >= 1
    assert len(lost) >= 3 * result.failures.count
    assert "exited with code 7" in lost[0]


def test_nothing_is_printed_by_a_log_that_nobody_listens_to(capsys):
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("abctree").handlers)
