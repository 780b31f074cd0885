"""Executors: the same table from every one, whatever happens to its workers."""

from __future__ import annotations

import gc
import inspect
import multiprocessing
import multiprocessing.pool
import os
import pickle
import runpy
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import abctree
from abctree import AbctreeError, ParameterError, SimulatorError
from abctree.data import Failure, Rows, Simulations
from abctree.problem import Discrepancy
from abctree.running.executors import as_executor, pooled, pools, running, sending
from abctree.running.executors.processes import Limits, WorkerLostError, Workers, _limit_of
from tests.conftest import until, z_score
from tests.simulators import BAD, DiesAtFirst, plain, threads_of_libraries

# Newer Pythons warn of forks beside threads; NumPy has some.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
FORK = multiprocessing.get_context("fork")


def many(theta, rng):
    return theta + rng.normal(size=theta.shape)


def raises(theta, rng):
    if np.any(theta > BAD):
        raise ValueError("too high")
    return theta + rng.normal(size=theta.shape)


def exits(theta, rng):
    if np.any(theta > BAD):
        os._exit(3)
    return theta + rng.normal(size=theta.shape)


def hangs(theta, rng):
    if np.any(theta > BAD):
        try:
            time.sleep(1000.0)
        except Exception:  # noqa: BLE001 - as careless simulators do
            return theta
    return theta + rng.normal(size=theta.shape)


def never_returns(theta, rng):
    if theta[0] > BAD:
        sum(range(10**15))  # a loop in C
    return theta + rng.normal(size=1)


def naps(theta, rng):
    time.sleep(0.002)
    return theta + rng.normal(size=1)


@dataclass
class Logs:
    """Notes in a file whenever it is unpickled."""

    path: str

    def __setstate__(self, state):
        self.__dict__.update(state)
        with Path(self.path).open("a") as log:
            log.write("loaded\n")

    def __call__(self, theta, rng):
        return theta + rng.normal(size=1)


def problem(simulator=plain, **kwargs):
    prior = kwargs.pop("prior", {"a": (-5.0, 5.0)})
    if "prior_transform" in kwargs:
        prior = None
    return abctree.Problem(prior, simulator, observed=[0.5], **kwargs)


def vectorized(simulator):
    return problem(simulator, vectorized=True, batch_size=10)


def made(executor, work, theta, index, unit=1):
    """All answers, in the order of the rows."""
    chunks = executor.chunks(work, Rows(theta, index, unit))
    parts = sorted((p for p in chunks if len(p[0])), key=lambda p: p[0].index[0])
    return Simulations.join([done for _, done in parts])


def play(executor, p=None, n=600, rng=1, **kwargs):
    """A run by the cheap proposal: how it is executed is no matter of what it proposes."""
    settings = {"n_simulations": n, "rng": rng, "proposal": "boxes", **kwargs}
    return abctree.abc_tree(p or problem(), executor=executor, **settings)


def same(a, b):
    for name in ("theta", "distance", "proposal", "arm", "round", "fold"):
        np.testing.assert_array_equal(getattr(a.table, name), getattr(b.table, name), name)


def same_failures(a, b):
    assert [(f.index, f.theta) for f in a.failures.first] == [
        (f.index, f.theta) for f in b.failures.first
    ]
    assert a.failures.count == b.failures.count > 0


@pytest.fixture(scope="module")
def spawned():
    """Two spawned workers, for all tests that need no others."""
    with abctree.Processes(2, "spawn", timeout=30.0) as executor:
        yield executor


@pytest.fixture(scope="module")
def truth():
    """What `Serial` says of the well-behaved simulator."""
    return play(abctree.Serial())


def forked(n=2, **kwargs):
    return abctree.Processes(n, "fork", **kwargs)


# The same table from all ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "executor",
    [
        abctree.Threads(1),
        abctree.Threads(2, chunk=7),
        forked(1),
        pytest.param(forked(2, chunk=1), marks=pytest.mark.slow),
        forked(2, chunk=7),
        pytest.param(forked(2, chunk=64), marks=pytest.mark.slow),
        pytest.param(forked(4), marks=pytest.mark.slow),
        "threads",
    ],
    ids=repr,
)
def test_executors_give_the_table_of_serial(executor, truth):
    same(play(executor), truth)


@pytest.mark.slow
def test_executors_give_the_table_of_serial_when_spawned(spawned, truth):
    same(play(spawned), truth)
    same(play(spawned, lookahead=2), play(None, lookahead=2))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3])
def test_executors_give_the_table_of_serial_with_other_numbers_of_spawned_workers(n, truth):
    same(play(abctree.Processes(n, "spawn", chunk=64)), truth)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [many, raises])
def test_executors_never_cut_a_unit(simulator):
    p = vectorized(simulator)
    whole = play(None, p)
    for executor in (abctree.Threads(2, chunk=1), forked(2, chunk=7)):
        same(play(executor, p), whole)


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        (lambda rows: [], "must give the answers to all rows"),
        (lambda rows: [rows[:2]], "must give the answers to all rows"),
        (lambda rows: [Rows(rows.theta, rows.index + 1000)], "that it was asked for"),
        (lambda rows: [Rows(rows.theta, rows.index - rows.index[0])], "that it was asked for"),
    ],
)
def test_an_executor_that_gives_other_rows_ends_the_run(gives, says, tmp_path):
    class Wrong:
        def chunks(self, work, rows):
            given = [rows] if rows.index[0] < 50 else gives(rows)
            return ((part, work(part)) for part in given)

    with pytest.raises(AbctreeError, match=says):
        play(Wrong(), store=tmp_path / "x")
    same(abctree.resume(tmp_path / "x", problem()), play(None))


def test_an_executor_that_cuts_units_would_be_noticed():
    class Cuts:
        def chunks(self, work, rows):
            return abctree.Threads(2, chunk=1).chunks(work, Rows(rows.theta, rows.index))

    p = vectorized(many)
    assert (play(Cuts(), p).table.distance != play(None, p).table.distance).any()


@given(
    first=st.integers(0, 50), n=st.integers(1, 80), chunk=st.integers(1, 90), unit=st.integers(1, 9)
)
def test_split_covers_all_rows_and_cuts_no_unit(first, n, chunk, unit):
    index = first + np.arange(n)
    parts = [part.index for part in Rows(index[:, None] / 2.0, index, unit).parts(chunk)]
    assert np.array_equal(np.concatenate(parts), index)
    for a, b in pairwise(parts):
        assert a[-1] // unit != b[0] // unit
        assert chunk <= len(a) < chunk + unit


def seeded(theta, seeds):
    """A compiled simulator, as it were: a row depends on its parameter and its seed."""
    calls.append(len(theta))
    return theta + (seeds % np.uint64(1000)).astype(float)[:, None] / 500.0 - 1.0


calls: list[int] = []


@pytest.mark.slow
def test_seeded_simulators_are_cut_anywhere_and_called_in_batches():
    p = problem(seeded, vectorized="seeds", batch_size=8)
    assert p.unit == 1
    calls.clear()
    whole = play(None, p)
    assert max(calls) == 8
    for executor in (abctree.Serial(chunk=7), abctree.Threads(2, chunk=1), forked(2, chunk=30)):
        same(play(executor, p), whole)
    same(play(None, problem(seeded, vectorized="seeds", batch_size=3)), whole)
    # The twin: with a generator for each call the batches are part of the run.
    first, second = (problem(many, vectorized=True, batch_size=n) for n in (64, 3))
    assert (play(None, first).table.distance != play(None, second).table.distance).any()


def dozes(theta, seeds):
    time.sleep(0.002 * len(theta))
    return theta + (seeds % np.uint64(1000)).astype(float)[:, None] / 500.0 - 1.0


def test_slow_seeded_simulators_are_spread_over_the_workers():
    workers = set()

    def simulate(theta, seeds):
        workers.add(threading.get_ident())
        return dozes(theta, seeds)

    work = Discrepancy(problem(simulate, vectorized="seeds").measurement, 1)
    theta, index = np.zeros((400, 1)), np.arange(400)
    with abctree.Threads(8) as executor:
        made(executor, work, theta[:16], index[:16], work.measurement.unit)  # to learn the pace
        workers.clear()
        made(executor, work, theta, index, work.measurement.unit)
    assert len(workers) > 4  # a clock would tell of the machine


def test_a_row_alone_is_made_where_the_run_is(monkeypatch):
    workers = set()

    def simulate(theta, seeds):
        workers.add(threading.get_ident())
        return dozes(theta, seeds)

    monkeypatch.setattr(pools, "n_threads", lambda: 2)
    work = Discrepancy(problem(simulate, vectorized="seeds").measurement, 1)
    with pools.WhereItHelps() as executor:
        executor._pace.note(1, 10.0)
        made(executor, work, np.zeros((1, 1)), np.arange(1), 1)
        assert workers == {threading.get_ident()}
        made(executor, work, np.zeros((2, 1)), np.arange(2), 1)  # others are slow enough
    assert len(workers) > 1


# How far away the simulator is ---------------------------------------------------------------


@pytest.mark.parametrize(
    "method", [abctree.abc_tree, abctree.map_tree, abctree.smc, abctree.rejection]
)
def test_at_most_ten_frames_lie_between_a_method_and_the_simulator(method):
    between = set()

    def looks(theta, rng):
        frame, n = sys._getframe(1), 0
        while frame.f_code is not inspect.unwrap(method).__code__:
            frame, n = frame.f_back, n + 1
        between.add(n)
        return theta + rng.normal(size=1)

    method(problem(looks), n_simulations=400, rng=1)
    assert 5 < max(between) <= 10


# How large the tasks are ---------------------------------------------------------------------


def test_pace_begins_small_and_grows_to_tasks_of_the_wanted_length():
    pace = pooled.Pace()
    assert pace.rows(5, 2) <= 3
    assert pace.rows(10_000, 2) <= 16
    for seconds in (1e-5, 1e-3):
        for _ in range(30):
            pace.note(10, 10 * seconds)
        n = pace.rows(100_000, 2)
        assert 0.005 <= n * seconds <= 0.025


def test_pace_leaves_something_to_do_for_every_worker():
    pace = pooled.Pace()
    pace.note(1000, 1e-3)
    for n in (1, 7, 64, 1000):
        for workers in (1, 2, 4):
            rows = Rows(np.zeros((n, 1)), np.arange(n))
            assert len(list(rows.parts(pace.rows(n, workers)))) >= min(n, workers)


def test_pace_makes_tasks_of_one_row_when_a_simulation_is_long():
    pace = pooled.Pace()
    pace.note(1000, 1e-3)
    pace.note(1, 10.0)
    assert pace.rows(1000, 2) == 1


# Workers that die ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 64])
def test_processes_lose_nothing_when_a_worker_is_killed_on_the_way(chunk, tmp_path):
    result = play(forked(chunk=chunk), problem(DiesAtFirst(str(tmp_path), 1)), n=200)
    assert any(tmp_path.iterdir())
    assert not result.failures
    same(result, play(None, n=200))


@pytest.mark.slow
def test_processes_lose_nothing_when_spawned_workers_are_killed(tmp_path, spawned):
    work = Discrepancy(problem(DiesAtFirst(str(tmp_path), 1)).measurement, 1)
    theta, index = np.array([[0.0], [4.9], [1.0], [2.0]]), np.arange(4)
    result = made(spawned, work, theta, index, 1)
    assert len(list(tmp_path.iterdir())) == 1
    assert not result.failures
    np.testing.assert_array_equal(
        result.distance, Discrepancy(problem().measurement, 1)(Rows(theta, index)).distance
    )


@pytest.mark.slow
def test_processes_lose_nothing_when_someone_kills_workers_at_random_moments():
    executor = forked(timeout=10.0)
    killed = []
    most = 4  # where a start is slow all may hit one worker, which is started five times

    def kill(rng=np.random.default_rng(0)):  # noqa: B008
        end = time.monotonic() + 60.0
        while len(killed) < most and time.monotonic() < end:
            time.sleep(rng.uniform(0.05, 0.2))
            children = multiprocessing.active_children()
            if children:
                child = children[int(rng.integers(len(children)))]
                child.kill()
                killed.append(child.pid)

    killer = threading.Thread(target=kill)
    with executor:
        made(executor, Discrepancy(problem().measurement, 1), np.zeros((4, 1)), np.arange(4), 1)
        killer.start()
        result = play(executor, problem(naps), n=600, lookahead=1)
        killer.join(60.0)
    assert len(killed) == most
    assert not result.failures
    same(result, play(None, lookahead=1))


@pytest.mark.slow
def test_processes_give_a_simulation_three_lives(tmp_path):
    for times, failed in ((2, False), (3, True)):
        folder = tmp_path / str(times)
        folder.mkdir()
        result = play(forked(chunk=1), problem(DiesAtFirst(str(folder), times)), n=150)
        deaths = Counter(f.name.rpartition("-")[0] for f in folder.iterdir())
        assert set(deaths.values()) == {times}
        assert result.failures.count == failed * len(deaths)


@pytest.mark.slow
def test_os_exit_fails_the_simulations_that_call_it_and_no_other():
    dead, raised = play(forked(), problem(exits), n=120), play(None, problem(raises), n=120)
    same(dead, raised)
    same_failures(dead, raised)
    assert dead.failures.first[0].reason == (
        "WorkerDiedError: the worker process exited with code 3"
    )


@pytest.mark.slow
def test_os_exit_in_a_vectorised_simulator_is_as_if_it_had_raised():
    dead = play(forked(), vectorized(exits), n=120)
    raised = play(None, vectorized(raises), n=120)
    same(dead, raised)
    same_failures(dead, raised)


@pytest.mark.slow
def test_a_simulator_that_always_exits_ends_the_run_with_the_reason():
    with pytest.raises(SimulatorError, match="exited with code 3"):
        play(forked(), problem(exits, prior={"a": (BAD, 5.0)}), n=40, n_pilot=10)


def test_workers_that_cannot_start_are_an_error_that_says_what_to_do(monkeypatch):
    def broken(*_):
        os._exit(1)

    monkeypatch.setattr("abctree.running.executors.processes.serve", broken)
    with pytest.raises(AbctreeError, match=r"__main__"):
        play(forked())


# Scripts without a guard ---------------------------------------------------------------------

START = """
from multiprocessing import get_context
from abctree.running.executors.sending import check_guarded
def start(really=1):
    check_guarded(get_context("spawn"))
"""


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ("start()", 6),
        ("def main():\n    if True:\n        start()\nmain()", 9),
        ("for i in range(2):\n    start()", 7),
        ("try:\n    start()\nfinally:\n    pass", 7),
        ("start(\n    really=1 if start else 0,\n)", 6),
        ("if __name__ == '__main__':\n    print()\nstart()", 8),
    ],
)
def test_a_line_that_workers_would_come_to_is_refused(run, line, tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(START + run)
    with pytest.raises(ParameterError, match=f"but line {line} of fit.py is not") as caught:
        runpy.run_path(str(script), run_name="__main__")
    assert '`if __name__ == "__main__":`' in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "run",
    [
        "if __name__ == '__main__':\n    start()",
        "if start and '__main__' == __name__:\n    start()",
        "__name__ == '__main__' and start()",
        "import sys\nif len(sys.argv) >= 0:\n    start()",  # who knows
        "try:\n    if __name__ == '__main__':\n        start()\nfinally:\n    pass",
    ],
)
def test_a_line_that_may_be_guarded_is_not_refused(run, tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(START + run)
    runpy.run_path(str(script), run_name="__main__")


def test_a_package_that_is_run_needs_no_guard(tmp_path, monkeypatch):
    (tmp_path / "fitting").mkdir()
    (tmp_path / "fitting" / "__main__.py").write_text(START + "start()")
    (tmp_path / "fitting" / "other.py").write_text(START + "start()")
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_module("fitting", run_name="__main__", alter_sys=True)
    with pytest.raises(ParameterError, match=r"line 6 of other\.py"):
        runpy.run_module("fitting.other", run_name="__main__", alter_sys=True)


UNGUARDED = """
    import multiprocessing, os
    from concurrent.futures import ProcessPoolExecutor
    import abctree

    def simulate(theta, rng):
        return theta + rng.normal(size=1)

    os.write(1, b"begun ")
    if abctree:
        problem = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [0.5])
        abctree.abc_tree(problem, n_simulations=100, executor=2, store="runs")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("is_hidden", "begun"), [(False, 1), (True, 3)])
def test_a_script_without_a_guard_ends_in_one_sentence(is_hidden, begun, tmp_path):
    script = tmp_path / "fit.py"
    text = textwrap.dedent(UNGUARDED)
    script.write_text(text if is_hidden else text.replace("if abctree:", "for _ in range(1):"))
    done = subprocess.run(
        [sys.executable, script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stdout.split() == ["begun"] * begun  # hidden: by two workers, too
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.count("must be used under") == 1
    assert (tmp_path / "runs").exists() == is_hidden


def test_workers_lose_one_task_with_one_process():
    workers = Workers(2, FORK, Limits())
    bad, good = workers.submit(os._exit, 7), workers.submit(os.getpid)
    assert good.result(10) != os.getpid()
    with pytest.raises(WorkerLostError, match="code 7"):
        bad.result(10)
    assert workers.submit(divmod, 7, 2).result(10) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 7, 0).result(10)
    workers.shutdown()
    with pytest.raises(RuntimeError):
        workers.submit(os.getpid)


POOLS = {
    "Processes": "abctree.Processes(2, 'fork', chunk=1)",
    "a pool": "abctree.Pool(ProcessPoolExecutor(2, get_context('fork')), chunk=1)",
    "loky": "abctree.Pool(joblib.externals.loky.get_reusable_executor(2), chunk=1)",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("seconds", [1000.0, 0.01])  # a task goes on, or workers wait for the next
def test_workers_do_not_outlive_a_killed_parent(kind, seconds):
    script = f"""
        import os, signal, time
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        import numpy as np
        import abctree
        from abctree.data import Rows
        from abctree.problem import Discrepancy
        import joblib.externals.loky

        def sleepy(theta, rng):
            if theta[0] > 0:
                os.write(1, f"{{os.getpid()}}\\n".encode())  # at one stroke
                time.sleep({seconds})
            return theta

        work = Discrepancy(abctree.Problem({{"a": (-1., 1.)}}, sleepy, [0.]).measurement, 1)
        executor = {POOLS[kind]}
        begun = executor.chunks(work, Rows(np.ones((20, 1)), np.arange(20)))
        time.sleep(1000)
        """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pids = set()
        try:
            while len(pids) < 2:
                pids.add(int(parent.stdout.readline()))
        finally:
            parent.kill()
    until(lambda: not any(is_running(pid) for pid in pids), 30.0)


PROGRAM = """
import os, sys
print(os.getpid(), file=open(sys.argv[1] + sys.argv[2], "w"), flush=True)
os.execvp("sleep", ["sleep", "1000"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_programs_do_not_outlive_the_workers_that_started_them(tmp_path, how):
    script = f"""
        import sys
        import abctree

        command = [sys.executable, "-c", {PROGRAM!r}, {str(tmp_path / "pid")!r}, "{{seed}}"]
        problem = abctree.Problem({{"a": (-1., 1.)}}, abctree.External(command), [0.])
        abctree.rejection(problem, n_simulations=20, rng=1, executor=abctree.Processes(2, "fork"))
        """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        until(lambda: len([file for file in tmp_path.iterdir() if file.read_text()]) == 2)
        pids = [int(file.read_text()) for file in tmp_path.iterdir()]
        assert all(is_running(pid) for pid in pids)
        parent.send_signal(how)
        parent.wait(60)
    until(lambda: not any(is_running(pid) for pid in pids), 30.0)


def is_running(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


# Simulations that take too long --------------------------------------------------------------


@pytest.mark.slow
def test_a_timeout_fails_the_simulations_that_hang_and_no_other():
    raised = play(None, problem(raises), n=150)
    for executor in (abctree.Serial(timeout=0.5), forked(timeout=0.5)):
        result = play(executor, problem(hangs), n=150)
        same(result, raised)
        same_failures(result, raised)
        first = result.failures.first[0]
        assert first.reason == "TimeoutError: not done after 0.5 s"
        assert "time.sleep(1000.0)" in first.traceback


@pytest.mark.parametrize(
    ("n", "unit", "seconds"),
    [(1, 1, 0.5), (6, 1, 1.5), (1, 10, 0.5), (10, 10, 10.0), (20, 10, 11.0)],
)
def test_a_worker_has_the_time_that_its_simulations_may_take(n, unit, seconds):
    """Begun within a second, half a second each; a unit of several is tried whole, then by row."""
    limit, reason = _limit_of((Rows(np.zeros((n, 1)), np.arange(n), unit), 1.0, 0.5))
    assert limit == seconds + 1.0
    assert "not done after 0.5 s" in reason
    assert _limit_of((Rows(np.zeros((n, 1)), np.arange(n), unit), 1.0, None))[0] == np.inf


@pytest.mark.slow
def test_a_timeout_ends_code_that_does_not_return_to_the_interpreter():
    p, q = (problem(s, prior={"a": (3.0, 5.0)}) for s in (never_returns, raises))
    index = np.arange(6)
    theta = np.array([[3.1], [4.9], [3.2], [3.3], [4.8], [3.4]])
    with forked(timeout=0.2, chunk=6) as executor:
        result = made(executor, Discrepancy(p.measurement, 1), theta, index, 1)
    expected = Discrepancy(q.measurement, 1)(Rows(theta, index))
    np.testing.assert_array_equal(result.distance, expected.distance)
    assert [f.index for f in result.failures] == [1, 4]
    assert all(f.reason.startswith("TimeoutError: ") for f in result.failures)


@pytest.mark.slow
def test_a_timeout_is_kept_by_pools_of_the_standard_library():
    executor = abctree.Pool(lambda: ProcessPoolExecutor(2, FORK), timeout=0.5)
    same(play(executor, problem(hangs), n=200), play(None, problem(raises), n=200))


@pytest.mark.slow
def test_a_timeout_of_a_vectorised_call_is_one_for_each_row():
    slow = play(abctree.Serial(timeout=0.02), vectorized(hangs), n=300)
    same(slow, play(None, vectorized(raises), n=300))


@pytest.mark.slow
def test_a_timeout_limits_the_distance_too():
    def distance(simulated, observed):
        time.sleep(1000.0 if simulated[0] > 4.0 else 0.0)
        return abs(simulated[0] - observed[0])

    result = play(abctree.Serial(timeout=0.05), problem(distance=distance), n=120)
    assert result.failures.count == np.isinf(result.table.distance).sum() > 0
    assert set(result.failures.reasons) == {"TimeoutError: not done after 0.05 s"}


@pytest.mark.slow
def test_a_timeout_leaves_the_alarm_as_it_was():
    def handler(*_):
        raise AssertionError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        play(abctree.Serial(timeout=0.1), problem(hangs), n=120)
        assert signal.getsignal(signal.SIGALRM) is handler
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_timeout_that_cannot_be_kept_is_refused():
    with pytest.raises(ParameterError, match=r"threads, which cannot be stopped.*Processes"):
        abctree.Threads(2, timeout=1.0)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ParameterError, match="cannot be stopped"):
            abctree.Pool(pool, timeout=1.0)
        elsewhere = pool.submit(play, abctree.Serial(timeout=1.0))
        with pytest.raises(ParameterError, match="main thread"):
            elsewhere.result()
    for kind in (abctree.Serial, abctree.Processes):
        with pytest.raises(ParameterError, match=r"in \(0, inf\) or None, but got '1 s'"):
            kind(timeout="1 s")
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        for kind in (abctree.Serial, abctree.Processes):
            with pytest.raises(ParameterError, match=r"`timeout` must be in \(0, inf\)"):
                kind(timeout=bad)


# Simulations that take too much memory --------------------------------------------------------

#: Bytes that the system gives as pages of their own, whatever a process has freed before.
LARGE = 40_000_000
leaked: list[np.ndarray] = []


def leaks(theta, rng):
    """Keeps something large of every simulation; that it is not written to makes it cheap."""
    leaked.append(np.empty(LARGE // 8))
    return theta + rng.normal(size=1)


def leaks_and_tells(theta, rng):
    leaks(theta, rng)
    return [len(leaked), os.getpid()]


def gorges(theta, rng):
    if np.any(theta > BAD):
        np.empty(10 * LARGE // 8)
    return theta + rng.normal(size=theta.shape)


linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is not said")


@pytest.mark.slow
@linux
@pytest.mark.parametrize("chunk", [None, 1, 64])
def test_a_simulator_that_leaks_gets_new_workers_and_loses_nothing(chunk):
    leaked.clear()
    result = play(forked(memory=40 * LARGE, chunk=chunk), problem(leaks), n=300)
    assert not result.failures
    same(result, play(None, n=300))


@pytest.mark.slow
@linux
def test_workers_that_hold_more_than_their_share_are_ended():
    p = abctree.Problem({"a": (-5.0, 5.0)}, leaks_and_tells, [0.0, 0.0])
    theta, index = np.zeros((150, 1)), np.arange(150)
    held, workers = [], []
    for memory in (40 * LARGE, None):
        with forked(memory=memory, chunk=5) as executor:
            done = made(executor, Discrepancy(p.measurement, 1), theta, index, 1)
        held.append(done.summary[:, 0].max())
        workers.append(len(np.unique(done.summary[:, 1])))
    assert held[0] <= 20 + 2 * 5
    assert workers[0] >= 150 / 30
    # The twin: without a limit they go on and on.
    assert held[1] >= 75
    assert workers[1] <= 2


@pytest.mark.slow
@linux
def test_a_simulation_that_takes_too_much_memory_fails_and_no_other():
    greedy = play(forked(memory=5 * LARGE), problem(gorges), n=120)
    raised = play(None, problem(raises), n=120)
    same(greedy, raised)
    same_failures(greedy, raised)
    assert "MemoryError: Unable to allocate" in greedy.failures.first[0].reason
    many_at_once = play(forked(memory=5 * LARGE), vectorized(gorges), n=120)
    same(many_at_once, play(None, vectorized(raises), n=120))
    # The twin: there is enough for all.
    assert not play(forked(memory=25 * LARGE), problem(gorges), n=120).failures


# What is sent to workers ---------------------------------------------------------------------


class Locked:
    """A simulator that nothing can pickle."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, theta, rng):
        return theta


UNPICKLABLE = {
    "simulator": {"simulator": lambda theta, rng: theta},
    "summary": {"summary": lambda data: data},
    "distance": {"distance": lambda a, b: abs(a[0] - b[0])},
}
#: What the run's own process needs alone.
STAYS = {
    "constraint": {"constraint": lambda columns: columns["a"] > -4.0},
    "prior": {"prior_transform": lambda cube: 10.0 * cube - 5.0, "names": ["a"]},
}


@pytest.mark.parametrize("part", UNPICKLABLE)
def test_what_cannot_be_pickled_is_named_before_anything_is_spent(part, monkeypatch):
    monkeypatch.setattr(sending, "_cloudpickle", lambda: None)
    executor = forked()
    table = []
    with pytest.raises(ParameterError) as caught:
        play(executor, problem(**UNPICKLABLE[part]), progress=table.append)
    message = str(caught.value)
    assert message.startswith(f"`{part}")
    assert "lambda" in message
    assert message.endswith("or install cloudpickle (pip install cloudpickle).")
    assert executor._pool is None


@pytest.mark.parametrize("part", STAYS)
def test_what_workers_do_not_need_need_not_be_picklable(part, monkeypatch):
    monkeypatch.setattr(sending, "_cloudpickle", lambda: None)
    p = problem(**STAYS[part])
    same(play(forked(1), p, n=100), play(None, p, n=100))
    sent = pickle.dumps(Discrepancy(p.measurement, 1))
    assert b"simulators" in sent
    assert b"priors" not in sent
    assert b"Region" not in sent


@pytest.mark.parametrize("part", UNPICKLABLE)
def test_cloudpickle_sends_what_pickle_cannot(part):
    pytest.importorskip("cloudpickle")
    same(
        play(forked(1), problem(**UNPICKLABLE[part]), n=100),
        play(None, problem(**UNPICKLABLE[part]), n=100),
    )


def test_what_nothing_can_pickle_is_named_to_the_innermost_part():
    with pytest.raises(ParameterError, match=r"^`simulator\.lock` must be picklable"):
        play(forked(), problem(Locked()))
    lock = threading.Lock()

    def closure(theta, rng):
        with lock:
            return theta

    pytest.importorskip("cloudpickle")
    with pytest.raises(ParameterError, match=r"^`simulator\.lock` must be picklable"):
        play(forked(), problem(closure))


def test_what_workers_cannot_import_is_an_error_that_says_so(spawned):
    module = types.ModuleType("made_up_module")
    exec("def simulate(theta, rng):\n    return theta", module.__dict__)
    sys.modules["made_up_module"] = module
    try:
        with pytest.raises(ParameterError, match=r"made_up_module.*module that workers can import"):
            play(spawned, problem(module.simulate))
    finally:
        del sys.modules["made_up_module"]


@pytest.mark.slow
def test_the_problem_is_sent_to_each_worker_once(tmp_path):
    log = tmp_path / "log"
    play(forked(2, chunk=5), problem(Logs(str(log))), n=400)
    assert 1 <= len(log.read_text().split()) <= 2


def test_threads_need_no_pickling():
    p = problem(Locked())
    same(play(abctree.Threads(2), p), play(None, p))
    with ThreadPoolExecutor(2) as pool:
        same(play(pool, p), play(None, p))


@pytest.mark.slow
def test_failures_come_back_with_their_tracebacks(spawned):
    expected = play(None, problem(raises)).failures.first
    for executor in (abctree.Threads(2, chunk=7), forked(chunk=1), spawned):
        failures = play(executor, problem(raises)).failures.first
        assert [(f.index, f.theta, f.reason, bool(f.traceback)) for f in failures] == [
            (f.index, f.theta, f.reason, bool(f.traceback)) for f in expected
        ]
        assert 'raise ValueError("too high")' in failures[0].traceback


class Refuses(Exception):
    """Cannot be unpickled: its constructor takes two arguments."""

    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


def refuse(rows, until):
    raise Refuses(1, 2)


def test_an_exception_that_cannot_travel_is_told_in_words():
    with forked(1) as executor, pytest.raises(RuntimeError, match="Refuses: 1 2"):
        made(executor, refuse, np.zeros((2, 1)), np.arange(2), 1)


@pytest.mark.slow
def test_processes_limit_the_threads_of_linear_algebra(spawned):
    before = dict(os.environ)
    p = abctree.Problem({"a": (0.0, 1.0)}, threads_of_libraries, [0.0, 0.0])
    for executor, n in ((spawned, 1), (forked(1, n_threads=2), 2)):
        with running(executor):
            done = made(executor, Discrepancy(p.measurement, 1), np.zeros((3, 1)), np.arange(3), 1)
        assert (done.summary[:, 1] == n).all()
        assert (done.summary[:, 0] <= n).all()
    assert dict(os.environ) == before


# Other people's pools ------------------------------------------------------------------------


@pytest.mark.slow
def test_pool_rebuilds_what_a_function_makes(tmp_path):
    executor = abctree.Pool(lambda: ProcessPoolExecutor(2, FORK))
    dead, raised = play(executor, problem(exits), n=120), play(None, problem(raises), n=120)
    same(dead, raised)
    same_failures(dead, raised)
    result = play(executor, problem(DiesAtFirst(str(tmp_path), 1)), n=120, lookahead=2)
    assert not result.failures
    same(result, play(None, n=120, lookahead=2))


@pytest.mark.slow
def test_pool_cannot_rebuild_what_it_was_given_and_says_what_to_do():
    with ProcessPoolExecutor(2, FORK) as pool:
        same(play(pool, n=100), play(None, n=100))
        with pytest.raises(AbctreeError, match=r"abctree\.Pool\(lambda: ProcessPoolExecutor"):
            play(pool, problem(exits, prior={"a": (BAD, 5.0)}), n=100)


@pytest.mark.slow
def test_pool_of_loky_survives_a_killed_worker(tmp_path):
    loky = pytest.importorskip("loky")
    executor = loky.get_reusable_executor(2)
    same(play(executor, n=300), play(None, n=300))
    theta = np.array([[0.0], [4.9], [1.0], [2.0]])
    work = Discrepancy(problem(DiesAtFirst(str(tmp_path), 1)).measurement, 1)
    result = made(abctree.Pool(executor, chunk=1), work, theta, np.arange(4), 1)
    assert not result.failures
    np.testing.assert_array_equal(
        result.distance, Discrepancy(problem().measurement, 1)(Rows(theta, np.arange(4))).distance
    )
    loky.get_reusable_executor(2).shutdown(kill_workers=True)


class KilledWorker(Exception):
    """As Dask calls it when a task has lost several workers."""


class LikeDask(Executor):
    """A pool that tries again by itself, and goes on when that is in vain."""

    def __init__(self):
        self._pool = ThreadPoolExecutor(2)

    def submit(self, fn, /, *args, **kwargs):
        return self._pool.submit(self._run, fn, args)

    def _run(self, fn, args):
        if (args[0].theta > BAD).any():
            raise KilledWorker
        return fn(*args)


def test_pool_takes_dask_at_its_word_when_it_gives_a_task_up():
    dead, raised = play(LikeDask()), play(None, problem(raises))
    same(dead, raised)
    same_failures(dead, raised)


class LikeClient:
    """As a client of Dask: its `submit` takes a function, and it is closed when it is left."""

    asynchronous = False
    is_closed = False

    def __init__(self, n=3):
        self.pool, self.n = ThreadPoolExecutor(2), n

    def submit(self, func, *args, key=None, workers=None, pure=True, **kwargs):
        raise AssertionError("not by this one")

    def get_executor(self, **kwargs):
        return ProcessPoolLike(self.pool)

    def nthreads(self):
        return {"tcp://a": self.n, "tcp://b": self.n}

    def close(self):
        self.is_closed = True

    __enter__ = __exit__ = close


class ProcessPoolLike(Executor):
    """Shares no memory, as far as `Pool` can tell, and cannot cancel when it is shut down."""

    is_shut = False

    def __init__(self, pool):
        self._pool = pool

    def submit(self, fn, /, *args, **kwargs):
        return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait=True):
        self.is_shut = True


def test_a_client_is_taken_by_its_executor_and_left_open(truth):
    client = LikeClient()
    assert as_executor(client).n_workers == 6
    for spec in (client, abctree.Pool(client, chunk=7)):
        same(play(spec), truth)
        assert not client.is_closed
        assert client.get_executor().submit(divmod, 7, 2).result() == (3, 1)
    assert abctree.Pool(LikeClient(0)).n_workers > 0  # no worker has come yet
    client.cluster = types.SimpleNamespace(plan={*range(9)})  # more are asked for
    assert as_executor(client).n_workers == 9
    client.asynchronous = True
    with pytest.raises(ParameterError, match="Make it without asynchronous=True"):
        play(client)


@pytest.mark.slow
def test_many_workers_have_a_block_begun_ahead(truth, tmp_path):
    """And the folder knows it: whoever resumes has fewer."""
    ahead = play(LikeClient(10), store=tmp_path / "run", stop={"rounds": 2})
    assert [ahead.plan.lookahead, truth.plan.lookahead] == [1, 0]
    same(abctree.resume(tmp_path / "run", problem(), stop=()), play(None, lookahead=1))
    same(play(LikeClient(10), lookahead=0), truth)
    assert play(LikeClient(8)).plan.lookahead == 0
    assert play(LikeClient(10), preset="published", quota=50, block=20).plan.lookahead == 0


@pytest.mark.slow
def test_a_client_of_dask_is_taken_and_left_open(truth):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert as_executor(client).n_workers == 2
        same(play(client), truth)
        assert client.submit(divmod, 7, 2).result() == (3, 1)
        with pytest.raises(ParameterError, match=r"executor=cluster\.get_client\(\)"):
            play(cluster)


def test_a_pool_that_cannot_cancel_is_shut_down_all_the_same(truth):
    made = []

    def make():
        made.append(ProcessPoolLike(ThreadPoolExecutor(2)))
        return made[-1]

    same(play(abctree.Pool(make)), truth)
    assert [pool.is_shut for pool in made] == [True]


@pytest.mark.slow
def test_the_pool_of_joblib_is_taken():
    from joblib.externals.loky import get_reusable_executor

    pool = get_reusable_executor(max_workers=2)
    same(play(pool, n=100), play(None, n=100))
    assert pool.submit(divmod, 7, 2).result(60) == (3, 1)
    get_reusable_executor(max_workers=2).shutdown(kill_workers=True)


def of(module, **methods):
    """An object whose class is of a module that need not be installed."""
    return type("Theirs", (), {"__module__": module, **methods})()


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (joblib.Parallel(2), "executor=joblib.externals.loky.get_reusable_executor(max_workers=4)"),
        (joblib, "executor=joblib.externals.loky.get_reusable_executor(max_workers=4)"),
        (of("multiprocessing.pool"), "executor=4"),
        (multiprocessing.pool.ThreadPool, "abctree.Threads(4)"),
        (of("multiprocess.pool"), "executor=4"),
        (of("mpi4py.MPI"), "executor=mpi4py.futures.MPIPoolExecutor()"),
        (of("mpi4py.futures.pool", __enter__=1), "where pool is not None, executor=pool"),
        (of("ray.util.actor_pool", submit=lambda self, fn, value: None), 'executor="ray"'),
        (of("ray.util.multiprocessing.pool"), 'executor="ray"'),
        (of("ipyparallel.client.view"), "executor=client.executor()"),
        (of("dask_jobqueue.slurm", get_client=1), "executor=cluster.get_client()"),
    ],
)
def test_pools_of_another_kind_are_told_the_line_that_works(spec, line):
    with pytest.raises(ParameterError, match="`executor` must be a pool like") as caught:
        play(spec)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "methods",
    [{"submit": lambda self, fn, /, *args, **kwargs: None}, {"map": map}, {}],
)
def test_an_object_without_chunks_is_no_executor(methods):
    with pytest.raises(ParameterError, match=r"`chunks\(work, rows\)`"):
        play(of("theirs", **methods))


class LikeRay:
    """Of Ray: a call gives a reference, this a future, and that does not know when it runs."""

    def __init__(self):
        self.pool, self.options, self.cancelled = ThreadPoolExecutor(2), [], []

    def remote(self, **options):
        self.options.append(options)
        return lambda fn: types.SimpleNamespace(remote=partial(self.call, fn))

    def call(self, fn, *args):
        future = Future()
        self.pool.submit(fn, *args).add_done_callback(partial(self.end, future))
        return types.SimpleNamespace(future=lambda: future)

    def end(self, future, done):
        if not future.cancelled():
            error = done.exception()
            future.set_exception(error) if error else future.set_result(done.result())

    def cancel(self, reference):
        self.cancelled.append(reference)

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 6.0}


def test_ray_is_taken_by_its_name(truth, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", LikeRay())
    same(play("ray"), truth)
    assert abctree.Pool(abctree.RayPool(num_cpus=3)).n_workers == 2
    assert sys.modules["ray"].options[0] == {"max_retries": 0, "num_cpus": 1}
    held = threading.Event()
    future = abctree.RayPool().submit(held.wait, 60.0)
    assert future.cancel()
    assert len(sys.modules["ray"].cancelled) == 1
    held.set()


def test_ray_that_is_not_installed_is_told_how_to_be(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ParameterError, match=r"pip install 'abctree\[ray\]'"):
        play("ray")


class WorkerCrashedError(Exception):
    """As Ray says that a worker died."""


def test_a_worker_that_a_pool_says_it_has_lost_is_given_three_lives(truth):
    class Loses(LikeDask):
        lives = 2

        def _run(self, fn, args):
            if (args[0].theta > BAD).any() and self.lives:
                self.lives -= 1
                raise WorkerCrashedError
            return fn(*args)

    same(play(Loses()), truth)


class ShutdownExecutorError(RuntimeError):
    """What a future of loky's raises whose pool was shut down with kill_workers."""


@pytest.mark.parametrize("how", ["cancels", "kills", "refuses"])
def test_a_pool_that_ends_during_the_run_is_told_in_a_sentence(how):
    class Ends(LikeDask):
        def submit(self, fn, /, *args, **kwargs):
            if how == "refuses":
                raise RuntimeError("closed")
            future = Future()
            if how == "kills":
                future.set_exception(ShutdownExecutorError("kill_workers=True"))
                return future
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(AbctreeError, match="must stay open while the run is on, but Ends"):
        play(Ends())


# Beginning and end ---------------------------------------------------------------------------


def begun_since(children):
    """Processes that are alive and were not before; those of an earlier test may just be ending."""
    return set(multiprocessing.active_children()) - children


@pytest.mark.slow
def test_a_run_shuts_down_what_it_opened_and_leaves_what_it_was_lent():
    children = set(multiprocessing.active_children())
    executor = forked()
    play(executor, n=60)
    assert not begun_since(children)
    with executor:
        play(executor, n=60)
        kept = begun_since(children)
        play(executor, n=60)
        assert begun_since(children) == kept
        assert len(kept) == 2
    assert not begun_since(children)


@pytest.mark.slow
def test_a_pool_that_is_forgotten_ends_its_workers():
    children = set(multiprocessing.active_children())
    executor = forked()
    made(executor, Discrepancy(problem().measurement, 1), np.zeros((4, 1)), np.arange(4), 1)
    del executor
    gc.collect()
    assert not begun_since(children)


class Borrowed(abctree.Serial):
    """An executor of the user's, which is open, and is to stay as it is."""

    def __enter__(self):
        raise AssertionError("entered")

    def __exit__(self, *_):
        raise AssertionError("left")

    def close(self):
        raise AssertionError("closed")


def test_a_run_neither_enters_nor_closes_an_executor_of_the_user(tmp_path):
    play(Borrowed(), n=60)
    play(Borrowed(), n=60, store=tmp_path / "run")
    with running(Borrowed()) as executor:
        assert isinstance(executor, Borrowed)


def test_a_block_that_is_thrown_away_takes_its_tasks_back():
    def sleepy(rows, until):
        time.sleep(0.05)
        return Simulations(np.zeros(len(rows)), np.zeros(len(rows)))

    with abctree.Threads(1, chunk=1) as executor:
        executor.chunks(sleepy, Rows(np.zeros((100, 1)), np.arange(100)))
        began = time.monotonic()
        made(executor, sleepy, np.zeros((1, 1)), np.arange(1), 1)
        assert time.monotonic() - began < 2.5


@dataclass(frozen=True)
class Counted:
    """Writes a byte to a file for each simulation."""

    path: str

    def __call__(self, theta, rng):
        with Path(self.path).open("ab") as file:
            file.write(b".")
        return naps(theta, rng)


@pytest.mark.slow
def test_ctrl_c_ends_with_a_partial_result_and_no_workers(tmp_path):
    children = set(multiprocessing.active_children())
    count = tmp_path / "count"

    def interrupt():
        until(lambda: count.exists() and count.stat().st_size >= 60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    result = play(forked(), problem(Counted(str(count))), n=100_000, n_pilot=20, block=50)
    assert result.stopped_because == "interrupted"
    assert 0 < result.n_simulations < 1000
    assert not begun_since(children)
    thread.join(60.0)


@pytest.fixture
def interrupted_start(monkeypatch):
    """Workers that never have started, and Ctrl-C soon after they were begun; a list of when."""
    at = []

    def interrupt():
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def begin(*args, **kwargs):
        gc.collect()  # a Ctrl-C within a callback of the garbage collector is lost
        threading.Timer(0.2, interrupt).start()
        return Workers(*args, **kwargs)

    monkeypatch.setattr("abctree.running.executors.processes.serve", lambda *_: time.sleep(1000.0))
    monkeypatch.setattr("abctree.running.executors.processes.Workers", begin)
    return at


def test_ctrl_c_does_not_wait_for_workers_that_start(interrupted_start):
    children = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt, match="before the first simulations had come back"):
        play(forked(6))
    assert time.monotonic() - interrupted_start[0] < 4.0  # it waited 5 s for each without a task
    assert not begun_since(children)


def test_ctrl_c_while_workers_start_leaves_a_resumed_run_what_it_has(tmp_path, interrupted_start):
    play(None, n=100, store=tmp_path / "run")
    result = abctree.resume(tmp_path / "run", problem(), n_simulations=1000, executor=forked(3))
    assert result.stopped_because == "interrupted"
    assert result.n_simulations == 100


@pytest.mark.slow
def test_ctrl_c_does_not_reach_the_workers(truth):
    children = set(multiprocessing.active_children())
    with forked() as executor:
        made(executor, Discrepancy(problem().measurement, 1), np.zeros((4, 1)), np.arange(4), 1)
        workers = begun_since(children)
        for worker in workers:
            os.kill(worker.pid, signal.SIGINT)
        same(play(executor), truth)
        assert begun_since(children) == workers
        assert len(workers) == 2


# What a user may say -------------------------------------------------------------------------


class Answers(Executor):
    """No pool: what it gives for a task is made by a function."""

    def __init__(self, give):
        self.give = give

    def submit(self, fn, /, *args, **kwargs):
        return self.give()


def forty_two():
    future = Future()
    future.set_result(42)
    return future


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        (Answers(lambda: None), "a task is None"),
        (Answers(forty_two), "a task gave 42"),
        (abctree.Pool(lambda: 3), "got 3: it was made by the function"),
    ],
    ids=["no_future", "other_result", "made_no_pool"],
)
def test_what_is_no_pool_is_told_in_a_sentence(pool, says):
    with pytest.raises(ParameterError, match=says):
        abctree.abc_tree(abctree.problems.gauss(2), n_simulations=100, rng=1, executor=pool)


def test_as_executor_takes_numbers_names_and_pools():
    for spec in (None, 1, "serial"):
        assert as_executor(spec) == abctree.Serial()
    assert as_executor(3).n_workers == as_executor(np.int64(3)).n_workers == 3
    assert as_executor(np.int64(1)) == abctree.Serial()
    assert as_executor(3).start_method == "spawn"
    assert isinstance(as_executor("threads"), abctree.Threads)
    assert isinstance(as_executor("processes"), abctree.Processes)
    assert as_executor("processes").n_workers == len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(5) as pool:
        assert isinstance(as_executor(pool), abctree.Pool)
        assert as_executor(pool).n_workers == 5
    own = abctree.Serial(3)
    assert as_executor(own) is own


def test_a_class_is_told_to_be_called():
    for kind in (ProcessPoolExecutor, abctree.Processes, Borrowed):
        with pytest.raises(ParameterError, match=rf"Call it first: executor={kind.__name__}\("):
            as_executor(kind)


@pytest.mark.parametrize("spec", [0, -1, True, 1.5, "dask", object()])
def test_as_executor_refuses_the_rest(spec):
    with pytest.raises(ParameterError, match="`executor` must be None, at least 1 process"):
        as_executor(spec)


@pytest.mark.parametrize(
    "make",
    [
        lambda: abctree.Threads(0),
        lambda: abctree.Processes(-2),
        lambda: abctree.Processes(True),
        lambda: abctree.Processes(2, "fork", chunk=0),
        lambda: abctree.Processes(2, "fork", n_threads=0),
        lambda: abctree.Pool(ThreadPoolExecutor, n_workers=0),
        lambda: abctree.Processes(2, "teleport"),
        lambda: abctree.Processes(2, "fork", memory=0.0),
        lambda: abctree.Processes(2, "fork", memory=float("nan")),
        lambda: abctree.Pool(3),
    ],
)
def test_executors_refuse_bad_arguments(make):
    with pytest.raises(ParameterError, match=r"^`\w+` must "):
        make()


# A slow half ---------------------------------------------------------------------------------


def half_is_slow(theta, rng):
    """Fifty times slower for half of the parameter space."""
    time.sleep(1e-2 if theta[0] > 0.0 else 2e-4)
    return theta + rng.normal(size=1)


class KeepsTheFirst:
    """The twin: gives up the half of a block that comes back last."""

    def chunks(self, work, rows):
        late = np.argsort(rows.theta[:, 0] > 0.0, kind="stable")[len(rows) // 2 :]
        done = work(rows)
        done.distance[late] = np.inf
        failures = tuple(Failure(int(rows.index[i]), tuple(rows.theta[i]), "late") for i in late)
        yield rows, Simulations(done.distance, done.summary, failures)


def evidence_and_mean(executor, seeds, simulator):
    p = abctree.Problem({"a": (-5.0, 5.0)}, simulator, observed=[0.0])
    runs = [
        play(executor, p, n=500, rng=seed, n_pilot=100, block=40, lookahead=2, schedule=[2.0, 1.0])
        for seed in seeds
    ]
    return [r.evidence(1.0).estimate for r in runs], [
        r.posterior(epsilon=1.0).mean()[0] for r in runs
    ]


def test_a_simulator_that_is_slow_for_half_of_the_parameters_biases_nothing():
    grid = np.linspace(-5.0, 5.0, 20_001)
    exact = np.mean(norm.cdf(1.0 - grid) - norm.cdf(-1.0 - grid))
    evidence, mean = evidence_and_mean(abctree.Threads(16), range(10), half_is_slow)
    assert abs(z_score(evidence, exact)) < 4.0
    assert abs(z_score(mean, 0.0)) < 4.0
    evidence, mean = evidence_and_mean(KeepsTheFirst(), range(10), plain)
    assert z_score(evidence, exact) < -6.0
    assert z_score(mean, 0.0) < -6.0


# At length -----------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("preset", [None, "published"])
def test_tables_are_equal_with_workers_killed_on_the_way(method, n, chunk, preset, tmp_path):
    p = problem(DiesAtFirst(str(tmp_path), 2, each=False))
    executor = abctree.Processes(n, method, chunk=chunk)
    result = play(executor, p, n=120, preset=preset)
    assert not result.failures
    assert any(tmp_path.iterdir())
    same(result, play(None, n=120, preset=preset))


@pytest.mark.heavy
@pytest.mark.parametrize("n_dead", [0.01, 0.1])
def test_many_deaths_end_in_as_many_failures(n_dead):
    p, q = (problem(s, prior={"a": (BAD - 1.0 / n_dead, BAD + 1.0)}) for s in (exits, raises))
    dead, raised = play(forked(3), p, n=1500), play(None, q, n=1500)
    same(dead, raised)
    assert dead.failures.count == raised.failures.count > 0
