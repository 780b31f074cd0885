"""Everything a user may replace, on one page.

Protocols are structural: a part of your own imports nothing from here.  What a part may have beside
its protocol stands behind it, as ``Has...`` or by a name of its own.  `abctree.testing` has a
conformance check for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from abctree.data import Arms, Boxes, Partition, Progress, Rows, Simulations
from abctree.types import BoolArray, FloatArray, IntArray, SimulatorFunction


@runtime_checkable
class Prior(Protocol):
    """π, as a map of the unit cube: `from_cube` of a uniform point is a draw of the prior."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of theta, fixed parameters included."""

    @property
    def d(self) -> int:
        """Dimensions of the cube; fixed parameters have none."""

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) in (0, 1) -> theta (n, n_parameters)."""

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Theta (n, n_parameters) -> (n, d); the middle of the atom for a discrete parameter."""

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log-volume in θ space of boxes of the cube: (K, d), (K, d) -> (K,); nan if unknown."""


@runtime_checkable
class HasCubeDensity(Protocol):
    """Of a prior that is a density rather than a map (Remark 1)."""

    def cube_density(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,), the density relative to the cube, up to a constant."""


@runtime_checkable
class HasLogDensity(Protocol):
    """Of a prior whose density in θ is known."""

    def log_density(self, theta: FloatArray) -> FloatArray:
        """Theta (n, n_parameters) -> (n,), up to a constant; -inf out of the support."""


@runtime_checkable
class HasCubeRange(Protocol):
    """Of a prior that can say which part of the cube is mapped to a point."""

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta (n, n_parameters) -> the ends (n, d), (n, d): equal but along discrete ones."""


@runtime_checkable
class HasBounds(Protocol):
    """Of a prior whose support is known."""

    @property
    def bounds(self) -> FloatArray:
        """(n_parameters, 2), nan for a parameter that a regression must not move."""


class Circle(NamedTuple):
    """A parameter on a circle: `low` and `high` are one value."""

    column: int  #: of theta
    dim: int  #: of the cube, in which it is uniform
    low: float
    high: float

    @property
    def width(self) -> float:
        """Once around."""
        return self.high - self.low

    def around(self, value: FloatArray, centre: float) -> FloatArray:
        """The same values, counted from opposite a centre: within half a turn of it."""
        half = self.width / 2.0
        return np.asarray((value - centre + half) % self.width + (centre - half))

    def wrapped(self, value: FloatArray) -> FloatArray:
        """The same values in [low, high); nan stays."""
        return np.asarray(self.low + (value - self.low) % self.width)


@runtime_checkable
class HasCircles(Protocol):
    """Of a prior with parameters on circles."""

    @property
    def circles(self) -> tuple[Circle, ...]:
        """Those parameters."""


class Category(NamedTuple):
    """A parameter whose values are names, not quantities."""

    column: int  #: of theta
    values: tuple[float, ...]  #: in increasing order


@runtime_checkable
class HasCategories(Protocol):
    """Of a prior with categorical parameters."""

    @property
    def categories(self) -> tuple[Category, ...]:
        """Those parameters."""


@runtime_checkable
class NamedSimulator(Protocol):
    """A simulator that asks for the names of the columns of theta."""

    def with_names(self, names: Sequence[str]) -> SimulatorFunction:
        """The simulator to call."""


class Distance(Protocol):
    """d(s, s_obs) on a batch."""

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) simulated summaries and (...) observed ones -> (n,) distances >= 0."""


@runtime_checkable
class LearnedDistance(Distance, Protocol):
    """A distance that takes its scale from pilot simulations; it raises if called before."""

    @property
    def is_fitted(self) -> bool:
        """Whether it has its scale."""

    def fitted(self, simulated: FloatArray) -> Distance:
        """The distance with the scale of summaries (n, ...)."""


@runtime_checkable
class TaughtDistance(LearnedDistance, Protocol):
    """A distance that learns from the parameters of the pilot, too."""

    def taught(self, simulated: FloatArray, cube: FloatArray) -> Distance:
        """The distance as summaries (n, ...) at places (n, d) of the cube teach it."""


@runtime_checkable
class HasOfEntries(Protocol):
    """Of a distance that keeps something for each summary."""

    def of_entries(self, keep: IntArray, n: int) -> Distance:
        """The same for some of n summaries, those that are not missing."""


@runtime_checkable
class StandardisedDistance(Distance, Protocol):
    """A distance that is a Euclidean norm, so that summaries can be modelled in its place."""

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray | None:
        """Differences (n, m) whose Euclidean norm is the distance; None if it is no such norm."""


class Utility(Protocol):
    """ω, through its maximiser q* (Equation 8)."""

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """Rates η (K,) and masses π(Ω_k) (K,) -> q* (K,), >= 0, summing to one."""


@runtime_checkable
class ModelUtility(Utility, Protocol):
    """A utility for `abctree.Models`, to which a box counts by the model that it is of."""

    def model_weights(self, evidence: FloatArray) -> FloatArray:
        """c (m,) in (0, 1] from evidences times prior (m,): a rate of model m counts as c_m η."""


@runtime_checkable
class HasValue(Protocol):
    """Of a utility: ω itself."""

    def value(self, q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
        """Utility of the proposal q (K,) at rates η (K,) and masses π(Ω_k) (K,)."""


class Beliefs(Protocol):
    """How the arms of a partition learn, within a round.

    Made by a `BeliefRule` from the rows that teach the partition.
    """

    def arms(self) -> Arms:
        """α and β now."""

    def learn(self, arm: IntArray, distance: FloatArray) -> None:
        """Account for new simulations that teach this partition (Algorithm 1, line 11)."""


class BeliefRule(Protocol):
    """The initialisation of α and β on a new partition (Algorithm 2, lines 7 to 9)."""

    def start(
        self,
        partition: Partition,
        arm: IntArray,
        distance: FloatArray,
        weight: FloatArray,
        *,
        epsilon: float,
        first_epsilon: float,
        count_epsilon: float,
    ) -> Beliefs:
        """Beliefs from past rows: their boxes (n,), distances (n,), importance weights (n,).

        `epsilon` is the tolerance to be played, `count_epsilon` the one at which the past is
        counted (the paper: the last round's), `first_epsilon` that of the first round.
        """


class Policy(Protocol):
    """Which arms to play next (Algorithm 1, lines 4 to 7; Algorithm 3, lines 4 to 12)."""

    def pull(
        self, arms: Arms, partition: Partition, n: int, rng: np.random.Generator
    ) -> tuple[IntArray | None, FloatArray]:
        """n arms to play (or None: draw them from q), and the probability q (K,) of each arm."""


class Partitioner(Protocol):
    """P, the rule that cuts the cube (Equation 12)."""

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,
    ) -> Boxes:
        """Cut the cube from rows (n, d), their distances (n,), inf for a failure, and ε.

        The paper's binary reward is ``distance < epsilon``; a soft label may use the rest.
        `current` is the partition of the last round, for rules that refine.
        """


@runtime_checkable
class LocatingPartitioner(Partitioner, Protocol):
    """A partitioner that knows which box a row is in when the boxes are cut."""

    def partition_and_locate(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,
    ) -> tuple[Boxes, IntArray]:
        """What `partition` returns, and the box of each row (n,)."""


@runtime_checkable
class VolumePartitioner(Partitioner, Protocol):
    """A partitioner that works with volumes in θ space."""

    def measured(self, prior: Prior) -> Partitioner:
        """The same, told the prior of the run."""


@runtime_checkable
class Schedule(Protocol):
    """g, the tolerance progression (Algorithm 2, line 10)."""

    def first(self, distance: FloatArray) -> float:
        """ε_1 from the pilot's distances."""

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:
        """The tolerance after a round played at `epsilon`, or None when there is no lower one.

        `distance` and `weight` are those of the round's accepted rows (all below `epsilon`).
        """


@runtime_checkable
class PooledSchedule(Schedule, Protocol):
    """A schedule that looks at all draws of a run, and not only at those of the last round."""

    def pooled(
        self, epsilon: float, first: float, distance: FloatArray, weight: FloatArray, budget: int
    ) -> float:
        """The tolerance after a round played at `epsilon`, from all rows; it may be larger.

        `first` is ε_1 and `budget` T; a row that failed has an infinite distance.
        """


class Constraint(Protocol):
    """A predicate on named parameters, vectorised over rows."""

    def __call__(self, theta: Mapping[str, FloatArray]) -> BoolArray:
        """A dict of columns, name -> (n,), to (n,) booleans: True where allowed."""


class Work(Protocol):
    """What an executor is to do with simulations."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one summary."""

    def __call__(self, rows: Rows, until: float = np.inf) -> Simulations:
        """The first of the rows: those begun before `until` (`time.monotonic`), at least a unit.

        At Ctrl-C it raises `InterruptedWorkError` with those that were finished before.
        """


#: Some rows, and the answers to them.
Chunk: TypeAlias = tuple[Rows, Simulations]


@runtime_checkable
class Executor(Protocol):
    """Runs simulations, in any place and order.  A run neither enters nor closes it."""

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """Begin ``work(part)`` on parts of the rows; the iterator waits for them and gives answers.

        Rows may be split anywhere except between two of one unit; how they are split must not
        change the answers.  They may come in any order, each part as soon as it is there: what has
        been given is not lost when the run is killed.  An iterator that is thrown away gives up.
        """


@runtime_checkable
class Ahead(Iterator[Chunk], Protocol):
    """An iterator of `Executor.chunks` whose simulations go on when nobody waits for them.

    It gives an empty part when nothing has come for a second: the run then looks at others.
    """

    def finished(self) -> Iterable[Chunk]:
        """Chunks that have come back; does not wait."""


@runtime_checkable
class Store(Protocol):
    """Keeps what a run cannot compute again, as records that are only ever appended."""

    def records(self) -> Iterable[tuple[str, bytes]]:
        """Kinds and bytes of all records that were kept before, in their order."""

    def append(self, kind: str, data: bytes, *, flush: bool) -> None:
        """Keep a record that outlives the process; with `flush` also a power cut."""

    def close(self) -> None:
        """The run is over, or has failed."""


@runtime_checkable
class HasRecords(Store, Protocol):
    """Of a store that can read one of its records again, so that memory need not hold them.

    ``keep_summaries="store"`` needs one; a run folder is one.
    """

    def record(self, number: int, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes begin:end of record `number`, of those before and those appended; from 0.

        It is called when the store is closed, too.
        """


class StoppingRule(Protocol):
    """Why a run ends before its budget."""

    def reason(self, progress: Progress) -> str | None:
        """A short reason to stop now, or None."""


@runtime_checkable
class HasEveryBlock(Protocol):
    """Of a stopping rule that may be asked between rounds, too."""

    @property
    def every_block(self) -> bool:
        """Whether it is to be asked after every block; such a rule is about the clock."""
