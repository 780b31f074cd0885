"""The dry run: call every part of a problem a few times and say what came back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from abctree.data import Boxes, Simulations
from abctree.errors import SimulatorError
from abctree.numbers import checked_rng
from abctree.problem.distances import NegativeDistanceError
from abctree.problem.reach import out_of_reach
from abctree.types import FloatArray, IntArray, RNGLike

if TYPE_CHECKING:
    from abctree.problem.core import Problem

#: Prior draws that a dry run simulates.
_DRAWS = 10
#: And so many more to be sure that the observation is out of reach, if these take so many seconds.
_MORE_DRAWS, _PATIENCE = 500, 5.0
#: Seconds of a first call that are told, if they are ten times those of the others.
_SLOW = 0.1


@dataclass(frozen=True)
class CheckReport:
    """What a dry run saw.  Its text is the report; `warnings` are things to look at."""

    n_calls: int  #: simulations made; they belong to no run
    seconds: float  #: for one simulation, on average; the first, which may compile, is left out
    shape: tuple[int, ...]  #: of one summary
    n_failed: int  #: of the prior draws
    warnings: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.warnings

    def __str__(self) -> str:
        verdict = ["No problem found."] if self.ok else [f"Look at: {w}" for w in self.warnings]
        return "\n".join([*self.lines, *verdict])


def dry_run(problem: Problem, rng: RNGLike) -> CheckReport:
    """Simulate a few prior draws, one of them twice with the same seed and once with another.

    Raises
    ------
    SimulatorError
        If no simulation gives anything usable, with the reason of the first.
    """
    generator = checked_rng(rng)
    root = int(generator.integers(2**63))
    theta, share = _prior_draws(problem, generator, _DRAWS)
    index = np.arange(len(theta))
    runs, times = [], [time.perf_counter()]
    for i in index:
        runs.append(problem.simulate(theta[i : i + 1], index[i : i + 1], root))
        times.append(time.perf_counter())
    seconds = (times[-1] - times[1]) / (len(index) - 1)
    result = Simulations.join(runs)
    if len(result.failures) == len(theta):
        first = result.failures[0]
        raise SimulatorError(
            f"All {len(theta)} simulations of the dry run failed; the first, at "
            f"{_named(problem, np.array(first.theta))}: {first.reason}"
            + (f"\n{first.traceback}" if first.traceback else "")
        )
    measured = _measure(problem, result, theta, index)
    said = [
        *_on_failures(measured, len(theta)),
        *_on_randomness(problem, theta, index, root, result),
        *_on_rows(problem, theta, index, root),
        *_on_spread(measured, problem),
    ]
    n_calls = len(theta) + 4
    if _is_far(measured, problem) and _MORE_DRAWS * seconds <= _PATIENCE:
        said += _on_reach(problem, generator, root)
        n_calls += _MORE_DRAWS
    lines = [
        *_on_prior(problem, theta, share),
        f"simulator  {_duration(seconds)} a simulation, called {_signature(problem)}",
        *_on_first_call(times[1] - times[0], seconds),
        f"summary    {_size(problem.shape)}, observed {_short(problem.observed_summary)}",
        *_on_missing(problem),
        f"distance   {type(problem.distance).__name__}, {_range(measured.distance)} in "
        f"{len(theta)} prior draws",
    ]
    return CheckReport(
        n_calls=n_calls,
        seconds=seconds,
        shape=problem.shape,
        n_failed=len(measured.failures),
        warnings=tuple(said),
        lines=tuple(lines),
    )


def _prior_draws(problem: Problem, rng: np.random.Generator, n: int) -> tuple[FloatArray, float]:
    """Feasible prior draws (n, p), and the share of the prior that is feasible."""
    whole = Boxes.whole(problem.d)
    share = 1.0 if problem.constraint is None else problem.normaliser[0]
    found: list[FloatArray] = []
    while sum(map(len, found)) < n:
        theta = problem.prior.from_cube(whole.sample(np.zeros(4 * n, dtype=np.int64), rng))
        found.append(theta[problem.feasible(theta)])
    return np.concatenate(found)[:n], share


def _measure(
    problem: Problem, result: Simulations, theta: FloatArray, index: IntArray
) -> Simulations:
    if problem.needs_pilot:
        problem = problem.fitted(result.summary[np.isfinite(_flat(result.summary)).all(axis=1)])
    return problem.measured(result, theta, index)


def _on_first_call(first: float, seconds: float) -> list[str]:
    """That the first call took longer than it will again: each worker has one of these."""
    took = f"           the first call took {_duration(first)}, as if it compiled something"
    return [took] if first > max(_SLOW, 10.0 * seconds) else []


def _on_prior(problem: Problem, theta: FloatArray, share: float) -> list[str]:
    width = max(len(name) for name in problem.names)
    lines = [f"prior      {len(problem.names)} parameters, {problem.d} of them free"]
    for j, name in enumerate(problem.names):
        low, high = theta[:, j].min(), theta[:, j].max()
        seen = f"fixed at {low:.6g}" if low == high else f"draws from {low:.4g} to {high:.4g}"
        lines.append(f"           {name:<{width}}  {seen}")
    if problem.constraint is not None:
        lines.append(f"constraint leaves {share:.3%} of the prior")
    return lines


def _on_missing(problem: Problem) -> list[str]:
    form = problem.model.form
    if form is None or form.keep is None:
        return []
    n = int(np.prod(form.shape))
    m = n - len(form.keep)
    are = "is" if m == 1 else "are"
    return [f"           {m} of {n} numbers of the observation {are} missing and left out"]


def _on_failures(measured: Simulations, n: int) -> list[str]:
    if not measured.failures:
        return []
    first = measured.failures[0]
    negative = [f for f in measured.failures if f.reason.startswith(NegativeDistanceError.REASON)]
    if negative:
        reason = negative[0].reason.removeprefix(NegativeDistanceError.REASON)
        return [f"{reason} A run would end here."]
    return [
        f"{len(measured.failures)} of {n} prior draws failed (each would count as a rejection); "
        f"the first: {first.reason}"
    ]


def _on_randomness(
    problem: Problem, theta: FloatArray, index: IntArray, root: int, result: Simulations
) -> list[str]:
    """Whether the simulator draws its random numbers from what it is given, and only there."""
    ok = np.flatnonzero(np.isfinite(_flat(result.summary)).all(axis=1))
    if len(ok) == 0:
        return []
    i = ok[:1]
    again = problem.simulate(theta[i], index[i], root).summary
    other = problem.simulate(theta[i], index[i], root + 1).summary
    given = result.summary[i]
    if not np.array_equal(again, given):
        return [
            "the simulator gave two answers for one seed: it draws random numbers of its own. Draw "
            "them all from the generator it is given, or no run can be repeated."
        ]
    if np.array_equal(other, given):
        return [
            "the simulator gave the same answer for two seeds: it is deterministic, or it reseeds "
            "itself and ignores the generator it is given."
        ]
    return []


def _on_rows(problem: Problem, theta: FloatArray, index: IntArray, root: int) -> list[str]:
    """Whether a vectorised simulator gives each row its own answer."""
    if not problem.vectorized:
        return []
    pair = problem.simulate(theta[:2], index[:2], root)
    if pair.failures:
        return [f"a call with two rows failed: {pair.failures[0].reason}"]
    if np.array_equal(pair.summary[0], pair.summary[1]):
        return ["the vectorised simulator gave two rows the same answer: do they share randomness?"]
    return []


def _on_spread(measured: Simulations, problem: Problem) -> list[str]:
    distance = measured.distance[np.isfinite(measured.distance)]
    if len(distance) > 1 and distance.min() == distance.max():
        return [f"all distances are {distance[0]:.6g}: the summary does not vary with theta."]
    scale = np.abs(_flat(measured.summary))
    typical = np.median(np.where(np.isfinite(scale), scale, np.nan), axis=0)
    typical = typical[typical > 0.0]
    plain = type(problem.distance).__name__ == "Euclidean"
    if plain and len(typical) > 1 and typical.max() > 1000.0 * typical.min():
        return [
            "the summaries differ in size by more than a factor of 1000, and the largest decides "
            'the distance alone. Use distance="mad", or logarithms.'
        ]
    return []


def _is_far(measured: Simulations, problem: Problem) -> bool:
    distance = measured.distance
    constant = bool((distance == distance[0]).all())  # said already
    return not constant and out_of_reach(distance, problem.observed_summary.size) is not None


def _on_reach(problem: Problem, rng: np.random.Generator, root: int) -> list[str]:
    """Whether more draws are far, too: a few are where most of the prior makes the same data."""
    theta, _ = _prior_draws(problem, rng, _MORE_DRAWS)
    index = _DRAWS + np.arange(len(theta))
    measured = _measure(problem, problem.simulate(theta, index, root), theta, index)
    said = out_of_reach(measured.distance, problem.observed_summary.size)
    return [] if said is None else [said]


def _flat(summary: FloatArray) -> FloatArray:
    return summary.reshape(len(summary), -1)


def _named(problem: Problem, theta: FloatArray) -> str:
    return ", ".join(f"{n}={v:.6g}" for n, v in zip(problem.names, theta.tolist(), strict=True))


def _signature(problem: Problem) -> str:
    p = len(problem.names)
    if problem.vectorized == "seeds":
        return f"as simulator(theta (n, {p}), seeds (n,))"
    rows = f"theta (n, {p})" if problem.vectorized else f"theta ({p},)"
    return f"as simulator({rows}, rng)"


def _size(shape: tuple[int, ...]) -> str:
    return "one number" if shape == () else f"shape {shape}"


def _short(array: FloatArray) -> str:
    return np.array2string(np.asarray(array), precision=4, threshold=6, edgeitems=2)


def _range(distance: FloatArray) -> str:
    finite = distance[np.isfinite(distance)]
    if len(finite) == 0:
        return "never finite"
    return f"from {finite.min():.4g} to {finite.max():.4g}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
