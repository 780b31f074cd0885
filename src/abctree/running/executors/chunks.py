"""How a block of simulations is cut into tasks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from abctree.types import IntArray

#: Seconds that a task should last: sending one costs about a ten-thousandth of a second.
_TARGET = 0.02
#: Most rows of a task while nothing is known about the simulator.
_FIRST = 16
#: Weight of the last task in the estimate of the time.
_NEWS = 0.3


def split(index: IntArray, chunk: int, unit: int) -> list[slice]:
    """Consecutive slices of about `chunk` rows, never cutting a unit of rows in two."""
    allowed = np.flatnonzero(np.diff(index // unit, prepend=-1))
    starts = [0]
    while (i := int(np.searchsorted(allowed, starts[-1] + chunk))) < len(allowed):
        starts.append(int(allowed[i]))
    return [slice(a, b) for a, b in pairwise([*starts, len(index)])]


class Pace:
    """Seconds that a simulation takes, learned from the tasks that came back."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def note(self, n: int, seconds: float) -> None:
        """A task of n rows took so long in its worker."""
        one = seconds / n
        old = one if self._seconds is None else self._seconds
        self._seconds = (1.0 - _NEWS) * old + _NEWS * one

    def rows(self, n: int, n_workers: int) -> int:
        """Rows of a task of a block of n: long enough, but something to do for every worker."""
        known = self._seconds is not None
        most = int(min(n, _TARGET / max(self._seconds or 0.0, 1e-9))) if known else _FIRST
        return max(1, min(most, -(-n // n_workers)))
