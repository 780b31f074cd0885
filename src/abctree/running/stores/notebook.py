"""`Notebook`: finished simulations on their way to the store, before their block is whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Failure, OtherStream, Simulations
from abctree.protocols import NotingStore
from abctree.running.executors.limits import joined
from abctree.types import BoolArray, IntArray

#: Seconds after which what is finished goes to the disk.  A block that takes less is written once,
#: and a fast simulator does not notice.
_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class _Entry:
    """Answers to some rows of a block."""

    page: Page
    rows: IntArray  #: (k,) of the block
    done: Simulations
    due: float  #: time (monotonic) by which to write it
    is_ours: bool  #: whether it comes from the thread of the run, which Ctrl-C interrupts

    def trusted(self) -> _Entry:
        """The entry after Ctrl-C, which may have ended programs that a worker had started."""
        if self.is_ours or not self.done.failures:
            return self
        sound = self.page.is_sound(self.rows, self.done)
        rows, done = _some(self.rows, self.done, sound)
        return replace(self, rows=rows, done=replace(done, failures=()))


class Notebook:
    """What came back of blocks that are not whole, and is not in the store yet.

    Entries are made by any thread, and written by the one that waits for the run.
    """

    def __init__(self, store: NotingStore) -> None:
        self._store = store
        self._entries: list[_Entry] = []
        self._due = float("inf")  #: of the first entry
        self._lock = threading.Lock()
        self._is_interrupted = False
        self._thread = threading.get_ident()

    def add(self, page: Page, rows: IntArray, done: Simulations, age: float) -> None:
        """Answers to rows (k,) of a block, begun so many seconds ago."""
        due = time.monotonic() + _SECONDS - age
        entry = _Entry(page, rows, done, due, threading.get_ident() == self._thread)
        with self._lock:
            self._entries.append(entry)
            self._due = min(self._due, due)

    def keep(self) -> None:
        """Write, if something has waited long enough."""
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Put all entries into the store."""
        entries = self._entries[:]
        for page in dict.fromkeys(entry.page for entry in entries):
            self._write(page, [entry for entry in entries if entry.page is page])
        with self._lock:  # not before: Ctrl-C may come while they are written
            self._drop(entries)

    def interrupted(self) -> None:
        """Ctrl-C came: failures of workers that are not in the store by now are made again."""
        self._is_interrupted = True

    def forget(self, first: int) -> None:
        """Drop the entries of blocks up to the one that begins at a simulation."""
        if self._entries:
            with self._lock:
                self._drop([entry for entry in self._entries if entry.page.first <= first])

    def noted(self, first: int) -> Sequence[tuple[int, IntArray, Simulations]]:
        """What the store has of a block: checksums, rows and answers."""
        return self._store.noted(first)

    def clear(self) -> None:
        """Forget everything, also what is in the store."""
        with self._lock:
            self._drop(self._entries)
        self._store.drop_noted()

    def _drop(self, entries: list[_Entry]) -> None:
        gone = set(map(id, entries))
        self._entries = [entry for entry in self._entries if id(entry) not in gone]
        self._due = min((entry.due for entry in self._entries), default=float("inf"))

    def _write(self, page: Page, entries: list[_Entry]) -> None:
        if self._is_interrupted:
            entries = [entry.trusted() for entry in entries]
        rows = np.concatenate([entry.rows for entry in entries])
        done = Simulations.join([entry.done for entry in entries])
        rows, done = _some(rows, done, np.argsort(rows, kind="stable"))
        if len(rows):
            self._store.note(page.first, page.check, rows, done)


def _some(
    rows: IntArray, done: Simulations, which: IntArray | BoolArray
) -> tuple[IntArray, Simulations]:
    return rows[which], replace(done, distance=done.distance[which], summary=done.summary[which])


@dataclass(frozen=True, eq=False)
class Page:
    """The notes of one block."""

    notebook: Notebook
    first: int  #: number of its first simulation
    check: int  #: checksum of its parameters
    unit: int  #: rows that must stay together
    rows: IntArray  #: (k,) rows of the block that the executor was given
    keeps_summaries: bool

    @property
    def seconds(self) -> float:
        """How long what is finished may wait to be noted."""
        return _SECONDS

    def add(self, first: int, done: Simulations, age: float = 0.0) -> None:
        """Answers to rows of the executor from row `first` on, begun so many seconds ago."""
        rows = self.rows[first : first + len(done.distance)]
        if not self.keeps_summaries:
            done = without_summaries(done)
        self.notebook.add(self, rows, done, age)

    def keep(self) -> None:
        """To be called now and then in the thread that waits."""
        self.notebook.keep()

    def is_sound(self, rows: IntArray, done: Simulations) -> BoolArray:
        """Which rows (k,) have no failure in their unit."""
        failed = {failure.index // self.unit for failure in done.failures}
        units = (self.first + rows) // self.unit
        return ~np.isin(units, list(failed))


def without_summaries(done: Simulations) -> Simulations:
    """The same simulations, with summaries (n, 0)."""
    flat = done.summary.reshape(len(done.distance), -1)
    return replace(done, summary=flat[:, :0])


@dataclass(frozen=True, eq=False)
class Draft:
    """A block of which a store has a part."""

    n: int
    parts: tuple[tuple[IntArray, Simulations], ...]  #: rows (k,) and their answers

    @property
    def missing(self) -> IntArray:
        """Rows that are still to be simulated."""
        has = np.zeros(self.n, dtype=bool)
        for rows, _ in self.parts:
            has[rows] = True
        return np.flatnonzero(~has)

    def completed(self, rows: IntArray, done: Simulations | None) -> Simulations:
        """The block, with the answers to the missing rows: bit for bit as if made in one go."""
        parts = [*self.parts, *([] if done is None else [(rows, done)])]
        distance = np.empty(self.n)
        summary = np.empty((self.n, *parts[0][1].summary.shape[1:]))
        failures: dict[int, Failure] = {}
        others: list[OtherStream] = []
        for where, part in parts:
            distance[where], summary[where] = part.distance, part.summary
            failures.update({failure.index: failure for failure in part.failures})
            others += part.other_streams
        began = np.inf if done is None else done.began
        whole = Simulations(distance, summary, tuple(failures.values()), began, tuple(others))
        return joined([whole])
