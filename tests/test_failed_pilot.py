"""A store whose run failed in its pilot says so, and how to start anew."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import abctree

PRIOR = {"a": (-5.0, 5.0)}
NEW = "To start anew, mend what failed and give another folder, or remove this one."


def works(theta, rng):
    return theta + rng.normal(size=1)


def raises(theta, rng):
    raise ValueError("no licence")


def is_nan(theta, rng):
    return theta * np.nan


def seldom_works(theta, rng):
    """Once in a pilot: too seldom for a covariance."""
    return theta if rng.random() < 0.015 else theta * np.nan


def failed(folder, method, simulator, distance="euclidean"):
    problem = abctree.Problem(PRIOR, simulator, [1.0], distance=distance)
    with pytest.raises(abctree.SimulatorError) as caught:
        method(problem, n_simulations=400, rng=1, store=folder)
    return problem, str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [raises, is_nan])
@pytest.mark.parametrize("distance", ["euclidean", "mad"])
@pytest.mark.parametrize("method", [abctree.abc_tree, abctree.map_tree, abctree.smc])
def test_folder_of_a_failed_pilot_says_that_it_holds_failures_only(
    tmp_path, method, simulator, distance
):
    folder = tmp_path / "run"
    problem, said = failed(folder, method, simulator, distance)
    assert f"holds failures only. {NEW}" in said
    mended = abctree.Problem(PRIOR, works, [1.0], distance=distance)
    with pytest.raises(abctree.ParameterError, match="holds failures only: all ") as new:
        method(mended, n_simulations=400, rng=1, store=folder)
    assert str(new.value).endswith(NEW)
    for again in (abctree.load, abctree.resume):
        with pytest.raises(abctree.SimulatorError, match="holds failures only") as old:
            again(folder, problem)
        assert NEW in str(old.value)
    # What it says to do works, in either way.
    assert method(mended, n_simulations=400, rng=1, store=tmp_path / "other").n_simulations == 400
    shutil.rmtree(folder)
    assert method(mended, n_simulations=400, rng=1, store=folder).n_simulations == 400


def test_folder_of_a_pilot_that_failed_for_another_reason_says_how_to_start_anew(tmp_path):
    folder = tmp_path / "run"
    problem, said = failed(folder, abctree.abc_tree, seldom_works, "mahalanobis")
    assert "it needs 2" in said
    assert said.endswith(f"holds the simulations of this pilot. {NEW}")
    with pytest.raises(abctree.SimulatorError, match="it needs 2") as caught:
        abctree.resume(folder, problem)
    assert NEW in str(caught.value)


def test_folder_of_a_run_that_did_not_fail_is_gone_on_with(tmp_path):
    """The twin: another refusal, without a word of failures."""

    def half(theta, rng):
        return works(theta, rng) if theta[0] > 0.0 else None

    problem = abctree.Problem(PRIOR, half, [1.0])
    abctree.abc_tree(problem, n_simulations=400, rng=1, store=tmp_path / "run")
    with pytest.raises(abctree.ParameterError, match=r"run of 400 simulations\. Go on") as caught:
        abctree.abc_tree(problem, n_simulations=400, rng=1, store=tmp_path / "run")
    assert "failures only" not in str(caught.value)


def test_folder_of_a_pilot_of_the_wrong_shape_says_how_to_start_anew(tmp_path):
    """What the simulator returned is told first; the folder has kept what was simulated."""
    folder = tmp_path / "run"
    _, said = failed(folder, abctree.abc_tree, lambda theta, rng: np.zeros(2))
    assert "shape (2,)" in said
    assert said.endswith(f"holds failures only. {NEW}")
    shutil.rmtree(folder)
    mended = abctree.Problem(PRIOR, works, [1.0])
    assert abctree.abc_tree(mended, n_simulations=400, rng=1, store=folder).n_simulations == 400
