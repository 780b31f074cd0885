"""What a finished run would have answered earlier: one run gives a whole curve over simulations.

A run's table has every simulation in the order in which it was made, and its rounds have the
proposals, so that the weights after any round can be worked out again.  Settings that follow from
the budget (the pilot, the quota) are those of the whole run: a run of a smaller budget would have
chosen others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.answers.run import NEAR
from abctree.answers.selection import default_ess, select
from abctree.answers.weighted import log_of
from experiments import command
from experiments.methods import Reading


@dataclass(frozen=True, eq=False)
class Known:
    """What a run knew after its first n simulations."""

    result: Any
    n: int
    weight: np.ndarray  #: (n,) raw weights of the first n rows
    epsilon: float | None = None  #: of the population that answers, if one does
    is_pilot: bool = False  #: whether these are prior draws from before the first round

    def posterior(self, ess: float | None = None) -> Posterior:
        """Draws at the smallest ε with this effective sample size, or of the population."""
        distance = self.result.table.distance[: self.n]
        with command.quiet():
            rows, epsilon = select(
                distance,
                self.weight,
                epsilon=self.epsilon,
                ess=None if self.epsilon is not None else ess or default_ess(self.n),
                limit=self._limit,
                near=self._near,
            )
        return Posterior(
            theta=self.result.table.theta_of(rows),
            log_weights=log_of(self.weight[rows]),
            distance=distance[rows],
            epsilon=epsilon,
            names=self.result.problem.names,
            n_simulations=self.n,
        )

    @property
    def _limit(self) -> float:
        rounds = self.result.rounds
        bounded = self.result.method != "rejection" and len(rounds) > 1 and not self.is_pilot
        return rounds[1].epsilon if bounded else np.inf

    @property
    def _near(self) -> float:
        """As of a run: draws at much larger tolerances than that of the last round may be heavy."""
        played = [r.epsilon for r in self.result.rounds[1:] if r.last <= self.n]
        return NEAR * played[-1] if played and self.result.plan.grows else np.inf


def known_after(result: Any, reading: Reading, points: Sequence[int]) -> Iterator[Known | None]:
    """What was known at each of the increasing numbers of simulations; None if nothing was."""
    if reading in ("closest", "draw"):
        weight = np.ones(len(result.table)) if reading == "closest" else result.weights("draw")
        for n in points:
            yield Known(result, n, weight[:n])
        return
    stages = _stages(result, reading)
    last, following = None, next(stages, None)
    for n in points:
        while following is not None and following.n <= n:
            last, following = following, next(stages, None)
        in_pilot = reading == "mixture" and n <= result.rounds[0].last
        yield Known(result, n, np.ones(n), is_pilot=True) if in_pilot else last


def _stages(result: Any, reading: Reading) -> Iterator[Known]:
    if reading == "population":
        return _populations(result)
    return _mixtures_of_kernels(result) if result.method == "smc" else _mixtures_of_boxes(result)


def _populations(result: Any) -> Iterator[Known]:
    """Each population that the run would have answered with, had it ended there."""
    table = result.table
    weight = table.prior_weight / table.proposal
    for played in result.rounds[1 : (result.population or 0) + 1]:
        # The pilot's prior draws belong to the first population.
        own = table.round <= 1 if played.index == 1 else table.round == played.index
        yield Known(
            result, played.last, np.where(own, weight, 0.0)[: played.last], epsilon=played.epsilon
        )


def _mixtures_of_boxes(result: Any) -> Iterator[Known]:
    table = result.table
    total = np.zeros(len(table))
    for played in result.rounds:
        for f, mixture in enumerate(played.mixtures):
            rows = np.flatnonzero(table.fold == f)
            if not mixture.layers:
                total[rows] = mixture.n_prior
            else:
                total[rows] += mixture.newest(table.cube[rows])
        n = played.last
        n_fold = np.bincount(table.fold[:n])
        weight = n_fold[table.fold[:n]] / total[:n] * table.prior_weight[:n]
        yield Known(result, n, weight)


def _mixtures_of_kernels(result: Any) -> Iterator[Known]:
    """All populations so far by all their proposals; each draw by what it did not teach.

    Rows beyond the first tolerance, above which no answer is read, get no weight: the density of a
    population costs a look at each of its particles.
    """
    table = result.table
    near = np.flatnonzero(table.distance < result.rounds[1].epsilon)
    place = np.full(len(table), -1)
    place[near] = np.arange(len(near))
    rows = SimpleNamespace(theta=table.theta[near], cube=table.cube[near])
    total = np.zeros(len(near))
    seen = 0
    for played in result.rounds:
        mixture = played.mixtures[0]
        if not mixture.layers:
            total[:] = mixture.n_prior
        for ((n_drawn, proposal),) in mixture.layers[seen:]:
            here = replace(proposal, rows=place[proposal.rows])
            total += n_drawn * here.ratio_without_oneself(rows)
        seen = len(mixture.layers)
        n = played.last
        weight = np.zeros(len(table))
        weight[near] = n / total * table.prior_weight[near]
        yield Known(result, n, weight[:n])


def curve(
    result: Any,
    reading: Reading,
    points: Sequence[int],
    score: Callable[[np.ndarray, np.ndarray], dict[str, float]],
    targets: Sequence[float],
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Scores at each number of simulations, and at the end the ε and scores at given ESS.

    Over simulations draws are read as `Result.posterior` does by default: at an effective sample
    size of 1 000, or of 3 % of the simulations so far if that is less.
    """
    rows: list[dict[str, float]] = []
    known = None
    for known in known_after(result, reading, points):
        if known is None:
            rows.append({})
            continue
        if rows and rows[-1].get("made") == known.n:
            rows.append(rows[-1])  # nothing new since
            continue
        draws = known.posterior()
        row = {"made": known.n, "ε": draws.epsilon, "ESS": draws.ess}
        rows.append({**row, **score(draws.theta, draws.weights)})
    return rows, {} if known is None else _final(known, score, targets)


def _final(
    known: Known,
    score: Callable[[np.ndarray, np.ndarray], dict[str, float]],
    targets: Sequence[float],
) -> dict[str, float]:
    """At each target; a population has its own ε and size, and is read once, as "@own"."""
    row: dict[str, float] = {}
    reads = {f"{t:g}": t for t in targets} if known.epsilon is None else {"own": None}
    for label, target in reads.items():
        draws = known.posterior(target)
        found = {"ε": draws.epsilon, "ESS": draws.ess, **score(draws.theta, draws.weights)}
        row |= {f"{key}@{label}": value for key, value in found.items()}
    return row
