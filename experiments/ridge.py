"""Narrow ridges: data that are places which the parameters say, and correlated noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import abctree
from abctree.problems.truth import ball_volume, draws_in_ball
from abctree.types import FloatArray

#: Half of the width of the prior of the ridges, in each direction.
WIDE = 10.0
#: Proposed draws by which the share of a ridge inside its prior is counted.
_COUNTED = 200_000


@dataclass(frozen=True)
class Ridge:
    """Normals of unit spread and equal correlation ρ around θ; or a curved ridge, of ρ None.

    The ε-posterior of a uniform prior is a point of the ε-ball less noise, if inside the prior.
    """

    d: int
    correlation: float | None

    def noise(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, d) What is added to the place that the parameters say."""
        e = rng.standard_normal((n, self.d))
        if self.correlation is None:
            return np.asarray(e * [0.8, 0.1, 0.1])
        common = np.sqrt(self.correlation) * rng.standard_normal((n, 1))
        return np.asarray(common + np.sqrt(1.0 - self.correlation) * e)

    def problem(self) -> abctree.Problem:
        """The observation is 0."""

        def simulate(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
            place = theta
            if self.correlation is None:
                a, b, c = theta.T
                place = np.column_stack([a, b - a**2, c - b])
            return place + self.noise(len(theta), rng)

        prior = {f"t{i + 1}": (-WIDE, WIDE) for i in range(self.d)}
        return abctree.Problem(prior, simulate, np.zeros(self.d), vectorized=True)

    def proposed(self, n: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
        """(n, d) Draws of the ε-posterior, were there no prior."""
        place = draws_in_ball(n, self.d, epsilon, rng) - self.noise(n, rng)
        if self.correlation is None:  # from which the parameters follow, one by one
            place[:, 1] += place[:, 0] ** 2
            place[:, 2] += place[:, 1]
        return place

    def draws(self, n: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
        """(n, d) Exact draws of the ε-posterior."""
        theta = self.proposed(2 * n, epsilon, rng)
        return theta[(np.abs(theta) < WIDE).all(axis=1)][:n]

    def evidence(self, epsilon: float) -> float:
        """Z(ε), the volume of the ball in units of the prior's, times the share inside."""
        theta = self.proposed(_COUNTED, epsilon, np.random.default_rng(0))
        inside = float((np.abs(theta) < WIDE).all(axis=1).mean())
        return inside * ball_volume(self.d, epsilon) / (2.0 * WIDE) ** self.d
