"""Whether a schedule of tolerances keeps its contract."""

from __future__ import annotations

import numpy as np

from abctree.keywords import checks_keywords
from abctree.protocols import PooledSchedule, Schedule
from abctree.testing.rule import call, during, require
from abctree.types import FloatArray


@checks_keywords
def check_schedule(schedule: Schedule) -> None:
    """Raise `AssertionError` where a schedule breaks the contract of `abctree.protocols.Schedule`.

    The first tolerance must be positive, also where distances tie or some failed.  The next must be
    positive and lower, or None; a floor, where all accepted rows tie, must not raise.  The same
    arguments must give the same tolerance, whatever was asked in between.  What `pooled` gives
    (`abctree.protocols.PooledSchedule`) must accept a row, and be at most the first tolerance.

    Parameters
    ----------
    schedule : Schedule
        An object with ``first(distance)`` and ``next(epsilon, distance, weight)``.

    Examples
    --------
    >>> from abctree.tree.schedules import Geometric
    >>> check_schedule(Geometric(0.5))
    """
    n, generator = 200, np.random.default_rng(0)
    distance = generator.random(n)
    weight = generator.uniform(0.1, 10.0, n)
    cases = [
        ("ordinary", distance),
        ("some failed", np.where(generator.random(n) < 0.9, np.inf, distance)),
        ("all tie", np.full(n, 0.25)),
        ("all 0", np.zeros(n)),
        ("whole numbers", np.floor(4.0 * distance)),
        ("one finite", np.r_[0.5, np.full(n - 1, np.inf)]),
        ("tiny", 1e-300 * distance),
    ]
    made: dict[str, list[float]] = {}
    for name, value in (*cases, *reversed(cases)):
        with during(f"distances: {name}"):
            found = _tolerances(schedule, value, weight)
            require(
                made.setdefault(name, found) == found,
                "a schedule must keep no memory of earlier calls, but gave other tolerances when "
                "asked again.",
            )


def _tolerances(schedule: Schedule, distance: FloatArray, weight: FloatArray) -> list[float]:
    """The first tolerance and, of the rows below it, the next ones: at most five."""
    first = epsilon = call("first", "all distances", schedule.first, distance)
    require(first > 0.0, f"`first` must be positive, but is {first!r}.")
    found = [float(first)]
    while len(found) < 5:
        rows = distance < epsilon
        given = epsilon, distance[rows], weight[rows]
        lower = call("next", "all distances", schedule.next, *given)
        if lower is None:
            break
        require(
            0.0 < lower < epsilon,
            "`next` must be positive and lower than the last, or None, but is "
            f"{lower!r} after {epsilon!r}.",
        )
        epsilon = lower
        found.append(float(epsilon))
    if isinstance(schedule, PooledSchedule):
        found += _pooled(schedule, first, distance, weight)
    return found


def _pooled(
    schedule: PooledSchedule, first: float, distance: FloatArray, weight: FloatArray
) -> list[float]:
    """The tolerances of five rounds of all rows."""
    found = [first]
    for _ in range(5):
        given = found[-1], first, distance, weight, 2 * len(distance)
        epsilon = call("pooled", "all distances", schedule.pooled, *given)
        require(
            0.0 < epsilon <= first and (distance < epsilon).any(),
            "`pooled` must accept a row, and be at most the first tolerance, but is "
            f"{epsilon!r} after {first!r}.",
        )
        found.append(float(epsilon))
    return found
