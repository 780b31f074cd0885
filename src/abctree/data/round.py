"""How long a run is and its rounds are, what a round leaves, and how far a run has come."""

from __future__ import annotations

import math
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


# Progress -----------------------------------------------------------------------------------------

#: Of a terminal.
_COLUMNS = 80


@dataclass(frozen=True)
class Progress:
    """How far a run is, after a round or some simulations; print it."""

    n_simulations: int  #: made so far
    budget: int  #: to be made in all
    round: int  #: s
    epsilon: float  #: ε_s
    acceptance_rate: float  #: of the last finished round
    ess: float  #: effective sample size of all draws below ε_s
    n_failures: int
    seconds: float  #: since the first simulation began (after a resume, the first new one)
    n_read: int = 0  #: of the simulations, those that were made by a former process
    limit: float = math.inf  #: seconds after which a rule stops the run

    @property
    def rate(self) -> float:
        """Simulations a second; 0 where none was made by this process."""
        n_made = self.n_simulations - self.n_read
        return n_made / self.seconds if self.seconds > 0.0 and n_made > 0 else 0.0

    @property
    def seconds_left(self) -> float:
        """Until the budget is spent, or the limit reached; inf where the rate is not known."""
        left = (self.budget - self.n_simulations) / self.rate if self.rate > 0.0 else math.inf
        return min(left, max(0.0, self.limit - self.seconds))

    def __str__(self) -> str:
        made = f"{_count(self.n_simulations)}/{_count(self.budget)}"
        rate, left = self.rate, self.seconds_left
        played = [
            f"ε {self.epsilon:.3g}",
            f"acc {_percent(self.acceptance_rate)}",
            f"ESS {self.ess:.0f}",
        ]
        parts = [
            f"round {self.round}" if self.round else "pilot",
            made,
            *([f"{_count(rate)}/s", f"{_duration(left)} left"] if rate > 0.0 else []),
            *(played if self.round else []),
            *([f"{_count(self.n_failures)} failed"] if self.n_failures else []),
        ]
        said = "  ".join(parts)
        return said if len(said) <= _COLUMNS else " ".join(parts)


def _count(number: float) -> str:
    """A number of three digits, or a whole one of four."""
    if 100.0 <= number < 10_000.0 or number == 0.0:
        return f"{number:.0f}"
    if number < 100.0:
        return f"{number:.3g}"
    power = min(int(math.log10(number)) // 3, 4)
    return f"{number / 1000.0**power:.3g}{' kMGT'[power]}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100.0 * share:.2g}%"


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60.0)
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours / 24:.0f}d"
