"""The dry run: call every part of a problem a few times and say what came back."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from abctree.data import Boxes, Simulations
from abctree.errors import SimulatorError
from abctree.numbers import checked_rng
from abctree.problem.measurement import Measurement, NegativeDistanceError, finite_rows
from abctree.problem.reach import out_of_reach
from abctree.problem.region import Region
from abctree.problem.simulators import Seeded
from abctree.types import FloatArray, IntArray, RNGLike

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


def dry_run(region: Region, measurement: Measurement, rng: RNGLike) -> CheckReport:
    """Simulate a few prior draws, one of them twice with the same seed and once with another.

    Raises
    ------
    SimulatorError
        If no simulation gives anything usable, with the reason of the first.
    """
    generator = checked_rng(rng)
    root = int(generator.integers(2**63))
    theta, share = _prior_draws(region, generator, _DRAWS)
    index = np.arange(len(theta))
    runs, times = [], [time.perf_counter()]
    for i in index:
        runs.append(measurement.simulate(theta[i : i + 1], index[i : i + 1], root))
        times.append(time.perf_counter())
    seconds = (times[-1] - times[1]) / (len(index) - 1)
    result = Simulations.join(runs)
    if len(result.failures) == len(theta):
        first = result.failures[0]
        raise SimulatorError(
            f"All {len(theta)} simulations of the dry run failed; the first, at "
            f"{_named(region, first.theta)}: {first.reason}"
            + (f"\n{first.traceback}" if first.traceback else "")
        )
    measured = _measure(measurement, result, theta, index)
    said = [
        *_on_failures(measured, len(theta)),
        *_on_randomness(measurement, theta, index, root, result),
        *_on_rows(measurement, theta, index, root),
        *_on_spread(measured, measurement),
    ]
    n_calls = len(theta) + 4
    if _is_far(measured, measurement) and _MORE_DRAWS * seconds <= _PATIENCE:
        said += _on_reach(region, measurement, generator, root)
        n_calls += _MORE_DRAWS
    lines = [
        *_on_prior(region, theta, share),
        f"simulator  {_duration(seconds)} a simulation, called {_signature(region, measurement)}",
        *_on_first_call(times[1] - times[0], seconds),
        f"summary    {_size(measurement.shape)}, observed {_short(measurement.observed_summary)}",
        *_on_missing(measurement),
        f"distance   {type(measurement.distance).__name__}, {_range(measured.distance)} in "
        f"{len(theta)} prior draws",
    ]
    return CheckReport(
        n_calls=n_calls,
        seconds=seconds,
        shape=measurement.shape,
        n_failed=len(measured.failures),
        warnings=tuple(said),
        lines=tuple(lines),
    )


def _prior_draws(region: Region, rng: np.random.Generator, n: int) -> tuple[FloatArray, float]:
    """Feasible prior draws (n, p), and the share of the prior that is feasible."""
    whole = Boxes.whole(region.prior.d)
    share = 1.0 if region.constraint is None else region.normaliser[0]
    found: list[FloatArray] = []
    while sum(map(len, found)) < n:
        theta = region.prior.from_cube(whole.sample(np.zeros(4 * n, dtype=np.int64), rng))
        found.append(theta[region.feasible(theta)])
    return np.concatenate(found)[:n], share


def _measure(
    measurement: Measurement, result: Simulations, theta: FloatArray, index: IntArray
) -> Simulations:
    fitted = measurement.fitted(result.summary[finite_rows(result.summary)])
    return fitted.measured(result, theta, index)


def _on_first_call(first: float, seconds: float) -> list[str]:
    """That the first call took longer than it will again: each worker has one of these."""
    took = f"           the first call took {_duration(first)}, as if it compiled something"
    return [took] if first > max(_SLOW, 10.0 * seconds) else []


def _on_prior(region: Region, theta: FloatArray, share: float) -> list[str]:
    names, d = region.prior.names, region.prior.d
    width = max(len(name) for name in names)
    lines = [f"prior      {len(names)} parameters, {d} of them free"]
    for j, name in enumerate(names):
        low, high = theta[:, j].min(), theta[:, j].max()
        seen = f"fixed at {low:.6g}" if low == high else f"draws from {low:.4g} to {high:.4g}"
        lines.append(f"           {name:<{width}}  {seen}")
    if region.constraint is not None:
        lines.append(f"constraint leaves {share:.3%} of the prior")
    return lines


def _on_missing(measurement: Measurement) -> list[str]:
    form = measurement.model.form
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
    measurement: Measurement, theta: FloatArray, index: IntArray, root: int, result: Simulations
) -> list[str]:
    """Whether the simulator draws its random numbers from what it is given, and only there."""
    ok = np.flatnonzero(finite_rows(result.summary))
    if len(ok) == 0:
        return []
    i = ok[:1]
    again = measurement.simulate(theta[i], index[i], root).summary
    other = measurement.simulate(theta[i], index[i], root + 1).summary
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


def _on_rows(measurement: Measurement, theta: FloatArray, index: IntArray, root: int) -> list[str]:
    """Whether a vectorised simulator gives each row its own answer."""
    if not measurement.vectorized:
        return []
    pair = measurement.simulate(theta[:2], index[:2], root)
    if pair.failures:
        return [f"a call with two rows failed: {pair.failures[0].reason}"]
    if np.array_equal(pair.summary[0], pair.summary[1]):
        return ["the vectorised simulator gave two rows the same answer: do they share randomness?"]
    return []


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


def _is_far(measured: Simulations, measurement: Measurement) -> bool:
    distance = measured.distance
    constant = bool((distance == distance[0]).all())  # said already
    return not constant and out_of_reach(distance, measurement.observed_summary.size) is not None


def _on_reach(
    region: Region, measurement: Measurement, rng: np.random.Generator, root: int
) -> list[str]:
    """Whether more draws are far, too: a few are where most of the prior makes the same data."""
    theta, _ = _prior_draws(region, rng, _MORE_DRAWS)
    index = _DRAWS + np.arange(len(theta))
    measured = _measure(measurement, measurement.simulate(theta, index, root), theta, index)
    said = out_of_reach(measured.distance, measurement.observed_summary.size)
    return [] if said is None else [said]


def _named(region: Region, theta: tuple[float, ...]) -> str:
    return ", ".join(f"{n}={v:.6g}" for n, v in zip(region.prior.names, theta, strict=True))


def _signature(region: Region, measurement: Measurement) -> str:
    p = len(region.prior.names)
    if isinstance(measurement.model, Seeded):
        return f"as simulator(theta (n, {p}), seeds (n,))"
    rows = f"theta (n, {p})" if measurement.vectorized else f"theta ({p},)"
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
