"""`Session`: the answers decide, not when, where or in which order they are told."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import abctree
from tests.conftest import command, until
from tests.runs import edit_last_chunk, in_child, posix

PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
COLUMNS = ("cube", "theta", "distance", "proposal", "arm", "round", "fold", "denominator")


def one_by_one(theta, rng):
    return theta + rng.normal(size=2)


def vectorized(theta, rng):
    return theta + rng.normal(size=theta.shape)


def seeded(theta, seeds):
    noise = (seeds % np.uint64(1000)).astype(float)[:, None] / 500.0 - 1.0
    return theta + noise * [1.0, -0.7]


def problem(simulator=one_by_one, **kwargs):
    return abctree.Problem(kwargs.pop("prior", PRIOR), simulator, [1.0, -1.0], **kwargs)


def same(first, second, *, summaries=True):
    for column in COLUMNS:
        np.testing.assert_array_equal(
            getattr(first.table, column), getattr(second.table, column), err_msg=column
        )
    if summaries:
        np.testing.assert_array_equal(first.table.summary, second.table.summary)
    assert [r.epsilon for r in first.rounds] == [r.epsilon for r in second.rounds]
    assert first.failures.count == second.failures.count
    assert first.failures.reasons.total() == second.failures.reasons.total()
    assert first.stopped_because == second.stopped_because


def simulated(ask):
    """What `abc_tree` would have simulated."""
    return [one_by_one(theta, ask.rng(i)) for i, theta in enumerate(ask.theta)]


def measured(ask):
    return np.linalg.norm(np.array(simulated(ask)).reshape(-1, 2) - [1.0, -1.0], axis=1)


def drive(session, n=None, answer=None):
    answer = answer or (lambda s, ask: s.tell(ask.numbers, data=simulated(ask)))
    while not session.done:
        ask = session.ask(n)
        assert len(ask) > 0
        answer(session, ask)
    return session.result()


# The same run -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        pytest.param({"preset": "published", "block": 5}, marks=pytest.mark.slow),
        {"partitioner": "dyadic", "lookahead": 2, "block": 30},
        {"proposal": "adaptive", "lookahead": 1},
        {"stop": {"rounds": 2}, "n_folds": 2, "schedule": [4.0, 3.0, 2.0]},
    ],
)
def test_session_is_the_run_of_abc_tree_bit_for_bit(kwargs):
    run = abctree.abc_tree(problem(), n_simulations=600, rng=7, **kwargs)
    told = drive(abctree.Session(problem(abctree.elsewhere), n_simulations=600, rng=7, **kwargs))
    same(run, told)
    np.testing.assert_array_equal(run.posterior().weights, told.posterior().weights)


@pytest.mark.parametrize("distance", ["euclidean", "mad"])
def test_session_takes_summaries_and_data(distance):
    kwargs = {"summary": lambda x: np.asarray(x) * [2.0, 1.0], "distance": distance}
    given = {"n_simulations": 500, "rng": 1, "proposal": "boxes"}
    run = abctree.abc_tree(problem(**kwargs), **given)

    def summaries(session, ask):
        session.tell(ask.numbers, summaries=np.array(simulated(ask)) * [2.0, 1.0])

    for answer in (None, summaries):
        session = abctree.Session(problem(abctree.elsewhere, **kwargs), **given)
        same(run, drive(session, answer=answer))


def test_session_takes_distances_and_then_keeps_no_summaries():
    settings = {"n_simulations": 500, "rng": 1, "proposal": "boxes"}
    run = abctree.abc_tree(problem(), **settings)

    def distances(session, ask):
        if session.n_told % 2:
            session.tell(ask.numbers, distances=measured(ask))
        else:  # the two kinds may be mixed
            session.tell(ask.numbers, data=simulated(ask))

    told = drive(abctree.Session(problem(), **settings), 37, distances)
    np.testing.assert_allclose(told.table.distance, run.table.distance, rtol=1e-15)
    assert told.table.summary.shape == (500, 0)
    # The same distances to the last bit give the same run to the last bit.
    run = abctree.abc_tree(problem(), **settings, keep_summaries=False)
    exact = abctree.Session(problem(), **settings)
    lookup = run.table.distance
    exact = drive(exact, answer=lambda s, ask: s.tell(ask.numbers, distances=lookup[ask.numbers]))
    same(run, exact, summaries=False)


def test_session_of_a_vectorized_problem_uses_the_seeds():
    p = problem(seeded, vectorized="seeds")
    given = {"n_simulations": 500, "rng": 3, "proposal": "boxes"}
    run = abctree.abc_tree(p, **given)

    def answer(session, ask):
        session.tell(ask.numbers, data=seeded(ask.theta, ask.seeds))

    same(run, drive(abctree.Session(p, **given), 50, answer))


def test_another_distance_is_another_run():
    # The twin that must fail: one distance changed in its last bits.
    given = {"n_simulations": 600, "rng": 7, "proposal": "boxes"}
    run = abctree.abc_tree(problem(), **given)

    def answer(session, ask):
        data = simulated(ask)
        if 120 in ask.numbers:
            data[ask.numbers.tolist().index(120)] *= 1.0 + 1e-15
        session.tell(ask.numbers, data=data)

    told = drive(abctree.Session(problem(), **given), answer=answer)
    with pytest.raises(AssertionError):
        same(run, told)


# In any order -----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**31), lookahead=st.integers(0, 2))
def test_session_does_not_depend_on_order_parts_or_repeats(seed, lookahead):
    p = problem()
    rng = np.random.default_rng(seed)
    run = abctree.abc_tree(p, n_simulations=250, rng=5, block=25, lookahead=lookahead)
    session = abctree.Session(p, n_simulations=250, rng=5, block=25, lookahead=lookahead)
    waiting, told = [], []
    while not session.done:
        ask = session.ask(int(rng.integers(1, 40)))
        waiting += zip(ask.numbers.tolist(), simulated(ask), strict=True)
        order = rng.permutation(len(waiting))
        keep = int(rng.integers(0, len(waiting) + 1)) if len(ask) else 0
        now, waiting = [waiting[i] for i in order[keep:]], [waiting[i] for i in order[:keep]]
        assert sorted(session.outstanding().numbers) == sorted(n for n, _ in now + waiting)
        again = [told[i] for i in rng.integers(0, len(told), 3)] if told else []
        again = list({n: (n, x) for n, x in again}.values())
        told += now
        n_new = session.tell([n for n, _ in now + again], data=[x for _, x in now + again])
        assert n_new == len(now)
    same(run, session.result())


def test_lookahead_hands_out_blocks_before_the_first_is_told():
    for lookahead, known in ((0, 50), (1, 100), (3, 200)):
        session = abctree.Session(
            problem(),
            n_simulations=1000,
            rng=0,
            n_pilot=100,
            block=50,
            lookahead=lookahead,
            proposal="boxes",
        )
        while session.n_told < 100:
            ask = session.ask()
            session.tell(ask.numbers, data=simulated(ask))
        assert len(session.ask()) == known
        assert len(session.ask()) == 0
        assert not session.done


def test_simulations_that_are_given_up_are_counted_failures():
    def lost(number):
        return number % 7 == 3

    def simulate(theta, rng):
        x = one_by_one(theta, rng)
        if lost(simulate.number):
            raise RuntimeError("lost")
        return x

    session = abctree.Session(problem(), n_simulations=500, rng=1)

    def answer(session, ask):
        gone = lost(ask.numbers)
        x = np.array(simulated(ask))
        session.tell(ask.numbers[~gone], data=x[~gone])
        assert set(session.outstanding().numbers) == set(ask.numbers[gone])
        assert session.give_up(ask.numbers[gone], "node lost") == gone.sum()
        assert session.give_up(ask.numbers) == 0
        # An answer that comes when the block is over is dropped.
        assert session.tell(ask.numbers[gone], data=x[gone]) == 0

    result = drive(session, None, answer)
    failed = ~np.isfinite(result.table.distance)
    np.testing.assert_array_equal(failed, lost(np.arange(500)))
    assert result.failures.reasons == {"node lost": failed.sum()}
    assert result.failures.first[0].theta == tuple(result.table.theta[3])


def test_unusable_answers_are_failures_and_not_acceptances():
    bad = {0: None, 20: [np.nan, np.inf], 130: [1.0, np.inf], 150: [np.nan, 1.0], 300: None}

    def answer(session, ask):
        data = simulated(ask)
        for i, number in enumerate(ask.numbers.tolist()):
            data[i] = bad.get(number, data[i])
        session.tell(ask.numbers, data=data)

    result = drive(abctree.Session(problem(), n_simulations=400, rng=1), 77, answer)
    np.testing.assert_array_equal(np.flatnonzero(np.isinf(result.table.distance)), sorted(bad))
    assert result.failures.count == len(bad)
    assert any("None" in reason for reason in result.failures.reasons)


def test_bad_rows_of_a_vectorized_batch_do_not_lose_the_others():
    def answer(session, ask):
        data = list(ask.theta + 1.0)
        for number, nothing in {7: None, 30: np.array([np.nan, 1.0])}.items():
            if number in ask.numbers:
                data[ask.numbers.tolist().index(number)] = nothing
        session.tell(ask.numbers, data=data)

    p = problem(vectorized, vectorized=True)
    result = drive(abctree.Session(p, n_simulations=300, rng=1), answer=answer)
    assert np.flatnonzero(np.isinf(result.table.distance)).tolist() == [7, 30]


def test_a_pilot_that_fails_altogether_is_an_error():
    session = abctree.Session(problem(), n_simulations=300, rng=1)
    session.give_up(session.ask().numbers)
    with pytest.raises(abctree.SimulatorError, match="given up"):
        session.give_up(session.ask().numbers)
    assert not session.done


def test_session_ends_early_when_nearly_everything_fails():
    session = abctree.Session(problem(), n_simulations=3000, rng=1)

    def answer(session, ask):
        if session.n_told < 100:
            session.tell(ask.numbers, data=simulated(ask))
        else:
            session.give_up(ask.numbers, "cluster down")

    result = drive(session, answer=answer)
    assert "simulations failed; the first: cluster down" in result.stopped_because
    assert result.n_simulations < 600
    assert len(session.ask()) == len(session.outstanding()) == 0


# Results on the way -----------------------------------------------------------------------------


@pytest.mark.slow
def test_result_on_the_way_is_valid_and_changes_nothing():
    settings = {"n_simulations": 800, "rng": 2, "proposal": "boxes"}
    run = abctree.abc_tree(problem(), **settings)
    session = abctree.Session(problem(), **settings)
    with pytest.raises(abctree.ParameterError, match="pilot"):
        session.result()
    sizes = []

    def answer(session, ask):
        session.tell(ask.numbers, data=simulated(ask))
        if session.n_told >= 100 and not session.done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", abctree.AbctreeWarning)
                part = session.result()
                assert str(part.summary())
            sizes.append(part.n_simulations)
            assert part.stopped_because.startswith(f"unfinished: {sizes[-1]} of 800")
            np.testing.assert_array_equal(part.table.theta, run.table.theta[: sizes[-1]])
            assert np.isfinite(part.table.denominator).all()

    same(run, drive(session, 80, answer))
    assert sizes == sorted(sizes)
    assert 100 == sizes[0] < sizes[-1] < 800


# Files ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["euclidean", "mad"])
def test_a_session_goes_on_from_its_file_bit_for_bit(tmp_path, distance):
    p = problem(distance=distance)
    run = abctree.abc_tree(p, n_simulations=400, rng=9, lookahead=1, utility="omega1")
    session = abctree.Session(p, n_simulations=400, rng=9, lookahead=1, utility="omega1")
    path = tmp_path / "session"
    with np.errstate(all="raise"):
        for _ in range(1000):
            session.save(path)
            # Another process, which may not have been there when the simulations were begun.
            session = abctree.Session.load(path, p)
            if session.done:
                break
            old = session.outstanding()
            new = session.ask(45)
            assert not set(old.numbers) & set(new.numbers)
            for ask in (old, new):  # half of the new ones are left for the next time
                half = slice(None) if ask is old else slice(0, (len(ask) + 1) // 2)
                session.tell(ask.numbers[half], data=simulated(ask)[half])
    same(run, session.result())
    assert {f.name for f in path.iterdir()} == {"run.journal", "run.lock"}


def test_the_state_makes_the_session_again():
    session = abctree.Session(problem(), n_simulations=300, rng=9)
    for _ in range(3):
        ask = session.ask(40)
        session.tell(ask.numbers, data=simulated(ask))
    asked = session.ask(10)
    state = session.state
    assert isinstance(state, bytes)
    again = abctree.Session.from_state(state, problem())
    assert again.n_told == session.n_told
    np.testing.assert_array_equal(again.outstanding().numbers, asked.numbers)
    np.testing.assert_array_equal(again.outstanding().theta, asked.theta)
    same(drive_on(session), drive_on(again))


def drive_on(session):
    ask = session.outstanding()
    session.tell(ask.numbers, data=simulated(ask))
    return drive(session)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_session_goes_on_by_itself(way):
    session = abctree.Session(problem(), n_simulations=300, rng=9)
    session.ask()
    other = way(session)
    run = drive_on(session)
    assert other.n_told == 0
    same(drive_on(other), run)


def test_a_session_is_not_continued_with_another_problem(tmp_path):
    session = abctree.Session(problem(), n_simulations=300, rng=9)
    ask = session.ask()
    session.tell(ask.numbers, data=simulated(ask))
    session.save(tmp_path / "s")
    other = problem(prior={"a": (-5.0, 5.0), "b": (-5.0, 6.0)})
    with pytest.raises(abctree.ParameterError, match="prior"):
        abctree.Session.load(tmp_path / "s", other)
    edit_last_chunk(tmp_path / "s", lambda kept: replace(kept, check=kept.check + 1))
    with pytest.raises(abctree.StoreError, match="other parameters"):
        abctree.Session.load(tmp_path / "s", problem())


class OwnSchedule:
    """A schedule of the user's: the median, by hand."""

    def first(self, distance):
        return float(np.median(distance))

    def next(self, epsilon, distance, weight):
        lower = float(np.median(distance)) if len(distance) else epsilon
        return lower if lower < epsilon else None


def test_parts_of_the_users_are_given_again(tmp_path):
    session = abctree.Session(problem(), n_simulations=300, rng=9, schedule=OwnSchedule())
    session.save(tmp_path / "s")
    with pytest.raises(abctree.ParameterError, match="`schedule` must be given again"):
        abctree.Session.load(tmp_path / "s", problem())
    same(
        drive(session),
        drive(abctree.Session.load(tmp_path / "s", problem(), schedule=OwnSchedule())),
    )


def test_a_session_with_parts_of_the_users_has_a_result_on_the_way():
    session = abctree.Session(problem(), n_simulations=300, rng=9, schedule=OwnSchedule())
    while session.n_told < 200:
        ask = session.ask()
        session.tell(ask.numbers, data=[one_by_one(t, ask.rng(i)) for i, t in enumerate(ask.theta)])
    assert 0 < session.result().n_simulations <= 200


def place(data, sound):
    """A byte of a file, whose length depends on the seconds that are written in it."""
    return int(data.draw(st.floats(0.0, 1.0, exclude_max=True)) * len(sound))


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_file_is_an_error_of_ours_and_stays_as_it_is(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "s" / "run.journal"
    session = abctree.Session(problem(), n_simulations=120, rng=9)
    ask = session.ask()
    session.tell(ask.numbers, data=simulated(ask))
    session.save(folder / "s")
    sound = path.read_bytes()
    kind = data.draw(st.sampled_from(["truncate", "flip", "foreign"]))
    if kind == "truncate":
        damaged = sound[: place(data, sound)]
    elif kind == "flip":
        at = place(data, sound)
        flipped = sound[at] ^ (1 << data.draw(st.integers(0, 7)))
        damaged = sound[:at] + bytes([flipped]) + sound[at + 1 :]
    else:
        damaged = data.draw(st.binary(max_size=200))
    path.write_bytes(damaged)
    try:
        again = abctree.Session.load(folder / "s", problem())
    except abctree.AbctreeError:
        pass
    else:  # what is unfinished at the end never happened
        assert again.n_told in (0, session.n_told)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (b"", "not a run"),
        (b"{}", "not a run"),
        (b"abctree run\n\x02\x00\x00\x00", "newer abctree"),
        (b"abctree run\n\x01\x00\x00\x00", "holds no run"),
    ],
)
def test_a_state_that_is_none_is_an_error_of_ours(state, says):
    with pytest.raises(abctree.StoreError, match=says):
        abctree.Session.from_state(state, problem())
    with pytest.raises(abctree.StoreError, match="holds no run"):
        abctree.Session.load("nowhere", problem())
    with pytest.raises(abctree.ParameterError, match=r"`state` must be the bytes that .*a str"):
        abctree.Session.from_state("state", problem())


def test_a_session_shows_how_far_it_is_and_says_how_to_tell():
    session = abctree.Session(problem(), n_simulations=300, rng=1)
    ask = session.ask(3)
    with pytest.raises(abctree.ParameterError, match=r"Write data="):  # and not distances=
        session.tell(ask.numbers, np.zeros((3, 2)))
    session.give_up(ask.numbers)
    assert repr(session) == (
        "Session(Problem(a, b; observed summary of shape (2,)); 3 simulations told)"
    )


# All methods, and their folders -----------------------------------------------------------------

METHODS = pytest.mark.parametrize(
    ("method", "kwargs"),
    [
        ("abc_tree", {}),
        ("map_tree", {"block": 30}),
        ("smc", {"n_particles": 40}),
        ("rejection", {"keep": 60, "chunk": 70, "lookahead": 2}),
    ],
)


@METHODS
def test_session_of_each_method_is_the_run_of_the_method(method, kwargs, tmp_path):
    run = getattr(abctree, method)(problem(), n_simulations=500, rng=3, **kwargs)
    session = abctree.Session(
        problem(abctree.elsewhere), method=method, n_simulations=500, rng=3, **kwargs
    )
    while session.n_told < 250:
        ask = session.ask(60)
        session.tell(ask.numbers, data=simulated(ask))
    session.save(tmp_path / "half")
    same(run, drive(session, 60))
    assert session.result().method == method
    # The folder is that of any run: it is loaded, resumed by whoever simulates, and told more.
    p = problem()
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):
        loaded = abctree.load(tmp_path / "half", p)
    n = loaded.n_simulations
    assert loaded.stopped_because.startswith(f"unfinished: {n} of 500")
    if method != "rejection":
        np.testing.assert_array_equal(loaded.table.theta, run.table.theta[:n])
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):
        again = abctree.Session.load(tmp_path / "half", p)
    same(run, drive_on(again))
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):
        resumed = abctree.resume(tmp_path / "half", p)
    same(run, resumed)
    session.save(tmp_path / "whole")
    same(run, abctree.load(tmp_path / "whole", problem(abctree.elsewhere)))


def test_session_goes_on_with_the_folder_of_a_run_that_was_stopped(tmp_path):
    run = abctree.abc_tree(problem(), n_simulations=600, rng=3)
    abctree.abc_tree(problem(), n_simulations=600, rng=3, stop={"rounds": 2}, store=tmp_path / "x")
    session = abctree.Session.load(tmp_path / "x", problem(), stop=())
    assert 100 < session.n_told < 600
    same(run, drive(session))


def test_session_is_read_by_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "told_m.py").write_text(
        "import abctree\nproblem = abctree.Problem({'a': (-5.0, 5.0)}, abctree.elsewhere, [1.0])\n"
    )
    monkeypatch.chdir(tmp_path)
    p = abctree.Problem({"a": (-5.0, 5.0)}, abctree.elsewhere, [1.0])
    session = abctree.Session(p, n_simulations=300, rng=1)
    while not session.done:
        ask = session.ask()
        session.tell(ask.numbers, data=ask.theta + 0.1)
    session.save("told")
    shown = command("summary", "told", "--problem", "told_m:problem")
    assert shown.exit_code == 0, shown.output
    assert "300 simulations" in shown.output


@pytest.mark.slow
def test_asks_take_time_in_proportion_to_their_number():
    """The twin of a session that begins its run anew takes four times as long for twice as many."""
    took = []
    for n in (600, 1200, 2400):
        session = abctree.Session(problem(), n_simulations=n, rng=1, block=1, proposal="boxes")
        began = time.process_time()
        while not session.done:
            ask = session.ask(1)
            session.tell(ask.numbers, distances=np.abs(ask.theta[:, 0]))
        took.append(time.process_time() - began)
    assert took[2] < 3.2 * took[1]


@posix
def test_a_session_that_was_forked_says_what_to_do():
    session = abctree.Session(problem(), n_simulations=300, rng=1)
    ask = session.ask()

    def tell():
        with pytest.raises(abctree.AbctreeError, match="forked from its own"):
            session.tell(ask.numbers, data=simulated(ask))
        os.kill(os.getpid(), signal.SIGTERM)

    _, status = os.waitpid(in_child(tell), 0)
    assert os.WIFSIGNALED(status)
    assert session.tell(ask.numbers, data=simulated(ask)) == len(ask)


@pytest.mark.slow
def test_a_session_that_is_forgotten_ends_its_thread():
    before = threading.active_count()
    sessions = [abctree.Session(problem(), n_simulations=300, rng=i) for i in range(5)]
    assert threading.active_count() == before + 5
    sessions.clear()
    gc.collect()
    until(lambda: threading.active_count() == before)


# Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0],), "one of distances, summaries and data, but got 0"),
        (([0], {"distances": [1.0], "data": [[1.0, 2.0]]}), "but got 2"),
        (([0, 1], {"distances": [1.0]}), r"must have shape \(2,\)"),
        (([0], {"distances": [-1.0]}), "at least 0"),
        (([0], {"distances": ["near"]}), "real numbers"),
        (([0], {"distances": [1j]}), "real numbers"),
        (([0], {"summaries": [[1.0]]}), r"must have shape \(1, 2\)"),
        (([0], {"data": [[1.0, 2.0]] * 2}), "one item for each"),
        (([0], {"data": 3.0}), "one item for each"),
        (([0], {"data": {"a": [1.0, 2.0]}}), "must be a sequence of one item for each .* got dict"),
        (([0], {"data": np.array(1.0)}), "one item for each"),
        (
            ([0, 1], {"data": [[1.0, 2.0], [1.0]]}),
            r"simulation 1 must .* of shape \(2,\), but got \[1.0\]: .* shape \(1,\)",
        ),
        (([0], {"data": [1.0]}), r"of shape \(2,\), but got 1.0: .* shape \(\)"),
        (
            ([0, 1], {"data": [None, "1.0"]}),
            r"shape \(2,\).* got '1.0': .*, not numbers. Tell None",
        ),
        (([0], {"data": [[1j, 0.0]]}), r"shape \(2,\), but got \[1j, 0.0\]: .* not real numbers"),
        (([0], {"data": [object()]}), r"shape \(2,\), but got <object"),
        (([4000], {"distances": [1.0]}), "4000 has not been"),
        (([-1], {"distances": [1.0]}), "-1 has not been"),
        (([60], {"distances": [1.0]}), "60 has not been"),
        (([0, 0], {"distances": [1.0, 1.0]}), "different"),
        (([0.5], {"distances": [1.0]}), "whole numbers"),
        (([3], {"distances": [9.0]}), "change an answer"),
        (([3], {"data": [[9.0, 9.0]]}), "change an answer"),
    ],
)
def test_tell_names_the_mistake_and_takes_nothing(arguments, says):
    session = abctree.Session(problem(), n_simulations=500, rng=1)
    session.ask()
    session.tell([3], distances=[1.0])
    numbers, kwargs = arguments[0], arguments[1] if len(arguments) > 1 else {}
    with pytest.raises(abctree.ParameterError, match=says):
        session.tell(numbers, **kwargs)
    assert session.n_told == 1


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"executor": abctree.Serial()}, "no argument `executor`"),
        ({"lookahaed": 1}, "no argument `lookahaed`. Did you mean `lookahead`"),
        ({"on_failure": "raise"}, "on_failure"),
        ({"stop": {"seconds": 3.0}}, "clock"),
        ({"block": 0}, "block"),
    ],
)
def test_session_names_the_setting_that_breaks_its_rule(kwargs, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abctree.Session(problem(), n_simulations=500, **kwargs)


@pytest.mark.parametrize("n", [2.5, -1, np.nan, "3", True])
def test_ask_takes_whole_numbers_only(n):
    session = abctree.Session(problem(), n_simulations=500)
    with pytest.raises(abctree.ParameterError, match="`n` must be a whole number of at least 0"):
        session.ask(n)
    assert len(session.ask(np.int64(3))) == len(session.ask(2.0)) + 1 == 3


@pytest.mark.parametrize("summary", [None, np.asarray])
@pytest.mark.parametrize("many", [False, True])
def test_data_of_the_wrong_shape_cost_nothing(summary, many):
    """A scalar is wanted, and each item comes in an array of its own."""

    def simulate(theta, rng):
        return theta[0] + rng.normal()

    def each(theta, seeds):
        raise AssertionError

    if many:
        p = abctree.Problem({"a": (-5.0, 5.0)}, each, 1.0, summary=summary, vectorized="seeds")
    else:
        p = abctree.Problem({"a": (-5.0, 5.0)}, simulate, 1.0, summary=summary)
    session = abctree.Session(p, n_simulations=300, rng=1)
    ask = session.ask()
    right = [simulate(theta, ask.rng(i)) for i, theta in enumerate(ask.theta)]
    with pytest.raises(abctree.ParameterError, match=r"`data` of simulation 0 must .* shape \(\)"):
        session.tell(ask.numbers, data=[np.array([x]) for x in right])
    with pytest.raises(abctree.ParameterError, match=r"`data` of simulation 3 must .* shape \(\)"):
        session.tell(ask.numbers[:4], data=[*right[:3], "1.0"])
    assert session.n_told == 0
    assert len(session.outstanding()) == len(ask)
    assert session.tell(ask.numbers, data=right) == len(ask)

    def answer(session, ask):
        session.tell(ask.numbers, data=ask.theta[:, 0])

    assert drive(session, answer=answer).failures.count == 0


def test_answer_takes_the_place_of_a_failure_until_the_run_has_gone_on():
    run = abctree.abc_tree(problem(), n_simulations=300, rng=1)
    session = abctree.Session(problem(abctree.elsewhere), n_simulations=300, rng=1)
    first = session.ask()
    x = simulated(first)
    assert session.tell([0], data=[None]) == 1
    assert session.give_up([1]) == 1
    assert session.tell([0, 1], data=[[np.nan, 0.0], None]) == 0  # they have failed already
    assert session.tell([0, 1], data=x[:2]) == 2
    assert session.tell([0, 1], data=x[:2]) == 0
    with pytest.raises(abctree.ParameterError, match="must not change an answer"):
        session.tell([0], data=[None])  # a failure does not take the place of an answer
    again = abctree.Session.from_state(session.state, problem(abctree.elsewhere))
    again.tell(first.numbers, data=x)
    same(run, drive(again))
    # The twin: a failure that the run has gone on with stays.
    late = abctree.Session(problem(abctree.elsewhere), n_simulations=300, rng=1)
    ask = late.ask()
    late.tell(ask.numbers, data=[None, *x[1:]])
    assert late.tell([0], data=x[:1]) == 0
    assert drive(late).failures.count == run.failures.count + 1


def test_distances_cannot_be_told_where_the_pilot_scales_them():
    session = abctree.Session(problem(distance="mad"), n_simulations=500)
    ask = session.ask()
    with pytest.raises(abctree.ParameterError, match="takes its scale from the pilot"):
        session.tell(ask.numbers, distances=np.ones(len(ask)))


def test_elsewhere_is_not_a_simulator():
    with pytest.raises(abctree.SimulatorError, match=r"Session\.tell"):
        abctree.abc_tree(problem(abctree.elsewhere), n_simulations=200, rng=0)


def test_warnings_that_are_kept_within_others_leave_these_be():
    kept, warn = abctree.errors.warnings_kept, abctree.errors.warn
    outer, inner = [], []
    with kept(outer):
        with kept(inner):
            warn("inner")
        with kept():
            warn("for nobody")
        warn("outer")
    assert (outer, inner) == (["outer"], ["inner"])
    with pytest.warns(abctree.AbctreeWarning, match="for the user"):
        warn("for the user")
