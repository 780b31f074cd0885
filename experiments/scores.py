"""How good weighted draws are, when the posterior is known by draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from abctree import metrics

#: Cells of a marginal, of equal mass under the reference.
CELLS = 20
#: Draws that MMD looks at, at most: it takes time in their square.
MMD_DRAWS = 3000


def honest_gain(result: Any, draws: np.ndarray) -> float:
    """The gain over rejection, 1 / E[1 / m], over exact draws (n, p) of the ε-posterior.

    m is the density of all the run's proposals relative to the prior: mass that the run has missed
    cannot flatter it.
    """
    return float(1.0 / np.mean(1.0 / result.mixture_ratio(draws)))


def marginal_tv(
    theta: np.ndarray, weight: np.ndarray, reference: np.ndarray, cells: int = CELLS
) -> float:
    """Total variation of each marginal to the reference's, averaged over parameters.

    Cells hold equal numbers of reference draws; the outer ones are unbounded.

    Parameters
    ----------
    theta : (n, p) array
        Draws.
    weight : (n,) array
        Their weights, of any sum above 0.
    reference : (m, p) array
        Draws of the posterior, without weights.
    cells : int
        How many, at most m.

    Returns
    -------
    float
        In [0, 1 - 1 / cells].
    """
    level = np.arange(1, cells) / cells
    share = weight / weight.sum()
    even = np.full(cells, 1.0 / cells)
    values = []
    for j in range(theta.shape[1]):
        inner = np.quantile(reference[:, j], level)
        cell = np.searchsorted(inner, theta[:, j])
        mass = np.bincount(cell, weights=share, minlength=cells)
        values.append(metrics.total_variation(mass, even))
    return float(np.mean(values))


def negative_log_probability(theta: np.ndarray, weight: np.ndarray, point: np.ndarray) -> float:
    """−log of a kernel density estimate of the posterior at the true parameters; lower is better.

    The kernel is normal, with the covariance of the draws times the square of the rule-of-thumb
    bandwidth (4 / ((p + 2) ESS))^(1/(p + 4)): for a normal posterior N(m, S) and many draws it is
    −log N(point; m, (1 + h²) S).  It knows nothing of the bounds of the prior.

    Parameters
    ----------
    theta : (n, p) array
        Draws.
    weight : (n,) array
        Their weights, of any sum above 0.
    point : (p,) array
        Where.

    Returns
    -------
    float
        inf if the draws span fewer than p dimensions.
    """
    share = weight / weight.sum()
    p = theta.shape[1]
    centred = theta - share @ theta
    covariance = (centred * share[:, None]).T @ centred
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return float("inf")
    h = (4.0 / ((p + 2.0) * metrics.ess(share))) ** (1.0 / (p + 4.0))
    step = np.linalg.solve(root, (theta - point).T) / h
    log_norm = 0.5 * p * np.log(2.0 * np.pi) + np.log(np.diag(root)).sum() + p * np.log(h)
    return float(log_norm - logsumexp(-0.5 * (step**2).sum(axis=0), b=share))


def mmd(
    theta: np.ndarray, weight: np.ndarray, reference: np.ndarray, most: int = MMD_DRAWS
) -> float:
    """`abctree.metrics.mmd`, of so many draws picked by systematic resampling where there are more.

    A draw that is picked k times has the weight k: it is not compared with itself.
    """
    if len(theta) <= most:
        return metrics.mmd(theta, reference, weight)
    level = np.cumsum(weight) / weight.sum()
    picked = np.searchsorted(level, (np.arange(most) + 0.5) / most)
    times = np.bincount(np.minimum(picked, len(theta) - 1), minlength=len(theta)).astype(float)
    kept = times > 0.0
    return metrics.mmd(theta[kept], reference, times[kept])


@dataclass(frozen=True, eq=False)
class Judge:
    """A posterior known by draws, and the parameters that made the observation."""

    reference: np.ndarray  #: (m, p)
    theta_true: np.ndarray  #: (p,)

    def scores(self, theta: np.ndarray, weight: np.ndarray) -> dict[str, float]:
        """MMD², mean TV of the marginals, negative log probability."""
        used = weight > 0.0
        theta, weight = theta[used], weight[used]
        if len(theta) < 2:
            return dict.fromkeys(("MMD²", "TV", "NLP"), float("nan"))
        return {
            "MMD²": mmd(theta, weight, self.reference),
            "TV": marginal_tv(theta, weight, self.reference),
            "NLP": negative_log_probability(theta, weight, self.theta_true),
        }

    @cached_property
    def of_itself(self) -> dict[str, float]:
        """What one half of the reference scores against the other; its own NLP."""
        half = len(self.reference) // 2
        ones = np.ones(half)
        mixed = np.random.default_rng(0).permutation(self.reference)
        other = Judge(mixed[half:], self.theta_true)
        scores = other.scores(mixed[:half], ones)
        return {**scores, "NLP": self.scores(self.reference, np.ones(2 * half))["NLP"]}
