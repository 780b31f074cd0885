"""`Progress`: how far a run has come, for stopping rules and progress bars."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Numbers at the end of a block or a round."""

    n_simulations: int  #: made so far
    budget: int  #: to be made in all
    round: int  #: s
    epsilon: float  #: ε_s
    acceptance_rate: float  #: of the last finished round
    ess: float  #: effective sample size of all draws below ε_s
    n_failures: int
    seconds: float  #: since the first simulation began (after a resume, the first new one)
