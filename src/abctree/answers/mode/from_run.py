"""The posterior mode from the lookup table of any run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.find import find_mode, kernel_answer
from abctree.answers.run import Run
from abctree.answers.run_notes import run_notes
from abctree.data import Arms, Partition
from abctree.method import METHODS
from abctree.problem import Problem
from abctree.problem.priors.circles import circles_of
from abctree.protocols import HasBounds, HasLogDensity
from abctree.tree.partitioners import SoftTree
from abctree.types import FloatArray

#: Prior draws for the covariance of the prior.
_PRIOR_DRAWS = 4000


def mode_of(run: Run, epsilon: float | None) -> Mode:
    """See `Result.mode`; without its run."""
    if len(run.table) == run.n_simulations:
        mode = _mode_of_all(run, epsilon)
    else:  # without rejected rows there is nothing to fit
        mode = kernel_answer(run.posterior(epsilon=epsilon), circles_of(run.problem.prior))
        mode = replace(mode, n_simulations=run.n_simulations)
    return replace(mode, notes=(*mode.notes, *run_notes(run)))


def _mode_of_all(run: Run, epsilon: float | None) -> Mode:
    rows, seeking = rows_of(run), METHODS[run.method].seeks_mode
    mode = find_mode(
        **rows,
        names=run.problem.names,
        circles=circles_of(run.problem.prior),
        # The kernel mode of a run that seeks the mode is of its draws as they came (Algorithm 4);
        # their weights vary too much for a density estimate.
        weight=None if seeking else run.weights(),
        epsilon=epsilon,
        kernel_epsilon=run.epsilon if seeking and epsilon is None else None,
    )
    if "log_prior" not in rows:
        note = (
            "The prior has no density in θ: the mode is that of the posterior relative to the "
            "prior, where the likelihood is largest."
        )
        mode = replace(mode, notes=(*mode.notes, note))
    return _allowed(_with_box(mode, run), run)


def rows_of(run: Run) -> dict[str, FloatArray]:
    """What `find_mode` reads of a run, by the names of its arguments, as far as it is known."""
    table, prior = run.table, run.problem.prior
    draws = np.random.default_rng(0).random((_PRIOR_DRAWS, prior.d))
    known = {
        "theta": table.theta,
        "distance": table.distance,
        "log_prior": log_prior_of(run.problem, table.theta, table.cube),
        "prior_spread": np.atleast_2d(np.cov(prior.from_cube(draws), rowvar=False)),
        "bounds": np.array(prior.bounds) if isinstance(prior, HasBounds) else None,
    }
    return {name: value for name, value in known.items() if value is not None}


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
    return replace(
        mode,
        theta=nearest,
        covariance=None,
        candidates=(Candidate(nearest, 1.0, np.nan, len(near)),),
        notes=(*mode.notes, note),
    )


def log_prior_of(problem: Problem, theta: FloatArray, cube: FloatArray) -> FloatArray | None:
    """Log-density (n,) of the prior at rows of a table, 0 if flat; None where it is not known.

    A prior that is only known as a map of the cube has the density |det ∂θ/∂u|⁻¹, by differences.
    """
    prior, (n, d), value = problem.prior, cube.shape, np.full(len(cube), np.nan)
    if isinstance(prior, HasLogDensity):
        value = np.asarray(prior.log_density(theta))
    if np.isnan(value).all() and theta.shape[1] == d:
        slopes = np.empty((n, d, d))
        for j in range(d):
            low, high = cube.copy(), cube.copy()
            low[:, j] = np.maximum(cube[:, j] - 1e-5, 0.5 * cube[:, j])
            high[:, j] = np.minimum(cube[:, j] + 1e-5, 0.5 + 0.5 * cube[:, j])
            change = prior.from_cube(high) - prior.from_cube(low)
            slopes[:, :, j] = change / (high[:, j] - low[:, j])[:, None]
        sign, log_volume = np.linalg.slogdet(slopes)
        value = np.where((sign != 0.0).all(), -log_volume, np.nan)
    if np.isnan(value).all():
        return None
    finite = value[np.isfinite(value)]
    flat = np.allclose(finite, finite[:1], rtol=1e-12, atol=1e-12)
    return np.zeros(n) if flat else value


def _with_box(mode: Mode, run: Run) -> Mode:
    """The mode with k̂ of the run's last partition, or of one that is cut for the purpose."""
    partitions, arms, table = run.rounds[-1].partitions, run.rounds[-1].arms, run.table
    if len(partitions[0]) == 1:
        near = table.distance < mode.epsilon
        if not np.isfinite(mode.epsilon) or not near.any():
            return mode
        rng = np.random.default_rng(0)
        boxes = SoftTree().partition(table.cube, table.distance, mode.epsilon, None, rng)
        arm = boxes.locate(table.cube)
        accepted, count = (
            np.bincount(arm, of, len(boxes)).astype(np.float64) for of in (near, None)
        )
        rate = float(near.mean())
        partitions = (run.problem.region.measure(boxes),)
        arms = (Arms(accepted + rate, count - accepted + 1.0 - rate),)
    ends = best_box(partitions, arms)
    if ends is None:
        return mode
    d = run.problem.d
    pick = (np.arange(2 ** min(d, 10))[:, None] >> np.arange(d) % 10) & 1
    points = np.vstack([np.where(pick == 1, ends[1], ends[0]), 0.5 * (ends[0] + ends[1])])
    *corners, centre = run.problem.prior.from_cube(points)
    box = np.min(corners, axis=0), np.max(corners, axis=0)
    return replace(mode, box=box, estimates={**mode.estimates, "box": centre})


def best_box(
    partitions: tuple[Partition, ...], arms: tuple[Arms, ...]
) -> tuple[FloatArray, FloatArray] | None:
    """Corners (d,) of k̂ = argmax_k π_k η_k / |Ω_k| over all folds; None if no box is bounded."""
    best, highest = None, -np.inf
    for partition, belief in zip(partitions, arms, strict=True):
        with np.errstate(divide="ignore"):
            density = np.log(belief.mean) + partition.log_density
        k = int(np.argmax(np.where(np.isfinite(density), density, -np.inf)))
        if highest < density[k] < np.inf:
            best, highest = (partition.boxes.lower[k], partition.boxes.upper[k]), density[k]
    return best
