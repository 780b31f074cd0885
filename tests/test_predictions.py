"""Predictions in the folder of a run: read again, completed after a kill, and told of changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

import abctree

from .conftest import command, until
from .runs import numbers

PRIOR = {"a": (-4.0, 4.0), "b": (-4.0, 4.0)}
BOXES = partial(abctree.abc_tree, proposal="boxes")


@dataclass
class Counted:
    """A simulator that counts its calls; negative a fails."""

    n: int = field(default=0, compare=False)
    shift: float = 0.0

    def __call__(self, theta, rng):
        self.n += 1
        if theta[0] < -1.5:
            raise ValueError("too small")
        return self.made(theta + self.shift + rng.standard_normal(2))

    def made(self, x):
        return x


class Nested(Counted):
    """Data of every kind that is kept."""

    def made(self, x):
        whole = {
            "x": x,
            "n": int(x[0]),
            3: [x[1], (True, None, "é", np.float32(x[0]), np.int64(2))],
        }
        return {**whole, "nan": float("nan"), "when": np.array(["2020-01-01"], "M8[D]")}


def problem(simulator):
    summary = (lambda data: data["x"]) if isinstance(simulator, Nested) else None
    observed = {"x": [1.0, -1.0]} if summary else [1.0, -1.0]
    return abctree.Problem(PRIOR, simulator, observed, summary=summary)


def run(simulator, store=None, method=BOXES):
    return method(problem(simulator), n_simulations=300, rng=1, store=store)


def same(one, other):
    assert numbers(one.theta) == numbers(other.theta)
    assert repr(one.data) == repr(other.data)
    assert numbers(one.summary) == numbers(other.summary)
    assert one.n_failed == other.n_failed


@pytest.mark.parametrize("kind", [Counted, Nested])
@pytest.mark.parametrize("prior", [False, True])
def test_what_is_asked_for_again_is_read_and_is_what_a_run_without_a_folder_says(
    tmp_path, kind, prior
):
    simulator = kind()
    result = run(simulator, tmp_path / "run")
    simulator.n = 0
    first = result.predict(30, rng=3, prior=prior)
    assert simulator.n == 30
    same(first, run(kind()).predict(30, rng=3, prior=prior))
    other = kind()
    again = abctree.load(tmp_path / "run", problem(other)).predict(30, rng=3, prior=prior)
    assert other.n == 0
    same(again, first)
    assert prior == (first.n_failed > 0)


def test_another_seed_number_or_posterior_is_made_anew(tmp_path):
    simulator = Counted()
    result = run(simulator, tmp_path / "run")
    longer = abctree.resume(tmp_path / "run", problem(simulator), n_simulations=400)
    simulator.n = 0
    result.predict(20, rng=3)
    result.predict(20, rng=4)
    result.predict(21, rng=3)
    longer.predict(20, rng=3)
    assert simulator.n == 81
    result.predict(20, rng=None)
    assert len(list((tmp_path / "run" / "predictions").iterdir())) == 4


@pytest.mark.parametrize("vectorized", [True, "seeds"])
def test_calls_of_a_vectorised_simulator_are_kept_as_a_whole(tmp_path, vectorized):
    calls = []

    def simulate(theta, given):
        calls.append(len(theta))
        rng = given if vectorized is True else np.random.default_rng(given)
        return theta + rng.standard_normal(theta.shape)

    def result(store):
        made = abctree.Problem(PRIOR, simulate, [1.0, -1.0], vectorized=vectorized, batch_size=16)
        return abctree.rejection(made, n_simulations=100, rng=1, store=store)

    kept = result(tmp_path / "run")
    calls.clear()
    first = kept.predict(40, rng=3)
    assert calls == [16, 16, 8]
    (file,) = (tmp_path / "run" / "predictions").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[2] + lines[1][:-9])
    calls.clear()
    same(kept.predict(40, rng=3), first)
    assert calls == [16]
    same(result(None).predict(40, rng=3), first)


def test_a_line_that_is_not_what_was_written_is_made_again(tmp_path):
    simulator = Counted()
    result = run(simulator, tmp_path / "run")
    first = result.predict(20, rng=3)
    (file,) = (tmp_path / "run" / "predictions").iterdir()
    lines = file.read_text().splitlines(keepends=True)
    at = lines[4].index("<f8") + 20
    lines[4] = lines[4][:at] + ("A" if lines[4][at] != "A" else "B") + lines[4][at + 1 :]
    file.write_text("".join(lines))
    simulator.n = 0
    same(result.predict(20, rng=3), first)
    assert simulator.n == 1


MODULE = """
import os, sys, time
import abctree



def simulate(theta, rng):
    made = theta + rng.standard_normal(2)
    time.sleep(float(os.environ.get("SECONDS", 0)))
    with open(os.environ["LOG"], "a") as file:
        print(made[0].hex(), made[1].hex(), file=file)
    return made


problem = abctree.Problem({"a": (-4.0, 4.0), "b": (-4.0, 4.0)}, simulate, [1.0, -1.0])
if __name__ == "__main__":
    if sys.argv[1] == "run":
        abctree.rejection(problem, n_simulations=300, rng=1, store="run")
    else:
        found = abctree.load("run", problem).predict(60, rng=5, prior=True)
        print(found.theta.tobytes().hex(), found.array.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_prediction_that_is_killed_loses_no_finished_simulation(tmp_path):
    (tmp_path / "model.py").write_text(MODULE)

    def begun(what, log, seconds=0.0):
        return subprocess.Popen(
            [sys.executable, "model.py", what],
            cwd=tmp_path, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LOG": log, "SECONDS": str(seconds)},
        )  # fmt: skip

    def made(log):
        file = tmp_path / log
        return file.read_text().splitlines() if file.exists() else []

    begun("run", "run.log").communicate(timeout=100)
    killed = begun("predict", "killed.log", seconds=0.1)
    until(lambda: len(made("killed.log")) >= 10)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=100)
    before = made("killed.log")
    assert len(before) < 60
    (file,) = (tmp_path / "run" / "predictions").iterdir()
    n_kept = len(file.read_bytes().splitlines())
    assert n_kept >= len(before) - 1  # the last may have been told of, and not kept yet
    said, _ = begun("predict", "resumed.log").communicate(timeout=100)
    after = made("resumed.log")
    assert len(after) == 60 - n_kept
    assert len({*before, *after}) == 60
    file.unlink()
    whole, _ = begun("predict", "whole.log").communicate(timeout=100)
    assert len(made("whole.log")) == 60
    assert said == whole


def test_a_simulator_that_has_changed_is_told(tmp_path):
    result = run(Counted(), tmp_path / "run", abctree.rejection)
    first = result.predict(20, rng=3)
    (file,) = (tmp_path / "run" / "predictions").iterdir()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:12]))
    changed = Counted(shift=0.25)
    with pytest.warns(abctree.AbctreeWarning, match="since the run was made"):
        loaded = abctree.load(tmp_path / "run", problem(changed))
    said = "simulator has changed since 12 of the 20 calls of this prediction were made"
    for n_made in (8, 0):
        changed.n = 0
        with pytest.warns(abctree.AbctreeWarning, match=said) as caught:
            found = loaded.predict(20, rng=3)
        assert len(caught) == 1
        assert str(caught[0].message).endswith("If the change matters, give another rng.")
        assert changed.n == n_made
        assert numbers(found.array[:12]) == numbers(first.array[:12])
        np.testing.assert_allclose(found.array[12:], first.array[12:] + 0.25)


@pytest.mark.parametrize("what", ["a file in its place", "read-only"])
def test_a_folder_that_cannot_be_written_to_predicts_all_the_same(tmp_path, what):
    simulator = Counted()
    result = run(simulator, tmp_path / "run")
    if what == "read-only":
        if not hasattr(os, "geteuid") or os.geteuid() == 0:
            pytest.skip("may write everywhere")
        (tmp_path / "run").chmod(0o555)
    else:
        (tmp_path / "run" / "predictions").touch()
    for _ in range(2):
        simulator.n = 0
        with pytest.warns(abctree.AbctreeWarning, match="could not be kept in") as caught:
            found = result.predict(20, rng=3)
        assert len(caught) == 1
        assert simulator.n == 20
        same(found, run(Counted()).predict(20, rng=3))


def test_on_a_full_disk_it_predicts_all_the_same_and_keeps_the_rest_later(tmp_path, request):
    simulator = Counted()
    result = run(simulator, tmp_path / "run")
    make_room = request.getfixturevalue("full_disk")
    with pytest.warns(abctree.AbctreeWarning, match="could not be kept in") as caught:
        found = result.predict(20, rng=3)
    make_room()
    assert len(caught) == 1
    same(found, run(Counted()).predict(20, rng=3))
    made = []
    for _ in range(2):
        simulator.n = 0
        same(result.predict(20, rng=3), found)
        made.append(simulator.n)
    assert 0 < made[0] < 20
    assert made[1] == 0


def test_data_that_are_no_numbers_or_texts_are_made_again_with_a_warning(tmp_path):
    class Strange(Nested):
        def made(self, x):
            return {"x": x, "y": {1.5}}

    simulator = Strange()
    result = run(simulator, tmp_path / "run")
    with pytest.warns(abctree.AbctreeWarning, match="holds a set"):
        found = result.predict(20, rng=3)
    assert len(found) == 20
    assert found.data[0]["y"] == {1.5}


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ThreadPool])
def test_a_pool_keeps_each_call_as_soon_as_it_is_there(tmp_path, kind):
    """The first call waits until all others are in the file."""
    folder = tmp_path / "run" / "predictions"
    waits = []

    def simulate(theta, rng):
        if waits and waits.pop():
            until(lambda: sum(len(f.read_bytes().splitlines()) for f in folder.glob("*")) == 11)
        return theta + rng.standard_normal(2)

    result = run(simulate, tmp_path / "run")
    waits[:] = [False, True]  # the second to begin
    with kind(2) as pool:
        found = result.predict(12, rng=3, pool=pool)
    assert len(found) == 12
    with kind(2) as pool:
        same(run(simulate).predict(12, rng=3, pool=pool), found)
        same(result.predict(12, rng=3, pool=pool), found)


class Reused(Counted):
    """A simulator that writes into one array again and again, alone or in a dict."""

    whole = False
    x = np.empty(2)

    def made(self, x):
        self.x[:] = x
        return {"x": self.x, "y": 0.0} if self.whole else self.x


class ReusedRecord(Reused):
    """The same array in a dict."""

    whole = True


@pytest.mark.parametrize("kind", [Reused, ReusedRecord])
def test_predictions_of_a_simulator_that_reuses_its_array_are_each_their_own(kind):
    def sorted_sum(data):
        x = np.asarray(data["x"] if isinstance(data, dict) else data)
        x.sort()  # a summary that writes into the data
        return x.sum()

    observed = {"x": [1.0, -1.0], "y": 0.0} if kind is ReusedRecord else [1.0, -1.0]
    made = [
        abctree.rejection(
            abctree.Problem(PRIOR, simulator(), of, summary=summary), n_simulations=300, rng=1
        ).predict(9, rng=3)
        for simulator, of, summary in [
            (Counted, [1.0, -1.0], np.sum),
            (kind, observed, sorted_sum),
        ]
    ]
    plain, reused = ([d["x"] if isinstance(d, dict) else d for d in p.data] for p in made)
    np.testing.assert_array_equal(plain, reused)


@pytest.mark.parametrize("vectorized", [True, "seeds"])
def test_a_row_that_fails_does_not_lose_the_others_of_its_call(tmp_path, vectorized):
    def simulate(theta, source):
        if (theta[:, 0] < 0.0).any():
            raise ValueError("below zero")
        return theta * 2.0

    given = {"vectorized": vectorized, "batch_size": 16}
    one = abctree.Problem(PRIOR, simulate, [1.0, -1.0], **given)
    result = abctree.rejection(one, n_simulations=300, rng=1, store=tmp_path / "run")
    found = result.predict(40, rng=3, prior=True)
    assert 0 < found.n_failed == 40 - len(found) < 40
    assert (found.theta[:, 0] >= 0.0).all()
    np.testing.assert_array_equal(found.array, 2.0 * found.theta)
    same(result.predict(40, rng=3, prior=True), found)


def test_models_of_one_run_do_not_share_predictions(tmp_path):
    models = abctree.Models(
        {
            "low": abctree.Problem(PRIOR, Counted(), [1.0, -1.0]),
            "high": abctree.Problem(PRIOR, Counted(shift=2.0), [1.0, -1.0]),
        }
    )
    result = abctree.rejection(models, n_simulations=300, rng=1, store=tmp_path / "run")
    low, high = (
        result.of_model(name).predict(15, rng=3, prior=True).array for name in models.problems
    )
    np.testing.assert_allclose(high, low + 2.0)


@pytest.mark.slow
def test_replacing_a_run_on_the_command_line_removes_its_predictions(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOG", "log")
    again = (
        "run",
        "model:problem",
        "-n",
        "300",
        "--method",
        "rejection",
        "--rng",
        "1",
        "--out",
        "run",
        "--quiet",
        "--force",
    )
    for _ in range(2):
        made = command(*again)
        assert made.exit_code == 0, made.output
        folder = Path("run", "predictions")
        assert not folder.exists() or not list(folder.iterdir())
        monkeypatch.syspath_prepend(str(tmp_path))
        import model

        abctree.load("run", model.problem).predict(5)
        (file,) = folder.iterdir()
        assert len([json.loads(line) for line in file.read_text().splitlines()]) == 5
