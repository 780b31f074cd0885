"""How long a run is and its rounds are, and what a round leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from abctree.data.boxes import Arms, Partition
from abctree.data.mixture import Mixture
from abctree.markup import page, table

#: Rounds of a run that a prompt shows.
_SHOWN = 20
#: Simulations of a round that grows, at least, and as a share of those before it: while these are
#: few, and later.
_SHORTEST, _FEW, _EARLY, _LATE = 50, 3000, 0.4, 0.8


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
    grows: bool = False  #: rounds are as long as the rows so far ask for, and not B acceptances

    def goal(self, n: int) -> int:
        """T, as it was when the run had n rows: a run that is extended repeats what it was."""
        return min(m for m in (*self.milestones, self.n_simulations) if m > n)

    def end_of_round(self, n: int) -> int:
        """Rows at which a round ends that begins after n: where the budget does, if not before."""
        if not self.grows:
            return self.n_simulations
        share = _EARLY if n < _FEW else _LATE
        goal, more = self.goal(n), max(int(share * n), _SHORTEST)
        return n + more if n + 1.5 * more <= goal else goal


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return (
            f"Round({self.index}: {self.n_simulations} simulations, epsilon {self.epsilon:.4g}, "
            f"{self.n_accepted} accepted, ESS {self.ess:.0f})"
        )

    def _repr_html_(self) -> str:
        return Rounds([self])._repr_html_()


class Rounds(tuple[Round, ...]):
    """The rounds of a run, shown as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[-_SHOWN:]))
        return f"({'…, ' * (len(self) > _SHOWN)}{shown}{',' * (len(self) == 1)})"

    def _repr_html_(self) -> str:
        heads = ("round", "simulations", "epsilon", "accepted", "ESS", "boxes")
        return page(
            table(
                heads,
                (
                    (
                        str(r.index),
                        str(r.n_simulations),
                        f"{r.epsilon:.4g}",
                        f"{r.acceptance_rate:.2%}",
                        f"{r.ess:.0f}",
                        str(len(r.partitions[0])),
                    )
                    for r in self[::-1]
                ),
            )
        )
