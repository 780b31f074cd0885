"""The dry run: call every part of a problem a few times and say what came back."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, Simulations
from abctree.errors import SimulatorError
from abctree.markup import page, paragraphs, title, verbatim
from abctree.numbers import checked_rng
from abctree.problem.by_name import OfArguments
from abctree.problem.measurement import Measurement, NegativeDistanceError, finite_rows
from abctree.problem.region import Region
from abctree.types import FloatArray, IntArray, RNGLike

#: Distances tell nothing when they are fewer.
_LEAST = 10
#: A smallest distance of so many standard deviations is far, times the root of the number of
#: summaries: distances of m independent errors are about √(2m) standard deviations from 0, where
#: θ hardly moves the data.  Runs of our problems, and of pure noise, stay below 4 with a thousand
#: simulations.
_FAR = 50.0
#: Prior draws that a dry run simulates.
_DRAWS = 10
#: Rows of one parameter that a vectorised simulator is given twice: coins are all alike in a
#: hundredth of such pairs of calls.
_ROWS = 4
#: More draws, to be sure that the observation is out of reach, if they take so many seconds.
_MORE_DRAWS, _PATIENCE = 500, 5.0
#: Seconds of a first call that are told, if they are ten times those of the others.
_SLOW = 0.1


def all_ties(distance: FloatArray) -> bool:
    """Whether all distances (n,) of simulations that did not fail are equal, but for rounding."""
    near = distance[np.isfinite(distance)]
    return len(near) >= _LEAST and bool(np.ptp(near) <= 1e-12 * near.max())


def out_of_reach(distance: FloatArray, n_summaries: int) -> str | None:
    """What it means that all distances (n,) are far from 0 and close to each other, or None.

    They are of draws of the prior, or of a run that began there; inf for failures.
    """
    near = distance[np.isfinite(distance)]
    if len(near) < _LEAST:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        smallest, spread = float(near.min()), float(near.std())
    if not smallest > _FAR * np.sqrt(n_summaries) * spread:
        return None
    return (
        f"The smallest of {len(near)} distances is {smallest:.4g}, and they differ by {spread:.2g} "
        "only (one standard deviation): nothing that was simulated is anywhere near the "
        "observation. Check that the simulator can produce it: units, and the order of the "
        "summaries."
    )


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        said = "no problem found" if self.ok else f"{len(self.warnings)} things to look at"
        return f"CheckReport({self.n_calls} simulations, {self.n_failed} failed: {said}; print it)"

    def _repr_html_(self) -> str:
        return page(title(repr(self)), *paragraphs(self.warnings), verbatim("\n".join(self.lines)))


def dry_run(region: Region, measurement: Measurement, rng: RNGLike) -> CheckReport:
    """Simulate a few prior draws, one of them twice with the same seed and once with another."""
    generator = checked_rng(rng)
    root = int(generator.integers(2**63))
    cube, theta = _prior_draws(region, generator, _DRAWS)
    index = np.arange(len(theta))
    runs, times = [], [time.perf_counter()]
    for i in index:
        runs.append(measurement.simulate(theta[i : i + 1], index[i : i + 1], root))
        times.append(time.perf_counter())
    first, seconds = times[1] - times[0], (times[-1] - times[1]) / (len(index) - 1)
    result = Simulations.join(runs)
    if len(result.failures) == len(theta):
        lost = result.failures[0]
        named = zip(region.prior.names, lost.theta, strict=True)
        raise SimulatorError(
            f"All {len(theta)} simulations of the dry run failed; the first, at "
            f"{', '.join(f'{name}={value:.6g}' for name, value in named)}: {lost.reason}"
            + (f"\n{lost.traceback}" if lost.traceback else "")
        )
    measured = _measure(measurement, result, cube, theta, index)
    said = [
        *_on_failures(measured, len(theta)),
        *_on_randomness(measurement, theta, index, root, result),
        *_on_spread(measured, measurement),
    ]
    distance = measured.distance
    n_calls = len(theta) + 2 + (len(theta) + 2 * _ROWS) * bool(measurement.vectorized)
    size = measurement.observed_summary.size
    is_far = out_of_reach(distance, size) and (distance != distance[0]).any()  # else said already
    if is_far and _MORE_DRAWS * seconds <= _PATIENCE:
        # A few draws are far, too, where most of the prior makes the same data.
        places, more = _prior_draws(region, generator, _MORE_DRAWS)
        numbers = len(theta) + np.arange(len(more))
        made = measurement.simulate(more, numbers, root)
        others = _measure(measurement, made, places, more, numbers)
        said += filter(None, [out_of_reach(others.distance, size)])
        n_calls += len(more)
    lines = _on_prior(region, theta)
    lines.append(
        f"simulator  {_duration(seconds)} a simulation, called {_call(theta, measurement)}"
    )
    if first > max(_SLOW, 10.0 * seconds):  # each worker has one of these
        took = f"the first call took {_duration(first)}, as if it compiled something"
        lines.append(f"           {took}")
    lines += _on_summary(measurement)
    near = distance[np.isfinite(distance)]
    span = f"from {near.min():.4g} to {near.max():.4g}" if len(near) else "never finite"
    kind = type(measurement.distance).__name__
    lines.append(f"distance   {kind}, {span} in {len(theta)} prior draws")
    n_failed = len(measured.failures)
    return CheckReport(n_calls, seconds, measurement.shape, n_failed, tuple(said), tuple(lines))


def _prior_draws(region: Region, rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """Feasible prior draws (n, d) and (n, p)."""
    whole = Boxes.whole(region.prior.d)
    if region.constraint is not None:
        _ = region.normaliser  # raises where next to nothing is feasible
    places: list[FloatArray] = []
    found: list[FloatArray] = []
    while sum(map(len, found)) < n:
        cube = whole.sample(np.zeros(4 * n, dtype=np.int64), rng)
        theta = region.prior.from_cube(cube)
        allowed = region.feasible(theta)
        places.append(cube[allowed])
        found.append(theta[allowed])
    return np.concatenate(places)[:n], np.concatenate(found)[:n]


def _measure(
    measurement: Measurement,
    result: Simulations,
    cube: FloatArray,
    theta: FloatArray,
    index: IntArray,
) -> Simulations:
    usable = finite_rows(result.summary)
    fitted = measurement.fitted(result.summary[usable], cube[usable])
    return fitted.measured(result, theta, index)


# What is told -----------------------------------------------------------------------------------


def _on_prior(region: Region, theta: FloatArray) -> list[str]:
    names, d = region.prior.names, region.prior.d
    width = max(len(name) for name in names)
    lines = [f"prior      {len(names)} parameters, {d} of them free"]
    for name, column in zip(names, theta.T, strict=True):
        low, high = column.min(), column.max()
        seen = f"fixed at {low:.6g}" if low == high else f"draws from {low:.4g} to {high:.4g}"
        lines.append(f"           {name:<{width}}  {seen}")
    if region.constraint is not None:
        lines.append(f"constraint leaves {region.normaliser[0]:.3%} of the prior")
    return lines


def _call(theta: FloatArray, measurement: Measurement) -> str:
    p, simulator = theta.shape[1], measurement.model.simulator
    stream = "seeds (n,)" if measurement.model.vectorized == "seeds" else "rng"
    rows = f"theta (n, {p})" if measurement.vectorized else f"theta ({p},)"
    if isinstance(simulator, OfArguments):
        shape = " (n,)" if measurement.vectorized else ""
        rows = ", ".join(f"{name}{shape}" for name in simulator.names)
    return f"as simulator({rows}, {stream})"


def _on_summary(measurement: Measurement) -> list[str]:
    observed, form = measurement.observed_summary, measurement.model.form
    shape = f"shape {observed.shape}" if observed.shape else "one number"
    values = np.array2string(observed, precision=4, threshold=6, edgeitems=2)
    lines = [f"summary    {shape}, observed {values}"]
    if form is not None and form.keep is not None:
        n = int(np.prod(form.shape))
        m = n - len(form.keep)
        are = "is" if m == 1 else "are"
        lines.append(f"           {m} of {n} numbers of the observation {are} missing and left out")
    return lines


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


# What to look at --------------------------------------------------------------------------------


def _on_failures(measured: Simulations, n: int) -> list[str]:
    if not measured.failures:
        return []
    for failure in measured.failures:
        if failure.reason.startswith(NegativeDistanceError.REASON):
            reason = failure.reason.removeprefix(NegativeDistanceError.REASON)
            return [f"{reason} A run would end here."]
    return [
        f"{len(measured.failures)} of {n} prior draws failed (each would count as a rejection); "
        f"the first: {measured.failures[0].reason}"
    ]


def _on_randomness(
    measurement: Measurement, theta: FloatArray, index: IntArray, root: int, result: Simulations
) -> list[str]:
    """Whether the simulator draws its random numbers from what it is given, row by row."""
    said: list[str] = []
    i = np.flatnonzero(finite_rows(result.summary))[:1]
    if not len(i):
        return said
    again = measurement.simulate(theta[i], index[i], root).summary
    other = measurement.simulate(theta[i], index[i], root + 1).summary
    repeats = np.array_equal(again, result.summary[i])
    is_deterministic = repeats and np.array_equal(other, again)
    if not repeats:
        said.append(
            "the simulator gave two answers for one seed: it draws random numbers of its own. Draw "
            "them all from the generator it is given, or no run can be repeated."
        )
    elif is_deterministic:
        said.append(
            "the simulator gave the same answer for two seeds: it is deterministic, or it reseeds "
            "itself and ignores the generator it is given."
        )
    if not measurement.vectorized:
        return said
    is_known = is_deterministic or (repeats and measurement.model.vectorized == "seeds")
    together = measurement.simulate(theta, index, root).summary
    if is_known and not np.allclose(together, result.summary, 1e-3, equal_nan=True):
        said.append(
            "the vectorised simulator makes another thing of a row alone than among others: rows "
            "are mixed up, or in another order than those of theta."
        )
    rows, numbers = np.repeat(theta[i], _ROWS, axis=0), index[:_ROWS]
    calls = [measurement.simulate(rows, numbers, root + call) for call in range(2)]
    for call in calls:
        if call.failures:
            return [*said, f"a call with {_ROWS} rows failed: {call.failures[0].reason}"]
    a, b = (call.summary for call in calls)
    if (a == a[0]).all() and (b == b[0]).all() and not np.array_equal(a, b):
        said.append(
            f"the vectorised simulator gave {_ROWS} rows of one parameter the same answer, and "
            "another in another call: they share their randomness. Draw numbers of its own for "
            "each row, as in rng.normal(size=theta.shape)."
        )
    return said


def _on_spread(measured: Simulations, measurement: Measurement) -> list[str]:
    distance = measured.distance[np.isfinite(measured.distance)]
    if len(distance) > 1 and distance.min() == distance.max():
        return [f"all distances are {distance[0]:.6g}: the summary does not vary with theta."]
    scale = np.abs(measured.summary.reshape(len(measured.summary), -1))
    typical = np.median(np.where(np.isfinite(scale), scale, np.nan), axis=0)
    typical = typical[typical > 0.0]
    plain = type(measurement.distance).__name__ == "Euclidean"
    if plain and len(typical) > 1 and typical.max() > 1000.0 * typical.min():
        return [
            "the summaries differ in size by more than a factor of 1000, and the largest decides "
            'the distance alone. Use distance="mad", or logarithms.'
        ]
    return []
