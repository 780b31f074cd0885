"""`Ledger`: the answers of a run, by the number of the simulation.

What is kept is the chunk that an executor hands back.  A run is a function of its settings, its
seeds and these answers.  So the same run, begun again with the ledger of one that was killed, is
the run that was not killed; and a run whose ledger is filled by hand is ask and tell.
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from abctree.data import Rows, Simulations
from abctree.errors import AbctreeError, ParameterError, StoreError, wrong
from abctree.protocols import HasRecords, Store
from abctree.running.blocks import Entry, has_all, joined, without_summaries
from abctree.running.journal import FILE, START_ANEW, Journal, Mode, damaged
from abctree.running.packing import (
    Kept,
    Layout,
    StoredSummaries,
    UnreadableError,
    checksum,
    pack,
    unpack,
)

#: Kinds of records.
MANIFEST, CHUNK, ENDING, VOID = "manifest", "chunk", "ending", "void"
#: Seconds after which a chunk is flushed to the disk although its block is not whole.
_SECONDS = 1.0

StoreLike = str | os.PathLike[str] | Store


class Ledger:
    """Answers to simulations, in any order and in parts; past the end of the process once kept.

    Without a store they are forgotten when their block has been taken.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        #: Of simulations before this one summaries are kept.
        self.n_summaries = np.inf
        #: Of simulations from this one on `take` gives none: they stay in the store.
        self.n_read = np.inf
        self.stored: StoredSummaries | None = None  #: those that stay there
        #: What of the answers to a block is needed: a run must be the same if it is given this.
        self.needed: Callable[[Simulations], Simulations] = lambda answer: answer
        self.manifest: Mapping[str, Any] | None = None  #: what the run is; None if there is none
        self.ending: Mapping[str, Any] | None = None  #: how it ended; None while it is unfinished
        self.n_simulations = 0  #: in whole blocks: number 0 to this one, excluded
        self.n_failed = 0  #: of those that were kept before
        self._blocks: dict[int, list[Entry]] = {}  # by their first simulation
        self._open: dict[int, Rows] = {}  # blocks that the run has begun, and not taken
        self._unwritten: list[tuple[str, bytes]] = []  # goes with the next chunk
        self._n_records = 0  # in the store
        self._n_begun = 0
        self._is_empty = True  # when it was opened
        self._seconds = 0.0
        self._times: dict[int, float] = {}  # when blocks were answered, by their first simulation
        self._began: float | None = time.monotonic()  # None if it is only read
        self._flushed = time.monotonic()
        if store is not None:
            self._read(store)

    @classmethod
    def new(cls, path: StoreLike) -> Self:
        """The ledger of a new run, in a new folder or an unused store."""
        return cls._of(path, "new")

    @classmethod
    def open(cls, path: StoreLike) -> Self:
        """The ledger of an existing run, to go on with it."""
        return cls._of(path, "write")

    @classmethod
    def read(cls, path: StoreLike) -> Self:
        """The ledger of an existing run, to look at it; also while another process goes on."""
        ledger = cls._of(path, "read")
        ledger._began = None
        return ledger

    @classmethod
    def _of(cls, path: Any, mode: Mode) -> Self:
        is_no_name = isinstance(path, str) and (not path or "\0" in path)
        if is_no_name or not isinstance(path, str | os.PathLike | Store):
            name = "store" if mode == "new" else "path"
            raise wrong(name, "be a folder, or an object that keeps records", repr(path))
        store = Journal(path, mode) if isinstance(path, str | os.PathLike) else path
        try:
            if mode == "new" and isinstance(path, str | os.PathLike):
                _check_unused(Path(path))
            ledger = cls(store)
        except BaseException:
            store.close()
            raise
        if (ledger.manifest is None) == (mode == "new"):
            return ledger
        store.close()
        if mode == "new":
            raise ParameterError(
                f"`store` must be unused, but {store!r} holds a run. Go on with it by "
                "abctree.resume."
            )
        raise StoreError(f"{store!r} holds no run. Nothing was changed.")

    def _read(self, store: Store) -> None:
        try:
            for number, (kind, data) in enumerate(store.records()):
                self._n_records = number + 1
                if kind == CHUNK:
                    self._take_in(data, number)
                elif kind == MANIFEST:
                    self._take_manifest(_object(data))
                elif kind == ENDING:
                    self.ending = _object(data)
                    self._seconds = float(self.ending["seconds"])
                elif kind == VOID:
                    self._blocks.clear()
                    self._times.clear()
                    self.n_failed = 0
                    if self.stored is not None:
                        self.stored.clear()
        except (UnreadableError, ValueError, KeyError, RecursionError) as error:
            raise damaged(store, str(error)) from error
        n = self._whole()
        self.n_simulations = n if self.ending is None else min(n, int(self.ending["n_simulations"]))
        self._is_empty = not self._blocks

    def _take_manifest(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = dict(manifest)
        if not manifest.get("summaries_in_store"):
            return
        if not isinstance(self.store, HasRecords):
            raise wrong("store", 'be a run folder with keep_summaries="store"', repr(self.store))
        self.stored = self.stored or StoredSummaries(self.store)

    def _take_in(self, data: bytes, number: int) -> None:
        kept, layout = unpack(data), self._noted(number, data)
        done = partial(_unpacked, data)
        if isinstance(self.store, HasRecords):
            done = partial(self._again, self.store, number, kept.first, layout)
        entry = Entry(kept.first, kept.size, kept.index, kept.check, done)
        self._blocks.setdefault(kept.first, []).append(entry)
        self._seconds = max(self._seconds, kept.seconds)
        self._times[kept.first] = kept.seconds
        self.n_failed += len(kept.done.failures)
        self.ending = None

    def _noted(self, number: int, data: bytes) -> Layout | None:
        """Where the summaries of a record are, if they stay there."""
        return None if self.stored is None else self.stored.add(number, data)

    def _again(
        self, store: HasRecords, number: int, first: int, layout: Layout | None
    ) -> Simulations:
        """The answers of a record, and its summaries if anybody asks for them."""
        if layout is None or first < self.n_read:
            return unpack(store.record(number)).done
        return unpack(store.record(number, 0, layout.end_of_distances), summaries=False).done

    def _whole(self) -> int:
        """Simulations of whole blocks from the beginning on."""
        n = 0
        while (entries := self._blocks.get(n)) and has_all(entries, entries[0].size):
            n += entries[0].size
        return n

    # What the run is ------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Spent on the run, in all processes that worked on it."""
        return self._seconds + (0.0 if self._began is None else time.monotonic() - self._began)

    def seconds_at(self, n: Sequence[int]) -> tuple[float, ...]:
        """Spent when the first n simulations were there, for each of some n."""
        first = np.array(sorted(self._times), dtype=np.int64)
        spent = np.maximum.accumulate([0.0, *(self._times[number] for number in first.tolist())])
        return tuple(spent[np.searchsorted(first, n)].tolist())

    @property
    def n_noted(self) -> int:
        """Simulations that are kept although their block is not whole."""
        parts = [entries for first, entries in self._blocks.items() if first >= self.n_simulations]
        return sum(len(np.unique(np.concatenate([e.numbers for e in p]))) for p in parts if p)

    @property
    def of_unfinished(self) -> str:
        """What a store has beside whole blocks, in words."""
        n = 0 if self.store is None else self.n_noted
        return f"; {n} simulations of unfinished blocks are kept for abctree.resume" if n else ""

    @property
    def holds_failures_only(self) -> bool:
        """Whether there was something when it was opened, and all of it had failed."""
        return 0 < self.n_failed == self.n_simulations + self.n_noted

    def describe(self, manifest: Mapping[str, Any]) -> None:
        """Take the manifest: of a new run, or with changes, which are kept with the next chunk."""
        is_new = self.manifest is None
        changes = manifest != self.manifest
        self._take_manifest(manifest)
        if self.store is not None and changes:
            record = MANIFEST, json.dumps(manifest).encode()
            if is_new:
                self._append(*record, flush=True)
            else:
                self._unwritten.append(record)

    def conclude(self, why: str, seconds: float) -> None:
        """Keep how the run ended, unless that is known."""
        if self.ending is None or self.ending["stopped_because"] != why:
            n = self.n_simulations
            self.ending = {"stopped_because": why, "seconds": seconds, "n_simulations": n}
            self._append(ENDING, json.dumps(self.ending).encode(), flush=True)

    def drop_first(self) -> None:
        """Forget the first block, if there is no other: the run is not worth keeping."""
        if self._n_begun == 1 and self._is_empty and self.store is not None:
            self._append(VOID, b"", flush=True)
            self._blocks.clear()
            self.n_simulations = 0

    def close(self) -> None:
        """Let other processes in."""
        if self.store is not None:
            self.store.close()

    # Answers --------------------------------------------------------------------------------

    def begin(self, rows: Rows) -> Rows:
        """Those of a block that are not answered."""
        first = int(rows.index[0])
        entries = self._blocks.setdefault(first, [])
        if not entries and first < self.n_simulations:
            raise self._another_run(first)
        missing = self._missing(rows, entries) if entries else rows
        self._open[first] = rows
        self._n_begun += 1
        return missing

    def _missing(self, rows: Rows, entries: Sequence[Entry]) -> Rows:
        first, missing = int(rows.index[0]), np.ones(len(rows), dtype=bool)
        for entry in entries:
            places = entry.numbers - first
            if entry.size != len(rows) or entry.check != checksum(rows.theta[places]):
                raise self._another_run(first)
            missing[places] = False
        return rows[missing]

    def put(self, part: Rows, done: Simulations) -> None:
        """Take the answers to some rows of a block; a later one replaces an earlier one."""
        if not len(part.index):
            return
        first = self._block_of(part)
        size, check = len(self._open[first].index), 0
        if self.store is not None:
            check = checksum(part.theta)
            done = self.needed(done)
            if first >= self.n_summaries:
                done = without_summaries(done)
        entries = self._blocks[first]
        held = without_summaries(done) if first >= self.n_read else done
        entries.append(Entry(first, size, part.index, check, lambda: held))
        self._times[first] = self.seconds
        if self.store is not None:
            now = time.monotonic()
            flush = has_all(entries, size) or now - self._flushed >= _SECONDS
            self._flushed = now if flush else self._flushed
            data = pack(Kept(first, size, part.index, check, self.seconds, done))
            self._append(CHUNK, data, flush=flush)
            self._noted(self._n_records - 1, data)
            self.ending = None

    def _block_of(self, part: Rows) -> int:
        """The first simulation of the block that waits for some rows."""
        number = int(part.index[0])
        first = number
        if self._open.get(number) is part:  # the whole of it, as nearly always
            return first
        if number not in self._open:
            firsts = [-1, *self._open]  # in their order, for so they are begun
            first = firsts[bisect_right(firsts, number) - 1]
        if first < 0 or part.index[-1] > self._open[first].index[-1]:
            raise AbctreeError(
                "`executor` must give answers to the rows that it was asked for, but gave some to "
                f"simulations {number} to {part.index[-1]}: no block waits for these."
            )
        return first

    def _append(self, kind: str, data: bytes, *, flush: bool) -> None:
        if self.store is not None:
            for record in self._unwritten:
                self.store.append(*record, flush=False)
            self._n_records += len(self._unwritten) + 1
            self._unwritten.clear()
            self.store.append(kind, data, flush=flush)

    def take(self, rows: Rows) -> Simulations | None:
        """The answers to a block that was begun, bit for bit as if made in one go.

        None while some are missing; the whole is taken once.
        """
        first, size = int(rows.index[0]), len(rows.index)
        entries = self._blocks[first]
        if not entries or not has_all(entries, size):
            return None
        del self._open[first]
        self.n_simulations = max(self.n_simulations, first + size)
        del self._blocks[first]
        return self.needed(joined(entries, size))

    def pass_on(self, rows: Rows, done: Simulations) -> Simulations:
        """Put and take a block that came back in one go, where nothing is kept."""
        first = int(rows.index[0])
        self._times[first] = self.seconds
        self.n_simulations = max(self.n_simulations, first + len(rows.index))
        del self._open[first], self._blocks[first]
        return done

    def _another_run(self, first: int) -> StoreError:
        manifest = self.manifest or {}
        return StoreError(
            f"{self.store!r} holds another run: from simulation {first} on it was asked for other "
            "parameters than now. The prior, the constraint, a part or a version must have changed "
            f"since (it was begun with {_listed(manifest.get('versions'))}). Nothing was changed. "
            "Go on with what it was begun with, or start again in a new folder."
        )


def _unpacked(data: bytes) -> Simulations:
    return unpack(data).done


def _object(data: bytes) -> dict[str, Any]:
    read = json.loads(data)
    if not isinstance(read, dict):
        raise ValueError("a record is not the JSON that was written")  # noqa: TRY004 - of a file
    return read


def _check_unused(folder: Path) -> None:
    """No run with a simulation in a folder."""
    if not (folder / FILE).exists():
        return
    found = Ledger.read(folder)
    n = found.n_simulations + found.n_noted
    if found.holds_failures_only:
        raise ParameterError(
            f"`store` must be a new folder, but {folder} holds failures only: all {n} "
            f"simulations of its run failed. {START_ANEW}"
        )
    if n > 0:
        raise ParameterError(
            f"`store` must be a new folder, but {folder} holds a run of {n} simulations. "
            f"Go on with it by abctree.resume({str(folder)!r}, problem), or give another."
        )


def _listed(versions: Any) -> str:
    if not isinstance(versions, dict) or not versions:
        return "unknown versions"
    return ", ".join(f"{name} {version}" for name, version in versions.items())
