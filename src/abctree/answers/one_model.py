"""`of_model`: what a run over models says of one of them."""

from __future__ import annotations

from dataclasses import replace
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
from abctree.problem import Problem
from abctree.problem.models import Models
from abctree.types import FloatArray, NamedDict

R = TypeVar("R", bound=Run)


def models_of(run: Run) -> Models:
    """The problem of a run over models.

    Raises
    ------
    ParameterError
        If it is a run of one problem.
    """
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
