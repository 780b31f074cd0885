"""Whether a schedule keeps its contract."""

from __future__ import annotations

import numpy as np

from abctree.keywords import checks_keywords
from abctree.protocols import Schedule
from abctree.testing.rule import call, require
from abctree.types import FloatArray


@checks_keywords
def check_schedule(schedule: Schedule) -> None:
    """Check that a schedule keeps the contract of `abctree.protocols.Schedule`.

    The first tolerance must be positive, also where distances tie or some failed.  The next must be
    positive and lower, or None; a floor, where all accepted rows tie, must not raise.  The same
    arguments must give the same tolerance, whatever was asked in between.

    Parameters
    ----------
    schedule : Schedule
        An object with ``first(distance)`` and ``next(epsilon, distance, weight)``.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the distances that break it.

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
    made = [_tolerances(schedule, value, weight, f"(distances: {name})") for name, value in cases]
    for (name, value), before in reversed(list(zip(cases, made, strict=True))):
        where = f"(distances: {name})"
        require(
            _tolerances(schedule, value, weight, where) == before,
            "a schedule must keep no memory of earlier calls, but gave other tolerances when asked "
            f"again {where}.",
        )


def _tolerances(
    schedule: Schedule, distance: FloatArray, weight: FloatArray, where: str
) -> list[float]:
    """The first tolerance and, of the rows below it, the next ones: at most five."""
    epsilon: float | None = call("first", "all distances", where, schedule.first, distance)
    found: list[float] = []
    while epsilon is not None and len(found) < 5:
        lower = epsilon > 0.0 and (not found or epsilon < found[-1])
        rule = "`next` must be positive and lower than the last, or None" if found else (
            "`first` must be positive")  # fmt: skip
        require(lower, f"{rule}, but is {epsilon!r} after {found[-1:]} {where}.")
        found.append(float(epsilon))
        rows = distance < epsilon
        epsilon = call(
            "next", "all distances", where, schedule.next, epsilon, distance[rows], weight[rows]
        )
    return found
