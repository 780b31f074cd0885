"""`Plan`: the numbers that steer a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Simulations of a round, at least.
_SHORTEST = 50


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
    #: What draws points: "boxes", and beside them "thinned" candidates and "kernels".
    proposal: tuple[str, ...] = ("boxes",)
    growth: float | None = None  #: rounds are so long, in rows so far, and not B acceptances

    def goal(self, n: int) -> int:
        """T, as it was when the run had n rows: a run that is extended repeats what it was."""
        return min(m for m in (*self.milestones, self.n_simulations) if m > n)

    def end_of_round(self, n: int) -> int:
        """Rows at which a round ends that begins after n: where the budget does, if not before."""
        if self.growth is None:
            return self.n_simulations
        goal, more = self.goal(n), max(int(self.growth * n), _SHORTEST)
        return n + more if n + 1.5 * more <= goal else goal
