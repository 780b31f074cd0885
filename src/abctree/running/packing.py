"""Answers to some rows of a block, as bytes and back: arrays and JSON, nothing that could run.

Layout: the length of the header as a 32-bit integer, the header in JSON, and the arrays one after
the other as little-endian float64, compressed if most of them say nothing.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from abctree.data import Failure, OtherStream, Simulations
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


def unpack(data: bytes) -> Kept:
    """The answers that `pack` made these bytes of."""
    try:
        return _unpack(data)
    except _UNREADABLE as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from error


def _unpack(data: bytes) -> Kept:
    begin = _LENGTH.size
    (length,) = _LENGTH.unpack(data[:begin])
    header = json.loads(data[begin : begin + length])
    first, size = int(header["first"]), int(header["size"])
    ends = [(int(a), int(b)) for a, b in header["spans"]]
    if not ends or any(not first <= a < b <= first + size for a, b in ends):
        raise UnreadableError("the numbers are not those of the block")
    index = np.concatenate([np.arange(a, b) for a, b in ends])
    shape = tuple(int(m) for m in header["shape"])
    body, n = data[begin + length :], len(index)
    n_bytes = (n + n * math.prod(shape)) * _FLOAT.itemsize
    if min(shape, default=0) < 0:
        raise UnreadableError("the arrays have a negative size")
    if header.get("compressed"):
        body = _decompressed(body, n_bytes)
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
