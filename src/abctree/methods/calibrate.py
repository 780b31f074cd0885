"""`calibrate`: runs on data of known parameters, and where these lie in their posteriors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.answers.reading.calibration import coverage_of, ranks_of
from abctree.answers.result import Result
from abctree.errors import AbctreeWarning, ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.methods.run_abc_tree import abc_tree
from abctree.methods.run_rejection import rejection
from abctree.methods.run_smc import smc
from abctree.numbers import check_rule, checked_count, checked_rng
from abctree.problem import Problem
from abctree.proposals.points import prior_draws
from abctree.running.fingerprint import fingerprint
from abctree.running.journal import explained
from abctree.running.lines import Lines
from abctree.running.manifest import code_of, written_problem
from abctree.running.predictions import tell_changes, written_code
from abctree.running.runner import INTERRUPTED
from abctree.types import FloatArray, Named, NamedDict, RNGLike

Reading: TypeAlias = Literal["answer", "posterior"] | Callable[[Result], Posterior]
_METHODS: dict[str, Callable[..., Result]] = {
    "abc_tree": abc_tree,
    "smc": smc,
    "rejection": rejection,
}
#: Settings that change no rank.
_FREE = ("executor", "progress")
#: What may differ between two calls, in words.
_OTHER = {
    "problem": "another problem",
    "method": "another method",
    "reading": "another reading",
    "n_simulations": "another number of simulations",
    "settings": "other settings",
    "seeds": "other seeds",
}
#: Prior draws that are tried for one data set, before the simulator is given up.
_TRIES = 100


@dataclass(frozen=True, eq=False)
class CalibrationRuns:
    """Ranks of the parameters of simulated data sets in the posteriors of runs on them."""

    names: tuple[str, ...]
    theta: FloatArray  #: (n, p) the parameters, drawn from the prior
    ranks: FloatArray  #: (n, p) share of the posterior below them, in [0, 1]
    nearness: FloatArray  #: (n,) share of it that is nearer to a random point than they are

    def coverage(self, level: float = 0.9) -> FloatArray:
        """(p,) Share of parameters within the central interval of a level."""
        check_rule("level", level, "in (0, 1)", "Try 0.9.")
        return coverage_of(self.ranks, level)

    def expected_coverage(self, level: float | FloatArray = 0.9) -> FloatArray:
        """Share of data sets whose region around a random point, of a level, holds the parameters.

        Tests of accuracy with random points (Lemos et al. 2023): equal to the level at all levels
        if, and only if, the joint posteriors are right.
        """
        return np.asarray((self.nearness[:, None] < np.atleast_1d(level)).mean(axis=0))

    def band(self, level: float, share: float = 0.95) -> tuple[float, float]:
        """Where a coverage estimated by n data sets lies with a probability if calibrated."""
        from scipy.stats import binom

        low, high = binom.interval(share, len(self.ranks), level)
        return float(low / len(self.ranks)), float(high / len(self.ranks))

    @cached_property
    def p_values(self) -> FloatArray:
        """(p,) Of the Kolmogorov-Smirnov test that ranks are uniform."""
        from scipy.stats import kstest

        return np.array([kstest(rank, "uniform").pvalue for rank in self.ranks.T])

    def __repr__(self) -> str:
        return f"CalibrationRuns({', '.join(self.names)}; {len(self.ranks)} data sets)"

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in self.names))
        levels = (0.5, 0.9, 0.95)
        bands = ["{:.2f} to {:.2f}".format(*self.band(level)) for level in levels]
        rows = [
            f"Coverage of intervals in {len(self.ranks)} data sets",
            f"{'':{width}}" + "".join(f"{100 * level:>14.0f} %" for level in levels),
            f"{'expected':{width}}" + "".join(f"{band:>16}" for band in bands),
        ]
        for j, name in enumerate(self.names):
            own = [self.coverage(level)[j] for level in levels]
            rows.append(f"{name:{width}}" + "".join(f"{value:>16.2f}" for value in own))
        joint = [float(self.expected_coverage(level)[0]) for level in levels]
        return "\n".join([*rows, f"{'jointly':{width}}" + "".join(f"{v:>16.2f}" for v in joint)])


@checks_keywords
def calibrate(
    problem: Problem,
    *,
    n_datasets: int,
    n_simulations: int,
    rng: RNGLike = None,
    reading: Reading = "answer",
    method: Literal["abc_tree", "smc", "rejection"] = "abc_tree",
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> CalibrationRuns:
    """Run a method on data sets of known parameters, and see where these lie in the posteriors.

    Parameters are drawn from the prior, a data set is simulated of each, and a run on it is read.
    If the posteriors are right, ranks of the parameters are uniform (simulation-based calibration,
    Talts et al. 2018).  It costs ``n_datasets * (n_simulations + 1)`` simulations.

    Parameters
    ----------
    problem : Problem
        Its observation gives data their shape only.
    n_datasets, n_simulations : int
        Data sets, and simulations of each run.
    rng : RNGLike
        None, a seed, or a generator.  Each data set has a seed of its own.
    reading : {"answer", "posterior"} or callable
        How runs are read, or a function of a `Result` that gives a `Posterior`.
    method : {"abc_tree", "smc", "rejection"}
        What runs on each data set.
    store : str or Path, optional
        A file to which each finished data set is added.  The same call, perhaps with more data sets
        or another executor, makes those that are missing.
    progress : callable
        Called with the number of finished data sets and that of all.
    **settings
        Of the method, such as `executor`.

    Returns
    -------
    CalibrationRuns
        Print it.

    Raises
    ------
    ParameterError
        If a number breaks its rule, 100 prior draws give no data set, or `store` has data sets of
        another call.
    StoreError
        If `store` cannot be read or written to.

    Warns
    -----
    AbctreeWarning
        If code has changed since data sets in `store` were made.
    """
    n_datasets = checked_count("n_datasets", n_datasets)
    read = _reader(reading)
    if method not in _METHODS:
        raise wrong("method", f"be one of {', '.join(_METHODS)}", method)
    seeds = [int(s) for s in checked_rng(rng).integers(2**62, size=n_datasets)]
    kept = None
    if store is not None:
        code = code_of(problem, {"reading": None if isinstance(reading, str) else reading})
        call = {
            "method": method,
            "n_simulations": n_simulations,
            **_call(problem, reading, settings),
        }
        kept = _Kept(store, call, written_code(code))
    known = {} if kept is None else kept.of(seeds)
    with kept or nullcontext():
        for seed in (seed for seed in seeds if seed not in known):
            own = np.random.default_rng(seed)
            theta, one = _data_set(problem, own)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AbctreeWarning)
                run = _METHODS[method](
                    one, n_simulations=n_simulations, rng=own, progress=False, **settings
                )
                if run.stopped_because.startswith(INTERRUPTED):  # it is no run of the budget
                    raise KeyboardInterrupt
                draws = read(run)
            known[seed] = {"seed": seed, **_place(draws, theta, problem, own)}
            if kept is not None:
                kept.add(known[seed])
            if progress is not None:
                progress(len(known), n_datasets)
    rows = [known[seed] for seed in seeds]
    columns = {key: np.array([row[key] for row in rows]) for key in ("theta", "ranks", "nearness")}
    return CalibrationRuns(tuple(problem.names), **columns)


def _reader(reading: Reading) -> Callable[[Result], Posterior]:
    if reading == "answer":
        return Result.answer
    if reading == "posterior":
        return Result.posterior
    if not callable(reading):
        raise wrong("reading", 'be "answer", "posterior" or a function of a result', repr(reading))
    return reading


def _call(problem: Problem, reading: Reading, settings: Named) -> NamedDict:
    """What ranks depend on, beside the seed and the user's code."""
    of = written_problem(problem)
    return {
        "problem": [
            of["names"],
            of["prior"]["probe"],
            list(problem.shape),
            of["call"],
            of["measure"],
        ],
        "reading": reading if isinstance(reading, str) else "a function",
        "settings": fingerprint({k: v for k, v in settings.items() if k not in _FREE}),
    }


class _Kept:
    """Data sets in a file, each with the call that it is of; a context manager that closes it."""

    def __init__(self, store: str | Path, call: NamedDict, code: NamedDict) -> None:
        if not isinstance(store, str | Path) or not Path(store).name:
            raise wrong("store", "be the path of a file", repr(store))
        if not Path(store).parent.is_dir():  # before the first run, not after it
            raise wrong("store", "be in a folder that is there", repr(str(store)))
        self._path, self._call, self._code = Path(store), call, code
        with explained(self._path):
            self._lines = Lines(self._path)
        if self._lines.is_foreign:
            raise wrong("store", "be a new file or one of abctree.calibrate", self._path)

    def of(self, seeds: list[int]) -> dict[int, NamedDict]:
        """What earlier calls left of some data sets, by their seeds."""
        rows = self._lines.rows
        other = [
            key
            for key, value in self._call.items()
            if any(row.get("call", {}).get(key) != value for row in rows)
        ]
        known = {row["seed"]: row for row in rows if row["seed"] in seeds}
        if rows and not known:
            other.append("seeds")
        if other:
            raise ParameterError(
                f"`store` must be a new file or one of the same call, but {self._path.name} has "
                f"data sets of {', '.join(_OTHER[key] for key in other)}. Name another file, or "
                "call as it was begun."
            )
        tell_changes(
            [row["code"] for row in known.values()],
            self._code,
            f"{len(seeds)} data sets",
            "name another file",
        )
        return known

    def add(self, row: NamedDict) -> None:
        """Keep a finished data set."""
        with explained(self._path, "could not be written to"):
            self._lines.add({**row, "call": self._call, "code": self._code})

    def __enter__(self) -> Self:
        self._lines.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._lines.__exit__(*exception)


def _data_set(problem: Problem, rng: np.random.Generator) -> tuple[FloatArray, Problem]:
    """Parameters (p,) drawn from the prior, and the problem with data simulated of them."""
    for attempt in range(_TRIES):
        theta = prior_draws(problem, 1, rng)[0]
        made = problem.simulate(theta[None], np.array([attempt]), int(rng.integers(2**62)))
        if np.isfinite(made.summary).all():
            return theta, problem.with_observed_summary(made.summary[0])
    raise ParameterError(
        f"`problem` must give data of its prior draws, but {_TRIES} in a row failed. See "
        "problem.check()."
    )


def _place(
    draws: Posterior, theta: FloatArray, problem: Problem, rng: np.random.Generator
) -> NamedDict:
    """Ranks of the parameters, and how near they are to a random point, as JSON has them."""
    other = prior_draws(problem, 1, rng)[0]
    if draws.ess == 0.0:
        ranks, nearness = rng.random(len(theta)), float(rng.random())
    else:
        ranks = ranks_of(draws.theta, draws.weights, theta, rng)
        unit = np.where(draws.std() > 0.0, draws.std(), 1.0)
        far, own = (
            np.square((point - other) / unit).sum(axis=-1) for point in (draws.theta, theta)
        )
        nearness = float(draws.weights @ (far < own))
    return {"theta": theta.tolist(), "ranks": ranks.tolist(), "nearness": nearness}
