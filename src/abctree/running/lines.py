"""`Lines`: JSON objects in a file to which lines are only added.

A line that a kill has cut off, or that is not what was written, never happened.  Nothing is taken
away from a file: two processes may add to one.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Self

from abctree.running.journal import write_all
from abctree.types import Named, NamedDict

#: Seconds between two times that the disk is flushed.
_SECONDS = 1.0


class Lines:
    """Those of a file, and more of them; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._flushed = 0.0
        held = path.read_bytes() if path.exists() else b""
        self._is_cut = bool(held) and not held.endswith(b"\n")  # in the middle of a line
        lines = held.splitlines()[: -1 if self._is_cut else None]
        #: Those that the file had.
        self.rows = [row for line in lines for row in _checked(line)]
        #: Whether it holds something else.
        self.is_foreign = not self.rows and not b"{".startswith(held[:1])

    def add(self, row: Named) -> None:
        """Put a row, which must not be empty, at the end: past the end of this process at once."""
        text = json.dumps(row)
        line = f'{text[:-1]}, "check": {zlib.crc32(text.encode())}}}\n'.encode()
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
        before, self._is_cut = b"\n" if self._is_cut else b"", True
        write_all(self._file.fileno(), before + line)
        self._is_cut = False
        if time.monotonic() - self._flushed >= _SECONDS:
            os.fsync(self._file.fileno())
            self._flushed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            with suppress(OSError), self._file:  # what is lost is made again
                os.fsync(self._file.fileno())


def _checked(line: bytes) -> list[NamedDict]:
    """The row of a line, or none."""
    try:
        row = json.loads(line)
        check = row.pop("check")
    except (ValueError, LookupError, TypeError, AttributeError):
        return []
    return [row] if check == zlib.crc32(json.dumps(row).encode()) else []
