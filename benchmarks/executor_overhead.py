"""What `Processes` costs, against a bare `ProcessPoolExecutor.map` over the same chunks.

    python -m benchmarks.executor_overhead                2 workers, blocks of 1 000, forked
    python -m benchmarks.executor_overhead --workers 4 --start-method spawn

Both run the same blocks of the same problem in the same chunks, in turns, in workers that are up
and know the problem; the bare pool has it from its initializer.  The ratio of the two wall times
per simulation is to stay below 1.5.  Prints Markdown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import abctree
from abctree.data import Rows, Simulations
from abctree.problem import Discrepancy
from abctree.running.executors.pooled import Pace
from experiments import command

FLOOR = 1.5
#: Name, seconds that a simulation is busy, rows of a chunk (None: as `Processes` chooses).
CASES = [("trivial", 0.0, 10), ("trivial", 0.0, None), ("0.1 ms", 1e-4, 10), ("0.1 ms", 1e-4, None)]

_work: Discrepancy | None = None


def trivial(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=2)


def busy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    until = time.perf_counter() + 1e-4
    while time.perf_counter() < until:
        pass
    return theta + rng.normal(size=2)


def remember(work: Discrepancy) -> None:
    global _work  # noqa: PLW0603
    _work = work


def run(rows: Rows) -> Simulations:
    assert _work is not None
    return _work(rows)


def rows_of_a_chunk(work: Discrepancy, rows: Rows, workers: int) -> int:
    """What `Processes` would choose."""
    began = time.perf_counter()
    work(rows)
    pace = Pace()
    pace.note(len(rows), time.perf_counter() - began)
    return pace.rows(len(rows), workers)


def timed(block: Callable[[], object], n_blocks: int) -> float:
    began = time.perf_counter()
    for _ in range(n_blocks):
        block()
    return (time.perf_counter() - began) / n_blocks


def compare(
    seconds: float, chunk: int | None, args: argparse.Namespace
) -> tuple[int, float, float]:
    """Rows of a chunk, and seconds per simulation, bare and with `Processes`."""
    problem = abctree.Problem(
        {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, busy if seconds else trivial, [0.0, 0.0]
    )
    work = Discrepancy(problem.measurement, 1)
    theta = np.random.default_rng(0).uniform(-5.0, 5.0, (args.block, 2))
    rows = Rows(theta, np.arange(args.block))
    chunk = chunk or rows_of_a_chunk(work, rows, args.workers)
    parts = list(rows.parts(chunk))
    context = multiprocessing.get_context(args.start_method)
    with (
        ProcessPoolExecutor(args.workers, context, remember, (work,)) as pool,
        abctree.Processes(args.workers, args.start_method, chunk=chunk) as processes,
    ):

        def bare() -> Simulations:
            return Simulations.join(list(pool.map(run, parts)))

        def ours() -> Simulations:
            chunks = sorted(processes.chunks(work, rows), key=lambda chunk: chunk[0].index[0])
            return Simulations.join([done for _, done in chunks])

        assert (bare().distance == ours().distance).all()
        n_blocks = max(1, int(args.seconds / timed(bare, 2)))
        times = [(timed(bare, n_blocks), timed(ours, n_blocks)) for _ in range(args.repeats)]
    # The median of the ratios of neighbours in time: the machine is not ours alone.
    ratio = statistics.median(b / a for a, b in times)
    one = min(a for a, _ in times) / args.block
    return chunk, one, ratio * one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--start-method", default="fork")
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one timing")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    print(f"{args.workers} workers, {args.start_method}, blocks of {args.block}\n")
    lines = []
    for name, seconds, rows in CASES:
        chunk, bare, ours = compare(seconds, rows, args)
        said = f"{chunk}" if rows else f"{chunk} (chosen)"
        lines.append([name, said, f"{bare * 1e6:.1f}", f"{ours * 1e6:.1f}", f"{ours / bare:.2f}"])
    head = ["simulator", "rows of a chunk", "bare map, µs/sim", "Processes, µs/sim", "ratio"]
    print(command.markdown(head, lines))
    print(f"\nFloor: {FLOOR}")


if __name__ == "__main__":
    main()
