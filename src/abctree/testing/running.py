"""Whether executors, stores and stopping rules keep their contracts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from abctree.data import Failure, Progress, Rows, Simulations
from abctree.keywords import checks_keywords
from abctree.protocols import Ahead, Chunk, Executor, HasEveryBlock, HasRecords, StoppingRule, Store
from abctree.testing.rule import call, during, require

#: Seconds within which simulations that go on by themselves are to be there.
_PATIENCE = 30.0
_SMALL = [("spec", b'{"a": 1}'), ("rows", b""), ("rows", b"\x00\r\n\xff" * 9), ("why", b"\n")]


@checks_keywords
def check_executor(executor: Executor) -> None:
    """Raise `AssertionError` where an executor breaks the contract of `abctree.protocols.Executor`.

    Each row must be answered once, with its failure; rows with the same ``index // unit`` must be
    run in one call; several calls may be under way at once, and one that is never waited for must
    not disturb the others.  Of iterators that keep `abctree.protocols.Ahead` all answers must come
    from `finished`, too, each from one of the two.

    Parameters
    ----------
    executor : Executor
        An object with ``chunks(work, rows)``.

    Examples
    --------
    >>> from abctree.running.executors import Serial
    >>> check_executor(Serial())
    """
    for unit in (1, 7):
        index = [np.arange(0, 100), np.arange(100, 101), np.arange(105, 400), np.arange(400, 450)]
        blocks = [Rows(np.column_stack([np.sqrt(i), np.cos(i)]), i, unit) for i in index]
        waiting = [iter(executor.chunks(_Told(), rows)) for rows in blocks]
        del waiting[2]  # given up
        for rows, chunks in zip([blocks[0], blocks[1], blocks[3]], waiting, strict=True):
            _check_block([*chunks], rows)
        chunks = iter(executor.chunks(_Told(), blocks[0]))
        if isinstance(chunks, Ahead):
            _check_block([*_by_themselves(chunks, len(blocks[0])), *chunks], blocks[0])


def _by_themselves(chunks: Ahead, n: int) -> Iterator[Chunk]:
    """Gather what comes of n rows when nobody waits for them."""
    end = time.monotonic() + _PATIENCE
    while n > 0:
        require(
            time.monotonic() < end,
            f"`finished` must give all that nobody waits for, but {n} rows are missing after "
            f"{_PATIENCE:.0f} s.",
        )
        for part, done in call("finished", "no arguments", chunks.finished):
            n -= len(part)
            yield part, done
        time.sleep(0.001)


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
    chunks = sorted((c for c in chunks if len(c[0])), key=lambda chunk: int(chunk[0].index[0]))
    index = np.concatenate([np.empty(0, dtype=np.int64), *(part.index for part, _ in chunks)])
    require(
        np.array_equal(np.sort(index), rows.index),
        "each row must be answered once, but some are not, or several times.",
    )
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


@checks_keywords
def check_store(opened: Callable[[], Store]) -> None:
    """Raise `AssertionError` where a store breaks the contract of `abctree.protocols.Store`.

    What is appended, flushed or not, must be there when the store is opened again: every record
    once, in order, to the byte, whatever the bytes are and however many; also when more is
    appended later.  `record`, if there is one (`abctree.protocols.HasRecords`), must give each of
    them and its parts, also when the store is closed.

    Parameters
    ----------
    opened : callable
        Opens the store, which is empty at the first call; later, with what was kept.
    """
    kept: list[tuple[str, bytes]] = []
    large = [("rows", bytes(range(256)) * 4096), *_SMALL]
    for more in (_SMALL, large, []):
        store = opened()
        found = list(call("records", "no arguments", store.records))
        require(
            found == kept,
            f"what was appended must be there again, in order and to the byte, but of {len(kept)} "
            f"records {sum(a == b for a, b in zip(found, kept, strict=False))} are, among "
            f"{len(found)}.",
        )
        for i, (kind, data) in enumerate(more):
            call("append", "every record", store.append, kind, data, flush=i % 2 == 0)
        kept += more
        if isinstance(store, HasRecords):
            _check_record(store, kept)
        call("close", "no arguments", store.close)
    if isinstance(store, HasRecords):
        _check_record(store, kept)


def _check_record(store: HasRecords, kept: list[tuple[str, bytes]]) -> None:
    for number, (_, data) in enumerate(kept):
        for begin, end in ((0, None), (1, 3), (len(data) // 2, None)):
            found = call("record", "numbers of records", store.record, number, begin, end)
            require(
                found == data[begin:end],
                f"`record` must give bytes {begin}:{end} of record {number}, but of "
                f"{len(data[begin:end])} bytes gave other {len(found)}.",
            )


@checks_keywords
def check_stopping_rule(rule: StoppingRule) -> None:
    """Raise `AssertionError` where a rule breaks that of `abctree.protocols.StoppingRule`.

    In the pilot, where nothing is accepted yet, and in later rounds it must give a reason in words,
    or None, and say the same of the same progress when it is asked again: a run that is resumed
    asks it again.  Its `every_block`, if it has one, must be a boolean.

    Parameters
    ----------
    rule : StoppingRule
        An object with ``reason(progress)``.

    Examples
    --------
    >>> from abctree.running.stopping import Rounds
    >>> check_stopping_rule(Rounds(3))
    """
    inf, nan = float("inf"), float("nan")
    seen = [
        Progress(20, 1000, 0, inf, nan, 0.0, 0, 0.01),
        Progress(100, 1000, 1, 2.0, 0.4, 35.0, 7, 0.5),
        Progress(500, 1000, 4, 0.01, 0.0, 0.0, 500, 1e4),
        Progress(1000, 1000, 9, 1e-9, 1.0, 1000.0, 0, 1e6),
    ]
    said: dict[Progress, str | None] = {}
    for progress in (*seen, *reversed(seen)):
        with during(f"of {progress}"):
            reason = call("reason", "all progress", rule.reason, progress)
            require(
                reason is None or (type(reason) is str and reason != ""),
                f"`reason` must be words or None, but is {reason!r}.",
            )
            require(
                said.setdefault(progress, reason) == reason,
                "`reason` must say the same of the same progress, but does not.",
            )
    require(
        not isinstance(rule, HasEveryBlock) or isinstance(rule.every_block, bool),
        "`every_block` must be True or False, but is not.",
    )
