"""`Run`: what a run left, and how its table is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from abctree.answers import diagnostics
from abctree.answers.evidence import Evidence, evidence, gap_between
from abctree.answers.failures import Failures
from abctree.answers.histogram import StepFold, StepPosterior
from abctree.answers.posterior import Posterior
from abctree.answers.selection import select
from abctree.answers.weighted import log_of
from abctree.data import OtherStream, Partition, Plan, Rounds, Steps, Table, mixture_weights
from abctree.errors import ParameterError, warnings_kept, wrong
from abctree.keywords import checks_keywords_of_methods
from abctree.markup import listed, page, paragraphs, short, title
from abctree.method import METHODS
from abctree.numbers import checked_number
from abctree.problem import Problem
from abctree.problem.priors.cube import checked_theta
from abctree.proposals.proposal import UniformCube
from abctree.proposals.ranges import cube_range, mean_density, middle, out_of_support
from abctree.protocols import HasBounds
from abctree.types import FloatArray, IntArray

Weights = Literal["mixture", "round", "draw", "population"]
#: Where rounds aim at the tolerance of the answer, draws are looked at up to so many of the last.
NEAR = 2.0


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False)
class Run:
    """The lookup table and rounds of a run, and what is a reading of the table.

    What users hold is a `Result`, which knows the mode and what to know of it all, too.
    """

    problem: Problem  #: with its distance fitted
    table: Table  #: one row for every simulation, failures included
    rounds: Rounds  #: round 0 is the pilot
    plan: Plan
    failures: Failures
    stopped_because: str
    seconds: float  #: wall time of the run, simulator included
    root: int  #: seed of the simulations' streams
    default_weights: Weights = "mixture"
    method: str = "abc_tree"
    n_made: int | None = None  #: simulations made, if the table holds the closest of them only
    population: int | None = None  #: round of the population that answers (`abctree.smc`)
    default_epsilon: float | None = None  #: tolerance of `posterior()`; None: see there
    code_changes: tuple[str, ...] = ()  #: sentences; none if one code made all simulations
    #: Seconds of the run at the end of each round, the pilot first; none if they are not known.
    seconds_by_round: tuple[float, ...] = ()
    #: Of random numbers that simulations drew from beside the generator they were given.
    other_streams: frozenset[OtherStream] = frozenset()

    @property
    def n_simulations(self) -> int:
        """Simulations made."""
        return len(self.table) if self.n_made is None else self.n_made

    @property
    def epsilon(self) -> float:
        """Tolerance of the last round."""
        return self.rounds[-1].epsilon

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The last partition of each fold."""
        return self.rounds[-1].partitions

    @property
    def partition(self) -> Partition:
        """The last partition of the first fold."""
        return self.partitions[0]

    def __repr__(self) -> str:
        return (
            f"Result({listed(self.problem.names)}; {self.n_simulations} simulations, "
            f"{len(self.rounds) - 1} rounds, last epsilon {self.epsilon:.4g}; "
            f"{short(self.stopped_because, 400)})"
        )

    def _repr_html_(self) -> str:
        what = ["The answer is that of .summary(); rounds, the last first:"]
        return page(title(repr(self)), *paragraphs(what), self.rounds._repr_html_())

    # Weights --------------------------------------------------------------------------------

    def weights(self, kind: Weights | None = None) -> FloatArray:
        """Raw importance weights (T,) of all rows, such that the evidence is a mean.

        Parameters
        ----------
        kind : {"mixture", "round", "draw", "population"}
            By all proposals of the run, by the average proposal of the draw's own round, or by the
            proposal at the time of the draw (Algorithm 1, line 10).  "population" is that of
            `abctree.smc`: one population answers alone, by its own proposal, and the weights of
            all other rows are zero.  Default: that of the run.

        Raises
        ------
        ParameterError
            If `kind` is none of these.
        """
        kind = kind or self.default_weights
        normaliser = self.problem.region.normaliser[0]
        if kind == "mixture":
            self._check_mixture()
            return mixture_weights(self.table) / normaliser
        if kind == "draw":
            return self.table.prior_weight / self.table.proposal / normaliser
        if kind == "round":
            return self._round_weights / normaliser
        if kind == "population" and self.population is not None:
            return self._population_weights / normaliser
        raise wrong("weights", 'be "mixture", "round" or "draw"', repr(kind))

    @cached_property
    def _round_weights(self) -> FloatArray:
        """``n_{s,f}`` over the sum of the fold's proposals in the draw's round."""
        table = self.table
        weight = table.prior_weight / table.proposal  # of the pilot
        if self.population is not None:
            return np.asarray(weight)  # a population has one proposal
        for played in self.rounds[1:]:
            rows = np.arange(played.first, played.last)
            for f, mixture in enumerate(played.mixtures):
                own = rows[table.fold[rows] == f]
                density = mixture.newest(table.cube[own])
                weight[own] = len(own) / density * table.prior_weight[own]
        return np.asarray(weight)

    @property
    def _population_weights(self) -> FloatArray:
        """Weights of one population, as if all simulations of the run had been its own."""
        table = self.table
        # The pilot's prior draws belong to the first population.
        own = table.round <= 1 if self.population == 1 else table.round == self.population
        return np.where(own, table.prior_weight / table.proposal / (float(own.mean()) or 1.0), 0.0)

    def _check_mixture(self) -> None:
        if np.isnan(self.table.denominator).any():
            raise ParameterError(
                '`weights` must be "population", "round" or "draw" for this run, but got '
                '"mixture". Run abctree.smc with weights="mixture": it keeps what they need.'
            )

    def mixture_ratio(self, theta: FloatArray) -> FloatArray:
        """Density of all the run's proposals relative to the prior: theta (n, p) -> (n,).

        Its inverse, averaged over draws of the ε-posterior, is the inverse of the honest gain over
        rejection, ``h = 1 / E[1 / m(θ)]``.  inf where the density of the prior is 0 or the
        constraint refuses theta.

        A value of a discrete parameter owns an interval of the cube, over which the proposals are
        averaged: exactly, up to rounding, for those on boxes, and to about 1 % for others, those of
        `abctree.smc` and ``proposal="adaptive"`` (16 midpoints, or 64 Sobol' points for several
        discrete parameters).

        Raises
        ------
        ParameterError
            If the prior is a map without an inverse (`PriorTransform`).
        """
        rows = checked_theta(theta, self.problem.names)
        lower, upper = cube_range(self.problem.prior, rows)
        total = np.zeros(len(rows))
        for mixture in self.rounds[-1].mixtures:
            total += mean_density(mixture, lower, upper)
        density = self._prior_density(rows, middle(lower, upper))
        ratio = np.full(len(rows), np.inf)
        with np.errstate(over="ignore"):
            np.divide(total / self.n_simulations, density, out=ratio, where=density > 0.0)
        return ratio

    def _prior_density(self, theta: FloatArray, cube: FloatArray) -> FloatArray:
        """Density (n,) of the truncated prior, relative to the cube."""
        problem = self.problem
        allowed = problem.region.feasible(theta) & ~out_of_support(problem.prior, theta, cube)
        return np.where(allowed, problem.region.weight(cube) / problem.region.normaliser[0], 0.0)

    # Answers --------------------------------------------------------------------------------

    def posterior(
        self,
        epsilon: float | None = None,
        ess: float | None = None,
        weights: Weights | None = None,
    ) -> Posterior:
        """Weighted draws pooled over all rounds; see `Result.posterior`."""
        table = self.table
        if epsilon is None and ess is None and weights in (None, self.default_weights):
            epsilon = self.default_epsilon
        self._check_kept(epsilon)
        observed = self.problem.observed_summary.ravel()
        return self.draws_by(
            table.distance,
            (table.summary_of, observed) if table.summary_size else None,
            weights,
            epsilon=epsilon,
            ess=ess,
            limit=self._first_epsilon,
            near=self._near,
        )

    def draws_by(
        self,
        distance: FloatArray,
        summaries: tuple[Callable[[IntArray], FloatArray], FloatArray] | None,
        weights: Weights | None,
        *,
        epsilon: float | None,
        ess: float | None,
        limit: float = np.inf,
        near: float = np.inf,
    ) -> Posterior:
        """Weighted draws by distances (T,), with summaries (k, q) of rows (k,), and observed."""
        table, bounds, weight = self.table, self._bounds, self.weights(weights)
        rows, epsilon = select(
            distance,
            weight,
            epsilon=epsilon,
            ess=ess,
            limit=limit,
            near=near,
            n_simulations=self.n_simulations,
        )
        return Posterior(
            theta=table.theta_of(rows),
            log_weights=log_of(weight[rows]),
            distance=distance[rows],
            epsilon=epsilon,
            names=self.problem.names,
            n_simulations=self.n_simulations,
            cube=table.cube[rows],
            summary=None if summaries is None else summaries[0](rows),
            observed=None if summaries is None else summaries[1],
            bounds=bounds,
            continuous=None if bounds is None else ~np.isnan(bounds[:, 0]),
            region=self.problem.region,
            notes=self.code_changes,
        )

    def _check_kept(self, epsilon: float | None) -> None:
        if self.n_made is None or epsilon is None:
            return
        if checked_number("epsilon", epsilon) > self._first_epsilon:
            raise ParameterError(
                f"`epsilon` must be at most {self._first_epsilon:.6g}, below which all draws were "
                f"kept, but got {epsilon}. Run again with a larger `keep`."
            )

    @property
    def _first_epsilon(self) -> float:
        """Tolerance of the first round, above which no answer's is."""
        return self.rounds[1].epsilon if len(self.rounds) > 1 else np.inf

    @property
    def _near(self) -> float:
        """Tolerance up to which draws must keep an effective sample size that they have before.

        Rounds that aim at the tolerance of the answer leave little for much larger ones: what is
        heavy there is no sign that a draw is missed here.
        """
        return NEAR * self.epsilon if self.plan.grows else np.inf

    @cached_property
    def _bounds(self) -> FloatArray | None:
        """Ends of the prior's support, nan where a regression must not move a parameter."""
        prior = self.problem.prior
        return np.asarray(prior.bounds) if isinstance(prior, HasBounds) else None

    def evidence(self, epsilon: float | None = None, weights: Weights | None = None) -> Evidence:
        """Z(ε), the prior probability of a distance below ε, with its error.

        Parameters
        ----------
        epsilon : float, optional
            Default: that of `posterior()`.
        weights : {"mixture", "round", "draw"}, optional
            See `weights`.
        """
        if epsilon is None:
            epsilon = self.answer_epsilon
        self._check_kept(epsilon)
        fold = self.table.fold if self.plan.n_folds > 1 else None
        refuses = self.population is None and (weights or self.default_weights) == "mixture"
        found = evidence(
            self.table.distance,
            self.weights(weights),
            epsilon,
            relative_error=self.problem.region.normaliser[1],
            n_candidates=[m.n_candidates for m in self.rounds[-1].mixtures if refuses],
            # Populations are strata as folds are, but each has a budget of its own.
            fold=self.table.round if self.population is not None else fold,
            n_simulations=self.n_simulations,
        )
        return found if fold is not None else replace(found, by_fold=())

    @cached_property
    def answer_epsilon(self) -> float:
        """The tolerance of `posterior()`."""
        with warnings_kept():
            return self.posterior().epsilon

    def histogram(self) -> StepPosterior:
        """The step-function posterior at the last round's tolerance (Equation 7).

        It knows the density of the prior and the constraint: see
        `abctree.answers.histogram.StepPosterior`.  Where boxes alone propose, the masses of boxes
        are what is believed of them.  Else their draws have laws of their own inside a box, and its
        mass is that of its weighted draws, beside which the belief is worth one.

        Raises
        ------
        ParameterError
            If the run's method has no partition.
        """
        if not METHODS[self.method].cuts_boxes:
            raise ParameterError(
                f"`method` must be one that cuts boxes, but got a run of {self.method!r}. "
                "Read its posterior()."
            )
        last = self.rounds[-1]
        folds = [
            StepFold.of(partition, arms.mean)
            for partition, arms in zip(last.partitions, last.arms, strict=True)
        ]
        if self.plan.proposal != ("boxes",):
            near = np.flatnonzero(self.table.distance < last.epsilon)
            drawn = self.table.cube[near], self.weights()[near] / len(self.table)
            folds = [fold.with_draws(*drawn) for fold in folds]
        problem = self.problem
        density = None if problem.region.is_plain else problem.region.density
        return StepPosterior.from_folds(folds, problem.prior, epsilon=last.epsilon, density=density)

    @property
    def n_prior_draws(self) -> float:
        """Prior draws: those of the pilot, and the share of the prior in the proposals.

        By default ``n_pilot + 0.05 (T − n_pilot)``.  A mode that holds less than 3 over this number
        of the prior can have been missed: one that holds as much is visited in 95 % of runs.
        """
        mixtures = self.rounds[-1].mixtures
        # Points that a constraint refused are counted there.
        n = self.problem.region.allowed * sum(mixture.n_prior for mixture in mixtures)
        for s, played in enumerate(self.rounds[1:]):
            # A policy of the user's own need not keep to the share.
            least = 0.0
            for f, mixture in enumerate(mixtures):
                for n_drawn, law in mixture.layer(s):
                    if isinstance(law, UniformCube):
                        least += self.problem.region.allowed * n_drawn
                    elif isinstance(law, Steps):
                        least += n_drawn * played.partitions[f].prior_draws(law.value)
            n += min(least, self.plan.defensive * played.n_simulations)
        return float(n)

    # Judgment -------------------------------------------------------------------------------

    def bias_alarm(self, epsilon: float | None = None) -> str | None:
        """Whether mixture weights are biased: they are in one fold, and else the evidence tells.

        See `abctree.answers.diagnostics.bias_alarm`.
        """
        if not METHODS[self.method].has_rounds or self.default_weights == "population":
            return None  # no weight rests on what was learned from its own draw
        epsilon = self.answer_epsilon if epsilon is None else epsilon
        z = self.evidence(epsilon, "round").estimate
        weights = self.weights("mixture"), self.weights("round")
        gap = gap_between(self.table.distance, *weights, epsilon)
        # Those of `abctree.smc` leave out the kernels that stand at their own draw.
        one_fold = self.plan.n_folds == 1 and METHODS[self.method].cuts_boxes
        judge = diagnostics.on_one_fold if one_fold else diagnostics.bias_alarm
        return judge(z, gap, self._remedy(one_fold=one_fold))

    def _remedy(self, *, one_fold: bool) -> str:
        if self.default_weights != "mixture":
            return (
                f'This run is read by weights="{self.default_weights}", to which this does not '
                "apply."
            )
        more = "Use more simulations"
        if one_fold:
            more = "Use n_folds=5" if self.plan.n_pilot > 1 else "Use a larger n_pilot"
        return f'{more}, or read the run with weights="round".'


def check_is_run(result: object) -> None:
    """Raise `ParameterError` unless it is what a method returns."""
    if not isinstance(result, Run):
        raise wrong("result", "be a run", f"a {type(result).__name__}", "Give what a run returns.")
