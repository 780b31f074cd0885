"""The prior behind a posterior, as pictures need it: its density on an axis, and whether to log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from abctree.answers.posterior import Posterior
from abctree.answers.weighted import Weighted
from abctree.problem.priors.circles import opened
from abctree.problem.priors.cube import inside
from abctree.types import FloatArray

#: Points of the cube, as a power of two.
_POWER = 14
#: A log axis is for a prior whose 90 % span this factor at least, and that is symmetric on it: off
#: by less than this share of half its width, and by more on a plain axis.
_SPAN, _ASYMMETRY = 10.0, 0.1
#: Levels of the quantiles that tell the density.
LEVELS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """Points of the prior with weights."""

    theta: FloatArray  #: (m, p)
    weight: FloatArray  #: (m,) sums to one

    @classmethod
    def of(cls, draws: Posterior) -> PriorDraws | None:
        """Of the prior that some draws come with; None if they have none."""
        region = draws.region
        if region is None:
            return None
        cube = inside(qmc.Sobol(region.prior.d, rng=np.random.default_rng(0)).random_base2(_POWER))
        weight = region.weight_of_feasible(cube)
        if not weight.sum() > 0.0:
            return None
        theta = opened(region.prior.from_cube(cube), draws.circles, draws.mean())
        return cls(theta, weight / weight.sum())

    def quantile(self, j: int, levels: FloatArray) -> FloatArray:
        """Quantiles of one parameter."""
        return Weighted.of(self.theta[:, j], self.weight).quantile(levels)

    def is_log(self, j: int) -> bool:
        """Whether the prior of a parameter is one of its logarithm: symmetric there, and wide."""
        ends = self.quantile(j, np.array([0.05, 0.5, 0.95]))
        if not (ends[0] > 0.0 and ends[2] >= _SPAN * ends[0]):
            return False
        return _asymmetry(np.log(ends)) < _ASYMMETRY <= _asymmetry(ends)

    def mass(self, j: int, edges: FloatArray) -> FloatArray:
        """Probability of each bin of one continuous parameter, smooth between its quantiles."""
        below = np.interp(edges, self.quantile(j, LEVELS), LEVELS, left=0.0, right=1.0)
        return np.diff(below)

    def probability(self, j: int, values: FloatArray) -> FloatArray:
        """Probability of each value of one discrete parameter."""
        near = np.isclose(self.theta[:, j], values[:, None], rtol=1e-9, atol=0.0)
        return np.asarray(near @ self.weight)


def _asymmetry(ends: FloatArray) -> float:
    """How far the middle one of three is from halfway, in half widths."""
    low, middle, high = ends
    return float(abs(2.0 * middle - low - high) / (high - low))
