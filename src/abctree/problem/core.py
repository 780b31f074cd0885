"""`Problem`: a prior, a simulator, an observation, a summary, a distance, and a constraint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from abctree.data import Boxes, Failure, Partition, Simulations
from abctree.errors import ParameterError, SimulatorError
from abctree.keywords import checks_keywords
from abctree.problem.arguments import model_of, observation_of, prior_of, with_names
from abctree.problem.arrays import floats
from abctree.problem.check import CheckReport, dry_run
from abctree.problem.distances import as_distance, not_negative, of_entries
from abctree.problem.other_streams import Watch, search
from abctree.problem.region import Region
from abctree.problem.simulators import CAUGHT, Model, failure
from abctree.protocols import Constraint, Distance, Prior
from abctree.types import BoolArray, Data, FloatArray, IntArray, RNGLike, SimulatorFunction

#: Failures of one block whose traceback is kept.
_TRACEBACKS = 3
#: What simulations take of a problem.
_SENT = ("model", "observed_summary", "distance")


@checks_keywords
class Problem:
    r"""What is to be inferred: everything but how.

    Parameters
    ----------
    prior : dict or Prior
        Named parameters, each a frozen `scipy.stats` distribution (old or new style), a tuple
        ``(low, high)`` for a uniform, a number (fixed), `abctree.Integers` or
        `abctree.Categorical`; under a tuple of names a joint prior, `abctree.MultivariateNormal`
        or `abctree.Dirichlet`.  Or a `Prior` object, such as `abctree.PriorTransform` or
        `abctree.DensityPrior`.
    simulator : callable
        ``simulator(theta, rng) -> data``; see `vectorized`.
    observed : array_like
        The data, as the simulator returns them for one simulation.  Where both have labels (pandas,
        xarray, dicts, named tuples, dataclasses, structured arrays), simulations are put into its
        order, or refused if their labels are others.
    summary : callable, optional
        ``data -> (m,)``, or, vectorised, ``(n, ...) -> (n, m)``.  Applied to `observed`, too.
    distance : str, callable or Distance
        "euclidean", "manhattan", "chebyshev"; "mad" or "std" (Euclidean, each summary scaled by
        its spread in the pilot); "mahalanobis"; "energy" or "wasserstein" for samples; or a
        function ``(simulated, observed)`` of one pair, or, vectorised, ``(n, ...), (...) -> (n,)``.
    constraint : callable, optional
        A predicate on a dict of columns, such as ``lambda t: t["a"] < t["b"]``, vectorised over
        rows.  The prior is truncated to where it is true; refused points cost no simulation.
    vectorized : bool or "seeds"
        False: ``simulator(theta (p,), rng)``.  True: ``simulator(theta (n, p), rng) -> (n, ...)``
        with one generator a call.  "seeds": ``simulator(theta (n, p), seeds (n,)) -> (n, ...)``
        with a 64-bit seed for each simulation, for compiled simulators.
    prior_transform : callable, optional
        Instead of `prior`: a map of the unit cube, ``cube (n, d) -> theta (n, p)`` or of one point,
        ``(d,) -> (p,)``; needs `names`.
    names : sequence of str, optional
        Names for `prior_transform`.
    batch_size : int
        Most simulations in one call of a vectorised simulator.
    missing : {"refuse", "ignore", "summary"}
        What to do about nan, masked, NA or None in the observation.  "ignore": these entries take
        no part in the distance, which is given the others only (a function of yours, too), as one
        vector, or as rows if whole rows are missing.  A `summary` sees nan at the same entries of
        every simulation; where it is nan for the observation it is ignored.  "summary": it is
        applied to the data as they are.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.
    SimulatorError
        If the summary cannot be computed of the observation.
    """

    def __init__(
        self,
        prior: Mapping[Any, Any] | Prior | None = None,
        simulator: SimulatorFunction | None = None,
        observed: Data = None,
        *,
        summary: Callable[[Any], Any] | None = None,
        distance: str | Callable[..., Any] | Distance = "euclidean",
        constraint: Constraint | None = None,
        vectorized: bool | Literal["seeds"] = False,
        prior_transform: Callable[[FloatArray], FloatArray] | None = None,
        names: Sequence[str] | None = None,
        batch_size: int = 1000,
        missing: Literal["refuse", "ignore", "summary"] = "refuse",
    ) -> None:
        self.prior: Prior = prior_of(prior, prior_transform, names)
        simulator = with_names(simulator, self.prior.names)
        self.model: Model = model_of(simulator, summary, vectorized, batch_size)
        self.vectorized = vectorized
        if constraint is not None and not callable(constraint):
            raise ParameterError(
                f"`constraint` must be a function of named columns, but got {constraint!r}. "
                'Write it as lambda t: t["a"] < t["b"].'
            )
        self.region = Region(self.prior, constraint)
        self.observed = observed
        self.observed_summary, form = observation_of(
            observed, summary, missing, vectorized=bool(vectorized)
        )
        self.model = replace(self.model, form=form)  # type: ignore[type-var]
        self.distance = of_entries(as_distance(distance, vectorized=bool(vectorized)), form)

    @property
    def constraint(self) -> Constraint | None:
        """The predicate, if there is one."""
        return self.region.constraint

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of theta."""
        return tuple(self.prior.names)

    @property
    def d(self) -> int:
        """Dimensions of the cube: parameters that are not fixed."""
        return self.prior.d

    def __repr__(self) -> str:
        return f"Problem({', '.join(self.names)}; observed summary of shape {self.shape})"

    @checks_keywords
    def check(self, rng: RNGLike = None) -> CheckReport:
        """A dry run: a few prior draws through simulator, summary and distance.

        Parameters
        ----------
        rng : None, int, SeedSequence, BitGenerator or Generator
            For the prior draws and the simulations.

        Returns
        -------
        CheckReport
            Print it.  It says what is called and how, shapes, times, and what looks wrong: failed
            simulations, a simulator that ignores its generator or has one of its own, rows that
            share their randomness, summaries of very different size, an observation out of reach.

        Raises
        ------
        SimulatorError
            If nothing usable comes back, with the reason and the traceback.
        """
        return dry_run(self, rng)

    # What a simulation is -------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one summary."""
        return self.observed_summary.shape

    @property
    def unit(self) -> int:
        """Rows that must be simulated together; see `Executor`."""
        return self.model.unit

    def simulate(self, theta: FloatArray, index: IntArray, root: int) -> Simulations:
        """Simulations number `index` (n,) of the run with seed `root`, without their distances."""
        taken: list[Simulations] = []
        self.simulate_until(np.inf, theta, index, root, taken.append)
        return taken[0]

    def simulate_until(
        self,
        end: float,
        theta: FloatArray,
        index: IntArray,
        root: int,
        take: Callable[[Simulations], None],
    ) -> None:
        """The first of these simulations: those that are begun before a time, at least one unit.

        Parameters
        ----------
        end : float
            By `time.monotonic`.
        theta, index, root
            As for `simulate`.
        take : callable
            Called once, with what is finished, also if Ctrl-C ends it before.
        """
        rows = np.full((len(theta), *self.shape), np.nan)
        failures: list[Failure] = []
        n = 0
        try:
            for n in self.model.fill(rows, failures, theta, index, root):  # noqa: B007 - read below
                if time.monotonic() >= end:
                    break
        finally:
            if n == len(theta):
                take(Simulations(np.full(n, np.inf), rows, tuple(failures)))
            elif n:
                finished = set(index[:n].tolist())
                some = tuple(f for f in failures if f.index in finished)
                take(Simulations(np.full(n, np.inf), rows[:n].copy(), some))

    def finite(self, simulations: Simulations, theta: FloatArray, index: IntArray) -> Simulations:
        """The same simulations; a summary that is not finite is a failure."""
        bad = ~finite_rows(simulations.summary)
        if not bad.any():
            return simulations
        source = "simulator" if self.model.summary is None else "summary"
        new = _unnamed(bad, simulations.failures, theta, index, f"{source} returned nan or inf")
        return replace(simulations, failures=(*simulations.failures, *new))

    def measured(self, simulations: Simulations, theta: FloatArray, index: IntArray) -> Simulations:
        """The same simulations with their distances; what is not finite becomes a failure."""
        summary = simulations.summary
        usable = finite_rows(summary)
        if usable.all():
            failures = list(simulations.failures)
            distance = self._distance(summary, theta, index, failures)
        else:
            failures = list(self.finite(simulations, theta, index).failures)
            distance = np.full(len(summary), np.inf)
            if usable.any():
                distance[usable] = self._distance(
                    summary[usable], theta[usable], index[usable], failures
                )
        bad = ~np.isfinite(distance)
        if bad.any():
            failures += _unnamed(bad, failures, theta, index, "distance returned nan or inf")
            distance = np.where(bad, np.inf, distance)
        return replace(simulations, distance=distance, failures=tuple(failures))

    def _distance(
        self, summary: FloatArray, theta: FloatArray, index: IntArray, failures: list[Failure]
    ) -> FloatArray:
        try:
            return self._checked_distance(summary)
        except CAUGHT:  # find the rows that raise, keep the others
            distance = np.full(len(summary), np.inf)
            for i in range(len(summary)):
                try:
                    distance[i] = self._checked_distance(summary[i : i + 1])[0]
                except CAUGHT as error:
                    known = isinstance(error, SimulatorError)  # its message names the distance
                    source, trace = "" if known else "distance raised ", len(failures) < _TRACEBACKS
                    failures.append(failure(index[i], theta[i], error, trace=trace, source=source))
            return distance

    def _checked_distance(self, summary: FloatArray) -> FloatArray:
        """Distances (n,), which may be nan or inf."""
        value = floats(self.distance(summary, self.observed_summary), "distance")
        if value.shape != (len(summary),):
            raise SimulatorError(
                f"distance returned shape {value.shape} for {len(summary)} simulations; "
                f"it must be ({len(summary)},)."
            )
        return not_negative(value, summary, self.observed_summary)

    def rerun(self, theta: FloatArray, index: IntArray, root: int, number: int) -> float:
        """The distance of simulation `number`, made again alone; what it raises is not caught.

        Parameters
        ----------
        theta, index : (m, p) and (m,)
            The rows that were simulated together with it, itself included: for a vectorised
            simulator those of its unit, otherwise its own row is enough.
        root : int
            The seed of the run, ``result.root``.
        number : int
            One of `index`.

        Raises
        ------
        SimulatorError
            If the summary or the distance is nan or inf.
        ParameterError
            If the simulation is sound so far, but the distance has no scale yet.
        """
        row = int(np.flatnonzero(index == number)[0])
        summary = self.model.rerun(theta, index, root, self.shape, row)
        if not np.isfinite(summary).all():
            raise SimulatorError(f"The summary of simulation {number} is not finite: {summary!r}")
        if self.needs_pilot:
            raise ParameterError(
                "`problem` must have a fitted distance, but got one that a pilot has to scale. "
                "Give `result.problem`."
            )
        distance = float(self._checked_distance(summary[None])[0])
        if not np.isfinite(distance):
            raise SimulatorError(f"The distance of simulation {number} is {distance}.")
        return distance

    @property
    def needs_pilot(self) -> bool:
        """Whether the distance takes its scale from pilot simulations."""
        return hasattr(self.distance, "fitted") and not getattr(self.distance, "is_fitted", False)

    def fitted(self, summary: FloatArray) -> Problem:
        """The problem with the distance scaled by pilot summaries (n, ...)."""
        if not self.needs_pilot:
            return self
        other = object.__new__(Problem)
        other.__dict__.update(self.__dict__)
        other.distance = self.distance.fitted(summary)  # type: ignore[attr-defined]
        return other

    # What the prior says of points and boxes ------------------------------------------------

    def feasible(self, theta: FloatArray, cube: FloatArray | None = None) -> BoolArray:
        """Where the constraint holds, (n, p) -> (n,), and, given `cube`, the prior has density."""
        return self.region.feasible(theta, cube)

    def prior_weight(self, cube: FloatArray) -> FloatArray:
        """Prior density relative to the cube, up to the constant in `normaliser`: (n, d) -> (n,).

        One, unless the prior is known as a density only (the paper's Remark 1).
        """
        return self.region.weight(cube)

    @property
    def is_plain(self) -> bool:
        """Whether π(Ω_k) is the volume of the box, exactly."""
        return self.region.is_plain

    @property
    def normaliser(self) -> tuple[float, float]:
        """Integral of `prior_weight` over the feasible part of the cube, and its relative error.

        Without simulations.

        Raises
        ------
        ParameterError
            If no feasible point is found, or the density is too peaked to be integrated.
        """
        return self.region.normaliser

    def measure(self, boxes: Boxes) -> Partition:
        """The prior's masses and volumes of boxes.

        π(Ω_k) is the volume of the box in the cube, exactly, unless there is a constraint or a
        density prior: then it is estimated at no simulation cost.  That estimate steers which arms
        are played; weights and evidence do not rest on it (`Mixture`).
        """
        return self.region.measure(boxes)


def finite_rows(summary: FloatArray) -> BoolArray:
    """Which summaries (n, ...) are finite throughout: (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(summary.sum()):  # no row is nan or inf: by far the most frequent case
            return np.ones(len(summary), dtype=bool)
    return np.asarray(np.isfinite(summary).all(axis=tuple(range(1, summary.ndim))))


def _unnamed(
    bad: BoolArray,
    failures: Iterable[Failure],
    theta: FloatArray,
    index: IntArray,
    reason: str,
) -> list[Failure]:
    """Failures for the bad rows (n,) that have none yet."""
    known = {f.index for f in failures}
    rows = [i for i in np.flatnonzero(bad).tolist() if int(index[i]) not in known]
    return [Failure(int(index[i]), tuple(theta[i].tolist()), reason) for i in rows]


@dataclass(frozen=True)
class Discrepancy:
    """The work of a block: parameters and numbers of simulations in, distances out.

    Pickled, it has of the problem what it needs: not the prior, the constraint, nor the data.
    """

    problem: Problem
    root: int  #: 64-bit seed of the run

    def __post_init__(self) -> None:
        self.__dict__["process"] = os.getpid()  # no field: it makes no difference

    def __getstate__(self) -> dict[str, Any]:
        sent = {name: getattr(self.problem, name) for name in _SENT}
        return {**self.__dict__, "problem": sent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        problem = object.__new__(Problem)
        problem.__dict__.update(state["problem"])
        self.__dict__.update({**state, "problem": problem})
        if self._is_elsewhere:
            search(self.root)  # now, for a call may have little time

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this is another process than that of the run."""
        return bool(self.__dict__["process"] != os.getpid())

    def __call__(self, theta: FloatArray, index: IntArray) -> Simulations:
        """Simulate, summarise and measure rows (m, p)."""
        taken: list[Simulations] = []
        self.until(np.inf, theta, index, taken.append)
        return taken[0]

    def until(
        self, end: float, theta: FloatArray, index: IntArray, take: Callable[[Simulations], None]
    ) -> None:
        """As a call, but of the first rows only: see `Problem.simulate_until`."""
        began = time.time()
        watch = Watch(self.root, index, is_elsewhere=self._is_elsewhere)

        def judge(done: Simulations) -> None:
            n = len(done.distance)
            judged = self._judged(done, theta[:n], index[:n], began)
            take(replace(judged, other_streams=watch.moved()))

        self.problem.simulate_until(end, theta, index, self.root, judge)

    def _judged(
        self, done: Simulations, theta: FloatArray, index: IntArray, began: float
    ) -> Simulations:
        done = replace(done, began=began)
        if self.problem.needs_pilot:
            return self.problem.finite(done, theta, index)
        return self.problem.measured(done, theta, index)
