"""Answers to some rows of a block, as bytes and back: arrays and JSON, nothing that could run.

Layout: the length of the header as a 32-bit integer, the header in JSON, and the arrays one after
the other as little-endian float64, compressed if most of them say nothing.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from abctree.data import Failure, OtherStream, Simulations
from abctree.protocols import HasRecords
from abctree.types import FloatArray, IntArray

_LENGTH = struct.Struct("<I")
_FLOAT = np.dtype("<f8")

_UNREADABLE = (
    struct.error, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError,
    OverflowError, MemoryError,
)  # fmt: skip


class UnreadableError(ValueError):
    """The bytes are no answers."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Answers to some rows of a block of simulations."""

    first: int  #: number of the first simulation of the block
    size: int  #: simulations in the block
    index: IntArray  #: (k,) numbers of these
    check: int  #: CRC32 of their parameters, see `checksum`
    seconds: float  #: spent on the run when they were kept
    done: Simulations  #: of these


def checksum(theta: FloatArray) -> int:
    """CRC32 of parameters (n, p), of their bits and of their shape."""
    rows = np.ascontiguousarray(theta, dtype=_FLOAT)
    return zlib.crc32(rows.tobytes(), zlib.crc32(repr(rows.shape).encode()))


def pack(kept: Kept) -> bytes:
    """The answers as bytes; every float keeps its bits."""
    done = kept.done
    arrays = [np.ascontiguousarray(array, dtype=_FLOAT) for array in (done.distance, done.summary)]
    header: dict[str, Any] = {
        "first": kept.first,
        "size": kept.size,
        "spans": spans(kept.index),
        "check": kept.check,
        "seconds": kept.seconds,
        "shape": done.summary.shape[1:],
    }
    if done.failures:
        header["failures"] = [asdict(failure) for failure in done.failures]
    if done.other_streams:
        header["other_streams"] = done.other_streams
    body = b"".join(array.tobytes() for array in arrays)
    if 2 * np.count_nonzero(np.isinf(done.distance)) > len(done):
        header["compressed"] = True
        body = zlib.compress(body, 1)
    text = json.dumps(header).encode()
    return b"".join([_LENGTH.pack(len(text)), text, body])


def spans(index: IntArray) -> list[tuple[int, int]]:
    """Numbers (k,) in their order, as from one to another, excluded, and so on."""
    ends = np.flatnonzero(np.diff(index) != 1)
    first, last = index[[0, *(ends + 1)]], index[[*ends, -1]]
    return list(zip(first.tolist(), (last + 1).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the summaries of some rows are in their bytes."""

    spans: list[tuple[int, int]]  #: their numbers, in their order
    n: int  #: rows
    m: int  #: numbers of a summary
    begin: int  #: byte at which the arrays begin
    end_of_distances: int  #: byte up to which distances can be read alone
    compressed: bool

    @classmethod
    def of(cls, data: bytes) -> Layout:
        """That of what `pack` made."""
        header, begin = _header(data)
        ends = [(int(a), int(b)) for a, b in header["spans"]]
        n, m = sum(b - a for a, b in ends), math.prod(header["shape"])
        compressed = bool(header.get("compressed"))
        end = len(data) if compressed else begin + n * _FLOAT.itemsize
        return cls(ends, n, m, begin, end, compressed)

    def read(self, part: Callable[[int, int | None], bytes], first: int, last: int) -> FloatArray:
        """Summaries (last - first, m) of some rows; `part` gives the bytes from one to another."""
        begin, end = (_FLOAT.itemsize * (self.n + row * self.m) for row in (first, last))
        if self.compressed:
            whole = _FLOAT.itemsize * self.n * (1 + self.m)
            found = _decompressed(part(self.begin, None), whole)[begin:end]
        else:
            found = part(self.begin + begin, self.begin + end)
        return np.frombuffer(found, dtype=_FLOAT).reshape(last - first, self.m)


class StoredSummaries:
    """Summaries of a run that stay in its store, read when they are asked for."""

    def __init__(self, store: HasRecords) -> None:
        self._store = store
        self._parts: list[tuple[int, Layout]] = []  # later ones replace earlier ones

    def add(self, number: int, data: bytes) -> Layout:
        """Note where those of a record are."""
        layout = Layout.of(data)
        self._parts.append((number, layout))
        return layout

    def clear(self) -> None:
        """Forget all."""
        self._parts.clear()

    def __call__(self, rows: IntArray) -> FloatArray:
        """Read the summaries (n, m) of simulations (n,), one record after the other."""
        order = None if (np.diff(rows) >= 0).all() else np.argsort(rows, kind="stable")
        ordered = rows if order is None else rows[order]
        found = np.full((len(rows), self._parts[-1][1].m), np.nan)
        for number, layout in self._parts:
            before = 0
            for a, b in layout.spans:
                i, j = np.searchsorted(ordered, [a, b])
                if i < j:
                    place = ordered[i:j] + (before - a)
                    first, last = int(place[0]), int(place[-1]) + 1
                    part = layout.read(partial(self._store.record, number), first, last)
                    found[i:j] = part[place - first]
                before += b - a
        if order is not None:
            found[order] = found.copy()
        return found


def unpack(data: bytes, *, summaries: bool = True) -> Kept:
    """The answers that `pack` made these bytes of, or of those up to the end of the distances."""
    try:
        return _unpack(data, summaries)
    except _UNREADABLE as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from error


def _unpack(data: bytes, summaries: bool) -> Kept:  # noqa: FBT001
    header, begin = _header(data)
    first, size = int(header["first"]), int(header["size"])
    ends = [(int(a), int(b)) for a, b in header["spans"]]
    if not ends or any(not first <= a < b <= first + size for a, b in ends):
        raise UnreadableError("the numbers are not those of the block")
    index = np.concatenate([np.arange(a, b) for a, b in ends])
    shape = tuple(int(m) for m in header["shape"])
    body, n = data[begin:], len(index)
    n_bytes = (n + n * math.prod(shape)) * _FLOAT.itemsize
    if min(shape, default=0) < 0:
        raise UnreadableError("the arrays have a negative size")
    if header.get("compressed"):
        body = _decompressed(body, n_bytes)
    if not summaries:
        shape, n_bytes = (0,), n * _FLOAT.itemsize
        body = body[:n_bytes]
    if len(body) != n_bytes:
        raise UnreadableError("the arrays do not have the size that the header says")
    flat = np.frombuffer(body, dtype=_FLOAT).astype(np.float64)  # a copy: it can be written to
    done = Simulations(
        flat[:n],
        flat[n:].reshape(n, *shape),
        tuple(map(_failure, header.get("failures", ()))),
        other_streams=tuple(map(_other_stream, header.get("other_streams", ()))),
    )
    return Kept(first, size, index, int(header["check"]), float(header["seconds"]), done)


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """What is said of the arrays, and where they begin."""
    begin = _LENGTH.size
    (length,) = _LENGTH.unpack(data[:begin])
    return json.loads(data[begin : begin + length]), begin + length


def _decompressed(data: bytes, n_bytes: int) -> bytes:
    """As many bytes as the header says, whatever the data would grow to."""
    stream = zlib.decompressobj()
    body = stream.decompress(data, n_bytes + 1)
    if not stream.eof or stream.unused_data:
        raise UnreadableError("the arrays do not end where they should")
    return body


def _other_stream(said: list[Any]) -> OtherStream:
    name, state, process = said
    return OtherStream(str(name), str(state), int(process))


def _failure(said: dict[str, Any]) -> Failure:
    # A field that this version does not know is left out, one that is missing has its default.
    known = {f.name: said[f.name] for f in fields(Failure) if f.name in said}
    return Failure(**{**known, "theta": tuple(known["theta"])})
