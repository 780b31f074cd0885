"""`SqliteStore`: a run in a folder, in one SQLite file.

Each block of answers is one packed blob with its CRC32, in a transaction that is on the disk before
the block counts.  So are the parts of a block that is not whole yet, which go when it is.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from abctree.data import Simulations
from abctree.errors import ParameterError, StoreError
from abctree.running.stores import sqlite_file as files
from abctree.running.stores.lock import FolderLock, check_not_held, is_held
from abctree.running.stores.packing import PackedBlock, pack, spans
from abctree.types import IntArray

Statement = tuple[str, tuple[Any, ...]]


class SqliteStore:
    """What a run cannot compute again, in ``folder/run.sqlite``.

    Made by `new`, `open` or `read`.  A context manager: leaving it closes the file and lets other
    processes in.
    """

    def __init__(
        self,
        folder: Path,
        lock: FolderLock | None,
        found: files.Contents | None,
        reader: sqlite3.Connection | None,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._reader = reader
        self._writer: sqlite3.Connection | None = None
        self._schema = files.SCHEMA if found is None else found.schema
        self._manifest = None if found is None else found.manifest
        self._ending = None if found is None else found.ending
        self._holds_failures_only = found is not None and 0 < found.n == found.n_failed
        self._n = 0 if found is None else found.n
        self._seconds = 0.0 if found is None else found.seconds
        self._parts: list[PackedBlock] = [] if found is None else found.parts
        self._began = time.monotonic()
        self._to_write: list[Statement] = []  # goes with the next block

    @classmethod
    def new(cls, path: str | os.PathLike[str]) -> SqliteStore:
        """A store for a new run; the folder is made, the file by `begin`.

        Raises
        ------
        ParameterError
            If the folder holds a run, or something else is in the way.
        StoreError
            If another process uses it.
        """
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise ParameterError(f"`store` must be a folder, but got the file {folder}.")
        check_not_held(folder)
        if (folder / files.FILE).exists():
            files.check_header(folder)
        with files.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(folder)
        try:
            files.check_unused(folder)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, None, None)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SqliteStore:
        """The store of an existing run, to go on with it.

        Raises
        ------
        StoreError
            If there is none, it is damaged, foreign or newer, or another process uses it.
        """
        folder = files.existing(path)
        check_not_held(folder)
        files.check_header(folder)
        with files.explained(folder):
            lock = FolderLock(folder)
        try:
            with files.explained(folder):
                reader = files.connect_to_check(folder)
            return cls(folder, lock, files.Contents.of(folder, reader), reader)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SqliteStore:
        """The store of an existing run, to look at it; also while another process goes on with it.

        Raises
        ------
        StoreError
            If there is none, or it is damaged, foreign or newer.
        """
        folder = files.existing(path)
        if not is_held(folder):  # else to open and close the file would drop SQLite's own locks
            files.check_header(folder)
        with files.explained(folder):
            reader = files.connect_to_read(folder)
        return cls(folder, None, files.Contents.of(folder, reader), reader)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self._folder)!r})"

    # What is kept ---------------------------------------------------------------------------

    @property
    def manifest(self) -> Mapping[str, Any] | None:
        """What the run is; None before `begin`."""
        return self._manifest

    @property
    def ending(self) -> Mapping[str, Any] | None:
        """How the run ended; None while it is unfinished."""
        return self._ending

    @property
    def n_simulations(self) -> int:
        """Simulations that are kept: number 0 to this one, excluded."""
        return self._n

    @property
    def holds_failures_only(self) -> bool:
        """Whether there was something in the file when it was opened, and all of it had failed."""
        return self._holds_failures_only

    @property
    def seconds(self) -> float:
        """Spent on the run, in all processes that worked on it."""
        return self._seconds + (0.0 if self._lock is None else time.monotonic() - self._began)

    def find(self, first: int) -> tuple[int, Simulations] | None:
        """The block that begins at a simulation: checksum of its parameters, and its answers."""
        source = self._writer or self._reader
        if source is None or first >= self._n:
            return None
        with files.explained(self._folder):
            row = source.execute(
                "SELECT crc, data FROM blocks WHERE first = ?", (first,)
            ).fetchone()
        if row is None:
            return None
        block = files.checked_block(self._folder, self._schema, row[0], row[1])
        return block.check, block.simulations

    # Writing --------------------------------------------------------------------------------

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Take the manifest: of a new run, or with changes, which are written with the next block.

        Raises
        ------
        StoreError
            If the file cannot be made.
        """
        if self._manifest is None:
            with files.explained(self._folder):
                files.create(self._folder, manifest)
        elif manifest != self._manifest:
            self._to_write.append((files.PUT_META, files.meta_row("manifest", manifest)))
        self._manifest = dict(manifest)

    def append(self, first: int, check: int, simulations: Simulations) -> None:
        """Keep the answers of the next simulations; on the disk when this returns.

        Parameters
        ----------
        first : int
            Number of the first one: `n_simulations`.
        check : int
            Checksum of their parameters.
        simulations : Simulations

        Raises
        ------
        StoreError
            If they cannot be written, or are not the next ones.  What was kept before stays.
        """
        if first != self._n:
            raise StoreError(
                f"The answers of the executor must come in order: those of simulation {first} came "
                f"when {self._n} was next."
            )
        data = pack(PackedBlock(first, check, self.seconds, simulations))
        n = len(simulations.distance)
        self._commit(
            *self._to_write,
            *self._without_parts(first),
            ("DELETE FROM meta WHERE key = 'ending'", ()),
            (files.PUT_BLOCK, (first, n, zlib.crc32(data), data)),
        )
        self._to_write.clear()
        self._ending = None
        self._n += n
        self._parts = [part for part in self._parts if part.first > first]

    def _without_parts(self, first: int) -> list[Statement]:
        """What drops the parts of a block that is whole, if there are any."""
        if all(part.first > first for part in self._parts):
            return []
        return [("DELETE FROM parts WHERE first <= ?", (first,))]

    # Parts of blocks that are not whole yet -----------------------------------------------------

    @property
    def n_noted(self) -> int:
        """Simulations that are kept although their block is not whole yet."""
        return sum(
            len(np.unique(np.concatenate([p.rows for p in self._parts if p.first == first])))
            for first in {part.first for part in self._parts}
        )

    def note(self, first: int, check: int, rows: IntArray, simulations: Simulations) -> None:
        """Keep the answers to some rows of a block; on the disk when this returns.

        Parameters
        ----------
        first : int
            Number of the first simulation of the block.
        check : int
            Checksum of the parameters of the whole block.
        rows : (k,) int
            Rows of the block.
        simulations : Simulations
            The answers to these.

        Raises
        ------
        StoreError
            If they cannot be written.  What was kept before stays.
        """
        part = PackedBlock(first, check, self.seconds, simulations, spans(rows))
        data = pack(part)
        self._commit(
            *self._to_write,
            (files.PARTS_TABLE, ()),
            ("DELETE FROM meta WHERE key = 'ending'", ()),
            (files.PUT_PART, (first, zlib.crc32(data), data)),
        )
        self._to_write.clear()
        self._ending = None
        self._parts.append(part)

    def noted(self, first: int) -> Sequence[tuple[int, IntArray, Simulations]]:
        """What `note` was given of the block that begins at a simulation."""
        return [(p.check, p.rows, p.simulations) for p in self._parts if p.first == first]

    def drop_noted(self) -> None:
        """Forget all that `note` was given."""
        if self._parts:
            self._commit(("DELETE FROM parts", ()))
            self._parts = []

    def conclude(self, ending: Mapping[str, Any]) -> None:
        """Note how the run ended."""
        self._commit(*self._to_write, (files.PUT_META, files.meta_row("ending", ending)))
        self._to_write.clear()
        self._ending = dict(ending)

    def _commit(self, *statements: Statement) -> None:
        with files.explained(self._folder, "could not be written to"):
            db = self._writable()
            try:
                db.execute("BEGIN IMMEDIATE")
                for statement in statements:
                    db.execute(*statement)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _writable(self) -> sqlite3.Connection:
        if self._writer is None:
            if self._lock is None:
                raise StoreError(f"The run store {self._folder} was opened for reading only.")
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            self._writer = files.connect(self._folder / files.FILE, "mode=rw")
            files.make_durable(self._folder, self._writer)
        return self._writer

    # Ending ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file and let other processes in."""
        try:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
        finally:
            self._reader = self._writer = None
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
