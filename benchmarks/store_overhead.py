"""What a run folder costs: ``python -m benchmarks.store_overhead [--blocks N] [--block N]``.

Answers of an executor that costs nothing are recorded block by block; in turns with each, as many
bare bytes are appended to a file and flushed to the disk.  Medians over blocks: a flush of the disk
is most of it.  The target is 5 µs a simulation at blocks of 1 000.

With ``--chunks`` a block comes in so many chunks, of which only the last is flushed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from abctree.data import Rows, Simulations
from abctree.running.journal import FILE
from abctree.running.ledger import Ledger

TARGET = 5.0  # microseconds a simulation


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def record(ledger: Ledger, rows: Rows, answer: Simulations, chunks: int) -> None:
    """Take the answers to a block, in so many chunks."""
    for part in ledger.begin(rows).parts(-(-len(rows) // chunks)):
        ledger.put(part, answer.take(part.index - rows.index[0], part.index))
    ledger.take(rows)


def reread(folder: Path, blocks: list[Rows]) -> None:
    """Check the whole file, and take every answer from it."""
    ledger = Ledger.read(folder)
    for rows in blocks:
        ledger.begin(rows)
        ledger.take(rows)


def measure(o: argparse.Namespace) -> dict[str, float]:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(o.block, o.parameters))
    answer = Simulations(rng.exponential(size=o.block), rng.normal(size=(o.block, o.summaries)))
    blocks = [Rows(theta, i * o.block + np.arange(o.block)) for i in range(o.blocks)]
    data = os.urandom(8 * o.block * (1 + o.summaries))
    flush = getattr(os, "fdatasync", os.fsync)
    kept, bare = np.empty((o.blocks, 2)), np.empty((o.blocks, 2))
    with tempfile.TemporaryDirectory(dir=o.folder) as name:
        folder = Path(name) / "x"
        ledger = Ledger.new(folder)
        ledger.describe({})
        file = os.open(Path(name) / "bare", os.O_CREAT | os.O_WRONLY)
        for i, rows in enumerate(blocks):
            kept[i] = timed(lambda rows=rows: record(ledger, rows, answer, o.chunks))
            bare[i] = timed(lambda: (os.write(file, data), flush(file)))
        os.close(file)
        ledger.close()
        size = (folder / FILE).stat().st_size
        read = timed(lambda: reread(folder, blocks))
    micro = 1e6 / o.block
    return {
        "µs a simulation": micro * float(np.median(kept[:, 0])),
        "  mean": micro * float(kept[:, 0].mean()),
        "  CPU": micro * float(kept[:, 1].mean()),
        "bare flushed writes": micro * float(np.median(bare[:, 0])),
        "ratio to bare writes": float(np.median(kept[:, 0]) / np.median(bare[:, 0])),
        "reading again": micro * read[0] / o.blocks,
        "bytes a simulation": size / (o.blocks * o.block),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=1, help="of a block")
    parser.add_argument("--parameters", type=int, default=5)
    parser.add_argument("--summaries", type=int, default=5)
    parser.add_argument("--folder", help="where to write; default: that of temporary files")
    o = parser.parse_args()
    numbers = measure(o)
    for name, value in numbers.items():
        print(f"{name:<24}{value:10.3g}")
    if o.block == 1000:
        print(f"{'ratio to the target':<24}{numbers['µs a simulation'] / TARGET:10.3g}")


if __name__ == "__main__":
    main()
