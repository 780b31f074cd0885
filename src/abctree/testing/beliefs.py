"""Whether a rule of beliefs keeps its contract, and learns."""

from __future__ import annotations

import numpy as np

from abctree.data import Arms, Partition
from abctree.keywords import checks_keywords
from abctree.protocols import BeliefRule, Beliefs
from abctree.testing.policy import strips
from abctree.testing.rule import call, require
from abctree.types import FloatArray, IntArray

_EPSILON = 0.5


@checks_keywords
def check_belief_rule(rule: BeliefRule) -> None:
    """Check that a rule keeps the contracts of `abctree.protocols.BeliefRule` and `Beliefs`.

    From no rows, from rows that all failed, were all accepted, or all fell into one box, α and β
    must be finite and at least 0, one for each box.  Fifty acceptances in a box must raise its
    mean, fifty rejections lower it (unless it is 1 or 0), and leave alone the `Arms` that were
    given out before.

    Parameters
    ----------
    rule : BeliefRule
        An object with ``start(partition, arm, distance, weight, *, epsilon, ...)``.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the rows that break it.

    Examples
    --------
    >>> from abctree.tree.beliefs import Counts
    >>> check_belief_rule(Counts())
    """
    n, generator = 300, np.random.default_rng(0)
    partition = strips(0.2, 0.3, 0.7)
    arm = generator.integers(len(partition), size=n)
    distance = generator.random(n) * (1.0 + arm)
    weight = generator.uniform(0.2, 5.0, n)
    for name, rows, value in (
        ("ordinary", arm, distance),
        ("none", arm[:0], distance[:0]),
        ("all failed", arm, np.full(n, np.inf)),
        ("all accepted", arm, 0.1 * distance),
        ("all in one box", np.zeros(n, dtype=np.int64), distance),
        ("all tie", arm, np.full(n, _EPSILON)),
    ):
        where = f"(rows: {name})"
        for sign, near in ((1.0, 0.0), (-1.0, np.inf)):
            beliefs = _start(rule, partition, rows, value, weight[: len(rows)], where)
            _check_learning(beliefs, len(partition), sign, near, where)


def _start(
    rule: BeliefRule,
    partition: Partition,
    arm: IntArray,
    distance: FloatArray,
    weight: FloatArray,
    where: str,
) -> Beliefs:
    return call(
        "start", "all rows", where, rule.start, partition, arm, distance, weight,
        epsilon=_EPSILON, first_epsilon=4.0 * _EPSILON, count_epsilon=_EPSILON,
    )  # fmt: skip


def _check_learning(
    beliefs: Beliefs, n_boxes: int, sign: float, distance: float, where: str
) -> None:
    """Fifty rows at this distance in box 1 must move its mean up or down."""
    arms = _arms(beliefs, n_boxes, where)
    before = arms.mean.copy()
    box, same = np.ones(50, dtype=np.int64), np.full(50, distance)
    call("learn", "new rows", where, beliefs.learn, box, same)
    require(
        np.array_equal(arms.mean, before),
        f"`arms` must give a copy, but `learn` changed one that was given out {where}.",
    )
    after = _arms(beliefs, n_boxes, where).mean
    at_end = after[1] == (1.0 if sign > 0.0 else 0.0)
    what = "acceptances" if sign > 0.0 else "rejections"
    require(
        sign * (after[1] - before[1]) > 0.0 or at_end,
        f"50 {what} in a box must move its mean, but it went from {before[1]:.4g} to "
        f"{after[1]:.4g} {where}.",
    )


def _arms(beliefs: Beliefs, n_boxes: int, where: str) -> Arms:
    arms = call("arms", "no arguments", where, beliefs.arms)
    for name, value in (("α", arms.alpha), ("β", arms.beta)):
        require(
            np.shape(value) == (n_boxes,) and np.isfinite(value).all() and (value >= 0.0).all(),
            f"{name} must be finite and at least 0, one for each of {n_boxes} boxes, but is "
            f"{value} {where}.",
        )
    return arms
