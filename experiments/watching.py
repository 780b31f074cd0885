"""Parts that watch a run: policies that keep what they propose, and a partitioner with a clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abctree import metrics


class Timed:
    """A partitioner, and the CPU seconds that it takes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seconds = inner, 0.0

    def partition(self, *rows: Any) -> Any:
        began = time.process_time()
        boxes = self.inner.partition(*rows)
        self.seconds += time.process_time() - began
        return boxes


@dataclass(frozen=True)
class Proposal:
    """Algorithm 1, lines 4 to 7: arms in proportion to the utility's optimal proposal."""

    utility: Any
    defensive: float = 0.0

    def pull(
        self,
        arms: Any,
        partition: Any,
        n: int,  # noqa: ARG002 - the arms are drawn from q by the inner loop
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[np.ndarray | None, np.ndarray]:
        q = self.utility.optimal_proposal(arms.mean, partition.prior_mass)
        return None, (1.0 - self.defensive) * q + self.defensive * partition.prior_mass


@dataclass
class Losses:
    """A policy that adds up the loss in utility of each of its proposals.

    Parameters
    ----------
    inner : Policy
        Who plays.
    eta, prior_mass : (K,) arrays
        True acceptance rates and prior masses of the arms.
    utilities : dict
        Name -> utility.
    points : sequence of int
        Numbers of pulls, increasing, after which the sums are kept.
    """

    inner: Any
    eta: np.ndarray
    prior_mass: np.ndarray
    utilities: dict[str, Any]
    points: Sequence[int]
    kept: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n = 0
        self._value = {k: metrics.utility_value(u) for k, u in self.utilities.items()}
        self._best = {
            k: self._value[k](
                u.optimal_proposal(self.eta, self.prior_mass), self.eta, self.prior_mass
            )
            for k, u in self.utilities.items()
        }
        self._loss = dict.fromkeys(self.utilities, 0.0)
        self._offered = np.zeros(len(self.eta))

    def pull(
        self, arms: Any, partition: Any, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray | None, np.ndarray]:
        fixed, q = self.inner.pull(arms, partition, n, rng)
        self.n += n
        self._offered += n * q
        loss = {}
        for key, value in self._value.items():
            loss[key] = self._best[key] - value(q, self.eta, self.prior_mass)
            self._loss[key] += n * loss[key]
        if len(self.kept) < len(self.points) and self.n >= self.points[len(self.kept)]:
            self.kept.append(
                {
                    "n": self.n,
                    "regret": {k: v / self.n for k, v in self._loss.items()},
                    "loss": loss,
                    "rate": arms.mean,
                    "offered": self._offered.copy(),
                }
            )
        return fixed, q


@dataclass
class Diary:
    """A policy that keeps every proposal with its partition."""

    inner: Any
    entries: list[tuple[Any, int, np.ndarray]] = field(default_factory=list)

    def pull(
        self, arms: Any, partition: Any, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray | None, np.ndarray]:
        fixed, q = self.inner.pull(arms, partition, n, rng)
        self.entries.append((partition, n, q))
        return fixed, q
