"""A run of which the code changed on the way says so, whoever reads it and whenever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import abctree
from tests.conftest import command

PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
METHODS = {
    "abc_tree": partial(abctree.abc_tree, proposal="boxes"),
    "map_tree": abctree.map_tree,
    "smc": partial(abctree.smc, block=20),
    "rejection": abctree.rejection,
    "closest": partial(abctree.rejection, keep=50),
}


def first(theta, rng):
    return theta + rng.normal(size=2)


def second(theta, rng):
    return theta + rng.normal(size=2) + 1.0


def problem(simulator=first, **kwargs):
    return abctree.Problem(PRIOR, simulator, [1.0, -1.0], **kwargs)


def said(call):
    """The sentences of a call that are about code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(w.filename == __file__ for w in caught), "it points at the caller"
    return result, [str(w.message) for w in caught if "has changed" in str(w.message)]


def mixed(folder, method="abc_tree", then=None, now=None, **parts):
    """A run of two codes: 400 simulations of one, and 200 of the other."""
    then, now = then or problem(), now or problem(second)
    METHODS[method](then, n_simulations=400, rng=1, store=folder, **parts)
    return said(lambda: abctree.resume(folder, now, n_simulations=600, **parts))


def notes_of(result):
    return [note for note in result.warnings if "has changed" in note]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_everything_that_reads_a_run_of_two_codes_says_so(tmp_path, method):
    folder = tmp_path / "run"
    resumed, sentences = mixed(folder, method)
    assert len(sentences) == 1
    assert sentences[0].startswith("The simulator has changed after 400 simulations (it was ")
    assert ".first, and is " in sentences[0]
    for now in (problem(second), problem(first)):
        loaded, again = said(partial(abctree.load, folder, now))
        assert again == sentences
        for result in (resumed, loaded):
            assert notes_of(result) == sentences
            assert sentences[0] in str(result.summary())
            assert sentences[0] in json.dumps(result.summary().to_dict())
    for epsilon in (None, loaded.epsilon):
        assert loaded.mode(epsilon).notes.count(sentences[0]) == 1
    if method == "map_tree":
        assert sentences[0] in loaded.summary(ess=50).verdicts
    with pytest.warns(abctree.AbctreeWarning, match="after 400"):
        abctree.export.to_csv(loaded, tmp_path / "a.csv")
    abctree.export.to_npz(loaded, tmp_path / "a.npz")
    about = json.loads(str(np.load(tmp_path / "a.npz")["about"]))
    assert sentences[0] in about["notes"]


@pytest.mark.parametrize("method", METHODS)
def test_run_of_one_code_says_nothing(tmp_path, method):
    """The twin."""
    resumed, sentences = mixed(tmp_path / "run", method, now=problem())
    loaded, again = said(lambda: abctree.load(tmp_path / "run", problem()))
    assert sentences == again == notes_of(resumed) == notes_of(loaded) == []
    abctree.export.to_csv(loaded, tmp_path / "a.csv")


def far(s, o):
    return float(np.abs(s - o).max())


def farther(s, o):
    return float(2 * np.abs(s - o).max())


class Half:
    def optimal_proposal(self, eta, prior_mass):
        q = prior_mass * eta**0.5
        return q / q.sum() if q.sum() > 0 else prior_mass


class Same(Half):
    """Other text, same numbers."""


CHANGES = {
    "summary": (problem(summary=np.asarray), problem(summary=lambda x: 1.0 * np.asarray(x))),
    "distance": (problem(distance=far), problem(distance=farther)),
    "constraint": (
        problem(constraint=lambda t: t["a"] < 9.0), problem(constraint=lambda t: t["a"] < 8.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_every_piece_of_code_is_remembered(tmp_path, what):
    then, now = CHANGES[what]
    _, sentences = mixed(tmp_path / "run", then=then, now=now)
    assert [s.startswith(f"The {what} has changed after 400") for s in sentences] == [True]
    loaded, again = said(lambda: abctree.load(tmp_path / "run", now))
    assert again == sentences == notes_of(loaded)


def test_part_of_the_users_own_is_remembered(tmp_path):
    run = partial(abctree.abc_tree, problem(), rng=1, store=tmp_path / "x")
    run(n_simulations=400, utility=Half())
    resume = partial(abctree.resume, tmp_path / "x", problem(), n_simulations=600, utility=Same())
    _, sentences = said(resume)
    assert sentences[0].startswith("The utility has changed after 400 simulations (it was ")
    loaded, again = said(lambda: abctree.load(tmp_path / "x", problem(), utility=Same()))
    assert again == sentences == notes_of(loaded)


@pytest.mark.slow
def test_several_changes_are_told_in_their_order(tmp_path):
    folder = tmp_path / "run"
    mixed(folder)
    resume = partial(abctree.resume, folder, n_simulations=800)
    _, sentences = said(lambda: resume(problem(first)))  # back again
    assert [s.split("after ")[1].split(" ")[0] for s in sentences] == ["400", "600"]
    loaded, again = said(lambda: abctree.load(folder, problem(first)))
    assert again == sentences == notes_of(loaded)
    # The same code again adds nothing.
    _, more = said(lambda: abctree.resume(folder, problem(first), n_simulations=1000))
    assert more == sentences


def test_change_without_a_simulation_is_not_remembered(tmp_path):
    folder = tmp_path / "run"
    abctree.abc_tree(problem(), n_simulations=400, rng=1, store=folder)
    resumed, sentences = said(lambda: abctree.resume(folder, problem(second)))
    assert len(sentences) == 1  # it would be another code, if there were anything to do
    assert notes_of(resumed) == []
    assert said(lambda: abctree.load(folder, problem()))[1] == []
    _, unknown = said(lambda: abctree.load(folder, problem(second)))
    assert unknown[0].startswith("The simulator has changed since the run was made")
    _, sentences = said(lambda: abctree.resume(folder, problem(), n_simulations=600))
    assert sentences == []


class Cut:
    """Ends the run at a call, as a kill would."""

    def __init__(self, calls):
        self.calls = calls

    def chunks(self, work, rows):
        self.calls -= 1
        if self.calls < 0:
            raise RuntimeError("killed")
        return iter([(rows, work(rows))])


def test_change_of_a_run_that_was_killed_is_remembered(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(RuntimeError, match="killed"):
        abctree.abc_tree(problem(), n_simulations=600, rng=1, store=folder, executor=Cut(25))
    changed = pytest.warns(abctree.AbctreeWarning, match="has changed")
    with pytest.raises(RuntimeError, match="killed"), changed:
        abctree.resume(folder, problem(second), executor=Cut(3))
    loaded, sentences = said(lambda: abctree.load(folder, problem(second)))
    assert "The simulator has changed after " in sentences[0]
    at = int(sentences[0].split("after ")[1].split(" ")[0])
    assert 100 < at < loaded.n_simulations
    x, y = loaded.table.summary - loaded.table.theta, slice(None, at)
    assert x[y].mean() < 0.4 < 0.6 < x[at:].mean(), "it is the right row"


def test_session_remembers_a_change(tmp_path):
    def answered(session, n):
        while not session.done and session.n_told < n:
            ask = session.ask()
            session.tell(ask.numbers, data=ask.theta)
        return session

    made = [
        problem(abctree.elsewhere, summary=s) for s in (np.asarray, lambda x: 1.0 * np.asarray(x))
    ]
    answered(abctree.Session(made[0], n_simulations=400, rng=1), 150).save(tmp_path / "s")
    other, sentences = said(lambda: abctree.Session.load(tmp_path / "s", made[1]))
    assert [s.startswith("The summary has changed after ") for s in sentences] == [True]
    answered(other, 300).save(tmp_path / "s")
    last, again = said(lambda: abctree.Session.load(tmp_path / "s", made[1]))
    assert again == sentences == notes_of(answered(last, 400).result())


# One file, run and imported -------------------------------------------------------------------

MODEL = """
import sys
from dataclasses import dataclass

import abctree

LEVEL = 0.0


def noise(rng):
    return rng.normal(size=2) + LEVEL


@dataclass
class Simulator:
    scale: float

    def __call__(self, theta, rng):
        return theta + self.scale * noise(rng)


class Half:
    def optimal_proposal(self, eta, prior_mass):
        q = prior_mass * eta**0.5
        return q / q.sum() if q.sum() > 0 else prior_mass


def far(s, o):
    return abs(s - o).max()


problem = abctree.Problem(
    {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, Simulator(1.0), [1.0, -1.0],
    summary=lambda x: x, distance=far, constraint=lambda t: t["a"] < 4.5,
)

if __name__ == "__main__":
    abctree.abc_tree(problem, n_simulations=300, rng=1, store=sys.argv[1], utility=Half())
"""


def python(*arguments, cwd):
    path = str(Path(abctree.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=cwd, capture_output=True, text=True,
        check=False, timeout=100, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pkg").mkdir()
    for name in ("changed_m.py", "pkg/changed_n.py"):
        (tmp_path / name).write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("changed_m", "pkg", "pkg.changed_n"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["changed_m.py"], "changed_m"),
        (["pkg/changed_n.py"], "pkg.changed_n"),
        (["-m", "pkg.changed_n"], "pkg.changed_n"),
    ],
)
def test_file_that_is_run_is_the_code_that_is_imported(folder, arguments, module):
    python(*arguments, "run", cwd=folder)
    m = __import__(module, fromlist=["problem"])
    resume = partial(abctree.resume, folder / "run", m.problem, utility=m.Half())
    resumed, sentences = said(partial(resume, n_simulations=400))
    assert sentences == notes_of(resumed) == []
    # The twin: any of it is another.
    m.problem.model.simulator.scale = 2.0
    _, sentences = said(partial(resume, n_simulations=500))
    assert len(sentences) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default::abctree.AbctreeWarning")
def test_command_line_says_so(folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = MODEL.replace(", utility=Half()", "")
    (folder / "changed_m.py").write_text(text)
    assert command("run", "changed_m:problem", "-n", 300, "--out", "r", "--quiet").exit_code == 0
    sys.modules.pop("changed_m")
    (folder / "changed_m.py").write_text(text.replace("LEVEL = 0.0", "LEVEL = 0.25"))
    sentence = "The simulator has changed after 300 simulations (it is changed_m.Simulator)"
    for arguments in (
        ["resume", "r", "-n", 400, "--quiet"],
        ["summary", "r"],
        ["summary", "r", "--json"],
        ["summary", "r", "--ess", 30],
        ["export", "r", "--format", "csv", "--to", "r.csv"],
    ):
        done = command(*arguments)
        assert done.exit_code == 0
        assert done.stderr.count(f"Note: {sentence}") == 1
        assert "AbctreeWarning" not in done.stderr
        assert (sentence in done.stdout) == (arguments[0] != "export")
    assert sentence in (folder / "r/summary.txt").read_text()
    assert sentence in (folder / "r/summary.json").read_text()
