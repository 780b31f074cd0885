"""The best box (Algorithm 4, line 4): that of the largest average density in θ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree.data import Arms, Partition
from abctree.problem.region import Region
from abctree.tree.beliefs import GlobalRate
from abctree.tree.partitioners import SoftTree
from abctree.types import FloatArray, IntArray

Ends = tuple[FloatArray, FloatArray]


def best_box(partitions: Sequence[Partition], arms: Sequence[Arms]) -> Ends | None:
    """Corners (d,) of k̂ = argmax_k π_k η_k / |Ω_k| over all folds; None if no box is bounded."""
    best, highest = None, -np.inf
    for partition, belief in zip(partitions, arms, strict=True):
        with np.errstate(divide="ignore"):
            density = np.log(belief.mean) + partition.log_density
        k = int(np.argmax(np.where(np.isfinite(density), density, -np.inf)))
        if highest < density[k] < np.inf:
            best, highest = (partition.boxes.lower[k], partition.boxes.upper[k]), density[k]
    return best


def best_box_of_rows(
    region: Region, cube: FloatArray, distance: FloatArray, epsilon: float
) -> Ends | None:
    """The best box of a partition that is cut from rows; None if none is accepted, or bounded."""
    rows: IntArray = np.arange(len(cube), dtype=np.int32)
    if not np.isfinite(epsilon) or not (distance < epsilon).any():
        return None
    boxes, arm = SoftTree().of_rows(cube, distance, rows, epsilon)
    cut = region.measure(boxes)
    beliefs = GlobalRate().start(
        cut, arm, distance, np.ones(len(cube)),
        epsilon=epsilon, first_epsilon=epsilon, count_epsilon=epsilon,
    )  # fmt: skip
    return best_box([cut], [beliefs.arms()])


def box_in_theta(region: Region, lower: FloatArray, upper: FloatArray) -> tuple[Ends, FloatArray]:
    """Corners (p,) in θ of a box of the cube, by those of the cube, and its centre (p,)."""
    d = len(lower)
    pick = (np.arange(2 ** min(d, 10))[:, None] >> np.arange(d) % 10) & 1
    points = np.vstack([np.where(pick == 1, upper, lower), 0.5 * (lower + upper)])
    *corners, centre = region.prior.from_cube(points)
    return (np.min(corners, axis=0), np.max(corners, axis=0)), centre
