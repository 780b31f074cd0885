"""Runs longer than memory: summaries stay in the run folder, theta is computed from the cube."""

from __future__ import annotations

import shutil
import tracemalloc

import numpy as np
import pytest

import abctree
from abctree.problems import gauss
from tests.runs import differences

N = 2500
FILE = "run.journal"
IN_STORE = {"n_simulations": N, "rng": 1, "keep_summaries": "store"}


class InMemory:
    """A store that reads no single record."""

    def records(self):
        return []

    def append(self, kind, data, *, flush):
        pass

    def close(self):
        pass


def simulate(theta, rng):
    """Forty numbers, of some parameters none."""
    if rng.random() < 0.02:
        raise ValueError("no data")
    return theta[0] + np.arange(40) / 40 + rng.normal(size=40)


def problem():
    prior = {"a": (-5.0, 5.0), "b": abctree.Integers(0, 3), "c": 2.0}
    return abctree.Problem(prior, simulate, np.zeros(40), distance="mad")


@pytest.mark.slow
def test_a_run_whose_summaries_stay_in_its_folder_has_the_numbers_of_one_in_memory(tmp_path):
    in_memory = abctree.abc_tree(problem(), n_simulations=N, rng=1, proposal="boxes")
    made = abctree.abc_tree(problem(), store=tmp_path / "run", **IN_STORE, proposal="boxes")
    assert differences(made, in_memory) == []
    read = abctree.load(tmp_path / "run", problem())
    assert differences(read, in_memory) == []
    assert made.table._buffers["summary"].size == made.table._buffers["theta"].size == 0
    for result in (made, read):
        assert (result.answer().theta == in_memory.answer().theta).all()
        assert result.fit().p_value == in_memory.fit().p_value
        assert (result.calibration(20).ranks == in_memory.calibration(20).ranks).all()


@pytest.mark.parametrize("settings", [{"proposal": "adaptive"}, {"executor": "threads"}])
def test_what_learns_from_summaries_reads_them_while_the_run_goes_on(tmp_path, settings):
    settings = {"block": N // 20, **settings}
    in_memory = abctree.abc_tree(gauss(2), n_simulations=N, rng=1, **settings)
    made = abctree.abc_tree(gauss(2), store=tmp_path / "run", **IN_STORE, **settings)
    assert set(differences(made, in_memory)) <= {"tracebacks"}


@pytest.mark.parametrize("method", [abctree.map_tree, abctree.smc])
def test_other_methods_leave_summaries_in_their_folder_too(tmp_path, method):
    in_memory = method(gauss(2), n_simulations=N, rng=1)
    assert differences(method(gauss(2), store=tmp_path / "run", **IN_STORE), in_memory) == []


@pytest.mark.slow
def test_rows_are_read_in_any_order_and_from_an_extended_run(tmp_path):
    folder = tmp_path / "run"
    abctree.abc_tree(problem(), store=folder, **IN_STORE, proposal="boxes")
    first = abctree.load(folder, problem()).table.summary
    table = abctree.resume(folder, problem(), n_simulations=2 * N).table
    rows = np.array([4999, 3, 2500, 2499, 3, 0])
    for which in (rows, rows[:0], slice(7, 90, 3), table.distance < 3.0):
        assert np.array_equal(table.summary_of(which), table.summary[which], equal_nan=True)
        assert (table.theta_of(which) == table.theta[which]).all()
    assert np.array_equal(table.summary[:N], first, equal_nan=True)


def test_loading_reads_distances_and_not_summaries(tmp_path, monkeypatch):
    p = gauss(60)
    # Boxes learn from distances; to play an adaptive run again its summaries are needed.
    abctree.abc_tree(p, store=tmp_path / "run", **IN_STORE, proposal="boxes")
    n_read = []
    journal = abctree.running.journal.Journal
    record = journal.record

    def counted(*which):
        found = record(*which)
        n_read.append(len(found))
        return found

    monkeypatch.setattr(journal, "record", counted)
    read = abctree.load(tmp_path / "run", p)
    assert 8 * N < sum(n_read) < 0.1 * (tmp_path / "run" / FILE).stat().st_size
    # The twin: what reads them is seen.
    assert read.table.summary.nbytes == 8 * N * 60 < sum(n_read)


def test_summaries_of_another_run_in_the_folder_are_refused(tmp_path):
    for name, seed in (("two", 2), ("one", 1)):
        given = {**IN_STORE, "rng": seed, "proposal": "boxes"}
        made = abctree.abc_tree(gauss(2), store=tmp_path / name, **given)
    shutil.copy(tmp_path / "two" / FILE, tmp_path / "one" / FILE)
    with pytest.raises(abctree.StoreError, match="another one than before"):
        made.answer()
    shutil.rmtree(tmp_path / "one")
    with pytest.raises(abctree.StoreError, match="cannot be read"):
        made.answer()


def test_what_cannot_leave_summaries_in_a_folder_says_why(tmp_path):
    refused = [
        (lambda: abctree.abc_tree(gauss(2), **IN_STORE), "`store` must be a run folder"),
        (lambda: abctree.abc_tree(gauss(2), store=InMemory(), **IN_STORE), "must be a run folder"),
        (lambda: abctree.rejection(gauss(2), store=tmp_path, **IN_STORE), "for rejection"),
        (lambda: abctree.Session(gauss(2), **IN_STORE), "in a session"),
    ]
    for call, says in refused:
        with pytest.raises(abctree.ParameterError, match=says):
            call()
    made = abctree.abc_tree(gauss(2), store=tmp_path / "run", **IN_STORE, proposal="boxes")
    with pytest.raises(abctree.ParameterError, match='`summaries` must be "own"'):
        made.posterior(summaries="learned")


def test_of_a_long_run_the_surrogate_learns_from_rows_of_the_other_folds_alone(
    tmp_path, monkeypatch
):
    learned = []

    def fit(regressions, cube, z, *rest):
        taught = regressions.row_box >= 0
        learned.append((cube[taught], z[taught]))
        return fitted(regressions, cube, z, *rest)

    adaptive = abctree.tree.adaptive
    fitted = adaptive.fit_surrogate
    monkeypatch.setattr(adaptive, "fit_surrogate", fit)
    monkeypatch.setattr(adaptive, "_READ", 1000)
    settings = {"proposal": "adaptive", "n_folds": 5, "store": tmp_path / "run", **IN_STORE}
    table = abctree.abc_tree(gauss(2), **settings).table
    fold_of = dict(zip(map(bytes, table.cube), table.fold, strict=True))
    summary_of = dict(zip(map(bytes, table.cube), table.summary, strict=True))
    assert 700 < len(learned[-1][0]) < 900
    for f, (cube, z) in enumerate(learned[-5:]):
        assert {fold_of[bytes(point)] for point in cube} == {*range(5)} - {f}
        made = np.array([summary_of[bytes(point)] for point in cube])
        ratio = z / (made - gauss(2).observed_summary)
        assert np.allclose(ratio, ratio[0, 0])  # 1 / ε


def peak_of(call):
    """Most bytes that a call takes beyond what there is."""
    call()  # compiles
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_tree_is_grown_without_a_copy_of_its_rows(rng):
    cube = rng.random((40_000, 30))
    distance, rows = np.linalg.norm(cube - 0.5, axis=1), np.flatnonzero(rng.random(40_000) < 0.8)
    rows = rows.astype(np.int32)
    tree = abctree.SoftTree(boxes_per_root=1.0)
    assert peak_of(lambda: tree.of_rows(cube, distance, rows, 1.0)) < 0.3 * cube.nbytes
    # The twin: the rows, copied.
    assert peak_of(lambda: tree.partition(cube[rows], distance[rows], 1.0, None, rng)) > 0.7 * (
        cube.nbytes
    )


def test_a_prior_weight_of_one_takes_no_memory():
    assert abctree.abc_tree(gauss(2), n_simulations=300, rng=1).table.prior_weight.strides == (0,)
    prior = abctree.DensityPrior(lambda theta: theta[:, 0], {"a": (0.0, 1.0)})
    peaked = abctree.Problem(prior, lambda theta, rng: theta + rng.normal(size=1), np.zeros(1))
    table = abctree.abc_tree(peaked, n_simulations=300, rng=1).table
    assert np.ptp(table.prior_weight) > 0.5
    assert table.prior_weight.strides == (8,)
