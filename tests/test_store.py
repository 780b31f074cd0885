"""The run store as a file: what it keeps, and what it does with files that are not whole."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import abctree
from abctree.data import Failure, Simulations
from abctree.running.stores import SqliteStore, packing, sqlite_file
from abctree.running.stores.packing import PackedBlock, UnreadableBlockError, pack, unpack

FILE = "run.sqlite"
N_BLOCKS, SIZE = 6, 40


def answers(first, n, m=2):
    rng = np.random.default_rng(first)
    distance = rng.exponential(size=n)
    distance[0] = np.inf
    failed = Failure(first, (0.1, np.nan), "ValueError: no é\ud800", "Traceback ...")
    return Simulations(distance, rng.normal(size=(n, m)), (failed,))


def written(folder, n_blocks=N_BLOCKS, *, ended=True):
    with SqliteStore.new(folder) as store:
        store.begin({"method": "none", "seed": 2**64 - 1, "share": 0.1})
        for i in range(n_blocks):
            store.append(i * SIZE, 7 + i, answers(i * SIZE, SIZE))
        if ended:
            store.conclude({"stopped_because": "tired", "seconds": 1.5})
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return written(tmp_path_factory.mktemp("run") / "x")


@pytest.fixture
def copy(original, tmp_path):
    shutil.copytree(original, tmp_path / "x")
    return tmp_path / "x"


def bits(array):
    return np.asarray(array).shape, np.asarray(array).tobytes()


def same_answers(first, second):
    return (
        bits(first.distance) == bits(second.distance)
        and bits(first.summary) == bits(second.summary)
        and repr(first.failures) == repr(second.failures)  # nan is not equal to itself
    )


def contents(store):
    """All that a store holds, for comparison."""
    found, first = [], 0
    while first < store.n_simulations:
        check, simulations = store.find(first)
        found.append((check, bits(simulations.distance), bits(simulations.summary)))
        found.append(repr(simulations.failures))
        first += len(simulations.distance)
    return store.manifest, store.ending, found


# Blocks as bytes --------------------------------------------------------------------------------


any_float = st.floats(width=64)


@given(
    st.integers(1, 20).flatmap(lambda n: hnp.arrays(np.float64, n, elements=any_float)),
    st.lists(st.integers(0, 3), max_size=2),
    st.lists(st.tuples(st.integers(0), st.lists(any_float), st.text(), st.text()), max_size=3),
)
def test_packed_block_keeps_every_bit(distance, shape, failures):
    summary = np.random.default_rng(0).normal(size=(len(distance), *shape))
    failed = tuple(Failure(i, tuple(t), r, b) for i, t, r, b in failures)
    block = PackedBlock(3, 9, 0.5, Simulations(distance, summary, failed))
    again = unpack(pack(block))
    assert (again.first, again.check, again.seconds) == (3, 9, 0.5)
    assert same_answers(again.simulations, block.simulations)
    again.simulations.distance[:] = 0.0  # it can be written to


@given(st.binary(max_size=60))
def test_unpack_refuses_any_other_bytes(data):
    for begun in (data, packing._MAGIC + data, packing._MAGIC + struct.pack("<I", 20) + data):
        with pytest.raises(UnreadableBlockError):
            unpack(begun)


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        "[]",
        '{"first": 0}',
        '{"first": 0, "check": 0, "seconds": 0, "shapes": [[2], [1, 2]], "failures": []}',
        '{"first": 0, "check": 0, "seconds": 0, "shapes": [[-2], [-2, 1]], "failures": []}',
        '{"first": 0, "check": 0, "seconds": 0, "shapes": [[1e9], [2, 1]], "failures": []}',
        '{"first": 0, "check": 0, "seconds": 0, "shapes": [[2], [2, 1]], "failures": [{}]}',
        '{"first": "x", "check": 0, "seconds": 0, "shapes": [[2], [2, 1]], "failures": []}',
    ],
)
def test_unpack_refuses_headers_that_do_not_fit(header):
    data = packing._MAGIC + struct.pack("<I", len(header)) + header.encode() + bytes(32)
    with pytest.raises(UnreadableBlockError):
        unpack(data)


def test_block_of_which_little_is_needed_is_small_and_keeps_every_bit(rng):
    distance = np.full(4000, np.inf)
    distance[::100] = rng.random(40)
    summary = np.full((4000, 2), np.nan)
    summary[::100] = rng.normal(size=(40, 2))
    data = pack(PackedBlock(7, 8, 9.0, Simulations(distance, summary, ())))
    assert len(data) < 5000 < 4000 * 24
    again = unpack(data).simulations
    assert again.distance.tobytes() == distance.tobytes()
    assert again.summary.tobytes() == summary.tobytes()
    assert again.distance.flags.writeable
    for damaged in (data[:-20], data[:60] + b"\x00" + data[61:]):
        with pytest.raises(UnreadableBlockError):
            unpack(damaged)
    # One that grows to more than its header says is not grown.
    begin = data.index(b"}") + 1
    with pytest.raises(UnreadableBlockError):
        unpack(data[:begin] + zlib.compress(bytes(10_000_000)))


def test_checksum_sees_one_bit_and_the_shape(rng):
    theta = rng.normal(size=(4, 3))
    other = theta.copy()
    other[2, 1] = np.nextafter(other[2, 1], 1.0)
    assert packing.checksum(theta) == packing.checksum(np.asfortranarray(theta))
    assert packing.checksum(theta) != packing.checksum(other)
    assert packing.checksum(theta) != packing.checksum(theta.reshape(3, 4))


# A store that is whole --------------------------------------------------------------------------


def test_store_gives_back_what_it_was_given(original):
    for opened in (SqliteStore.read, SqliteStore.open):
        with opened(original) as store:
            assert store.manifest == {"method": "none", "seed": 2**64 - 1, "share": 0.1}
            assert store.ending == {"stopped_because": "tired", "seconds": 1.5}
            assert store.n_simulations == N_BLOCKS * SIZE
            for i in range(N_BLOCKS):
                check, simulations = store.find(i * SIZE)
                assert check == 7 + i
                assert same_answers(simulations, answers(i * SIZE, SIZE))
            assert store.find(1) is None
            assert store.find(N_BLOCKS * SIZE) is None


def test_store_goes_on_where_it_ended(copy):
    with SqliteStore.open(copy) as store:
        store.begin({"method": "other"})
        assert store.ending is not None  # nothing is written before there is something to write
        store.append(N_BLOCKS * SIZE, 1, answers(5, 3))
        assert store.ending is None
        with pytest.raises(abctree.StoreError, match="in order"):
            store.append(0, 1, answers(5, 3))
    with SqliteStore.read(copy) as store:
        assert store.manifest == {"method": "other"}
        assert store.ending is None
        assert store.n_simulations == N_BLOCKS * SIZE + 3
        assert same_answers(store.find(N_BLOCKS * SIZE)[1], answers(5, 3))


def test_store_counts_the_seconds_of_all_sessions(copy):
    with SqliteStore.open(copy) as store:
        assert 1.5 <= store.seconds < 60.0
        store.append(N_BLOCKS * SIZE, 1, answers(5, 3))
    with SqliteStore.read(copy) as store:
        assert 1.5 < store.seconds == store.seconds


def test_store_that_is_only_read_is_not_touched(copy):
    before = (copy / FILE).read_bytes(), (copy / FILE).stat().st_mtime_ns
    with SqliteStore.read(copy) as store, pytest.raises(abctree.StoreError, match="reading only"):
        store.conclude({})
    with SqliteStore.open(copy):
        pass
    assert ((copy / FILE).read_bytes(), (copy / FILE).stat().st_mtime_ns) == before


def test_store_can_be_read_while_it_is_written(tmp_path):
    with SqliteStore.new(tmp_path / "x") as writer:
        writer.begin({})
        for i in range(3):
            writer.append(i * SIZE, i, answers(i * SIZE, SIZE))
            with SqliteStore.read(tmp_path / "x") as reader:
                assert reader.n_simulations == (i + 1) * SIZE
                assert contents(reader) == contents(writer)


def test_store_can_be_read_where_no_log_can_be_made(copy, monkeypatch):
    connect, asked = sqlite_file.connect, []

    class CannotMakeFiles:
        def execute(self, sql):
            raise sqlite3.OperationalError("unable to open database file")

        def close(self):
            pass

    def on_read_only_disk(file, options):
        asked.append(options)
        return connect(file, options) if "immutable" in options else CannotMakeFiles()

    monkeypatch.setattr(sqlite_file, "connect", on_read_only_disk)
    with SqliteStore.read(copy) as store:
        assert store.n_simulations == N_BLOCKS * SIZE
    assert asked == ["mode=ro", "mode=ro&immutable=1"]


def test_store_without_simulations_is_taken_for_new(tmp_path):
    written(tmp_path / "x", 0, ended=False)
    written(tmp_path / "x", 1)
    with pytest.raises(abctree.ParameterError, match=r"abctree\.resume"):
        SqliteStore.new(tmp_path / "x")
    with SqliteStore.read(tmp_path / "x") as store:
        assert store.n_simulations == SIZE


def test_store_that_was_written_is_one_file_and_the_lock(tmp_path):
    written(tmp_path / "x")
    assert {p.name for p in (tmp_path / "x").iterdir()} == {FILE, "run.lock"}


def test_new_store_is_made_beside_what_a_dead_process_left(tmp_path, original):
    (tmp_path / "x").mkdir()
    for left in ("run.sqlite.new", "run.sqlite.new-journal", "run.lock"):
        (tmp_path / "x" / left).write_bytes(os.urandom(700))
    with SqliteStore.read(written(tmp_path / "x")) as store, SqliteStore.read(original) as other:
        assert contents(store) == contents(other)


def test_new_store_does_not_replace_what_is_there(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(abctree.ParameterError, match="must be a folder"):
        SqliteStore.new(tmp_path / "file")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / f"{FILE}-wal").write_text("part of a run")
    with pytest.raises(abctree.ParameterError, match="is gone"):
        SqliteStore.new(tmp_path / "x")
    assert (tmp_path / "x" / f"{FILE}-wal").read_text() == "part of a run"
    (tmp_path / "y" / FILE).mkdir(parents=True)
    with pytest.raises(abctree.StoreError):
        SqliteStore.new(tmp_path / "y")


@pytest.mark.parametrize("opened", [SqliteStore.open, SqliteStore.read])
def test_store_says_when_there_is_no_run(tmp_path, opened):
    for path in (tmp_path, tmp_path / "nowhere", str(tmp_path)):
        with pytest.raises(abctree.StoreError, match="holds no run"):
            opened(path)
    assert list(tmp_path.iterdir()) == []


# Files that are not whole -----------------------------------------------------------------------


def outcome(folder):
    """What a file turns out to be: its contents, or the message; and no file changes."""
    before = (folder / FILE).read_bytes()
    said = []
    for opened in (SqliteStore.read, SqliteStore.open, SqliteStore.new):
        try:
            with opened(folder) as store:
                said.append(contents(store))
        except abctree.AbctreeError as error:
            said.append(str(error))
        assert (folder / FILE).read_bytes() == before
    return said


def refused(folder):
    return all(isinstance(said, str) for said in outcome(folder))


def test_fuzz_would_see_a_file_that_is_whole(copy):
    read, opened, new = outcome(copy)
    assert read == opened
    assert not isinstance(read, str)
    assert "abctree.resume" in new


@pytest.mark.slow
def test_truncated_store_is_refused_and_not_changed(copy):
    whole = (copy / FILE).read_bytes()
    for size in [*range(1, len(whole), 509), *range(0, len(whole), 4096), len(whole) - 1]:
        (copy / FILE).write_bytes(whole[:size])
        assert refused(copy), size


@pytest.mark.slow
def test_store_with_a_flipped_bit_is_refused_or_read_as_it_was(copy, original, rng):
    with SqliteStore.read(original) as store:
        truth = contents(store)
    whole = (copy / FILE).read_bytes()
    n_refused = 0
    used = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8))  # most of the rest is empty
    places = [*range(100), *rng.integers(100, len(whole), size=50), *rng.choice(used, size=150)]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        (copy / FILE).write_bytes(flipped)
        said = outcome(copy)
        if all(isinstance(each, str) for each in said):
            n_refused += 1
        else:  # pages that hold nothing, and fields of the header that change nothing
            assert said[0] == said[1] == truth, place
    assert n_refused > 0.5 * len(places)


def test_store_of_another_kind_of_file_is_refused(copy):
    for other in (b"", b"hello\n", b"SQLite format 3\x00", os.urandom(5000), bytes(8192)):
        (copy / FILE).write_bytes(other)
        assert refused(copy), other[:20]
        assert "not a run of abctree" in outcome(copy)[0]


def test_store_that_is_another_sqlite_file_is_refused(copy):
    (copy / FILE).unlink()
    with sqlite3.connect(copy / FILE) as db:
        db.execute("CREATE TABLE blocks (first INTEGER PRIMARY KEY, data BLOB)")
    db.close()
    assert refused(copy)
    assert "another SQLite file" in outcome(copy)[0]


def edited(folder, *statements):
    db = sqlite3.connect(folder / FILE, isolation_level=None)
    for statement in statements:
        db.execute(*statement)
    db.close()


def test_store_of_a_newer_version_is_refused(copy):
    edited(copy, ("PRAGMA user_version = 2",), ("UPDATE schema SET version = 2",))
    assert refused(copy)
    assert "newer abctree" in outcome(copy)[0]


def test_store_with_an_older_schema_is_read_by_its_own_reader(copy, monkeypatch):
    def reader_of_version_0(data):
        seen.append(len(data))
        return unpack(data)

    seen: list[int] = []
    edited(copy, ("PRAGMA user_version = 0",), ("UPDATE schema SET version = 0",))
    assert refused(copy)
    monkeypatch.setitem(sqlite_file._READERS, 0, reader_of_version_0)
    with SqliteStore.read(copy) as store:
        assert store.n_simulations == N_BLOCKS * SIZE
    assert len(seen) == N_BLOCKS


def meta(key, text):
    return "UPDATE meta SET value = ?, crc = ? WHERE key = ?", (
        text,
        zlib.crc32(key.encode() + text),
        key,
    )


@pytest.mark.parametrize(
    "statement",
    [
        ("DELETE FROM blocks WHERE first = ?", (SIZE,)),
        ("UPDATE blocks SET n = n + 1 WHERE first = ?", (SIZE,)),
        ("UPDATE blocks SET data = 'text'",),
        ("UPDATE blocks SET crc = 'text'",),
        ("UPDATE blocks SET first = first + 1",),
        ("UPDATE meta SET value = '{}'",),
        ("UPDATE meta SET key = x'ff' WHERE key = 'manifest'",),
        ("UPDATE meta SET crc = 0",),
        ("DELETE FROM meta",),
        ("DELETE FROM schema",),
        ("DROP TABLE meta",),
        ("DROP TABLE blocks",),
        ("DROP TABLE schema",),
        ("ALTER TABLE blocks RENAME COLUMN data TO date",),
        ("ALTER TABLE meta RENAME TO mata",),
        meta("manifest", b"[1, 2]"),
        meta("manifest", b"\xff"),
        meta("manifest", b"[" * 100_000),
    ],
)
def test_store_whose_tables_are_not_as_they_were_is_refused(copy, statement):
    edited(copy, statement)
    assert refused(copy)


def test_store_never_loads_a_pickle(copy, tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    data = pickle.dumps(Bomb())
    pickle.loads(data)
    assert (tmp_path / "executed").exists()  # it would go off
    (tmp_path / "executed").unlink()
    npy = json.dumps({"descr": "|O", "fortran_order": False, "shape": (1,)}).encode() + data
    for blob in (data, packing._MAGIC + data, b"\x93NUMPY\x01\x00" + npy):
        put = "UPDATE blocks SET data = ?, crc = ? WHERE first = 0", (blob, zlib.crc32(blob))
        edited(copy, put)
        assert refused(copy)
        assert "cannot be read" in outcome(copy)[0]
    assert not (tmp_path / "executed").exists()


# One process at a time --------------------------------------------------------------------------


posix = pytest.mark.skipif(sys.platform == "win32", reason="forks")


@posix
def test_second_process_is_refused_and_told_who_is_first(copy):
    script = """
        import sys
        from abctree.running.stores import SqliteStore
        with SqliteStore.open(sys.argv[1]):
            print("open", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(copy)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"open\n"
    for opened in (SqliteStore.open, SqliteStore.new):
        with pytest.raises(abctree.StoreError, match=f"in use by .*pid {other.pid}") as caught:
            opened(copy)
        assert str(copy) in str(caught.value)
    with SqliteStore.read(copy) as store:
        assert store.n_simulations == N_BLOCKS * SIZE
    other.communicate(timeout=60)
    with SqliteStore.open(copy):
        pass


def test_second_run_of_the_same_process_is_refused(copy):
    with SqliteStore.open(copy):
        for opened in (SqliteStore.open, SqliteStore.new):
            with pytest.raises(abctree.StoreError, match=f"this process .pid {os.getpid()}"):
                opened(copy)
        with SqliteStore.read(copy):
            pass
    with SqliteStore.open(copy):
        pass


@posix
def test_lock_ends_with_its_process_though_a_worker_lives_on(copy):
    script = """
        import os, signal, sys, time
        from abctree.running.stores import SqliteStore
        store = SqliteStore.open(sys.argv[1])
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
        print(worker, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(copy)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        worker = int(other.stdout.readline())
        other.wait(60)
        try:
            os.kill(worker, 0)  # it lives
            with SqliteStore.open(copy) as store:
                assert store.n_simulations == N_BLOCKS * SIZE
        finally:
            os.kill(worker, signal.SIGKILL)


@posix
def test_store_warns_where_folders_cannot_be_locked(copy, monkeypatch):
    from abctree.running.stores import lock

    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "lockf", no_locks)
    with (
        pytest.warns(abctree.AbctreeWarning, match="cannot be locked"),
        SqliteStore.open(copy) as store,
    ):
        assert store.n_simulations == N_BLOCKS * SIZE


# Network disks ----------------------------------------------------------------------------------


def with_rollback_journal(monkeypatch):
    def journal_mode(db):
        return str(db.execute("PRAGMA journal_mode = DELETE").fetchone()[0])

    monkeypatch.setattr(sqlite_file, "_journal_mode", journal_mode)


def test_store_says_when_it_has_no_write_ahead_log(tmp_path, monkeypatch, original):
    with_rollback_journal(monkeypatch)
    with pytest.warns(abctree.AbctreeWarning, match="network disk"):
        written(tmp_path / "x")
    with SqliteStore.read(tmp_path / "x") as store, SqliteStore.read(original) as other:
        assert contents(store)[2] == contents(other)[2]


@posix
def test_journal_mode_falls_back_where_sqlite_has_no_shared_memory(tmp_path):
    uri = f"{(tmp_path / 'a').as_uri()}?vfs=unix-dotfile"
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    assert sqlite_file._journal_mode(db) == "delete"
    db.close()


def test_store_says_when_the_disk_is_full(copy, monkeypatch):
    with SqliteStore.open(copy) as store:
        store.append(N_BLOCKS * SIZE, 1, answers(5, 3))
        store._writer.execute("PRAGMA max_page_count = 1")
        with pytest.raises(abctree.StoreError, match="full"):
            store.append(N_BLOCKS * SIZE + 3, 1, answers(6, 30_000))
        assert store.n_simulations == N_BLOCKS * SIZE + 3
    with SqliteStore.read(copy) as store:
        assert store.n_simulations == N_BLOCKS * SIZE + 3
