"""How hard two arms are to tell apart, compiled: transportation costs and optimal shares.

Arms have values ``weight · η`` with Bernoulli rates η.  Evidence that one is better than another is
the least divergence, weighted by pulls, to rates at which the two are alike.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray

#: Sides of a mean that is not known to be 0 or 1.
_LEAST = 1e-12


@jit(inner=True)
def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence kl(p, q) of Bernoulli laws, for 0 < p < 1; inf at q of 0 or 1."""
    if q <= 0.0 or q >= 1.0:
        return math.inf
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


@jit
def transport_cost(
    alpha: FloatArray, beta: FloatArray, weight: FloatArray, first: int, other: int
) -> float:
    """Evidence that `first` has a larger value than `other`: 0 if its mean value is not larger.

    ``min_t N_1 kl(m_1, t / w_1) + N_2 kl(m_2, t / w_2)``, with N and m the pseudo-counts and means
    of the beliefs (Shang et al. 2020).
    """
    n1, n2 = alpha[first] + beta[first], alpha[other] + beta[other]
    w1, w2 = weight[first], weight[other]
    if n2 <= 0.0 or w2 <= 0.0:
        return math.inf
    if n1 <= 0.0:
        return 0.0
    m1 = min(max(alpha[first] / n1, _LEAST), 1.0 - _LEAST)
    m2 = min(max(alpha[other] / n2, _LEAST), 1.0 - _LEAST)
    if w2 * m2 >= w1 * m1:
        return 0.0
    t = _meeting(n1, m1, w1, n2, m2, w2)
    cost: float = n1 * divergence(m1, t / w1) + n2 * divergence(m2, t / w2)
    return cost


@jit
def challenger(alpha: FloatArray, beta: FloatArray, weight: FloatArray, first: int) -> int:
    """T3C: the arm that is hardest to tell from the first; the last of several."""
    least, arm = math.inf, -1
    for k in range(len(alpha)):
        if k != first:
            cost = transport_cost(alpha, beta, weight, first, k)
            if cost <= least:
                least, arm = cost, k
    return arm


@jit
def optimal_share(alpha: FloatArray, beta: FloatArray, weight: FloatArray, most: int) -> float:
    """The share of pulls that the best arm deserves, if the means of the beliefs were the truth.

    The allocation that maximises the exponent of Theorem 2 (Russo 2016, 2020; Garivier and Kaufmann
    2016): shares ψ with equal transport costs y = min_t ψ_1 kl(m_1, t/w_1) + ψ_k kl(m_k, t/w_k) for
    all k and ``Σ_k kl(m_1, t_k/w_1) / kl(m_k, t_k/w_k) = 1``.  In [.05, .95]; ½ where arms tie.
    The `most` best arms are looked at.
    """
    n = len(alpha)
    total = alpha + beta
    mean = np.empty(n)
    for k in range(n):
        m = alpha[k] / total[k] if total[k] > 0.0 else 0.0
        mean[k] = min(max(m, _LEAST), 1.0 - _LEAST)
    order = np.argsort(-weight * mean)[: most + 1]
    first = order[0]
    m1, w1 = mean[first], weight[first]
    highest = math.inf
    for k in order[1:]:
        if weight[k] > 0.0:
            highest = min(highest, divergence(m1, weight[k] * mean[k] / w1))
    if n < 2 or not 1e-12 < highest < math.inf:
        return 0.5
    low, high = 0.0, highest
    share = 0.5
    for _ in range(20):
        y = 0.5 * (low + high)
        balance, sum_x = 0.0, 0.0
        for k in order[1:]:
            if weight[k] <= 0.0:
                continue
            x = _ratio(y, m1, w1, mean[k], weight[k])
            t = _meeting(1.0, m1, w1, x, mean[k], weight[k])
            balance += divergence(m1, t / w1) / max(divergence(mean[k], t / weight[k]), 1e-300)
            sum_x += x
        share = 1.0 / (1.0 + sum_x)
        if balance < 1.0:
            low = y
        else:
            high = y
    return min(max(share, 0.05), 0.95)


@jit(inner=True)
def _meeting(n1: float, m1: float, w1: float, n2: float, m2: float, w2: float) -> float:
    """The common value t that minimises the cost above; a root of a quadratic.

    The derivative vanishes where N_1 (t/w_1 − m_1)/(1 − t/w_1) + N_2 (t/w_2 − m_2)/(1 − t/w_2) = 0.
    """
    a = (n1 + n2) / (w1 * w2)
    b = n1 * (1.0 / w1 + m1 / w2) + n2 * (1.0 / w2 + m2 / w1)
    c = n1 * m1 + n2 * m2
    root = math.sqrt(max(0.0, b * b - 4.0 * a * c))
    t = 2.0 * c / (b + root)
    return min(max(t, w2 * m2), w1 * m1)


@jit(inner=True)
def _ratio(y: float, m1: float, w1: float, m2: float, w2: float) -> float:
    """ψ_2 / ψ_1 at which the transport cost over ψ_1 is y, by bisection on a log scale."""
    low, high = -25.0, 25.0
    for _ in range(24):
        x = 0.5 * (low + high)
        e = math.exp(x)
        t = _meeting(1.0, m1, w1, e, m2, w2)
        if divergence(m1, t / w1) + e * divergence(m2, t / w2) < y:
            low = x
        else:
            high = x
    return math.exp(0.5 * (low + high))
