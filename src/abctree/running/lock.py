"""`FolderLock`: one process writes to a run folder at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

from abctree.errors import StoreError, warn

_NAME = "run.lock"
#: The byte that Windows locks: far behind the text, which others must be able to read.
_BYTE = 1 << 20
#: Folders locked by this process: the system's locks do not keep a process from itself.
_held: set[tuple[int, Path]] = set()
#: Between looking and holding no other thread of this process may look.
_guard = threading.Lock()


class FolderLock:
    """Held from its making until `release`, or until the process ends in whatever way.

    A record lock, not `flock`: workers forked from this process do not inherit it, so those that
    outlive it do not keep the folder locked.

    Parameters
    ----------
    folder : Path
        An existing folder.

    Raises
    ------
    StoreError
        If another process, or another run of this one, holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._key = _key(folder)
        with _guard:
            self._take(folder)

    def _take(self, folder: Path) -> None:
        if self._key in _held:
            raise StoreError(_refusal(folder, f"this process (pid {os.getpid()})"))
        self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
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


def _key(folder: Path) -> tuple[int, Path]:
    return os.getpid(), folder.resolve()


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
