"""`CubeKernels`: a kernel density estimate of accepted draws, over the unit cube."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from abctree.kernels.student import EDGE, student_sums
from abctree.proposals.log_odds import log_odds
from abctree.proposals.perturbations import Silverman
from abctree.types import BoolArray, FloatArray

#: Degrees of freedom, or one more in an odd number of dimensions: (ν + d) / 2 is a whole number.
_FREEDOM = 4
#: Least variance of a coordinate, in log-odds, and of a step, in variances of its coordinate.
_LEAST, _RIDGE = 1e-18, 1e-9


@dataclass(frozen=True, eq=False)
class CubeKernels:
    """Student kernels around points of the cube: a density that can be drawn from.

    They live on the log-odds of the coordinates, where there is no border to step over.  Their
    spread is that of Silverman's rule, which is for normal kernels; the tails of Student's law,
    with four or five degrees of freedom, are for what a density estimate misses.
    """

    centre: FloatArray  #: (d, N) in steps
    weight: FloatArray  #: (N,) of sum 1
    root: FloatArray  #: (d, d) lower triangular; log-odds = root · steps

    @classmethod
    def around(cls, cube: FloatArray, weight: FloatArray) -> CubeKernels:
        """The estimate from points (N, d) and their weights (N,) of sum 1."""
        z, _ = log_odds(cube)
        scale = np.sqrt(np.maximum(z.var(axis=0), _LEAST))
        covariance = Silverman().covariance(z / scale, weight) + _RIDGE * np.eye(cube.shape[1])
        root = np.linalg.cholesky(covariance) * scale[:, None]
        return cls(np.ascontiguousarray(np.linalg.solve(root, z.T)), weight, root)

    @property
    def d(self) -> int:
        """Dimensions."""
        return len(self.root)

    @property
    def freedom(self) -> int:
        """Degrees of freedom ν of the kernels."""
        return _FREEDOM + self.d % 2

    def density(self, cube: FloatArray) -> FloatArray:
        """Density at points of the cube: (n, d) -> (n,), O(n N d)."""
        total, freedom = np.empty(len(cube)), self.freedom
        power = (freedom + self.d) // 2
        student_sums(cube, self._whiten, self.centre, self.weight, freedom, power, total)
        return np.asarray(total * np.exp(self._log_norm))

    @cached_property
    def _whiten(self) -> FloatArray:
        return np.ascontiguousarray(np.linalg.inv(self.root))

    @cached_property
    def _log_norm(self) -> float:
        half, d = 0.5 * self.freedom, self.d
        norm = special.gammaln(half + 0.5 * d) - special.gammaln(half)
        norm -= 0.5 * d * np.log(np.pi * self.freedom) + np.log(np.diag(self.root)).sum()
        return float(norm)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
        """See `Proposal`; all are kept."""
        picked = rng.choice(len(self.weight), n, p=self.weight)
        tail = np.sqrt(self.freedom / rng.chisquare(self.freedom, n))
        step = rng.standard_normal((n, self.d)) * tail[:, None]
        z = (self.centre.T[picked] + step) @ self.root.T
        return np.clip(special.expit(z), EDGE, 1.0 - EDGE), np.ones(n, dtype=bool)
