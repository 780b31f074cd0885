"""What a yardstick is, and the honest gain of a run on one whose truth is known."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import abctree
from experiments import command
from experiments.scores import honest_gain

Row = dict[str, float]


@dataclass
class Exact:
    """Draws and evidences of a problem on a grid of tolerances, made once."""

    known: Any
    epsilons: np.ndarray
    draws: list[np.ndarray] = field(init=False)
    evidence: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.draws = [self.known.draws(4000, float(e), rng) for e in self.epsilons]
        self.evidence = np.array([self.known.evidence(float(e)) for e in self.epsilons])

    def gain_at(self, result: Any, expected: float) -> tuple[float, float]:
        """ε where T · Z · h reaches `expected`, and h there (log-linear between grid points)."""
        h = np.array([honest_gain(result, d) for d in self.draws])
        effective = np.log(result.n_simulations * self.evidence * h)
        at = np.log(expected)
        log_epsilon = np.interp(at, effective, np.log(self.epsilons))
        return float(np.exp(log_epsilon)), float(np.interp(at, effective, h))

    def report(self, result: Any, expected: list[float]) -> Row:
        row: Row = {}
        for e in expected:
            epsilon, h = self.gain_at(result, e)
            z = self.known.evidence(epsilon)
            row[f"eps@{e:g}"] = epsilon
            row[f"h@{e:g}"] = h
            row[f"nominal@{e:g}"] = result.posterior(epsilon=epsilon).ess / (
                result.n_simulations * z
            )
            row[f"Z err % @{e:g}"] = 100.0 * (result.evidence(epsilon).estimate / z - 1.0)
        return row


def run(problem: Any, n: int, seed: int, **method: Any) -> tuple[Any, float]:
    began = time.process_time()
    with command.quiet():
        result = abctree.abc_tree(problem, n_simulations=n, rng=seed, **method)
    return result, time.process_time() - began


class Yardstick:
    """A problem, its budgets, and what is measured on one run."""

    name: str
    budgets: tuple[int, ...]

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        raise NotImplementedError
