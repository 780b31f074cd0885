"""Problems with little room: narrow ridges, a model without noise, a mode of small prior mass."""

from __future__ import annotations

from typing import Any

import numpy as np

import abctree
from abctree.types import FloatArray
from benchmarks.gains import Exact, Row, Yardstick, run
from experiments.ridge import WIDE, Ridge


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
