"""`Dyadic`: nested refinement at midpoints."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from abctree.data import Boxes
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.protocols import Prior
from abctree.tree.partitioners.growth import Growth, labels
from abctree.types import BoolArray, FloatArray

# Sides are not cut below this: repeated points would otherwise draw cuts for ever.
_SHORTEST_SIDE = 2.0**-40

# Share of a side that is left out at either end of a box whose volume is infinite.
_EDGE = 0.01

# Rows for each box that the automatic size aims at; fewer make the rates of the boxes too noisy.
_ROWS_PER_BOX = 150


@checks_keywords
@dataclass(frozen=True)
class Dyadic:
    """Nested dyadic partitions: again and again, the fullest box is cut at its midpoint.

    The paper's "Dyadic Partitioning" (Section 3.2, Partitioning Choices) with `n_splits` = 10.
    Boxes are only ever refined, so counts of past rounds stay meaningful.  Rows that were proposed
    more often draw more cuts; failures count as draws.

    Parameters
    ----------
    n_splits : int or None
        The paper's r, cuts a round: each goes to the box that holds the most rows at that moment.
        None cuts until there is one box for every 150 rows.
    direction : {"separating", "cyclic"}
        Which coordinate is cut: the one whose midpoint best separates high from low labels (largest
        fall of the squared error; the widest side where none gains), or each in turn down the tree.
    min_draws : int or None
        A box with fewer rows is not cut, >= 1; None is 2.
    max_boxes : int or None
        No more cuts once there are so many boxes, >= 1; None for no limit.
    pick : {"fullest", "modal"}
        Which box is cut next: the one with the most rows, which in a run of MAP-Tree is the one
        proposed most; or the one of the largest average posterior density, (A + 1) / (N + 2) of
        its rows over the density of the prior (the paper's k̂, for MAP-Tree).
    log_volume : callable or None
        For "modal": `Prior.log_volume`, log-volumes in θ space of boxes (K, d), (K, d) -> (K,).
        None takes the prior to be uniform; a run fills it in, see `measured`.
    label : float or None
        Width of the soft label ``max(0, 1 - distance / (label * epsilon))`` that directions are
        judged by; None for the paper's accepted or rejected.

    Notes
    -----
    O(n d) for each level of the tree.  A box whose sides are all shorter than 2⁻³⁹ is left alone.
    """

    n_splits: int | None = ruled(None, "a whole number of at least 1 or None")
    direction: Literal["separating", "cyclic"] = ruled("separating", '"separating" or "cyclic"')
    min_draws: int | None = ruled(None, "a whole number of at least 1 or None")
    max_boxes: int | None = ruled(None, "a whole number of at least 1 or None")
    label: float | None = ruled(2.5, "above 0 or None")
    pick: Literal["fullest", "modal"] = ruled("fullest", '"fullest" or "modal"')
    log_volume: Callable[[FloatArray, FloatArray], FloatArray] | None = None

    def measured(self, prior: Prior) -> Dyadic:
        """The same rule, told the volumes of boxes in θ if it needs them."""
        if self.pick != "modal" or self.log_volume is not None:
            return self
        return replace(self, log_volume=prior.log_volume)

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,  # noqa: ARG002 - the protocol passes it; nothing here is random
    ) -> Boxes:
        """`current`, or the whole cube, cut further, see `Partitioner`; or `current` itself."""
        boxes = Boxes.whole(cube.shape[1]) if current is None else current
        target = self._n_boxes(len(cube), len(boxes))
        if target <= len(boxes):
            return boxes
        growth = Growth(boxes)
        rewards = np.column_stack([labels(distance, epsilon, self.label), distance < epsilon])
        self._refine(growth, _by_box(boxes, cube, rewards), target)
        return growth.boxes()

    def _n_boxes(self, n_rows: int, n_boxes: int) -> int:
        """How many boxes to stop at."""
        wanted = n_rows // _ROWS_PER_BOX if self.n_splits is None else n_boxes + self.n_splits
        return wanted if self.max_boxes is None else min(wanted, self.max_boxes)

    def _refine(
        self, growth: Growth, rows: list[tuple[FloatArray, FloatArray]], target: int
    ) -> None:
        least = 2 if self.min_draws is None else self.min_draws
        heap = [
            (-self._worth(growth, box, reward), box)
            for box, (_, reward) in enumerate(rows)
            if len(reward) >= least
        ]
        heapq.heapify(heap)
        while heap and len(growth) < target:
            _, box = heapq.heappop(heap)
            cube, reward = rows[box]
            feature = self._direction(growth, box, cube, reward[:, 0])
            if feature is None:
                continue
            middle = _middle(growth, box)[feature]
            growth.split(box, feature, middle)
            left = cube[:, feature] < middle
            rows[box] = cube[left], reward[left]
            rows.append((cube[~left], reward[~left]))
            for part in (box, len(growth) - 1):
                if len(rows[part][1]) >= least:
                    heapq.heappush(heap, (-self._worth(growth, part, rows[part][1]), part))

    def _worth(self, growth: Growth, box: int, reward: FloatArray) -> float:
        """What the next box to be cut has most of: rows, or average posterior density."""
        if self.pick == "fullest":
            return float(len(reward))
        rate = (float(reward[:, 1].sum()) + 1.0) / (len(reward) + 2.0)
        return float(np.log(rate)) + self._log_prior(growth.lower(box), growth.upper(box))

    def _log_prior(self, lower: FloatArray, upper: FloatArray) -> float:
        """Log of the average prior density of a box in θ space."""
        if self.log_volume is None:
            return 0.0
        with np.errstate(divide="ignore"):
            volume = self.log_volume(lower[None], upper[None])[0]
            if np.isposinf(volume):  # the inner part of a box that reaches to infinity
                edge = _EDGE * (upper - lower)
                lower, upper = lower + edge, upper - edge
                volume = self.log_volume(lower[None], upper[None])[0]
        # Where the prior cannot say volumes, those of the cube stand for them.
        return 0.0 if np.isnan(volume) else float(np.log(upper - lower).sum() - volume)

    def _direction(
        self, growth: Growth, box: int, cube: FloatArray, label: FloatArray
    ) -> int | None:
        """The coordinate to cut; None where the box is too small."""
        side = growth.upper(box) - growth.lower(box)
        wide = side >= 2.0 * _SHORTEST_SIDE
        if not wide.any():
            return None
        if self.direction == "cyclic":
            return _next_wide(growth.depth(box) % len(wide), wide)
        gain = np.where(wide, _gain(cube, label, _middle(growth, box)), 0.0)
        # Below this a gain is rounding: all labels are equal.
        if gain.max() > 1e-12 * float(label @ label):
            return int(np.argmax(gain))
        return int(np.argmax(side))


def _middle(growth: Growth, box: int) -> FloatArray:
    """(d,) The centre of a box."""
    return 0.5 * (growth.lower(box) + growth.upper(box))


def _next_wide(feature: int, wide: BoolArray) -> int:
    """The first coordinate from `feature` on, cyclically, that is wide enough to cut."""
    return (feature + int(np.argmax(np.roll(wide, -feature)))) % len(wide)


def _by_box(
    boxes: Boxes, cube: FloatArray, label: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """The rows of every box and their labels, (m,) or (m, 2)."""
    box = boxes.locate(cube)
    order = np.argsort(box, kind="stable")
    ends = np.cumsum(np.bincount(box, minlength=len(boxes)))[:-1]
    return list(zip(np.split(cube[order], ends), np.split(label[order], ends), strict=True))


def _gain(cube: FloatArray, label: FloatArray, middle: FloatArray) -> FloatArray:
    """(d,) Fall of the squared error of the labels when cut at `middle`; 0 if a side is empty."""
    n = len(label)
    left = (cube < middle).astype(np.float64)
    n_left = left.sum(axis=0)
    sum_left = label @ left
    both = n_left * (n - n_left)
    # n_l n_r / n times the squared difference of the two means.
    return np.asarray((n * sum_left - n_left * label.sum()) ** 2 / (n * np.maximum(both, 1.0)))
