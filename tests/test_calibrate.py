"""The file of `abctree.calibrate`: what it holds, whose it is, and what Ctrl-C leaves in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest

import abctree

from .runs import numbers

SQUARE = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
GIVEN = {"n_datasets": 4, "n_simulations": 60, "rng": 2, "method": "rejection"}


def shift(theta, rng):
    return theta + rng.standard_normal(theta.shape)


def further(theta, rng):
    return theta + 1.0 + rng.standard_normal(theta.shape)


def problem(simulator=shift, prior=SQUARE):
    return abctree.Problem(prior, simulator, np.zeros(len(prior)), vectorized=True)


def calibrated(store, simulator=shift, prior=SQUARE, **changed):
    return abctree.calibrate(
        problem(simulator, prior), store=store, **{"reading": "posterior", **GIVEN, **changed}
    )


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("other seeds", {"rng": 3}),
        ("another method", {"method": "smc"}),
        ("another number of simulations", {"n_simulations": 80}),
        ("another reading", {"reading": "answer"}),
        ("other settings", {"keep": 0.5}),
        ("another problem", {"prior": {"a": (-5.0, 5.0), "b": (-5.0, 6.0)}}),
        ("another problem", {"prior": {"a": (-5.0, 5.0)}}),
    ],
)
def test_a_file_with_data_sets_of_another_call_is_refused(tmp_path, what, changed):
    calibrated(tmp_path / "ranks")
    held = (tmp_path / "ranks").read_bytes()
    with pytest.raises(abctree.ParameterError, match=f"data sets of {what}\\. Name another"):
        calibrated(tmp_path / "ranks", **changed)
    assert (tmp_path / "ranks").read_bytes() == held


def test_a_file_goes_on_with_more_data_sets_and_another_executor(tmp_path):
    whole = calibrated(None, n_datasets=6)
    calibrated(tmp_path / "ranks")
    told = []
    more = calibrated(
        tmp_path / "ranks", n_datasets=6, executor="threads", progress=lambda *n: told.append(n)
    )
    assert told == [(5, 6), (6, 6)]
    assert numbers(more.ranks) == numbers(whole.ranks)
    assert numbers(calibrated(tmp_path / "ranks").ranks) == numbers(whole.ranks[:4])


def test_code_that_has_changed_is_told(tmp_path):
    calibrated(tmp_path / "ranks", n_datasets=3)
    said = "simulator has changed since 3 of the 4 data sets were made"
    with pytest.warns(abctree.AbctreeWarning, match=said):
        calibrated(tmp_path / "ranks", simulator=further)


def test_two_calls_at_once_may_share_a_file(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(calibrated, tmp_path / "ranks", n_datasets=8) for _ in range(2)]
    ranks = [numbers(call.result().ranks) for call in calls]
    assert ranks[0] == ranks[1] == numbers(calibrated(tmp_path / "ranks", n_datasets=8).ranks)


@pytest.mark.parametrize("held", [b"my notes\nand more", b"\x00\xff"], ids=["text", "bytes"])
def test_a_file_of_somebody_else_is_left_as_it_is(tmp_path, held):
    (tmp_path / "notes").write_bytes(held)
    with pytest.raises(abctree.ParameterError, match="`store` must be a new file or one of"):
        calibrated(tmp_path / "notes")
    assert (tmp_path / "notes").read_bytes() == held


@pytest.mark.parametrize("store", ["", ".", 3, "no folder/ranks"])
def test_what_is_no_file_is_refused_before_a_run(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    calls = []
    with pytest.raises(abctree.ParameterError, match="`store` must be"):
        calibrated(store, simulator=lambda *given: calls.append(given))
    assert calls == []


def test_a_full_disk_is_told_and_the_file_goes_on_when_there_is_room(tmp_path, full_disk):
    with pytest.raises(abctree.StoreError, match="could not be written to"):
        calibrated(tmp_path / "ranks")
    full_disk()
    assert len((tmp_path / "ranks").read_bytes()) == 1024
    assert numbers(calibrated(tmp_path / "ranks").ranks) == numbers(calibrated(None).ranks)


@dataclass
class Interrupted:
    """Ctrl-C at one call of the simulator."""

    at: int
    n: int = field(default=0, compare=False)

    def __call__(self, theta, rng):
        self.n += 1
        if self.n == self.at:
            raise KeyboardInterrupt
        return shift(theta, rng)


@pytest.mark.parametrize("method", ["abc_tree", "smc", "rejection"])
def test_a_run_that_is_interrupted_is_no_data_set(tmp_path, method):
    def made(store, at=0):
        one = abctree.Problem({"a": (-5.0, 5.0)}, Interrupted(at), [0.0])
        given = {**GIVEN, "method": method, "reading": "posterior", "n_simulations": 50}
        return abctree.calibrate(one, store=store, **given)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "ranks", at=90)
    assert len((tmp_path / "ranks").read_text().splitlines()) == 1
    with pytest.warns(abctree.AbctreeWarning, match="simulator has changed"):  # it has another `at`
        resumed = made(tmp_path / "ranks")
    assert numbers(resumed.ranks) == numbers(made(None).ranks)


def test_half_a_data_set_is_told_in_a_sentence():
    with pytest.raises(abctree.ParameterError, match="`n_datasets` must be a whole number"):
        calibrated(None, n_datasets=2.5)
