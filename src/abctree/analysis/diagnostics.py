"""Can the result be trusted: effective sample sizes, a bias alarm, and verdicts in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from abctree.analysis.evidence import Evidence
    from abctree.analysis.posterior import Posterior

#: Below this effective sample size not even the means are useful.
ESS_MEANS = 10.0
#: Below this the tails are not to be trusted.
ESS_TAILS = 100.0
#: Below this a regression adjustment or a plot of a density is rough.
ESS_SMOOTH = 300.0
#: A draw that holds more than this share of the weight is named.
LARGEST_WEIGHT = 0.05
#: A share of failures above this may change the posterior.
FAILURES = 0.05
#: Relative difference of two evidence estimates, and of their own error, that is worth a word.
EVIDENCE = 0.10


def bias_alarm(z_mixture: Evidence, z_rounds: Evidence) -> str | None:
    """What it means when two estimates of one evidence disagree, or None when they agree.

    Weights that use the mixture of all proposals have a smaller variance, but a proposal that was
    learned from a draw also stands in the denominator of that draw: the evidence comes out low.
    Each round's own weights do not look ahead.  The alarm is raised by a difference above 10 % that
    is also above two standard errors (added in quadrature; the estimates share their draws, so
    this is cautious).

    Parameters
    ----------
    z_mixture, z_rounds : Evidence
        At the same epsilon: from mixture weights, and from each round's own weights.

    Returns
    -------
    str or None
        A sentence with the difference, its meaning and a remedy.
    """
    if not z_rounds.estimate > 0.0:
        return None
    difference = z_mixture.estimate - z_rounds.estimate
    error = np.hypot(_known(z_mixture.standard_error), _known(z_rounds.standard_error))
    relative = difference / z_rounds.estimate
    if abs(relative) <= EVIDENCE or abs(difference) <= 2.0 * error:
        return None
    side = "below" if difference < 0.0 else "above"
    return (
        f"The evidence from mixture weights is {abs(relative):.0%} {side} that from each round's "
        f"own weights ({z_mixture.estimate:.3g} against {z_rounds.estimate:.3g} ± {error:.1g}): "
        "the proposals have learned from the draws that they weight, and the posterior may be off "
        'by as much. Use n_folds=5, or a partitioner with fewer leaves, or weights="round".'
    )


def _known(error: float) -> float:
    return 0.0 if np.isnan(error) else error


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

    Parameters
    ----------
    posterior : Posterior
        The draws.
    evidence : Evidence, optional
        At the same epsilon.
    failures : int
        Simulations of the run that gave nothing usable.
    alarm : str, optional
        The answer of `bias_alarm`.

    Returns
    -------
    list of str
        One sentence or two each, the most important first.  Never empty.
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
    mean = f"means are uncertain by about {1.0 / np.sqrt(n):.0%} of a standard deviation"
    if n < ESS_MEANS:
        return f"{lead}too few draws for any estimate but the rough place of the posterior."
    if n < ESS_TAILS:
        return f"{lead}{mean}; quantiles in the tails are not to be trusted."
    if n < ESS_SMOOTH:
        return f"{lead}{mean}; 90 % intervals are rough, and so is a regression adjustment."
    return f"{lead}{mean}; enough for intervals and for a regression adjustment."


def _count(n: float) -> str:
    return f"{n:.1f}" if n < ESS_MEANS else f"{n:.0f}"


def _on_largest_weight(posterior: Posterior) -> str | None:
    share = posterior.largest_weight
    if not share > LARGEST_WEIGHT or len(posterior) == 1:
        return None
    return (
        f"One draw holds {share:.0%} of the weight: estimates hang on it. "
        "Use more simulations, a larger epsilon, or a larger share of prior draws (defensive=)."
    )


def on_failures(failures: int, n_simulations: int) -> str | None:
    """How many simulations failed, and what it means above `FAILURES`; None if none did."""
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
    relative = evidence.standard_error / evidence.estimate
    if not relative > EVIDENCE:
        return None
    return f"The evidence is known to within {relative:.0%} only (one standard error)."
