"""Draws and runs for other programs: CSV, npz, and ArviZ."""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abctree.answers.diagnostics import run_notes
from abctree.answers.mode import Mode, ModeSummary
from abctree.answers.posterior import Posterior
from abctree.answers.result import Result
from abctree.answers.summary import QUANTILES, Summary, by_kind
from abctree.errors import ParameterError, needed, warn
from abctree.keywords import checks_keywords
from abctree.method import METHODS
from abctree.types import FloatArray, RNGLike

__all__ = ["to_arviz", "to_csv", "to_npz"]

#: Version of the arrays in an npz file.
_NPZ = 1


@checks_keywords
def to_csv(
    what: Result | Posterior | Summary | Mode | ModeSummary, path: str | os.PathLike[str]
) -> None:
    """Write draws as CSV, one row each.

    A posterior has a column for each parameter, then ``weight``, which sums to one, and
    ``distance``.  A result has all its simulations: the parameters, ``weight``, the raw one, by
    which the evidence is a mean over accepted rows, ``distance`` (inf for a failure) and ``round``
    (0 for the pilot).  A summary has a row for each parameter: its name, ``mean``, ``sd``, the
    quantiles ``q5``, ``q50`` and ``q95``, and the Monte Carlo standard error of each, ``mcse_mean``
    and so on.  A mode has its candidates, the best first: the parameters, ``density``
    relative to the best, ``acceptance`` rate, ``n_accepted``, and the standard errors ``se_NAME``,
    nan where there is none.  A parameter of one of these names keeps it; the other column gets a
    trailing underscore.  Numbers are written so that they read back as they are.

    Parameters
    ----------
    what : Posterior, Result, Summary, Mode or ModeSummary
        Draws at a tolerance, a run, ``result.summary()``, or ``result.mode()``.
    path : str or Path
        A file, replaced if it exists.

    Raises
    ------
    OSError
        If it cannot be written.

    Warns
    -----
    AbctreeWarning
        If the code changed while the run was made, which a table of numbers cannot tell.
    """
    if isinstance(what, ModeSummary):
        what = what.mode
    if not isinstance(what, Result | Summary | Mode):
        what = _posterior_of(what)
    about = what.posterior if isinstance(what, Summary) else what
    run = about.run if isinstance(about, Mode) else about
    notes = run.notes if isinstance(run, Posterior) else None if run is None else run.code_changes
    for sentence in notes or ():
        warn(sentence)
    if isinstance(what, Result):
        table = what.table
        columns: dict[str, Any] = {"weight": what.weights(), "distance": table.distance}
        _write_csv(path, what.problem.names, table.theta, {**columns, "round": table.round})
    elif isinstance(what, Summary):
        _write_summary(what, path)
    elif isinstance(what, Mode):
        _write_candidates(what, path)
    else:
        columns = {"weight": what.weights, "distance": what.distance}
        _write_csv(path, what.names, what.theta, columns)


def _write_summary(what: Summary, path: str | os.PathLike[str]) -> None:
    columns = ["mean", "sd", *(f"q{q}" for q in QUANTILES)]
    names = ["parameter", *columns, *(f"mcse_{column}" for column in columns)]
    quantities, categories = by_kind(what.posterior)
    rows = [[name, *map(repr, np.hstack(numbers).tolist())] for name, *numbers in quantities]
    for name, found in categories:  # the mean of 1[name = value]
        for value, p, error in zip(*found, strict=True):
            row = {"parameter": f"{name} = {value:g}", "mean": repr(float(p))}
            row["mcse_mean"] = repr(float(error))
            rows.append([row.get(column, "nan") for column in names])
    _write_rows(path, [names, *rows])


def _write_candidates(what: Mode, path: str | os.PathLike[str]) -> None:
    shown, names = what.candidates, what.names
    columns: dict[str, Any] = {
        "density": np.array([c.density for c in shown]),
        "acceptance": np.array([c.acceptance for c in shown]),
        "n_accepted": np.array([c.n_accepted for c in shown], dtype=np.int64),
    }
    unknown = np.full(len(names), np.nan)
    known = [unknown if c.covariance is None else np.diag(c.covariance) for c in shown]
    error = np.sqrt(np.reshape(known, (len(shown), len(names))))
    columns |= {f"se_{name}": error[:, j] for j, name in enumerate(names)}
    _write_csv(path, names, _stacked(what), columns)


def _stacked(what: Mode) -> FloatArray:
    """(c, p) The candidates."""
    return np.reshape([c.theta for c in what.candidates], (len(what.candidates), len(what.names)))


def _write_csv(
    path: str | os.PathLike[str], names: tuple[str, ...], theta: FloatArray, more: dict[str, Any]
) -> None:
    columns = [*theta.T, *more.values()]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    head = [*names, *(_free(name, names) for name in more)]
    _write_rows(path, itertools.chain([head], ([repr(value) for value in row] for row in rows)))


def _write_rows(path: str | os.PathLike[str], rows: Iterable[Sequence[str]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _free(name: str, names: Sequence[str]) -> str:
    """A name for a column that no parameter has."""
    while name in names:
        name += "_"
    return name


@checks_keywords
def to_npz(result: Result | Mode, path: str | os.PathLike[str]) -> None:
    """Write a run as a compressed npz file of arrays, which reads without pickle.

    Its arrays, T simulations, p parameters in d dimensions of the cube, S rounds with the pilot:

    - ``names`` (p,) strings; ``theta`` (T, p); ``cube`` (T, d); ``distance`` (T,), inf for a
      failure; ``weight`` (T,) raw; ``round``, ``fold`` (T,); ``summary`` (T, q) if it was kept.
    - ``round_epsilon`` (S,), inf for the pilot; ``round_simulations``, ``round_acceptance_rate``,
      ``round_ess`` (S,).
    - ``about``: a JSON string with the method, the number of simulations, why the run stopped, its
      seconds, its number of failures, and ``notes``, what to know of it.

    A mode, or a run that seeks it, also has ``mode`` (p,); ``mode_covariance`` (p, p) of its error,
    and ``mode_spread`` (p, p) of the posterior around it, nan where there is none; ``mode_epsilon``
    (); ``candidate`` (c, p) and ``candidate_density`` (c,); ``mode_quadratic``, ``mode_kernel`` and
    ``mode_box`` (p,), the other estimates.

    Parameters
    ----------
    result : Result or Mode
        A run, or ``result.mode()`` of one, which is written with its run.
    path : str or Path
        A file, replaced if it exists; no suffix is added.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    mode, run = (result, result.run) if isinstance(result, Mode) else (None, result)
    if not isinstance(run, Result):
        raise ParameterError(
            f"`result` must be a run, but got a {type(result).__name__}. Give the result of "
            "abctree.abc_tree, or write draws with to_csv."
        )
    if METHODS[run.method].seeks_mode:
        mode = mode or run.mode()
    table, rounds = run.table, run.rounds
    about = {
        "format": _NPZ,
        "method": run.method,
        "weights": run.default_weights,
        "n_simulations": run.n_simulations,
        "stopped_because": run.stopped_because,
        "seconds": run.seconds,
        "n_failures": run.failures.count,
        "notes": list(run_notes(run)),
    }
    arrays: dict[str, Any] = {
        "names": np.array(run.problem.names, dtype=np.str_),
        "theta": table.theta,
        "cube": table.cube,
        "distance": table.distance,
        "weight": run.weights(),
        "round": table.round,
        "fold": table.fold,
        "round_epsilon": np.array([played.epsilon for played in rounds], dtype=np.float64),
        "round_simulations": np.array([played.n_simulations for played in rounds], dtype=np.int64),
        "round_acceptance_rate": np.array([p.acceptance_rate for p in rounds], dtype=np.float64),
        "round_ess": np.array([played.ess for played in rounds], dtype=np.float64),
        "about": np.array(json.dumps(about)),
    }
    if table.summary_size > 0:
        arrays["summary"] = table.summary
    with Path(path).open("wb") as file:
        np.savez_compressed(file, **arrays, **({} if mode is None else _mode_arrays(mode)))


def _mode_arrays(mode: Mode) -> dict[str, Any]:
    unknown = np.full((len(mode.names), len(mode.names)), np.nan)
    return {
        "mode": mode.theta,
        "mode_covariance": unknown if mode.covariance is None else mode.covariance,
        "mode_spread": unknown if mode.spread is None else mode.spread,
        "mode_epsilon": np.float64(mode.epsilon),
        "candidate": _stacked(mode),
        "candidate_density": np.array([c.density for c in mode.candidates]),
        **{f"mode_{name}": value for name, value in mode.estimates.items()},
    }


def _posterior_of(what: object) -> Posterior:
    """Draws at a tolerance: as they are, or those of a run."""
    found = what.posterior() if isinstance(what, Result) else what
    if not isinstance(found, Posterior):
        raise ParameterError(
            f"`posterior` must be a Posterior or a Result, but got a {type(found).__name__}. "
            "Give result.posterior()."
        )
    return found


@checks_keywords
def to_arviz(posterior: Posterior | Result, n: int | None = None, rng: RNGLike = 0) -> Any:
    """The posterior for ArviZ: `arviz.InferenceData`, or `xarray.DataTree` from ArviZ 1.0 on.

    ArviZ knows no weights.  Its group ``posterior`` has one chain of draws that all weigh the same,
    picked by systematic resampling.  By default they are as many as the effective sample size says,
    for more would repeat draws and make ArviZ think them more certain than they are.  Diagnostics
    of chains, such as R-hat, mean nothing here.  The group ``weighted_posterior`` has the draws as
    they are, with ``log_weight`` (raw) and ``distance``.  A parameter called ``chain`` or ``draw``
    gets a trailing underscore, and ``/`` in a name becomes one, for xarray has these for itself.

    Parameters
    ----------
    posterior : Posterior or Result
        Draws at a tolerance; of a run they are those of its `posterior()`.
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
    arviz, xr = (needed(name, "`to_arviz` needs ArviZ", "arviz") for name in ("arviz", "xarray"))
    posterior = _posterior_of(posterior)
    n = max(1, round(posterior.ess)) if n is None else n
    attributes = {
        "inference_library": "abctree",
        "epsilon": posterior.epsilon,
        "n_simulations": posterior.n_simulations,
        "effective_sample_size": posterior.ess,
        **({"notes": "\n".join(posterior.notes)} if posterior.notes else {}),
    }
    more = {"log_weight": posterior.log_weights, "distance": posterior.distance}
    groups = {
        "posterior": posterior.theta[posterior.resample(n, rng)].T,
        "weighted_posterior": np.vstack([posterior.theta.T, *more.values()]),
    }
    own = _names_in_xarray(posterior.names)
    names = (*own, *(_free(name, own) for name in more))
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


def _names_in_xarray(names: Sequence[str]) -> list[str]:
    """Names of the parameters that no dimension has, and no path of a tree of data sets is."""
    found: list[str] = []
    for name in names:
        found.append(_free(name.replace("/", "_"), ("chain", "draw", *found)))
    return found
