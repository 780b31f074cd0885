"""`Result`: a finished run, and the questions it answers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from abctree.analysis import diagnostics
from abctree.analysis.evidence import Evidence, evidence
from abctree.analysis.histogram import StepFold, StepPosterior
from abctree.analysis.posterior import Posterior, select
from abctree.analysis.summary import Summary, summarise
from abctree.data import Failure, Partition, Plan, Round, Table, mixture_weights
from abctree.errors import AbctreeWarning, ParameterError
from abctree.problem import Problem
from abctree.types import FloatArray

Weights = Literal["mixture", "round", "draw"]


@dataclass
class Failures:
    """Simulations that gave nothing usable: all counted, the first few kept whole."""

    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: list[Failure] = field(default_factory=list)
    keep: int = 5

    def add(self, failures: Iterable[Failure]) -> None:
        """Count failures, and keep the first ones with their tracebacks."""
        for failure in failures:
            self.count += 1
            self.reasons[failure.reason] += 1
            if len(self.first) < self.keep:
                self.first.append(failure)

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, eq=False)
class Result:
    """A run of ABC-Tree: its lookup table, its rounds, and what can be read from them.

    The tolerance of the last round is not that of the answer: the table can be read at any.
    """

    problem: Problem  #: with its distance fitted
    table: Table  #: one row for every simulation, failures included
    rounds: tuple[Round, ...]  #: round 0 is the pilot
    plan: Plan
    failures: Failures
    stopped_because: str
    seconds: float  #: wall time of the run, simulator included
    root: int  #: seed of the simulations' streams
    default_weights: Weights = "mixture"

    @property
    def n_simulations(self) -> int:
        """Simulations made."""
        return len(self.table)

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
            f"Result({', '.join(self.problem.names)}; {self.n_simulations} simulations, "
            f"{len(self.rounds) - 1} rounds, last epsilon {self.epsilon:.4g}; "
            f"{self.stopped_because})"
        )

    # Weights --------------------------------------------------------------------------------

    def weights(self, kind: Weights | None = None) -> FloatArray:
        """Raw importance weights (T,) of all rows, such that the evidence is a mean.

        Parameters
        ----------
        kind : {"mixture", "round", "draw"}
            By all proposals of the run, by the average proposal of the draw's own round, or by the
            proposal at the time of the draw (Algorithm 1, line 10).  Default: that of the run.

        Raises
        ------
        ParameterError
            If `kind` is none of these.
        """
        kind = kind or self.default_weights
        normaliser = self.problem.normaliser[0]
        if kind == "mixture":
            return mixture_weights(self.table) / normaliser
        if kind == "draw":
            return self.table.prior_weight / self.table.proposal / normaliser
        if kind == "round":
            return self._round_weights / normaliser
        raise ParameterError(f'`weights` must be "mixture", "round" or "draw", but got {kind!r}.')

    @cached_property
    def _round_weights(self) -> FloatArray:
        """``n_{s,f}`` over the sum of the fold's proposals in the draw's round."""
        table = self.table
        weight = table.prior_weight / table.proposal  # of the pilot
        for played in self.rounds[1:]:
            rows = np.arange(played.first, played.last)
            for f, mixture in enumerate(played.mixtures):
                own = rows[table.fold[rows] == f]
                density = mixture.layers[-1][1][table.arm[own]]
                weight[own] = len(own) / density * table.prior_weight[own]
        return np.asarray(weight)

    def mixture_ratio(self, theta: FloatArray) -> FloatArray:
        """Density of all the run's proposals relative to the prior: theta (n, p) -> (n,).

        Its inverse, averaged over draws of the ε-posterior, is the inverse of the honest gain over
        rejection, ``h = 1 / E[1 / m(θ)]``.
        """
        cube = self.problem.prior.to_cube(np.asarray(theta, dtype=np.float64))
        total = sum(mixture(cube) for mixture in self.rounds[-1].mixtures)
        density = self.problem.prior_weight(cube) / self.problem.normaliser[0]
        return np.asarray(total / self.n_simulations / density)

    # Answers --------------------------------------------------------------------------------

    def posterior(
        self,
        epsilon: float | None = None,
        ess: float | None = None,
        weights: Weights | None = None,
    ) -> Posterior:
        """Weighted draws pooled over all rounds, at a tolerance or an effective sample size.

        Parameters
        ----------
        epsilon : float, optional
            Draws with a distance below it.
        ess : float, optional
            The smallest tolerance at which the draws reach this effective sample size.  Default
            (without `epsilon`): 1000, or 3 % of the simulations if that is less.
        weights : {"mixture", "round", "draw"}, optional
            See `weights`.

        Warns
        -----
        AbctreeWarning
            If the target is out of reach: the best effective sample size is given instead.
        """
        table = self.table
        observed = self.problem.observed_summary
        bounds = self._bounds
        kept = table.summary.shape[1] > 0
        return select(
            table.theta,
            table.distance,
            self.weights(weights),
            self.problem.names,
            epsilon=epsilon,
            ess=ess,
            limit=self._first_epsilon,
            cube=table.cube,
            summary=table.summary if kept else None,
            observed=observed.ravel() if kept else None,
            bounds=bounds,
            continuous=None if bounds is None else ~np.isnan(bounds[:, 0]),
        )

    @property
    def _first_epsilon(self) -> float:
        """An answer's tolerance is never above that of the first round."""
        return self.rounds[1].epsilon if len(self.rounds) > 1 else np.inf

    @cached_property
    def _bounds(self) -> FloatArray | None:
        """Ends of the prior's support, nan where a regression must not move a parameter."""
        bounds = getattr(self.problem.prior, "bounds", None)
        return None if bounds is None else np.asarray(bounds)

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
            epsilon = self._answer_epsilon
        return evidence(
            self.table.distance,
            self.weights(weights),
            epsilon,
            relative_error=self.problem.normaliser[1],
            fold=self.table.fold if self.plan.n_folds > 1 else None,
        )

    @cached_property
    def _answer_epsilon(self) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AbctreeWarning)
            return self.posterior().epsilon

    def histogram(self) -> StepPosterior:
        """The step-function posterior at the last round's tolerance (Equation 7)."""
        last = self.rounds[-1]
        folds = [
            StepFold.of(partition, arms.mean)
            for partition, arms in zip(last.partitions, last.arms, strict=True)
        ]
        return StepPosterior.from_folds(folds, self.problem.prior, epsilon=last.epsilon)

    # Judgment -------------------------------------------------------------------------------

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before using the result; the first sentences of `summary`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AbctreeWarning)
            draws = self.posterior()
        said = [str(w.message) for w in caught if issubclass(w.category, AbctreeWarning)]
        alarm = self.bias_alarm()
        if alarm is not None:
            said.append(alarm)
        if len(draws) == 0:
            said.append("Nothing was accepted: there is no posterior to speak of.")
        return tuple(said)

    def summary(self, epsilon: float | None = None, ess: float | None = None) -> Summary:
        """Means, standard deviations, quantiles and verdicts; print it.

        Parameters
        ----------
        epsilon, ess : float, optional
            As in `posterior`.
        """
        return summarise(self, epsilon, ess)

    def bias_alarm(self, epsilon: float | None = None) -> str | None:
        """Whether the evidence from mixture weights and from each round's own weights disagree."""
        epsilon = self._answer_epsilon if epsilon is None else epsilon
        return diagnostics.bias_alarm(
            self.evidence(epsilon, "mixture"), self.evidence(epsilon, "round")
        )
