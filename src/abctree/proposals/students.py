"""`Students`: a few Student laws on the log-odds of the coordinates, fitted to weighted points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from abctree.kernels.student import EDGE, student_em, student_mixture
from abctree.proposals.log_odds import log_odds
from abctree.proposals.proposal import pick
from abctree.types import BoolArray, FloatArray

#: Laws, their degrees of freedom, and steps of the fit.
_LAWS, _FREEDOM, _STEPS = 4, 5.0, 6
#: Pseudo-points of each law's covariance, beyond d.
_MORE_POINTS = 2.0
#: What is added to a variance: a share of it, and in log-odds.
_RIDGE, _LEAST = 1e-6, 1e-16


@dataclass(frozen=True, eq=False)
class Students:
    """A mixture of Student laws over the cube."""

    weight: FloatArray  #: (K,) of sum 1
    mean: FloatArray  #: (K, d) in log-odds
    root: FloatArray  #: (K, d, d) lower triangular; log-odds = mean + root · steps

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
        """See `Proposal`; all are kept."""
        law = pick(np.cumsum(self.weight), n, rng)
        tail = np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, n))
        step = rng.standard_normal((n, self.mean.shape[1])) * tail[:, None]
        z = self.mean[law] + np.einsum("nab,nb->na", self.root[law], step)
        return np.clip(special.expit(z), EDGE, 1.0 - EDGE), np.ones(n, dtype=bool)

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`; O(K d²) a point."""
        density = np.empty(len(cube))
        student_mixture(cube, *self.arrays, density)
        return density

    @cached_property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, float, float]:
        """Log-amplitudes (K,), means, inverse roots, ν and (ν + d) / 2, for the kernels."""
        d = self.mean.shape[1]
        norm = special.gammaln(0.5 * (_FREEDOM + d)) - special.gammaln(0.5 * _FREEDOM)
        norm -= 0.5 * d * np.log(np.pi * _FREEDOM)
        diagonal = np.diagonal(self.root, axis1=1, axis2=2)
        amplitude = np.log(self.weight) + norm - np.log(diagonal).sum(axis=1)
        whiten = np.asarray(np.linalg.inv(self.root), dtype=np.float64)
        return np.asarray(amplitude), self.mean, whiten, _FREEDOM, 0.5 * (_FREEDOM + d)


def fit_students(
    cube: FloatArray, weight: FloatArray, beside: FloatArray, rng: np.random.Generator
) -> tuple[float, Students]:
    """Fit the laws, beside one whose density is fixed, to weighted points, by the EM algorithm.

    Parameters
    ----------
    cube : (n, d) array
        Points.
    weight : (n,) array
        Their weights; at least four are positive.
    beside : (n,) array
        Density over the cube of the fixed law.
    rng : Generator
        Picks the points at which the laws start.

    Returns
    -------
    float
        Share of the Student laws, in (0, 1); the rest is that of the fixed law.
    Students
        Each covariance is shrunk towards 4^(−2/d) times that of all points.
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
