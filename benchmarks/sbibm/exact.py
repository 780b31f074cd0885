"""Exact posterior draws of any data, of two tasks whose references are of ten data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.special import expit

from abctree.types import FloatArray
from benchmarks.sbibm.tasks import glm_covariance

#: Data, a number of draws n and a generator -> draws (n, p).
Sampler = Callable[[FloatArray, int, np.random.Generator], FloatArray]
#: Cells of the grid along each of the three numbers of a covariance.
_CELLS = 60
#: Degrees of freedom of the Student law around the mode, and its candidates for a draw.
_FREE, _CANDIDATES = 8, 6


class Slcp:
    """Given the covariance the mean is normal, cut by the prior; the covariance is on a grid."""

    def __init__(self, _: Path) -> None:
        at = [(np.arange(_CELLS) + 0.5) / _CELLS for _ in range(3)]
        s1, s2, rho = np.meshgrid(3.0 * at[0], 3.0 * at[1], 6.0 * at[2] - 3.0, indexing="ij")
        self.grid = np.column_stack([s1.ravel(), s2.ravel(), rho.ravel()])
        self.width = np.array([3.0, 3.0, 6.0]) / _CELLS

    def __call__(self, x: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        pairs = x.reshape(4, 2)
        mean = pairs.mean(axis=0)
        scatter = (pairs - mean).T @ (pairs - mean)
        log = self._log(self.grid, scatter)
        mass = np.exp(log - log.max())
        found: list[FloatArray] = []
        while sum(map(len, found)) < n:
            cell = rng.choice(len(log), 4 * n, p=mass / mass.sum())
            shape = self.grid[cell] + self.width * rng.uniform(-0.5, 0.5, (4 * n, 3))
            better = self._log(shape, scatter) - log[cell]
            weight = np.exp(better - better.max())
            shape = shape[rng.choice(4 * n, 2 * n, p=weight / weight.sum())]
            first, second, across = self._covariance(shape)
            root = np.sqrt(first / 4.0)
            slope = across / 4.0 / root
            z = rng.standard_normal((2 * n, 2))
            rest = np.sqrt(np.maximum(second / 4.0 - slope**2, 0.0))
            place = mean + np.column_stack([root * z[:, 0], slope * z[:, 0] + rest * z[:, 1]])
            # The posterior with a prior on the mean is that without one, cut at its ends.
            inside = (np.abs(place) < 3.0).all(axis=1)
            shape[:, :2] *= rng.choice([-1.0, 1.0], (2 * n, 2))
            found.append(np.hstack([place, shape])[inside])
        return np.concatenate(found)[:n]

    @staticmethod
    def _covariance(shape: FloatArray) -> FloatArray:
        s1, s2 = shape[:, 0] ** 2, shape[:, 1] ** 2
        return np.array([s1**2 + 1e-6, s2**2 + 1e-6, np.tanh(shape[:, 2]) * s1 * s2])

    def _log(self, shape: FloatArray, scatter: FloatArray) -> FloatArray:
        """Log-likelihood, the mean integrated out over the plane."""
        first, second, across = self._covariance(shape)
        area = first * second - across**2
        trace = second * scatter[0, 0] + first * scatter[1, 1] - 2.0 * across * scatter[0, 1]
        return np.asarray(-1.5 * np.log(area) - 0.5 * trace / area)


class BernoulliGlm:
    """Student draws around the mode of a logistic regression, resampled by importance."""

    def __init__(self, folder: Path) -> None:
        with np.load(folder / "bernoulli_glm_design.npz") as found:
            self.design = np.asarray(found[found.files[0]])
        self.precision = np.linalg.inv(glm_covariance())

    def __call__(self, x: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mode = np.zeros(len(x))
        for _ in range(50):  # Newton's method: the posterior is log-concave
            p = expit(self.design @ mode)
            curvature = self.design.T @ ((p * (1.0 - p))[:, None] * self.design) + self.precision
            step = np.linalg.solve(curvature, x - self.design.T @ p - self.precision @ mode)
            mode = mode + step * min(1.0, 1.0 / np.abs(step).max(initial=1e-300))
        size = _CANDIDATES * n
        away = rng.standard_normal((size, len(x)))
        away /= np.sqrt(rng.chisquare(_FREE, size) / _FREE)[:, None]
        theta = mode + away @ np.linalg.cholesky(np.linalg.inv(curvature)).T
        log = theta @ x - np.logaddexp(0.0, theta @ self.design.T).sum(axis=1)
        log -= 0.5 * ((theta @ self.precision) * theta).sum(axis=1)
        log += 0.5 * (_FREE + len(x)) * np.log1p(np.square(away).sum(axis=1) / _FREE)
        weight = np.exp(log - log.max())
        return np.asarray(theta[rng.choice(size, n, p=weight / weight.sum())])


#: By the name of the task, made from the folder of sbibm's observations.
SAMPLERS: Mapping[str, Callable[[Path], Sampler]] = {"slcp": Slcp, "bernoulli_glm": BernoulliGlm}
