"""What is left of runs: whether two are equal in every number, and what a folder has kept."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import abctree
from abctree.running import journal, packing
from abctree.running.ledger import CHUNK, FILE, Journal, Ledger

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks")


def in_child(work):
    """A forked process that does `work`; its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside idle threads
        child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


# Equality in every number -----------------------------------------------------------------------


def numbers(thing):
    """All numbers that hang on an object, as bytes."""
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.shape, thing.tobytes()
    if dataclasses.is_dataclass(thing):
        named = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing)}
        return {name: numbers(value) for name, value in named.items()}
    if isinstance(thing, dict):
        return {name: numbers(value) for name, value in thing.items()}
    if isinstance(thing, tuple | list):
        return [numbers(value) for value in thing]
    if isinstance(thing, float):
        return thing.hex()
    if isinstance(thing, int | str | None):
        return thing
    return type(thing).__name__  # a problem, coordinates


COLUMNS = (
    "cube", "theta", "summary", "distance", "proposal", "prior_weight", "denominator", "arm",
    "round", "fold",
)  # fmt: skip


def posterior(result):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        return result.posterior()


def everything(result):
    """Table, rounds, failures, evidence and posterior."""
    draws = posterior(result)
    evidence = result.evidence(draws.epsilon)
    return {
        **{column: numbers(getattr(result.table, column)) for column in COLUMNS},
        "rounds": numbers(result.rounds),
        "failures": numbers([(f.index, f.theta, f.reason) for f in result.failures.first]),
        "tracebacks": [f.traceback for f in result.failures.first],
        "reasons": dict(result.failures.reasons),
        "theta": numbers(draws.theta),
        "weight": numbers(draws.log_weights),
        "evidence": (evidence.estimate.hex(), evidence.standard_error.hex()),
        "why": result.stopped_because,
        "method": (result.method, result.n_simulations, result.population, result.plan),
    }


def differences(first, second):
    one, two = everything(first), everything(second)
    return [name for name in one if one[name] != two[name]]


# Folders ------------------------------------------------------------------------------------------


def recorded(folder):
    """Simulations in a folder; -1 if there is no run in it."""
    if not (folder / FILE).exists():
        return -1
    return Ledger.read(folder).n_simulations


def kept(folder):
    """Simulations in whole blocks, and in others."""
    if not (folder / FILE).exists():
        return 0, 0
    ledger = Ledger.read(folder)
    return ledger.n_simulations, ledger.n_noted


def edit_last_chunk(folder, edit=None):
    """Change one bit of a distance of the last chunk, or the chunk by a function."""

    def one_bit(kept):
        kept.done.distance[-1] = np.nextafter(kept.done.distance[-1], 0.0)
        return kept

    records = list(Journal(folder, "read").records())
    last = max(i for i, (kind, _) in enumerate(records) if kind == CHUNK)
    records[last] = CHUNK, packing.pack((edit or one_bit)(packing.unpack(records[last][1])))
    journal.Memory(records).save(folder)


def chunks_of(folder):
    """Each chunk of a folder: its block, and its numbers."""
    return chunks_in(Journal(folder, "read").records())


def chunks_in(records):
    kept = [packing.unpack(data) for kind, data in records if kind == CHUNK]
    return [(k.first, k.index) for k in kept]


class Notebook:
    """A store in memory: what the protocol asks for, and no more."""

    def __init__(self):
        self.kept, self.flushed = [], []

    def records(self):
        return list(self.kept)

    def append(self, kind, data, *, flush):
        self.kept.append((kind, data))
        self.flushed.append(flush)

    def close(self):
        pass


@contextmanager
def locked(folder):
    """A folder that another run is at work in."""
    lock = journal.FolderLock(folder)
    try:
        yield
    finally:
        lock.release()
