"""Export: what is written reads back as it was, and says the same as the run."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import abctree
from abctree import export
from abctree.answers import Posterior

pytestmark = pytest.mark.xdist_group("export")  # they share runs


def simulate(theta, rng):
    return theta[:, :1] + rng.normal(size=(len(theta), 1))


@pytest.fixture(scope="module")
def result():
    problem = abctree.Problem(
        {"mu": (-5.0, 5.0), "weight": (0.0, 1.0)}, simulate, [1.0], vectorized=True
    )
    return abctree.abc_tree(problem, n_simulations=800, rng=1, proposal="boxes")


@pytest.fixture(scope="module")
def sought():
    problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, [1.0], vectorized=True)
    return abctree.map_tree(problem, n_simulations=1000, rng=1)


def weighted(n=400, seed=0):
    """Normal draws whose weights move them to mean 1: ESS is far from their number."""
    theta = np.random.default_rng(seed).normal(size=(n, 1))
    return Posterior(
        theta=theta,
        log_weights=theta[:, 0] - 0.5,
        distance=np.linspace(0.0, 0.9, n),
        epsilon=1.0,
        names=("mu",),
        n_simulations=10 * n,
    )


def read(path):
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, dtype=float).reshape(-1, len(header))


def test_csv_of_a_posterior_reads_back_bit_for_bit(result, tmp_path):
    posterior = result.posterior(ess=60)
    export.to_csv(posterior, tmp_path / "a.csv")
    header, rows = read(tmp_path / "a.csv")
    assert header == ["mu", "weight", "weight_", "distance"], "a parameter keeps its name"
    np.testing.assert_array_equal(rows[:, :2], posterior.theta)
    np.testing.assert_array_equal(rows[:, 2], posterior.weights)
    np.testing.assert_array_equal(rows[:, 3], posterior.distance)


def test_csv_of_a_run_gives_its_evidence(result, tmp_path):
    export.to_csv(result, str(tmp_path / "a.csv"))
    header, rows = read(tmp_path / "a.csv")
    assert header == ["mu", "weight", "weight_", "distance", "round"]
    np.testing.assert_array_equal(rows[:, :2], result.table.theta)
    epsilon = result.posterior().epsilon
    evidence = np.sum(rows[rows[:, 3] < epsilon, 2]) / len(rows)
    assert evidence == pytest.approx(result.evidence(epsilon).estimate, rel=1e-12)


def test_npz_reads_without_pickle_and_is_the_run(result, tmp_path):
    export.to_npz(result, tmp_path / "run.data")
    assert [path.name for path in tmp_path.iterdir()] == ["run.data"], "no suffix is added"
    with np.load(tmp_path / "run.data", allow_pickle=False) as file:
        found = dict(file)
    assert all(array.dtype != object for array in found.values())
    assert found["names"].tolist() == ["mu", "weight"]
    for name in ("theta", "cube", "distance", "round", "fold", "summary"):
        np.testing.assert_array_equal(found[name], getattr(result.table, name))
    np.testing.assert_array_equal(found["weight"], result.weights())
    assert found["round_epsilon"][0] == np.inf
    assert found["round_epsilon"].tolist() == [played.epsilon for played in result.rounds]
    assert found["round_simulations"].sum() == 800
    about = json.loads(str(found["about"]))
    assert (about["method"], about["n_simulations"], about["n_failures"]) == ("abc_tree", 800, 0)


def test_arviz_is_asked_for_by_name_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(abctree.MissingDependencyError, match="pip install arviz"):
        export.to_arviz(weighted())


@pytest.fixture(params=["own", "1.0.0"])
def arviz(request, monkeypatch):
    """ArviZ as it is installed, and one that calls itself 1.0, whose trees are xarray's."""
    module = pytest.importorskip("arviz", reason="ArviZ is not installed")
    if request.param != "own":
        monkeypatch.setattr(module, "__version__", request.param)
    return module


def test_arviz_has_draws_that_weigh_the_same_and_the_weighted_ones_beside(arviz):
    posterior = weighted()
    found = export.to_arviz(posterior)
    draws = np.asarray(found["posterior"]["mu"])
    assert draws.shape == (1, round(posterior.ess))
    # Systematic resampling: the error is far below that of independent draws, 1 / sqrt(ESS).
    error = posterior.std()[0] / np.sqrt(posterior.ess)
    assert abs(draws.mean() - posterior.mean()[0]) < 3.0 * error
    raw = posterior.theta.mean()
    assert abs(raw - posterior.mean()[0]) > 6.0 * error, "draws without their weights must fail"
    beside = found["weighted_posterior"]
    np.testing.assert_array_equal(beside["mu"], posterior.theta.T)
    np.testing.assert_array_equal(beside["log_weight"], posterior.log_weights[None])
    np.testing.assert_array_equal(beside["distance"], posterior.distance[None])
    assert beside.attrs["epsilon"] == 1.0


def test_arviz_takes_a_number_of_draws_and_refuses_an_empty_posterior(arviz):
    assert np.asarray(export.to_arviz(weighted(), n=7)["posterior"]["mu"]).shape == (1, 7)
    with pytest.raises(abctree.ParameterError, match="without draws"):
        export.to_arviz(weighted(0))


def test_arviz_has_names_that_xarray_keeps_for_itself_under_others(arviz):
    names = ("chain", "draw", "a/b", "a_b")
    posterior = replace(weighted(), names=names, theta=np.repeat(weighted().theta, 4, axis=1))
    found = export.to_arviz(posterior)["weighted_posterior"]
    own = ["chain_", "draw_", "a_b", "a_b_"]
    assert list(found.data_vars) == [*own, "log_weight", "distance"]
    np.testing.assert_array_equal(np.concatenate([found[name] for name in own]), posterior.theta.T)


def test_arviz_file_reads_back(arviz, tmp_path):
    xarray = pytest.importorskip("xarray")
    for module in ("h5py", "h5netcdf"):
        pytest.importorskip(module, reason=f"what writes NetCDF is missing: pip install {module}")
    posterior = weighted()
    export.to_arviz(posterior).to_netcdf(str(tmp_path / "a.nc"))
    with xarray.open_dataset(tmp_path / "a.nc", group="weighted_posterior") as found:
        np.testing.assert_array_equal(found["distance"], posterior.distance[None])


def test_arviz_takes_a_run_for_its_posterior(arviz, result):
    found = export.to_arviz(result)
    posterior = result.posterior()
    np.testing.assert_array_equal(found["weighted_posterior"]["mu"], posterior.theta.T[:1])
    assert found["posterior"].attrs["epsilon"] == posterior.epsilon
    assert np.asarray(export.to_arviz(result, n=7)["posterior"]["mu"]).shape == (1, 7)


def test_arviz_takes_a_run_that_seeks_the_mode(arviz, sought):
    found = export.to_arviz(sought)
    np.testing.assert_array_equal(found["weighted_posterior"]["mu"], sought.posterior().theta.T[:1])


@pytest.mark.parametrize("wrong", [None, "a", np.zeros(3), {"mu": [1.0]}], ids=repr)
def test_arviz_refuses_what_is_no_answer_in_one_sentence(arviz, wrong):
    with pytest.raises(abctree.ParameterError, match=r"`posterior` must be a Posterior or a Res"):
        export.to_arviz(wrong)


@pytest.mark.parametrize("wrong", [None, "a", np.zeros(3), {"mu": [1.0]}], ids=repr)
def test_what_is_no_answer_is_refused_in_one_sentence(wrong, tmp_path):
    with pytest.raises(abctree.ParameterError, match=r"`posterior` must be a Posterior or a Res"):
        export.to_csv(wrong, tmp_path / "a.csv")
    with pytest.raises(abctree.ParameterError, match=r"`result` must be a run, but got a"):
        export.to_npz(wrong, tmp_path / "a.npz")


def test_csv_of_a_run_that_seeks_the_mode_has_its_rows_and_of_the_mode_its_candidates(
    sought, tmp_path
):
    export.to_csv(sought, tmp_path / "run.csv")
    assert len(read(tmp_path / "run.csv")[1]) == 1000
    export.to_csv(sought.mode(), tmp_path / "mode.csv")
    header, rows = read(tmp_path / "mode.csv")
    assert header == ["mu", "density", "acceptance", "n_accepted", "se_mu"]
    assert rows[0, [0, 4]].tolist() == [*sought.mode().theta, *sought.mode().standard_error]
    export.to_csv(sought.summary(), tmp_path / "summary.csv")
    assert (tmp_path / "mode.csv").read_bytes() == (tmp_path / "summary.csv").read_bytes()


def test_npz_of_a_mode_is_that_of_its_run_with_the_mode(result, sought, tmp_path):
    for mode in (sought.mode(), sought.mode(1.5), result.mode()):
        export.to_npz(mode, tmp_path / "mode.npz")
        export.to_npz(mode.run, tmp_path / "run.npz")
        found, run = (np.load(tmp_path / f"{name}.npz") for name in ("mode", "run"))
        np.testing.assert_array_equal(found["theta"], run["theta"])
        np.testing.assert_array_equal(found["mode"], mode.theta)
        assert found["mode_epsilon"] == mode.epsilon
        assert ("mode" in run) == (mode.run is not result)
    np.testing.assert_array_equal(np.load(tmp_path / "mode.npz")["candidate"][0], mode.theta)
