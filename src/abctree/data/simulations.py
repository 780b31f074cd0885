"""`Simulations`: what comes back from running the simulator on some rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from abctree.types import BoolArray, FloatArray, IntArray


@dataclass(eq=False)  # not frozen: one is made for each block, in a third of the time
class Rows:
    """Simulations to be made; those with the same ``index // unit`` must be made together."""

    theta: FloatArray  #: (n, p)
    index: IntArray  #: (n,) their numbers, increasing
    unit: int = 1  #: rows that share a generator

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, which: slice | IntArray | BoolArray) -> Rows:
        return Rows(self.theta[which], self.index[which], self.unit)

    def parts(self, size: int) -> Iterator[Rows]:
        """Consecutive parts of about `size` rows, none of which cuts a unit."""
        if len(self) <= size:
            yield self
            return
        allowed = np.flatnonzero(np.diff(self.index // self.unit, prepend=-1))
        starts = [0]
        while (i := int(np.searchsorted(allowed, starts[-1] + size))) < len(allowed):
            starts.append(int(allowed[i]))
        for a, b in pairwise([*starts, len(self)]):
            yield self[a:b]


@dataclass(frozen=True)
class Failure:
    """One simulation that gave nothing usable; it counts as a rejection."""

    index: int  #: number of the simulation; with the run's seed it reproduces the failure
    theta: tuple[float, ...]  #: its parameters
    reason: str  #: one line
    traceback: str = ""  #: of the first few that raised


class OtherStream(NamedTuple):
    """A stream of random numbers that a call drew from, and was not given."""

    name: str
    state: str  #: a hash of the state in which the call began; of one with a seed, the process
    process: int  #: in which it was


@dataclass(eq=False)  # not frozen, as `Rows`
class Simulations:
    """Distances and summaries of n rows, in their order."""

    distance: FloatArray  #: (n,) inf for a failure
    summary: FloatArray  #: (n, ...) nan for a failure
    failures: tuple[Failure, ...] = ()
    began: float = np.inf  #: `time.time()` when the first of them began; inf if it is not known
    other_streams: tuple[OtherStream, ...] = ()

    def __len__(self) -> int:
        return len(self.distance)

    def take(self, which: IntArray | BoolArray, index: IntArray) -> Simulations:
        """Some of the rows, whose numbers are `index` (k,)."""
        numbers = set(index.tolist())
        return replace(
            self,
            distance=self.distance[which],
            summary=self.summary[which],
            failures=tuple(f for f in self.failures if f.index in numbers),
        )

    @classmethod
    def join(cls, parts: Sequence[Simulations]) -> Simulations:
        """Consecutive chunks as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([p.distance for p in parts]),
            np.concatenate([p.summary for p in parts]),
            tuple(f for p in parts for f in p.failures),
            min(p.began for p in parts),
            tuple(s for p in parts for s in p.other_streams),
        )


class InterruptedWorkError(KeyboardInterrupt):
    """Ctrl-C in a simulation: `done` has those that were finished before, the first rows."""

    def __init__(self, done: Simulations) -> None:
        super().__init__()
        self.done = done

    def __reduce__(self) -> tuple[type, tuple[Simulations]]:
        return type(self), (self.done,)
