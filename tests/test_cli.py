"""The command line: exit codes, files, messages; and the paragraph of the demo."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import abctree
from abctree import export, plots
from abctree.faces.cli import READY, answer, commands, options
from tests.conftest import command as call
from tests.runs import locked

STORED = {"run.json", "run.journal", "run.lock"}
FILES = {"summary.txt", "summary.csv", "summary.json", "posterior.csv", "posterior.png", *STORED}
PNG = b"\x89PNG"

MODEL = """
import abctree
import numpy as np


def simulate(theta, rng):
    return theta[:, :1] + rng.normal(size=(len(theta), 1))


ready = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, [1.0], vectorized=True)


def problem():
    return ready


def silent(theta, rng):
    return np.full((len(theta), 1), np.nan)


def nothing():
    return abctree.Problem({"mu": (-5.0, 5.0)}, silent, [1.0], vectorized=True)


def wrong_prior():
    return abctree.Problem({}, simulate, [1.0])


def broken():
    raise KeyError("no such file")


number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory that holds a model of the user's."""
    (tmp_path / "cli_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("cli_model", None)


@pytest.fixture
def plain(here, monkeypatch):
    """The same, and no time is spent on pictures."""
    monkeypatch.setattr(answer.Answer, "pictures", lambda self, directory: [])
    return here


def model(folder):
    """The user's module, as the command line finds it."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module("cli_model")


def draws(directory):
    """Header, and columns by name, of the draws that were written."""
    with (directory / "posterior.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    columns = np.array(rows, dtype=float).reshape(-1, len(header)).T
    return header, dict(zip(header, columns, strict=True))


# Help -------------------------------------------------------------------------------------------


def test_help_has_examples_and_names_every_problem():
    assert "abctree run lotka-volterra" in call("--help").stdout
    said = call("run", "--help").stdout
    assert all(name in said for name in ["module:name", *READY])


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from abctree.faces.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'scipy', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_version_is_that_of_the_package():
    assert call("--version").stdout == f"abctree, version {abctree.__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", READY)
def test_run_knows_its_ready_problems(plain, name):
    done = call("run", name, "-n", 120, "--rng", 1, "--quiet")
    assert done.exit_code == 0, done.output
    assert json.loads((plain / f"{name}-output" / "summary.json").read_text())["problem"] == name


@pytest.mark.parametrize(("kind", "drawn"), [("quick", True), ("slow", False), ("lost", False)])
def test_run_draws_what_a_series_is_predicted_to_be_if_that_takes_seconds(
    here, kind, drawn, monkeypatch
):
    most = np.inf if kind == "quick" else 1.0  # on any machine
    monkeypatch.setattr("abctree.faces.cli.answer._PATIENCE", most)
    (here / "series_model.py").write_text(
        "import abctree, numpy as np, time\n"
        f"kind, made = {kind!r}, []\n"
        "def simulate(theta, rng):\n"
        "    made.append(1)\n"
        "    if kind == 'slow': time.sleep(0.01)\n"
        "    if kind == 'lost' and len(made) > 100: raise ValueError('gone')\n"
        "    return theta + rng.normal(size=4)\n"
        "problem = abctree.Problem({'a': (-5.0, 5.0)}, simulate, np.zeros(4))\n"
    )
    settings = ("--n-pilot", 60, "--proposal", "boxes", "--quiet", "--out", "out")
    n = 70 if kind == "slow" else 100
    done = call("run", "series_model:problem", "-n", n, "--rng", 1, *settings)
    sys.modules.pop("series_model", None)
    assert done.exit_code == 0, done.output
    picture = here / "out" / "predictive.png"
    assert picture.exists() == drawn
    assert not drawn or picture.read_bytes().startswith(PNG)


def test_check_prints_the_dry_run_and_writes_nothing(here):
    before = {path.name for path in here.iterdir()}
    done = call("check", "cli_model:problem", "--rng", 1)
    assert done.exit_code == 0, done.output
    report = str(model(here).ready.check(1))
    timeless = [
        [line for line in text.splitlines() if not line.startswith("simulator")]
        for text in (report, done.stdout)
    ]
    assert timeless[0] == timeless[1]
    assert timeless[1][-1] == "No problem found."
    assert {path.name for path in here.iterdir()} - before <= {"__pycache__"}
    # The twin: a simulator of which nothing can be used.
    bad = call("check", "cli_model:nothing")
    assert (bad.exit_code, "Look at: 10 of 10 prior draws failed" in bad.stdout) == (1, True)
    assert call("check", "cli_model:absent").exit_code == 2


COMPILED = """
import gc
import abctree
from numba.core.registry import CPUDispatcher
from tests.conftest import command

def compiled():
    kernels = [one for one in gc.get_objects() if isinstance(one, CPUDispatcher)]
    return {(one.__module__, one.__name__, str(s)) for one in kernels for s in one.signatures}

print(command("warm-up").output)
ahead = compiled()
for method in (abctree.abc_tree, abctree.map_tree):
    method(abctree.problems.gauss(3), n_simulations=4_000, rng=1)
print(len(ahead) > 5, compiled() - ahead)
"""


@pytest.mark.slow
def test_warm_up_compiles_what_runs_of_both_methods_call():
    """In a process of its own: in this one other tests have compiled the same."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    abc, map_, _, compiled = done.stdout.splitlines()
    assert abc.startswith("abc-tree is compiled: ")
    assert map_.startswith("map-tree is compiled: ")
    assert compiled == "True set()"


# Files ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_run_writes_the_posterior_and_pictures(here):
    done = call("run", "gauss", "-n", 1500, "--rng", 1, "--out", "first")
    assert done.exit_code == 0, done.output
    out = here / "first"
    assert {path.name for path in out.iterdir()} == FILES | {"partition.png"}
    assert all(path.read_bytes().startswith(PNG) for path in out.glob("*.png"))
    assert (out / "summary.txt").read_text() == done.stdout
    header, column = draws(out)
    assert header == ["theta1", "theta2", "weight", "distance"]
    summary = json.loads((out / "summary.json").read_text())
    assert len(column["weight"]) == summary["n_draws"]
    assert column["weight"].sum() == pytest.approx(1.0)
    assert column["distance"].max() < summary["epsilon"]
    mean = column["weight"] @ column["theta1"]
    assert mean == pytest.approx(summary["parameters"]["theta1"]["mean"])


def test_run_has_no_picture_of_a_partition_beside_two_dimensions(here):
    done = call("run", "cli_model:problem", "-n", 400, "--rng", 1)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (here / "cli_model-output").iterdir()} == FILES


@pytest.mark.slow
def test_run_is_the_same_as_calling_the_library(plain):
    call("run", "cli_model:ready", "-n", 1200, "--rng", 7, "--ess", 90, "--partitioner", "cart",
         "--utility", "omega2", "--preset", "published", "--out", "a")  # fmt: skip
    cli_model = model(plain)
    result = abctree.abc_tree(cli_model.ready, n_simulations=1200, rng=7, partitioner="cart",
                              utility="omega2", preset="published")  # fmt: skip
    expected = result.posterior(ess=90)
    _, column = draws(plain / "a")
    np.testing.assert_array_equal(column["mu"], expected.theta[:, 0])
    np.testing.assert_array_equal(column["weight"], expected.weights)
    call("run", "cli_model:ready", "-n", 1200, "--rng", 7, "--ess", 90, "--out", "b")
    assert not np.array_equal(draws(plain / "b")[1]["mu"], column["mu"]), "settings must matter"


def test_run_with_the_seed_it_reports_is_the_same_run(plain):
    call("run", "cli_model:ready", "-n", 400, "--out", "a")
    seed = json.loads((plain / "a/summary.json").read_text())["seed"]
    call("run", "cli_model:ready", "-n", 400, "--rng", seed, "--out", "b")
    call("run", "cli_model:ready", "-n", 400, "--rng", seed + 1, "--out", "c")
    a, b, c = ((plain / name / "posterior.csv").read_text() for name in "abc")
    assert a == b != c


def test_run_reads_the_posterior_at_the_epsilon_asked_for(plain):
    call("run", "cli_model:ready", "-n", 600, "--rng", 1, "--epsilon", 0.75, "--out", "a")
    assert json.loads((plain / "a/summary.json").read_text())["epsilon"] == 0.75


@pytest.mark.slow
def test_run_stops_after_the_seconds_given(plain):
    call("run", "cli_model:ready", "-n", 2_000_000, "--rng", 1, "--seconds", 0.2, "--out", "a")
    summary = json.loads((plain / "a/summary.json").read_text())
    assert summary["stopped_because"] == "0.2 seconds passed"
    assert summary["n_simulations"] < 2_000_000


def test_run_without_matplotlib_writes_everything_else(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = call("run", "gauss", "-n", 300, "--rng", 1, "--out", "a")
    assert done.exit_code == 0
    assert "No pictures" in done.stderr
    assert "pip install abctree[plots]" in done.stderr
    assert {path.name for path in (here / "a").iterdir()} == FILES - {"posterior.png"}


@pytest.mark.slow
def test_run_twice_replaces_its_own_files_only(here):
    out = here / "gauss-output"
    first = call("run", "gauss", "-n", 200, "--rng", 1)
    (out / "notes.txt").write_text("mine")
    before = (out / "posterior.csv").read_text()
    second = call("run", "gauss", "-n", 200, "--rng", 2, "--force")
    assert second.exit_code == 0, second.output
    assert "replacing those of a former run" in second.stderr
    assert "replacing" not in first.stderr
    assert (out / "posterior.csv").read_text() != before
    assert (out / "notes.txt").read_text() == "mine"


def test_run_refuses_the_directory_of_another_problem_unless_forced(plain):
    call("run", "gauss", "-n", 200, "--rng", 1, "--out", "a")
    kept = (plain / "a/posterior.csv").read_text()
    refused = call("run", "cli_model:ready", "-n", 200, "--rng", 1, "--out", "a")
    assert refused.exit_code == 2
    assert "of a run of gauss" in refused.stderr
    assert (plain / "a/posterior.csv").read_text() == kept
    forced = call("run", "cli_model:ready", "-n", 200, "--rng", 1, "--out", "a", "--force")
    assert forced.exit_code == 0
    assert json.loads((plain / "a/summary.json").read_text())["problem"] == "cli_model:ready"


@pytest.mark.slow
def test_a_table_of_another_method_does_not_stay_in_the_folder(plain):
    common = ("run", "cli_model:ready", "-n", 200, "--rng", 1, "--out", "a", "--quiet")
    call(*common)
    assert (plain / "a/summary.csv").exists()
    assert call(*common, "--method", "map-tree", "--force").exit_code == 0
    assert not (plain / "a/summary.csv").exists(), "it was of the posterior"


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"problem": "gauss"}'])
def test_run_refuses_to_replace_files_that_are_not_its_own(plain, text):
    (plain / "a").mkdir()
    (plain / "a/summary.json").write_text(text)
    done = call("run", "gauss", "-n", 200, "--out", "a")
    assert done.exit_code == 2
    assert "of unknown origin" in done.stderr
    assert (plain / "a/summary.json").read_text() == text


# Output -----------------------------------------------------------------------------------------


def test_run_prints_the_summary_and_logs_every_round_on_stderr(plain):
    done = call("run", "cli_model:ready", "-n", 900, "--rng", 1)
    summary = json.loads((plain / "cli_model-ready-output/summary.json").read_text())
    row = next(line for line in done.stdout.splitlines() if line.startswith("mu "))
    assert float(row.split()[1]) == pytest.approx(summary["parameters"]["mu"]["mean"], rel=1e-3)
    logged = [line for line in done.stderr.splitlines() if line.startswith("round ")]
    assert [line.split()[1] for line in logged] == [str(r["round"]) for r in summary["rounds"]]
    assert "\r" not in done.stderr
    assert "900/900" in logged[-1]
    assert all(word in logged[0] for word in ("ε ", "acc ", "ESS ", "/s ", " left"))


def test_run_has_a_bar_on_a_terminal(plain, monkeypatch):
    monkeypatch.setattr("abctree.running.progress.somebody_looks", lambda: True)
    monkeypatch.setattr("abctree.running.progress._REFRESH", 0.0)
    done = call("run", "cli_model:ready", "-n", 1000, "--rng", 1)
    assert "1000 simulations in" in done.stdout
    shown = done.stderr.split("\r")
    rounds = len(json.loads((plain / "cli_model-ready-output/summary.json").read_text())["rounds"])
    assert len(shown) > rounds + 2, "blocks are shown, too"
    assert any(state.startswith("pilot") for state in shown)
    assert not any("\n" in state for state in shown[1:-1])
    assert shown[-1].startswith("Wrote")


def test_run_is_silent_on_stderr_when_quiet(plain):
    done = call("run", "cli_model:ready", "-n", 300, "--rng", 1, "--quiet")
    assert done.stderr == ""
    assert "mu" in done.stdout


def test_run_prints_json_that_says_what_was_asked(plain):
    done = call("run", "cli_model:ready", "-n", 300, "--rng", 5, "--json", "--ess", 20)
    printed = json.loads(done.stdout)
    assert printed["settings"] == {"n_simulations": 300, "ess": 20.0}
    assert (printed["seed"], printed["n_simulations"]) == (5, 300)
    assert sum(r["n_simulations"] for r in printed["rounds"]) < 300, "the pilot is no round"
    assert printed == json.loads((plain / "cli_model-ready-output/summary.json").read_text())


def test_run_where_nothing_is_accepted_exits_with_one(here):
    done = call("run", "gauss", "-n", 300, "--rng", 1, "--epsilon", 1e-12, "--out", "a")
    assert done.exit_code == 1
    assert "Nothing was accepted below epsilon 1e-12" in done.stderr
    assert "Traceback" not in done.output
    summary = json.loads((here / "a/summary.json").read_text())
    assert summary["n_draws"] == 0
    assert summary["parameters"]["theta1"]["mean"] is None
    assert draws(here / "a")[1]["weight"].tolist() == []
    assert (here / "a/posterior.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("cli_model:nothing", 1, "pilot simulations failed"),
        ("cli_model:wrong_prior", 1, "`prior` must be a dict with at least one parameter"),
        ("cli_model:broken", 1, "raised KeyError: 'no such file'"),
        ("cli_model:broken", 1, "cli_model.py, line 30)"),
        ("cli_syntax:problem", 1, "Importing cli_syntax raised SyntaxError"),
        ("cli_import:problem", 1, "Importing cli_import raised ModuleNotFoundError"),
        ("cli_absent:problem", 2, "There is no module 'cli_absent'"),
        ("cli_model:absent", 2, "cli_model has no 'absent'"),
        ("cli_model:number", 2, "must be an abctree.Problem or a function that returns one"),
        ("cli_model:", 2, "or module:name, but got 'cli_model:'"),
        ("./cli_model.py:problem", 2, "the file './cli_model.py:problem'. Write cli_model:"),
        ("cli_model.py:problem", 2, "Write cli_model:problem."),
        ("./cli_model:problem", 2, "Write cli_model:problem."),
        ("sub/cli_model.py:problem", 2, "Write sub.cli_model:problem."),
        ("/tmp/cli_model.py:problem", 2, "Change to /tmp and write cli_model:problem."),
        ("../cli_model.py:problem", 2, "Change to .. and write cli_model:problem."),
        ("lotka-voltera", 2, "PROBLEM must be one of gaussian-mixture"),
    ],
)
def test_run_explains_a_problem_that_cannot_be_used(plain, target, code, said):
    (plain / "cli_syntax.py").write_text("def problem(:\n")
    (plain / "cli_import.py").write_text("import cli_nowhere\n")
    done = call("run", target, "-n", 200, "--rng", 1)
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""
    if code == 2:
        assert not list(plain.glob("*-output")), "no directory is made for nothing"


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("seed", "rng"),
        ("random-state", "rng"),
        ("n-sims", "n-simulations"),
        ("num-simulations", "n-simulations"),
        ("quotaa", "quota"),
    ],
)
def test_a_foreign_option_or_key_is_told_the_right_one(plain, word, right):
    done = call("run", "gauss", f"--{word}", 3)
    assert done.exit_code == 2
    assert f"Did you mean '--{right}'?" in " ".join(done.stderr.split())
    key, ours = word.replace("-", "_"), right.replace("-", "_")
    (plain / "a.toml").write_text(f'[problem]\nname = "gauss"\n[settings]\n{key} = 3\n')
    done = call("run", "--config", "a.toml")
    assert done.exit_code == 2
    assert f"{key!r} is not a key of [settings]. Did you mean {ours}?" in done.stderr


FAULTY = """
import json
import sys
import numpy as np
import abctree


def right(theta, rng):
    return rng.normal(theta[0])


def boom(*given):
    raise ZeroDivisionError("two\\nlines")


def far(*given):
    return json.loads("{")


def problem(simulator=right, prior=None, **more):
    prior = None if "prior_transform" in more else prior or {"mu": (-5.0, 5.0)}
    return abctree.Problem(prior, simulator, 1.0, **more)


class Prior:
    names, d, from_cube = ("mu",), 1, boom

    def to_cube(self, theta):
        return theta

    def log_volume(self, lower, upper):
        return np.zeros(len(lower))


def nothing():
    return problem(lambda theta, rng: None)


def not_a_number():
    return problem(lambda theta, rng: float("nan"))


def text():
    return problem(lambda theta, rng: "1.5")


def shape():
    return problem(lambda theta, rng: [1.0])


def simulator_raises():
    return problem(boom)


def json_in_it_raises():
    return problem(far)


def simulator_exits():
    return problem(lambda theta, rng: sys.exit("bye"))


def summary_raises():
    calls = iter([0.0])
    return problem(summary=lambda x: next(calls))


def summary_raises_at_once():
    return problem(summary=boom)


def distance_raises():
    return problem(distance=boom)


def distance_is_negative():
    return problem(distance=lambda x, y: -1.0)


def constraint_raises():
    return problem(constraint=boom)


def constraint_is_no_mask():
    return problem(constraint=lambda t: 3)


def transform_raises():
    return problem(prior_transform=boom, names=("mu",))


def prior_raises():
    return problem(prior=Prior())


def density_raises():
    return problem(prior=abctree.DensityPrior(boom, {"mu": (0.0, 1.0)}))


def wrong_keyword():
    return problem(seed=1)


def takes_one():
    return problem(lambda theta: theta)


def exits():
    sys.exit(3)
"""
#: Functions of the module above, what is said, and whether the line to blame is named.
FAULTS = {
    "nothing": ("simulator returned None", False),
    "not_a_number": ("simulator returned nan or inf", False),
    "text": ("simulator returned str, not numbers", False),
    "shape": ("Return the number itself, as float(x)", False),
    "simulator_raises": ("ZeroDivisionError: two lines", True),
    "json_in_it_raises": ("JSONDecodeError", True),
    "simulator_exits": ("SystemExit: bye", True),
    "summary_raises": ("summary raised StopIteration", True),
    "summary_raises_at_once": ("The summary raised ZeroDivisionError", True),
    "distance_raises": ("distance raised ZeroDivisionError: two lines", True),
    "distance_is_negative": ("negative", False),
    "constraint_raises": ("`constraint` must work on whole columns, but raised Zero", True),
    "constraint_is_no_mask": ("`constraint` must return", False),
    "transform_raises": ("raised ZeroDivisionError: two lines", True),
    "prior_raises": ("raised ZeroDivisionError: two lines", True),
    "density_raises": ("raised ZeroDivisionError: two lines", True),
    "wrong_keyword": ("`Problem` has no argument `seed`", True),
    "takes_one": ("`simulator` must take two arguments", True),
    "exits": ("raised SystemExit: 3", True),
}


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_of_the_user_s_is_one_line_without_a_traceback(plain, fault, command):
    (plain / "cli_faulty.py").write_text(FAULTY)
    said, blames = FAULTS[fault]
    more = ("--rng", 1) if command == "check" else ("-n", 200, "--rng", 1, "--out", "a", "--quiet")
    done = call(command, f"cli_faulty:{fault}", *more)
    sys.modules.pop("cli_faulty", None)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    if command == "check" and "Look at: " in done.stdout:  # a fault that a report tells of
        assert said in done.stdout
        return
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("Error: ")]
    assert done.stderr.rstrip().endswith(line)
    assert said in line
    assert ("cli_faulty.py, line " in line) == blames


def test_an_error_of_ours_under_the_command_line_keeps_its_traceback(plain, monkeypatch):
    """The twin: what is no fault of the user's must not be said to be one."""
    monkeypatch.setattr("abctree.faces.cli.answer.Answer.of", None)
    done = call("run", "cli_model:ready", "-n", 200, "--rng", 1, "--out", "a", "--quiet")
    assert isinstance(done.exception, TypeError)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", 1.0, "--ess", 10),
        ("-n", 1),
        ("-n", "many"),
        ("--preset", "unpublished"),
        ("--seconds", 0),
        ("--rng", -1),
        ("--out", "cli_model.py"),
        ("--what",),
    ],
)
def test_run_exits_with_two_on_wrong_usage(plain, arguments):
    done = call("run", "cli_model:ready", *arguments)
    assert done.exit_code == 2
    assert "Error: " in done.stderr


@pytest.mark.slow
def test_run_finds_a_module_in_the_working_directory_of_a_process(here):
    code = "from abctree.faces.cli import main; main()"
    package = Path(abctree.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "run", "cli_model:ready", "-n", "200", "--quiet"],
        capture_output=True, text=True, check=False, timeout=100, cwd=here,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mu" in done.stdout


# Runs that survive ------------------------------------------------------------------------------

FRAGILE = """
import os, signal
import numpy as np
import abctree

calls = 0


def simulate(theta, rng):
    global calls
    calls += 1
    if calls > 20 and os.path.exists("fragile"):
        os.kill(os.getpid(), signal.SIGKILL)
    return theta[:, :1] + rng.normal(size=(len(theta), 1))


problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, [1.0], vectorized=True)
"""


@pytest.mark.slow
def test_resume_after_a_kill_is_the_run_without_it(plain, monkeypatch):
    (plain / "cli_fragile.py").write_text(FRAGILE)
    (plain / "fragile").touch()
    asked = ["run", "cli_fragile:problem", "-n", "1500", "--ess", "90", "--out"]
    killed = subprocess.run(
        [sys.executable, "-P", "-c", "from abctree.faces.cli import main; main()",
         *asked, "a", "--rng", "7", "--quiet"],
        capture_output=True, text=True, check=False, timeout=100, cwd=plain,
        env={**os.environ, "PYTHONPATH": str(Path(abctree.__file__).parent.parent)},
    )  # fmt: skip
    assert killed.returncode == -9, killed.stderr
    (plain / "fragile").unlink()
    assert {path.name for path in (plain / "a").iterdir()} >= STORED
    assert not (plain / "a/summary.json").exists()
    refused = call(*asked, "a", "--rng", 7)
    assert refused.exit_code == 2
    assert "an unfinished run of cli_fragile:problem: " in refused.stderr
    assert "of 1500 simulations. Go on with it by: abctree resume a. Or" in refused.stderr
    so_far = call("summary", "a", "--json")
    assert json.loads(so_far.stdout)["stopped_because"].startswith("unfinished: ")
    assert call("resume", "a").exit_code == 0
    assert call(*asked, "b", "--rng", 7).exit_code == 0
    assert call(*asked, "c", "--rng", 8).exit_code == 0
    a, b, c = ((plain / name / "posterior.csv").read_text() for name in "abc")
    assert a == b, "a kill must not change a digit"
    assert a != c
    settings = json.loads((plain / "a/summary.json").read_text())["settings"]
    assert settings == {"n_simulations": 1500, "ess": 90.0}, "what was asked for is remembered"
    assert call(*asked, "a", "--rng", 7).exit_code == 0, "a finished run may be repeated"
    sys.modules.pop("cli_fragile", None)


def interrupted(monkeypatch, *arguments):
    """A run in which Ctrl-C is pressed after 3000 simulations."""
    simulate = abctree.problem.simulators.Model.arguments
    calls = []

    def counted(self, theta, *rest):
        calls.append(len(theta))
        if sum(calls) > 3000:
            raise KeyboardInterrupt
        return simulate(self, theta, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(abctree.problem.simulators.Model, "arguments", counted)
        return call("run", "cli_model:ready", *arguments)


def simulations(folder):
    return json.loads(call("summary", folder, "--json").stdout)["n_simulations"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["Ctrl-C", "seconds"])
def test_run_does_not_replace_one_with_less_than_its_budget(plain, monkeypatch, end):
    asked = ("-n", 2_000_000, "--rng", 1, "--out", "a", "--quiet")
    if end == "seconds":
        first = call("run", "cli_model:ready", *asked, "--seconds", 0.2)
    else:
        first = interrupted(monkeypatch, *asked)
    assert first.exit_code == 0, first.output
    n = simulations("a")
    assert 0 < n < 2_000_000
    before = (plain / "a/run.journal").read_bytes()
    for again in (asked, ("-n", 300, "--rng", 1, "--out", "a"), ("--out", "a", "--no-store")):
        refused = call("run", "cli_model:ready", *again)
        assert refused.exit_code == 2
        said = f"an unfinished run of cli_model:ready: {n} of 2000000 simulations. Go on with it by"
        assert f"{said}: abctree resume a. Or" in refused.stderr
        assert "--force" in refused.stderr
        assert (plain / "a/run.journal").read_bytes() == before
    # The twin: told to, it does replace it.
    assert call("run", "cli_model:ready", "-n", 300, "--out", "a", "--force").exit_code == 0
    assert simulations("a") == 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "differing"),
    [
        (("--rng", 2), "seed"),
        ((), "seed"),
        (("--rng", 1, "-n", 500), "budget"),
        (("--rng", 1, "--quota", 7), "settings"),
        (("--rng", 1, "--partitioner", "cart"), "settings"),
        (("--rng", 2, "--seconds", 900), "seed and settings"),
        (("--rng", 1, "--no-store"), "store"),
    ],
)
def test_run_replaces_no_finished_one_from_which_it_differs(plain, other, differing):
    common = ("run", "cli_model:ready", "-n", 200, "--proposal", "boxes", "--out", "a", "--quiet")
    call(*common, "--rng", 1)
    before = (plain / "a/run.journal").read_bytes()
    refused = call(*common, *other)
    assert refused.exit_code == 2
    said = f"a finished run of cli_model:ready, from which this one differs in {differing}. Name"
    assert said in refused.stderr
    assert (plain / "a/run.journal").read_bytes() == before
    # The twin: by force.
    assert call(*common, *other, "--force").exit_code == 0


@pytest.mark.slow
def test_run_replaces_a_finished_one_by_its_repetition(plain):
    """Even if it is made by others and read otherwise."""
    common = ("run", "cli_model:ready", "-n", 200, "--rng", 1, "--out", "a", "--quiet")
    call(*common)
    draws = (plain / "a/posterior.csv").read_bytes()
    assert call(*common).exit_code == 0
    assert (plain / "a/posterior.csv").read_bytes() == draws
    assert call(*common, "--workers", 2, "--epsilon", 1).exit_code == 0


def test_run_replaces_nothing_where_the_executor_of_a_file_is_wrong(plain):
    common = ("run", "cli_model:ready", "-n", 300, "--rng", 1, "--out", "a", "--quiet")
    call(*common)
    (plain / "run.toml").write_text("\ufeff[settings]\nexecutor = 'treads'", encoding="utf-8")
    done = call(*common, "--config", "run.toml", "--force")
    assert (done.exit_code, "`executor` must be" in done.stderr) == (2, True), done.stderr
    assert simulations("a") == 300


def test_run_writes_where_it_was_told_to_whatever_directory_the_module_and_its_simulator_are_in(
    plain, tmp_path_factory
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    going = "import os\nos.chdir({!r})\n"
    simulator = going.format(str(elsewhere / "deeper")).replace("\n", "\n    ")
    (elsewhere / "deeper").mkdir()
    (plain / "going_model.py").write_text(
        f"import abctree, numpy as np\n{going.format(str(elsewhere))}\n"
        f"def simulate(theta, rng):\n    {simulator}\n    return theta + rng.normal(size=1)\n"
        "problem = abctree.Problem({'a': (-5.0, 5.0)}, simulate, np.zeros(1))\n"
    )
    done = call("run", "going_model:problem", "-n", 200, "--rng", 1, "--out", "out")
    os.chdir(plain)
    sys.modules.pop("going_model", None)
    assert done.exit_code == 0, done.output
    assert (plain / "out" / "summary.txt").exists()
    assert [file.name for file in elsewhere.rglob("*")] == ["deeper"]


def test_run_does_not_replace_one_of_other_code(plain):
    common = ("run", "cli_model:ready", "-n", 300, "--rng", 1, "--out", "a", "--quiet")
    call(*common)
    sys.modules.pop("cli_model")
    (plain / "cli_model.py").write_text(MODEL.replace("theta[:, :1] +", "2.0 * theta[:, :1] +"))
    importlib.invalidate_caches()
    refused = call(*common)
    assert refused.exit_code == 2
    assert "this one differs in code of the problem" in refused.stderr
    # The twin: the former code again.
    sys.modules.pop("cli_model")
    (plain / "cli_model.py").write_text(MODEL)
    assert call(*common).exit_code == 0


def test_run_without_store_is_replaced_only_by_its_repetition(plain):
    common = ("run", "cli_model:ready", "-n", 300, "--out", "a", "--no-store", "--quiet")
    call(*common, "--rng", 1)
    refused = call(*common, "--rng", 2)
    assert (refused.exit_code, "differs in seed or settings" in refused.stderr) == (2, True)
    assert call(*common, "--rng", 1).exit_code == 0
    for name in FILES - STORED:  # killed before it wrote anything
        (plain / "a" / name).unlink(missing_ok=True)
    assert call(*common, "--rng", 2).exit_code == 0


def test_run_that_goes_on_is_not_replaced_by_its_beginning(plain):
    common = ("run", "cli_model:ready", "-n", 300, "--rng", 1, "--out", "a", "--quiet")
    call(*common)
    call("resume", "a", "-n", 500)
    refused = call(*common)
    assert (refused.exit_code, "differs in budget" in refused.stderr) == (2, True)
    assert simulations("a") == 500


def test_resume_with_a_larger_budget_keeps_what_was_simulated(plain):
    cli_model = model(plain)
    call("run", "cli_model:ready", "-n", 400, "--rng", 3, "--out", "a")
    first = abctree.load("a", cli_model.ready).table.theta.copy()
    done = call("resume", "a", "-n", 700, "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert (plain / "a/summary.txt").read_text() == done.stdout
    np.testing.assert_array_equal(abctree.load("a", cli_model.ready).table.theta[:400], first)
    summary = json.loads((plain / "a/summary.json").read_text())
    assert (summary["n_simulations"], summary["settings"]) == (700, {"n_simulations": 700})
    less = call("resume", "a", "-n", 500)
    assert less.exit_code == 1
    assert "at least the budget of the run, 700" in less.stderr
    assert json.loads((plain / "a/summary.json").read_text()) == summary


@pytest.mark.slow
def test_resume_and_run_are_the_same_with_workers(plain):
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a")
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "b", "--workers", 2)
    assert (plain / "a/posterior.csv").read_text() == (plain / "b/posterior.csv").read_text()
    done = call("resume", "b", "--workers", 2)
    assert done.exit_code == 0, done.output
    assert (plain / "a/posterior.csv").read_text() == (plain / "b/posterior.csv").read_text()


def test_run_on_a_terminal_leaves_a_folder_that_the_library_resumes(plain, monkeypatch):
    cli_model = model(plain)
    monkeypatch.setattr("abctree.running.progress.somebody_looks", lambda: True)
    seconds = ("--seconds", 1000)
    done = call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a", *seconds)
    assert done.exit_code == 0, done.output
    assert len(abctree.resume("a", cli_model.ready, n_simulations=400).table) == 400
    assert call("resume", "a", "-n", 500).exit_code == 0
    assert json.loads((plain / "a/summary.json").read_text())["n_simulations"] == 500


def test_run_without_store_cannot_be_resumed(plain):
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a", "--no-store")
    assert not (plain / "a/run.journal").exists()
    done = call("resume", "a")
    assert done.exit_code == 1
    assert "holds no run" in done.stderr


def test_run_replaces_nothing_if_it_cannot_start(plain):
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a")
    before = {file.name: file.read_bytes() for file in (plain / "a").iterdir()}
    (plain / "bad.toml").write_text('[settings]\npartitioner = "oak"\n')
    again = ("run", "cli_model:ready", "-n", 300, "--rng", 4, "--out", "a", "--force")
    bad = call(*again, "--config", "bad.toml")
    assert (bad.exit_code, "`partitioner` must" in bad.stderr) == (2, True)
    with locked(plain / "a"):
        busy = call(*again)
    assert (busy.exit_code, "Error: " in busy.stderr) == (1, True)
    for name in FILES - {"posterior.png", "run.lock"}:
        assert (plain / "a" / name).read_bytes() == before[name], name
    assert call(*again).exit_code == 0
    assert (plain / "a/posterior.csv").read_bytes() != before["posterior.csv"]


def test_summary_is_that_of_the_run_and_can_be_read_elsewhere(plain):
    call("run", "cli_model:ready", "-n", 600, "--rng", 3, "--out", "a")
    written = json.loads((plain / "a/summary.json").read_text())
    before = (plain / "a/summary.json").read_bytes()
    printed = json.loads(call("summary", "a", "--json").stdout)
    assert {**printed, "seconds": 0} == {**written, "seconds": 0}
    assert json.loads(call("summary", "a", "--json", "--epsilon", 0.9).stdout)["epsilon"] == 0.9
    assert "mu" in call("summary", "a").stdout
    assert (plain / "a/summary.json").read_bytes() == before
    assert call("summary", "a", "--epsilon", 1, "--ess", 9).exit_code == 2
    assert call("summary", "nowhere").exit_code == 2


def test_summary_of_a_folder_of_the_library_needs_the_problem(plain):
    cli_model = model(plain)
    abctree.abc_tree(cli_model.ready, n_simulations=300, rng=1, store="a")
    done = call("summary", "a")
    assert done.exit_code == 2
    assert "Add --problem" in done.stderr
    done = call("summary", "a", "--problem", "cli_model:ready", "--json")
    assert json.loads(done.stdout)["n_simulations"] == 300
    assert json.loads(done.stdout)["seed"] is None, "it is not in the folder"
    (plain / "empty").mkdir()
    assert "holds no run" in call("summary", "empty").stderr
    other = call("summary", "a", "--problem", "gauss")
    assert (other.exit_code, "`problem` must have" in other.stderr) == (1, True)
    assert call("run", "cli_model:ready", "--out", "a").exit_code == 2, "it is not ours to replace"
    rest = ("--problem", "cli_model:ready", "-n", 400)
    assert call("resume", "a", *rest).exit_code == 0
    assert json.loads(call("resume", "a", "--json").stdout)["n_simulations"] == 400


@pytest.mark.slow
def test_plot_draws_into_the_folder_named(here):
    pytest.importorskip("matplotlib.figure")
    call("run", "gauss", "-n", 600, "--rng", 1, "--out", "a")
    (here / "a/posterior.png").unlink()
    done = call("plot", "a", "--to", "b")
    assert done.exit_code == 0, done.output
    names = {"posterior.png", "progress.png", "partition.png"}
    assert {path.name for path in (here / "b").iterdir()} == names
    assert all(path.read_bytes().startswith(PNG) for path in (here / "b").iterdir())
    assert not (here / "a/progress.png").exists()


FAILING = """
import abctree

def simulate(theta, rng):
    return None if theta[0] > 3.0 else theta + rng.normal(size=2)

problem = abctree.Problem({"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, simulate, [1.0, 1.0])
"""


@pytest.mark.slow
def test_plot_draws_failures_if_there_are_any(here):
    pytest.importorskip("matplotlib.figure")
    (here / "failing_model.py").write_text(FAILING)
    call("run", "failing_model:problem", "-n", 400, "--rng", 1, "--out", "a")
    assert "failures.png" in call("plot", "a").stderr
    assert (here / "a/failures.png").read_bytes().startswith(PNG)
    assert "failures" in call("plot", "--help").stdout
    # Like all that is drawn of a run, they go when it goes on.
    call("resume", "a", "-n", 500, "--quiet")
    assert not (here / "a/failures.png").exists()


@pytest.mark.slow
def test_folders_of_other_methods_are_read_and_go_on(plain):
    pytest.importorskip("matplotlib.figure")
    ready = model(plain).ready
    abctree.smc(ready, n_simulations=300, n_particles=20, rng=1, store="smc")
    abctree.rejection(ready, n_simulations=300, keep=30, rng=1, store="rejection")
    abctree.map_tree(ready, n_simulations=300, rng=1, store="mode")
    named = ("--problem", "cli_model:ready")
    for name in ("smc", "rejection", "mode"):
        assert "300 simulations" in call("summary", name, *named).stdout
        assert call("plot", name, *named, "--to", "drawn").exit_code == 0
        done = call("resume", name, *named, "-n", 400, "--json", "--quiet")
        assert json.loads(done.stdout)["n_simulations"] == 400
        assert "400 simulations" in call("summary", name).stdout, "the problem is remembered now"
    assert json.loads((plain / "mode/run.json").read_text())["method"] == "map_tree"
    refused = call("summary", "mode", "--ess", 50)
    assert (refused.exit_code, "Use --epsilon" in refused.stderr) == (2, True)
    assert call("export", "mode", "--format", "arviz", "--to", "x.nc").exit_code == 2


@pytest.mark.slow
def test_plot_of_a_run_that_ended_in_its_pilot(here):
    pytest.importorskip("matplotlib.figure")
    done = call("run", "gauss", "-n", 2_000_000, "--rng", 1, "--seconds", 1e-6, "--out", "a")
    assert done.exit_code == 0, done.output
    summary = json.loads(call("summary", "a", "--json").stdout)
    assert summary["stopped_because"] == "1e-06 seconds passed"
    assert summary["n_simulations"] < 40_000, "the pilot alone has so many"
    assert call("plot", "a").exit_code == 0


@pytest.mark.slow
def test_export_writes_what_the_run_found(plain):
    call("run", "cli_model:ready", "-n", 600, "--rng", 3, "--out", "a")
    assert call("export", "a", "--format", "csv", "--to", "draws.csv").exit_code == 0
    assert (plain / "draws.csv").read_text() == (plain / "a/posterior.csv").read_text()
    taken = call("export", "a", "--format", "npz", "--to", "draws.csv")
    assert (taken.exit_code, "add --force" in taken.stderr) == (2, True)
    assert call("export", "a", "--format", "csv", "--all", "--to", "all.csv").exit_code == 0
    assert len((plain / "all.csv").read_text().splitlines()) == 601
    assert call("export", "a", "--format", "npz", "--to", "run.data").exit_code == 0
    with np.load(plain / "run.data", allow_pickle=False) as found:
        assert found["theta"].shape == (600, 1)
    assert call("export", "a", "--format", "arviz", "--all", "--to", "x.nc").exit_code == 2
    assert call("export", "a", "--format", "xml", "--to", "x").exit_code == 2
    assert call("export", "a", "--to", "by-name.CSV").exit_code == 0
    assert (plain / "by-name.CSV").read_text() == (plain / "a/posterior.csv").read_text()
    assert call("export", "a", "--to", "by-name.npz").exit_code == 0
    with np.load(plain / "by-name.npz", allow_pickle=False) as found:
        assert found["theta"].shape == (600, 1)
    refused = call("export", "a", "--to", "by-name")
    assert (refused.exit_code, "must end in .csv, .npz, .nc" in refused.stderr) == (2, True)


def test_export_for_arviz_says_what_is_missing(plain, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a")
    done = call("export", "a", "--format", "arviz", "--to", "x.nc")
    assert done.exit_code == 1
    assert "pip install arviz" in done.stderr


# Other methods ----------------------------------------------------------------------------------

#: Options of each method that change its result, and the same in Python.
METHODS = {
    "map-tree": (
        ("--policy", "thompson", "--schedule", "0.8", "--defensive", 0.2),
        {"policy": "thompson", "schedule": 0.8, "defensive": 0.2},
    ),
    "smc": (
        ("--n-particles", 30, "--kernel", "componentwise", "--schedule", "2,1,0.5", "--block", 20),
        {"n_particles": 30, "kernel": "componentwise", "schedule": [2.0, 1.0, 0.5], "block": 20},
    ),
    "rejection": (("--keep", 40, "--lookahead", 0), {"keep": 40, "lookahead": 0}),
}


def written(directory, whole="all.csv"):
    """All simulations of a run, as text."""
    done = call("export", directory, "--format", "csv", "--all", "--force", "--to", whole)
    assert done.exit_code == 0, done.output
    return Path(whole).read_text()


@pytest.mark.parametrize("method", METHODS)
def test_run_of_a_method_is_the_same_as_calling_the_library(plain, method):
    options, settings = METHODS[method]
    common = ("cli_model:ready", "-n", 900, "--rng", 7, "--method", method, "--quiet")
    done = call("run", *common, *options, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["method"] == method.replace("-", "_")
    assert said["settings"] == {"n_simulations": 900, **settings}
    function = getattr(abctree, said["method"])
    expected = function(model(plain).ready, n_simulations=900, rng=7, **settings)
    export.to_csv(getattr(expected, "run", expected), "python.csv")
    assert written(f"cli_model-ready-{method}-output") == (plain / "python.csv").read_text()
    call("run", *common, "--out", "b")
    assert written("b") != (plain / "python.csv").read_text(), "settings must matter"


@pytest.mark.parametrize(
    ("method", "option", "said"),
    [
        ("smc", ("--utility", "ess"), "--utility is not a setting of smc, which has --n-particles"),
        ("rejection", ("--quota", 9), "rejection, which has --keep, --chunk, --lookahead."),
        ("map-tree", ("--utility", "ess"), "not a setting of map-tree, which has --policy"),
        ("map-tree", ("--ess", 50), "--ess reads a posterior, and this is a run of map-tree."),
        ("abc-tree", ("--keep", 9), "--keep is not a setting of abc-tree, which has --utility"),
        ("smc", ("--schedule", "2,low"), "'2,low' is no list of numbers"),
        ("nuts", (), "'nuts' is not one of 'abc-tree', 'map-tree', 'smc', 'rejection'"),
    ],
)
def test_run_says_what_a_method_does_not_have(plain, method, option, said):
    done = call("run", "cli_model:ready", "--method", method, *option)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert not list(plain.glob("*-output"))


@pytest.mark.parametrize("method", ["map-tree", "smc", "rejection"])
def test_run_finds_wrong_settings_of_a_method_before_it_replaces(plain, method):
    common = ("run", "cli_model:ready", "-n", 300, "--method", method, "--out", "a")
    call(*common, "--rng", 1)
    before = (plain / "a/summary.json").read_bytes()
    (plain / "bad.toml").write_text("[settings]\non_failure = 'shrug'\n")
    bad = call(*common, "--config", "bad.toml")
    assert (bad.exit_code, "`on_failure` must" in bad.stderr) == (2, True)
    assert (plain / "a/summary.json").read_bytes() == before
    assert call(*common, "--rng", 2, "--force").exit_code == 0
    assert (plain / "a/summary.json").read_bytes() != before


def test_run_of_a_method_does_not_replace_that_of_another(plain):
    call("run", "gauss", "-n", 200, "--out", "a")
    other = ("run", "gauss", "-n", 200, "--method", "smc", "--out", "a")
    refused = call(*other)
    assert (refused.exit_code, "of a run of gauss" in refused.stderr) == (2, True)
    assert call(*other, "--force").exit_code == 0
    back = call("run", "gauss", "-n", 200, "--out", "a")
    assert (back.exit_code, "of a smc run of gauss" in back.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["abc-tree", "map-tree", "smc", "rejection"])
def test_pictures_of_a_method_are_those_that_make_sense(here, method):
    pytest.importorskip("matplotlib.figure")
    done = call("run", "gauss", "-n", 600, "--rng", 1, "--method", method, "--out", "a")
    assert done.exit_code == 0, done.output
    assert call("plot", "a", "--to", "b").exit_code == 0
    expected = {
        "abc-tree": {"posterior.png", "partition.png", "progress.png"},
        "map-tree": {"mode.png", "partition.png", "progress.png"},
        "smc": {"posterior.png", "progress.png"},
        "rejection": {"posterior.png"},
    }
    assert {path.name for path in (here / "b").iterdir()} == expected[method]


@pytest.mark.slow
def test_failures_are_drawn_unless_only_the_closest_are_kept(plain):
    pytest.importorskip("matplotlib.figure")
    (plain / "failing_model.py").write_text(FAILING)
    common = ("run", "failing_model:problem", "-n", 300, "--rng", 1, "--method", "rejection")
    for keep, drawn in (((), True), (("--keep", 50), False)):
        assert call(*common, *keep, "--out", "a", "--force").exit_code == 0
        done = call("plot", "a", "--to", "b")
        assert done.exit_code == 0, done.output
        assert ("failures.png" in done.stderr) == drawn


@pytest.mark.slow
def test_map_tree_prints_and_exports_its_mode(plain):
    common = ("run", "gauss", "-n", 3000, "--rng", 1, "--method", "map-tree", "--out", "a")
    done = call(*common)
    assert done.exit_code == 0, done.output
    result = abctree.load("a", abctree.problems.gauss())
    mode = result.mode()
    assert done.stdout == (plain / "a/summary.txt").read_text()
    head, rest = str(result.summary()).split("\n", 1)
    assert rest.rstrip() == done.stdout.split("\n", 1)[1].rstrip()
    assert "3000 simulations" in head
    said = json.loads(call("summary", "a", "--json").stdout)
    assert list(said["theta"].values()) == mode.theta.tolist()
    assert said["n_accepted"] == mode.n_accepted
    with (plain / "a/mode.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(mode.candidates)
    assert [float(rows[0][name]) for name in mode.names] == mode.theta.tolist()
    assert [float(rows[0][f"se_{name}"]) for name in mode.names] == mode.standard_error.tolist()
    assert float(rows[0]["density"]) == 1.0
    assert call("export", "a", "--format", "npz", "--to", "run.npz").exit_code == 0
    with np.load(plain / "run.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["mode"], mode.theta)
        np.testing.assert_array_equal(found["mode_covariance"], mode.covariance)
        np.testing.assert_array_equal(found["mode_kernel"], mode.estimates["kernel"])
        assert found["candidate"].shape == (len(mode.candidates), 2)
        np.testing.assert_array_equal(found["theta"], result.table.theta)
    assert len(written("a").splitlines()) == 3001
    at = json.loads(call("summary", "a", "--json", "--epsilon", 1.5).stdout)
    assert (at["epsilon"], said["epsilon"] != 1.5) == (1.5, True)
    assert at["theta"] != said["theta"]


@pytest.mark.slow
def test_map_tree_where_nothing_is_accepted_exits_with_one(here):
    common = ("gauss", "-n", 300, "--rng", 1, "--method", "map-tree")
    done = call("run", *common, "--epsilon", 1e-12, "--out", "a")
    assert done.exit_code == 1, done.output
    assert "Nothing was accepted below epsilon 1e-12" in done.stderr
    summary = json.loads((here / "a/summary.json").read_text())
    assert summary["theta"] == {"theta1": None, "theta2": None}
    assert len((here / "a/mode.csv").read_text().splitlines()) == 1
    for name in ("mode.png", "partition.png"):
        assert (here / "a" / name).read_bytes().startswith(PNG)


@pytest.mark.slow
def test_mode_picture_has_its_ellipse_where_an_error_is_known():
    pytest.importorskip("matplotlib.figure")
    mode = abctree.map_tree(abctree.problems.gauss(), n_simulations=3000, rng=1).mode()
    for level, expected in ((0.5, 1.386), (0.9, 4.605)):  # quantiles of chi-squared, 2 degrees
        figure = plots.mode(mode, level)
        lines = {line.get_label(): line.get_xydata() for line in figure.axes[2].lines}
        np.testing.assert_array_equal(lines["mode"], [mode.theta])
        away = lines[f"mode, {level:.0%}"] - mode.theta
        square = np.sum(away * np.linalg.solve(mode.covariance, away.T).T, axis=1)
        np.testing.assert_allclose(square, expected, rtol=1e-3)
        inside = mode.theta + 0.99 * away, mode.theta + 1.01 * away
        assert [mode.contains(points[7], level) for points in inside] == [True, False]
    assert f"± {mode.standard_error[0]:.2g}" in figure.axes[0].get_title()
    unknown = dataclasses.replace(mode, covariance=None)
    assert [line.get_label() for line in plots.mode(unknown).axes[2].lines] == ["mode"]
    far = dataclasses.replace(mode, theta=np.array([90.0, 0.0]))
    low, high = plots.mode(far).axes[2].get_xlim()
    assert low < -1.0 < 90.0 < high, "the mode is shown wherever it is"
    with pytest.raises(abctree.ParameterError, match="`level` must"):
        plots.mode(mode, 90)


# Memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2e9), ("500M", 5e8), ("2GiB", 2**31), ("1.5gb", 1.5e9), ("3e8", 3e8), ("7 kib", 7168)],
)
def test_memory_is_read_with_units(text, size):
    assert options.as_bytes(text) == size


@pytest.mark.parametrize("text", ["much", "2X", "-1G", "0", "", "1.2.3G", "nan", "2GG"])
def test_memory_that_is_no_size_is_wrong_usage(plain, text):
    done = call("run", "cli_model:ready", "--workers", 2, "--memory", text)
    assert (done.exit_code, "is no size, such as" in done.stderr) == (2, True)


def test_memory_is_that_of_the_worker_processes(plain, monkeypatch):
    assert commands.executor_of(3, None) == 3
    assert commands.executor_of(3, 2e9).n_workers == 3
    assert commands.executor_of("processes", 2e9).memory == 2e9
    alone = call("run", "cli_model:ready", "--memory", "2G")
    assert (alone.exit_code, "Add --workers K" in alone.stderr) == (2, True)
    assert not list(plain.glob("*-output"))


@pytest.mark.slow
def test_run_with_little_memory_gives_the_same_draws(plain):
    if sys.platform != "linux":
        pytest.skip("a limit of memory needs Linux")
    call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "a")
    limited = ("--workers", 2, "--memory", "1G")
    done = call("run", "cli_model:ready", "-n", 300, "--rng", 3, "--out", "b", *limited)
    assert done.exit_code == 0, done.output
    assert (plain / "a/posterior.csv").read_text() == (plain / "b/posterior.csv").read_text()
    assert call("resume", "b", "-n", 350, *limited).exit_code == 0


# Settings from a file ---------------------------------------------------------------------------

CONFIG = """
[problem]
name = "cli_model:ready"

[settings]
n_simulations = 350
rng = 5
quota = 30
partitioner = "cart"
schedule = [2.0, 1.0, 0.5]
stop = { rounds = 2 }
"""


@pytest.mark.slow
def test_config_gives_problem_and_settings_and_options_win(plain):
    (plain / "run.toml").write_text(CONFIG)
    done = call("run", "--config", "run.toml", "-n", 400, "--json", "--quiet")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["problem"], found["seed"]) == ("cli_model:ready", 5)
    assert found["stopped_because"] == "2 rounds played"
    assert [r["epsilon"] for r in found["rounds"]] == [2.0, 1.0]
    assert found["settings"]["n_simulations"] == 400
    assert found["settings"]["quota"] == 30
    plan = abctree.load("cli_model-ready-output", sys.modules["cli_model"].ready).plan
    assert (plan.quota, plan.n_simulations) == (30, 400)
    again = call("resume", "cli_model-ready-output", "--quiet", "--json")
    assert json.loads(again.stdout)["stopped_because"] == "2 rounds played"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitioner = 'oak'", "`partitioner` must be one of"),
        ("schedule = 'oak'", "`schedule` must"),
        ("schedule = 1.5", "must be"),
        ("stop = { oaks = 3 }", "`stop` must give positive limits"),
        ("stop = { rounds = -3 }", "`stop` must give positive limits"),
        ("utility = 'oak'", "`utility` must be"),
        ("quota = 0", "`quota` must be"),
        ("method = 'smc'\nkernel = 'oak'", "`kernel` must be"),
        ("method = 'map-tree'\npolicy = 'oak'", "`policy` must be"),
        ("beliefs = 'oak'", "`beliefs` must be"),
    ],
)
def test_config_with_a_wrong_value_is_wrong_usage(plain, text, said):
    (plain / "run.toml").write_text(f"[settings]\n{text}")
    done = call("run", "cli_model:ready", "--config", "run.toml")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.output
    assert not list(plain.glob("*-output"))
    # The twin: where the simulator is wrong, the run has failed.
    (plain / "run.toml").write_text("[settings]\nn_simulations = 200")
    assert call("run", "cli_model:nothing", "--config", "run.toml").exit_code == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[settings]\nquotas = 3", "'quotas' is not a key of [settings]"),
        ("[problem]\nmodule = 'x'", "'module' is not a key of [problem]"),
        ("[setting]\nquota = 3", "'setting' is not a table"),
        ("settings = 3", "settings must be a table"),
        ("[settings]\nstore = 'x'", "'store' cannot be set in a file. Call abctree.abc_tree"),
        ("[settings]\nbeliefs = 3", "`beliefs` must be one of"),
        ("[settings]\nquota = true", "`quota` must be a whole number of at least 1, but got True"),
        (
            "[settings]\nquota = 'many'",
            "`quota` must be a whole number of at least 1, but got 'many'",
        ),
        ("[settings]\nschedule = ['a']", "schedule = ['a']: "),
        ("[settings]\nstop = { seconds = 'x' }", "stop = {'seconds': 'x'}: "),
        ("[problem]\nname = 3", "problem.name must be a string"),
        ("[settings]\nmethod = 'nuts'", "method must be one of abc-tree, map-tree, smc, rejection"),
        ("[settings]\nmethod = 3", "but got 3"),
        ("[settings]\nmethod = 'smc'\nquota = 3", "'quota' is not a setting of smc, which has"),
        ("[settings]\nmethod = 'smc'\nquotas = 3", "'quotas' is not a key of [settings]"),
        ("[settings", "cannot be read"),
    ],
)
def test_config_names_the_key_that_is_wrong(plain, text, said):
    (plain / "run.toml").write_text(text)
    done = call("run", "cli_model:ready", "--config", "run.toml")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not list(plain.glob("*-output"))


def test_config_names_the_method_and_options_win(plain):
    (plain / "run.toml").write_text(
        '[problem]\nname = "cli_model:ready"\n[settings]\nmethod = "map-tree"\nn_pilot = 150\n'
        'n_simulations = 400\npolicy = "t3c"\n'
    )
    done = call("run", "--config", "run.toml", "--json", "--quiet")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["method"] == "map_tree"
    assert said["settings"] == {"n_pilot": 150, "n_simulations": 400, "policy": "t3c"}
    plan = abctree.load("cli_model-ready-map-tree-output", sys.modules["cli_model"].ready).plan
    assert plan.n_pilot == 150
    other = call("run", "--config", "run.toml", "--method", "smc")
    assert other.exit_code == 2
    assert "'policy' is not a setting of smc, which has 'n_particles'" in other.stderr


def test_run_needs_a_problem(plain):
    (plain / "run.toml").write_text("[settings]\nquota = 3")
    for more in ((), ("--config", "run.toml")):
        done = call("run", *more)
        assert (done.exit_code, "Missing argument 'PROBLEM'" in done.stderr) == (2, True)


ALL_FAILING = """
import abctree

problem = abctree.Problem({"mu": (-5.0, 5.0)}, lambda theta, rng: None, [1.0])
"""


def test_folder_of_a_failed_pilot_says_how_to_start_anew(plain):
    (plain / "cli_failing.py").write_text(ALL_FAILING)
    asked = ["run", "cli_failing:problem", "-n", 400, "--rng", 1, "--out", "a", "--quiet"]
    failed = call(*asked)
    assert failed.exit_code == 1
    assert "holds failures only. To start anew" in failed.stderr
    again = call(*asked)
    assert again.exit_code == 2
    said = " ".join(again.stderr.split())
    assert "holds failures only: all 100 simulations of a run of cli_failing:problem failed" in said
    assert "add --force, or name another directory" in said
    for command in ("resume", "summary"):
        assert "holds failures only. To start anew" in call(command, "a").stderr
    sys.modules.pop("cli_failing")
    (plain / "cli_failing.py").write_text(ALL_FAILING.replace("None", "theta + rng.normal()"))
    assert call(*asked, "--force").exit_code == 0
    sys.modules.pop("cli_failing")
