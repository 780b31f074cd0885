"""The command line: exit codes, files, messages; and the paragraph of the demo."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abctree
from abctree.analysis.posterior import Posterior
from abctree.data import Progress
from abctree.edges import cli, demo
from abctree.problems import hare_lynx, hare_lynx_data, hare_lynx_series

FILES = {"summary.txt", "summary.json", "posterior.csv", "posterior.png"}
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
    monkeypatch.setattr(cli._Answer, "_pictures", lambda self, directory: [])
    return here


def call(*arguments):
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


def draws(directory):
    """Header, and columns by name, of the draws that were written."""
    with (directory / "posterior.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    columns = np.array(rows, dtype=float).reshape(-1, len(header)).T
    return header, dict(zip(header, columns, strict=True))


# Help -------------------------------------------------------------------------------------------


def test_help_has_examples_and_names_every_problem():
    assert "abctree run hare-lynx" in call("--help").stdout
    said = call("run", "--help").stdout
    assert all(name in said for name in ["module:name", *cli.READY])


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from abctree.edges.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'scipy', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_version_is_that_of_the_package():
    assert call("--version").stdout == f"abctree, version {abctree.__version__}\n"


@pytest.mark.parametrize("name", [name for name in cli.READY if name != "hare-lynx"])
def test_run_knows_its_ready_problems(plain, name):
    done = call("run", name, "-n", 120, "--rng", 1, "--quiet")
    assert done.exit_code == 0, done.output
    assert json.loads((plain / f"{name}-output" / "summary.json").read_text())["problem"] == name


# Files ------------------------------------------------------------------------------------------


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
    assert {path.name for path in (here / "problem-output").iterdir()} == FILES


def test_run_is_the_same_as_calling_the_library(plain):
    call("run", "cli_model:ready", "-n", 1200, "--rng", 7, "--ess", 90, "--partitioner", "cart",
         "--utility", "omega2", "--preset", "published", "--out", "a")  # fmt: skip
    import cli_model

    result = abctree.abc_tree(cli_model.ready, n_simulations=1200, rng=7, partitioner="cart",
                              utility="omega2", preset="published")  # fmt: skip
    expected = result.posterior(ess=90)
    _, column = draws(plain / "a")
    np.testing.assert_array_equal(column["mu"], expected.theta[:, 0])
    np.testing.assert_array_equal(column["weight"], expected.weight)
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


def test_run_twice_replaces_its_own_files_only(here):
    out = here / "gauss-output"
    first = call("run", "gauss", "-n", 200, "--rng", 1)
    (out / "notes.txt").write_text("mine")
    before = (out / "posterior.csv").read_text()
    second = call("run", "gauss", "-n", 200, "--rng", 2)
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
    summary = json.loads((plain / "ready-output/summary.json").read_text())
    row = next(line for line in done.stdout.splitlines() if line.startswith("mu "))
    assert float(row.split()[1]) == pytest.approx(summary["parameters"]["mu"]["mean"], rel=1e-3)
    logged = [line for line in done.stderr.splitlines() if line.startswith("round ")]
    assert [line.split()[1] for line in logged] == [str(r["round"]) for r in summary["rounds"]]
    assert "\r" not in done.stderr
    assert "900 of 900" in logged[-1]
    assert all(
        word in logged[0] for word in ("epsilon", "accepted", "ESS", "a second", "failed", "left")
    )


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
    assert printed == json.loads((plain / "ready-output/summary.json").read_text())


def test_run_rewrites_one_line_on_a_terminal(plain, monkeypatch):
    monkeypatch.setattr(cli, "_watch", cli._Line)
    monkeypatch.setattr(cli, "_REFRESH", 0.0)
    done = call("run", "cli_model:ready", "-n", 1000, "--rng", 1)
    assert "1000 simulations in" in done.stdout, "watching must not stop the run"
    shown = done.stderr.split("\r")
    rounds = len(json.loads((plain / "ready-output/summary.json").read_text())["rounds"])
    assert len(shown) > rounds + 2, "blocks are shown, too"
    assert shown[1].startswith("pilot")
    assert not any("\n" in state for state in shown[1:-1])
    assert shown[-1].startswith("Wrote")


@pytest.mark.parametrize(
    ("seconds", "limit", "left"),
    [(5, None, "45 s"), (100, None, "15 min"), (4000, None, "10 h 0 min"), (10, 40, "30 s")],
)
def test_state_estimates_the_time_left(seconds, limit, left):
    progress = Progress(
        n_simulations=1000,
        budget=10_000,
        round=3,
        epsilon=0.25,
        acceptance_rate=0.031,
        ess=412.3,
        n_failures=7,
        seconds=seconds,
    )
    said = cli._state(progress, limit)
    assert said.endswith(f"  {left} left")
    assert "round 3  epsilon 0.25  accepted 3.10%  ESS 412  1000 of 10000" in said
    assert f"{1000.0 / seconds:.3g} a second  7 failed" in said


# Failures ---------------------------------------------------------------------------------------


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
        ("hare-linx", 2, "PROBLEM must be one of hare-lynx"),
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


def test_run_finds_a_module_in_the_working_directory_of_a_process(here):
    code = "from abctree.edges.cli import main; main()"
    package = Path(abctree.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "run", "cli_model:ready", "-n", "200", "--quiet"],
        capture_output=True, text=True, check=False, cwd=here,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mu" in done.stdout


# The demo ---------------------------------------------------------------------------------------


def pelts(theta, weight=None):
    theta = np.asarray(theta, dtype=float).reshape(-1, 4)
    return Posterior(
        theta=theta,
        log_weight=np.log(np.ones(len(theta)) if weight is None else np.asarray(weight)),
        distance=np.full(len(theta), 0.2),
        epsilon=0.3,
        names=hare_lynx().names,
        n_simulations=1000,
    )


@pytest.fixture(scope="module")
def small():
    return abctree.abc_tree(hare_lynx(), n_simulations=1500, rng=2)


def observed_series():
    data = hare_lynx_data()
    return np.stack([data["hare"], data["lynx"]], axis=1)


def test_demo_run_tells_its_story(here):
    done = call("run", "hare-lynx", "-n", 1500, "--rng", 2, "--out", "a", "--quiet")
    assert done.exit_code == 0, done.output
    summary = json.loads((here / "a/summary.json").read_text())
    assert textwrap.fill(summary["paragraph"], 88) in done.stdout
    assert f"hold {summary['prediction']['inside_90']} of the 40 counts" in summary["paragraph"]
    assert (here / "a/posterior.png").read_bytes().startswith(PNG)
    assert {path.name for path in (here / "a").iterdir()} == FILES


def test_paragraph_is_made_of_the_numbers(small):
    rng = np.random.default_rng(4)
    low = pelts(np.exp(rng.normal(np.log([0.5, 0.03, 0.02, 0.8]), 0.1, size=(400, 4))))
    high = pelts(low.theta * [2.0, 1.0, 1.0, 2.0])
    for posterior in (low, high):
        said = demo.paragraph(small, posterior, demo.predict(posterior, rng=1, n=50))
        a, m, b = np.quantile(posterior.theta[:, 0], [0.05, 0.5, 0.95], method="inverted_cdf")
        assert f"grow at a rate of {m:.2f} ({a:.2f} to {b:.2f}) a year" in said
        period = 2.0 * np.pi / np.sqrt(posterior.theta[:, 0] * posterior.theta[:, 3])
        assert f"cycles of {np.quantile(period, 0.5, method='inverted_cdf'):.1f} (" in said
        assert "worth 400 independent ones" in said
        assert "\n" not in said


def test_paragraph_uses_the_weights(small):
    theta = np.repeat([[0.5, 0.03, 0.02, 0.8], [0.9, 0.03, 0.02, 0.8]], 20, axis=0)
    theta = theta * np.linspace(0.99, 1.01, 40)[:, None]
    posterior = pelts(theta, np.repeat([1.0, 1e-6], 20))
    said = demo.paragraph(small, posterior, demo.predict(posterior, rng=1, n=20))
    assert "grow at a rate of 0.4976 (0.4953 to 0.4999) a year" in said


@pytest.mark.parametrize(
    ("n", "said"),
    [(0, "Nothing was learned"), (1, "rests on 1 draws, worth 1.0"), (2, "worth 2.0 independent")],
)
def test_paragraph_and_picture_work_with_few_draws(small, n, said):
    posterior = pelts(np.array([[0.5, 0.03, 0.02, 0.8], [0.6, 0.02, 0.03, 0.9]])[:n])
    prediction = demo.predict(posterior, rng=1, n=30)
    assert said in demo.paragraph(small, posterior, prediction)
    assert len(demo.picture(posterior, prediction).axes) == 16 + 2


def test_prediction_counts_what_its_bands_hold():
    observed = observed_series()
    spread = np.linspace(-1.0, 1.0, 101)[:, None, None]
    series = observed + spread * np.ones_like(observed)
    series[:, 3, 0] += 50.0  # hares of 1903: far above the count
    series[:, 7, 1] += 0.7  # lynx of 1907: beyond the central half, within 90 %
    prediction = demo.Prediction(hare_lynx_data()["year"], observed, series)
    inside, half = prediction.inside(0.9), prediction.inside(0.5)
    assert (inside.sum(), half.sum()) == (39, 38)
    assert not inside[2, 0]
    assert not half[6, 1]
    ((species, year, count, low, high),) = prediction.misses()
    assert (species, year, count) == ("hare", 1903, 77.4)
    assert (low, high) == pytest.approx((77.4 + 50 - 0.9, 77.4 + 50 + 0.9), abs=0.03)
    assert prediction.to_dict()["inside_90"] == 39


def test_prediction_simulates_from_the_weighted_draws():
    slow, fast = [0.1, 0.03, 0.02, 0.8], [0.9, 0.03, 0.02, 0.8]
    posterior = pelts([slow, fast], [3.0, 1.0])
    prediction = demo.predict(posterior, rng=3, n=400)
    assert prediction.series.shape == (400, 21, 2)
    np.testing.assert_array_equal(prediction.series[:, 0], np.tile(observed_series()[0], (400, 1)))
    # After a year the two rates are told apart; a quarter of the series is of the fast one.
    apart = hare_lynx_series(np.array([slow] * 200 + [fast] * 200), np.arange(400, dtype=np.uint64))
    border = (apart[:200, 1, 0].mean() + apart[200:, 1, 0].mean()) / 2.0
    share = np.mean(prediction.series[:, 1, 0] > border)
    assert abs(share - 0.25) < 0.05
    again = demo.predict(posterior, rng=3, n=400)
    np.testing.assert_array_equal(prediction.series, again.series)


def test_picture_shows_four_rates_and_two_series(small):
    pytest.importorskip("matplotlib.figure")
    posterior = small.posterior(ess=30)
    figure = demo.picture(posterior, demo.predict(posterior, rng=1, n=100))
    labels = {ax.get_ylabel() for ax in figure.axes} | {ax.get_xlabel() for ax in figure.axes}
    assert {"hare, thousand pelts", "lynx, thousand pelts", *hare_lynx().names} <= labels
    assert len(figure.axes) == 16 + 2


def test_paragraph_compares_with_the_closest_draws_and_with_the_prior(small):
    posterior = small.posterior(ess=80)
    said = demo.paragraph(small, posterior, demo.predict(posterior, rng=1, n=20))
    closer = small.posterior(ess=0.25 * posterior.ess)
    moved = np.max(np.abs(closer.mean() - posterior.mean()) / posterior.std())
    assert f"(epsilon {closer.epsilon:.2g}) the means move by at most {moved:.2f} standard" in said
    # 90 % of a lognormal with log sd .75 lie between median e^{-1.234} and median e^{1.234}.
    before = np.array([0.55, 0.028, 0.024, 0.80]) * 2.0 * np.sinh(0.75 * 1.6448536)
    ratio = before / np.ptp(posterior.quantile([0.05, 0.95]), axis=0)
    assert f"intervals {ratio.min():.1f} to {ratio.max():.1f} times as wide" in said
