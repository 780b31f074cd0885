"""Simulations in this process, one chunk after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abctree.data import Simulations
from abctree.types import FloatArray, IntArray


@dataclass(frozen=True)
class Serial:
    """Runs a block in this process.

    Parameters
    ----------
    chunk : int or None
        Most rows in one call; None for all.  It never changes a result.
    """

    chunk: int | None = None

    def run(
        self,
        work: Callable[[FloatArray, IntArray], Simulations],
        theta: FloatArray,
        index: IntArray,
        unit: int,
    ) -> Simulations:
        """The simulations of all rows, in order."""
        if self.chunk is None or len(index) <= self.chunk:
            return work(theta, index)
        starts = chunk_starts(index, self.chunk, unit)
        bounds = zip(starts, [*starts[1:], len(index)], strict=True)
        return Simulations.join([work(theta[a:b], index[a:b]) for a, b in bounds])


def chunk_starts(index: IntArray, chunk: int, unit: int) -> list[int]:
    """Where chunks of about `chunk` rows begin, never inside a unit of rows."""
    allowed = np.flatnonzero(np.diff(index // unit, prepend=-1))
    starts = [0]
    for a in allowed.tolist():
        if a - starts[-1] >= chunk:
            starts.append(a)
    return starts
