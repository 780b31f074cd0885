"""Problems with little room: narrow ridges, a model without noise, a mode of small prior mass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import abctree
from abctree.problems.balls import ball_volume, draws_in_ball
from abctree.types import FloatArray
from benchmarks.gains import Exact, Row, Yardstick, run

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


def oscillator() -> abctree.Problem:
    """A damped oscillation at forty times, without noise, of a = .2 and b = 2."""
    time = np.arange(40) / 4.0

    def wave(theta: FloatArray) -> FloatArray:
        a, b = theta.T[:, :, None]
        return np.asarray(np.exp(-a * time) * np.cos(b * time))

    def simulate(theta: FloatArray, _: np.random.Generator) -> FloatArray:
        return wave(theta)

    observed = wave(np.array([[0.2, 2.0]]))[0]
    return abctree.Problem({"a": (0.0, 1.0), "b": (0.0, 5.0)}, simulate, observed, vectorized=True)


#: Prior mass of the rare mode, and the ends of the square that it is.
RARE = 1e-3
_FAR = (8.0, 8.0 + 2.0 * WIDE * np.sqrt(RARE))


def in_rare_mode(theta: FloatArray) -> FloatArray:
    """(n,) Whether parameters (n, 2) lie in the square."""
    return np.asarray(((theta > _FAR[0]) & (theta < _FAR[1])).all(axis=1))


def rare_mode() -> abctree.Problem:
    """A place with unit noise, and a far square in which every simulation is the observation."""

    def simulate(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
        x = theta + rng.standard_normal(theta.shape)
        x[in_rare_mode(theta)] = 0.0
        return x

    return abctree.Problem(
        {"a": (-WIDE, WIDE), "b": (-WIDE, WIDE)}, simulate, np.zeros(2), vectorized=True
    )


class Narrow(Yardstick):
    """A narrow ridge: honest gain."""

    budgets = (10_000,)

    def __init__(self, name: str, ridge: Ridge) -> None:
        self.name, self.problem = name, ridge.problem()
        self.exact = Exact(ridge, np.geomspace(0.05, 8.0, 16))

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(self.problem, n, seed, **method)
        return {**self.exact.report(result, [300]), "seconds": seconds}


class Oscillator(Yardstick):
    """A model without noise: the tolerance that is reached."""

    name, budgets = "Oscillator", (30_000,)

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(oscillator(), n, seed, **method)
        return {"eps@300": result.posterior(ess=300).epsilon, "seconds": seconds}


class RareMode(Yardstick):
    """A mode of a thousandth of the prior, with a fifth of the posterior: whether it is missed."""

    name, budgets = "Rare", (5_000,)

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(rare_mode(), n, seed, **method)
        missed = not in_rare_mode(result.table.theta).any()
        return {"missed": float(missed), "seconds": seconds}
