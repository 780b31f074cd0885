"""The mode of discrete parameters: the value of the highest posterior mass."""

from __future__ import annotations

import numpy as np

from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.landscape import Landscape, grouped

#: Values that are kept as candidates.
_KEPT = 5
#: Draws for the probability that a value is the best.
_DRAWS = 4000


def mode_of_values(land: Landscape, epsilon: float) -> Mode:
    """The value, or combination of values, of the highest posterior mass."""
    accepted = land.distance < epsilon
    first, group = grouped(land.theta[:, land.values])
    count = np.bincount(group, minlength=len(first)).astype(np.float64)
    hits = np.bincount(group, accepted, len(first))
    # Strictly between 0 and 1, so that alpha and beta are positive when all rows are accepted.
    rate = (accepted.sum() + 0.5) / (len(accepted) + 1.0)
    log_prior = np.zeros(len(first)) if land.log_prior is None else land.log_prior[first]
    alpha, beta = hits + rate, count - hits + 1.0 - rate
    log_density = np.log(alpha / (alpha + beta)) + log_prior
    order = np.argsort(-log_density, kind="stable")
    relative = np.exp(log_density[order] - log_density[order[0]])
    candidates = tuple(
        Candidate(land.theta[first[k]], float(d), float(hits[k] / count[k]), int(hits[k]),
                  shape="value")
        for k, d in zip(order[:_KEPT].tolist(), relative, strict=False)
    )  # fmt: skip
    eta = np.random.default_rng(0).beta(alpha, beta, (_DRAWS, len(first)))
    with np.errstate(divide="ignore"):
        sure = float(np.mean(np.argmax(np.log(eta) + log_prior, axis=1) == order[0]))
    best = candidates[0].theta
    nowhere = np.full(len(best), np.nan)
    return Mode(
        theta=best,
        covariance=None,
        candidates=candidates,
        estimates={"quadratic": nowhere, "kernel": nowhere, "box": best},
        epsilon=epsilon,
        box=None,
        names=land.names,
        n_simulations=len(land),
        n_accepted=int(accepted.sum()),
        notes=(
            f"Of {len(first)} values this one is the mode with probability {sure:.2f}, given these "
            "simulations.",
        ),
    )
