"""`SqliteStore`: a run in a folder, in one SQLite file.

Each block of answers is one packed blob with its CRC32, in a transaction that is on the disk before
the block counts.  A file is read through and found whole before anything is written to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from abctree.data import Simulations
from abctree.errors import AbctreeWarning, ParameterError, StoreError
from abctree.parts.stores.lock import FolderLock, check_not_held, is_held
from abctree.parts.stores.packing import PackedBlock, UnreadableBlockError, pack, unpack

#: "abct" in the header of the file: what tells it from other SQLite files.
APPLICATION_ID = 0x61626374
#: Version of the tables.  A new one needs a new number, and the old one a reader in `_READERS`.
SCHEMA = 1
_FILE = "run.sqlite"
_MAGIC = b"SQLite format 3\x00"
_TABLES = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE blocks (first INTEGER PRIMARY KEY, n INTEGER NOT NULL, crc INTEGER NOT NULL, "
    "data BLOB NOT NULL)",
)
_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"
_PUT_BLOCK = "INSERT INTO blocks VALUES (?, ?, ?, ?)"
#: Version of the tables -> how its blobs are read.
_READERS: dict[int, Callable[[bytes], PackedBlock]] = {1: unpack}

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
        found: _Contents | None,
        reader: sqlite3.Connection | None,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._reader = reader
        self._writer: sqlite3.Connection | None = None
        self._schema = SCHEMA if found is None else found.schema
        self._manifest = None if found is None else found.manifest
        self._ending = None if found is None else found.ending
        self._n = 0 if found is None else found.n
        self._seconds = 0.0 if found is None else found.seconds
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
        if (folder / _FILE).exists():
            _check_header(folder)
        with _explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(folder)
        try:
            _check_unused(folder)
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
        folder = _existing(path)
        check_not_held(folder)
        _check_header(folder)
        with _explained(folder):
            lock = FolderLock(folder)
        try:
            with _explained(folder):
                reader = _connect_to_check(folder)
            return cls(folder, lock, _Contents.of(folder, reader), reader)
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
        folder = _existing(path)
        if not is_held(folder):  # else to open and close the file would drop SQLite's own locks
            _check_header(folder)
        with _explained(folder):
            reader = _connect_to_read(folder)
        return cls(folder, None, _Contents.of(folder, reader), reader)

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
    def seconds(self) -> float:
        """Spent on the run, in all processes that worked on it."""
        return self._seconds + (0.0 if self._lock is None else time.monotonic() - self._began)

    def find(self, first: int) -> tuple[int, Simulations] | None:
        """The block that begins at a simulation: checksum of its parameters, and its answers."""
        source = self._writer or self._reader
        if source is None or first >= self._n:
            return None
        with _explained(self._folder):
            row = source.execute(
                "SELECT crc, data FROM blocks WHERE first = ?", (first,)
            ).fetchone()
        if row is None:
            return None
        block = _checked_block(self._folder, self._schema, row[0], row[1])
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
            with _explained(self._folder):
                _create(self._folder, manifest)
        elif manifest != self._manifest:
            self._to_write.append((_PUT_META, _meta("manifest", manifest)))
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
            ("DELETE FROM meta WHERE key = 'ending'", ()),
            (_PUT_BLOCK, (first, n, zlib.crc32(data), data)),
        )
        self._to_write.clear()
        self._ending = None
        self._n += n

    def conclude(self, ending: Mapping[str, Any]) -> None:
        """Note how the run ended."""
        self._commit(*self._to_write, (_PUT_META, _meta("ending", ending)))
        self._to_write.clear()
        self._ending = dict(ending)

    def _commit(self, *statements: Statement) -> None:
        with _explained(self._folder, "could not be written to"):
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
            self._writer = _connect(self._folder / _FILE, "mode=rw")
            _make_durable(self._folder, self._writer)
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


# Reading a file that may be anything ---------------------------------------------------------


class _Contents:
    """What a whole file holds, all of it looked at."""

    schema: int
    manifest: dict[str, Any]
    ending: dict[str, Any] | None
    n: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, folder: Path, reader: sqlite3.Connection) -> _Contents:
        """Read everything and check it; the connection is closed if it is not whole."""
        try:
            with _explained(folder):
                return cls._of(folder, reader)
        except BaseException:
            reader.close()
            raise

    @classmethod
    def _of(cls, folder: Path, reader: sqlite3.Connection) -> _Contents:
        found = cls()
        found.schema = _schema(folder, reader)
        if reader.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise _damaged(folder, "its pages do not fit together")
        meta = {key: (value, crc) for key, value, crc in reader.execute("SELECT * FROM meta")}
        if not {"manifest"} <= set(meta) <= {"manifest", "ending"}:
            raise _damaged(folder, "it has no manifest")
        read = {key: _read_meta(folder, key, *meta[key]) for key in meta}
        found.manifest, found.ending = read["manifest"], read.get("ending")
        for first, n, crc, data in reader.execute("SELECT * FROM blocks ORDER BY first"):
            block = _checked_block(folder, found.schema, crc, data)
            if not first == block.first == found.n or n != len(block.simulations.distance):
                raise _damaged(folder, f"simulation {found.n} is missing")
            found.n += n
            found.seconds = block.seconds
        found.seconds = (found.ending or {}).get("seconds", found.seconds)
        return found


def _schema(folder: Path, reader: sqlite3.Connection) -> int:
    versions = reader.execute("SELECT version FROM schema").fetchall()
    (version,) = reader.execute("PRAGMA user_version").fetchone()
    if versions != [(version,)] or version not in _READERS:
        raise _damaged(folder, "it does not say which version of abctree wrote it")
    return int(version)


def _read_meta(folder: Path, key: str, value: Any, crc: Any) -> dict[str, Any]:
    if not isinstance(value, bytes) or zlib.crc32(key.encode() + value) != crc:
        raise _damaged(folder, f"the checksum of its {key} is wrong")
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise _damaged(folder, f"its {key} is not JSON")
    return read


def _checked_block(folder: Path, schema: int, crc: Any, data: Any) -> PackedBlock:
    if not isinstance(data, bytes) or zlib.crc32(data) != crc:
        raise _damaged(folder, "the checksum of a block is wrong")
    try:
        return _READERS[schema](data)
    except UnreadableBlockError as error:
        raise _damaged(folder, f"a block cannot be read ({error})") from error


def _check_header(folder: Path) -> None:
    """Look at the first 100 bytes, before SQLite sees the file."""
    with _explained(folder), (folder / _FILE).open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise StoreError(
            f"{folder / _FILE} is not a run of abctree: it is no SQLite file. Nothing was changed."
        )
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise StoreError(
            f"{folder / _FILE} is not a run of abctree, but another SQLite file. "
            "Nothing was changed."
        )
    version = int.from_bytes(head[60:64], "big")
    if version > SCHEMA:
        raise StoreError(
            f"{folder / _FILE} was written by a newer abctree (schema {version}; this one reads up "
            f"to {SCHEMA}). Update abctree. Nothing was changed."
        )


def _existing(path: str | os.PathLike[str]) -> Path:
    folder = Path(path)
    if not (folder / _FILE).is_file():
        raise StoreError(
            f"{folder} holds no run: there is no {_FILE} in it. Give the folder that was the "
            "`store` of abctree.abc_tree, or start there."
        )
    return folder


def _check_unused(folder: Path) -> None:
    """No run with a simulation in it, and nothing that SQLite would take for part of one."""
    if (folder / _FILE).exists():
        with _explained(folder), contextlib.closing(_connect_to_check(folder)) as reader:
            n = _Contents.of(folder, reader).n
        if n > 0:
            raise ParameterError(
                f"`store` must be a new folder, but {folder} holds a run of {n} simulations. "
                f"Go on with it by abctree.resume({str(folder)!r}, problem), or give another."
            )
    elif any(side.exists() for side in _sides(folder)):
        raise ParameterError(
            f"`store` must be a new folder, but {folder} holds {_FILE}-wal or {_FILE}-journal, "
            f"part of a run whose {_FILE} is gone. Give another."
        )


def _sides(folder: Path) -> list[Path]:
    return [folder / f"{_FILE}{end}" for end in ("-wal", "-shm", "-journal")]


# Connections ---------------------------------------------------------------------------------


def _connect(file: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{options}",
        uri=True,
        isolation_level=None,  # transactions are spelled out
        timeout=60.0,  # a reader may hold a rollback journal up
        check_same_thread=False,
    )


def _connect_to_check(folder: Path) -> sqlite3.Connection:
    """A connection that changes nothing, for the process that holds the lock."""
    wal, _, journal = _sides(folder)
    if journal.exists():
        return _connect(folder / _FILE, "mode=rw")  # a transaction has to be rolled back first
    is_closed = not wal.exists() or wal.stat().st_size == 0
    # Nobody writes, so without a log the file is all there is, and SQLite need not make one.
    return _connect(folder / _FILE, "mode=ro&immutable=1" if is_closed else "mode=ro")


def _connect_to_read(folder: Path) -> sqlite3.Connection:
    """A connection that changes nothing, beside a process that may be writing."""
    reader = _connect(folder / _FILE, "mode=ro")
    try:
        reader.execute("SELECT 1 FROM meta").fetchone()
    except sqlite3.Error:
        # A log cannot be made beside a file on a read-only disk.
        reader.close()
        return _connect_to_check(folder)
    return reader


def _make_durable(folder: Path, db: sqlite3.Connection) -> None:
    """Write-ahead log, and every commit on the disk before it returns."""
    if _journal_mode(db) != "wal":
        warnings.warn(
            f"SQLite cannot keep a write-ahead log in {folder}, perhaps a network disk. The run is "
            "as safe with a rollback journal, but slower. A local folder is better.",
            AbctreeWarning,
            stacklevel=2,
        )
    db.execute("PRAGMA synchronous = FULL")


def _journal_mode(db: sqlite3.Connection) -> str:
    try:
        return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    except sqlite3.OperationalError:
        return str(db.execute("PRAGMA journal_mode = DELETE").fetchone()[0])


def _create(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Make the file with its manifest, whole or not at all, whatever happens on the way."""
    unfinished = folder / f"{_FILE}.new"
    for left in (unfinished, unfinished.with_name(f"{_FILE}.new-journal")):
        left.unlink(missing_ok=True)  # by a process that died here
    db = _connect(unfinished, "mode=rwc")
    try:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            db.execute(table)
        db.execute("INSERT INTO schema VALUES (?)", (SCHEMA,))
        db.execute(_PUT_META, _meta("manifest", manifest))
        db.execute("COMMIT")
    finally:
        db.close()
    for side in _sides(folder):  # of a run without simulations that this one replaces
        side.unlink(missing_ok=True)
    unfinished.replace(folder / _FILE)
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    """Put the new name on the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _meta(key: str, value: Mapping[str, Any]) -> tuple[str, bytes, int]:
    text = json.dumps(value).encode()
    return key, text, zlib.crc32(key.encode() + text)


# Errors --------------------------------------------------------------------------------------


def _damaged(folder: Path, what: str) -> StoreError:
    return StoreError(
        f"The run store {folder / _FILE} is damaged: {what}. Nothing was changed. Restore it from "
        "a copy, or start again in a new folder."
    )


@contextlib.contextmanager
def _explained(folder: Path, what: str = "cannot be read") -> Iterator[None]:
    """What SQLite and the system say, as one sentence."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, TypeError) as error:
        raise StoreError(
            f"The run store {folder} {what}: {error}. What was kept before is unchanged."
        ) from error
