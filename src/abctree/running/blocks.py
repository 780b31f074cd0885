"""Blocks: chunks of answers, in any order and answered twice, as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abctree.data import Failure, Simulations
from abctree.types import IntArray

#: Tracebacks kept of one block.
_TRACEBACKS = 3


class Entry(NamedTuple):
    """A chunk of a block: as it came, or as it was kept before."""

    first: int  #: number of the first simulation of the block
    size: int  #: of the block
    numbers: IntArray  #: of the simulations
    check: int  #: of their parameters
    done: Callable[[], Simulations]  #: the answers


def has_all(entries: list[Entry], size: int) -> bool:
    """Whether a block of this size is answered."""
    if len(entries) == 1:
        return len(entries[0].numbers) == size
    if sum(len(entry.numbers) for entry in entries) < size:
        return False
    answered = np.zeros(size, dtype=bool)
    for entry in entries:
        answered[_places(entry)] = True
    return bool(answered.all())


def joined(entries: list[Entry], size: int) -> Simulations:
    """The answers to a whole block.  Its failures do not tell how it was cut."""
    parts = [entry.done() for entry in entries]
    if len(parts) == 1 and not parts[0].failures:
        return parts[0]
    distance = np.empty(size)
    summary = np.empty((size, *parts[0].summary.shape[1:]))
    failures: dict[int, Failure] = {}
    for entry, done in zip(entries, parts, strict=True):
        place = _places(entry)
        distance[place], summary[place] = done.distance, done.summary
        if failures:  # some may be answered again
            for number in failures.keys() & set(entry.numbers.tolist()):
                del failures[number]
        failures.update({failure.index: failure for failure in done.failures})
    return Simulations(
        distance,
        summary,
        _with_few_tracebacks([failures[number] for number in sorted(failures)]),
        min(done.began for done in parts),
        tuple(stream for done in parts for stream in done.other_streams),
    )


def _places(entry: Entry) -> slice | IntArray:
    """Where the answers are in the block; a slice, if one follows the other."""
    place = entry.numbers - entry.first
    follow = len(place) > 0 and place[-1] - place[0] == len(place) - 1
    if follow and (place[1:] > place[:-1]).all():
        return slice(int(place[0]), int(place[-1]) + 1)
    return place


def _with_few_tracebacks(failures: list[Failure]) -> tuple[Failure, ...]:
    traced = [f.index for f in failures if f.traceback][_TRACEBACKS:]
    dropped = set(traced)
    return tuple(replace(f, traceback="") if f.index in dropped else f for f in failures)


def without_summaries(done: Simulations) -> Simulations:
    """The same simulations, with summaries (n, 0)."""
    return replace(done, summary=done.summary.reshape(len(done), -1)[:, :0])
