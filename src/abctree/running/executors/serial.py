"""Simulations in this process, one after the other, and the limit of their time.

An alarm interrupts code that returns to the interpreter now and then.  Code that does not can only
be ended with its process, by the parent of a worker of `Processes`.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

import numpy as np

from abctree.data import Failure, InterruptedWorkError, Rows, Simulations
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.protocols import Chunk, Work

#: Seconds after which what is finished is given back: so much a killed run may lose.
_SECONDS = 0.05
#: The rule of a timeout.
POSITIVE = "in (0, inf) or None", "It is in seconds."
#: Seconds between two alarms, at least: a simulator may swallow the first.
_AGAIN = 0.1


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
    timeout: float | None = ruled(None, *POSITIVE)

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """The simulations of all rows, made when they are asked for.

        Raises
        ------
        ParameterError
            If there is a timeout that cannot be enforced here.
        """
        for part in rows.parts(self.chunk) if self.chunk else (rows,):
            rest: Rows | None = part if len(part.index) else None
            while rest is not None:
                try:
                    done = simulate(work, rest, _SECONDS, self.timeout)
                except InterruptedWorkError as error:
                    yield rest[: len(error.done)], error.done
                    raise
                n = len(done.distance)
                made, rest = (rest, None) if n == len(rest.index) else (rest[:n], rest[n:])
                yield made, done


def simulate(work: Work, rows: Rows, seconds: float, timeout: float | None) -> Simulations:
    """The first of the rows, those that are begun within so many seconds.

    A simulation that takes longer than `timeout` seconds is a failure.  A unit of m rows that are
    simulated in one call has m times the limit; if that is not enough its rows are simulated one by
    one, as when the call raises.
    """
    until = time.monotonic() + seconds
    if timeout is None:
        return work(rows, until)
    if not Alarm.has_parent and not _has_alarm():
        raise ParameterError(
            "`timeout` must run in the main thread of a process on a POSIX system, where an alarm "
            "can interrupt a simulation, but this is another thread or system. "
            "Use abctree.Processes(timeout=...), which can kill its workers."
        )
    parts: list[Simulations] = []
    try:
        for unit in rows.parts(1):
            parts.append(_in_time(work, unit, timeout))
            if time.monotonic() >= until:
                break
    except KeyboardInterrupt as error:
        if not parts:
            raise
        raise InterruptedWorkError(Simulations.join(parts)) from error
    return Simulations.join(parts)


def _in_time(work: Work, unit: Rows, timeout: float) -> Simulations:
    began = time.time()
    try:
        with _alarm(timeout * len(unit)):
            return work(unit)
    except OutOfTimeError:
        if len(unit) == 1:
            trace = traceback.format_exc()
            reason = f"TimeoutError: not done after {timeout:g} s"
            return replace(failed(work, unit, reason, trace), began=began)
    return Simulations.join([_in_time(work, row, timeout) for row in rows_of(unit)])


def rows_of(rows: Rows) -> list[Rows]:
    """Each row alone."""
    return [rows[i : i + 1] for i in range(len(rows))]


def failed(work: Work, row: Rows, reason: str, trace: str = "") -> Simulations:
    """A simulation that was given up."""
    failure = Failure(int(row.index[0]), tuple(row.theta[0].tolist()), reason, trace)
    summary = np.full((1, *work.shape), np.nan)
    return Simulations(np.full(1, np.inf), summary, (failure,), began=time.time())


# The alarm -----------------------------------------------------------------------------------


class OutOfTimeError(BaseException):
    """The alarm rang.  Not an `Exception`: a simulator that catches those must not catch this."""


class Alarm:
    """That of this process."""

    has_parent = False  #: whether a parent ends what the alarm cannot
    is_armed = False


def _has_alarm() -> bool:
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and hasattr(signal, "setitimer")


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in the body after so long."""
    if not _has_alarm():
        yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        Alarm.is_armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds, max(seconds, _AGAIN))
        try:
            yield
        finally:
            Alarm.is_armed = False  # an alarm from here on is silent
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


def _ring(_signal: int, _frame: FrameType | None) -> None:
    if Alarm.is_armed:
        raise OutOfTimeError
