"""Simulations in this process, one chunk after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

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

    def submit(
        self,
        work: Callable[[FloatArray, IntArray], Simulations],
        theta: FloatArray,
        index: IntArray,
        unit: int,
    ) -> Callable[[], Simulations]:
        """The simulations of all rows, made when they are waited for."""
        chunks = split(index, self.chunk or len(index), unit)
        return lambda: Simulations.join([work(theta[rows], index[rows]) for rows in chunks])


def split(index: IntArray, chunk: int, unit: int) -> list[slice]:
    """Consecutive slices of about `chunk` rows, never cutting a unit of rows in two."""
    allowed = np.flatnonzero(np.diff(index // unit, prepend=-1))
    starts = [0]
    for a in allowed.tolist():
        if a - starts[-1] >= chunk:
            starts.append(a)
    return [slice(a, b) for a, b in pairwise([*starts, len(index)])]
