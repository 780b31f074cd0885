"""What to know of a run, and of the draws that are read: parameters that the data do not inform."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.special import chdtri, chndtrinc

from abctree.answers.diagnostics import FAILURES, on_failures, on_uninformed
from abctree.answers.posterior import Posterior
from abctree.answers.run import Run
from abctree.data import effective_sample_size
from abctree.problem.check import all_ties, out_of_reach
from abctree.problem.priors.cube import inside, spread
from abctree.problem.region import Region
from abctree.types import FloatArray

#: In the reason of a run that ended because nearly everything failed; it survives in the store.
HOPELESS = "simulations failed; the first:"


def run_notes(run: Run) -> tuple[str, ...]:
    """Sentences that hold at every tolerance, such as of failures; none for a healthy run."""
    said = [
        _on_failures(run),
        _on_early_end(run),
        _on_reach(run),
        _on_streams(run),
    ]
    return (*run.code_changes, *(sentence for sentence in said if sentence))


def notes_on(run: Run, draws: Posterior) -> tuple[str, ...]:
    """Sentences on the draws of a run that are read."""
    if only_ties(run):
        return ()  # which says as much of all parameters
    said = on_uninformed(draws, uninformed(draws))
    return () if said is None else (said,)


def only_ties(run: Run) -> bool:
    """Whether all simulations have the same distance; not of the closest ones only."""
    return run.n_made is None and all_ties(run.table.distance)


def _on_failures(run: Run) -> str | None:
    """The sentence of the summary, if it is one to worry about."""
    count, n = run.failures.count, run.n_simulations
    return on_failures(count, n) if count > FAILURES * n else None


def _on_reach(run: Run) -> str | None:
    if run.n_made is not None:
        return None  # the closest simulations do not tell how distances differ
    distance = run.table.distance
    if only_ties(run):
        return (
            f"All distances are equal ({distance.min():.4g}): nothing tells one parameter from "
            "another, and the posterior is the prior. Check that summary and distance use what "
            "the simulator returns, and that they are not too coarse."
        )
    return out_of_reach(distance, run.problem.observed_summary.size)


def _on_early_end(run: Run) -> str | None:
    if HOPELESS not in run.stopped_because:
        return None
    return (
        f"The run ended after {run.n_simulations} of {run.plan.n_simulations} simulations, "
        f"because nearly all of the last ones failed: {run.stopped_because.rstrip('.')}. "
        "See result.failures.first, and run again when the cause is gone."
    )


def _on_streams(run: Run) -> str | None:
    """Say whether simulations share their noise, or cannot be made again."""
    drawn = run.other_streams
    if not drawn:
        return None
    advice = "Draw all of them from the generator that the simulator is given"
    # Two processes come to the same state only if they draw the same numbers.
    begun = Counter((stream.name, stream.state) for stream in drawn)
    if repeated := {name for (name, _), n in begun.items() if n > 1}:
        return (
            f"Simulations of several processes repeat each other's noise: the simulator draws "
            f"random numbers from {_listed(repeated)}, and they drew the same ones, at other "
            f"parameters. The posterior cannot be trusted. {advice}, and run again."
        )
    names = _listed({stream.name for stream in drawn})
    seeded = _listed({stream.name for stream in drawn if stream.state == str(stream.process)})
    how = f" Worker processes gave {seeded} a seed for each task, so that none repeats another."
    return (
        f"The simulator draws random numbers from {names}: the same seed need not give the same "
        f"run.{how if seeded else ''} {advice}."
    )


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names))


# Parameters of which the posterior is the prior ---------------------------------------------------

#: Polynomials in the prior's probability, of degree 1 to this: mean, spread, and up to four humps.
_DEGREE = 8
#: A posterior that is not the prior by `_DISTANCE` is taken for it at most this often, and one that
#: is the prior is told apart from it as often.
_ERROR = 0.05
#: Root of the summed squares of the mean polynomials, each of which has mean 0 and variance 1 under
#: the prior: a mean 0.6 standard deviations off, or a standard deviation a third smaller.
_DISTANCE = 0.6
#: Prior draws that are compared with: so many, and if a constraint leaves too few of them, more.
_SIZES, _ENOUGH = (2**12, 2**15), 1_000
#: Polynomials of a discrete parameter that depend on the others have a variance below this.
_DEPENDENT = 1e-3


def uninformed(draws: Posterior) -> tuple[str, ...]:
    """Names of parameters that the draws cannot tell from the prior, though they are enough to.

    For each parameter, the weighted means of Legendre polynomials in its prior probability are
    tested against those of the prior (`_ERROR`).  A parameter is named if the test does not reject
    and the draws are so many that it would have rejected a posterior of practical difference
    (`_DISTANCE`).
    """
    if draws.region is None or draws.is_adjusted or draws.ess < 2.0:
        return ()
    known = prior_draws(draws.region)
    if known is None:
        return ()
    prior, weight = known
    named = [
        _is_prior(draws.theta[:, j], draws.weights, prior[:, j], weight)
        for j in range(len(draws.names))
    ]
    return tuple(name for name, same in zip(draws.names, named, strict=True) if same)


def prior_draws(region: Region) -> tuple[FloatArray, FloatArray] | None:
    """Draws (n, p) of the prior within its constraint, and weights (n,); None where it is too thin.

    By a fixed sequence, without simulations.
    """
    for n in _SIZES:
        cube = inside(spread(n, region.prior.d))
        weight = region.weight_of_feasible(cube)
        if effective_sample_size(weight) >= _ENOUGH:
            kept = weight > 0.0
            return region.prior.from_cube(cube[kept]), weight[kept] / weight.sum()
    return None


def _is_prior(
    value: FloatArray, weight: FloatArray, prior: FloatArray, prior_weight: FloatArray
) -> bool:
    # Two samples are compared: the prior's draws have an error, too.
    n = 1.0 / (1.0 / effective_sample_size(weight) + 1.0 / effective_sample_size(prior_weight))
    order = np.argsort(prior, kind="stable")
    known, cumulative = prior[order], np.concatenate([[0.0], np.cumsum(prior_weight[order])])

    def polynomials(x: FloatArray) -> FloatArray:
        below = cumulative[np.searchsorted(known, x, side="left")]
        up_to = cumulative[np.searchsorted(known, x, side="right")]
        scale = np.sqrt(2.0 * np.arange(1, _DEGREE + 1) + 1.0)
        return np.asarray(legvander(below + up_to - 1.0, _DEGREE)[:, 1:] * scale)

    under_prior = polynomials(prior)
    mean = prior_weight @ under_prior
    centred = under_prior - mean
    variance, vector = np.linalg.eigh((centred * prior_weight[:, None]).T @ centred)
    free = variance > _DEPENDENT
    k = int(free.sum())
    if k == 0:
        return False  # a constant
    f = (polynomials(value) - mean) @ (vector[:, free] / np.sqrt(variance[free]))
    square = n * float(((weight @ f) ** 2).sum())
    limit = float(chdtri(k, _ERROR))  # of χ² with k degrees of freedom, the law under the prior
    needed = float(chndtrinc(limit, k, _ERROR))  # ‖mean‖² n of what would be told apart
    return square <= limit and _DISTANCE**2 * n >= needed
