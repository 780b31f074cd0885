"""Local summaries: where data lie among what the model makes near the posterior, and their spread.

Near the posterior a model is nearly a line with noise, x = a + B θ + s σ e.  What data then say of
θ and of the size σ of the noise is where they lie in the directions of B, and how large the rest
is: few numbers, however many the data are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.problem.ridge import LEAST_SQUARES, Line, Ridge
from abctree.types import FloatArray

#: The line is fitted to so many rows for each of its coefficients, at least.
_FOR_EACH = 5
#: A number of which a line leaves less than this share of its spread counts as if it left as much.
_LEAST_LEFT = 1e-3
#: Directions in which parameters move data by less than this share of the largest are none.
_NO_DIRECTION = 1e-6
#: The rest of the data that has fewer numbers than this has no size to speak of.
_FREE = 2


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A line with noise, fitted to simulations of parameters near the posterior."""

    line: Line  #: from parameters (n, k) to data (n, q)
    noise: FloatArray  #: (q,) root mean squares of what it leaves
    along: FloatArray  #: (q, r) orthonormal directions in which parameters move data / noise

    @classmethod
    def of(cls, x: FloatArray, z: FloatArray, near: FloatArray, weight: FloatArray) -> LocalModel:
        """Fit simulations x (n, q) of parameters z (n, k) near those of some draws (m, k).

        All rows count whose parameters are near, whatever data they made: those that were accepted
        have noise like that of the observation, and a line through them follows it.
        """
        mean = weight @ near / weight.sum()
        centred = (near - mean) * np.sqrt(weight / weight.sum())[:, None]
        _, spread, axes = np.linalg.svd(centred, full_matrices=False)
        used = spread > _NO_DIRECTION * spread.max(initial=0.0)
        away = (z - mean) @ (axes[used] / spread[used, None]).T
        n = min(max(len(near), _FOR_EACH * (z.shape[1] + 1)), len(z))
        row = np.argpartition(np.square(away).sum(axis=1), n - 1)[:n]
        line = Ridge(z[row], np.ones(n), LEAST_SQUARES).line(x[row])
        left = np.sqrt(np.square(x[row] - line(z[row])).mean(axis=0))
        noise = np.maximum(left, _LEAST_LEFT * x[row].std(axis=0))
        noise[noise == 0.0] = 1.0
        along, size, _ = np.linalg.svd((line.slope / noise).T, full_matrices=False)
        return cls(line, noise, along[:, size > _NO_DIRECTION * size.max(initial=0.0)])

    @property
    def free(self) -> int:
        """How many numbers the rest of the data has."""
        q, r = self.along.shape
        return int(q - r)

    @property
    def has_rest(self) -> bool:
        """Whether there is enough beside the directions of the line to have a size."""
        return self.free >= _FREE

    def differences(self, x: FloatArray) -> FloatArray:
        """(n, r + 1) Local summaries of data x (n, q), less those of the observation, at x = 0."""
        return self(x) - self(np.zeros((1, x.shape[1])))

    def __call__(self, x: FloatArray) -> FloatArray:
        """Data (n, q) -> (n, r + 1): their place, and the logarithm of the size of the rest.

        Each has the unit of its own noise, if that is normal.
        """
        place, rest = self.parts(x)
        square = np.square(rest, out=rest).sum(axis=1)
        size = 0.5 * np.log(np.maximum(square, np.finfo(float).tiny))
        return np.column_stack([place, np.sqrt(2.0 * self.free) * size])

    def parts(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where data (n, q) lie along the line (n, r), and the rest (n, q), in units of noise."""
        rest = x - self.line.level
        rest /= self.noise
        place = rest @ self.along
        rest -= place @ self.along.T
        return place, rest
