"""`compare`: which of several models made the data, and `of_model`: what a run says of one."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from abctree.answers.evidence import Evidence, evidence
from abctree.answers.failures import Failures
from abctree.answers.run import Run
from abctree.data import (
    Arms,
    Boxes,
    Failure,
    Mixture,
    Plan,
    Round,
    Rounds,
    Table,
    effective_sample_size,
)
from abctree.errors import wrong
from abctree.keywords import checks_keywords, place_of
from abctree.problem import Problem
from abctree.problem.models import Models, check_same, model_prior
from abctree.types import FloatArray, NamedDict

#: Tolerances of the table, from the largest that all runs were read at by default downwards.
_STEPS = 9
_LOWEST = 0.05
#: Accepted draws of every model, or of one of them, without which a tolerance is left out.
_FEWEST = 30
#: Log Bayes factors within so many standard errors of the one at the smallest ε agree with it.
_AGREE = 2.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Evidences of models at one tolerance, and the probabilities that follow from them."""

    names: tuple[str, ...]
    evidences: tuple[Evidence, ...]  #: at `epsilon`
    prior: FloatArray  #: (m,) probabilities of the models before the data
    epsilons: FloatArray  #: (s,) decreasing tolerances at which all models were compared
    log_evidence: FloatArray  #: (s, m) at these; -inf where nothing was accepted
    log_error: FloatArray  #: (s, m) standard errors; nan where nothing was accepted

    @property
    def epsilon(self) -> float:
        """The tolerance of `evidences`."""
        return self.evidences[0].epsilon

    @cached_property
    def probability(self) -> dict[str, float]:
        """Name -> posterior probability of the model."""
        z = self.prior * [e.estimate for e in self.evidences]
        total = z.sum()
        share = z / total if total > 0.0 else np.full(len(z), np.nan)
        return dict(zip(self.names, share.tolist(), strict=True))

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Name -> an interval of the posterior probability, from those of the evidences.

        A model without an accepted draw has an upper bound.
        """
        ends = np.array([e.interval(level) for e in self.evidences]) * self.prior[:, None]
        z = self.prior * [e.estimate for e in self.evidences]
        unseen = np.where(z > 0.0, 0.0, ends[:, 1])  # what others may have, for all that is known
        out = {}
        for i, name in enumerate(self.names):
            rest, at_most = z.sum() - z[i], unseen.sum() - unseen[i]
            rest_sd = np.sqrt(
                sum(
                    (self.prior[j] * e.standard_error) ** 2
                    for j, e in enumerate(self.evidences)
                    if j != i and e.estimate > 0.0
                )
            )
            scale = rest_sd / rest if rest > 0.0 else 0.0
            low, high = ends[i]
            # Errors of both sides, as of a ratio: those of the others widen the interval.
            more = np.exp(_widened(low, high, z[i], scale))
            out[name] = (
                float(low / more / (low / more + rest + at_most)) if low > 0.0 else 0.0,
                float(high * more / (high * more + rest)) if rest > 0.0 else 1.0,
            )
        return out

    def bayes_factor(self, one: str, other: str) -> tuple[float, tuple[float, float]]:
        """Evidence of one model over that of another, and its interval of 95 %.

        Raises
        ------
        ParameterError
            If there is no model of a name.
        """
        first, second = (self.evidences[place_of(name, self.names)] for name in (one, other))
        if second.estimate == 0.0:
            return np.inf, (first.interval()[0] / second.interval()[1], np.inf)
        ratio = first.estimate / second.estimate
        if first.estimate == 0.0:
            return 0.0, (0.0, first.interval()[1] / second.interval()[0])
        half = 1.96 * np.hypot(first.relative_error, second.relative_error)
        return ratio, (float(ratio * np.exp(-half)), float(ratio * np.exp(half)))

    @property
    def stable_from(self) -> float | None:
        """The largest ε from which on all log Bayes factors agree with those at the smallest.

        None if there is no such ε but the smallest.
        """
        error = np.hypot(self.log_error, self.log_error[:, :1])
        with np.errstate(invalid="ignore"):  # of two without a draw
            relative = self.log_evidence - self.log_evidence[:, :1]
            gap = np.abs(relative - relative[-1])
            # Draws at a smaller ε are among those at a larger one.
            room = _AGREE * np.sqrt(np.maximum(error[-1] ** 2 - error**2, 0.0))
        agrees = np.nan_to_num(gap, nan=0.0) <= np.nan_to_num(room, nan=0.0) + 1e-12
        fails = np.flatnonzero(~agrees.all(axis=1))
        first = 0 if not len(fails) else int(fails[-1]) + 1
        return float(self.epsilons[first]) if first < len(self.epsilons) - 1 else None

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {p:.3g}" for name, p in self.probability.items())
        return f"Comparison({shares}; epsilon {self.epsilon:.4g})"

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.names))
        interval = self.interval()
        lines = [
            f"Models at epsilon {self.epsilon:.4g}",
            f"{'':{width}} {'prior':>9} {'evidence':>20} {'probability':>12}   95 %",
        ]
        for name, e, prior in zip(self.names, self.evidences, self.prior, strict=True):
            low, high = interval[name]
            lines.append(
                f"{name:{width}} {prior:>9.3g} {e!s:>20} {self.probability[name]:>12.3g}   "
                f"{low:.3g} to {high:.3g}"
            )
        if len(self.epsilons) == 1:
            said = "Draws are too few to see whether the Bayes factors still move below it."
        elif (stable := self.stable_from) is None:
            said = "The Bayes factors still move at the smallest tolerances: more simulations may "
            said += "change them."
        else:
            said = (
                f"Below epsilon {stable:.3g} the Bayes factors move by no more than their errors."
            )
        return "\n".join([*lines, said])


def _widened(low: float, high: float, middle: float, scale: float) -> float:
    """By how much the logarithms of an interval's ends move out for an error of the other side."""
    if middle <= 0.0 or low <= 0.0:
        return 1.96 * scale
    half = float(np.log(high / low)) / 2.0
    return float(np.hypot(half, 1.96 * scale)) - half


@checks_keywords
def compare(
    results: Mapping[str, Run] | Run,
    *,
    prior: Mapping[str, float] | None = None,
    epsilon: float | None = None,
) -> Comparison:
    """Compare models by the evidence that the same data give for them.

    The evidence of a model is the prior probability that its simulations come within ε of the
    data.  Ratios are ABC Bayes factors: those of the summaries, not of the data, unless the
    summaries are sufficient for the choice of the model (Robert et al. 2011).

    Parameters
    ----------
    results : mapping of str to Result, or Result
        A run for each model: the same observation, summaries and distance.  Or one run over all of
        them, see `abctree.Models`.
    prior : mapping of str to float, optional
        Probabilities of the models before the data, by the same names; divided by their sum.
        Default: equal ones, or those of `Models`.
    epsilon : float, optional
        The tolerance of all evidences.  Default: the largest at which one of the runs is read by
        default.

    Returns
    -------
    Comparison
        Print it; `probability` is by name.

    Raises
    ------
    ParameterError
        If there are fewer than two runs, names differ, a prior is not positive, or the runs have
        other observed summaries or distances.
    """
    if isinstance(results, Run):
        names, weight, at, widest = _of_models(results, prior)
    else:
        names = tuple(results) if isinstance(results, Mapping) else ()
        runs = [results[name] for name in names]
        if len(names) < 2 or not all(isinstance(run, Run) for run in runs):
            raise wrong(
                "results", "hold two runs or more by name", reprlib.repr(results),
                'Write {"one": result, "other": result}.',
            )  # fmt: skip
        check_same(names, [run.problem for run in runs])
        weight = model_prior(names, prior)
        widest = max(run.answer_epsilon for run in runs)

        def at(epsilon: float) -> list[Evidence]:
            return [run.evidence(epsilon) for run in runs]

    epsilon = widest if epsilon is None else epsilon
    found = [at(float(e)) for e in epsilon * np.geomspace(1.0, _LOWEST, _STEPS)]
    kept = [row for row in found if max(e.n_accepted for e in row) >= _FEWEST] or found[:1]
    return Comparison(
        names,
        tuple(at(epsilon)),
        weight,
        np.array([row[0].epsilon for row in kept]),
        np.array([[e.log_estimate for e in row] for row in kept]),
        np.array([[e.relative_error for e in row] for row in kept]),
    )


def _of_models(
    run: Run, prior: Mapping[str, float] | None
) -> tuple[tuple[str, ...], FloatArray, Callable[[float], list[Evidence]], float]:
    """Names, prior, evidences at a tolerance, and the tolerance of the answer, of one run."""
    models = models_of(run)
    names = tuple(models.problems)
    weight = model_prior(names, models.probability if prior is None else prior)

    def at(epsilon: float) -> list[Evidence]:
        return [evidence_of_model(run, name, epsilon) for name in names]

    return names, weight, at, run.answer_epsilon


# One model of a run over several ------------------------------------------------------------------

R = TypeVar("R", bound=Run)


def models_of(run: Run) -> Models:
    """The problem of a run over models, or a `ParameterError`."""
    if isinstance(run.problem, Models):
        return run.problem
    raise wrong(
        "result", "be a run of abctree.Models", repr(run), "Give runs of each model by name."
    )


def weights_of_model(run: Run, name: str) -> FloatArray:
    """(T,) Raw weights of the rows of a model, such that its evidence is their mean; else 0."""
    models = models_of(run)
    own = run.table.theta[:, 0] == models.number(name)
    return np.where(own, run.weights() / models.probability[name], 0.0)


def evidence_of_model(run: Run, name: str, epsilon: float) -> Evidence:
    """Evidence of one model, from all rows of the run."""
    return evidence(
        run.table.distance,
        weights_of_model(run, name),
        epsilon,
        relative_error=run.problem.region.normaliser[1],
        fold=run.table.fold if run.plan.n_folds > 1 else None,
    )


def of_model(run: R, name: str) -> R:
    """The rows of one model as a run of their own, with its names and its problem."""
    models = models_of(run)
    weight = weights_of_model(run, name)
    rows = np.flatnonzero(weight > 0.0)
    whole, table = models.problems[name], run.table
    problem = whole.measured_as(run.problem)
    p, n = len(problem.names), len(rows)
    theta, cube = table.theta_of(rows)[:, 1 : 1 + p], table.cube[rows, 1 : 1 + problem.d]
    kept = table.summary_of(rows) if table.summary_size else None
    # Of n rows, where the weights were those of a mean over T.
    weight = weight[rows] * n / run.n_simulations
    reason = "see the failures of the run over all models"
    return replace(
        run,
        **of_rows(problem, cube, theta, table.distance[rows], kept, weight, reason, run.root),
        default_weights="mixture",
        population=None,
        default_epsilon=None,
    )


def of_rows(
    problem: Problem,
    cube: FloatArray,
    theta: FloatArray,
    distance: FloatArray,
    summary: FloatArray | None,
    weight: FloatArray,
    failed: str,
    root: int = 0,
) -> NamedDict:
    """What a run has, by name, of n rows with weights (n,), of which the evidence is the mean.

    Rows without a finite distance have failed for one reason.
    """
    n = len(theta)
    size = 0 if summary is None else int(np.prod(problem.shape))
    table = Table(problem.d, theta.shape[1], size, capacity=n)
    table.append(
        cube=cube,
        theta=theta,
        distance=distance,
        proposal=1.0 / weight,
        prior_weight=1.0,
        denominator=n / weight,
        arm=0,
        round=0,
        fold=0,
        summary=summary,
    )
    usable = np.isfinite(distance)
    pilot = Round(
        index=0,
        epsilon=np.inf,
        partitions=(problem.region.measure(Boxes.whole(problem.d)),),
        arms=(Arms(np.ones(1), np.ones(1)),),
        mixtures=(Mixture(float(n), ()),),
        first=0,
        last=n,
        n_accepted=int(usable.sum()),
        ess=effective_sample_size(weight[usable]),
        rng_state={},
    )
    rounds = Rounds([pilot])
    failures = Failures(table, rounds, root, 1)
    bad = np.flatnonzero(~usable)
    lost = [Failure(int(i), tuple(theta[i].tolist()), failed) for i in bad]
    failures.add(lost, theta[bad], bad)
    return {
        "problem": problem,
        "table": table,
        "rounds": rounds,
        "plan": Plan(n, n, n, 1, n_folds=1),
        "failures": failures,
        "method": "rejection",
    }
