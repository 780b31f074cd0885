"""Can the result be trusted: effective sample sizes, a bias alarm, and verdicts in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abctree.answers.evidence import Evidence, Gap
    from abctree.answers.posterior import Posterior

#: Below this effective sample size not even the means are useful.
ESS_MEANS = 10.0
#: Below this the tails are not to be trusted.
ESS_TAILS = 100.0
#: Below this a regression adjustment or a plot of a density is rough.
ESS_SMOOTH = 300.0
#: Slopes are most of the error of an adjusted mean where they make it larger than so many times.
_AT_THE_EDGE = 2.0
#: A draw that holds more than this share of the weight is named.
LARGEST_WEIGHT = 0.05
#: A share of failures above this may change the posterior.
FAILURES = 0.05
#: Relative difference of two evidence estimates, and of their own error, that is worth a word.
EVIDENCE = 0.10
#: Standard errors of the difference that raise the alarm.
ALARM = 2.5


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
    lead = f"Effective sample size {_count(n)}: "
    mean = f"means are uncertain by {_worst_mean(posterior)} of a standard deviation"
    if n < ESS_MEANS:
        return f"{lead}too few draws for any estimate but the rough place of the posterior."
    if n < ESS_TAILS:
        return f"{lead}{mean}; quantiles in the tails are not to be trusted."
    if posterior.is_adjusted:
        rough = "90 % intervals are rough" if n < ESS_SMOOTH else "enough for intervals"
        if posterior.slope_error is not None and posterior.slope_error.max() > _AT_THE_EDGE:
            mean += ", mostly by slopes: the observation is at the edge of the accepted summaries"
        return f"{lead}{mean}; {rough}."
    if n < ESS_SMOOTH:
        return f"{lead}{mean}; 90 % intervals are rough, and so is a regression adjustment."
    return f"{lead}{mean}; enough for intervals and for a regression adjustment."


def _worst_mean(posterior: Posterior) -> str:
    """Error of a mean in units of the spread, of the parameter where it is largest."""
    std, error = posterior.std(), posterior.mcse()
    known = error[error > 0.0] / std[error > 0.0]
    return f"{'up to' if len(known) > 1 else 'about'} {known.max(initial=0.0):.0%}"


def _count(n: float) -> str:
    return f"{n:.1f}" if n < ESS_MEANS else f"{n:.0f}"


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
