"""The file of a `SqliteStore`: made whole, read with suspicion.

A file is read through and found whole before anything is written to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from abctree.errors import ParameterError, StoreError, warn
from abctree.running.stores.packing import PackedBlock, UnreadableBlockError, unpack

#: "abct" in the header of the file: what tells it from other SQLite files.
APPLICATION_ID = 0x61626374
#: Version of the tables.  A new one needs a new number, and the old one a reader in `_READERS`.
SCHEMA = 1
FILE = "run.sqlite"
#: What to do about a folder whose run cannot be gone on with.
START_ANEW = "To start anew, mend what failed and give another folder, or remove this one."
_MAGIC = b"SQLite format 3\x00"
_TABLES = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE blocks (first INTEGER PRIMARY KEY, n INTEGER NOT NULL, crc INTEGER NOT NULL, "
    "data BLOB NOT NULL)",
)
#: Answers whose block is not whole yet.  Made when it is first needed: a file without it is whole,
#: and one with it can be read by versions that do not know it.
PARTS_TABLE = (
    "CREATE TABLE IF NOT EXISTS parts (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, "
    "crc INTEGER NOT NULL, data BLOB NOT NULL)"
)
PUT_PART = "INSERT INTO parts (first, crc, data) VALUES (?, ?, ?)"
PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"
PUT_BLOCK = "INSERT INTO blocks VALUES (?, ?, ?, ?)"
#: Version of the tables -> how its blobs are read.
_READERS: dict[int, Callable[[bytes], PackedBlock]] = {1: unpack}


# Reading a file that may be anything ---------------------------------------------------------


class Contents:
    """What a whole file holds, all of it looked at."""

    schema: int
    manifest: dict[str, Any]
    ending: dict[str, Any] | None
    n: int = 0
    n_failed: int = 0  #: of these, and of those in parts
    seconds: float = 0.0
    parts: list[PackedBlock]  #: of blocks that are not whole yet, as they were written

    @classmethod
    def of(cls, folder: Path, reader: sqlite3.Connection) -> Contents:
        """Read everything and check it; the connection is closed if it is not whole."""
        try:
            with explained(folder):
                return cls._of(folder, reader)
        except BaseException:
            reader.close()
            raise

    @classmethod
    def _of(cls, folder: Path, reader: sqlite3.Connection) -> Contents:
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
            block = checked_block(folder, found.schema, crc, data)
            if not first == block.first == found.n or n != len(block.simulations.distance):
                raise _damaged(folder, f"simulation {found.n} is missing")
            found.n += n
            found.n_failed += len(block.simulations.failures)
            found.seconds = block.seconds
        found.parts = _parts(folder, found.schema, found.n, reader)
        found.n_failed += sum(len(part.simulations.failures) for part in found.parts)
        found.seconds = max([found.seconds, *(part.seconds for part in found.parts)])
        found.seconds = (found.ending or {}).get("seconds", found.seconds)
        return found


def _parts(folder: Path, schema: int, n: int, reader: sqlite3.Connection) -> list[PackedBlock]:
    """Parts of the blocks after simulation n; a version that knows of none leaves older ones."""
    known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'parts'"
    if reader.execute(known).fetchone() is None:
        return []
    parts = []
    for first, crc, data in reader.execute("SELECT first, crc, data FROM parts ORDER BY id"):
        part = checked_block(folder, schema, crc, data)
        if first != part.first or not part.spans:
            raise _damaged(folder, "a part of a block is not where it should be")
        if first >= n:
            parts.append(part)
    return parts


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


def checked_block(folder: Path, schema: int, crc: Any, data: Any) -> PackedBlock:
    """A block from its checksum and its bytes.

    Raises
    ------
    StoreError
        If they do not fit together.
    """
    if not isinstance(data, bytes) or zlib.crc32(data) != crc:
        raise _damaged(folder, "the checksum of a block is wrong")
    try:
        return _READERS[schema](data)
    except UnreadableBlockError as error:
        raise _damaged(folder, f"a block cannot be read ({error})") from error


def check_header(folder: Path) -> None:
    """Look at the first 100 bytes, before SQLite sees the file."""
    with explained(folder), (folder / FILE).open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise StoreError(
            f"{folder / FILE} is not a run of abctree: it is no SQLite file. Nothing was changed."
        )
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise StoreError(
            f"{folder / FILE} is not a run of abctree, but another SQLite file. "
            "Nothing was changed."
        )
    version = int.from_bytes(head[60:64], "big")
    if version > SCHEMA:
        raise StoreError(
            f"{folder / FILE} was written by a newer abctree (schema {version}; this one reads up "
            f"to {SCHEMA}). Update abctree. Nothing was changed."
        )


def existing(path: str | os.PathLike[str]) -> Path:
    """The folder, if it holds a file of this kind.

    Raises
    ------
    StoreError
        If it does not.
    """
    folder = Path(path)
    if not (folder / FILE).is_file():
        raise StoreError(
            f"{folder} holds no run: there is no {FILE} in it. Give the folder that was the "
            "`store` of abctree.abc_tree, or start there."
        )
    return folder


def check_unused(folder: Path) -> None:
    """No run with a simulation in it, and nothing that SQLite would take for part of one."""
    if (folder / FILE).exists():
        with explained(folder), contextlib.closing(connect_to_check(folder)) as reader:
            found = Contents.of(folder, reader)
            n = found.n + sum(len(part.simulations.distance) for part in found.parts)
        if 0 < n == found.n_failed:
            raise ParameterError(
                f"`store` must be a new folder, but {folder} holds failures only: all {n} "
                f"simulations of its run failed. {START_ANEW}"
            )
        if n > 0:
            raise ParameterError(
                f"`store` must be a new folder, but {folder} holds a run of {n} simulations. "
                f"Go on with it by abctree.resume({str(folder)!r}, problem), or give another."
            )
    elif any(side.exists() for side in _sides(folder)):
        raise ParameterError(
            f"`store` must be a new folder, but {folder} holds {FILE}-wal or {FILE}-journal, "
            f"part of a run whose {FILE} is gone. Give another."
        )


def _sides(folder: Path) -> list[Path]:
    return [folder / f"{FILE}{end}" for end in ("-wal", "-shm", "-journal")]


# Connections ---------------------------------------------------------------------------------


def connect(file: Path, options: str) -> sqlite3.Connection:
    """A connection to a file, which knows nothing of transactions of its own."""
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{options}",
        uri=True,
        isolation_level=None,  # transactions are spelled out
        timeout=60.0,  # a reader may hold a rollback journal up
        check_same_thread=False,
    )


def connect_to_check(folder: Path) -> sqlite3.Connection:
    """A connection that changes nothing, for the process that holds the lock."""
    wal, _, journal = _sides(folder)
    if journal.exists():
        return connect(folder / FILE, "mode=rw")  # a transaction has to be rolled back first
    is_closed = not wal.exists() or wal.stat().st_size == 0
    # Nobody writes, so without a log the file is all there is, and SQLite need not make one.
    return connect(folder / FILE, "mode=ro&immutable=1" if is_closed else "mode=ro")


def connect_to_read(folder: Path) -> sqlite3.Connection:
    """A connection that changes nothing, beside a process that may be writing."""
    reader = connect(folder / FILE, "mode=ro")
    try:
        reader.execute("SELECT 1 FROM meta").fetchone()
    except sqlite3.Error:
        # A log cannot be made beside a file on a read-only disk.
        reader.close()
        return connect_to_check(folder)
    return reader


def make_durable(folder: Path, db: sqlite3.Connection) -> None:
    """Write-ahead log, and every commit on the disk before it returns."""
    if _journal_mode(db) != "wal":
        warn(
            f"SQLite cannot keep a write-ahead log in {folder}, perhaps a network disk. The run is "
            "as safe with a rollback journal, but slower. A local folder is better.",
        )
    db.execute("PRAGMA synchronous = FULL")


def _journal_mode(db: sqlite3.Connection) -> str:
    try:
        return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    except sqlite3.OperationalError:
        return str(db.execute("PRAGMA journal_mode = DELETE").fetchone()[0])


def create(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Make the file with its manifest, whole or not at all, whatever happens on the way."""
    unfinished = folder / f"{FILE}.new"
    for left in (unfinished, unfinished.with_name(f"{FILE}.new-journal")):
        left.unlink(missing_ok=True)  # by a process that died here
    db = connect(unfinished, "mode=rwc")
    try:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            db.execute(table)
        db.execute("INSERT INTO schema VALUES (?)", (SCHEMA,))
        db.execute(PUT_META, meta_row("manifest", manifest))
        db.execute("COMMIT")
    finally:
        db.close()
    for side in _sides(folder):  # of a run without simulations that this one replaces
        side.unlink(missing_ok=True)
    unfinished.replace(folder / FILE)
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    """Put the new name on the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def meta_row(key: str, value: Mapping[str, Any]) -> tuple[str, bytes, int]:
    """What `PUT_META` takes: a key, JSON, and a checksum of both."""
    text = json.dumps(value).encode()
    return key, text, zlib.crc32(key.encode() + text)


# Errors --------------------------------------------------------------------------------------


def _damaged(folder: Path, what: str) -> StoreError:
    return StoreError(
        f"The run store {folder / FILE} is damaged: {what}. Nothing was changed. Restore it from "
        "a copy, or start again in a new folder."
    )


@contextlib.contextmanager
def explained(folder: Path, what: str = "cannot be read") -> Iterator[None]:
    """What SQLite and the system say, as one sentence."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, TypeError) as error:
        raise StoreError(
            f"The run store {folder} {what}: {error}. What was kept before is unchanged."
        ) from error
