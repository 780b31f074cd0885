"""Whether an executor keeps its contract."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data import Failure, Rows, Simulations
from abctree.keywords import checks_keywords
from abctree.protocols import Chunk, Executor
from abctree.testing.rule import require
from abctree.types import IntArray


@checks_keywords
def check_executor(executor: Executor) -> None:
    """Check that an executor keeps the contract of `abctree.protocols.Executor`.

    Each row must be answered once, with its failure; rows with the same ``index // unit`` must be
    run in one call; several calls may be under way at once, and one that is never waited for must
    not disturb the others.

    Parameters
    ----------
    executor : Executor
        An object with ``chunks(work, rows)``.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.

    Examples
    --------
    >>> from abctree.running.executors import Serial
    >>> check_executor(Serial())
    """
    for unit in (1, 7):
        index = [np.arange(0, 100), np.arange(100, 101), np.arange(105, 400), np.arange(400, 450)]
        blocks = [_rows(numbers, unit) for numbers in index]
        waiting = [iter(executor.chunks(_Told(), rows)) for rows in blocks]
        del waiting[2]  # given up
        for rows, chunks in zip([blocks[0], blocks[1], blocks[3]], waiting, strict=True):
            _check_block([chunk for chunk in chunks if len(chunk[0])], rows)


def _rows(index: IntArray, unit: int) -> Rows:
    return Rows(np.column_stack([np.sqrt(index), np.cos(index)]), index, unit)


@dataclass(frozen=True)
class _Told:
    """Work that tells of each row what it was called with, and in how large a company."""

    shape: tuple[int, ...] = (2,)

    def __call__(self, rows: Rows, until: float = np.inf) -> Simulations:  # noqa: ARG002
        theta, index = rows.theta, rows.index
        group = index // rows.unit
        company = (group[:, None] == group).sum(axis=1)
        failures = [
            Failure(int(i), tuple(row.tolist()), "a ninth")
            for i, row in zip(index, theta, strict=True)
            if i % 9 == 0
        ]
        distance = np.where(index % 9 == 0, np.inf, theta.sum(axis=1))
        return Simulations(distance, np.column_stack([index, company]), tuple(failures))


def _check_block(chunks: list[Chunk], rows: Rows) -> None:
    index = np.concatenate([np.empty(0, dtype=np.int64), *(part.index for part, _ in chunks)])
    require(
        np.array_equal(np.sort(index), rows.index),
        "each row must be answered once, but some are not, or several times.",
    )
    chunks = sorted(chunks, key=lambda chunk: int(chunk[0].index[0]))
    done, expected = Simulations.join([done for _, done in chunks]), _Told()(rows)
    require(
        np.array_equal(done.distance, expected.distance)
        and np.array_equal(done.summary[:, 0], expected.summary[:, 0]),
        "the answers of a chunk must be those of its rows, but are not.",
    )
    require(
        np.array_equal(done.summary[:, 1], expected.summary[:, 1]),
        f"rows with the same index // {rows.unit} must be run in one call, but were split.",
    )
    require(
        [f.index for f in done.failures] == [f.index for f in expected.failures],
        "every failure must come back once, in the order of the rows, but some do not.",
    )
