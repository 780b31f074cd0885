"""What a run folder costs: ``python -m benchmarks.store_overhead [--blocks N] [--block N]``.

Answers of an executor that costs nothing are recorded block by block; in turns with each, as many
bare bytes are appended to a file and flushed to the disk.  Medians over blocks: a flush of the disk
is most of it.  The target is 5 µs a simulation at blocks of 1 000.

Simulations of a block that takes long are noted about once a second: what that costs is measured
with as many rows as a block has, made in one second, and is a share of this second.  A block that
takes less than a second is not noted.
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

from abctree.data import Simulations
from abctree.running.stores import Recorded, SqliteStore
from abctree.running.stores.notebook import Notebook, Page

TARGET = 5.0  # microseconds a simulation


class Free:
    """An executor that has its answers already."""

    def __init__(self, answer: Simulations) -> None:
        self.answer = answer

    def submit(self, *_: Any) -> Callable[[], Simulations]:
        return lambda: self.answer


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def reread(folder: Path, theta: np.ndarray, n_blocks: int, block: int) -> None:
    """Check the whole file, and take every answer from it."""
    with SqliteStore.read(folder) as store:
        recorded = Recorded(store, None, n_summaries=0)
        for i in range(n_blocks):
            recorded.submit(None, theta, i * block + np.arange(block), 1)()


def noting(n_times: int, block: int, m: int, parent: str | None) -> float:
    """Seconds to note the simulations of a second."""
    rng = np.random.default_rng(0)
    answer = Simulations(rng.exponential(size=block), rng.normal(size=(block, m)))
    rows, taken = np.arange(block), []
    with (
        tempfile.TemporaryDirectory(dir=parent) as name,
        SqliteStore.new(Path(name) / "x") as store,
    ):
        store.begin({})
        notebook = Notebook(store)
        for i in range(n_times):
            page = Page(notebook, i * block, 0, 1, rows, keeps_summaries=True)
            page.add(0, answer, age=2.0)  # it is due
            taken.append(timed(page.keep)[0])
            store.append(i * block, 0, answer)
            notebook.forget(i * block)
    return float(np.median(taken))


def measure(n_blocks: int, block: int, d: int, m: int, parent: str | None) -> dict[str, float]:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(block, d))
    answer = Simulations(rng.exponential(size=block), rng.normal(size=(block, m)))
    data = os.urandom(8 * block * (1 + m))
    flush = getattr(os, "fdatasync", os.fsync)
    kept, bare = np.empty((n_blocks, 2)), np.empty((n_blocks, 2))
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name) / "x"
        with SqliteStore.new(folder) as store:
            store.begin({})
            recorded = Recorded(store, Free(answer), n_summaries=n_blocks * block)
            file = os.open(Path(name) / "bare", os.O_CREAT | os.O_WRONLY)
            for i in range(n_blocks):
                index = i * block + np.arange(block)
                kept[i] = timed(lambda index=index: recorded.submit(None, theta, index, 1)())
                bare[i] = timed(lambda: (os.write(file, data), flush(file)))
            os.close(file)
        size = (folder / "run.sqlite").stat().st_size
        read = timed(lambda: reread(folder, theta, n_blocks, block))
    noted = noting(n_blocks, block, m, parent)
    micro = 1e6 / block
    return {
        "µs a simulation": micro * float(np.median(kept[:, 0])),
        "  mean": micro * float(kept[:, 0].mean()),
        "  CPU": micro * float(kept[:, 1].mean()),
        "bare flushed writes": micro * float(np.median(bare[:, 0])),
        "ratio to bare writes": float(np.median(kept[:, 0]) / np.median(bare[:, 0])),
        "reading again": micro * read[0] / n_blocks,
        "noting, share of time": noted,
        "bytes a simulation": size / (n_blocks * block),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--parameters", type=int, default=5)
    parser.add_argument("--summaries", type=int, default=5)
    parser.add_argument("--folder", help="where to write; default: that of temporary files")
    o = parser.parse_args()
    numbers = measure(o.blocks, o.block, o.parameters, o.summaries, o.folder)
    for name, value in numbers.items():
        print(f"{name:<24}{value:10.3g}")
    if o.block == 1000:
        print(f"{'ratio to the target':<24}{numbers['µs a simulation'] / TARGET:10.3g}")


if __name__ == "__main__":
    main()
