"""Student laws on the log-odds of the coordinates of the cube, where there is no border to cross.

`Students` are a few, fitted to weighted points; `CubeKernels` one around each of many points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from abctree.kernels.student import EDGE, student_em, student_mixture, student_sums
from abctree.proposals.perturbations import Silverman
from abctree.proposals.proposal import pick
from abctree.types import FloatArray

#: Laws that are fitted, their degrees of freedom, and steps of the fit.
_LAWS, _FREEDOM, _STEPS = 4, 5, 6
#: Pseudo-points of each law's covariance, beyond d.
_MORE_POINTS = 2.0
#: What is added to a variance: a share of it, and in log-odds.
_RIDGE, _LEAST = 1e-6, 1e-16
#: Of kernels: degrees of freedom, or one more in an odd number of dimensions, so that (ν + d) / 2
#: is a whole number; what is added to a step's variance; least variance of a coordinate.
_KERNEL_FREEDOM, _KERNEL_RIDGE, _KERNEL_LEAST = 4, 1e-9, 1e-18


def log_odds(cube: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log(u / (1 − u)) of the coordinates (n, d), and log Π du / d(log-odds) of the points (n,)."""
    u = np.clip(cube, EDGE, 1.0 - EDGE)
    low, high = np.log(u), np.log1p(-u)
    return low - high, np.asarray((low + high).sum(axis=1))


def log_norm(freedom: float, root: FloatArray) -> FloatArray:
    """Log-density at the middle of Student laws with lower triangular roots (..., d, d)."""
    d = root.shape[-1]
    norm = special.gammaln(0.5 * (freedom + d)) - special.gammaln(0.5 * freedom)
    scale = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
    return np.asarray(norm - (0.5 * d * np.log(np.pi * freedom) + scale))


def _steps(n: int, d: int, freedom: float, rng: np.random.Generator) -> FloatArray:
    """(n, d) Draws of a Student law with root I."""
    tail = np.sqrt(freedom / rng.chisquare(freedom, n))
    return rng.standard_normal((n, d)) * tail[:, None]


def _in_cube(z: FloatArray) -> tuple[FloatArray, None]:
    """The points of log-odds (n, d), all of which are kept."""
    return np.clip(special.expit(z), EDGE, 1.0 - EDGE), None


@dataclass(frozen=True, eq=False)
class CubeKernels:
    """Student kernels around points: a density estimate that can be drawn from.

    Their spread is that of Silverman's rule, which is for normal kernels; the tails of Student's
    law are for what a density estimate misses.
    """

    centre: FloatArray  #: (d, N) in steps
    weight: FloatArray  #: (N,) of sum 1
    root: FloatArray  #: (d, d) lower triangular; log-odds = root · steps

    @classmethod
    def around(cls, cube: FloatArray, weight: FloatArray) -> CubeKernels:
        """The estimate from points (N, d) and their weights (N,) of sum 1."""
        z, _ = log_odds(cube)
        scale = np.sqrt(np.maximum(z.var(axis=0), _KERNEL_LEAST))
        covariance = Silverman().covariance(z / scale, weight) + _KERNEL_RIDGE * np.eye(z.shape[1])
        root = np.linalg.cholesky(covariance) * scale[:, None]
        return cls(np.ascontiguousarray(np.linalg.solve(root, z.T)), weight, root)

    @property
    def _freedom(self) -> int:
        return _KERNEL_FREEDOM + len(self.root) % 2

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`; O(N d) a point."""
        total, freedom = np.empty(len(cube)), self._freedom
        power = (freedom + len(self.root)) // 2
        student_sums(cube, self._whiten, self.centre, self.weight, freedom, power, total)
        return total * self._peak

    @cached_property
    def _peak(self) -> float:
        return float(np.exp(log_norm(self._freedom, self.root)))

    @cached_property
    def _whiten(self) -> FloatArray:
        return np.ascontiguousarray(np.linalg.inv(self.root))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, None]:
        """See `Proposal`."""
        picked = rng.choice(len(self.weight), n, p=self.weight)
        step = _steps(n, len(self.root), self._freedom, rng)
        return _in_cube((self.centre.T[picked] + step) @ self.root.T)


@dataclass(frozen=True, eq=False)
class Students:
    """A mixture of Student laws over the cube."""

    weight: FloatArray  #: (K,) of sum 1
    mean: FloatArray  #: (K, d) in log-odds
    root: FloatArray  #: (K, d, d) lower triangular; log-odds = mean + root · steps

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, None]:
        """See `Proposal`."""
        law = pick(np.cumsum(self.weight), n, rng)
        step = _steps(n, self.mean.shape[1], _FREEDOM, rng)
        return _in_cube(self.mean[law] + np.einsum("nab,nb->na", self.root[law], step))

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`; O(K d²) a point."""
        density = np.empty(len(cube))
        student_mixture(cube, *self._arrays, _FREEDOM, density)
        return density

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Amplitudes (K,), means, and inverse roots, for `student_mixture`."""
        log_peak = np.log(self.weight) + log_norm(_FREEDOM, self.root)
        amplitude = _FREEDOM * np.exp(log_peak / (0.5 * (_FREEDOM + self.mean.shape[1])))
        whiten = np.asarray(np.linalg.inv(self.root), dtype=np.float64)
        return amplitude, self.mean, whiten


def fit_students(
    cube: FloatArray, weight: FloatArray, beside: FloatArray, rng: np.random.Generator
) -> tuple[float, Students]:
    """Fit the laws by the EM algorithm, beside a law whose density is fixed, and their share.

    `cube` (n, d) are points of weights (n,), four of which are positive, and `beside` (n,) is the
    density of the fixed law there; `rng` picks the points at which the laws start.  Each covariance
    is shrunk towards 4^(−2/d) times that of all points.
    """
    y, log_slope = log_odds(cube)
    n, d = y.shape
    fixed = beside * np.exp(log_slope)
    share = weight / weight.sum()
    centred = y - share @ y
    whole = (centred * share[:, None]).T @ centred * _LAWS ** (-2.0 / d)
    mass, mean, root = student_em(
        y, share, fixed, y[rng.choice(n, _LAWS, p=share)], whole, np.full(_LAWS, 0.7 / _LAWS),
        _FREEDOM, d + _MORE_POINTS, _RIDGE, _LEAST, _STEPS,
    )  # fmt: skip
    total = float(mass.sum())
    return total, Students(mass / total, mean, root)
