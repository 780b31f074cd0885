"""Can the result be trusted: verdicts on draws, a bias alarm, and what to know of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.special import chdtri, chndtrinc

from abctree.data import effective_sample_size
from abctree.problem.check import all_ties, out_of_reach
from abctree.problem.priors.cube import inside, spread
from abctree.problem.region import Region
from abctree.types import FloatArray

if TYPE_CHECKING:
    from abctree.answers.evidence import Evidence, Gap
    from abctree.answers.posterior import Posterior
    from abctree.answers.run import Run

#: Below this effective sample size not even the means are useful.
ESS_MEANS = 10.0
#: Below this the tails are not to be trusted.
ESS_TAILS = 100.0
#: Below this a regression adjustment or a plot of a density is rough.
ESS_SMOOTH = 300.0
#: Slopes are most of the error of an adjusted mean where they make it larger than so many times.
_AT_THE_EDGE = 2.0
#: Intervals from there are wrong if slopes make a mean uncertain by so much of its spread.
_TOO_FAR = 1.0 / 3.0
#: The median of an adjusted parameter is beyond the draws that it is made of where less of their
#: weight than this was as far out.
_BEYOND = 0.01
#: A draw that holds more than this share of the weight is named.
LARGEST_WEIGHT = 0.05
#: A share of failures above this may change the posterior.
FAILURES = 0.05
#: Relative difference of two evidence estimates, and of their own error, that is worth a word.
EVIDENCE = 0.10
#: Standard errors of the difference that raise the alarm.
ALARM = 2.5
#: An answer with less than this share of the spread of the draws as they are says more than these.
_TOLD = 0.5


def bias_alarm(z_rounds: float, gap: Gap, remedy: str) -> str | None:
    """Say what it means that mixture weights give less evidence than each round's own, or None.

    Weights that use the mixture of all proposals have a smaller variance, but a proposal that was
    learned from a draw also stands in the denominator of that draw: the evidence comes out low.
    Each round's own weights do not look ahead.  The alarm is raised by mixture weights that are
    more than 10 %, and 2.5 standard errors of the difference, below.  Above is no fault of theirs:
    there the round weights, which are much less even, are waiting for a few heavy draws.

    `z_rounds` is the evidence from each round's own weights, and `gap` how far that from mixture
    weights is above it.
    """
    if not gap.difference < -max(EVIDENCE * z_rounds, ALARM * gap.error):
        return None
    return (
        f"The evidence from mixture weights is {-gap.difference / z_rounds:.0%} ± "
        f"{gap.error / z_rounds:.0%} below that from each round's own weights: the proposals have "
        "learned from the draws that they weight, and the posterior may be off by as much. "
        f"{remedy}"
    )


def on_one_fold(z_rounds: float, gap: Gap, remedy: str) -> str:
    """Say what mixture weights of one fold are, whether or not a difference shows."""
    seen = (
        f" (here {gap.difference / z_rounds:+.0%} ± {gap.error / z_rounds:.0%}, against each "
        "round's own weights)"
        if z_rounds > 0.0
        else ""
    )
    return (
        "Mixture weights of one fold are biased, for its proposals have learned from the draws "
        f"that they weight: the evidence comes out too low{seen} and the posterior too narrow. "
        f"{remedy}"
    )


def verdicts(
    posterior: Posterior,
    evidence: Evidence | None = None,
    *,
    failures: int = 0,
    alarm: str | None = None,
) -> list[str]:
    """Plain words on what the draws are good for.

    The thresholds are the constants of this module: an effective sample size of 10, 100 and 300,
    5 % of the weight in one draw, 5 % of failed simulations, 10 % error of the evidence.

    `failures` simulations of the run gave nothing usable, and `alarm` is the answer of
    `bias_alarm`.  One sentence or two each, the most important first; never none.
    """
    said = [
        alarm,
        _on_ess(posterior),
        _on_beyond(posterior),
        _on_largest_weight(posterior),
        on_failures(failures, posterior.n_simulations),
        _on_evidence(evidence),
    ]
    return [sentence for sentence in said if sentence]


def _on_ess(posterior: Posterior) -> str:
    n = posterior.ess
    if n == 0.0:
        return (
            f"Nothing was accepted at epsilon {posterior.epsilon:.4g}: there is no posterior. "
            "Use a larger epsilon, and check that the simulator can produce the observed summaries."
        )
    lead = f"Effective sample size {n:.{int(n < ESS_MEANS)}f}: "
    worst, words = _worst_mean(posterior)
    mean = f"means are uncertain by {words} of a standard deviation"
    if n < ESS_MEANS:
        return f"{lead}too few draws for any estimate but the rough place of the posterior."
    if n < ESS_TAILS:
        return f"{lead}{mean}; quantiles in the tails are not to be trusted."
    if posterior.is_adjusted:
        rough = "90 % intervals are rough" if n < ESS_SMOOTH else "enough for intervals"
        if posterior.slope_error is not None and posterior.slope_error.max() > _AT_THE_EDGE:
            mean += ", mostly by slopes: the observation is at the edge of the accepted summaries"
            if worst > _TOO_FAR:
                rough = "intervals cannot be trusted: use fewer summaries, or more simulations"
        return f"{lead}{mean}; {rough}."
    if n < ESS_SMOOTH:
        return f"{lead}{mean}; 90 % intervals are rough, and so is a regression adjustment."
    return f"{lead}{mean}; enough for intervals and for a regression adjustment."


def _on_beyond(posterior: Posterior) -> str | None:
    if posterior.as_far is None:
        return None
    names = [n for n, far in zip(posterior.names, posterior.as_far, strict=True) if far < _BEYOND]
    if not names:
        return None
    return (
        f"Hardly any accepted draw was where the answer says {_listed(names)} to be: the "
        "regression has gone on beyond them, and cannot be trusted there. Use summaries that say "
        "more, or more simulations."
    )


def _worst_mean(posterior: Posterior) -> tuple[float, str]:
    """Error of a mean in units of the spread, of the parameter where it is largest; in words."""
    std, error = posterior.std(), posterior.mcse()
    known = error[error > 0.0] / std[error > 0.0]
    worst = float(known.max(initial=0.0))
    return worst, f"{'up to' if len(known) > 1 else 'about'} {worst:.0%}"


def on_uninformed(posterior: Posterior, names: Sequence[str]) -> str | None:
    """Say what it means that parameters have their prior as posterior; None if none does."""
    if not names:
        return None
    whose, them = f"posterior of {names[0]} is its prior", "it"
    if len(names) > 1:
        whose = f"posteriors of {', '.join(names[:-1])} and {names[-1]} are their priors"
        them = "them"
    return (
        f"The {whose}, as far as {posterior.ess:.0f} effective draws at epsilon "
        f"{posterior.epsilon:.4g} can tell: the data do not inform {them}, or these summaries do "
        "not."
    )


def on_slopes_alone(posterior: Posterior, names: Sequence[str]) -> str | None:
    """Say that a regression tells what draws as they are do not; None if there are no names."""
    if not names:
        return None
    return (
        f"At epsilon {posterior.epsilon:.4g} the draws as they are say nothing of "
        f"{_listed(names)}: all that the answer says is the regression's. Other summaries are most "
        'of the distance; where scales differ, distance="mad" lets each count.'
    )


def _on_largest_weight(posterior: Posterior) -> str | None:
    share = posterior.largest_weight
    if not share > LARGEST_WEIGHT or len(posterior) == 1:
        return None
    return (
        f"One draw holds {share:.0%} of the weight: estimates hang on it. "
        "Use more simulations, a larger epsilon, or a larger share of prior draws (defensive=)."
    )


def on_failures(failures: int, n_simulations: int) -> str | None:
    """Say how many simulations failed, and what it means above `FAILURES`; None if none did."""
    if failures == 0 or n_simulations == 0:
        return None
    share = failures / n_simulations
    lead = f"{failures} of {n_simulations} simulations failed ({share:.1%}) and count as rejected"
    if share <= FAILURES:
        return f"{lead}."
    return (
        f"{lead}: where the simulator fails the posterior is taken to be zero. "
        "Look at result.failures (first, by_round, by_box()) to see whether that is meant."
    )


def _on_evidence(evidence: Evidence | None) -> str | None:
    if evidence is None or not evidence.estimate > 0.0:
        return None
    if not evidence.relative_error > EVIDENCE:
        return None
    return (
        f"The evidence is known to within {evidence.relative_error:.0%} only (one standard error)."
    )


# What to know of a run ----------------------------------------------------------------------------

#: In the reason of a run that ended because nearly everything failed; it survives in the store.
HOPELESS = "simulations failed; the first:"


def run_notes(run: Run) -> tuple[str, ...]:
    """Sentences that hold at every tolerance, such as of failures; none for a healthy run."""
    count, n = run.failures.count, run.n_simulations
    said = [
        on_failures(count, n) if count > FAILURES * n else None,
        _on_early_end(run),
        _on_reach(run),
        _on_streams(run),
    ]
    return (*run.code_changes, *(sentence for sentence in said if sentence))


def notes_on(run: Run, draws: Posterior, answer: Posterior | None = None) -> tuple[str, ...]:
    """Sentences on the draws of a run that are read, and on what an answer makes of them."""
    if only_ties(run):
        return ()  # which says as much of all parameters
    names = uninformed(draws)
    moved = set() if answer is None else _narrower(answer, draws)
    said = (
        on_uninformed(draws, [name for name in names if name not in moved]),
        on_slopes_alone(draws, [name for name in names if name in moved]),
    )
    return tuple(sentence for sentence in said if sentence)


def _narrower(answer: Posterior, draws: Posterior) -> set[str]:
    narrow = answer.std() < _TOLD * draws.std()
    return {name for name, is_so in zip(draws.names, narrow, strict=True) if is_so}


def only_ties(run: Run) -> bool:
    """Whether all simulations have the same distance; not of the closest ones only."""
    return run.n_made is None and all_ties(run.table.distance)


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


def _listed(names: Iterable[str]) -> str:
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
