"""Beliefs: how the arms of a new partition start, and how they learn (Algorithm 2, lines 7 to 9).

A rule makes the beliefs of one partition from the rows that teach it; the inner loop then feeds
them the new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abctree.data import Arms, Partition, SplitTree
from abctree.kernels import compiled
from abctree.keywords import checks_keywords, part_named
from abctree.numbers import ruled
from abctree.protocols import BeliefRule, Beliefs
from abctree.types import FloatArray, IntArray

#: Most tolerance levels between ε_1 and ε; beyond, they are spaced more widely.
_MAX_LEVELS = 40


@dataclass(frozen=True)
class BetaBeliefs:
    """Independent Beta beliefs: α and β count acceptances and rejections."""

    alpha: FloatArray
    beta: FloatArray
    epsilon: float

    def arms(self) -> Arms:
        """α and β now (a copy: the round keeps it)."""
        return Arms(self.alpha.copy(), self.beta.copy())

    def learn(self, arm: IntArray, distance: FloatArray) -> None:
        """Algorithm 1, line 11: (α_I, β_I) ← (α_I + Y, β_I + 1 − Y)."""
        compiled.count_rewards(arm, distance, self.epsilon, self.alpha, self.beta)


@checks_keywords
@dataclass(frozen=True)
class Counts:
    """α and β are the counts of past acceptances and rejections, plus a Beta prior on each arm.

    ``Counts(0, 0)`` is Algorithm 2 as printed: a box without an acceptance is never played again,
    and the posterior comes out too narrow.  ``Counts(1, 1)`` cures the bias and, with thousands of
    boxes, ruins the histogram.

    Parameters
    ----------
    alpha, beta : float
        Pseudo-counts of every box, at least 0.
    """

    alpha: float = ruled(1.0, "at least 0")
    beta: float = ruled(1.0, "at least 0")

    def start(
        self,
        partition: Partition,
        arm: IntArray,
        distance: FloatArray,
        weight: FloatArray,  # noqa: ARG002 - the paper counts without weights
        *,
        epsilon: float,
        first_epsilon: float,  # noqa: ARG002
        count_epsilon: float,
    ) -> Beliefs:
        """Beliefs from past rows counted at `count_epsilon`."""
        accepted, rejected = _counts(len(partition), arm, distance < count_epsilon)
        if len(arm) == 0:  # Algorithm 2, line 1
            return BetaBeliefs(np.ones(len(partition)), np.ones(len(partition)), epsilon)
        return BetaBeliefs(accepted + self.alpha, rejected + self.beta, epsilon)


@checks_keywords
@dataclass(frozen=True)
class GlobalRate:
    """Counts plus Beta(c r, c (1 − r)), r the acceptance rate under the prior; for flat arms.

    Parameters
    ----------
    strength : float
        c, in pseudo-simulations a box; positive.
    """

    strength: float = ruled(1.0, "positive")

    def start(
        self,
        partition: Partition,
        arm: IntArray,
        distance: FloatArray,
        weight: FloatArray,
        *,
        epsilon: float,
        first_epsilon: float,  # noqa: ARG002
        count_epsilon: float,
    ) -> Beliefs:
        """Beliefs from past rows counted at `count_epsilon`."""
        accepted, rejected = _counts(len(partition), arm, distance < count_epsilon)
        r = _rates(weight, distance, [count_epsilon])[0]
        return BetaBeliefs(
            accepted + self.strength * r, rejected + self.strength * (1.0 - r), epsilon
        )


@checks_keywords
@dataclass(frozen=True)
class MultiLevel:
    """Multi-level shrinkage down the tree and down the tolerance: the default.

    Boxes without an acceptance hold much of the posterior and most of the loss.  Each is believed
    to accept as its parent does, corrected by how the two differed at the larger tolerances where
    there is still something to count.  See `kernels.compiled.shrink` for the formula.

    Parameters
    ----------
    strength : float or None
        a₀, positive, in pseudo-*acceptances*; None is 1 in one or two dimensions and 0.3 in more.
    ratio : float
        Ratio of neighbouring tolerance levels, above 1.
    """

    strength: float | None = ruled(None, "positive or None")
    ratio: float = ruled(1.3, "above 1")

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
        """Beliefs from past rows; their tolerance levels end at `count_epsilon`."""
        epsilons = levels(first_epsilon, count_epsilon, self.ratio)
        root_rate = _rates(weight, distance, epsilons)
        counts = np.zeros((len(partition), len(epsilons) + 1))
        compiled.count_by_level(arm, distance, epsilons, counts)
        strength = self.strength or (1.0 if partition.boxes.d <= 2 else 0.3)
        # New rows are counted at the tolerance that is played.
        playing = epsilons.copy()
        playing[-1] = min(epsilon, epsilons[-1])
        return _MultiLevelBeliefs(partition.boxes.tree, counts, playing, root_rate, strength)


@dataclass(frozen=True)
class _MultiLevelBeliefs:
    """Counts by box and tolerance level, shrunk when asked for."""

    tree: SplitTree
    counts: FloatArray
    epsilons: FloatArray
    root_rate: FloatArray
    strength: float

    def arms(self) -> Arms:
        """α and β now, in O(K · levels)."""
        tree, n_boxes = self.tree, len(self.counts)
        alpha, beta = np.empty(n_boxes), np.empty(n_boxes)
        compiled.shrink(
            tree.parent, tree.node_of_box, self.counts, self.root_rate, self.strength, alpha, beta
        )
        return Arms(alpha, beta)

    def learn(self, arm: IntArray, distance: FloatArray) -> None:
        """Count new rows at every level."""
        compiled.count_by_level(arm, distance, self.epsilons, self.counts)


@checks_keywords
@dataclass(frozen=True)
class LimitedShrinkage:
    """Another rule's beliefs, except of boxes whose own counts contradict them.

    Shrinkage towards the neighbourhood is right for boxes that are like it.  A box around a thin
    peak is not, and one that was cut out because of a single acceptance would never be played: its
    parents know of thousands of rejections.  So a box whose counts are surprising (A accepted of N,
    more than believed, with ``N kl(A/N, η) > surprise``) is believed to be Beta(1 + A, 1 + N − A).
    One that does not deserve it is played a few times, and believed to be like its parents again.

    Parameters
    ----------
    rule : BeliefRule or None
        The other rule; None is `MultiLevel` with its defaults.
    surprise : float
        In nats, positive.
    """

    rule: BeliefRule | None = None
    surprise: float = ruled(3.0, "positive")

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
        """Beliefs from past rows."""
        rule = MultiLevel() if self.rule is None else self.rule
        shrunk = rule.start(
            partition, arm, distance, weight, epsilon=epsilon, first_epsilon=first_epsilon,
            count_epsilon=count_epsilon,
        )  # fmt: skip
        counts = _counts(len(partition), arm, distance < count_epsilon)
        return _LimitedBeliefs(shrunk, BetaBeliefs(*counts, epsilon), self.surprise)


@dataclass(frozen=True)
class _LimitedBeliefs:
    """Beliefs with the counts beside them."""

    shrunk: Beliefs
    counts: BetaBeliefs
    surprise: float

    def arms(self) -> Arms:
        """α and β now."""
        arms, counts = self.shrunk.arms(), self.counts.arms()
        eta, share = arms.mean, counts.mean
        n = counts.alpha + counts.beta
        with np.errstate(invalid="ignore"):  # of no rows where the rate is 1
            contradicted = (share > eta) & (n * divergence(share, eta) > self.surprise)
        return Arms(
            np.where(contradicted, counts.alpha + 1.0, arms.alpha),
            np.where(contradicted, counts.beta + 1.0, arms.beta),
        )

    def learn(self, arm: IntArray, distance: FloatArray) -> None:
        """Count new rows."""
        self.shrunk.learn(arm, distance)
        self.counts.learn(arm, distance)


_BY_NAME: dict[str, type[BeliefRule]] = {
    "counts": Counts,
    "global-rate": GlobalRate,
    "limited-shrinkage": LimitedShrinkage,
    "multi-level": MultiLevel,
}


def as_beliefs(spec: str | BeliefRule) -> BeliefRule:
    """A rule from its short name, or as it is."""
    return part_named("beliefs", spec, _BY_NAME, "start(...)", "See abctree.MultiLevel.")


def levels(first: float, last: float, ratio: float) -> FloatArray:
    """Tolerances from `first` down to `last`, neighbours at most `ratio` apart."""
    if not (np.isfinite(first) and first > last > 0.0):
        return np.array([last])
    n = int(min(_MAX_LEVELS, np.ceil(np.log(first / last) / np.log(ratio))))
    epsilons = first * (last / first) ** (np.arange(n + 1) / n)
    epsilons[-1] = last  # exactly: rewards are judged at it
    return epsilons


def divergence(share: FloatArray, rate: FloatArray) -> FloatArray:
    """kl(share, rate) of Bernoulli laws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(share > 0.0, share * np.log(share / rate), 0.0)
        miss = np.where(share < 1.0, (1.0 - share) * np.log((1.0 - share) / (1.0 - rate)), 0.0)
        return np.asarray(hit + miss)


def _counts(n_boxes: int, arm: IntArray, reward: np.ndarray) -> tuple[FloatArray, FloatArray]:
    accepted = np.bincount(arm, weights=reward, minlength=n_boxes).astype(np.float64)
    return accepted, np.bincount(arm, minlength=n_boxes) - accepted


def _rates(
    weight: FloatArray, distance: FloatArray, epsilons: Sequence[float] | FloatArray
) -> FloatArray:
    """Acceptance rates (S,) under the prior at tolerances (S,), strictly inside (0, 1)."""
    n = len(distance)
    if n == 0:
        return np.full(len(epsilons), 0.5)
    sums = np.empty(len(epsilons))
    compiled.sums_below(weight, distance, np.asarray(epsilons), sums)
    rates = sums / weight.sum()
    # With nothing accepted, half an acceptance in all that was simulated.
    return np.asarray(np.minimum(np.maximum(rates, 0.5 / (n + 1)), 1.0 - 0.5 / (n + 1)))
