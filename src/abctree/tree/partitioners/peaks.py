"""`Peaks`: coarse boxes, and small ones around what may be a thin peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes
from abctree.errors import wrong
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.protocols import Partitioner
from abctree.tree.beliefs import divergence
from abctree.tree.partitioners.growth import Growth
from abctree.tree.partitioners.soft_tree import SoftTree
from abctree.types import BoolArray, FloatArray, IntArray

#: Volumes of the cells in which a peak is looked for, in multiples of 1/n.
_SIZES = (0.25, 0.5, 1.0, 2.0, 4.0)
#: A cell is worth a box when its odds of acceptance are so many times those of the best box, and
#: its counts contradict the rate of its own box by this much (a log-likelihood ratio).
_ODDS, _SURPRISE = 4.0, 3.0
#: Rows for one such box, and the most of them.
_ROWS_EACH, _MOST = 500, 20


@checks_keywords
@dataclass(frozen=True)
class Peaks:
    """Coarse boxes for a run that seeks the mode, and small ones around suspicious acceptances.

    Boxes that are small beside the posterior would draw all pulls to one point of the peak, which
    is bad for finding its top: the fit (see `abctree.answers.mode`) needs its slopes.  So the
    boxes are those of a soft tree with few of them.  But a peak that is much thinner than they are
    would be lost in its box.  It shows as one or a few accepted rows among none: a cell of volume
    about 1/n with a surprising share of accepted rows becomes a box of its own, and a policy that
    believes its counts finds out soon (see `abctree.LimitedShrinkage`).

    Parameters
    ----------
    partitioner : Partitioner or None
        For the coarse boxes; None is a `SoftTree` with at least n / (12.5 · 4^(d − 1)) rows on
        each side of a cut, but at least 10.
    most : int or None
        Most small boxes, at least 0; None is one for 500 d rows, from 2 to 20.

    Raises
    ------
    ParameterError
        If `most` is negative or the partitioner has no method ``partition``.

    Notes
    -----
    O(n log n) beside the coarse boxes.  A peak thinner than about 1/n of the prior, n the number
    of prior draws, is not hit and cannot be found by any rule.
    """

    partitioner: Partitioner | None = None
    most: int | None = ruled(None, "a whole number of at least 0 or None")

    def __post_init__(self) -> None:
        if self.partitioner is not None and not hasattr(self.partitioner, "partition"):
            raise wrong(
                "partitioner", "have a method `partition(...)` or be None", repr(self.partitioner)
            )

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,
        rng: np.random.Generator,
    ) -> Boxes:
        """Boxes from rows (n, d) and their distances (n,)."""
        n, d = cube.shape
        coarse = self.partitioner or SoftTree(min_rows=max(10, int(n / (12.5 * 4.0 ** (d - 1)))))
        boxes = coarse.partition(cube, distance, epsilon, current, rng)
        accepted = distance < epsilon
        most = self.most if self.most is not None else int(np.clip(n // (_ROWS_EACH * d), 2, _MOST))
        if most == 0 or not accepted.any():
            return boxes
        growth = Growth(boxes)
        for lower, upper, point in _chosen(_suspects(boxes, cube, accepted), most):
            _cut_out(growth, lower, upper, _owner(growth, boxes, point))
        return growth.boxes()


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells with accepted rows, of one size."""

    surprise: FloatArray  #: (m,)
    lower: FloatArray  #: (m, d)
    upper: FloatArray  #: (m, d)
    point: FloatArray  #: (m, d) an accepted row of each


def _suspects(boxes: Boxes, cube: FloatArray, accepted: BoolArray) -> _Cells:
    """Cells of all sizes whose counts are surprising in their box."""
    n, d = cube.shape
    box = boxes.locate(cube)
    count = np.bincount(box, minlength=len(boxes))
    rate = (np.bincount(box, accepted, len(boxes)) + 0.5) / (count + 1.0)
    best = float(rate.max())
    least = _ODDS * best / (1.0 - best + _ODDS * best)
    parts = []
    for size in _SIZES:
        side = min(1.0, (size / n) ** (1.0 / d))
        hits, rows, first = _counted(np.floor(cube / side), accepted)
        share, own = hits / rows, rate[box[first]]
        surprise = rows * divergence(share, own)
        use = (share > least) & (surprise > _SURPRISE)
        corner = np.floor(cube[first[use]] / side) * side
        parts.append(_Cells(surprise[use], corner, corner + side, cube[first[use]]))
    return _Cells(
        *(
            np.concatenate([vars(part)[name] for part in parts])
            for name in ("surprise", "lower", "upper", "point")
        )
    )


def _counted(cell: FloatArray, accepted: BoolArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Accepted rows, rows, and the first accepted row of each cell (n, d) that has one."""
    mixer = np.random.default_rng(0).integers(2**62, size=cell.shape[1], dtype=np.uint64)
    key = (cell.astype(np.uint64) * (mixer | np.uint64(1))).sum(axis=1, dtype=np.uint64)
    hit = np.flatnonzero(accepted)
    known, first, label = np.unique(key[hit], return_index=True, return_inverse=True)
    place = np.minimum(np.searchsorted(known, key), len(known) - 1)
    rows = np.bincount(place[known[place] == key], minlength=len(known))
    return np.bincount(label).astype(np.float64), rows.astype(np.float64), hit[first]


def _chosen(cells: _Cells, most: int) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """The most surprising cells that do not overlap."""
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for i in np.argsort(-cells.surprise, kind="stable").tolist():
        if len(kept) == most:
            break
        low, high = cells.lower[i], cells.upper[i]
        if not any((low < h).all() and (high > lo).all() for lo, h, _ in kept):
            kept.append((low, high, cells.point[i]))
    return kept


def _owner(growth: Growth, boxes: Boxes, point: FloatArray) -> int:
    """The box that a point is in by now; cut-off parts are at the end of the numbers."""
    first = int(boxes.locate(point[None])[0])
    candidates: list[int] = [first, *range(len(boxes), len(growth))]
    for box in candidates:
        if (growth.lower(box) <= point).all() and (point < growth.upper(box)).all():
            return box
    return first


def _cut_out(growth: Growth, lower: FloatArray, upper: FloatArray, box: int) -> None:
    """Cut a box around a cell, side by side."""
    for feature in range(len(lower)):
        below = growth.split(box, feature, float(lower[feature]))
        box = box if below is None else below[1]
        growth.split(box, feature, float(upper[feature]))
