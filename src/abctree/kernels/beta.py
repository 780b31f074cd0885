"""Beta variates, compiled: tails, draws, and draws above or below a level.

A belief with ``a == 0`` is a rate that is known to be 0; one with ``b == 0`` is known to be 1.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.jit import jit


@jit(inner=True)
def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    if abs(d) < tiny:
        d = tiny
    d = 1.0 / d
    h = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 + even * d
        if abs(d) < tiny:
            d = tiny
        c = 1.0 + even / c
        if abs(c) < tiny:
            c = tiny
        d = 1.0 / d
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 + odd * d
        if abs(d) < tiny:
            d = tiny
        c = 1.0 + odd / c
        if abs(c) < tiny:
            c = tiny
        d = 1.0 / d
        step = d * c
        h *= step
        if abs(step - 1.0) < 1e-14:
            break
    return h


@jit(inner=True)
def _log_beta(a: float, b: float) -> float:
    """Log of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@jit
def beta_above(x: float, a: float, b: float) -> float:
    """P(Beta(a, b) > x), to about 1e-10 of itself in the upper tail."""
    if x < 0.0:
        return 1.0
    if x >= 1.0 or a <= 0.0:
        return 0.0
    if b <= 0.0 or x == 0.0:
        return 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1.0) / (a + b + 2.0):
        return max(0.0, 1.0 - front * _fraction(a, b, x) / a)
    return min(1.0, front * _fraction(b, a, 1.0 - x) / b)


@jit(inner=True)
def beta_draw(a: float, b: float, rng: np.random.Generator) -> float:
    """A Beta(a, b) variate."""
    if a <= 0.0:
        return 0.0
    if b <= 0.0:
        return 1.0
    return rng.beta(a, b)


@jit(inner=True)
def _logistic(t: float) -> float:
    if t >= 0.0:
        return 1.0 / (1.0 + math.exp(-t))
    e = math.exp(t)
    return e / (1.0 + e)


@jit(inner=True)
def _log_density(t: float, a: float, b: float) -> float:
    """Log-density of the logit of Beta(a, b), up to a constant; concave for all a, b > 0."""
    if t >= 0.0:
        return -b * t - (a + b) * math.log1p(math.exp(-t))
    return a * t - (a + b) * math.log1p(math.exp(t))


@jit
def beta_draw_above(x: float, a: float, b: float, above: float, rng: np.random.Generator) -> float:
    """A Beta(a, b) variate given that it exceeds x, where `above` is `beta_above(x, a, b)`.

    Plain rejection where that is likely; else rejection for log-concave densities with a known
    mode on the logit scale (Devroye 1986, VII.2), which needs two to four tries whatever a and b.
    """
    if b <= 0.0:
        return 1.0
    if above > 0.25:
        value = rng.beta(a, b)
        while value <= x:
            value = rng.beta(a, b)
        return value
    start = math.log(x) - math.log1p(-x)
    mode = math.log(a) - math.log(b)
    peak = max(start, mode)
    top = _log_density(peak, a, b)
    height = math.exp(top - _log_beta(a, b)) / above
    while True:
        u = 2.0 * rng.random()
        if u < 1.0:
            y, envelope = u, 1.0
        else:
            e = rng.standard_exponential()
            y, envelope = 1.0 + e, math.exp(-e)
        if mode > start and rng.random() < 0.5:
            y = -y
        t = peak + y / height
        if t < start:
            continue
        if rng.random() * envelope <= math.exp(_log_density(t, a, b) - top):
            value = _logistic(t)
            if value > x:
                return value


@jit(inner=True)
def beta_draw_below(x: float, a: float, b: float, rng: np.random.Generator) -> float:
    """A Beta(a, b) variate given that it is at most x; plain rejection."""
    value = beta_draw(a, b, rng)
    while value > x:
        value = beta_draw(a, b, rng)
    return value
