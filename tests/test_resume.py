"""Runs that are killed, interrupted, stopped or extended, and resumed: equal in every number."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import time
import warnings
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

import abctree
from abctree.methods.run_abc_tree import play, play_rounds
from abctree.running import executors, journal, spec
from tests.conftest import Clock
from tests.runs import (
    FILE,
    Notebook,
    differences,
    edit_last_chunk,
    in_child,
    kept,
    numbers,
    posix,
    posterior,
    recorded,
)

DEFAULT, BOXES = {"proposal": "adaptive"}, {"proposal": "boxes"}
PUBLISHED = {"preset": "published", "block": 20, "quota": 60, "n_pilot": 50}
SETTINGS = pytest.mark.parametrize("kwargs", [DEFAULT, PUBLISHED], ids=["default", "published"])
N = 400


def simulate(theta, rng):
    y = theta + rng.normal(size=2)
    if y[0] > 5.5:
        raise ValueError(f"too far: {y[0]:.1f}")
    return y


def slow(theta, rng):
    time.sleep(0.0005)
    return simulate(theta, rng)


def rows(theta, rng):
    return theta + rng.normal(size=theta.shape)


def problem(simulator=simulate, observed=(1.0, -1.0), prior=None, **kwargs):
    prior = prior or {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    return abctree.Problem(prior, simulator, observed, **kwargs)


# Equality in every number -----------------------------------------------------------------------


def run(folder=None, simulator=simulate, n=N, **kwargs):
    """A run by the cheap proposal, where none is said."""
    settings = {"n_simulations": n, "rng": 1, "proposal": "boxes", **kwargs}
    return abctree.abc_tree(problem(simulator), store=folder, **settings)


@cache
def whole_run(method=run):
    """One that nothing has interrupted, in memory."""
    return run() if method is run else method(problem(), n_simulations=N, rng=1)


@SETTINGS
def test_run_with_a_store_is_the_run_without(tmp_path, kwargs):
    plain = run(**kwargs)
    assert plain.failures.count > 0
    assert differences(run(tmp_path / "x", **kwargs), plain) == []
    assert recorded(tmp_path / "x") == N


@SETTINGS
def test_equality_sees_one_bit_of_one_distance(tmp_path, kwargs):
    """The twin of all tests here: answers that differ in a bit make another run."""
    plain = run(tmp_path / "x", **kwargs)
    edit_last_chunk(tmp_path / "x")
    assert "distance" in differences(abctree.load(tmp_path / "x", problem()), plain)


# Killed -----------------------------------------------------------------------------------------


def begin_or_go_on(folder, **kwargs):
    if recorded(folder) >= 0:
        return abctree.resume(folder, problem(slow))
    return run(folder, slow, **kwargs)


def killed_after(seconds, folder, **kwargs):
    """Begin a run in another process, or go on with it, and kill it; simulations recorded."""
    child = in_child(lambda: begin_or_go_on(folder, **kwargs))
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return recorded(folder)


def killed_and_resumed(folder, n_times, seed, kwargs):
    """Moments of death that were inside a run, after checking all of the resumed runs."""
    whole = run(simulator=slow, **kwargs)  # compiles
    began = time.monotonic()
    run(folder / "whole", slow, **kwargs)
    length = time.monotonic() - began
    rng = np.random.default_rng(seed)
    moments = []
    for i in range(n_times):
        waits = rng.uniform(0.0, length, size=1 + i % 2)  # sometimes the resumed run is killed, too
        moments += [killed_after(wait, folder / f"{i}", **kwargs) for wait in waits.tolist()]
        assert differences(begin_or_go_on(folder / f"{i}", **kwargs), whole) == []
        assert differences(abctree.load(folder / f"{i}", problem(slow)), whole) == []
    return [n for n in moments if 0 < n < N]


@pytest.mark.slow
@posix
@SETTINGS
def test_killed_run_is_resumed_to_the_same_numbers(tmp_path_factory, kwargs):
    inside = killed_and_resumed(tmp_path_factory.mktemp("killed"), 5, 0, kwargs)
    assert len(inside) >= 2, inside


@posix
@pytest.mark.heavy
@SETTINGS
def test_run_killed_fifty_times_is_resumed_to_the_same_numbers(tmp_path_factory, kwargs):
    inside = killed_and_resumed(tmp_path_factory.mktemp("killed"), 50, 1, kwargs)
    assert len(set(inside)) >= 10, inside


def dies_at(n, *, share):
    """Kill this process at the n-th chunk that it writes, when a share of its bytes is out."""
    write, chunks = journal.write_all, []

    def deadly(file, data):
        chunks.append(data)
        if len(chunks) == n:
            write(file, data[: int(share * len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, data)

    journal.write_all = deadly
    executors.serial._SECONDS = np.inf  # a block is one chunk, also where its process has to wait


@posix
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize(("n", "before", "block"), [(4, 10, 5), (23, 120, 20)])
def test_run_killed_inside_a_write_is_resumed(tmp_path, share, n, before, block):
    folder = tmp_path / "x"

    def work():
        dies_at(n, share=share)
        run(folder)

    _, status = os.waitpid(in_child(work), 0)
    assert os.WIFSIGNALED(status)
    # The pilot has 20 blocks of 5 simulations; those of the rounds have 20.
    n_kept = before + block * (share == 1.0)
    loaded = abctree.load(folder, problem())
    assert len(loaded.table) == recorded(folder) == n_kept
    assert differences(abctree.resume(folder, problem()), whole_run()) == []


@pytest.mark.slow
def test_journal_cut_anywhere_is_an_earlier_moment_of_the_run(tmp_path):
    """A record that the disk has only half of never happened."""
    whole = run(tmp_path / "x")
    data = (tmp_path / "x" / FILE).read_bytes()
    ends = set()
    for size in range(len(data), len(data) // 2, -len(data) // 30):
        (tmp_path / "y").mkdir()
        (tmp_path / "y" / FILE).write_bytes(data[:size])
        ends.add(recorded(tmp_path / "y"))
        assert differences(abctree.resume(tmp_path / "y", problem()), whole) == []
        shutil.rmtree(tmp_path / "y")
    assert N in ends
    assert len(ends) > 5


# Interrupted at every step ----------------------------------------------------------------------


class PowerCutError(Exception):
    pass


class Cut:
    """An executor that fails at its n-th block, when it is begun or when it is waited for."""

    def __init__(self, n, *, at_submit):
        self.n, self.at_submit = n, at_submit

    def chunks(self, work, rows):
        self.n -= 1
        if self.n == 0 and self.at_submit:
            raise PowerCutError
        return self.made(work, rows, self.n)

    def made(self, work, rows, n):
        if n == 0:
            raise PowerCutError
        yield rows, work(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kwargs",
    [DEFAULT, PUBLISHED, {"lookahead": 2, **BOXES},
     {"keep_summaries": False, "distance": "mad", **BOXES},
     {"partitioner": "dyadic", "vectorized": True, **BOXES},
     {"keep_summaries": "store", "distance": "mad", **BOXES}],
    ids=["default", "published", "lookahead", "unkept", "vectorized", "in_store"],
)  # fmt: skip
def test_run_interrupted_at_every_block_is_resumed_to_the_same_numbers(tmp_path, kwargs):
    settings = dict(kwargs)
    vectorized = settings.pop("vectorized", False)
    p = problem(
        rows if vectorized else simulate,
        distance=settings.pop("distance", "euclidean"),
        vectorized=vectorized,
        batch_size=7,
    )
    settings = {"n_pilot": 40, **settings}
    whole = abctree.abc_tree(p, n_simulations=240, rng=1, store=tmp_path / "whole", **settings)
    n_blocks = 0
    while True:
        n_blocks += 1
        folder = tmp_path / str(n_blocks)
        cut = Cut(n_blocks, at_submit=n_blocks % 2 == 0)
        try:
            abctree.abc_tree(p, n_simulations=240, rng=1, store=folder, executor=cut, **settings)
            break
        except PowerCutError:
            executor = abctree.Serial(chunk=1 + n_blocks % 3)
            resumed = abctree.resume(folder, p, executor=executor)
            # A call of the simulator keeps a few tracebacks: small chunks keep more.
            assert set(differences(resumed, whole)) <= {"tracebacks"}
    assert n_blocks > 10


def test_run_with_workers_is_resumed_without(tmp_path):
    whole = run(lookahead=2)
    first = run(tmp_path / "x", lookahead=2, executor="threads", stop={"rounds": 2})
    assert 100 < len(first.table) < N
    resumed = abctree.resume(tmp_path / "x", problem(), stop=())
    assert set(differences(resumed, whole)) <= {"tracebacks"}


def test_run_whose_first_look_fails_leaves_the_folder_for_the_next(tmp_path):
    def wrong(theta, rng):
        return np.zeros(3)

    with pytest.raises(abctree.SimulatorError, match="shape"):
        run(tmp_path / "x", wrong)
    assert differences(run(tmp_path / "x"), whole_run()) == []


class Impatient(Cut):
    """The user presses Ctrl-C at the n-th block."""

    def made(self, work, rows, n):
        if n == 0:
            raise KeyboardInterrupt
        yield rows, work(rows)


def test_run_interrupted_by_the_user_goes_on(tmp_path):
    first = run(tmp_path / "x", executor=Impatient(27, at_submit=False))
    assert first.stopped_because == "interrupted"
    loaded = abctree.load(tmp_path / "x", problem())
    assert set(differences(loaded, first)) <= {"rounds"}  # its last round says it was interrupted
    assert loaded.stopped_because == "interrupted"
    assert differences(abctree.resume(tmp_path / "x", problem()), whole_run()) == []


# Stopped and extended ---------------------------------------------------------------------------


def test_run_stopped_by_the_clock_goes_on(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)

    def ticking(theta, rng):
        clock.now += 1.0
        return simulate(theta, rng)

    whole = run(simulator=ticking)
    first = run(tmp_path / "x", ticking, stop={"seconds": 150})
    assert first.stopped_because == "150 seconds passed"
    assert 150 <= len(first.table) <= 150 + 50  # a block
    loaded = abctree.load(tmp_path / "x", problem(ticking))
    assert differences(loaded, first) == []
    # The clock begins anew, with the first new simulation: one block is made.
    more = abctree.resume(tmp_path / "x", problem(ticking), stop={"seconds": 1})
    assert len(first.table) < len(more.table) <= len(first.table) + 50
    assert more.stopped_because == "1 seconds passed"
    assert more.seconds > first.seconds
    assert differences(abctree.resume(tmp_path / "x", problem(ticking), stop=()), whole) == []


def test_resumed_run_has_the_stopping_rules_of_its_beginning(tmp_path):
    stopped = run(tmp_path / "x", stop={"rounds": 2})
    again = abctree.resume(tmp_path / "x", problem())
    assert again.stopped_because == "2 rounds played"
    assert differences(again, stopped) == []
    assert differences(abctree.resume(tmp_path / "x", problem(), stop=()), whole_run()) == []
    # The rules of the last call are those of the next.
    assert differences(abctree.resume(tmp_path / "x", problem()), whole_run()) == []


def with_milestones(n, milestones, first, **kwargs):
    """A run that knows from the beginning where it will be extended."""
    p = problem()
    given = {"n_simulations": first, "rng": 1, "proposal": "boxes", **kwargs}
    made = spec.RunSpec.of("abc_tree", {"problem": p, **given})
    settings = {**made.settings, "n_simulations": n, "milestones": milestones}
    made = dataclasses.replace(made, settings=settings)
    return play(play_rounds, p, made, abctree.Serial(), None, None)


@pytest.mark.slow
@SETTINGS
def test_extended_run_is_the_longer_run_with_its_milestones(tmp_path, kwargs):
    first = run(tmp_path / "x", n=305, **kwargs)
    abctree.resume(tmp_path / "x", problem(), n_simulations=412)
    last = abctree.resume(tmp_path / "x", problem(), n_simulations=500)
    assert last.plan.milestones == (305, 412)
    assert len(last.table) == 500
    assert "500" in last.stopped_because
    assert numbers(last.table.theta[:305]) == numbers(first.table.theta)
    assert differences(last, with_milestones(500, (305, 412), 305, **kwargs)) == []
    assert differences(abctree.load(tmp_path / "x", problem()), last) == []
    # The twin: a block that does not end where the first run did makes another run.
    assert "theta" in differences(last, with_milestones(500, (), 305, **kwargs))


@pytest.mark.slow
def test_run_killed_while_it_was_extended_knows_its_budget(tmp_path):
    run(tmp_path / "x")
    with pytest.raises(PowerCutError):
        abctree.resume(
            tmp_path / "x", problem(), n_simulations=600, executor=Cut(3, at_submit=False)
        )
    loaded = abctree.load(tmp_path / "x", problem())
    assert loaded.stopped_because == "unfinished: 440 of 600 simulations made"
    last = abctree.resume(tmp_path / "x", problem())
    assert differences(last, with_milestones(600, (N,), N)) == []


@pytest.mark.parametrize("n", [N - 1, 0, -5, True, 1e3 + 0.5, "900"])
def test_resume_refuses_a_budget_that_is_smaller_or_none(tmp_path, n):
    run(tmp_path / "x")
    with pytest.raises(abctree.ParameterError, match="`n_simulations` must be"):
        abctree.resume(tmp_path / "x", problem(), n_simulations=n)
    assert recorded(tmp_path / "x") == N


@pytest.mark.parametrize("summaries", [True, "store"])
def test_folder_stays_where_it_is_when_the_simulator_changes_the_directory(
    tmp_path, monkeypatch, summaries
):
    def leaves(theta, rng):
        os.chdir("/")
        return simulate(theta, rng)

    monkeypatch.chdir(tmp_path)
    first = run("x", leaves, keep_summaries=summaries)
    assert os.getcwd() == "/"
    assert np.isfinite(first.table.summary).any()
    with pytest.warns(abctree.AbctreeWarning, match="simulator"):
        again = abctree.load(tmp_path / "x", problem())
    assert differences(again, first) == []


def test_resume_of_a_finished_run_writes_nothing(tmp_path):
    first = run(tmp_path / "x")
    before = (tmp_path / "x" / FILE).read_bytes()
    again = abctree.resume(tmp_path / "x", problem(), executor=Cut(1, at_submit=True))
    assert differences(again, first) == []
    assert (tmp_path / "x" / FILE).read_bytes() == before


# Failures ---------------------------------------------------------------------------------------


def test_run_that_ended_by_a_failure_goes_on_if_failures_are_rejected(tmp_path):
    with pytest.raises(abctree.SimulatorError, match="too far"):
        run(tmp_path / "x", on_failure="raise")
    n = recorded(tmp_path / "x")
    with pytest.raises(abctree.SimulatorError, match="too far"):
        abctree.resume(tmp_path / "x", problem(), executor=Cut(1, at_submit=True))
    assert recorded(tmp_path / "x") == n > 5  # the failure is on record: nothing was simulated
    last = abctree.resume(tmp_path / "x", problem(), on_failure="reject")
    assert differences(last, whole_run()) == []


# Loaded -----------------------------------------------------------------------------------------


def never(theta, rng):
    raise AssertionError


@SETTINGS
def test_load_never_simulates_and_has_all_methods(tmp_path, kwargs):
    first = run(tmp_path / "x", **kwargs)
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):
        loaded = abctree.load(tmp_path / "x", problem(never))
    assert differences(loaded, first) == []
    assert loaded.seconds == first.seconds
    assert loaded.plan == first.plan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        assert str(loaded.summary()) == str(first.summary())
        assert loaded.histogram().mean().tolist() == first.histogram().mean().tolist()


def test_load_reads_a_run_that_is_being_made(tmp_path):
    seen = []

    def look(progress):
        loaded = abctree.load(tmp_path / "x", problem())
        assert len(loaded.table) == progress.n_simulations
        seen.append(loaded.stopped_because)
        with pytest.raises(abctree.StoreError, match="in use by this process"):
            abctree.resume(tmp_path / "x", problem())

    first = run(tmp_path / "x", progress=look)
    assert len(seen) == len(first.rounds) - 1
    assert all(why.startswith("unfinished") for why in seen[:-1])


@pytest.mark.parametrize("n", [0, 1, 4, 20])
def test_load_reads_as_much_of_the_pilot_as_there_is(tmp_path, n):
    with pytest.raises(PowerCutError):
        run(tmp_path / "x", executor=Cut(n + 1, at_submit=False))
    if n == 0:
        with pytest.raises(abctree.StoreError, match="no simulations yet"):
            abctree.load(tmp_path / "x", problem())
        return
    loaded = abctree.load(tmp_path / "x", problem())
    assert loaded.stopped_because == f"unfinished: {5 * n} of {N} simulations made"
    assert len(loaded.rounds) == 1
    assert numbers(loaded.table.theta) == numbers(whole_run().table.theta[: 5 * n])
    assert (loaded.weights() == 1.0).all()  # prior draws


# The pilot --------------------------------------------------------------------------------------

#: Each method with few simulations; the arguments are those of all.
ALL = {
    "abc_tree": partial(abctree.abc_tree, proposal="boxes"),
    "smc": partial(abctree.smc, n_particles=30),
    "smc mixture": partial(abctree.smc, n_particles=25, weights="mixture", kernel="local"),
    "rejection": partial(abctree.rejection, keep=60, chunk=20),
    "rejection of all": partial(abctree.rejection, chunk=30, lookahead=2),
}
METHODS = pytest.mark.parametrize("method", ALL.values(), ids=ALL)


#: Seconds that a simulation takes; in an object, for a number of the module's is part of the code.
NAP = SimpleNamespace(seconds=0.0)


def drowsy(theta, rng):
    time.sleep(NAP.seconds)
    return simulate(theta, rng)


@METHODS
@pytest.mark.parametrize("executor", [None, "threads"])
def test_clock_is_looked_at_in_the_pilot(tmp_path, monkeypatch, method, executor):
    """Without that a pilot of 100 would take 0.4 seconds at least, or 0.2 with two threads."""
    p = problem(drowsy)
    monkeypatch.setattr(NAP, "seconds", 0.004)
    executor = abctree.Threads(2, chunk=5) if executor else None
    first = method(
        p, n_simulations=N, rng=1, stop={"seconds": 0.06}, store=tmp_path / "x", executor=executor
    )
    assert first.stopped_because == "0.06 seconds passed"
    assert 5 <= first.n_simulations < 60
    assert first.n_simulations % 5 == 0
    assert np.isfinite(first.weights()).all()
    assert differences(abctree.load(tmp_path / "x", p), first) == []
    monkeypatch.setattr(NAP, "seconds", 0.0)
    whole = whole_run(method)
    resumed = abctree.resume(tmp_path / "x", p, stop=())
    assert set(differences(resumed, whole)) <= {"tracebacks"}


@METHODS
def test_pilot_interrupted_by_the_user_is_a_result_once_there_is_something(tmp_path, method):
    for n in (1, 2, 4):
        impatient = Impatient(n, at_submit=False)
        make = partial(method, problem(), n_simulations=N, rng=1, executor=impatient)
        if n == 1:
            with pytest.raises(KeyboardInterrupt):
                make()
            continue
        result = make(store=tmp_path / f"{n}")
        assert result.stopped_because == "interrupted"
        assert result.n_simulations == 5 * (n - 1)
        assert np.isfinite(posterior(result).theta).all()
        whole = whole_run(method)
        assert differences(abctree.resume(tmp_path / f"{n}", problem()), whole) == []


@METHODS
def test_progress_is_told_in_a_pilot_that_takes_long(monkeypatch, method):
    seen = []
    make = partial(method, problem(), n_simulations=N, rng=1, progress=seen.append)
    make()
    assert all(p.round > 0 for p in seen)
    monkeypatch.setattr("abctree.running.runner._PATIENCE", 0.0)
    seen.clear()
    make()
    assert [p.n_simulations for p in seen if p.round == 0] == list(range(5, 101, 5))
    assert all(p.budget == N and p.epsilon == np.inf for p in seen if p.round == 0)


def test_part_of_a_pilot_under_a_constraint_is_weighted_by_its_share_of_the_points_drawn():
    p = problem(constraint=lambda t: t["a"] + t["b"] < -4.0)  # 18 % of the prior
    ratios = []
    for seed in range(40):
        result = abctree.abc_tree(
            p, n_simulations=2000, n_pilot=200, rng=seed, stop={"seconds": 1e-9}
        )
        assert result.n_simulations == 5
        ratios.append(result.weights(kind="draw")[0])
        np.testing.assert_allclose(result.weights(), 1.0, rtol=0.6)
    assert abs(np.mean(ratios) - 1.0) < 4.0 * np.std(ratios) / np.sqrt(40)
    assert np.std(ratios) < 0.15


# Other methods ----------------------------------------------------------------------------------


@pytest.mark.slow
@METHODS
def test_method_interrupted_at_every_block_is_resumed_to_the_same_numbers(tmp_path, method):
    p = problem(distance="mad")
    whole = method(p, n_simulations=240, rng=1, keep_summaries=False)
    assert whole.failures.count > 0
    stored = method(p, n_simulations=240, rng=1, keep_summaries=False, store=tmp_path / "whole")
    assert differences(stored, whole) == []
    assert differences(abctree.load(tmp_path / "whole", p), whole) == []
    for n in range(1, 1000):
        try:
            method(
                p, n_simulations=240, rng=1, keep_summaries=False, store=tmp_path / f"{n}",
                executor=Cut(n, at_submit=n % 2 == 0),
            )  # fmt: skip
            break
        except PowerCutError:
            if recorded(tmp_path / f"{n}") > 0:
                abctree.load(tmp_path / f"{n}", p)
            resumed = abctree.resume(tmp_path / f"{n}", p, executor=abctree.Serial(chunk=1 + n % 3))
            assert set(differences(resumed, whole)) <= {"tracebacks"}
    assert n > 22


#: What kills: at this simulation, in whatever process it is, the one of the run.  In an object, for
#: a number of the module's is part of the code.
FATAL = SimpleNamespace(number=-1, run=0, nap=0.0)


def fatal(theta, rng):
    time.sleep(FATAL.nap)
    if int(rng.bit_generator.state["state"]["key"][1]) == FATAL.number:
        os.kill(FATAL.run, signal.SIGKILL)
    return simulate(theta, rng)


#: Who simulates; blocks are cut into chunks in as many ways.
EXECUTORS = (
    abctree.Serial,
    partial(abctree.Serial, 7),
    partial(abctree.Threads, 2, chunk=5),
    partial(abctree.Processes, 2, "fork", chunk=3),
)


def killed_at(number, work):
    """Do `work` in another process, which is killed at a simulation; whether it came to that."""

    def run():
        FATAL.number, FATAL.run = number, os.getpid()
        work()

    _, status = os.waitpid(in_child(run), 0)
    return os.WIFSIGNALED(status)


def killed_at_simulations_and_resumed(folder, method, n_times, seed):
    """Runs killed once or twice and resumed, each time with another executor; what was kept."""
    p, rng = problem(fatal), np.random.default_rng(seed)
    whole = method(p, n_simulations=N, rng=1)
    found = []
    for i in range(n_times):
        path = folder / f"{i}"
        first, second, third = rng.permutation(len(EXECUTORS))[:3]
        number = int(rng.integers(5, N - 1))
        begin = partial(method, p, n_simulations=N, rng=1, store=path)
        assert killed_at(number, lambda f=first, begin=begin: begin(executor=EXECUTORS[f]()))
        if i % 2:
            later = int(rng.integers(number, N))  # another worker may have made it already
            go = partial(abctree.resume, path, p)
            killed_at(later, lambda s=second, go=go: go(executor=EXECUTORS[s]()))
        found.append(kept(path))
        again = abctree.resume(path, p, executor=EXECUTORS[third]())
        assert set(differences(again, whole)) <= {"tracebacks"}
        assert set(differences(abctree.load(path, p), whole)) <= {"tracebacks"}
    return found


KILLED = pytest.mark.parametrize(
    "method", [*ALL.values(), abctree.map_tree], ids=[*ALL, "map_tree"]
)


@pytest.mark.slow
@posix
@KILLED
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_method_killed_at_a_simulation_is_resumed_to_the_same_numbers(tmp_path, method):
    kept = killed_at_simulations_and_resumed(tmp_path, method, 3, 0)
    assert all(0 < n + noted < N for n, noted in kept)


@pytest.mark.heavy
@posix
@KILLED
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_method_killed_fifty_times_is_resumed_to_the_same_numbers(tmp_path, method, monkeypatch):
    monkeypatch.setattr(FATAL, "nap", 0.002)
    kept = killed_at_simulations_and_resumed(tmp_path, method, 50, 1)
    assert len(set(kept)) > 20
    assert sum(noted > 0 for _, noted in kept) > 5


@METHODS
@pytest.mark.parametrize("constrained", [False, True])
def test_method_goes_on_with_a_larger_budget(tmp_path, method, constrained):
    p = problem(constraint=(lambda t: t["a"] < t["b"]) if constrained else None)
    method(p, n_simulations=305, rng=1, store=tmp_path / "x")
    abctree.resume(tmp_path / "x", p, n_simulations=412)
    last = abctree.resume(tmp_path / "x", p, n_simulations=900)
    assert last.n_simulations == 900
    assert recorded(tmp_path / "x") == 900
    assert differences(abctree.load(tmp_path / "x", p), last) == []
    if last.method == "rejection":  # chunks change nothing, so neither do former budgets
        whole = method(p, n_simulations=900, rng=1)
        assert set(differences(last, whole)) <= {"method"}  # its plan knows of them


@METHODS
def test_method_interrupted_by_the_user_goes_on(tmp_path, method):
    first = method(
        problem(), n_simulations=N, rng=1, store=tmp_path / "x",
        executor=Impatient(23, at_submit=False),
    )  # fmt: skip
    assert first.stopped_because == "interrupted"
    assert 100 <= first.n_simulations < N
    loaded = abctree.load(tmp_path / "x", problem())
    assert set(differences(loaded, first)) <= {"rounds"}
    whole = whole_run(method)
    assert differences(abctree.resume(tmp_path / "x", problem()), whole) == []


def test_parts_of_another_method_are_given_again_or_refused(tmp_path):
    class Wide:
        def covariance(self, z, weight):
            return abctree.proposals.perturbations.TwiceCovariance().covariance(z, weight)

    run = partial(abctree.smc, problem(), n_simulations=N, n_particles=30, rng=1)
    whole = run(kernel="silverman", store=tmp_path / "x")
    for kernel in ("silverman", None):
        again = abctree.resume(tmp_path / "x", problem(), kernel=kernel)
        assert differences(again, whole) == []
    with pytest.raises(abctree.ParameterError, match="`kernel` must be that of the run"):
        abctree.resume(tmp_path / "x", problem(), kernel="local")
    with pytest.raises(abctree.ParameterError, match="`partitioner` must be one of"):
        abctree.load(tmp_path / "x", problem(), partitioner="cart")


def vector(theta, rng):
    return theta + rng.normal(size=theta.shape)


def stored_bytes(folder):
    return (folder / FILE).stat().st_size


def test_store_of_a_rejection_holds_what_may_still_be_kept(tmp_path):
    p = problem(vector, vectorized=True)
    bounded = {}
    for n in (30_000, 120_000):
        reject = partial(abctree.rejection, p, n_simulations=n, rng=1, chunk=2000)
        few = reject(keep=50, store=tmp_path / f"few {n}")
        assert differences(few, reject(keep=50)) == []
        assert differences(abctree.load(tmp_path / f"few {n}", p), few) == []
        bounded[n] = stored_bytes(tmp_path / f"few {n}")
    # Four times the simulations: more blocks, but hardly more rows.
    assert bounded[120_000] < bounded[30_000] + 90_000 / 2000 * 1500
    # The twin: where all are kept the store grows with them, by 24 bytes each.
    reject(store=tmp_path / "all")
    assert stored_bytes(tmp_path / "all") > 20 * 120_000 > 5 * bounded[120_000]


def test_store_of_a_rejection_counts_equal_distances_at_its_border(tmp_path):
    def whole_steps(theta, rng):
        return np.rint(theta + rng.normal(size=theta.shape))

    p = problem(whole_steps, vectorized=True, batch_size=20)
    reject = partial(abctree.rejection, p, n_simulations=3000, keep=40, rng=1, chunk=50)
    whole = reject()
    assert len(np.unique(whole.table.proposal)) == 2  # some stand for several
    assert differences(reject(store=tmp_path / "x"), whole) == []
    assert differences(abctree.load(tmp_path / "x", p), whole) == []


# What is not in the folder ----------------------------------------------------------------------


class Halves:
    """A partitioner of a user's own."""

    def partition(self, cube, distance, epsilon, current, rng):
        return abctree.Grid(2).partition(cube, distance, epsilon, current, rng)


class Thirds(Halves):
    def partition(self, cube, distance, epsilon, current, rng):
        return abctree.Grid(3).partition(cube, distance, epsilon, current, rng)


class Half:
    """A utility of a user's own."""

    def optimal_proposal(self, eta, prior_mass):
        q = prior_mass * np.sqrt(eta)
        return q / q.sum() if q.sum() > 0 else prior_mass


class SimilarHalf(Half):
    pass


class Enough:
    def reason(self, progress):
        return "enough" if progress.round == 2 else None


@pytest.mark.parametrize(
    ("keyword", "part"),
    [("partitioner", Halves()), ("utility", Half()), ("stop", Enough())],
)
def test_part_of_the_users_own_must_be_given_again(tmp_path, keyword, part):
    first = run(tmp_path / "x", **{keyword: part})
    with pytest.raises(abctree.ParameterError, match=f"`{keyword}` must be given again"):
        abctree.resume(tmp_path / "x", problem())
    again = abctree.resume(tmp_path / "x", problem(), **{keyword: part})
    assert differences(again, first) == []
    if keyword != "stop":
        with pytest.raises(abctree.ParameterError, match=f"`{keyword}` must be given again"):
            abctree.load(tmp_path / "x", problem())
        loaded = abctree.load(tmp_path / "x", problem(), **{keyword: part})
        assert differences(loaded, first) == []


def test_part_that_has_changed_is_spoken_of(tmp_path):
    first = run(tmp_path / "x", utility=Half())
    with pytest.warns(abctree.AbctreeWarning, match="utility has changed") as caught:
        again = abctree.resume(tmp_path / "x", problem(), utility=SimilarHalf())
    assert "test_resume.Half" in str(caught[0].message)
    assert differences(again, first) == []


def test_part_that_changes_what_is_simulated_is_refused(tmp_path):
    run(tmp_path / "x", partitioner=Halves())
    before = (tmp_path / "x" / FILE).read_bytes()
    with (
        pytest.warns(abctree.AbctreeWarning, match="partitioner has changed"),
        pytest.raises(abctree.StoreError, match="holds another run"),
    ):
        abctree.resume(tmp_path / "x", problem(), partitioner=Thirds(), n_simulations=900)
    assert (tmp_path / "x" / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"partitioner": "cart"}, "`partitioner` must be that of the run, SoftTree"),
        ({"utility": abctree.EffectiveSampleSize(0.6)}, "`utility` must be that of the run"),
        ({"quota": 10}, "`quota` must be one of"),
        ({"rng": 3}, "`rng` must be one of"),
    ],
)
def test_resume_refuses_other_settings(tmp_path, kwargs, words):
    run(tmp_path / "x")
    with pytest.raises(abctree.ParameterError, match=words):
        abctree.resume(tmp_path / "x", problem(), **kwargs)
    same = {"partitioner": "soft", "utility": abctree.EffectiveSampleSize(0.5)}
    assert differences(abctree.resume(tmp_path / "x", problem(), **same), whole_run()) == []


@pytest.mark.parametrize("method", [abctree.resume, abctree.load])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (problem(prior={"a": (-5.0, 5.0), "b": (-5.0, 4.0)}), "prior of the run"),
        (problem(prior={"a": (-5.0, 5.0), "c": (-5.0, 5.0)}), "parameters of the run"),
        (problem(observed=(1.0, -1.0 + 1e-15)), "observation of the run"),
        (problem(rows, vectorized=True), "way of calling the simulator"),
        (problem(distance="mad"), "distance of the run"),
        (None, "abctree.Problem"),
    ],
    ids=["prior", "names", "observed", "vectorized", "distance", "none"],
)
def test_problem_of_another_run_is_refused(tmp_path, method, other, words):
    run(tmp_path / "x")
    with pytest.raises(abctree.ParameterError, match=words):
        method(tmp_path / "x", other)


def test_code_that_has_changed_is_spoken_of(tmp_path):
    def other(theta, rng):
        return simulate(theta, rng)

    first = run(tmp_path / "x")
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed") as caught:
        again = abctree.resume(tmp_path / "x", problem(other))
    assert "test_resume.simulate" in str(caught[0].message)
    assert differences(again, first) == []
    changed = problem(distance="manhattan", summary=np.abs, constraint=lambda t: t["a"] < 9.0)
    with pytest.raises(abctree.ParameterError, match="observation"):
        abctree.load(tmp_path / "x", changed)
    changed = problem(other, constraint=lambda t: t["a"] < 9.0)
    with pytest.warns(abctree.AbctreeWarning) as caught:
        abctree.load(tmp_path / "x", changed)
    assert ["constraint" in str(w.message) for w in caught] == [True, False]


def test_run_of_another_version_of_abctree_is_spoken_of(tmp_path, monkeypatch):
    first = run(tmp_path / "x")
    monkeypatch.setattr(abctree, "__version__", "9.9")
    with pytest.warns(abctree.AbctreeWarning, match=r"begun with abctree .* with 9\.9"):
        again = abctree.resume(tmp_path / "x", problem())
    assert differences(again, first) == []


def test_abc_tree_refuses_a_folder_that_holds_a_run(tmp_path):
    run(tmp_path / "x")
    before = (tmp_path / "x" / FILE).read_bytes()
    with pytest.raises(abctree.ParameterError, match=r"abctree\.resume"):
        run(tmp_path / "x")
    assert (tmp_path / "x" / FILE).read_bytes() == before


def test_folder_that_is_damaged_or_foreign_is_not_touched(tmp_path):
    def count(theta, rng):
        calls.append(theta)
        return simulate(theta, rng)

    calls: list = []
    run(tmp_path / "x", count)
    whole = (tmp_path / "x" / FILE).read_bytes()
    n_calls = len(calls)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for data in (b"text", whole[:3], whole[:30], flipped, whole.replace(b"manifest", b"manifold")):
        (tmp_path / "x" / FILE).write_bytes(data)
        for method in (abctree.load, abctree.resume):
            with pytest.raises(abctree.StoreError, match=r"Nothing was changed|cannot be read"):
                method(tmp_path / "x", problem(count))
        with pytest.raises(abctree.StoreError):
            run(tmp_path / "x", count)
        assert (tmp_path / "x" / FILE).read_bytes() == data
    assert len(calls) == n_calls


# Stores of a user's own -------------------------------------------------------------------------


def test_store_of_the_users_own_is_a_store():
    store = Notebook()
    with pytest.raises(abctree.StoreError, match="holds no run"):
        abctree.resume(store, problem())
    with pytest.raises(PowerCutError):
        run(store, executor=Cut(9, at_submit=False))
    with pytest.raises(abctree.ParameterError, match=r"abctree\.resume"):
        run(store)
    assert differences(abctree.resume(store, problem()), whole_run()) == []
    assert differences(abctree.load(store, problem()), whole_run()) == []
