"""`Simulations`: what comes back from running the simulator on some rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abctree.types import FloatArray


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


@dataclass(frozen=True, eq=False)
class Simulations:
    """Distances and summaries of n rows, in their order."""

    distance: FloatArray  #: (n,) inf for a failure
    summary: FloatArray  #: (n, ...) nan for a failure
    failures: tuple[Failure, ...] = ()
    began: float = np.inf  #: `time.time()` when the first of them began; inf if it is not known
    other_streams: tuple[OtherStream, ...] = ()

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
