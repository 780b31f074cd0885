"""Problems of skewed likelihoods whose ε-posteriors have a known mode: rates, scales, shapes, …

Each has one parameter, or three with data of their own and the Euclidean distance between all.
Data and priors are the same for each of the three, so that the mode has three equal coordinates:
it is found by one-dimensional optimisation of the exact P(d < ε | θ).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy import optimize, stats

import abctree

#: Steps of the radius on which three distributions are joined.
_GRID = 200


@dataclass(frozen=True)
class Family:
    """x given θ, the observation, and the interval of the prior."""

    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    cdf: Callable[[np.ndarray, float], np.ndarray]  #: of x at points, given θ
    observed: float
    prior: tuple[float, float]
    support: np.ndarray | None = None  #: values of x, if they are discrete


def _scale_cdf(x: np.ndarray, theta: float) -> np.ndarray:
    return stats.chi2.cdf(9.0 * (np.maximum(x, 0.0) / theta) ** 2, 9)


FAMILIES = {
    "scale": Family(  # the standard deviation of nine normal numbers about a known mean
        lambda t, rng: t * np.sqrt(rng.chisquare(9, t.shape) / 9.0), _scale_cdf, 1.0, (0.01, 10.0)
    ),
    "rate": Family(  # the mean of five exponential numbers
        lambda t, rng: rng.gamma(5.0, 0.2 / t),
        lambda x, t: stats.gamma.cdf(x, 5.0, scale=0.2 / t), 1.0, (0.01, 10.0),
    ),
    "shape": Family(  # the mean of five gamma numbers of scale one
        lambda t, rng: rng.gamma(5.0 * t) / 5.0,
        lambda x, t: stats.gamma.cdf(5.0 * x, 5.0 * t), 1.0, (0.01, 10.0),
    ),
    "count": Family(
        lambda t, rng: rng.poisson(t).astype(float),
        stats.poisson.cdf, 4.0, (0.0, 30.0), np.arange(80.0),
    ),
    "probability": Family(  # the share of successes among twenty
        lambda t, rng: rng.binomial(20, t) / 20.0,
        lambda x, t: stats.binom.cdf(np.rint(20.0 * x), 20, t), 0.15, (0.0, 1.0),
        np.arange(21) / 20.0,
    ),
}  # fmt: skip


def problem(family: str, d: int) -> abctree.Problem:
    """The family with d parameters."""
    f = FAMILIES[family]
    prior = {f"t{j + 1}": f.prior for j in range(d)}
    return abctree.Problem(prior, f.simulate, np.full(d, f.observed), vectorized=True)


def mode(family: str, d: int, epsilon: float) -> np.ndarray:
    """Where P(d < ε | θ) is largest."""
    f = FAMILIES[family]
    rate = _smooth(f, d, epsilon) if f.support is None else _discrete(f, d, epsilon)

    def loss(t: float) -> float:
        return -float(np.log(rate(t) + 1e-300))

    grid = np.linspace(*f.prior, 202)[1:-1]
    best = int(np.argmin([loss(t) for t in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(loss, bounds=around, method="bounded",
                                     options={"xatol": 1e-7})  # fmt: skip
    return np.full(d, float(found.x))


def _discrete(f: Family, d: int, epsilon: float) -> Callable[[float], float]:
    assert f.support is not None
    close = np.flatnonzero(np.abs(f.support - f.observed) < epsilon)
    away = f.support[close] - f.observed
    index = np.array(list(product(range(len(close)), repeat=d)))
    length = np.abs(away[index[:, 0]]) if d == 1 else np.linalg.norm(away[index], axis=1)
    index = index[length < epsilon]

    def rate(t: float) -> float:
        mass = np.diff(f.cdf(f.support, t), prepend=0.0)[close]
        return float(mass[index].prod(axis=1).sum())

    return rate


def _smooth(f: Family, d: int, epsilon: float) -> Callable[[float], float]:
    """By P(Σ s_i < r²) on a grid of r, one coordinate after the other."""
    radius = np.linspace(0.0, epsilon, _GRID + 1)
    middle = 0.5 * (radius[1:] + radius[:-1])
    rest = np.sqrt(np.maximum(radius[:, None] ** 2 - middle**2, 0.0))
    inside = middle < radius[:, None]

    def rate(t: float) -> float:
        one = f.cdf(f.observed + radius, t) - f.cdf(f.observed - radius, t)
        total = one
        for _ in range(d - 1):
            total = (np.interp(rest, radius, one) * np.diff(total) * inside).sum(axis=1)
        return float(total[-1])

    return rate


#: By name: how each is made, and the mode at a tolerance.
KNOWN = {
    f"{family}, d = {d}": (partial(problem, family, d), partial(mode, family, d))
    for family in FAMILIES
    for d in (1, 3)
}
