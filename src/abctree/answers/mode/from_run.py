"""The posterior mode from the lookup table of any run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.find import find_mode, kernel_answer
from abctree.answers.mode.landscape import local_rates
from abctree.answers.mode.places import look_epsilon
from abctree.answers.run import Run
from abctree.answers.run_notes import run_notes
from abctree.data import Arms, Partition
from abctree.method import METHODS
from abctree.problem import Problem
from abctree.problem.priors.circles import Direction, circles_of, closed, opened
from abctree.protocols import HasBounds, HasLogDensity
from abctree.tree.partitioners import SoftTree
from abctree.types import FloatArray

#: Prior draws for the covariance of the prior.
_PRIOR_DRAWS = 4000


def mode_of(run: Run, epsilon: float | None) -> Mode:
    """See `Result.mode`; without its run."""
    whole = len(run.table) == run.n_simulations
    mode = _mode_of_all(run, epsilon) if whole else _mode_of_the_closest(run, epsilon)
    return replace(mode, notes=(*mode.notes, *run_notes(run)))


def _mode_of_all(run: Run, epsilon: float | None) -> Mode:
    rows, unknown = rows_of(run)
    seeking = METHODS[run.method].seeks_mode
    mode = find_mode(
        **rows,
        names=run.problem.names,
        # The kernel mode of a run that seeks the mode is of its draws as they came (Algorithm 4);
        # their weights vary too much for a density estimate.
        weight=None if seeking else run.weights(),
        epsilon=epsilon,
        kernel_epsilon=run.epsilon if seeking and epsilon is None else None,
    )
    mode = _closed(replace(mode, notes=(*mode.notes, *unknown)), run.problem)
    ends = _box_of(run, mode.epsilon)
    if ends is not None:
        box, centre = _in_theta(run.problem, *ends)
        mode = replace(mode, box=box, estimates={**mode.estimates, "box": centre})
    if np.isfinite(mode.theta).all() and not run.problem.region.feasible(mode.theta[None])[0]:
        return _within_constraint(run, mode, rows["log_prior"])
    return mode


def _mode_of_the_closest(run: Run, epsilon: float | None) -> Mode:
    """The kernel mode: without rejected rows there is nothing to fit."""
    draws = run.posterior(epsilon=epsilon)
    theta, bounds = _opened(run.problem, draws.theta, draws.theta, draws.weights)
    mode = kernel_answer(theta, draws.weights, draws.epsilon, draws.names, bounds)
    return _closed(replace(mode, n_simulations=run.n_simulations), run.problem)


def rows_of(run: Run) -> tuple[dict[str, FloatArray], list[str]]:
    """What `find_mode` reads of a run, by the names of its arguments; and what is not known.

    Circles are cut open opposite the closest rows.
    """
    problem, table = run.problem, run.table
    log_prior, unknown = log_prior_of(problem, table.theta, table.cube)
    draws = np.random.default_rng(0).random((_PRIOR_DRAWS, problem.d))
    near = table.theta_of(table.distance < look_epsilon(table.distance))
    theta, bounds = _opened(problem, table.theta, near, np.full(len(near), 1.0 / max(len(near), 1)))
    return {
        "theta": theta,
        "distance": table.distance,
        "log_prior": log_prior,
        "prior_spread": np.atleast_2d(np.cov(problem.prior.from_cube(draws), rowvar=False)),
        "bounds": bounds,
    }, unknown


def _opened(
    problem: Problem, theta: FloatArray, near: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Rows (n, p) with circles cut open opposite some with weights, and ends (p, 2) of the support.

    Ends are infinite where they are not known.
    """
    prior, nowhere = problem.prior, np.full((len(problem.names), 2), [-np.inf, np.inf])
    bounds = np.array(prior.bounds) if isinstance(prior, HasBounds) else nowhere
    circles = circles_of(prior) if len(near) else ()
    centre = np.zeros(len(problem.names))
    for circle in circles:
        j = circle.column
        centre[j] = Direction.of(near[:, j], weight, circle).mean
        bounds[j] = centre[j] - 0.5 * circle.width, centre[j] + 0.5 * circle.width
    return opened(theta, circles, centre), bounds


def _closed(mode: Mode, problem: Problem) -> Mode:
    """The mode with circles as they are in θ."""
    circles = circles_of(problem.prior)
    return replace(
        mode,
        theta=closed(mode.theta, circles),
        candidates=tuple(replace(c, theta=closed(c.theta, circles)) for c in mode.candidates),
        estimates={name: closed(theta, circles) for name, theta in mode.estimates.items()},
    )


def _within_constraint(run: Run, mode: Mode, log_prior: FloatArray) -> Mode:
    """The densest accepted simulation, where the constraint refuses the mode."""
    theta, near = run.table.theta, run.table.distance < look_epsilon(run.table.distance)
    scale = theta[near].std(axis=0)
    x = theta[:, scale > 0.0] / scale[scale > 0.0]
    densest = theta[local_rates(x, near, log_prior)[0][0]]
    note = (
        "The fitted peak is outside the constraint: the mode is on its border, and the accepted "
        "simulation in the densest place is given, without an error."
    )
    return replace(
        mode,
        theta=densest,
        covariance=None,
        candidates=(Candidate(densest, 1.0, np.nan, int(near.sum())),),
        notes=(*mode.notes, note),
    )


def log_prior_of(
    problem: Problem, theta: FloatArray, cube: FloatArray
) -> tuple[FloatArray, list[str]]:
    """Log-density (n,) of the prior at rows of a table, 0 if flat; and what is not known of it.

    A prior that is only known as a map of the cube has the density |det ∂θ/∂u|⁻¹, by differences.
    """
    prior, value = problem.prior, None
    if isinstance(prior, HasLogDensity):
        value = np.asarray(prior.log_density(theta))
    if value is None or np.isnan(value).all():
        value = _density_of_map(problem, cube)
    if value is None:
        return np.zeros(len(theta)), [
            "The prior has no density in θ: the mode is that of the posterior relative to the "
            "prior, where the likelihood is largest."
        ]
    finite = value[np.isfinite(value)]
    flat = np.allclose(finite, finite[:1], rtol=1e-12, atol=1e-12)
    return np.zeros(len(theta)) if flat else value, []


def _density_of_map(problem: Problem, cube: FloatArray) -> FloatArray | None:
    n, d = cube.shape
    if len(problem.names) != d:
        return None
    slopes = np.empty((n, d, d))
    for j in range(d):
        low, high = cube.copy(), cube.copy()
        low[:, j] = np.maximum(cube[:, j] - 1e-5, 0.5 * cube[:, j])
        high[:, j] = np.minimum(cube[:, j] + 1e-5, 0.5 + 0.5 * cube[:, j])
        change = problem.prior.from_cube(high) - problem.prior.from_cube(low)
        slopes[:, :, j] = change / (high[:, j] - low[:, j])[:, None]
    sign, log_volume = np.linalg.slogdet(slopes)
    return None if (sign == 0.0).any() else np.asarray(-log_volume)


def _box_of(run: Run, epsilon: float) -> tuple[FloatArray, FloatArray] | None:
    """k̂ of the run's last partition, or of one that is cut for the purpose."""
    last, table = run.rounds[-1], run.table
    if len(last.partitions[0]) > 1:
        return best_box(last.partitions, last.arms)
    if not np.isfinite(epsilon) or not (table.distance < epsilon).any():
        return None
    rng = np.random.default_rng(0)
    boxes = SoftTree().partition(table.cube, table.distance, epsilon, None, rng)
    arm = boxes.locate(table.cube)
    count = np.bincount(arm, minlength=len(boxes)).astype(np.float64)
    accepted = np.bincount(arm, table.distance < epsilon, len(boxes))
    rate = accepted.sum() / len(table)
    arms = Arms(accepted + rate, count - accepted + 1.0 - rate)
    return best_box((run.problem.region.measure(boxes),), (arms,))


def _in_theta(
    problem: Problem, lower: FloatArray, upper: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
    """Least and largest θ at the corners of a box of the cube, and its centre."""
    d = len(lower)
    pick = (np.arange(2 ** min(d, 10))[:, None] >> np.arange(d) % 10) & 1
    corner = np.where(pick == 1, upper, lower)
    theta = problem.prior.from_cube(np.vstack([corner, 0.5 * (lower + upper)]))
    return (theta[:-1].min(axis=0), theta[:-1].max(axis=0)), theta[-1]


def best_box(
    partitions: tuple[Partition, ...], arms: tuple[Arms, ...]
) -> tuple[FloatArray, FloatArray] | None:
    """Corners (d,) of k̂ = argmax_k π_k η_k / |Ω_k| over all folds; None if no box is bounded.

    Where the prior cannot say volumes, those of the cube stand for them.
    """
    best, highest = None, -np.inf
    for partition, belief in zip(partitions, arms, strict=True):
        boxes = partition.boxes
        with np.errstate(divide="ignore"):
            volume = partition.log_volume
            volume = np.log(boxes.volume) if np.isnan(volume).any() else volume
            density = np.log(belief.mean) + np.log(partition.prior_mass / partition.feasible)
        density = np.where(np.isfinite(volume), density - volume, -np.inf)
        k = int(np.argmax(density))
        if density[k] > highest:
            best, highest = (boxes.lower[k], boxes.upper[k]), float(density[k])
    return best
