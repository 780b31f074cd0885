"""Draws and runs for other programs: CSV, npz, and ArviZ."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from abctree.analysis.posterior import Posterior
from abctree.analysis.result import Result
from abctree.errors import MissingDependencyError
from abctree.types import FloatArray, RNGLike

#: Version of the arrays in an npz file.
_NPZ = 1


def to_csv(what: Result | Posterior, path: str | os.PathLike[str]) -> None:
    """Write draws as CSV, one row each.

    A posterior has a column for each parameter, then ``weight``, which sums to one, and
    ``distance``.  A result has all its simulations: the parameters, ``weight``, the raw one, by
    which the evidence is a mean over accepted rows, ``distance`` (inf for a failure) and ``round``
    (0 for the pilot).  A parameter of one of these names keeps it; the other column gets a trailing
    underscore.  Numbers are written so that they read back as they are.

    Parameters
    ----------
    what : Posterior or Result
        Draws at a tolerance, or a run.
    path : str or Path
        A file, replaced if it exists.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if isinstance(what, Result):
        table = what.table
        columns: dict[str, Any] = {"weight": what.weights(), "distance": table.distance}
        _write_csv(path, what.problem.names, table.theta, {**columns, "round": table.round})
    else:
        columns = {"weight": what.weight, "distance": what.distance}
        _write_csv(path, what.names, what.theta, columns)


def _write_csv(
    path: str | os.PathLike[str], names: tuple[str, ...], theta: FloatArray, more: dict[str, Any]
) -> None:
    columns = [*theta.T, *more.values()]
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *(_free(name, names) for name in more)])
        for row in zip(*(column.tolist() for column in columns), strict=True):
            writer.writerow([repr(value) for value in row])


def _free(name: str, names: tuple[str, ...]) -> str:
    """A name for a column that no parameter has."""
    while name in names:
        name += "_"
    return name


def to_npz(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a run as a compressed npz file of arrays, which reads without pickle.

    Its arrays, T simulations, p parameters in d dimensions of the cube, S rounds with the pilot:

    - ``names`` (p,) strings; ``theta`` (T, p); ``cube`` (T, d); ``distance`` (T,), inf for a
      failure; ``weight`` (T,) raw; ``round``, ``fold`` (T,); ``summary`` (T, q) if it was kept.
    - ``round_epsilon`` (S,), inf for the pilot; ``round_simulations``, ``round_acceptance_rate``,
      ``round_ess`` (S,).
    - ``about``: a JSON string with the method, the number of simulations, why the run stopped, its
      seconds and its number of failures.

    Parameters
    ----------
    result : Result
        A run.
    path : str or Path
        A file, replaced if it exists; no suffix is added.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    table, rounds = result.table, result.rounds
    arrays: dict[str, Any] = {
        "names": np.array(result.problem.names, dtype=np.str_),
        "theta": table.theta,
        "cube": table.cube,
        "distance": table.distance,
        "weight": result.weights(),
        "round": table.round,
        "fold": table.fold,
        "round_epsilon": np.array([played.epsilon for played in rounds], dtype=np.float64),
        "round_simulations": np.array([played.n_simulations for played in rounds], dtype=np.int64),
        "round_acceptance_rate": np.array([p.acceptance_rate for p in rounds], dtype=np.float64),
        "round_ess": np.array([played.ess for played in rounds], dtype=np.float64),
        "about": np.array(json.dumps(_about(result))),
    }
    if table.summary.shape[1] > 0:
        arrays["summary"] = table.summary
    with Path(path).open("wb") as file:
        np.savez_compressed(file, **arrays)


def _about(result: Result) -> dict[str, Any]:
    return {
        "format": _NPZ,
        "method": result.method,
        "weights": result.default_weights,
        "n_simulations": result.n_simulations,
        "stopped_because": result.stopped_because,
        "seconds": result.seconds,
        "n_failures": result.failures.count,
    }


def to_arviz(posterior: Posterior, n: int | None = None, rng: RNGLike = 0) -> Any:
    """The posterior for ArviZ: `arviz.InferenceData`, or `xarray.DataTree` from ArviZ 1.0 on.

    ArviZ knows no weights.  Its group ``posterior`` has one chain of draws that all weigh the same,
    picked by systematic resampling.  By default they are as many as the effective sample size says,
    for more would repeat draws and make ArviZ think them more certain than they are.  Diagnostics
    of chains, such as R-hat, mean nothing here.  The group ``weighted_posterior`` has the draws as
    they are, with ``log_weight`` (raw) and ``distance``.

    Parameters
    ----------
    posterior : Posterior
        Draws at a tolerance.
    n : int, optional
        Draws without weights.  Default: the effective sample size, rounded.
    rng : RNGLike
        Randomness of the resampling.

    Raises
    ------
    MissingDependencyError
        If ArviZ is not installed.
    ParameterError
        If the posterior is empty.
    """
    try:
        import arviz  # type: ignore[import-not-found,import-untyped,unused-ignore]
        import xarray as xr  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingDependencyError(
            "`to_arviz` needs ArviZ, which is not installed. Run: pip install arviz"
        ) from error
    n = max(1, round(posterior.ess)) if n is None else n
    attributes = {
        "inference_library": "abctree",
        "epsilon": posterior.epsilon,
        "n_simulations": posterior.n_simulations,
        "effective_sample_size": posterior.ess,
    }
    more = {"log_weight": posterior.log_weight, "distance": posterior.distance}
    groups = {
        "posterior": posterior.theta[posterior.resample(n, rng)].T,
        "weighted_posterior": np.vstack([posterior.theta.T, *more.values()]),
    }
    names = (*posterior.names, *(_free(name, posterior.names) for name in more))
    sets = {
        group: xr.Dataset(
            # Only the draws without weights have as many rows of values as there are parameters.
            {name: (("chain", "draw"), row[None]) for name, row in zip(names, rows, strict=False)},
            coords={"chain": [0], "draw": np.arange(rows.shape[1])},
            attrs=attributes,
        )
        for group, rows in groups.items()
    }
    if int(arviz.__version__.split(".")[0]) >= 1:
        return xr.DataTree.from_dict(sets)
    return arviz.InferenceData(**sets, warn_on_custom_groups=False)
