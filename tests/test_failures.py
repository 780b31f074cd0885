"""Failures: counted, named, repeatable, never accepted, and never the end without a reason."""

from __future__ import annotations

import decimal
import os
import pickle
import signal
import sys
import tracemalloc
import warnings
from contextlib import contextmanager
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import abctree
from abctree import streams
from abctree.answers import failures
from abctree.data import Failure, Table
from abctree.problem import simulators
from tests.runs import posix

#: The cheap proposal: what fails is no matter of where it was proposed.
abc_tree = partial(abctree.abc_tree, proposal="boxes")

PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}


def sound(theta, rng):
    return theta + rng.normal(size=theta.shape)


def problem(simulator=sound, *, vectorized=False, **kwargs):
    return abctree.Problem(PRIOR, simulator, [1.0, -1.0], vectorized=vectorized, **kwargs)


@contextmanager
def quiet():
    """Few draws are what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        yield


# Whatever a simulator returns -------------------------------------------------------------------


class Returned:
    """An output, as the value that the simulator returns."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Returned({type(self.value).__name__})"

    def __call__(self):
        return self.value


class Raised:
    """An output, as the exception that the simulator raises."""

    def __init__(self, error):
        self.error = error

    def __repr__(self):
        return f"Raised({type(self.error).__name__})"

    def __call__(self):
        raise self.error


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


class Own(BaseException):
    """No Exception, as a panic of Rust."""


class Pretender:
    """Looks like an array until it is used."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array")


class Endless:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        raise RuntimeError("no item")


finite = st.floats(allow_nan=False, allow_infinity=False)
not_finite = st.sampled_from([np.nan, np.inf, -np.inf])
words = st.text() | st.sampled_from(["1.5", "nan", "\ud800", "0", "x" * 600])
awkward = st.one_of(
    st.none(),
    words,
    st.binary(),
    st.complex_numbers(),
    st.datetimes(),
    st.dates(),
    st.timedeltas(),
    st.just(object()),
    st.sampled_from([int, len, Ellipsis, NotImplemented, {}, {1.0, 2.0}, {"a": 1.0, "b": 2.0}]),
    st.sampled_from([np.datetime64("2024-01-01"), np.timedelta64(3, "s"), np.str_("2"), 10**400]),
    st.builds(lambda x: (v for v in x), st.lists(finite)),
    npst.arrays(float, npst.array_shapes(max_dims=2, max_side=3)).filter(lambda x: x.size != 2),
)
values = st.one_of(
    awkward,
    finite,
    # The right length, but not of real numbers, or not finite.
    st.tuples(finite, awkward).map(list),
    st.tuples(awkward, finite).map(list),
    st.tuples(finite, not_finite).map(np.array),
    st.tuples(not_finite, not_finite).map(list),
    st.sampled_from(
        [
            ["1", "2"],
            "12",
            b"12",
            bytearray(b"12"),
            memoryview(b"12"),
            np.array(["1.0", "2.0"]),
            np.array([b"1.0", b"2.0"]),
            np.array(["1.0", "2.0"], dtype=object),
            np.array([1.0 + 0j, 2.0]),
            [1.0 + 0j, 2.0],
            np.array([1.0 + 1j, 2.0], dtype=object),
            np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
            np.array([1, 2], dtype="m8[s]"),
            np.zeros(2, dtype=[("x", float)]),
            np.array([np.zeros(1), np.zeros(2)], dtype=object),
            np.ma.masked_array([1.0, -1.0], [False, True]),
            np.ma.masked_array([1.0 + 1j, -1.0], [False, True]),
            np.longdouble("1e4000") * np.ones(2, dtype=np.longdouble),
            [10**400, 1],
            [decimal.Decimal("sNaN"), 1.0],
            Pretender(),
            Endless(),
        ]
    ),
    # Numbers of the wrong shape, ragged ones included.
    st.lists(finite, max_size=6).filter(lambda x: len(x) != 2),
    st.lists(st.lists(finite, max_size=3), min_size=1, max_size=4),
    npst.arrays(
        npst.floating_dtypes(endianness="=") | npst.integer_dtypes() | npst.boolean_dtypes(),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ).filter(lambda x: x.shape != (2,)),
    npst.arrays(npst.complex_number_dtypes() | npst.byte_string_dtypes(), 2),
)
errors = st.one_of(
    st.builds(
        lambda kind, text: kind(text),
        st.sampled_from(
            [ValueError, RuntimeError, MemoryError, OSError, ArithmeticError, KeyError]
        ),
        words,
    ),
    st.sampled_from(
        [SystemExit, GeneratorExit, StopIteration, AssertionError, RecursionError, Own]
    ).map(lambda kind: kind()),
    st.builds(Unspeakable),
    st.builds(SystemExit, st.integers(0, 255)),
    st.builds(abctree.SimulatorError, words),
)
outputs = st.builds(Returned, values) | st.builds(Raised, errors)


#: Fifty outputs in one line are long, and not to blame.
LONG_REPR = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def scripted(outputs, first, every):
    """A simulator whose simulation `first`, and each `every` after it, gives the next output."""
    script = {first + i * every: output for i, output in enumerate(outputs)}

    def simulate(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        x = sound(theta, rng)
        theta[:] = np.nan  # what a simulator does to its argument is its own business
        return script[number]() if number in script else x

    return simulate, np.array(sorted(script))


def check_outputs(outputs, n=200, first=3, every=3):
    """A run with these outputs among sound ones counts each of them, and nothing else."""
    simulate, bad = scripted(outputs, first, every)
    assert bad[-1] < n
    with quiet():
        run = abc_tree(
            problem(simulate), n_simulations=n, rng=1, n_pilot=60, block=20,
            on_failure=abctree.FailurePolicy(limit=1.0),
        )  # fmt: skip
        draws = run.posterior(epsilon=np.inf)
    table = run.table
    assert len(table) == n, "a lost block"
    failed = np.zeros(n, dtype=bool)
    failed[bad] = True
    np.testing.assert_array_equal(np.isinf(table.distance), failed, err_msg="a wrong acceptance")
    assert run.failures.count == run.failures.reasons.total() == len(bad)
    for i in np.flatnonzero(~failed).tolist():
        x = sound(table.theta[i], streams.generator(run.root, i))
        np.testing.assert_array_equal(table.summary[i], x, err_msg="a lost simulation")
    assert np.isfinite(draws.theta).all()
    assert np.isfinite(draws.weights).all()
    for failure in run.failures.first:
        text = failure.reason + failure.traceback
        assert "\n" not in failure.reason
        assert len(failure.reason) < 500
        assert text.encode("utf-8")  # a store can write it


@pytest.mark.slow
@LONG_REPR
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.lists(outputs, min_size=50, max_size=50))
def test_malformed_outputs_are_failures_and_nothing_else(outputs):
    check_outputs(outputs)


@pytest.mark.heavy
@LONG_REPR
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.lists(outputs, min_size=50, max_size=50))
def test_ten_thousand_malformed_outputs_are_failures_and_nothing_else(outputs):
    check_outputs(outputs)


@pytest.mark.parametrize(
    "output",
    [
        ["1", "2"],
        bytearray(b"12"),
        np.array([b"1.0", b"2.0"]),
        np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
        np.ma.masked_array([1.0, -1.0], [False, True]),
        np.array([1.0 + 1j, -1.0]),
    ],
)
def test_a_wrongly_accepted_output_would_be_noticed(monkeypatch, output):
    # The twin that must fail: what NumPy takes for numbers.
    def gullible(value, source):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(value, dtype=np.complex128 if np.iscomplexobj(value) else float).real

    check_outputs([Returned(output)])
    monkeypatch.setattr(simulators, "floats", gullible)
    with pytest.raises(AssertionError, match="a wrong acceptance"):
        check_outputs([Returned(output)])


def test_a_lost_block_would_be_noticed(monkeypatch):
    # The other twin: a failure that takes the simulation after it along.
    read = simulators.Model.read
    last = [True]

    def forgetful(self, data, *shape):
        try:
            x = read(self, data, *shape)
        except Exception:
            last[0] = False
            raise
        if not last[0]:
            x = x * 0.0
        last[0] = True
        return x

    monkeypatch.setattr(simulators.Model, "read", forgetful)
    with pytest.raises(AssertionError, match="a lost simulation"):
        check_outputs([Returned(None)])


@pytest.mark.parametrize(
    "output",
    [
        (1, 2),
        [True, False],
        np.array([1, 2], dtype=np.int8),
        np.array([1, 2], dtype=np.float16),
        np.array([1, 2], dtype=np.longdouble),
        np.array([1.0, np.float32(2.0)], dtype=object),
        [Fraction(1, 3), decimal.Decimal("1.5")],
        [10**30, 2],
        range(2),
        np.ma.masked_array([1.0, 2.0], False),
        np.array([[1.0, 2.0]])[0],
    ],
)
def test_all_kinds_of_real_numbers_are_taken(output):
    row = simulators.as_row(output, (2,), "simulator")
    assert row.dtype == np.float64
    np.testing.assert_array_equal(row, [float(x) for x in output])


def test_what_is_no_exception_is_a_failure_all_the_same():
    def simulate(theta, rng):
        if theta[0] < 0.0:
            raise Own("panicked")
        return theta

    run = abctree.rejection(problem(simulate), n_simulations=60, rng=0)
    assert 0 < run.failures.count < 60
    assert set(run.failures.reasons) == {"Own: panicked"}
    assert run.predict(10).n_failed == 0


def test_masked_numbers_are_missing():
    row = simulators.as_row(np.ma.masked_array([1, 2], [False, True]), (2,), "simulator")
    np.testing.assert_array_equal(row, [1.0, np.nan])


def test_an_interruption_is_not_a_failure():
    def simulate(theta, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        problem(simulate).simulate(np.zeros((1, 2)), np.arange(1), 0)
    with pytest.raises(KeyboardInterrupt):
        problem(summary=lambda x: simulate(x, 0) if x[0] > 1.0 else x).simulate(
            np.full((1, 2), 9.0), np.arange(1), 0
        )


@pytest.mark.parametrize("mode", [True, "seeds"])
def test_malformed_rows_of_a_vectorized_call_are_found_one_by_one(mode):
    def simulate(theta, source):
        x = theta * 0.5
        if (theta[:, 0] > 3.0).any():
            return np.full(x.shape, "x")
        if (theta[:, 0] < -3.0).any():
            raise SystemExit(1)
        return np.where(np.abs(theta[:, 1:]) > 4.0, np.nan, x)

    run = abc_tree(problem(simulate, vectorized=mode), n_simulations=400, rng=0)
    outside = (np.abs(run.table.theta) > [3.0, 4.0]).any(axis=1)
    np.testing.assert_array_equal(np.isinf(run.table.distance), outside)
    assert 0 < run.failures.count == outside.sum() < 400
    assert set(run.failures.reasons) == {
        "WrongTypeError: simulator returned <U1, not real numbers",
        "SystemExit: 1",
        "simulator returned nan or inf",
    }


@posix
@pytest.mark.parametrize("place", ["simulator", "summary", "distance"])
def test_an_exit_by_a_handler_of_signals_ends_the_run_and_is_no_failure(place, tmp_path):
    def told_to_end(value):
        calls.append(1)
        if len(calls) == 150:
            os.kill(os.getpid(), signal.SIGTERM)
        return value

    calls: list = []
    stops = {place: told_to_end} if place != "distance" else {}
    if place == "distance":
        stops["distance"] = lambda x, y: told_to_end(abs(x - y).sum())
    simulator = stops.pop("simulator", lambda x: x)
    one = abctree.Problem(
        {"a": (-5.0, 5.0)}, lambda theta, rng: simulator(theta + rng.normal(size=1)), [1.0], **stops
    )
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with pytest.raises(SystemExit, match="143"):
            abc_tree(one, n_simulations=400, rng=0, store=tmp_path / "x")
    finally:
        signal.signal(signal.SIGTERM, before)
    again = abctree.resume(tmp_path / "x", one)
    assert (again.n_simulations, again.failures.count) == (400, 0)


# Where failures come from -----------------------------------------------------------------------


def fussy_summary(x):
    if x[0] > 5.0:
        raise ZeroDivisionError("no spread")
    return None if x[0] < -5.0 else x


def test_failures_of_the_summary_name_it():
    run = abc_tree(problem(summary=fussy_summary), n_simulations=1000, rng=0)
    assert set(run.failures.reasons) == {
        "summary raised ZeroDivisionError: no spread",
        "NothingError: summary returned None",
    }
    failure = next(f for f in run.failures.first if "spread" in f.reason)
    assert 'raise ZeroDivisionError("no spread")' in failure.traceback


def fussy_distance(x, observed):
    if x[0] > 4.0:
        raise ZeroDivisionError("no scale")
    size = float(np.linalg.norm(x - observed))
    return {-5: np.nan, -4: np.ones(2), -3: None, -2: "far", -1: size + 1j}.get(int(x[1]), size)


def test_failures_of_the_distance_name_it_and_touch_no_other_row():
    first = [0.0, 3.0]  # the probe is sound: nothing looks wrong with the distance as such

    def simulate(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        return first if number < 5 else theta

    run = abc_tree(
        problem(simulate, distance=fussy_distance), n_simulations=1000, rng=0, keep_summaries=True
    )
    x = run.table.summary
    raised = x[:, 0] > 4.0
    code = np.trunc(x[:, 1]).astype(int)
    bad = raised | ((code <= -1) & (code >= -5))
    np.testing.assert_array_equal(np.isinf(run.table.distance), bad)
    exact = np.linalg.norm(x - [1.0, -1.0], axis=1)
    np.testing.assert_allclose(run.table.distance[~bad], exact[~bad], rtol=1e-14)
    reasons = run.failures.reasons
    assert reasons["distance raised ZeroDivisionError: no scale"] == raised.sum()
    assert run.failures.count == bad.sum()
    assert all("distance" in reason for reason in reasons)
    assert len(reasons) >= 5


def test_a_similarity_is_not_taken_for_a_distance():
    with pytest.raises(abctree.SimulatorError, match="not a similarity"):
        abc_tree(problem(distance=lambda x, y: float(np.tanh(x @ y))), n_simulations=1000, rng=0)


def log_distance(x, y):
    """Negative near the observation only: dropped, the best simulations would be lost."""
    return float(np.log(np.abs(x - y).sum()))


@pytest.mark.parametrize("method", ["abc_tree", "map_tree", "smc", "rejection"])
@pytest.mark.parametrize("executor", [None, "threads"])
def test_a_negative_distance_ends_the_run_and_names_its_simulation(method, executor):
    with pytest.raises(
        abctree.SimulatorError, match=r"at least 0, but got -.* simulation \d+, at a="
    ):
        getattr(abctree, method)(
            problem(distance=log_distance), n_simulations=3000, rng=0, executor=executor
        )


@pytest.mark.slow
def test_what_a_negative_distance_would_cost_if_it_were_a_rejection(monkeypatch):
    """The twin: without the refusal the posterior has a hole where the observation is."""
    prior = {"a": (-5.0, 5.0)}

    def run(distance):
        made = abctree.Problem(
            prior, lambda theta, rng: theta[0] + 0.05 * rng.normal(), 1.0, distance=distance
        )
        with quiet():
            return abc_tree(made, n_simulations=2000, rng=0).posterior()

    monkeypatch.setattr(abctree.running.failing.Failing, "_refuse_negative", lambda *_: None)
    hole = run(lambda x, y: np.log(abs(x - y)))
    sound = run(lambda x, y: abs(x - y))
    assert np.abs(sound.theta - 1.0).min() < 0.1
    assert np.abs(hole.theta - 1.0).min() > 0.5


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_rounding_below_zero_is_zero_and_no_more_than_rounding_is(unit):
    observed = np.array([3.0, 4.0]) * unit

    def below(share):
        made = abctree.Problem(
            PRIOR, sound, observed, distance=lambda x, y: np.abs(x - y).max() - share * unit
        )
        x = np.array([observed, observed + unit])
        return made.measurement.measured(
            abctree.data.Simulations(np.zeros(2), x), np.zeros((2, 2)), np.arange(2)
        )

    rounded = below(1e-12)
    np.testing.assert_allclose(rounded.distance, [0.0, unit])
    assert not rounded.failures
    (failure,) = below(1e-3).failures
    assert "at least 0" in failure.reason


def test_a_negative_distance_leaves_the_simulations_in_the_store(tmp_path):
    made = problem(distance=lambda x, y: np.abs(x - y).sum() - 0.1)
    with pytest.raises(abctree.SimulatorError, match="at least 0") as first:
        abc_tree(made, n_simulations=3000, rng=1, store=tmp_path)
    run = abctree.load(tmp_path, made)
    assert 100 < run.n_simulations < 3000
    assert run.failures.count >= 1
    with pytest.raises(abctree.SimulatorError) as again:
        abctree.resume(tmp_path, made)
    assert str(again.value) == str(first.value)


def test_check_says_that_a_negative_distance_would_end_a_run():
    report = problem(distance=lambda x, y: -1.0).check(rng=0)
    assert "not a similarity" in str(report)
    assert "A run would end here." in str(report)


@pytest.mark.parametrize("value", ["near", np.ones(3), None, 1j])
def test_a_distance_that_never_works_is_an_error_after_five_simulations(value):
    calls = []

    def distance(x, y):
        calls.append(1)
        return value

    with pytest.raises(abctree.SimulatorError, match="distance"):
        abc_tree(problem(distance=distance), n_simulations=1000, rng=0)
    assert len(calls) < 20


def test_failures_of_a_distance_that_the_pilot_scales_are_counted():
    class Moody:
        is_fitted = False

        def fitted(self, simulated):
            fitted = Moody()
            fitted.is_fitted = True
            return fitted

        def __call__(self, simulated, observed):
            assert self.is_fitted
            return np.where(simulated[:, 0] > 3.0, np.nan, np.abs(simulated - observed).sum(axis=1))

    def simulate(theta, rng):
        return None if theta[1] > 4.0 else theta

    run = abc_tree(problem(simulate, distance=Moody()), n_simulations=500, rng=0)
    theta = run.table.theta
    bad = (theta[:, 0] > 3.0) | (theta[:, 1] > 4.0)
    np.testing.assert_array_equal(np.isinf(run.table.distance), bad)
    assert run.failures.count == bad.sum()
    assert (
        run.failures.reasons["NothingError: simulator returned None"] == (theta[:, 1] > 4.0).sum()
    )
    assert run.failures.by_round[0] == bad[: run.rounds[0].last].mean()
    with pytest.raises(ValueError, match="simulator returned None"):
        run.failures.reproduce(run.problem)
    with pytest.raises(abctree.FailedSimulationError):
        abc_tree(problem(sound, distance=Moody()), n_simulations=500, rng=0, on_failure="raise")


# on_failure="raise" -----------------------------------------------------------------------------


def out_of_range(theta, rng):
    x = sound(theta, rng)
    if theta[0] > 3.0:
        raise ValueError(f"a is {theta[0]:.2f}")
    return x


def test_raise_ends_the_run_with_all_that_makes_the_failure_again():
    rejecting = abc_tree(problem(out_of_range), n_simulations=500, rng=4)
    with pytest.raises(abctree.SimulatorError) as caught:
        abc_tree(problem(out_of_range), n_simulations=500, rng=4, on_failure="raise")
    error = caught.value
    first = rejecting.failures.first[0]
    assert isinstance(error, abctree.FailedSimulationError)
    assert error.case.failure == first
    for part in (f"Simulation {first.index}", f"a={first.theta[0]!r}", str(rejecting.root)):
        assert part in str(error)
    assert 'raise ValueError(f"a is' in str(error)
    with pytest.raises(ValueError, match="a is"):
        error.case.reproduce(problem(out_of_range))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


def test_raise_does_nothing_without_failures():
    run = abc_tree(problem(), n_simulations=500, rng=4, on_failure="raise")
    same = abc_tree(problem(), n_simulations=500, rng=4)
    np.testing.assert_array_equal(run.table.distance, same.table.distance)


def test_raise_comes_after_the_block_was_handed_to_the_wrapped_executor():
    seen = []

    class Recording:
        def chunks(self, work, rows):
            seen.append(rows.index)
            yield rows, work(rows)

    def late(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        return None if number == 160 else sound(theta, rng)

    with pytest.raises(abctree.FailedSimulationError) as caught:
        abc_tree(
            problem(late), n_simulations=1000, rng=4, n_pilot=100, block=50,
            executor=Recording(), on_failure="raise",
        )  # fmt: skip
    assert caught.value.case.failure.index == 160
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(200))


def test_raise_loses_nothing_that_a_store_keeps(tmp_path):
    def late(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        return None if number % 100 == 60 and number > 100 else sound(theta, rng)

    p = problem(late)
    kwargs = {"n_simulations": 600, "rng": 4, "n_pilot": 100, "block": 50}
    with pytest.raises(abctree.FailedSimulationError):
        abc_tree(p, **kwargs, store=tmp_path / "run", on_failure="raise")
    assert len(abctree.load(tmp_path / "run", p).table) == 200  # its block, and all before it
    run = abctree.resume(tmp_path / "run", p, on_failure="reject")
    whole = abc_tree(p, **kwargs)
    np.testing.assert_array_equal(run.table.distance, whole.table.distance)
    assert run.failures.reasons == whole.failures.reasons
    with pytest.raises(ValueError, match="simulator returned None"):
        abctree.load(tmp_path / "run", p).failures.reproduce(p, 2)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("ignore", "on_failure"),
        (None, "on_failure"),
        (0.5, "on_failure"),
    ],
)
def test_on_failure_names_its_rule(spec, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abc_tree(problem(), n_simulations=100, on_failure=spec)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"on_failure": "stop"},
        {"limit": 0.0}, {"limit": "0.5"},
        {"at_least": 0}, {"at_least": "9"},
    ],
)  # fmt: skip
def test_failure_policy_names_its_rule(kwargs):
    with pytest.raises(abctree.ParameterError, match=next(iter(kwargs))):
        abctree.FailurePolicy(**kwargs)


# To see it again --------------------------------------------------------------------------------


def test_reproduce_lets_the_exception_through():
    run = abc_tree(problem(out_of_range), n_simulations=500, rng=4)
    assert len(run.failures.first) == 5
    for i, failure in enumerate(run.failures.first):
        with pytest.raises(ValueError, match=failure.reason.removeprefix("ValueError: ")):
            run.failures.reproduce(run.problem, i)
        # The recipe of the docstring.
        again = run.problem.simulate(np.array([failure.theta]), np.array([failure.index]), run.root)
        assert again.failures[0].reason == failure.reason


def test_reproduce_uses_the_random_numbers_of_the_run():
    def unlucky(theta, rng):
        x = sound(theta, rng)
        if x[0] > 2.0:
            raise ValueError(repr(x[0].item()))
        return x

    run = abc_tree(problem(unlucky), n_simulations=300, rng=4)
    for i, failure in enumerate(run.failures.first):
        with pytest.raises(ValueError, match=failure.reason.removeprefix("ValueError: ")):
            run.failures.reproduce(run.problem, i)


def test_reproduce_raises_what_the_summary_and_the_distance_raise():
    run = abc_tree(problem(summary=fussy_summary), n_simulations=1000, rng=0)
    i = next(i for i, f in enumerate(run.failures.first) if "spread" in f.reason)
    with pytest.raises(ZeroDivisionError, match="no spread"):
        run.failures.reproduce(run.problem, i)

    def distance(x, y):
        if x[0] > 4.0:
            raise ZeroDivisionError("no scale")
        return abs(x - y).sum()

    run = abc_tree(problem(distance=distance), n_simulations=500, rng=0)
    with pytest.raises(ZeroDivisionError, match="no scale"):
        run.failures.reproduce(run.problem)


@pytest.mark.parametrize("raises", [True, False])
def test_reproduce_gives_a_vectorized_row_its_place_in_the_stream(raises):
    def unlucky(theta, rng):
        x = sound(theta, rng)
        bad = x[:, 0] > 4.0
        if raises and bad.any():
            raise ValueError(repr(x[bad, 0].tolist()))
        return np.where(bad[:, None], np.nan, x)

    p = problem(unlucky, vectorized=True, batch_size=16)
    run = abc_tree(p, n_simulations=400, rng=4)
    assert len(run.failures.first) == 5
    for i, failure in enumerate(run.failures.first):
        if raises:
            with pytest.raises(ValueError) as caught:
                run.failures.reproduce(run.problem, i)
            assert f"ValueError: {caught.value}" == failure.reason
        else:
            with pytest.raises(abctree.SimulatorError, match="not finite"):
                run.failures.reproduce(run.problem, i)
            assert len(run.failures.cases[i].index) > 1
    if not raises:
        # The twin that must fail: alone, with a generator of its own, a row is another one.
        alone = [
            run.problem.simulate(np.array([f.theta]), np.array([f.index]), run.root)
            for f in run.failures.first
        ]
        assert not all(one.failures for one in alone)


def test_reproduce_gives_the_distance_when_the_failure_came_from_outside():
    broken = [True]

    def simulate(theta, rng):
        x = sound(theta, rng)
        if theta[0] > 3.0 and broken[0]:
            raise OSError("no licence")
        return x

    run = abc_tree(problem(simulate), n_simulations=300, rng=4)
    broken[0] = False
    sane = abc_tree(problem(simulate), n_simulations=300, rng=4)
    number = run.failures.first[0].index
    assert run.failures.reproduce(run.problem) == sane.table.distance[number]


def fragile_summary(x):
    return x if x[0] < 4.0 else [np.nan, np.nan]


def test_reproduce_needs_a_distance_with_a_scale():
    fragile = problem(distance="mad", summary=fragile_summary)
    run = abc_tree(fragile, n_simulations=300, rng=4)
    with pytest.raises(abctree.SimulatorError, match="not finite"):
        run.failures.reproduce(fragile)
    with pytest.raises(abctree.ParameterError, match=r"result\.problem"):
        run.failures.reproduce(problem(distance="mad"))
    assert run.failures.reproduce(problem()) > 0.0


# Shares -----------------------------------------------------------------------------------------


def test_shares_by_round_and_by_box_are_those_of_the_table():
    run = abc_tree(problem(out_of_range), n_simulations=1500, rng=0)
    failed = run.table.theta[:, 0] > 3.0
    expected = [failed[r.first : r.last].mean() for r in run.rounds]
    np.testing.assert_allclose(run.failures.by_round, expected)
    assert run.failures.by_round[-1] < run.failures.by_round[0]
    for fold, partition in enumerate(run.partitions):
        shares = run.failures.by_box(fold)
        assert shares.shape == (len(partition),)
        boxes = partition.boxes
        for k in np.linspace(0, len(partition) - 1, 7).astype(int).tolist():
            cube = run.table.cube
            inside = ((cube >= boxes.lower[k]) & (cube < boxes.upper[k])).all(axis=1)
            if inside.any():
                assert shares[k] == failed[inside].mean()
            else:
                assert np.isnan(shares[k])
        # All fail where a > 3 (in the cube 0.8), none below.
        seen = ~np.isnan(shares)
        assert (shares[seen & (boxes.upper[:, 0] < 0.8)] == 0.0).all()
        assert (shares[seen & (boxes.lower[:, 0] >= 0.8)] == 1.0).all()
    text = str(run.summary())
    assert f"{run.failures.count} of 1500 simulations failed" in text
    assert f"share of failures by round: {run.failures.by_round[0]:.0%}" in text
    assert "boxes where most simulations fail hold" in text


def test_a_run_without_failures_says_nothing_of_them():
    run = abc_tree(problem(), n_simulations=500, rng=0)
    assert repr(run.failures) == "Failures(none)"
    assert len(run.failures) == 0
    assert (run.failures.by_round == 0.0).all()
    assert np.nanmax(run.failures.by_box()) == 0.0
    assert "fail" not in str(run.summary())


@pytest.mark.parametrize("method", [abc_tree, abctree.rejection, abctree.smc])
@pytest.mark.parametrize(("share", "said"), [(0.6, True), (0.01, False)])
def test_warnings_name_failures_from_the_share_on_at_which_the_summary_worries(method, share, said):
    def simulate(theta, rng):
        x = sound(theta, rng)
        return None if rng.random() < share else x

    run = method(problem(simulate), n_simulations=1000, rng=0)
    found = [w for w in run.warnings if "simulations failed" in w]
    assert bool(found) == said
    if said:
        assert f"{run.failures.count} of 1000 simulations failed" in found[0]
        assert str(run.summary()).count(found[0]) == 1
    else:  # the twin: some failed, too few to worry about
        assert run.failures.count > 0


@pytest.mark.parametrize(("n", "said"), [(1500, True), (10_000, False)])
def test_warnings_say_that_a_run_ended_early_through_failures(tmp_path, n, said):
    made = problem(failing_after(n))
    with quiet():
        run = abc_tree(made, n_simulations=2500, rng=0, store=tmp_path)
        found = [w for w in run.warnings if "run ended after" in w]
        assert bool(found) == said
        assert not said or "OSError: disk full" in found[0]
        assert abctree.load(tmp_path, made).warnings == run.warnings


@pytest.mark.slow
def test_notes_of_a_mode_name_failures_and_an_early_end():
    result = abctree.map_tree(problem(failing_after(1500)), n_simulations=4000, rng=0)
    assert any("simulations failed" in note for note in result.warnings)
    assert any("run ended after" in note for note in result.warnings)
    assert all(note in str(result.summary()) for note in result.warnings)
    assert result.mode().notes == result.warnings
    sane = abctree.map_tree(problem(), n_simulations=2000, rng=0)
    assert not any("failed" in note for note in sane.warnings)


def test_reasons_that_are_all_different_take_bounded_room():
    theta, index = np.zeros((1, 2)), np.arange(1)
    kept = failures.Failures(Table(2, 2), [], 0, 1)
    kept.add(
        [Failure(0, (0.0, 0.0), f"ValueError: a is {-i / 7}") for i in range(500)], theta, index
    )
    assert kept.count == kept.reasons.total() == 500
    assert kept.reasons["ValueError: a is #"] == 400
    assert "500" in repr(kept)
    words = failures.Failures(Table(2, 2), [], 0, 1)
    words.add([Failure(0, (0.0, 0.0), f"E: {'ab' * i}") for i in range(500)], theta, index)
    assert words.reasons["other reasons"] == 300
    assert len(words.reasons) == 201


# When nearly everything fails -------------------------------------------------------------------


def failing_after(n, share=1.0):
    def simulate(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        if number >= n and rng.random() < share:
            raise OSError("disk full")
        return sound(theta, rng)

    return simulate


@pytest.mark.parametrize("preset", [None, "published"])
@pytest.mark.parametrize("lookahead", [0, 2])
def test_a_run_in_which_everything_fails_ends_early_with_a_valid_result(preset, lookahead):
    with quiet():
        run = abc_tree(
            problem(failing_after(1500)), n_simulations=20_000, rng=0, preset=preset,
            block=50, lookahead=lookahead,
        )  # fmt: skip
        assert 1700 <= run.n_simulations <= 1500 + 200 + (lookahead + 2) * 50
        assert run.stopped_because == (
            f"{run.failures.count} of {run.n_simulations} simulations failed; "
            "the first: OSError: disk full"
        )
        assert run.failures.count == run.n_simulations - 1500
        assert np.isfinite(run.table.denominator).all()
        draws = run.posterior()
        assert len(draws) > 0
        assert np.isfinite(draws.mean()).all()
        assert "disk full" in str(run.summary())


def test_a_pilot_with_one_sound_simulation_ends_early_too():
    def simulate(theta, rng):
        number = int(rng.bit_generator.state["state"]["key"][1])
        return sound(theta, rng) if number == 40 else None

    with quiet():
        run = abc_tree(problem(simulate), n_simulations=10_000, rng=0)
        assert 400 <= run.n_simulations <= 1000
        assert "simulations failed; the first: NothingError" in run.stopped_because
        assert len(run.posterior(epsilon=np.inf)) <= 1
        assert str(run.summary())


def test_ninety_seven_per_cent_of_failures_is_no_reason_to_end():
    with quiet():
        run = abc_tree(
            problem(failing_after(100, 0.97)),
            n_simulations=3000,
            rng=0,
            block=200,
            proposal="boxes",
        )
    assert run.n_simulations == 3000
    assert "budget" in run.stopped_because


@pytest.mark.slow
def test_a_small_region_that_works_is_found_before_the_run_gives_up():
    # 0.3 % of the prior works: a pilot alone would look hopeless.
    def simulate(theta, rng):
        return sound(theta, rng) if np.abs(theta).max() < 0.27 else None

    run = abc_tree(problem(simulate), n_simulations=20_000, n_pilot=3000, rng=0)
    assert run.n_simulations == 20_000
    assert run.failures.by_round[0] > 0.99
    assert run.failures.by_round[-1] < 0.9


def test_the_limit_can_be_lifted():
    lenient = abctree.FailurePolicy(limit=1.0)
    with quiet():
        run = abc_tree(problem(failing_after(500)), n_simulations=1500, rng=0, on_failure=lenient)
    assert run.n_simulations == 1500
    strict = abctree.FailurePolicy(limit=0.2, at_least=50)
    run = abc_tree(
        problem(failing_after(500, 0.5)), n_simulations=1500, rng=0, block=50, on_failure=strict
    )
    assert run.n_simulations < 700


def test_streak_is_of_the_last_blocks_only():
    streak = failures.Streak(abctree.FailurePolicy(limit=0.99, at_least=200))
    streak.add(150, 150)
    assert not streak.is_hopeless  # too few
    streak.add(50, 50)
    assert streak.is_hopeless
    streak.add(50, 40)
    assert not streak.is_hopeless
    for _ in range(4):
        streak.add(50, 50)
    assert streak.is_hopeless  # what came before is forgotten
    streak.add(1000, 989)
    assert not streak.is_hopeless
    streak.add(1000, 991)
    assert streak.is_hopeless


def test_the_first_failure_of_a_hopeless_pilot_is_told():
    def simulate(theta, rng):
        raise RuntimeError("licence server down")

    with pytest.raises(abctree.SimulatorError, match="licence server down") as caught:
        abc_tree(problem(simulate), n_simulations=300, rng=0)
    assert "All 100 pilot simulations failed; number 0, at a=" in str(caught.value)
    assert "give a larger n_pilot=." in str(caught.value)
    with pytest.raises(abctree.SimulatorError, match="licence server down"):
        abc_tree(problem(simulate, distance="mad"), n_simulations=300, rng=0)
    with pytest.raises(abctree.SimulatorError, match="licence server down") as caught:
        abctree.rejection(problem(simulate, distance="mad"), n_simulations=300, rng=0)
    assert "n_pilot" not in str(caught.value)  # it has none


def test_an_empty_observation_is_refused():
    with pytest.raises(abctree.ParameterError, match="at least one number"):
        abctree.Problem(PRIOR, sound, [])


# Memory -----------------------------------------------------------------------------------------

#: Bytes that one simulation with two parameters and two summaries may take at the peak of a run on
#: one processor: 104 in the table, 20 for partitions.  Folds that are cut side by side take more.
BYTES = 145


def peak(n, seed, executor=None):
    """Bytes at the peak of a run."""
    tracemalloc.start()
    try:
        abc_tree(problem(vectorized=True), n_simulations=n, rng=seed, executor=executor)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(n, seeds=(0,), executor=None):
    """Bytes at the peak of a run, for each simulation beyond the first few.

    A peak depends on how many rows the last partition was fitted to, by a fifth from seed to
    seed: growths that are compared with each other are means.
    """
    peak(n // 8, seeds[0])  # What is made once (imports, compiled code) is no growth.
    return np.mean([peak(n, s, executor) - peak(n // 8, s, executor) for s in seeds]) / (n - n // 8)


class Hoarder:
    """An executor that keeps what it has returned."""

    def __init__(self):
        self.kept = []

    def chunks(self, work, rows):
        self.kept.append((rows, work(rows)))
        yield self.kept[-1]


@pytest.mark.slow
def test_memory_grows_by_a_constant_for_each_simulation(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    small, large = (growth(n, seeds=range(4)) for n in (25_000, 100_000))
    assert large < BYTES
    assert large < 1.3 * small
    # The twin that must fail: a copy of every block is kept.
    assert growth(100_000, range(3), Hoarder()) > BYTES


def test_failures_take_no_room_that_grows():
    def simulate(theta, rng):
        return np.where(theta > 0.0, np.nan, theta)

    p = problem(simulate, vectorized=True)
    run = abc_tree(p, n_simulations=20_000, rng=0)
    assert run.failures.count > 3000
    assert len(run.failures.cases) == 5
    assert sum(case.theta.nbytes for case in run.failures.cases) <= 5 * 1000 * 16
