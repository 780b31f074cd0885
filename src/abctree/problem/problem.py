"""`Problem`: a prior, a simulator, an observation, a summary, a distance, and a constraint."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from abctree.data import Simulations
from abctree.keywords import checks_keywords
from abctree.markup import listed, page, paragraphs, title, verbatim
from abctree.problem.arguments import (
    check_function,
    check_rows,
    copied,
    model_of,
    observation_of,
    prior_of,
)
from abctree.problem.check import CheckReport, dry_run
from abctree.problem.combined import DistanceLike, as_distance, distance_of
from abctree.problem.learned import Learned, LearnedSummaries
from abctree.problem.measurement import Measurement
from abctree.problem.region import Region
from abctree.problem.simulators import Model
from abctree.protocols import Constraint, Distance, Prior
from abctree.types import Data, FloatArray, IntArray, RNGLike, SimulatorFunction, SummaryFunction


@checks_keywords
class Problem:
    r"""What is to be inferred: everything but how.

    Parameters
    ----------
    prior : dict or Prior
        Named parameters, each a frozen `scipy.stats` distribution (old or new style), a tuple
        ``(low, high)`` for a uniform, a number (fixed), `abctree.Integers`,
        `abctree.Categorical` or `abctree.Periodic`; under a tuple of names a joint prior,
        `abctree.MultivariateNormal` or `abctree.Dirichlet`.  Or a `Prior` object, such as
        `abctree.PriorTransform` or `abctree.DensityPrior`.
    simulator : callable
        ``simulator(theta, rng) -> data``; see `vectorized`.  Parameters are in the order of the
        prior, or found as ``theta["beta"]``; or they are taken by name, ``simulator(beta, gamma,
        rng)``, each a number, or, vectorised, a column (n,).
    observed : array_like
        The data, as the simulator returns them for one simulation.  Where both have labels (pandas,
        polars, pyarrow, xarray, dicts, named tuples, dataclasses, structured arrays), simulations
        are put into its order, or refused if their labels are others.
    summary : callable or Learned, optional
        ``data -> (m,)``, or, vectorised, ``(n, ...) -> (n, m)``.  Applied to `observed`, too.
        `abctree.Learned` learns summaries from the pilot.
    distance : str, callable, Distance or dict
        "euclidean", "manhattan", "chebyshev"; "mad" or "std" (Euclidean, each summary scaled by
        its spread in the pilot); "mahalanobis"; "energy" or "wasserstein" for samples; or a
        function ``(simulated, observed)`` of one pair, or, vectorised, ``(n, ...), (...) -> (n,)``.
        Of several data sets, in an observation that is a dict, a dict with one, or with (one,
        weight), for each: see `abctree.distances.Combined`.
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
        prior: Mapping[object, object] | Prior | None = None,
        simulator: SimulatorFunction | None = None,
        observed: Data = None,
        *,
        summary: SummaryFunction | Learned | None = None,
        distance: DistanceLike = "euclidean",
        constraint: Constraint | None = None,
        vectorized: bool | Literal["seeds"] = False,
        prior_transform: Callable[[FloatArray], FloatArray] | None = None,
        names: Sequence[str] | None = None,
        batch_size: int = 1000,
        missing: Literal["refuse", "ignore", "summary"] = "refuse",
    ) -> None:
        own = prior_of(prior, prior_transform, names)
        check_function("constraint", constraint, ' Write it as lambda t: t["a"] < t["b"].')
        self.region = Region(own, constraint)
        learned = None
        if isinstance(summary, Learned):
            learned, summary = summary, summary.features
        call = model_of(simulator, own.names, summary, vectorized, batch_size)
        self.observed = copied(observed)
        many = bool(vectorized)
        summarised, form, shapes = observation_of(observed, summary, missing, vectorized=many)
        if learned is None:
            chosen = distance_of(distance, form, shapes, vectorized=many)
            if many:
                check_rows("distance", lambda rows: chosen(rows, summarised), summarised)
        else:
            chosen = LearnedSummaries(learned, as_distance(distance, vectorized=many))
        self.measurement = Measurement(replace(call, form=form), summarised, chosen)

    @property
    def prior(self) -> Prior:
        """π, as a map of the unit cube."""
        return self.region.prior

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

    @property
    def model(self) -> Model:
        """Simulator and summary as one function on a batch."""
        return self.measurement.model

    @property
    def observed_summary(self) -> FloatArray:
        """The summary of the data, without what is missing."""
        return self.measurement.observed_summary

    @property
    def distance(self) -> Distance:
        """The distance; that of a result has its scale."""
        return self.measurement.distance

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one summary."""
        return self.measurement.shape

    @property
    def unit(self) -> int:
        """Rows that must be simulated together; see `Executor`."""
        return self.measurement.unit

    def length_of_pilot(self, n_simulations: int) -> int | None:
        """Simulations that the pilot of a run needs, if the problem asks for some."""
        distance = self.distance
        if not isinstance(distance, LearnedSummaries):
            return None
        return distance.how.length_of_pilot(self.observed_summary.size, n_simulations)

    @property
    def needs_pilot(self) -> bool:
        """Whether the distance takes its scale from pilot simulations."""
        return self.measurement.needs_pilot

    def __repr__(self) -> str:
        return f"Problem({listed(self.names)}; observed summary of shape {self.shape})"

    def _repr_html_(self) -> str:
        constrained = "" if self.constraint is None else ", and a constraint"
        said = f"{type(self.distance).__name__} as the distance{constrained}"
        return page(title(repr(self)), verbatim(repr(self.prior)), *paragraphs([said]))

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
        return dry_run(self.region, self.measurement, rng)

    def simulate(self, theta: FloatArray, index: IntArray, root: int) -> Simulations:
        """Simulations number `index` (n,) of the run with seed `root`, without their distances."""
        return self.measurement.simulate(theta, index, root)

    def fitted(self, summary: FloatArray, cube: FloatArray) -> Problem:
        """The problem with the distance scaled by pilot summaries (n, ...) at places (n, d)."""
        return self._with(self.measurement.fitted(summary, cube))

    def measured_as(self, other: Problem) -> Problem:
        """The problem with the distance of another, which has its scale."""
        return self._with(replace(self.measurement, distance=other.distance))

    def with_observed_summary(self, summary: FloatArray) -> Problem:
        """The problem with the summary of other data."""
        return self._with(replace(self.measurement, observed_summary=summary))

    def _with(self, measurement: Measurement) -> Problem:
        other = copy.copy(self)
        other.measurement = measurement
        return other
