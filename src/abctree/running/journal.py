"""`Journal`: the file of a run folder, to which records are appended.

A file is 16 bytes of header and records one after the other: kind, length, CRC32, bytes.  What a
crash or a power cut has left unfinished at its end never happened.  But a record that was flushed
to the disk has whole records before it only, or the file is damaged.  One process at a time writes
to a folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

from abctree.errors import StoreError, warn, wrong

FILE = "run.journal"
#: Version of the file.  One that is newer is refused.
SCHEMA = 1
#: What to do about a folder whose run cannot be gone on with.
START_ANEW = "To start anew, mend what failed and give another folder, or remove this one."
_MAGIC = b"abctree run\n"
_VERSION = struct.Struct("<I")
_BEGIN = len(_MAGIC) + _VERSION.size
#: Of each record: a mark, its kind, whether the disk was flushed after it, length and CRC32.
_HEAD = struct.Struct("<4s8s?QI")
_MARK = b"\xabrec"
#: Bytes of a record that are read at once.
_PIECE = 1 << 20
_LOCK = "run.lock"
#: The byte that Windows locks: far behind the text, which others must be able to read.
_BYTE = 1 << 20
#: Folders locked by this process: the system's locks do not keep a process from itself.
_held: set[tuple[int, Path]] = set()
#: Between looking and holding no other thread of this process may look.
_guard = threading.Lock()

Record = tuple[str, bytes]
Mode = Literal["new", "write", "read"]


class Journal:
    """Records in ``folder/run.journal``, to "read" them, to "write" more, or of a "new" run.

    Reading goes on while another process writes.  A new run's folder is made, and its file with the
    first record, in the place of the one that is there: look at it before.  A context manager:
    leaving it lets other processes in.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode) -> None:
        folder = Path(path) if mode == "new" else existing(path)
        self._folder = folder = folder.absolute()  # a simulator may change the directory
        self._file: int | None = None
        self._is_gone = False  # the file was removed
        self._places: list[_Place] = []
        self._end = 0
        with explained(folder, "cannot be read" if mode == "read" else "cannot be written to"):
            if folder.exists() and not folder.is_dir():
                raise wrong("store", "be a folder", f"the file {folder}")
            if mode == "new":
                folder.mkdir(parents=True, exist_ok=True)
            self._lock = None if mode == "read" else FolderLock(folder)
            if mode != "new":
                try:
                    with (folder / FILE).open("rb") as held:
                        self._places, self._end = _parsed(folder, held)
                except BaseException:
                    self.close()
                    raise

    def __repr__(self) -> str:
        return f"Journal({str(self._folder)!r})"

    def __str__(self) -> str:
        return str(self._folder / FILE)

    @property
    def folder(self) -> Path:
        """Where the file is."""
        return self._folder

    def records(self) -> Iterator[Record]:
        """What the file holds, in order; each record is read when it is asked for."""
        if self._places:
            with explained(self._folder), (self._folder / FILE).open("rb") as held:
                for place in self._places:
                    yield place.kind, self._read(held, place, 0, place.length)

    def record(self, number: int, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes begin:end of record `number`, from 0; also when the journal is closed."""
        place = self._places[number]
        begin, end, _ = slice(begin, end).indices(place.length)
        with explained(self._folder), (self._folder / FILE).open("rb") as held:
            return self._read(held, place, begin, max(begin, end))

    def _read(self, held: BinaryIO, place: _Place, begin: int, end: int) -> bytes:
        held.seek(place.at)
        if held.read(_HEAD.size) != place.head:  # another run has taken its place
            raise damaged(self, f"the record at byte {place.at} is another one than before")
        held.seek(begin, os.SEEK_CUR)
        found = held.read(end - begin)
        if len(found) != end - begin:
            raise damaged(self, f"the record at byte {place.at} ends before its end")
        return found

    def append(self, kind: str, data: bytes, *, flush: bool) -> None:
        """Put a record at the end: past the end of this process at once, `flush`: on the disk."""
        if self._lock is None:
            raise StoreError(f"The run store {self._folder} was opened for reading only.")
        packed = _packed(kind, data, flush=flush)
        with explained(self._folder, "could not be written to"):
            if self._end == 0:
                header = [_MAGIC, _VERSION.pack(SCHEMA)]
                write_whole(self._folder / FILE, [*header, packed])
                self._end = _BEGIN
            else:
                self._write(packed, flush=flush)
        self._places.append(_Place(kind, self._end, packed[: _HEAD.size], len(data)))
        self._end += len(packed)

    def _write(self, packed: bytes, *, flush: bool) -> None:
        if self._file is None:
            flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file = os.open(self._folder / FILE, flags)
            os.ftruncate(self._file, self._end)  # what a crash has left unfinished
        try:
            write_all(self._file, packed)
        except BaseException:
            os.ftruncate(self._file, self._end)
            raise
        if flush:
            os.fsync(self._file)
            if not self._is_gone and os.fstat(self._file).st_nlink == 0:
                self._is_gone = True
                warn(f"{self} has been removed: what this run simulates is no longer kept.")

    def close(self) -> None:
        """Close the file and let other processes in."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Memory:
    """A journal that ends with its process."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = list(records)

    def records(self) -> Iterable[Record]:
        """All that was appended, in order."""
        return self._records

    def append(self, kind: str, data: bytes, *, flush: bool) -> None:  # noqa: ARG002
        """Put a record at the end."""
        self._records.append((kind, data))

    def close(self) -> None:
        """There is nothing to close."""

    def __bytes__(self) -> bytes:
        packed = (_packed(kind, data, flush=True) for kind, data in self._records)
        return b"".join([_MAGIC, _VERSION.pack(SCHEMA), *packed])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Make it the journal of a folder, in the place of the one that is there."""
        with Journal(path, "new"), explained(Path(path), "could not be written to"):
            write_whole(Path(path) / FILE, [bytes(self)])

    @classmethod
    def of(cls, held: bytes, name: str = "state") -> Self:
        """The journal whose bytes these are."""
        if not isinstance(held, bytes | bytearray | memoryview):
            raise wrong(name, "be the bytes that `Session.state` gave", f"a {type(held).__name__}")
        file = io.BytesIO(held)
        places, _ = _parsed(Path(name), file)
        begin = _HEAD.size
        data = (held[p.at + begin : p.at + begin + p.length] for p in places)
        return cls(zip((place.kind for place in places), data, strict=True))


def existing(path: str | os.PathLike[str]) -> Path:
    """The folder, if it holds a file of this name."""
    folder = Path(path)
    if not (folder / FILE).is_file():
        raise StoreError(
            f"{folder} holds no run: there is no {FILE} in it. Give the folder that was the "
            "`store` of abctree.abc_tree, or start there."
        )
    return folder


def _packed(kind: str, data: bytes, *, flush: bool) -> bytes:
    name = kind.encode()
    return _HEAD.pack(_MARK, name, flush, len(data), zlib.crc32(data, zlib.crc32(name))) + data


class _Place(NamedTuple):
    """A record of a file."""

    kind: str
    at: int
    head: bytes
    length: int


def _parsed(folder: Path, held: BinaryIO) -> tuple[list[_Place], int]:
    """The records of a file, and where they end."""
    file = folder / FILE
    begin = held.read(_BEGIN)
    if not begin.startswith(_MAGIC) or len(begin) < _BEGIN:
        raise StoreError(f"{file} is not a run of abctree. Nothing was changed.")
    (version,) = _VERSION.unpack(begin[len(_MAGIC) :])
    if version > SCHEMA:
        raise StoreError(
            f"{file} was written by a newer abctree (schema {version}; this one reads up to "
            f"{SCHEMA}). Update abctree. Nothing was changed."
        )
    size = held.seek(0, os.SEEK_END)  # another process may be writing more
    places: list[_Place] = []
    end = _BEGIN
    while (found := _record(held, end, size)) is not None:
        place, _ = found
        places.append(place)
        end += _HEAD.size + place.length
    if _has_flushed(held, end + 1, size):
        raise damaged(file, f"the record at byte {end} is not what was written")
    return places, end


def _record(held: BinaryIO, at: int, size: int) -> tuple[_Place, bool] | None:
    """The record at a byte, and whether it was flushed; None if it is not whole."""
    held.seek(at)
    head = held.read(_HEAD.size)
    if at + _HEAD.size > size:
        return None
    mark, name, flush, length, crc = _HEAD.unpack(head)
    name = name.rstrip(b"\0")
    if mark != _MARK or at + _HEAD.size + length > size:
        return None
    found, left = zlib.crc32(name), length
    while left and (part := held.read(min(left, _PIECE))):
        found, left = zlib.crc32(part, found), left - len(part)
    if left or found != crc:
        return None
    return _Place(name.decode(errors="replace"), at, head, length), flush


def _has_flushed(held: BinaryIO, at: int, size: int) -> bool:
    """Whether a record that was flushed lies somewhere after a byte."""
    held.seek(at)
    rest = held.read(max(0, size - at))
    place = -1
    while (place := rest.find(_MARK, place + 1)) >= 0:
        found = _record(held, at + place, size)
        if found is not None and found[1]:
            return True
    return False


def write_whole(target: Path, parts: Iterable[bytes]) -> None:
    """Make a file, whole or not at all, whatever happens on the way."""
    draft = target.with_name(f"{target.name}.new")
    draft.unlink(missing_ok=True)  # by a process that died here
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
    try:
        write_all(file, b"".join(parts))
        os.fsync(file)
    finally:
        os.close(file)
    draft.replace(target)
    with contextlib.suppress(OSError):  # put the new name on the disk, where the system can
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes, where the system may take a part of them only."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def damaged(store: object, what: str) -> StoreError:
    """What to raise for a store that is not as it was written."""
    return StoreError(
        f"The run store {store} is damaged: {what}. Nothing was changed. Restore it from "
        "a copy, or start again in a new folder."
    )


@contextlib.contextmanager
def explained(folder: Path, what: str = "cannot be read") -> Iterator[None]:
    """What the system says, as one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The run store {folder} {what}: {error}. What was kept before is unchanged."
        ) from error


# One process at a time -------------------------------------------------------------------------


class FolderLock:
    """A folder is this process's until `release`, or until the process ends in whatever way.

    A record lock, not `flock`: workers forked from this process do not inherit it, so those that
    outlive it do not keep the folder locked.
    """

    def __init__(self, folder: Path) -> None:
        self._key = os.getpid(), folder.resolve()
        with _guard:
            self._take(folder)

    def _take(self, folder: Path) -> None:
        if self._key in _held:
            raise StoreError(_refusal(folder, f"this process (pid {os.getpid()})"))
        self._file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock(self._file, folder):
            holder = _holder(self._file)
            os.close(self._file)
            raise StoreError(_refusal(folder, holder))
        with contextlib.suppress(OSError):  # a full disk: others are told less
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, f"pid {os.getpid()} on {socket.gethostname()}\n".encode())
        _held.add(self._key)

    def release(self) -> None:
        """Let others in; the file stays, for removing it would let two in at once."""
        if self._key in _held:
            _held.discard(self._key)
            os.close(self._file)


def _refusal(folder: Path, holder: str) -> str:
    return (
        f"The run folder {folder} is in use by {holder}. Wait for it to end, or stop it, and "
        "resume then."
    )


def _holder(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, 200).decode(errors="replace").strip()
    return f"another process ({text})" if text else "another process"


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, folder: Path) -> bool:  # noqa: ARG001 - as below
        os.lseek(file, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: int, folder: Path) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:
            warn(
                f"The run folder {folder} cannot be locked ({error}). Take care that no second "
                "process writes to it.",
            )
        return True
