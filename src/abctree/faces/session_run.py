"""`Waiting`: a run that stands still where it needs answers, until it is told some.

The run is played in a thread of its own, and either it goes on or whoever tells does, never both:
the thread is a place to keep the stack of the loops.  So a run is never begun again, and one of n
blocks takes n steps.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from abctree.answers.result import Result
from abctree.data import Rows
from abctree.errors import AbctreeError, warn, warnings_kept
from abctree.problem import Discrepancy
from abctree.protocols import Chunk, Work
from abctree.types import FloatArray


class Wanted(NamedTuple):
    """A simulation that the run has asked for, and whose block is not whole."""

    theta: FloatArray  #: (p,)
    work: Discrepancy
    block: int  #: number of the first simulation that was asked for with it


class ForgottenError(BaseException):
    """Nobody will ever tell more."""


class Waiting:
    """A run that `play` plays, as far as the answers reach; it is the executor of the run."""

    def __init__(self, play: Callable[[Waiting], Result]) -> None:
        self.result: Result | None = None  #: once the run is over
        self.wanted: dict[int, Wanted] = {}
        self.fresh: deque[int] = deque()  #: what was asked for last, the first one first
        self._blocks: deque[list[int]] = deque()  # of what is wanted
        self._told: deque[Chunk] = deque()
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._goes_on = self._is_forgotten = False
        self._error: BaseException | None = None
        self._said: list[str] = []
        self._thread = threading.Thread(
            target=self._run, args=(play,), name="abctree-session", daemon=True
        )

    def tell(self, *chunks: Chunk) -> None:
        """Let the run go on with some answers until it needs others."""
        self._come_back()  # if Ctrl-C came while it went on
        self._told.extend(chunks)
        if self._thread.ident is None:
            self._goes_on = True
            self._thread.start()
        elif self._thread.is_alive():
            self._goes_on = True
            self._go.release()
        self._come_back()
        while self._said:
            warn(self._said.pop(0))
        if self._error is not None:
            raise self._error
        if self.result is None and not self._thread.is_alive():
            raise AbctreeError(
                "A session cannot go on in a process that was forked from its own. Save it there, "
                "and load it here."
            )

    def forget(self) -> None:
        """End the thread; the run is lost."""
        self._is_forgotten = True
        self._go.release()

    def _come_back(self) -> None:
        """Wait until the run stands still, or is over."""
        if self._goes_on:
            self._back.acquire()
            self._goes_on = False

    # In the thread of the run ------------------------------------------------------------------

    def chunks(self, work: Work, rows: Rows) -> Iterator[Chunk]:
        """Ask for simulations; the iterator gives what is told, of any block."""
        if not isinstance(work, Discrepancy):
            raise TypeError("a session answers for a problem only")
        numbers = rows.index.tolist()
        for number, theta in zip(numbers, rows.theta, strict=True):
            self.wanted[number] = Wanted(theta, work, numbers[0])
        self.fresh.extend(numbers)
        self._blocks.append(numbers)
        return self._answers(numbers)

    def _answers(self, numbers: list[int]) -> Iterator[Chunk]:
        while True:
            while self._told:
                yield self._told.popleft()
            while self._blocks[0] is not numbers:  # blocks are waited for as they were begun
                for number in self._blocks.popleft():
                    del self.wanted[number]
            self._stand_still()

    def _stand_still(self) -> None:
        self._back.release()
        self._go.acquire()
        if self._is_forgotten:
            raise ForgottenError

    def _run(self, play: Callable[[Waiting], Result]) -> None:
        try:
            with warnings_kept(self._said):
                self.result = play(self)
            self.wanted.clear()
        except ForgottenError:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised where the answers are told
            self._error = error
        self._back.release()
