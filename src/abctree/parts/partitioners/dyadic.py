"""`Dyadic`: nested refinement at midpoints."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abctree.data import Boxes
from abctree.errors import ParameterError
from abctree.parts.partitioners.growth import Growth, labels
from abctree.types import BoolArray, FloatArray

# Sides are not cut below this: repeated points would otherwise draw cuts for ever.
_SHORTEST_SIDE = 2.0**-40

# Rows for each box that the automatic size aims at; fewer make the rates of the boxes too noisy.
_ROWS_PER_BOX = 150


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
    label : float or None
        Width of the soft label ``max(0, 1 - distance / (label * epsilon))`` that directions are
        judged by; None for the paper's accepted or rejected.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Notes
    -----
    O(n d) for each level of the tree.  A box whose sides are all shorter than 2⁻³⁹ is left alone.
    """

    n_splits: int | None = None
    direction: Literal["separating", "cyclic"] = "separating"
    min_draws: int | None = None
    max_boxes: int | None = None
    label: float | None = 2.5

    def __post_init__(self) -> None:
        for name in ("n_splits", "min_draws", "max_boxes"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ParameterError(f"`{name}` must be at least 1 or None, but got {value!r}.")
        if self.direction not in {"separating", "cyclic"}:
            raise ParameterError(
                f'`direction` must be "separating" or "cyclic", but got {self.direction!r}.'
            )
        if self.label is not None and not self.label > 0.0:
            raise ParameterError(f"`label` must be above 0 or None, but got {self.label!r}.")

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,  # noqa: ARG002 - the protocol passes it; nothing here is random
    ) -> Boxes:
        """`current`, or the whole cube, cut further where the rows are.

        Parameters
        ----------
        cube : ndarray of shape (n, d)
            The rows; n may be 0.
        distance : ndarray of shape (n,)
            Their distances; inf for a failure.
        epsilon : float
            The tolerance, which sets the labels.
        current : Boxes or None
            The partition to refine.
        rng : Generator
            Not used.

        Returns
        -------
        Boxes
            A refinement of `current`; `current` itself where there is nothing to cut.
        """
        boxes = Boxes.whole(cube.shape[1]) if current is None else current
        target = self._n_boxes(len(cube), len(boxes))
        if target <= len(boxes):
            return boxes
        growth = Growth(boxes)
        self._refine(growth, _by_box(boxes, cube, labels(distance, epsilon, self.label)), target)
        return growth.boxes()

    def _n_boxes(self, n_rows: int, n_boxes: int) -> int:
        """How many boxes to stop at."""
        wanted = n_rows // _ROWS_PER_BOX if self.n_splits is None else n_boxes + self.n_splits
        return wanted if self.max_boxes is None else min(wanted, self.max_boxes)

    def _refine(
        self, growth: Growth, rows: list[tuple[FloatArray, FloatArray]], target: int
    ) -> None:
        least = 2 if self.min_draws is None else self.min_draws
        heap = [(-len(label), box) for box, (_, label) in enumerate(rows) if len(label) >= least]
        heapq.heapify(heap)
        while heap and len(growth) < target:
            _, box = heapq.heappop(heap)
            cube, label = rows[box]
            feature = self._direction(growth, box, cube, label)
            if feature is None:
                continue
            middle = _middle(growth, box)[feature]
            growth.split(box, feature, middle)
            left = cube[:, feature] < middle
            rows[box] = cube[left], label[left]
            rows.append((cube[~left], label[~left]))
            for part in (box, len(growth) - 1):
                if len(rows[part][1]) >= least:
                    heapq.heappush(heap, (-len(rows[part][1]), part))

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
    """The rows of every box and their labels."""
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
