"""The conformance checks of all other parts: ours pass, deliberately broken ones do not."""

from __future__ import annotations

import dataclasses
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import abctree
from abctree import distances
from abctree.data import Arms
from abctree.proposals import Blend, OnBoxes, Thinned, UniformCube, fit_students
from abctree.testing import (
    check_belief_rule,
    check_constraint,
    check_distance,
    check_executor,
    check_partitioner,
    check_policy,
    check_prior,
    check_proposal,
    check_schedule,
    check_simulator,
    check_stopping_rule,
    check_store,
    check_utility,
)

PRIOR = abctree.Problem({"a": (0.0, 1.0), "b": (-1.0, 1.0)}, max, 0.0).prior


def broken(cases):
    """Parts and what the check says of them, with a name for each."""
    return pytest.mark.parametrize(("part", "says"), cases, ids=[says for _, says in cases])


# Distances --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "distance",
    [
        distances.Euclidean(), distances.Minkowski(1.0), distances.Minkowski(np.inf),
        distances.Scaled("mad"), distances.Scaled("std", 1.0), distances.Mahalanobis(),
        distances.Energy(), distances.Wasserstein(2.0),
        distances.FunctionDistance(lambda s, o: np.abs(s - o).sum()),
    ],
    ids=lambda distance: type(distance).__name__,
)  # fmt: skip
def test_our_distances_conform(distance):
    check_distance(distance)
    check_distance(distance, observed=np.arange(6.0).reshape(3, 2))


def euclidean(s, o):
    return np.sqrt(np.square(s - o).reshape(len(s), -1).sum(axis=1))


def spoils(s, o):
    s -= o
    return np.abs(s).sum(axis=1)


@dataclasses.dataclass
class Learned:
    """A distance that learns, in ways to be broken."""

    scale: float | None = None
    unfitted: float | None = None
    in_place: bool = False
    forgets: bool = False

    @property
    def is_fitted(self):
        return self.scale is not None and not self.forgets

    def fitted(self, simulated):
        if self.in_place:
            self.scale = simulated.std()
            return self
        return dataclasses.replace(self, scale=simulated.std())

    def __call__(self, s, o):
        return euclidean(s, o) / (self.scale or self.unfitted)


class Taught(Learned):
    """One that learns from parameters, too."""

    def taught(self, simulated, cube):
        assert len(simulated) == len(cube)
        return super().fitted(simulated)

    def fitted(self, simulated):
        raise TypeError("without parameters")


def test_check_distance_accepts_the_sound_twins():
    check_distance(euclidean)
    check_distance(Learned())
    check_distance(Taught())


@broken([
    (lambda s, o: np.square(s - o).sum(), "shape"),
    (lambda s, o: -euclidean(s, o), ">= 0"),
    (lambda s, o: np.log(euclidean(s, o) > 2), ">= 0"),
    (lambda s, o: euclidean(s, o) / euclidean(s, o).max(), "each row on its own"),
    (lambda s, o: euclidean(s, o) + np.random.default_rng().random(), "each row on its own"),
    (spoils, "must not change its arguments"),
    (lambda s, o: euclidean(s, o[:9]), "must accept finite summaries"),
    (Learned(unfitted=1.0), "called before `fitted`"),
    (Learned(in_place=True), "leave its own as it is"),
    (Learned(forgets=True), "`is_fitted` is false"),
    (Taught(in_place=True), "leave its own as it is"),
    (Taught(forgets=True), "`is_fitted` is false"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_check_distance_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_distance(part, observed=np.arange(10.0))


class Reported:
    """A distance that says what it has beside: the sound twin of what follows."""

    def __call__(self, s, o):
        return euclidean(s, o)

    def standardised(self, s, o):
        return (s - o).reshape(len(s), -1)

    def of_entries(self, keep, n):
        return self


class StandardisesTheSquare(Reported):
    def standardised(self, s, o):
        return (s - o).reshape(len(s), -1) ** 2


class StandardisesColumns(Reported):
    def standardised(self, s, o):
        return super().standardised(s, o).T


class ForgetsEntries(Reported):
    def of_entries(self, keep, n):
        return lambda s, o: euclidean(s[:, 1:], o[1:])


class KeepsTheirNumber(Reported):
    def of_entries(self, keep, n):
        return lambda s, o: euclidean(s[:, np.arange(n)], o)


def test_check_distance_asks_for_what_a_distance_has_beside_its_protocol():
    check_distance(Reported())
    check_distance(Reported(), observed=np.zeros((2, 3)))
    no_norm = type("NoNorm", (Reported,), {"standardised": lambda self, s, o: None})
    check_distance(no_norm())


@broken([
    (StandardisesTheSquare(), "`standardised` must give differences"),
    (StandardisesColumns(), r"Euclidean norm is the distance, but gives shape \(5, 50\)"),
    (ForgetsEntries(), "`of_entries` of all entries must give the same distance"),
    (KeepsTheirNumber(), "`distance` must accept finite summaries, but raised IndexError"),
])  # fmt: skip
def test_check_distance_rejects_what_is_broken_beside_its_protocol(part, says):
    with pytest.raises(AssertionError, match=says):
        check_distance(part)


# Policies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        abctree.Thompson(), abctree.Thompson(defensive=0.1, spread=0.3), abctree.TopTwo(),
        abctree.TopTwo("adaptive"), abctree.T3C(),
    ],
    ids=repr,
)  # fmt: skip
def test_our_policies_conform(policy):
    check_policy(policy)


class Even:
    """Every arm alike: the sound twin of what follows."""

    def pull(self, arms, partition, n, rng):
        k = len(arms)
        return rng.integers(k, size=n), np.full(k, 1 / k)


class PlaysTheFirst(Even):
    def pull(self, arms, partition, n, rng):
        return np.zeros(n, dtype=int), super().pull(arms, partition, n, rng)[1]


class Unnormalised(Even):
    def pull(self, arms, partition, n, rng):
        return None, arms.mean


class OneTooMany(Even):
    def pull(self, arms, partition, n, rng):
        played, q = super().pull(arms, partition, n, rng)
        return np.append(played, 0), q


class CountsFromOne(Even):
    def pull(self, arms, partition, n, rng):
        played, q = super().pull(arms, partition, n, rng)
        return played + 1, q


class OwnNumbers(Even):
    def pull(self, arms, partition, n, rng):
        return super().pull(arms, partition, n, np.random.default_rng())


class NeedsAcceptances(Even):
    def pull(self, arms, partition, n, rng):
        if not arms.alpha.all():
            raise ZeroDivisionError
        return super().pull(arms, partition, n, rng)


class Counts(Even):
    def pull(self, arms, partition, n, rng):
        arms.alpha[0] += 1
        return super().pull(arms, partition, n, rng)


def test_check_policy_accepts_the_sound_twin():
    check_policy(Even())


@broken([
    (PlaysTheFirst(), "played with the probabilities q"),
    (Unnormalised(), "sum to 1"),
    (OneTooMany(), "must name 1 arms"),
    (CountsFromOne(), "whole numbers below 5"),
    (OwnNumbers(), "the same seed gave other"),
    (NeedsAcceptances(), "accept all beliefs.*no acceptance, no prior"),
    (Counts(), "must not change its arguments"),
])  # fmt: skip
def test_check_policy_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_policy(part)


# Proposals --------------------------------------------------------------------------------------

THIRDS = abctree.Grid(3).partition(np.empty((0, 2)), np.empty(0), 1.0, None, None)
SHARES = np.arange(1.0, 10.0) / 45.0


class Ridge:
    def __call__(self, cube):
        return np.exp(-10.0 * (cube[:, 0] - cube[:, 1]) ** 2)

    def most(self, cube):
        return np.ones(len(cube))


def ours():
    boxes = OnBoxes(THIRDS, SHARES)
    yield UniformCube(2)
    yield boxes
    yield Blend([(0.2, UniformCube(2)), (0.8, boxes)])
    yield Thinned(boxes, Ridge(), 1.5, 2.0)
    drawn = np.random.default_rng(0).beta(2.0, 3.0, (500, 2))
    yield fit_students(drawn, np.full(500, 1 / 500), np.ones(500), np.random.default_rng(1))[1]


def test_our_proposals_conform():
    for proposal in ours():
        check_proposal(proposal, d=2)


class ForgetsTheRefused(Thinned):
    def density(self, cube):
        return self.base.density(cube)


class OtherShares(OnBoxes):
    def density(self, cube):
        return super().density(cube)[::-1]


class Leaves(UniformCube):
    def draw(self, n, rng):
        return 1.5 * rng.random((n, 2)), np.ones(n, dtype=bool)


class NewSeed(UniformCube):
    def draw(self, n, rng):
        return super().draw(n, np.random.default_rng())


class Counts01(UniformCube):
    def draw(self, n, rng):
        return super().draw(n, rng)[0], np.ones(n)


class LogDensity(UniformCube):
    def density(self, cube):
        return np.log(cube[:, 0])


@broken([
    (ForgetsTheRefused(UniformCube(2), Ridge(), 1.5, 2.0), "share that is kept is off by"),
    (OtherShares(THIRDS, SHARES), "mean of coordinate 0 is off by"),
    (Leaves(2), "in the unit cube"),
    (NewSeed(2), "the same seed gave other points"),
    (Counts01(2), r"booleans \(20000,\)"),
    (LogDensity(2), "finite and >= 0"),
])  # fmt: skip
def test_check_proposal_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_proposal(part, d=2)


# Beliefs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        abctree.Counts(), abctree.Counts(0.0, 0.0), abctree.GlobalRate(), abctree.MultiLevel(),
        abctree.LimitedShrinkage(),
    ],
    ids=repr,
)  # fmt: skip
def test_our_beliefs_conform(rule):
    check_belief_rule(rule)


class CountsOf:
    """Acceptances and rejections of each box plus one: the sound twin of what follows."""

    def start(self, partition, arm, distance, weight, *, epsilon, first_epsilon, count_epsilon):
        self.counts = np.ones((2, len(partition)))
        self.epsilon = epsilon
        self.learn(arm, distance)
        return self

    def learn(self, arm, distance):
        np.add.at(self.counts, ((distance >= self.epsilon).astype(int), arm), 1.0)

    def arms(self):
        return Arms(*self.counts.copy())


class NeverLearns(CountsOf):
    def learn(self, arm, distance):
        pass


class LearnsTheReverse(CountsOf):
    def arms(self):
        return Arms(*self.counts[::-1].copy())


class GivesOutItsOwn(CountsOf):
    def arms(self):
        return Arms(*self.counts)


class NeedsRows(CountsOf):
    def start(self, partition, arm, distance, weight, **given):
        weight / weight.sum()
        return super().start(partition, arm, distance, weight, level=distance.min(), **given)


class Negative(CountsOf):
    def arms(self):
        return Arms(self.counts[0] - 1.5, self.counts[1].copy())


class OneForAll(CountsOf):
    def arms(self):
        return Arms(*self.counts.sum(axis=1, keepdims=True))


class NormalisesWeights(CountsOf):
    def start(self, partition, arm, distance, weight, **given):
        weight /= weight.sum() or 1.0
        return super().start(partition, arm, distance, weight, **given)


def test_check_belief_rule_accepts_the_sound_twin():
    check_belief_rule(CountsOf())


@broken([
    (NeverLearns(), "50 acceptances in a box must move"),
    (LearnsTheReverse(), "50 acceptances in a box must move"),
    (GivesOutItsOwn(), "must give a copy"),
    (NeedsRows(), "`start` must accept all rows"),
    (Negative(), "α must be finite and at least 0"),
    (OneForAll(), "one for each of 4 boxes"),
    (NormalisesWeights(), "`start` must not change its arguments"),
])  # fmt: skip
def test_check_belief_rule_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_belief_rule(part)


# Schedules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule",
    [
        abctree.Geometric(), abctree.Geometric(0.3, start=1.0), abctree.Quantile(),
        abctree.Quantile(0.1, weighted=True), abctree.Explicit([2.0, 0.5, 0.1]),
    ],
    ids=repr,
)  # fmt: skip
def test_our_schedules_conform(schedule):
    check_schedule(schedule)


class Halves:
    """The sound twin of what follows."""

    def first(self, distance):
        return float(np.nextafter(np.min(distance), np.inf))

    def next(self, epsilon, distance, weight):
        return epsilon / 2 if epsilon > 1e-200 else None


class StaysWhereItIs(Halves):
    def next(self, epsilon, distance, weight):
        return epsilon


class BeginsAtTheSmallest(Halves):
    def first(self, distance):
        return float(np.min(distance))


class NeedsAcceptance(Halves):
    def next(self, epsilon, distance, weight):
        return min(epsilon / 2, np.quantile(distance[distance > 0], 0.5))


class Remembers(Halves):
    calls = 0

    def first(self, distance):
        self.calls += 1
        return self.calls + super().first(distance)


class Sorts(Halves):
    def first(self, distance):
        distance.sort()
        return super().first(distance)


def test_check_schedule_accepts_the_sound_twin():
    check_schedule(Halves())


@broken([
    (StaysWhereItIs(), "`next` must be positive and lower"),
    (BeginsAtTheSmallest(), "`first` must be positive"),
    (NeedsAcceptance(), "`next` must accept all distances.*ordinary"),
    (Remembers(), "must keep no memory"),
    (Sorts(), "must not change its arguments"),
])  # fmt: skip
def test_check_schedule_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_schedule(part)


class Pools(Halves):
    """A schedule of all draws: the sound twin of what follows."""

    def first(self, distance):
        return float(np.nextafter(np.max(distance[np.isfinite(distance)]), np.inf))

    def pooled(self, epsilon, first, distance, weight, budget):
        return min(first, max(0.9 * epsilon, super().first(distance)))


class PoolsAboveTheFirst(Pools):
    def pooled(self, epsilon, first, distance, weight, budget):
        return 1.5 * epsilon


class PoolsNothing(Pools):
    def pooled(self, epsilon, first, distance, weight, budget):
        return float(np.min(distance))


class PoolsByTheCall(Pools):
    calls = 0

    def pooled(self, epsilon, first, distance, weight, budget):
        self.calls += 1
        return max(epsilon * (1.0 - 0.01 / self.calls), Halves.first(self, distance))


class PoolsFiniteOnly(Pools):
    def pooled(self, epsilon, first, distance, weight, budget):
        distance[~np.isfinite(distance)] = 1e9
        return super().pooled(epsilon, first, distance, weight, budget)


def test_check_schedule_looks_at_pooled_where_there_is_one():
    check_schedule(Pools())


@broken([
    (PoolsAboveTheFirst(), "at most the first tolerance"),
    (PoolsNothing(), "`pooled` must accept a row"),
    (PoolsByTheCall(), "must keep no memory"),
    (PoolsFiniteOnly(), "`pooled` must not change its arguments"),
])  # fmt: skip
def test_check_schedule_rejects_a_broken_pooled_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_schedule(part)


# Stopping rules ---------------------------------------------------------------------------------


def test_our_stopping_rules_conform():
    limits = {"seconds": 1.0, "rounds": 2, "epsilon": 0.1, "acceptance_rate": 0.1, "ess": 100}
    for rule in abctree.stopping.as_stopping_rules(limits):
        check_stopping_rule(rule)


def asked_twice():
    said = []
    return lambda progress: said.append(progress) or (None if len(said) < 6 else "asked often")


@broken([
    (lambda progress: progress.epsilon < 1.0, "words or None"),
    (lambda progress: "", "words or None"),
    (lambda progress: f"{1 / progress.round:g}" if progress.ess > 1e9 / progress.round else None,
     "must accept all progress"),
    (asked_twice(), "the same of the same progress"),
])  # fmt: skip
def test_check_stopping_rule_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_stopping_rule(SimpleNamespace(reason=part))


def test_check_stopping_rule_asks_whether_it_is_asked_after_every_block():
    check_stopping_rule(SimpleNamespace(reason=lambda progress: None, every_block=True))
    with pytest.raises(AssertionError, match="`every_block` must be True or False"):
        check_stopping_rule(SimpleNamespace(reason=lambda progress: None, every_block=3))


# Stores -----------------------------------------------------------------------------------------


class Shelf:
    """Records in a list that outlives it: the sound twin of what follows."""

    def __init__(self, held):
        self.held = held

    def records(self):
        return list(self.held)

    def append(self, kind, data, *, flush):
        self.held.append((kind, data))

    def close(self):
        pass


class LosesWhatIsNotFlushed(Shelf):
    def append(self, kind, data, *, flush):
        if flush:
            super().append(kind, data, flush=flush)


class StripsLines(Shelf):
    def append(self, kind, data, *, flush):
        super().append(kind, data.strip(), flush=flush)


class BeginsAnew(Shelf):
    def __init__(self, held):
        held.clear()
        super().__init__(held)


class SortsRecords(Shelf):
    def records(self):
        return sorted(self.held)


class KeepsOneOfAKind(Shelf):
    def append(self, kind, data, *, flush):
        self.held[:] = [*(r for r in self.held if r[0] != kind), (kind, data)]


class TextOnly(Shelf):
    def append(self, kind, data, *, flush):
        data.decode()


class Numbered(Shelf):
    def record(self, number, begin=0, end=None):
        return self.held[number][1][begin:end]


class CountsThoseItAppended(Numbered):
    def __init__(self, held):
        super().__init__(held)
        self.n = len(held)

    def record(self, number, begin=0, end=None):
        return super().record(self.n + number, begin, end)


class GivesWhole(Numbered):
    def record(self, number, begin=0, end=None):
        return super().record(number)


class IsShut(Numbered):
    def close(self):
        self.held = []


@pytest.mark.parametrize("part", [Shelf, Numbered])
def test_check_store_accepts_the_sound_twin(part):
    held = []
    check_store(lambda: part(held))


@broken([
    (LosesWhatIsNotFlushed, "of 4 records 1 are, among 2"),
    (StripsLines, "to the byte"),
    (BeginsAnew, "of 4 records 0 are, among 0"),
    (SortsRecords, "in order"),
    (KeepsOneOfAKind, "must be there again"),
    (TextOnly, "`append` must accept every record"),
    (CountsThoseItAppended, "`record` must give bytes 0:None of record 0"),
    (GivesWhole, "`record` must give bytes 1:3"),
    (IsShut, "`record` must accept numbers of records, but raised IndexError"),
])  # fmt: skip
def test_check_store_rejects_a_broken_part_and_names_the_rule(part, says):
    held = []
    with pytest.raises(AssertionError, match=says):
        check_store(lambda: part(held))


# Executors --------------------------------------------------------------------------------------


def test_our_executors_conform():
    check_executor(abctree.Serial())
    with abctree.Threads(2) as threads:
        check_executor(threads)


@pytest.mark.slow
def test_our_processes_conform():
    with abctree.Processes(2) as processes:
        check_executor(processes)


class AtOnce:
    """Runs the rows when they are asked for: the sound twin of what follows."""

    def chunks(self, work, rows):
        yield rows, work(rows)


class Reversed(AtOnce):
    def chunks(self, work, rows):
        yield rows, work(rows[::-1])


class CutsUnits(AtOnce):
    def chunks(self, work, rows):
        for half in np.array_split(np.arange(len(rows)), 2):
            if len(half):
                yield rows[half], work(rows[half])


class LosesRows(AtOnce):
    def chunks(self, work, rows):
        part = next(rows.parts(20))
        yield part, work(part)


class LosesFailures(AtOnce):
    def chunks(self, work, rows):
        yield rows, dataclasses.replace(work(rows), failures=())


class HoldsOne(AtOnce):
    """Every iterator answers for the call that was begun last."""

    def chunks(self, work, rows):
        self.last = work, rows
        return self.made()

    def made(self):
        work, rows = self.last
        yield rows, work(rows)


def test_check_executor_accepts_the_sound_twin():
    check_executor(AtOnce())


@broken([
    (Reversed(), "must be those of its rows"),
    (CutsUnits(), "must be run in one call"),
    (LosesRows(), "must be answered once"),
    (LosesFailures(), "every failure must come back once"),
    (HoldsOne(), "must be answered once"),
])  # fmt: skip
def test_check_executor_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_executor(part)


class OnItsOwn:
    """Simulations that go on by themselves, one chunk whenever somebody looks."""

    def __init__(self, chunks):
        self.left = list(chunks)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)

    def finished(self):
        yield from (self.left.pop(0) for _ in range(min(1, len(self.left))))


class GoesOn(AtOnce):
    """Iterators that keep `abctree.protocols.Ahead`: the sound twin of what follows."""

    made = OnItsOwn

    def chunks(self, work, rows):
        return self.made((part, work(part)) for part in rows.parts(20))


class GivesTwice(GoesOn):
    class made(OnItsOwn):
        def finished(self):
            yield from self.left[:1]


class WaitsToBeAsked(GoesOn):
    class made(OnItsOwn):
        def finished(self):
            return []


class LosesWhatIsFinished(GoesOn):
    class made(OnItsOwn):
        def finished(self):
            self.left = []
            return []


def test_check_executor_looks_at_what_is_finished_by_itself():
    assert isinstance(OnItsOwn([]), abctree.protocols.Ahead)
    check_executor(GoesOn())


@broken([
    (GivesTwice(), "must be answered once"),
    (WaitsToBeAsked(), "`finished` must give all that nobody waits for, but 100 rows"),
    (LosesWhatIsFinished(), "`finished` must give all that nobody waits for, but 100 rows"),
])  # fmt: skip
def test_check_executor_rejects_a_broken_iterator_and_names_the_rule(part, says, monkeypatch):
    monkeypatch.setattr("abctree.testing.running._PATIENCE", 0.05)
    with pytest.raises(AssertionError, match=says):
        check_executor(part)


# Simulators and constraints ---------------------------------------------------------------------


def many(theta, rng):
    return theta + rng.normal(size=theta.shape)


def seeded(theta, seeds):
    return np.array([many(t, np.random.default_rng(s)) for t, s in zip(theta, seeds, strict=True)])


def test_check_simulator_accepts_the_three_ways_to_call_one():
    check_simulator(many, PRIOR)
    check_simulator(many, PRIOR, vectorized=True)
    check_simulator(seeded, PRIOR, vectorized="seeds")


class Asks:
    """A simulator that asks for the names of its parameters."""

    def __call__(self, theta, rng):
        raise ValueError("names are not known")

    def with_names(self, names):
        if "x" in names:
            raise KeyError(names)
        return many


def test_check_simulator_tells_the_names_to_one_that_asks():
    check_simulator(Asks(), PRIOR)
    with pytest.raises(AssertionError, match="`with_names` must accept the names"):
        check_simulator(Asks(), abctree.Problem({"x": (0.0, 1.0)}, max, 0.0).prior)


def counts_calls(theta, rng, seen=[]):  # noqa: B006 - that is what is wrong with it
    seen.append(theta)
    return theta + len(seen)


def changes_theta(theta, rng):
    theta += rng.normal()
    return theta.copy()


@broken([
    ((lambda t, r: t + np.random.default_rng().normal(), False), "draw from what it is given"),
    ((counts_calls, False), "draw from what it is given"),
    ((changes_theta, False), "must not change its arguments"),
    ((lambda t, r: np.zeros(int(9 * t[0])), False), "must have one shape"),
    ((lambda t, r: "none", False), "real numbers"),
    ((lambda t, r: 1 / (t[0] > 0.7) * t, False), "every draw of the prior"),
    ((lambda t, r: many(t, r).sum(), True), "data of 10 rows must have shape"),
    ((lambda t, s: many(t, np.random.default_rng(s[0])), "seeds"), "its theta and its seed only"),
])  # fmt: skip
def test_check_simulator_rejects_a_broken_part_and_names_the_rule(part, says):
    simulator, vectorized = part
    with pytest.raises(AssertionError, match=says):
        check_simulator(simulator, PRIOR, vectorized=vectorized)


def test_check_constraint_accepts_a_sound_one():
    check_constraint(lambda t: t["a"] < t["b"], PRIOR)


def clears(t):
    t["a"][:] = 0.0
    return t["a"] < t["b"]


@broken([
    (lambda t: bool((t["a"] < t["b"]).all()), "must return 100 booleans"),
    (lambda t: t["a"] - t["b"], "must return 100 booleans"),
    (lambda t: t["a"] < t["c"], "must accept whole columns"),
    (lambda t: t["a"] < t["a"].mean() if len(t["a"]) else t["a"] < 0, "each row on its own"),
    (clears, "must not change its arguments"),
])  # fmt: skip
def test_check_constraint_rejects_a_broken_part_and_names_the_rule(part, says):
    with pytest.raises(AssertionError, match=says):
        check_constraint(part, PRIOR)


# The page of protocols --------------------------------------------------------------------------

#: By which check each protocol is asked for.
CHECKED = {
    check_belief_rule: {"BeliefRule", "Beliefs"},
    check_constraint: {"Constraint"},
    check_distance: {
        "Distance",
        "HasOfEntries",
        "LearnedDistance",
        "StandardisedDistance",
        "TaughtDistance",
    },
    check_executor: {"Ahead", "Executor"},
    check_partitioner: {"LocatingPartitioner", "Partitioner", "VolumePartitioner"},
    check_policy: {"Policy"},
    check_prior: {
        "HasBounds",
        "HasCubeDensity",
        "HasCubeRange",
        "HasLogDensity",
        "Prior",
        "HasCategories",
        "HasCircles",
    },
    check_schedule: {"PooledSchedule", "Schedule"},
    check_simulator: {"NamedSimulator"},
    check_stopping_rule: {"HasEveryBlock", "StoppingRule"},
    check_store: {"HasRecords", "Store"},
    check_utility: {"HasValue", "ModelUtility", "Utility"},
}


def test_every_protocol_of_the_page_has_a_check():
    page = {
        name
        for name, it in vars(abctree.protocols).items()
        if isinstance(it, type)
        and it.__module__ == abctree.protocols.__name__
        and getattr(it, "_is_protocol", False)  # not what a protocol is told in
    }
    checked = set().union(*CHECKED.values())
    assert page == checked | {"Work"}  # which the library hands to executors, and nobody replaces
    assert {*CHECKED, check_proposal} == {
        getattr(abctree.testing, name) for name in abctree.testing.__all__
    }


@pytest.mark.parametrize("check", CHECKED, ids=lambda check: check.__name__)
def test_a_check_says_which_protocols_it_asks_for(check):
    said = inspect.getdoc(check) + inspect.getsource(inspect.getmodule(inspect.unwrap(check)))
    assert all(name in said for name in CHECKED[check])
