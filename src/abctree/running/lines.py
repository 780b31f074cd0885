"""`Lines`: JSON objects in a file to which lines are only added.

A line that a kill has cut off, or that is not what was written, never happened.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import BinaryIO, Self

from abctree.types import Named, NamedDict

#: Seconds between two times that the disk is flushed.
_SECONDS = 1.0


class Lines:
    """Those of a file, and more of them; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self.rows: list[NamedDict] = []  #: those that the file had
        self.path = path
        self._file: BinaryIO | None = None
        self._end = 0
        self._flushed = 0.0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if line.endswith(b"\n"):
                self._end += len(line)
                self.rows += _checked(line)

    def add(self, row: Named) -> None:
        """Put a row, which must not be empty, at the end: past the end of this process at once."""
        if self._file is None:
            self._file = self.path.open("ab")
            self._file.truncate(self._end)  # what a kill has left unfinished
        text = json.dumps(row)
        self._file.write(f'{text[:-1]}, "check": {zlib.crc32(text.encode())}}}\n'.encode())
        self._file.flush()
        if time.monotonic() - self._flushed >= _SECONDS:
            os.fsync(self._file.fileno())
            self._flushed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()


def _checked(line: bytes) -> list[NamedDict]:
    """The row of a line, or none."""
    try:
        row = json.loads(line)
        check = row.pop("check")
    except (ValueError, LookupError, TypeError, AttributeError):
        return []
    return [row] if check == zlib.crc32(json.dumps(row).encode()) else []
