"""Whether an executor keeps its contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abctree.data import Failure, Simulations
from abctree.keywords import checks_keywords
from abctree.protocols import Executor
from abctree.testing.rule import require
from abctree.types import FloatArray, IntArray


@checks_keywords
def check_executor(executor: Executor) -> None:
    """Check that an executor keeps the contract of `abctree.protocols.Executor`.

    The answers must come in the order of the rows, with the failures of each; rows with the same
    ``index // unit`` must be run in one call; several calls may be under way at once, and one that
    is never waited for must not disturb the others.

    Parameters
    ----------
    executor : Executor
        An object with ``submit(work, theta, index, unit)``.

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
        blocks = [np.arange(0, 100), np.arange(100, 101), np.arange(105, 400), np.arange(400, 450)]
        waiting = [_submit(executor, index, unit) for index in blocks]
        del waiting[2]  # given up
        for index, wait in zip([blocks[0], blocks[1], blocks[3]], waiting, strict=True):
            _check_block(wait(), index, unit)


def _submit(executor: Executor, index: IntArray, unit: int) -> Callable[[], Simulations]:
    return executor.submit(_Told(unit), _theta(index), index, unit)


def _theta(index: IntArray) -> FloatArray:
    return np.column_stack([np.sqrt(index), np.cos(index)])


@dataclass(frozen=True)
class _Told:
    """Work that tells of each row what it was called with, and in how large a company."""

    unit: int

    def __call__(self, theta: FloatArray, index: IntArray) -> Simulations:
        group = index // self.unit
        company = (group[:, None] == group).sum(axis=1)
        failures = [
            Failure(int(i), tuple(row.tolist()), "a ninth")
            for i, row in zip(index, theta, strict=True)
            if i % 9 == 0
        ]
        distance = np.where(index % 9 == 0, np.inf, theta.sum(axis=1))
        return Simulations(distance, np.column_stack([index, company]), tuple(failures))


def _check_block(done: Simulations, index: IntArray, unit: int) -> None:
    expected = _Told(unit)(_theta(index), index)
    require(
        np.array_equal(done.distance, expected.distance)
        and np.array_equal(done.summary[:, 0], expected.summary[:, 0]),
        "answers must come in the order of the rows, each that of its own row, but do not.",
    )
    require(
        np.array_equal(done.summary[:, 1], expected.summary[:, 1]),
        f"rows with the same index // {unit} must be run in one call, but were split.",
    )
    require(
        [f.index for f in done.failures] == [f.index for f in expected.failures],
        "every failure must come back once, in the order of the rows, but some do not.",
    )
