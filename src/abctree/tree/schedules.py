"""Schedules g: the tolerance of the next round (Algorithm 2, line 10).

All look at finite distances only and know ties and floors: acceptance is ``distance < ε``, so a
tolerance at or below the smallest distance would accept nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from abctree.data import running_ess
from abctree.errors import SimulatorError, wrong
from abctree.keywords import checks_keywords, part_named
from abctree.numbers import checked_number, ruled
from abctree.protocols import Schedule
from abctree.types import FloatArray

#: How much larger than the last one a tolerance may be.
_RISE = 1.5


def weighted_quantile(value: FloatArray, weight: FloatArray, q: float) -> float:
    """The smallest value at which the weight at or below it reaches the share q."""
    order = np.argsort(value, kind="stable")
    reached = np.cumsum(weight[order])
    i = int(np.searchsorted(reached, q * reached[-1]))
    return float(value[order[min(i, len(order) - 1)]])


def first_epsilon(distance: FloatArray, share: float) -> float:
    """The tolerance below which about `share` of the pilot's draws fall, failures counted as far.

    Where more than that share ties at the smallest distance, all of the tie is accepted.
    """
    finite = np.sort(distance[np.isfinite(distance)])
    if len(finite) == 0:
        raise SimulatorError(
            f"All {len(distance)} pilot simulations failed or lie at an infinite distance. "
            "Run `problem.check()` to see what the simulator returns; if it works in a small part "
            "of the prior only, give a larger n_pilot=."
        )
    # The share is of all draws; when failures leave fewer, all but the largest distance count.
    k = min(len(finite) - 1, int(np.ceil(share * len(distance))))
    return just_above(finite, float(finite[k]))


def just_above(distance: FloatArray, epsilon: float) -> float:
    """`epsilon`, raised if nothing lies strictly below it, so that the smallest distance counts."""
    smallest = float(distance.min())
    if epsilon > smallest:
        return epsilon
    larger = distance[distance > smallest]
    return float(larger.min()) if len(larger) else float(np.nextafter(smallest, np.inf))


def lower(epsilon: float, wanted: float, distance: FloatArray) -> float | None:
    """The wanted tolerance, kept above the smallest distance; None if that is no progress."""
    # When all that was accepted ties, the tolerance already accepts only the tie.
    if len(distance) == 0 or distance.min() == distance.max():
        return None
    wanted = just_above(distance, wanted)
    return wanted if wanted < epsilon else None


def above_tie(distance: FloatArray, at: float) -> float:
    """A distance `at` which many tie, raised to the next larger one, so that the tie is accepted.

    A tolerance is a strict bound: at the tie it would accept what is nearer only, a small part of
    what a rule meant to keep.  Where nothing is larger the tie itself is all that lowers it.
    """
    larger = distance[distance > at]
    if np.count_nonzero(distance == at) < 2 or not len(larger):
        return at
    return float(larger.min())


class _FromPilot:
    """A schedule that begins where a share of the pilot's draws is accepted."""

    start: float

    def first(self, distance: FloatArray) -> float:
        """ε_1 from the pilot's distances (n,)."""
        return first_epsilon(distance, self.start)


@checks_keywords
@dataclass(frozen=True)
class Geometric(_FromPilot):
    """ε ← factor · ε, the paper's rule at 0.9.

    It stalls where distances pile up far above the ones that matter; see `Quantile`.

    Parameters
    ----------
    factor : float
        In (0, 1).
    start : float
        Share of the pilot's draws that the first tolerance accepts, in (0, 1].
    """

    factor: float = ruled(0.9, "in (0, 1)")
    start: float = ruled(0.5, "in (0, 1]")

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:  # noqa: ARG002
        """`factor` times `epsilon`, or None at the floor."""
        return lower(epsilon, self.factor * epsilon, distance)


@checks_keywords
@dataclass(frozen=True)
class Quantile(_FromPilot):
    """ε ← the quantile of the distances that the last round accepted.

    The default at the median: it halves what is accepted and so cannot stall.

    Parameters
    ----------
    q : float
        In (0, 1).
    start : float
        Share of the pilot's draws that the first tolerance accepts, in (0, 1].
    weighted : bool
        Quantile under the importance weights, or of the distances as they came.
    """

    q: float = ruled(0.5, "in (0, 1)")
    start: float = ruled(0.2, "in (0, 1]")
    weighted: bool = False

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:
        """The quantile of the accepted distances, or None at the floor."""
        if len(distance) == 0:
            return None
        weight = weight if self.weighted else np.ones_like(distance)
        wanted = weighted_quantile(distance, weight, self.q)
        return lower(epsilon, above_tie(distance, wanted), distance)


@checks_keywords
@dataclass(frozen=True)
class RetainedESS(_FromPilot):
    """ε ← the tolerance at which the weighted draws keep a share of their effective sample size.

    The adaptive rule of Del Moral, Doucet and Jasra (2012) for one simulation a particle.  With
    equal weights it is the quantile of that share; with uneven ones it lowers ε as far as the
    draws bear, not as far as their number does.

    Parameters
    ----------
    share : float
        In (0, 1).
    start : float
        Share of the pilot's draws that the first tolerance accepts, in (0, 1].
    """

    share: float = ruled(0.5, "in (0, 1)")
    start: float = ruled(0.2, "in (0, 1]")

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:
        """The smallest tolerance that keeps the share, or None at the floor."""
        if len(distance) == 0 or not weight.max() > 0.0:
            return None
        order = np.argsort(distance, kind="stable")
        ess = running_ess(weight[order])
        enough = int(np.argmax(ess >= self.share * ess[-1]))
        return lower(epsilon, above_tie(distance, float(distance[order[enough]])), distance)


@checks_keywords
@dataclass(frozen=True)
class PooledESS(_FromPilot):
    """ε ← the smallest at which all draws so far have an effective sample size that grows with n.

    It is ``max(least, target · (n / T)^power)``, so that the run arrives at the tolerance at which
    it will be read, and not below.  ε may rise again, by half of itself at a time and never above
    ε_1, where the draws turn out to be worth less.

    Parameters
    ----------
    target : float or None
        Effective sample size at which the answer is read; None is 1 000, or 3 % of T if that is
        less, as for `Result.posterior`.
    least : float
        Effective sample size of the first rounds; positive.
    power : float
        Positive; the larger, the lower the tolerances of the first rounds.
    start : float
        Share of the pilot's draws that the first tolerance accepts, in (0, 1].
    """

    target: float | None = ruled(None, "positive or None")
    least: float = ruled(40.0, "positive")
    power: float = ruled(1.25, "positive")
    start: float = ruled(0.2, "in (0, 1]")

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:
        """As `pooled`, where one round is all there is."""
        wanted = self.pooled(epsilon, epsilon, distance, weight, max(len(distance), 1))
        return wanted if wanted < epsilon else None

    def pooled(
        self, epsilon: float, first: float, distance: FloatArray, weight: FloatArray, budget: int
    ) -> float:
        """See `abctree.protocols.PooledSchedule`."""
        most = min(first, _RISE * epsilon)
        rows = np.flatnonzero((distance < most) & (weight > 0.0))
        if len(rows) == 0:
            return epsilon
        rows = rows[np.argsort(distance[rows], kind="stable")]
        target = min(1000.0, 0.03 * budget) if self.target is None else self.target
        wanted = max(self.least, target * (len(distance) / budget) ** self.power)
        enough = running_ess(weight[rows]) >= wanted
        if not enough.any():
            return epsilon
        at = above_tie(distance[rows], float(distance[rows[np.argmax(enough)]]))
        return min(most, just_above(distance[rows], at))


@checks_keywords
@dataclass(frozen=True)
class Explicit:
    """The tolerances of a list, one a round; the last is played until the budget ends.

    Parameters
    ----------
    epsilons : sequence of float
        Positive and decreasing.

    Raises
    ------
    ParameterError
        If they are not.
    """

    epsilons: Sequence[float] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        values = tuple(checked_number("epsilons", e) for e in self.epsilons)
        falling = all(b < a for a, b in pairwise(values))
        if not values or not falling or not values[-1] > 0.0:
            raise wrong("epsilons", "be a decreasing list of positive numbers", values)
        object.__setattr__(self, "epsilons", values)

    def first(self, distance: FloatArray) -> float:  # noqa: ARG002
        """The first of the list."""
        return float(self.epsilons[0])

    def next(self, epsilon: float, distance: FloatArray, weight: FloatArray) -> float | None:  # noqa: ARG002
        """The first of the list below `epsilon`, or None."""
        return next((float(e) for e in self.epsilons if e < epsilon), None)


_BY_NAME: dict[str, type[Schedule]] = {
    "adaptive": RetainedESS,
    "geometric": Geometric,
    "median": Quantile,
    "pooled": PooledESS,
}


def as_schedule(spec: str | float | Sequence[float] | Schedule) -> Schedule:
    """A schedule from its short name, a factor in (0, 1), a list of ε, or as it is."""
    if isinstance(spec, int | float):
        return Geometric(float(spec))
    if isinstance(spec, Sequence | np.ndarray) and not isinstance(spec, str):
        return Explicit(tuple(spec))
    hint = "It may also be a factor in (0, 1) or a decreasing list."
    made = part_named("schedule", spec, _BY_NAME, "next(epsilon, distance, weight)", hint)
    return part_named("schedule", made, _BY_NAME, "first(distance)", hint)
