"""`Round`: the unit of progress, storage and resumption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abctree.data.arms import Arms
from abctree.data.mixture import Mixture
from abctree.data.partition import Partition


@dataclass(frozen=True, eq=False)
class Round:
    """What the outer loop knows at the end of round s (Algorithm 2).

    Round 0 is the pilot: prior draws, one box.  The per-fold tuples have one entry for F = 1.
    """

    index: int  #: s
    epsilon: float  #: ε_s, the tolerance that was played; inf in the pilot
    partitions: tuple[Partition, ...]  #: Ω^s, one per fold
    arms: tuple[Arms, ...]  #: α, β at the end of the round, one per fold
    mixtures: tuple[Mixture, ...]  #: all proposals so far, one per fold
    first: int  #: first row of the round
    last: int  #: one past its last row
    n_accepted: int  #: rows of the round with a distance below ε_s
    ess: float  #: effective sample size of all draws so far below ε_s
    rng_state: dict[str, Any]  #: state of the generator at the end of the round
    interrupted: bool = False  #: cut short from outside, by Ctrl-C

    @property
    def n_simulations(self) -> int:
        """T_s, simulations made in the round."""
        return self.last - self.first

    @property
    def acceptance_rate(self) -> float:
        """Share of the round's simulations that were accepted at ε_s."""
        return self.n_accepted / max(1, self.n_simulations)
