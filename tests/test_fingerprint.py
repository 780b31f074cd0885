"""Fingerprints of code: they see what was changed, not that it was used; and who compares them."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import itertools
import linecache
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abctree
from abctree.running.fingerprint import fingerprint, qualified_name

# What is seen -----------------------------------------------------------------------------------


class Shift:
    def __init__(self, by, **others):
        self.by = by
        self.__dict__.update(others)

    def __call__(self, theta, rng):
        return theta + self.by + rng.normal(size=2)

    def run(self, theta, rng):
        return self(theta, rng)


class Heir(Shift):
    """All code is inherited."""


class Slotted:
    __slots__ = ("by",)

    def __init__(self, by):
        self.by = by

    def __call__(self, theta, rng):
        return theta + self.by


class Plan:
    """A class of the module that is neither called nor declared."""

    def __init__(self, k):
        self.k = k


@dataclass
class Settings:
    k: object


def closed(k):
    return lambda theta, rng: theta + k


def by_default(k):
    def simulate(theta, rng, by=k):
        return theta + by

    return simulate


def by_keyword(k):
    def simulate(theta, rng, *, by=k):
        return theta + by

    return simulate


def cached(k):
    @functools.cache
    def simulate(theta, rng):
        return theta + k

    return simulate


def in_module(k, text="def simulate(theta, rng):\n    return theta + K"):
    """A function of a module whose text can be read, as from a file."""
    held = {"K": k, "__name__": "made"}
    name = f"<made {next(NUMBER)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), held)
    return held["simulate"]


NUMBER = itertools.count()


def through_helper(k):
    return in_module(
        k, "def helper(x):\n    return x + K\ndef simulate(theta, rng):\n    return helper(theta)"
    )


def in_inner(k):
    return in_module(k, "def simulate(theta, rng):\n    return [t + K for t in theta]")


HOLDERS = {
    "object": Shift,
    "object with more": lambda k: Shift(1.0, zeta=k),
    "heir": Heir,
    "slots": Slotted,
    "object in an object": lambda k: Shift(Plan(k)),
    "method": lambda k: Shift(k).run,
    "closure": closed,
    "default": by_default,
    "keyword": by_keyword,
    "cache": cached,
    "module": in_module,
    "helper": through_helper,
    "inner": in_inner,
    "partial": lambda k: functools.partial(closed(k), 1),
    "closure over an object": lambda k: closed(Shift(k)),
    "object with a function": lambda k: Shift(closed(k)),
}
PLAIN = {
    "int": (1, -1),
    "float": (1.0, -1.0),
    "bool": (True, False),
    "str": ("a", "b"),
    "none": (None, 0),
    "tuple": ((1, (2,)), (1, (3,))),
    "frozen set": (frozenset({"a", "b"}), frozenset({"a", "c"})),
    "scalar": (np.float64(1.0), np.float64(2.0)),
    "decimal": (Decimal("0.1"), Decimal("0.2")),
    "days": (timedelta(days=1), timedelta(days=2)),
    "range": (range(3), range(4)),
    "path": (Path("a"), Path("b")),
}
MUTABLE = {
    "list": ([1, [2]], [1, [3]]),
    "dict": ({"a": {"b": 1}}, {"a": {"b": 2}}),
    "key": ({"a": 1}, {"b": 1}),
    "set": ({"a", "b"}, {"a", "c"}),
    "array": (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
    "list of arrays": ([np.zeros(2)], [np.ones(2)]),
    "array of objects": (np.array([1.0, "a"], dtype=object), np.array([2.0, "a"], dtype=object)),
    "table": (pd.Series([1.0, 2.0]), pd.Series([1.0, 3.0])),
}
DECLARED = {
    "dataclass": lambda k: closed(Settings(k)),
    "field": Settings,
    "partial": lambda k: functools.partial(by_default(1), by=k),
    "positional": lambda k: functools.partial(by_default(1), k),
}


@pytest.mark.parametrize(
    ("make", "values"),
    [
        *itertools.product((HOLDERS | DECLARED).values(), [PLAIN["int"], MUTABLE["dict"]]),
        *itertools.product([Shift], (PLAIN | MUTABLE).values()),
    ],
)
def test_fingerprint_changes_with_a_value(make, values):
    first, second = values
    assert fingerprint(make(first)) != fingerprint(make(second))
    # The twin: with an equal value it is the same.
    assert fingerprint(make(first)) == fingerprint(make(copy.deepcopy(first)))


MODEL = """
class Model:
    def run(self, x):
        return x {sign} 1


MODEL = Model()


def simulate(theta, rng):
    return {call}(theta)
"""


@pytest.mark.parametrize("call", ["MODEL.run", "Model().run", "abs"])
def test_fingerprint_follows_objects_and_classes_of_the_module(tmp_path, monkeypatch, call):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for sign, name in (("+", "fp_plus"), ("-", "fp_minus"), ("+", "fp_again")):
        (tmp_path / f"{name}.py").write_text(MODEL.format(sign=sign, call=call))
        found.append(fingerprint(importlib.import_module(name).simulate))
        sys.modules.pop(name)
    assert (found[0] != found[1]) == (call != "abs")  # the twin: of what is not used
    assert found[0] == found[2]


LAMBDAS = [lambda t, rng: t + 1, lambda t, rng: t - 1]


def test_fingerprint_of_a_lambda_is_of_its_expression_not_of_its_line():
    first, second = LAMBDAS
    assert fingerprint(first) != fingerprint(second)
    one = in_module(1, "a = 1; simulate = lambda t, rng: (t +\n  1); b = 2")
    two = in_module(1, "\n\nsimulate = lambda t, rng: (t +\n  1); b = 3")
    three = in_module(1, "a = 1; simulate = lambda t, rng: (t -\n  1); b = 2")
    assert fingerprint(one) == fingerprint(two) != fingerprint(three)


def test_fingerprint_of_code_without_a_text_is_of_its_byte_code():
    def made(text):
        held = {}
        exec(text, held)
        return held["f"]

    text = "def f(x):\n    return x + {}"
    assert fingerprint(made(text.format(1))) == fingerprint(made(text.format(1)))
    assert fingerprint(made(text.format(1))) != fingerprint(made(text.format(2)))


def test_fingerprint_does_not_depend_on_the_place():
    text = "def simulate(theta, rng):\n    return theta + K"
    lines = [f"    {line}" for line in text.splitlines()]
    indented = in_module(1, "\n".join(["if True:", *lines]))
    assert fingerprint(indented) == fingerprint(in_module(1, f"# moved\n\n\n{text}"))


def test_fingerprint_changes_with_code_that_is_called_by_name():
    text = "def helper(x):\n    return x {} K\ndef simulate(theta, rng):\n    return {}(theta)"
    plus, minus = (in_module(1, text.format(sign, "helper")) for sign in "+-")
    assert fingerprint(plus) != fingerprint(minus)
    # The twin: code that is not called says nothing.
    plus, minus = (in_module(1, text.format(sign, "abs")) for sign in "+-")
    assert fingerprint(plus) == fingerprint(minus)


def test_fingerprint_sees_inside_of_compiled_functions():
    njit = pytest.importorskip("numba").njit

    text = "def helper(x):\n    return x {} K\ndef simulate(theta, rng):\n    return helper(theta)"
    made = {}
    for sign, k in (("+", 1), ("-", 1), ("+", 2)):
        simulate = in_module(k, text.format(sign))
        held = simulate.__globals__
        held["helper"] = njit(held["helper"])
        made[sign, k] = fingerprint(njit(simulate))
        assert fingerprint(njit(simulate)) == made[sign, k]
    assert len(set(made.values())) == 3


def test_fingerprint_runs_no_code_of_what_the_module_holds():
    class Lazy:
        def __getattr__(self, name):
            raise RuntimeError(name)

    assert fingerprint(in_module(Lazy())) == fingerprint(in_module(Lazy()))
    with pytest.raises(RuntimeError):  # the twin: it does have such code
        _ = Lazy().py_func


# What is not ------------------------------------------------------------------------------------


def counting():
    calls = 0

    def simulate(theta, rng):
        nonlocal calls
        calls += 1
        return theta

    return simulate


def counting_by_another():
    calls = 0

    def count():
        nonlocal calls
        calls += 1

    def simulate(theta, rng):
        count()
        return theta if calls else -theta

    return simulate


def remembering():
    known = {}

    def simulate(theta, rng):
        known[float(theta[0])] = 1
        return theta

    return simulate


def logging():
    log = []

    def simulate(theta, rng):
        log.append(1)
        return theta

    return simulate


def buffered():
    buffer = np.zeros(2)

    def simulate(theta, rng):
        buffer[:] = theta
        return buffer.copy()

    return simulate


def by_argument():
    def simulate(theta, rng, known={}):  # noqa: B006
        value = 1.0
        known["a"] = value
        return theta

    return simulate


def counting_in_module():
    return in_module(
        0, "def helper():\n    global K\n    K += 1\n"
        "def simulate(theta, rng):\n    helper()\n    return theta if K else -theta",
    )  # fmt: skip


class Worker:
    """It has all that objects change while they are used."""

    def __init__(self):
        self.calls, self.known, self.log, self.engine = 0, {}, [], None
        self.lock, self.rng = threading.Lock(), np.random.default_rng()

    @functools.cached_property
    def table(self):
        return [1.0, 2.0]

    def __call__(self, theta, rng):
        self.calls += 1
        self.known[float(theta[0])] = self.table
        return self.look(theta)

    def look(self, theta):
        self.log.append(1.0)
        self.engine = self.engine or 1.0
        return theta + self.rng.normal()


@dataclass
class Counter:
    k: int = 1
    calls: int = 0
    seen: list = field(default_factory=list)

    def __call__(self, theta, rng):
        self.calls += 1
        self.seen += [1]
        return theta


USED = [
    counting, counting_by_another, remembering, logging, buffered, by_argument, counting_in_module,
    Worker, Counter, lambda: Worker().__call__, lambda: closed(Worker()),
]  # fmt: skip


@pytest.mark.parametrize("make", USED)
def test_fingerprint_does_not_change_with_use(make):
    simulate = make()
    before = fingerprint(simulate)
    for _ in range(3):
        with contextlib.suppress(TypeError):
            simulate(np.ones(2), None)
    assert fingerprint(simulate) == before == fingerprint(make())


def test_fingerprint_sees_a_field_that_no_method_changes():
    """The twin: a counter is none, and neither is a field that says so."""

    @dataclass
    class Simulator:
        k: int
        cache: dict = field(default_factory=dict, compare=False)

        def __call__(self, theta, rng):
            return self.cache.setdefault(float(theta), theta + self.k)

    assert fingerprint(Counter(k=2)) != fingerprint(Counter())
    assert fingerprint(Counter(calls=2)) == fingerprint(Counter())
    assert fingerprint(Simulator(1, {1.0: 2.0})) == fingerprint(Simulator(1))
    assert fingerprint(Simulator(1)) != fingerprint(Simulator(2))


def test_fingerprint_ends_where_things_hold_each_other():
    held = [1]
    held.append(held)
    ring = Settings({"a": held})
    held.append(ring)
    before = fingerprint(ring)
    held[0] = 2
    assert fingerprint(ring) != before
    shift = Shift(1)
    shift.again = shift.run
    assert fingerprint(shift) == fingerprint(shift)

    def even(n, rng):
        return n == 0 or odd(n - 1, rng)

    def odd(n, rng):
        return n != 0 and even(n - 1, rng)

    assert fingerprint(even) == fingerprint(even) != fingerprint(odd)


# Another process --------------------------------------------------------------------------------

EVERYTHING = """
import functools, threading
import numpy as np

NAMES = {"alpha", "beta", "gamma", "delta", "epsilon"}
TABLE = {name: {"x": [1.0, None, np.arange(3.0)]} for name in sorted(NAMES)}
LEVEL = 3
OBJECTS = [object(), threading.Lock(), {object(): 1}, {object()}, (1, (object(),))]


def helper(x):
    return x + len(NAMES) + len(OBJECTS)


class Simulator:
    def __init__(self, k):
        self.k, self.names, self.things = k, set(NAMES), {name: OBJECTS for name in NAMES}
        self.lock, self.object, self.rng = threading.Lock(), object(), np.random.default_rng()
        self.function = lambda x: x in {"a", "b", "c", "d"}

    def __call__(self, theta, rng):
        return helper(theta) + self.k + LEVEL

    def method(self, theta, rng):
        return self(theta, rng)


def closed(k, things):
    def simulate(theta, rng, names=frozenset(NAMES), *, more=OBJECTS):
        return helper(theta) + k + len(things) + len(TABLE)

    return simulate


things = [
    Simulator(2), Simulator(2).method, closed(2, OBJECTS), closed(2, Simulator(2)),
    functools.partial(closed(2, NAMES), more=OBJECTS), functools.cache(closed(1, {})),
    lambda theta, rng: theta in {"a", "b", "c", "d"} or LEVEL,
]
"""


def from_another_process(folder, seed):
    code = (
        "from abctree.running.fingerprint import fingerprint; import everything\n"
        "print(*(fingerprint(thing) for thing in everything.things))"
    )
    path = os.pathsep.join([str(folder), str(Path(abctree.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True, timeout=100,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
    ).stdout.split()  # fmt: skip


@pytest.mark.slow
def test_fingerprint_is_the_same_in_every_process(tmp_path):
    (tmp_path / "everything.py").write_text(EVERYTHING)
    first = from_another_process(tmp_path, 1)
    assert len(set(first)) == 7
    assert from_another_process(tmp_path, 2) == first
    # The twin: one constant of the module is another.
    (tmp_path / "everything.py").write_text(EVERYTHING.replace("LEVEL = 3", "LEVEL = 4"))
    second = from_another_process(tmp_path, 3)
    assert [a != b for a, b in zip(first, second, strict=True)] == [
        *(True, True, False, True, False, False, True)
    ]


# Resuming ---------------------------------------------------------------------------------------


def problem(simulator=None, **kwargs):
    return abctree.Problem(
        {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, simulator or Shift(0.0), (1.0, -1.0), **kwargs
    )


def run(folder, made):
    return abctree.abc_tree(made, n_simulations=300, rng=1, store=folder, proposal="boxes")


@pytest.mark.parametrize("method", [abctree.resume, abctree.load])
@pytest.mark.parametrize(
    "make",
    [Shift, lambda k: Shift(k).run, lambda k: lambda theta, rng: theta + k * rng.normal(size=2)],
    ids=["object", "method", "closure"],
)
def test_changed_constant_of_a_simulator_is_spoken_of(tmp_path, method, make):
    run(tmp_path / "x", problem(make(1)))
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):
        method(tmp_path / "x", problem(make(-1)))
    method(tmp_path / "x", problem(make(1)))  # the twin: a warning would be an error


def test_other_distance_is_refused_by_resume_and_nothing_is_simulated(tmp_path):
    run(tmp_path / "x", problem(distance="euclidean"))
    before = (tmp_path / "x" / "run.journal").read_bytes()
    for method in (abctree.resume, abctree.load):
        with pytest.raises(
            abctree.ParameterError, match=r"Euclidean\(\), but got Minkowski\(p=1\)"
        ):
            method(tmp_path / "x", problem(distance="manhattan"))
    assert (tmp_path / "x" / "run.journal").read_bytes() == before


def test_another_density_is_another_prior(tmp_path):
    def made(power):
        prior = abctree.DensityPrior(lambda t: power * np.log(t[:, 0]), {"a": (0.1, 1.0)})
        return abctree.Problem(prior, lambda t, r: t[0], 0.5)

    abctree.rejection(made(1.0), n_simulations=200, rng=1, store=tmp_path / "x")
    abctree.load(tmp_path / "x", made(1.0))
    with pytest.raises(abctree.ParameterError, match="`problem` must have the prior of the run"):
        abctree.load(tmp_path / "x", made(2.0))


def test_a_run_of_what_has_no_attributes_can_be_kept(tmp_path):
    made = abctree.Problem({"a": (0.0, 1.0)}, lambda t, r: [t[0], 1.0], [0.5, 1.0],
                           summary=itemgetter(0))  # fmt: skip
    kept = abctree.rejection(made, n_simulations=200, rng=1, store=tmp_path / "x")
    assert len(abctree.load(tmp_path / "x", made).table) == len(kept.table)


# A part of the user's own -----------------------------------------------------------------------


class Half:
    """A utility of a user's own."""

    def __init__(self, power):
        self.power = power

    def optimal_proposal(self, eta, prior_mass):
        q = prior_mass * eta**self.power
        return q / q.sum() if q.sum() > 0 else prior_mass


def test_part_of_the_users_own_with_another_number_is_spoken_of(tmp_path):
    made = problem()
    abctree.abc_tree(made, n_simulations=300, rng=1, store=tmp_path / "x", utility=Half(0.5))
    abctree.load(tmp_path / "x", made, utility=Half(0.5))
    changed = pytest.warns(abctree.AbctreeWarning, match="utility has changed")
    with changed, contextlib.suppress(abctree.StoreError):
        abctree.load(tmp_path / "x", made, utility=Half(0.6))


def test_fingerprint_changes_with_code_and_constants_but_not_with_use():
    def scaled(by, calls=None):
        count = 0

        def function(theta, rng):
            nonlocal count
            count += 1
            return theta * by

        return function

    f = scaled(2.0)
    before = fingerprint(f)
    f(1.0, None)
    assert fingerprint(f) == before == fingerprint(scaled(2.0))
    assert fingerprint(scaled(3.0)) != before
    assert fingerprint(functools.partial(f, by=1)) != fingerprint(functools.partial(f, by=2))
    first, second = (lambda t: t), (lambda t: -t)
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(np.abs) != fingerprint(np.exp)
    assert fingerprint(abctree.Cart(max_leaves=3)) != fingerprint(abctree.Cart(max_leaves=4))
    assert qualified_name(functools.partial(f, by=1)) == qualified_name(f)
    made = {}
    exec("def g(x):\n    return x in {'a', 'b', 'c'}", made)  # no source text
    other = {}
    exec("def g(x):\n    return x in {'a', 'b', 'd'}", other)
    assert fingerprint(made["g"]) != fingerprint(other["g"])
