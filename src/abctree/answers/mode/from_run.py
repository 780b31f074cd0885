"""The posterior mode from the lookup table of any run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abctree.answers.diagnostics import run_notes
from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.find import find_mode, kernel_answer
from abctree.answers.mode.landscape import Known
from abctree.answers.run import Run
from abctree.method import METHODS
from abctree.numbers import unit_of
from abctree.problem.priors.circles import circles_of
from abctree.problem.priors.functions import log_density_of
from abctree.protocols import HasBounds
from abctree.tree.best_box import best_box, best_box_of_rows, box_in_theta
from abctree.types import FloatArray

_NO_DENSITY = (
    "The prior has no density in θ: the mode is that of the posterior relative to the prior, where "
    "the likelihood is largest."
)
#: Parameters beyond this, or below one over it, have squares that are hardly floats.
_LARGE = 2.0**500
_NO_SQUARES = "Squares of {} are no floats: no error is given. Measure in another unit."
#: Prior draws for the covariance of the prior.
_PRIOR_DRAWS = 4000


def mode_of(run: Run, epsilon: float | None) -> Mode:
    """See `Result.mode`; without its run."""
    table, notes = run.table, run_notes(run)
    if len(table) < run.n_simulations:  # without rejected rows there is nothing to fit
        mode = kernel_answer(run.posterior(epsilon=epsilon), circles_of(run.problem.prior))
        return replace(mode, n_simulations=run.n_simulations, notes=(*mode.notes, *notes))
    # The kernel mode of a run that seeks the mode is of its draws as they came (Algorithm 4); their
    # weights vary too much for a density estimate.
    unit, seeking = _unit_of(table.theta), METHODS[run.method].seeks_mode
    known = known_of(run, unit)
    mode = find_mode(
        table.theta / unit, table.distance, run.problem.names, epsilon,
        kernel_epsilon=run.epsilon if seeking and epsilon is None else None,
        weight=None if seeking else run.weights(),
        **known,
    )  # fmt: skip
    mode = _allowed(_with_box(_in_units(mode, unit), run), run)
    if known["log_prior"] is None:
        notes = (_NO_DENSITY, *notes)
    return replace(mode, notes=(*mode.notes, *notes))


def _unit_of(theta: FloatArray) -> FloatArray:
    """(p,) Units in which parameters can be squared: 1, if they can be as they are."""
    unit = unit_of(theta)
    is_usual = (unit < _LARGE) & (unit > 1.0 / _LARGE) | ~theta.any(axis=0)
    return np.where(is_usual, 1.0, unit)


def _in_units(mode: Mode, unit: FloatArray) -> Mode:
    """A mode that was found in other units, whose squares may not be floats."""
    if (unit == 1.0).all():
        return mode
    at = [
        replace(one, theta=one.theta * unit, covariance=None, spread=None)
        for one in mode.candidates
    ]
    names = [name for name, own in zip(mode.names, unit, strict=True) if own != 1.0]
    return replace(
        mode, theta=mode.theta * unit, covariance=None, candidates=tuple(at),
        estimates={name: value * unit for name, value in mode.estimates.items()},
        notes=(*mode.notes, _NO_SQUARES.format(", ".join(names))),
    )  # fmt: skip


def known_of(run: Run, unit: FloatArray) -> Known:
    """What a run knows of its prior, in units (p,)."""
    table, prior = run.table, run.problem.prior
    draws = np.random.default_rng(0).random((_PRIOR_DRAWS, prior.d))
    return {
        "log_prior": log_density_of(prior, table.theta, table.cube),
        "prior_spread": np.atleast_2d(np.cov(prior.from_cube(draws) / unit, rowvar=False)),
        "bounds": np.array(prior.bounds) / unit[:, None] if isinstance(prior, HasBounds) else None,
        "circles": [
            circle._replace(low=circle.low / own, high=circle.high / own)
            for circle in circles_of(prior)
            for own in [float(unit[circle.column])]
        ],
    }


def _allowed(mode: Mode, run: Run) -> Mode:
    """The mode; where the constraint refuses it, the accepted simulation that is nearest."""
    if np.isnan(mode.theta).any() or run.problem.region.feasible(mode.theta[None])[0]:
        return mode
    near = run.table.theta_of(run.table.distance < mode.epsilon)
    scale = near.std(axis=0)
    away = (near - mode.theta) / np.where(scale > 0.0, scale, 1.0)
    nearest = near[np.argmin((away**2).sum(axis=1))]
    note = (
        "The fitted peak is outside the constraint: the mode is on its border, and the accepted "
        "simulation that is nearest to the peak is given, without an error."
    )
    only = (Candidate(nearest, 1.0, np.nan, len(near)),)
    notes = (*mode.notes, note)
    return replace(mode, theta=nearest, covariance=None, candidates=only, notes=notes)


def _with_box(mode: Mode, run: Run) -> Mode:
    """The mode with k̂ of the run's last partition, or of one that is cut for the purpose."""
    last, region, table = run.rounds[-1], run.problem.region, run.table
    if len(last.partitions[0]) == 1:
        ends = best_box_of_rows(region, table.cube, table.distance, mode.epsilon)
    else:
        ends = best_box(last.partitions, last.arms)
    if ends is None:
        return mode
    box, centre = box_in_theta(region, *ends)
    return replace(mode, box=box, estimates={**mode.estimates, "box": centre})
