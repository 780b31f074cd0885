"""Blocks that are cut off half-way: what is finished of them is kept, and not made again."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

import abctree
from abctree.data import Failure, Rows, Simulations
from abctree.problem import Discrepancy, measurement, simulators
from abctree.running.executors import pooled
from tests.conftest import until
from tests.runs import (
    FILE,
    Notebook,
    chunks_in,
    chunks_of,
    differences,
    edit_last_chunk,
    in_child,
    kept,
    posix,
)

pytestmark = [posix, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]
N = 400
UNIT = 7
#: What the simulators do and have done: a file has no room for it, and a worker has its own.
STATE = {"calls": 0, "rows": 0, "interrupt": 0, "nap": 0.0}


@pytest.fixture(autouse=True)
def state():
    """All as in the beginning."""
    STATE.update(calls=0, rows=0, interrupt=0, nap=0.0)


@pytest.fixture
def hasty(monkeypatch):
    """Tasks of workers send what they have after 40 milliseconds, not after a second."""
    monkeypatch.setattr(pooled, "_SECONDS", 0.04)


def called(n):
    STATE["calls"] += 1
    if STATE["calls"] == STATE["interrupt"]:
        raise KeyboardInterrupt
    time.sleep(n * STATE["nap"])
    STATE["rows"] += n


def one(theta, rng):
    called(1)
    y = theta + rng.normal(size=2)
    if y[0] > 5.5:
        raise ValueError(f"too far: {y[0]:.1f}")
    return y


def many(theta, rng):
    called(len(theta))
    y = theta + rng.normal(size=theta.shape)
    y[y[:, 0] > 5.5] = np.nan
    return y


def seeded(theta, seeds):
    called(len(theta))
    noise = (seeds % np.uint64(1000)).astype(float)[:, None] / 500.0 - 1.0
    return theta + noise * [1.0, -0.7]


SIMULATORS = {
    "one by one": {"simulator": one},
    "vectorized": {"simulator": many, "vectorized": True, "batch_size": UNIT},
    "seeds": {"simulator": seeded, "vectorized": "seeds", "batch_size": UNIT},
}
KINDS = pytest.mark.parametrize("kind", SIMULATORS)
#: Each method with blocks that are long against the pilot.
ALL = {
    "abc_tree": partial(abctree.abc_tree, n_pilot=40, block=150, proposal="boxes"),
    "published": partial(abctree.abc_tree, preset="published", n_pilot=40, block=60),
    "map_tree": partial(abctree.map_tree, n_pilot=40, block=80),
    "smc": partial(abctree.smc, n_particles=40),
    "rejection": partial(abctree.rejection, keep=60, chunk=90),
    "rejection of all": partial(abctree.rejection, chunk=130, lookahead=2),
}
METHODS = pytest.mark.parametrize("method", ALL.values(), ids=ALL)
EXECUTORS = {
    "serial": abctree.Serial,
    "chunks": partial(abctree.Serial, chunk=11),
    "threads": partial(abctree.Threads, 2),
    "processes": partial(abctree.Processes, 2, "fork"),
    "long tasks": partial(abctree.Processes, 2, "fork", chunk=60),
}


def problem(kind="one by one", **kwargs):
    prior = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    return abctree.Problem(prior, observed=[1.0, -1.0], **SIMULATORS[kind], **kwargs)


@cache
def uninterrupted(method, kind="one by one"):
    return method(problem(kind), n_simulations=N, rng=1)


def different(first, second):
    return set(differences(first, second))


def resumed(folder, p, **kwargs):
    """The run, gone on with in this process, and the simulations that it made."""
    for thread in threading.enumerate():  # threads that were interrupted finish what they do
        if thread.name.startswith("abctree") and thread.name != "abctree-session":
            thread.join(10.0)
    STATE.update(calls=0, rows=0, interrupt=0, nap=0.0)
    result = abctree.resume(folder, p, **kwargs)
    return result, STATE["rows"]


# Ctrl-C -----------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize(
    "call", [41, 333, *(pytest.param(call, marks=pytest.mark.slow) for call in (42, 199))]
)
def test_ctrl_c_keeps_every_finished_simulation(tmp_path, method, call):
    p, whole = problem(), uninterrupted(method)
    STATE.update(calls=0, interrupt=call)
    first = method(p, n_simulations=N, rng=1, store=tmp_path / "x")
    n, noted = kept(tmp_path / "x")
    assert n + noted == call - 1
    why = f"; {noted} simulations of unfinished blocks are kept for abctree.resume"
    assert first.stopped_because == "interrupted" + (why if noted else "")
    loaded = abctree.load(tmp_path / "x", p)
    assert loaded.stopped_because == first.stopped_because
    again, made = resumed(tmp_path / "x", p)
    assert made == N - (call - 1)
    assert different(again, whole) == set()
    assert kept(tmp_path / "x") == (N, 0)
    assert different(abctree.load(tmp_path / "x", p), whole) == set()


@pytest.mark.parametrize("kind", ["vectorized", "seeds"])
@pytest.mark.parametrize("chunk", [None, 25])
def test_ctrl_c_keeps_every_finished_call(tmp_path, kind, chunk):
    p = problem(kind)
    method = partial(ALL["abc_tree"], p, n_simulations=N, rng=1, executor=abctree.Serial(chunk))
    whole = uninterrupted(ALL["abc_tree"], kind)
    for call in (9, 13, 20):
        folder = tmp_path / str(call)
        STATE.update(calls=0, rows=0, interrupt=call)
        method(store=folder)
        finished = STATE["rows"]
        assert sum(kept(folder)) == finished
        again, made = resumed(folder, p)
        assert made == N - finished
        assert different(again, whole) <= {"tracebacks"}


def test_call_of_which_a_part_is_kept_would_be_noticed(tmp_path, monkeypatch):
    """The twin: rows that share a generator, kept in part, make another run."""
    p = problem("vectorized")
    method = partial(ALL["abc_tree"], p, n_simulations=N, rng=1)
    whole = uninterrupted(ALL["abc_tree"], "vectorized")
    fill = simulators.Model.fill

    def early(*args):
        for n in fill(*args):
            yield n - 3
            yield n

    def interrupted(end):
        def clock():
            STATE["looks"] = STATE.get("looks", 0) + 1
            if STATE["looks"] == end:
                raise KeyboardInterrupt
            return 0.0

        return clock

    found = []
    for cut in (fill, early):
        STATE["looks"] = 0
        with monkeypatch.context() as patched:
            patched.setattr(simulators.Model, "fill", cut)
            clock = SimpleNamespace(monotonic=interrupted(31), time=lambda: 0.0)
            patched.setattr(measurement, "time", clock)
            folder = tmp_path / str(len(found))
            first = method(store=folder)
        assert first.stopped_because.startswith("interrupted; ")
        again, _ = resumed(folder, p)
        found.append("distance" in different(again, whole))
    assert found == [False, True]


@pytest.mark.parametrize("distance", ["mad", "euclidean"])
@pytest.mark.parametrize("summaries", [True, False])
def test_parts_of_the_pilot_and_runs_without_summaries_go_on(tmp_path, distance, summaries):
    p = problem(distance=distance)
    method = partial(
        abctree.abc_tree,
        p,
        n_simulations=N,
        rng=1,
        n_pilot=200,
        keep_summaries=summaries,
        proposal="boxes",
    )
    whole = method()
    for call in (13, 100, 205):
        STATE.update(calls=0, interrupt=call)
        method(store=tmp_path / f"{call}")
        assert sum(kept(tmp_path / f"{call}")) == call - 1
        again, made = resumed(tmp_path / f"{call}", p)
        assert made == N - (call - 1)
        assert different(again, whole) == set()


def test_run_that_is_interrupted_again_and_again_makes_no_simulation_twice(tmp_path):
    p, whole = problem(), uninterrupted(ALL["abc_tree"])
    made = 0
    for i in range(100):
        STATE.update(calls=0, rows=0, interrupt=23)
        if i == 0:
            result = ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x")
        else:
            result = abctree.resume(tmp_path / "x", p)
        made += STATE["rows"]
        assert sum(kept(tmp_path / "x")) == made
        if not result.stopped_because.startswith("interrupted"):
            break
    assert made == N
    assert i > 10
    assert different(result, whole) == set()


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("executor", ["threads", "processes", "long tasks"])
def test_ctrl_c_keeps_what_came_back_from_workers(tmp_path, hasty, kind, executor):
    p, whole = problem(kind), uninterrupted(ALL["abc_tree"], kind)
    STATE["nap"] = 0.005

    def press():
        """Once some of a block that is not of the pilot is on the disk."""
        until(lambda: kept(tmp_path / "x")[0] >= 40 and kept(tmp_path / "x")[1] > 5)
        os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press, daemon=True)
    finger.start()
    first = ALL["abc_tree"](
        p, n_simulations=N, rng=1, store=tmp_path / "x", executor=EXECUTORS[executor]()
    )
    finger.join(60.0)
    n, noted = kept(tmp_path / "x")
    assert first.n_simulations == n
    assert noted > 0
    assert f"{noted} simulations of unfinished blocks" in first.stopped_because
    again, made = resumed(tmp_path / "x", p)
    assert made == N - n - noted
    assert different(again, whole) <= {"tracebacks"}


class BlockByBlock:
    """An executor that tells of nothing before a block is whole."""

    def chunks(self, work, rows):
        yield rows, work(rows)


def test_executor_that_tells_of_whole_blocks_only_loses_the_others(tmp_path):
    """The twin: what the tests above call kept is not there by itself."""
    p, whole = problem(), uninterrupted(ALL["abc_tree"])
    STATE.update(calls=0, interrupt=199)
    method = partial(ALL["abc_tree"], p, n_simulations=N, rng=1)
    first = method(store=tmp_path / "x", executor=BlockByBlock())
    assert first.stopped_because == "interrupted"
    assert kept(tmp_path / "x") == (190, 0)
    # But it uses what another one has kept.
    STATE.update(calls=0, interrupt=199)
    method(store=tmp_path / "y")
    assert kept(tmp_path / "y") == (190, 8)
    again, made = resumed(tmp_path / "y", p, executor=BlockByBlock())
    assert made == N - 198
    assert different(again, whole) <= {"tracebacks"}


# Killed -----------------------------------------------------------------------------------------


def killed_half_way(folder, work):
    """Do `work` in another process, and kill that once a part of a block is on the disk."""
    child = in_child(work)

    def is_half_way():
        os.kill(child, signal.SIGSTOP)  # while it is looked at
        n, noted = kept(folder)
        if n >= 20 and noted > 0:
            return True
        os.kill(child, signal.SIGCONT)
        return False

    try:
        until(is_half_way)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return kept(folder)


@pytest.mark.slow
@METHODS
def test_killed_method_makes_no_simulation_twice(tmp_path, hasty, method):
    p, whole = problem(), uninterrupted(method)
    STATE["nap"] = 0.004
    n, noted = killed_half_way(
        tmp_path / "x", lambda: method(p, n_simulations=N, rng=1, store=tmp_path / "x")
    )
    assert noted > 0
    loaded = abctree.load(tmp_path / "x", p)
    assert loaded.n_simulations == n
    assert f"; {noted} simulations of unfinished blocks" in loaded.stopped_because
    again, made = resumed(tmp_path / "x", p)
    assert made == N - n - noted
    assert different(again, whole) <= {"tracebacks"}
    assert kept(tmp_path / "x") == (N, 0)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("executor", EXECUTORS)
def test_killed_run_makes_no_simulation_twice(tmp_path, hasty, kind, executor):
    p = problem(kind)
    method = partial(ALL["abc_tree"], p, n_simulations=N, rng=1)
    whole = uninterrupted(ALL["abc_tree"], kind)
    STATE["nap"] = 0.003
    make = EXECUTORS[executor]
    n, noted = killed_half_way(
        tmp_path / "x", lambda: method(store=tmp_path / "x", executor=make())
    )
    assert noted > 0
    again, made = resumed(tmp_path / "x", p)
    assert made == N - n - noted
    assert different(again, whole) <= {"tracebacks"}


def test_resumed_run_takes_parts_as_they_are(tmp_path):
    """The twin of all tests here: one bit of a part, and another run."""
    p, whole = problem(), uninterrupted(ALL["abc_tree"])
    STATE.update(calls=0, interrupt=199)
    ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x")
    edit_last_chunk(tmp_path / "x")
    again, _ = resumed(tmp_path / "x", p)
    assert "distance" in different(again, whole)


def test_block_after_a_straggler_is_kept_although_nobody_waits_for_it(tmp_path, hasty):
    """Two threads: one is held up by the first block, the other makes the second one."""
    hold, ready = threading.Event(), threading.Event()

    def slow(theta, rng):
        if STATE["calls"] == 43 and not ready.is_set():  # in the first block after the pilot
            STATE["calls"] += 1
            hold.wait(20.0)
        return one(theta, rng)

    p = abctree.Problem({"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, slow, [1.0, -1.0])
    settings = {"n_pilot": 40, "block": 60, "proposal": "boxes"}
    method = partial(abctree.abc_tree, p, n_simulations=N, rng=1, **settings)

    def press():
        until(lambda: kept(tmp_path / "x") >= (40, 59 + 60))
        ready.set()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    first = method(store=tmp_path / "x", executor=abctree.Threads(2, chunk=1), lookahead=1)
    hold.set()
    assert ready.is_set()
    assert first.n_simulations == 40
    assert kept(tmp_path / "x") == (40, 59 + 60)
    again, made = resumed(tmp_path / "x", p)
    assert made == N - 40 - 59 - 60
    assert different(again, method(lookahead=1)) <= {"tracebacks"}


def test_first_simulations_are_kept_too(tmp_path):
    p, whole = problem(), uninterrupted(ALL["abc_tree"])
    STATE.update(calls=0, interrupt=4)
    with pytest.raises(KeyboardInterrupt):
        ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x")
    assert kept(tmp_path / "x") == (0, 3)
    with pytest.raises(abctree.ParameterError, match="holds a run of 3 simulations"):
        abctree.abc_tree(p, n_simulations=N, rng=1, store=tmp_path / "x")
    with pytest.raises(abctree.StoreError, match="no simulations yet"):
        abctree.load(tmp_path / "x", p)
    again, made = resumed(tmp_path / "x", p)
    assert made == N - 3
    assert different(again, whole) == set()


def test_first_simulations_of_the_wrong_shape_are_not_kept(tmp_path, hasty):
    def wrong(theta, rng):
        time.sleep(0.02)
        return np.zeros(3)

    p = abctree.Problem({"a": (-5.0, 5.0)}, wrong, [1.0, -1.0])
    with pytest.raises(abctree.SimulatorError, match="shape"):
        abctree.abc_tree(p, n_simulations=N, rng=1, store=tmp_path / "x")
    assert kept(tmp_path / "x") == (0, 0)
    abctree.abc_tree(problem(), n_simulations=N, rng=1, store=tmp_path / "x")  # it is unused


def test_run_that_is_cut_off_and_extended_uses_its_parts(tmp_path):
    p = problem()
    STATE.update(calls=0, interrupt=199)
    ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x")
    last, made = resumed(tmp_path / "x", p, n_simulations=500)
    assert made == 500 - 198
    method = ALL["abc_tree"]
    method(p, n_simulations=N, rng=1, store=tmp_path / "y")
    assert different(abctree.resume(tmp_path / "y", p, n_simulations=500), last) == set()


# What is written, and when ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_simulation_is_written_once(tmp_path, executor):
    make = EXECUTORS[executor]
    ALL["abc_tree"](
        problem(), n_simulations=N, rng=1, store=tmp_path / "x", executor=make(), lookahead=1
    )
    index = np.concatenate([index for _, index in chunks_of(tmp_path / "x")])
    assert sorted(index.tolist()) == list(range(N))


@pytest.mark.slow
def test_slow_simulator_is_written_twenty_times_a_second(tmp_path):
    STATE["nap"] = 0.002
    ALL["abc_tree"](problem(), n_simulations=N, rng=1, store=tmp_path / "x")
    sizes = [len(index) for _, index in chunks_of(tmp_path / "x")]
    assert max(sizes) <= 0.05 / 0.002 + 1


@pytest.mark.slow
def test_disk_is_flushed_for_each_block_and_once_a_second(monkeypatch):
    store = Notebook()
    monkeypatch.setattr("abctree.running.ledger._SECONDS", 0.1)
    STATE["nap"] = 0.005
    ALL["abc_tree"](problem(), n_simulations=N, rng=1, store=store, stop={"rounds": 1})
    first = [first for first, _ in chunks_in(store.records())]
    flushed = store.flushed
    assert sum(flushed) >= len(set(first)) + 5  # a block of 150 takes 0.75 seconds
    assert sum(flushed) < 0.8 * len(flushed)


def test_parts_of_other_parameters_are_refused(tmp_path):
    p = problem()
    STATE.update(calls=0, interrupt=199)
    ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x")
    edit_last_chunk(tmp_path / "x", lambda kept: replace(kept, check=kept.check + 1))
    before = (tmp_path / "x" / FILE).read_bytes()
    with pytest.raises(abctree.StoreError, match="holds another run: from simulation 190 on"):
        resumed(tmp_path / "x", p)
    assert (tmp_path / "x" / FILE).read_bytes() == before


class Interrupted:
    """Ctrl-C comes when a part of the first block is back, of which two simulations failed."""

    def __init__(self, rows, done):
        self.rows, self.done = rows, done

    def __iter__(self):
        return self

    def __next__(self):
        raise KeyboardInterrupt

    def finished(self):
        failures = [Failure(i, (0.0, 0.0), "RuntimeError: killed") for i in (50, 53)]
        yield self.rows[:8], replace(self.done.take(np.arange(8), self.rows.index[:8]),
                                     failures=tuple(failures))  # fmt: skip


class ThenInterrupted:
    def chunks(self, work, rows):
        if rows.index[0] < 50:
            return iter([(rows, work(rows))])
        return Interrupted(rows, work(rows))


@pytest.mark.parametrize("unit", [1, 4])
def test_failures_that_came_with_ctrl_c_are_made_again(tmp_path, unit):
    """A program that a simulator had started may have been ended by it."""
    p = problem(**({} if unit == 1 else {"kind": "vectorized"}))
    if unit > 1:
        p = abctree.Problem(
            {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, many, [1.0, -1.0], vectorized=True,
            batch_size=unit,
        )  # fmt: skip
    method = partial(abctree.abc_tree, p, n_simulations=200, n_pilot=48, block=40, rng=1)
    result = method(store=tmp_path / "x", executor=ThenInterrupted())
    n = result.n_simulations
    lost = {50, 53} if unit == 1 else {*range(48, 56)} - {48 + 8, 49 + 8}
    index = {int(i) for first, index in chunks_of(tmp_path / "x") if first >= n for i in index}
    assert index == set(range(n, n + 8)) - lost
    assert kept(tmp_path / "x")[1] == len(index)
    again, _ = resumed(tmp_path / "x", p)
    assert different(again, method()) <= {"tracebacks"}


# Executors --------------------------------------------------------------------------------------


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_executors_give_each_row_once_and_cut_no_unit(hasty, kind, timeout, executor):
    if timeout is not None and executor == "threads":
        pytest.skip("threads have no timeout")
    p = problem(kind)
    index = np.arange(5, 90)
    theta = np.random.default_rng(0).uniform(-5.0, 5.0, size=(len(index), 2))
    work, rows = Discrepancy(p.measurement, 3), Rows(theta, index, p.unit)
    truth = work(rows)
    STATE["nap"] = 0.002
    make = EXECUTORS[executor]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        runs = make() if timeout is None else make(timeout=timeout)
        with runs if hasattr(runs, "__enter__") else nullcontext(runs) as ready:
            parts = [part for part in ready.chunks(work, rows) if len(part[0])]
    parts.sort(key=lambda part: part[0].index[0])
    done = Simulations.join([done for _, done in parts])
    assert np.array_equal(np.concatenate([part.index for part, _ in parts]), index)
    assert done.distance.tobytes() == truth.distance.tobytes()
    assert done.summary.tobytes() == truth.summary.tobytes()
    assert [f.index for f in done.failures] == [f.index for f in truth.failures]
    assert len(parts) > 2
    assert {int(part.index[0]) % p.unit for part, _ in parts[1:]} <= {0}


def test_a_long_task_sends_what_it_has(monkeypatch):
    """The twin: where nothing is in a hurry it is one call."""
    p = problem("vectorized")
    work, rows = Discrepancy(p.measurement, 3), Rows(np.zeros((70, 2)), np.arange(70), p.unit)
    STATE["nap"] = 0.001
    for seconds, most in ((0.02, 70 / UNIT), (1000.0, 1)):
        monkeypatch.setattr(pooled, "_SECONDS", seconds)
        with abctree.Threads(1, chunk=70) as executor:
            parts = [part for part, _ in executor.chunks(work, rows) if len(part)]
        assert 1 + (seconds < 1.0) <= len(parts) <= most


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_worker_lost_half_way_loses_nothing_that_was_noted(tmp_path, hasty):
    p, whole = problem(), uninterrupted(ALL["abc_tree"])
    STATE["nap"] = 0.003
    executor = abctree.Processes(2, "fork")

    def shoot():
        until(lambda: kept(tmp_path / "x")[0] >= 40)
        for worker in list(executor._pool._all):
            worker.process.kill()

    gun = threading.Thread(target=shoot, daemon=True)
    gun.start()
    again = ALL["abc_tree"](p, n_simulations=N, rng=1, store=tmp_path / "x", executor=executor)
    gun.join(60.0)
    assert different(again, whole) <= {"tracebacks"}
    assert kept(tmp_path / "x") == (N, 0)
