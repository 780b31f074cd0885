"""The run folder as a file: what it keeps, and what it does with files that are not whole."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import abctree
from abctree.data import Failure, OtherStream, Rows, Simulations
from abctree.running import journal, packing
from abctree.running.ledger import CHUNK, FILE, MANIFEST, Journal, Ledger
from tests import runs
from tests.runs import posix

pytestmark = pytest.mark.xdist_group("store")  # they share runs

N_BLOCKS, SIZE = 6, 40


def answers(first, n, m=2):
    rng = np.random.default_rng(first)
    distance = rng.exponential(size=n)
    distance[0] = np.inf
    failed = Failure(first, (0.1, np.nan), "ValueError: no é\ud800", "Traceback ...")
    return Simulations(distance, rng.normal(size=(n, m)), (failed,))


def block(first, n=SIZE):
    index = first + np.arange(n)
    return Rows(index[:, None] / 7.0, index)


def put(ledger, first, n=SIZE):
    ledger.begin(block(first, n))
    ledger.put(block(first, n), answers(first, n))
    return ledger.take(block(first, n))


def written(folder, n_blocks=N_BLOCKS, *, ended=True):
    ledger = Ledger.new(folder)
    ledger.describe({"method": "none", "seed": 2**64 - 1, "share": 0.1})
    for i in range(n_blocks):
        put(ledger, i * SIZE)
    if ended:
        ledger.conclude("tired", 1.5)
    ledger.close()
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


def contents(ledger):
    """All that a ledger holds, for comparison."""
    manifest, ending, n = ledger.manifest, ledger.ending, ledger.n_simulations
    found = []
    for first in range(0, n, SIZE):
        rows = block(first, min(SIZE, n - first))
        assert len(ledger.begin(rows)) == 0
        done = ledger.take(rows)
        found.append((bits(done.distance), bits(done.summary), repr(done.failures)))
    return manifest, ending, found


# Chunks as bytes --------------------------------------------------------------------------------


any_float = st.floats(width=64)


def kept(done, first=3, index=None):
    index = np.arange(first, first + len(done)) if index is None else index
    return packing.Kept(first, int(index[-1]) + 1 - first, index, 9, 0.5, done)


@given(
    st.integers(1, 20).flatmap(lambda n: hnp.arrays(np.float64, n, elements=any_float)),
    st.lists(st.integers(0, 3), max_size=2),
    st.lists(st.tuples(st.integers(0), st.lists(any_float), st.text(), st.text()), max_size=3),
    st.integers(1, 3),
)
def test_packed_chunk_keeps_every_bit(distance, shape, failures, step):
    summary = np.random.default_rng(0).normal(size=(len(distance), *shape))
    failed = tuple(Failure(i, tuple(t), r, b) for i, t, r, b in failures)
    chunk = kept(Simulations(distance, summary, failed), 3, 3 + step * np.arange(len(distance)))
    again = packing.unpack(packing.pack(chunk))
    assert (again.first, again.size, again.check, again.seconds) == (3, chunk.size, 9, 0.5)
    assert again.index.tolist() == chunk.index.tolist()
    assert same_answers(again.done, chunk.done)
    again.done.distance[:] = 0.0  # it can be written to


@given(st.binary(max_size=60))
def test_unpack_refuses_any_other_bytes(data):
    for begun in (data, struct.pack("<I", 20) + data):
        with pytest.raises(packing.UnreadableError):
            packing.unpack(begun)


HEADER = {"first": 0, "size": 2, "spans": [[0, 2]], "check": 0, "seconds": 0, "shape": [1]}


def test_unpack_takes_the_header_that_the_next_test_breaks():
    text = json.dumps(HEADER).encode()
    assert len(packing.unpack(struct.pack("<I", len(text)) + text + bytes(32)).done) == 2


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        "[]",
        '{"first": 0}',
        *(
            json.dumps({**HEADER, **change})
            for change in (
                {"shape": [2]},
                {"shape": [-1]},
                {"shape": [1e9]},
                {"spans": []},
                {"spans": [[0, 3]]},
                {"spans": [[1, 1], [0, 2]]},
                {"first": "x"},
                {"failures": [{}]},
                {"compressed": True},
            )
        ),
    ],
)
def test_unpack_refuses_headers_that_do_not_fit(header):
    data = struct.pack("<I", len(header)) + header.encode() + bytes(32)
    with pytest.raises(packing.UnreadableError):
        packing.unpack(data)


def test_chunk_of_which_little_is_needed_is_small_and_keeps_every_bit(rng):
    distance = np.full(4000, np.inf)
    distance[::100] = rng.random(40)
    summary = np.full((4000, 2), np.nan)
    summary[::100] = rng.normal(size=(40, 2))
    data = packing.pack(kept(Simulations(distance, summary, ())))
    assert len(data) < 5000 < 4000 * 24
    again = packing.unpack(data).done
    assert again.distance.tobytes() == distance.tobytes()
    assert again.summary.tobytes() == summary.tobytes()
    assert again.distance.flags.writeable
    for damaged in (data[:-20], data[:60] + b"\x00" + data[61:]):
        with pytest.raises(packing.UnreadableError):
            packing.unpack(damaged)
    # One that grows to more than its header says is not grown.
    begin = data.index(b"}") + 1
    with pytest.raises(packing.UnreadableError):
        packing.unpack(data[:begin] + zlib.compress(bytes(10_000_000)))


def test_checksum_sees_one_bit_and_the_shape(rng):
    theta = rng.normal(size=(4, 3))
    other = theta.copy()
    other[2, 1] = np.nextafter(other[2, 1], 1.0)
    assert packing.checksum(theta) == packing.checksum(np.asfortranarray(theta))
    assert packing.checksum(theta) != packing.checksum(other)
    assert packing.checksum(theta) != packing.checksum(theta.reshape(3, 4))


# A folder that is whole -------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [Ledger.read, Ledger.open])
def test_ledger_gives_back_what_it_was_given(original, opened):
    ledger = opened(original)
    assert ledger.manifest == {"method": "none", "seed": 2**64 - 1, "share": 0.1}
    assert ledger.ending == {"stopped_because": "tired", "seconds": 1.5, "n_simulations": 240}
    assert ledger.n_simulations == N_BLOCKS * SIZE
    for i in range(N_BLOCKS):
        assert len(ledger.begin(block(i * SIZE))) == 0
        assert same_answers(ledger.take(block(i * SIZE)), answers(i * SIZE, SIZE))
    assert len(ledger.begin(block(N_BLOCKS * SIZE))) == SIZE
    ledger.close()


def test_ledger_gives_back_parts_and_a_later_answer_counts(tmp_path):
    folder = tmp_path / "x"
    whole = Rows(np.arange(20.0).reshape(10, 2), np.arange(10))
    early, late, rest = (replace(answers(i, n), failures=()) for i, n in enumerate((3, 2, 6)))
    first = Ledger.new(folder)
    first.describe({"method": "none"})
    assert len(first.begin(whole)) == 10
    failed = replace(early, failures=(Failure(4, (0.0, 0.0), "lost"),))
    first.put(whole[np.array([0, 1, 4])], failed)
    first.put(whole[np.array([2, 4])], late)  # row 4 for the second time
    assert first.take(whole) is None
    first.close()
    assert runs.kept(folder) == (0, 4)
    again = Ledger.open(folder)
    assert again.begin(whole).index.tolist() == [3, 5, 6, 7, 8, 9]
    again.put(whole[np.array([3, 5, 6, 7, 8, 9])], rest)
    done = again.take(whole)
    again.close()
    assert done.failures == ()
    assert done.distance[[0, 1]].tolist() == early.distance[:2].tolist()
    assert done.distance[[2, 4]].tolist() == late.distance.tolist()
    assert done.summary[3:4].tobytes() == rest.summary[:1].tobytes()
    assert runs.kept(folder) == (10, 0)


def test_ledger_refuses_other_blocks(original):
    ledger = Ledger.read(original)
    other = block(SIZE)
    other.theta[3, 0] = np.nextafter(other.theta[3, 0], 1.0)
    for rows in (other, block(SIZE, SIZE - 1), block(1)):
        with pytest.raises(abctree.StoreError, match="holds another run"):
            ledger.begin(rows)


def test_ledger_goes_on_where_it_ended(copy):
    ledger = Ledger.open(copy)
    before = (copy / FILE).read_bytes()
    ledger.describe({"method": "other"})
    assert ledger.ending is not None
    assert (copy / FILE).read_bytes() == before  # nothing is written before there is something
    put(ledger, N_BLOCKS * SIZE, 3)
    assert ledger.ending is None
    ledger.close()
    again = Ledger.read(copy)
    assert again.manifest == {"method": "other"}
    assert again.ending is None
    assert again.n_simulations == N_BLOCKS * SIZE + 3
    assert (copy / FILE).read_bytes().startswith(before)


def test_ledger_counts_the_seconds_of_all_processes(copy):
    ledger = Ledger.open(copy)
    assert 1.5 <= ledger.seconds < 60.0
    put(ledger, N_BLOCKS * SIZE, 3)
    ledger.close()
    again = Ledger.read(copy)
    assert 1.5 < again.seconds == again.seconds


def test_ending_tells_how_far_the_run_had_come(copy):
    """Blocks that were begun ahead may be whole, and yet no part of the result."""
    ledger = Ledger.open(copy)
    first, second = block(N_BLOCKS * SIZE), block((N_BLOCKS + 1) * SIZE)
    for rows in (first, second):
        ledger.begin(rows)
        ledger.put(rows, answers(int(rows.index[0]), SIZE))
    ledger.take(first)
    ledger.conclude("stopped", 2.0)
    ledger.close()
    again = Ledger.read(copy)
    assert (again.n_simulations, again.n_noted) == ((N_BLOCKS + 1) * SIZE, SIZE)


def test_folder_that_is_only_read_is_not_touched(copy):
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in copy.iterdir()}
    ledger = Ledger.read(copy)
    with pytest.raises(abctree.StoreError, match="reading only"):
        ledger.conclude("tired of reading", 1.0)
    ledger.close()
    Ledger.open(copy).close()
    (copy / "run.lock").unlink()
    assert {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in copy.iterdir()} == {
        FILE: before[FILE]
    }


def test_folder_can_be_read_while_it_is_written(tmp_path):
    writer = Ledger.new(tmp_path / "x")
    writer.describe({})
    for i in range(3):
        put(writer, i * SIZE)
        assert Ledger.read(tmp_path / "x").n_simulations == (i + 1) * SIZE
    writer.close()


def test_folder_without_simulations_is_taken_for_new(tmp_path):
    written(tmp_path / "x", 0, ended=False)
    written(tmp_path / "x", 1)
    with pytest.raises(abctree.ParameterError, match=r"abctree\.resume"):
        Ledger.new(tmp_path / "x")
    assert Ledger.read(tmp_path / "x").n_simulations == SIZE


def test_first_block_can_be_forgotten_and_others_cannot(tmp_path):
    for n, left in ((1, 0), (2, 2 * SIZE)):
        ledger = Ledger.new(tmp_path / "x")
        ledger.describe({})
        for i in range(n):
            put(ledger, i * SIZE)
        ledger.drop_first()
        ledger.close()
        assert Ledger.read(tmp_path / "x").n_simulations == left


def test_folder_that_was_written_is_one_file_and_the_lock(tmp_path):
    written(tmp_path / "x")
    assert {p.name for p in (tmp_path / "x").iterdir()} == {FILE, "run.lock"}


def test_new_folder_is_made_beside_what_a_dead_process_left(tmp_path, original):
    (tmp_path / "x").mkdir()
    for left in (f"{FILE}.new", "run.lock"):
        (tmp_path / "x" / left).write_bytes(os.urandom(700))
    one, two = Ledger.read(written(tmp_path / "x")), Ledger.read(original)
    assert contents(one) == contents(two)


def test_new_folder_does_not_replace_what_is_there(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(abctree.ParameterError, match="must be a folder"):
        Ledger.new(tmp_path / "file")
    (tmp_path / "y" / FILE).mkdir(parents=True)
    with pytest.raises(abctree.StoreError):
        Ledger.new(tmp_path / "y").describe({})


@pytest.mark.parametrize("given", [3, True, b"folder", "", "a\0b", object()])
@pytest.mark.parametrize("opened", [Ledger.new, Ledger.open, Ledger.read])
def test_what_keeps_no_records_is_no_store(opened, given):
    with pytest.raises(abctree.ParameterError, match="must be a folder, or an object that keeps"):
        opened(given)


def test_folder_that_cannot_be_named_is_told_in_a_sentence(tmp_path):
    with pytest.raises(abctree.StoreError, match="File name too long"):
        Ledger.new(tmp_path / ("x" * 300))


@posix
def test_folder_that_is_removed_is_spoken_of_once(tmp_path):
    ledger = Ledger.new(tmp_path / "x")
    ledger.describe({})
    put(ledger, 0)
    shutil.rmtree(tmp_path / "x")
    with pytest.warns(abctree.AbctreeWarning, match="has been removed"):
        put(ledger, SIZE)
    put(ledger, 2 * SIZE)
    ledger.close()


@pytest.mark.parametrize("opened", [Ledger.open, Ledger.read])
def test_folder_says_when_there_is_no_run(tmp_path, opened):
    for path in (tmp_path, tmp_path / "nowhere", str(tmp_path)):
        with pytest.raises(abctree.StoreError, match="holds no run"):
            opened(path)
    assert list(tmp_path.iterdir()) == []


def test_memory_and_folder_hold_the_same(original, tmp_path):
    memory = journal.Memory(Journal(original, "read").records())
    memory.save(tmp_path / "x")
    again = journal.Memory.of(bytes(memory))
    assert again.records() == memory.records() == list(Journal(tmp_path / "x", "read").records())
    assert contents(Ledger(again)) == contents(Ledger.read(original))


# Files that are not whole -----------------------------------------------------------------------


def outcome(folder):
    """What a file turns out to be: its contents, or the message; and no file changes."""
    before = (folder / FILE).read_bytes()
    said = []
    for opened in (Ledger.read, Ledger.open, Ledger.new):
        try:
            ledger = opened(folder)
            said.append(contents(ledger))
            ledger.close()
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


def is_earlier(said, truth):
    """Whether a file was read as what it was at an earlier moment."""
    n = len(said[2])
    return said[0] == truth[0] and said[1] in (None, truth[1]) and said[2] == truth[2][:n]


@pytest.mark.slow
def test_truncated_file_is_an_earlier_moment_and_not_changed(copy, original):
    truth = contents(Ledger.read(original))
    whole = (copy / FILE).read_bytes()
    lengths = set()
    for size in [*range(1, len(whole), 203), len(whole) - 1]:
        (copy / FILE).write_bytes(whole[:size])
        read, opened, _ = outcome(copy)
        assert read == opened
        if not isinstance(read, str):
            assert is_earlier(read, truth), size
            lengths.add(len(read[2]))
    assert lengths == set(range(N_BLOCKS + 1))
    (copy / FILE).write_bytes(whole[:-1])  # what is written then comes after the last whole record
    ledger = Ledger.open(copy)
    put(ledger, N_BLOCKS * SIZE)
    ledger.close()
    assert Ledger.read(copy).n_simulations == (N_BLOCKS + 1) * SIZE


@pytest.mark.slow
def test_file_with_a_flipped_bit_is_refused_or_read_as_it_was(copy, original, rng):
    truth = contents(Ledger.read(original))
    whole = (copy / FILE).read_bytes()
    last = whole.rindex(journal._MARK)
    for place in [*range(100), *rng.integers(100, len(whole), size=300)]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        (copy / FILE).write_bytes(flipped)
        said = outcome(copy)
        if not all(isinstance(each, str) for each in said):
            assert said[0] == said[1]
            assert is_earlier(said[0], truth), place
            # Only the last record can be taken for one that was never finished, and whether it
            # was flushed says nothing of what is in it.
            assert place >= last or said[0] == truth


def test_record_that_was_not_flushed_may_be_lost_but_not_hide_one_that_was(copy):
    """After a power cut a later record may be on the disk, and an earlier one not."""
    ledger = Ledger.open(copy)
    rows = block(N_BLOCKS * SIZE)
    ledger.begin(rows)
    ends = []
    for part in (rows[:10], rows[10:20], rows[20:]):
        ends.append((copy / FILE).stat().st_size)
        ledger.put(part, Simulations(np.ones(len(part)), np.ones((len(part), 2))))
    ledger.close()
    whole = (copy / FILE).read_bytes()
    lost = whole[: ends[0]] + bytes(ends[1] - ends[0]) + whole[ends[1] : ends[2]]
    (copy / FILE).write_bytes(lost)
    assert Ledger.read(copy).n_noted == 0
    (copy / FILE).write_bytes(lost + whole[ends[2] :])  # the last one made the block whole
    assert refused(copy)


def test_file_of_another_kind_is_refused(copy):
    for other in (b"", b"hello\n", b"SQLite format 3\x00", os.urandom(5000), bytes(8192)):
        (copy / FILE).write_bytes(other)
        read, opened, _ = outcome(copy)
        assert isinstance(read, str)
        assert isinstance(opened, str)
        assert "not a run of abctree" in read


def edited(folder, edit):
    """Give the folder other records."""
    journal.Memory(edit(list(Journal(folder, "read").records()))).save(folder)


def test_file_of_a_newer_version_is_refused(copy):
    data = (copy / FILE).read_bytes()
    begin = len(journal._MAGIC)
    (copy / FILE).write_bytes(data[:begin] + struct.pack("<I", 2) + data[begin + 4 :])
    assert refused(copy)
    assert "newer abctree" in outcome(copy)[0]


@pytest.mark.parametrize(
    "edit",
    [
        lambda records: records[1:],
        lambda records: [(MANIFEST, b"[1, 2]"), *records[1:]],
        lambda records: [(MANIFEST, b"\xff"), *records[1:]],
        lambda records: [(MANIFEST, b"[" * 100_000), *records[1:]],
        lambda records: [*records[:2], (CHUNK, records[2][1][:-1]), *records[3:]],
        lambda records: [*records[:2], (CHUNK, b""), *records[3:]],
        lambda records: [*records[:-1], ("ending", b"{}")],
    ],
)
def test_file_whose_records_are_not_as_they_were_is_refused(copy, edit):
    edited(copy, edit)
    assert refused(copy)


def test_file_never_loads_a_pickle(copy, tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    data = pickle.dumps(Bomb())
    pickle.loads(data)
    assert (tmp_path / "executed").exists()  # it would go off
    (tmp_path / "executed").unlink()
    npy = json.dumps({"descr": "|O", "fortran_order": False, "shape": (1,)}).encode() + data
    for blob in (data, b"\x93NUMPY\x01\x00" + npy, struct.pack("<I", len(data)) + data):
        edited(copy, lambda records, blob=blob: [records[0], (CHUNK, blob), *records[2:]])
        assert refused(copy)
        assert "is damaged" in outcome(copy)[0]
    assert not (tmp_path / "executed").exists()


# One process at a time --------------------------------------------------------------------------


@posix
def test_second_process_is_refused_and_told_who_is_first(copy):
    script = """
        import sys
        from abctree.running.journal import Journal
        with Journal(sys.argv[1], "write"):
            print("open", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(copy)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"open\n"
    for opened in (Ledger.open, Ledger.new):
        with pytest.raises(abctree.StoreError, match=f"in use by .*pid {other.pid}") as caught:
            opened(copy)
        assert str(copy) in str(caught.value)
    assert Ledger.read(copy).n_simulations == N_BLOCKS * SIZE
    other.communicate(timeout=60)
    Ledger.open(copy).close()


def test_second_run_of_the_same_process_is_refused(copy):
    with Journal(copy, "write"):
        for opened in (Ledger.open, Ledger.new):
            with pytest.raises(abctree.StoreError, match=f"this process .pid {os.getpid()}"):
                opened(copy)
        Ledger.read(copy)
    Ledger.open(copy).close()


@posix
def test_lock_ends_with_its_process_though_a_worker_lives_on(copy):
    script = """
        import os, signal, sys, time
        from abctree.running.journal import Journal
        store = Journal(sys.argv[1], "write")
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
            ledger = Ledger.open(copy)
            assert ledger.n_simulations == N_BLOCKS * SIZE
            ledger.close()
        finally:
            os.kill(worker, signal.SIGKILL)


@posix
def test_folder_that_cannot_be_locked_is_warned_of(copy, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(journal.fcntl, "lockf", no_locks)
    with pytest.warns(abctree.AbctreeWarning, match="cannot be locked"):
        ledger = Ledger.open(copy)
    assert ledger.n_simulations == N_BLOCKS * SIZE
    ledger.close()


def test_full_disk_is_an_error_that_loses_nothing(copy, monkeypatch):
    write = os.write

    def full(file, data):
        if len(data) > 100_000:
            write(file, data[:5000])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    ledger = Ledger.open(copy)
    put(ledger, N_BLOCKS * SIZE, 3)
    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(abctree.StoreError, match="No space left"):
        put(ledger, N_BLOCKS * SIZE + 3, 30_000)
    put(ledger, N_BLOCKS * SIZE + 30_003, 5)  # there is room for less
    ledger.close()
    again = Ledger.read(copy)
    assert (again.n_simulations, again.n_noted) == (N_BLOCKS * SIZE + 3, 5)


def test_the_journal_conforms_to_the_protocol_of_stores(tmp_path):
    is_there = iter([False, True, True])
    abctree.testing.check_store(
        lambda: Journal(tmp_path / "run", "write" if next(is_there) else "new")
    )


def test_a_packed_block_keeps_the_streams():
    drawn = (OtherStream("np.random", "ab12", 7), OtherStream("random", "0", 8))
    done = Simulations(np.zeros(2), np.zeros((2, 1)), other_streams=drawn)
    kept = packing.unpack(packing.pack(packing.Kept(0, 2, np.arange(2), 0, 0.0, done)))
    assert kept.done.other_streams == drawn
