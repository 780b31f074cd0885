"""`Plan`: the numbers that steer a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Plan:
    """Budgets and habits of a run; one to one with the settings of the command line.

    All counts are simulations unless said otherwise.
    """

    n_simulations: int  #: T, the exact budget
    n_pilot: int  #: prior draws of round 0
    quota: int  #: B, acceptances that end a round
    block: int  #: pulls between two updates of the beliefs; 1 is the paper
    lookahead: int = 0  #: blocks begun before the oldest has come back
    milestones: tuple[int, ...] = ()  #: former budgets, when a run was extended
    n_folds: int = 5  #: F; 1 is the paper
    window: Literal["extended", "rolling"] = "extended"  #: rows that the partition learns from
    relabel: Literal["next", "last"] = (
        "next"  #: ε at which the table is relabelled; the paper: last
    )
    from_pilot: bool = True  #: cut the first partition from the pilot; the paper starts from {Θ}
    defensive: float = 0.05  #: share of prior draws in every proposal
    max_rounds: int | None = None  #: S_max
    kernels: bool = False  #: whether kernels around accepted draws propose beside the boxes
