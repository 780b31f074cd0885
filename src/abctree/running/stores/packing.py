"""A block of answers, or a part of one, as bytes and back: arrays and JSON, nothing that could run.

Layout: eight bytes of magic, the length of the header as a 32-bit integer, the header in JSON, and
the arrays one after the other as little-endian float64, compressed if most of them say nothing.
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

_MAGIC = b"abctree\x01"
_LENGTH = struct.Struct("<I")
_ARRAYS = ("distance", "summary")
_FLOAT = np.dtype("<f8")


_UNREADABLE = (
    struct.error, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError,
    OverflowError, MemoryError,
)  # fmt: skip


class UnreadableBlockError(ValueError):
    """The bytes are not a block."""


@dataclass(frozen=True, eq=False)
class PackedBlock:
    """What one block holds, or a part of one that is not whole yet."""

    first: int  #: number of its first simulation
    check: int  #: CRC32 of its parameters, see `checksum`
    seconds: float  #: spent on the run when it was written
    simulations: Simulations
    #: Of a part, where its rows are in the block: from one to another, excluded, and so on.
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> IntArray:
        """Where the rows of a part are in the block (k,)."""
        return np.concatenate([np.arange(a, b) for a, b in self.spans])


def spans(rows: IntArray) -> tuple[tuple[int, int], ...]:
    """Row numbers (k,) as spans, in their order."""
    ends = np.flatnonzero(np.diff(rows) != 1)
    first, last = rows[[0, *(ends + 1)]], rows[[*ends, -1]]
    return tuple(zip(first.tolist(), (last + 1).tolist(), strict=True))


def checksum(theta: FloatArray) -> int:
    """CRC32 of parameters (n, p), of their bits and of their shape."""
    rows = np.ascontiguousarray(theta, dtype=_FLOAT)
    return zlib.crc32(rows.tobytes(), zlib.crc32(repr(rows.shape).encode()))


def pack(block: PackedBlock) -> bytes:
    """The block as bytes; every float keeps its bits."""
    simulations = block.simulations
    arrays = [np.ascontiguousarray(getattr(simulations, name), dtype=_FLOAT) for name in _ARRAYS]
    header = {
        "first": block.first,
        "check": block.check,
        "seconds": block.seconds,
        "shapes": [array.shape for array in arrays],
        "failures": [asdict(failure) for failure in simulations.failures],
    }
    if simulations.other_streams:
        header["other_streams"] = simulations.other_streams
    if block.spans:
        header["spans"] = block.spans
    body = b"".join(array.tobytes() for array in arrays)
    if 2 * np.count_nonzero(np.isinf(simulations.distance)) > len(simulations.distance):
        header["compressed"] = True
        body = zlib.compress(body, 1)
    text = json.dumps(header).encode()
    return b"".join([_MAGIC, _LENGTH.pack(len(text)), text, body])


def unpack(data: bytes) -> PackedBlock:
    """The block that `pack` made these bytes of.

    Raises
    ------
    UnreadableBlockError
        If they are anything else.
    """
    try:
        return _unpack(data)
    except _UNREADABLE as error:
        raise UnreadableBlockError(f"{type(error).__name__}: {error}") from error


def _unpack(data: bytes) -> PackedBlock:
    if data[: len(_MAGIC)] != _MAGIC:
        raise UnreadableBlockError("these are not the bytes of a block")
    begin = len(_MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack(data[len(_MAGIC) : begin])
    header = json.loads(data[begin : begin + length])
    body = data[begin + length :]
    if header.get("compressed"):
        body = _decompressed(body, header["shapes"])
    distance, summary = _arrays(body, header["shapes"])
    if distance.ndim != 1 or len(summary) != len(distance):
        raise UnreadableBlockError("the arrays do not fit together")
    simulations = Simulations(
        distance,
        summary,
        tuple(map(_failure, header["failures"])),
        other_streams=tuple(map(_other_stream, header.get("other_streams", ()))),
    )
    block = PackedBlock(
        int(header["first"]),
        int(header["check"]),
        float(header["seconds"]),
        simulations,
        tuple((int(a), int(b)) for a, b in header.get("spans", ())),
    )
    _check_spans(block)
    return block


def _check_spans(block: PackedBlock) -> None:
    """The rows of a part are as many as its answers."""
    if not block.spans:
        return
    if any(not 0 <= a < b for a, b in block.spans):
        raise UnreadableBlockError("the rows of a part are not those of a block")
    if sum(b - a for a, b in block.spans) != len(block.simulations.distance):
        raise UnreadableBlockError("a part has more or fewer rows than answers")


def _decompressed(data: bytes, shapes: list[list[int]]) -> bytes:
    """As many bytes as the shapes say, whatever the data would grow to."""
    size = sum(math.prod(shape) for shape in shapes) * _FLOAT.itemsize
    if size < 0:
        raise UnreadableBlockError("the arrays have a negative size")
    stream = zlib.decompressobj()
    body = stream.decompress(data, size + 1)
    if not stream.eof or stream.unused_data:
        raise UnreadableBlockError("the arrays do not end where they should")
    return body


def _arrays(data: bytes, shapes: list[list[int]]) -> tuple[FloatArray, FloatArray]:
    sizes = [math.prod(shape) for shape in shapes]
    if any(s < 0 for shape in shapes for s in shape) or sum(sizes) * _FLOAT.itemsize != len(data):
        raise UnreadableBlockError("the arrays do not have the size that the header says")
    flat = np.frombuffer(data, dtype=_FLOAT).astype(np.float64)  # a copy: it can be written to
    distance, summary = np.split(flat, [sizes[0]])
    return distance.reshape(shapes[0]), summary.reshape(shapes[1])


def _other_stream(said: list[Any]) -> OtherStream:
    name, state, process = said
    return OtherStream(str(name), str(state), int(process))


def _failure(said: dict[str, Any]) -> Failure:
    # A field that this version does not know is left out, one that is missing has its default.
    known = {f.name: said[f.name] for f in fields(Failure) if f.name in said}
    return Failure(**{**known, "theta": tuple(known["theta"])})
