"""Simulations in this process, one chunk after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abctree.data import Simulations
from abctree.keywords import checks_keywords
from abctree.protocols import Notes
from abctree.running.executors.chunks import split
from abctree.running.executors.limits import (
    Work,
    check_enforceable,
    check_timeout,
    joined,
    simulate,
    simulate_some,
)
from abctree.types import FloatArray, IntArray


@checks_keywords
@dataclass(frozen=True)
class Serial:
    """Runs a block in this process.

    Parameters
    ----------
    chunk : int or None
        Most rows in one call; None for all.  It never changes a result.
    timeout : float or None
        Most seconds for a simulation; one that takes longer is a failure.  Needs the main thread
        of a POSIX system, and cannot interrupt compiled code that does not return to the
        interpreter; `Processes` can.

    Raises
    ------
    ParameterError
        If the timeout is not a positive number.
    """

    chunk: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_timeout(self.timeout)

    def submit(
        self, work: Work, theta: FloatArray, index: IntArray, unit: int
    ) -> Callable[[], Simulations]:
        """The simulations of all rows, made when they are waited for.

        Raises
        ------
        ParameterError
            If there is a timeout that cannot be enforced here.
        """
        if self.timeout is not None:
            check_enforceable()
        chunks = split(index, self.chunk or len(index), unit)
        return lambda: joined(
            [simulate(work, theta[rows], index[rows], unit, self.timeout) for rows in chunks]
        )

    def submit_noted(
        self, work: Work, theta: FloatArray, index: IntArray, unit: int, notes: Notes
    ) -> Callable[[], Simulations]:
        """As `submit`; what is finished is noted once in `notes.seconds`, and when Ctrl-C comes.

        Raises
        ------
        ParameterError
            If there is a timeout that cannot be enforced here.
        """
        if self.timeout is not None:
            check_enforceable()
        chunks = split(index, self.chunk or len(index), unit)
        return lambda: self._made(work, theta, index, unit, chunks, notes)

    def _made(
        self,
        work: Work,
        theta: FloatArray,
        index: IntArray,
        unit: int,
        chunks: Sequence[slice],
        notes: Notes,
    ) -> Simulations:
        parts: list[Simulations] = []
        made = 0

        def take(done: Simulations) -> None:
            nonlocal made
            parts.append(done)
            notes.add(made, done, time.monotonic() - began)
            made += len(done.distance)

        for rows in chunks:
            while made < rows.stop:
                began = time.monotonic()
                rest = slice(made, rows.stop)
                simulate_some(
                    work, theta[rest], index[rest], unit, self.timeout, notes.seconds, take
                )
                notes.keep()
        return joined(parts)
