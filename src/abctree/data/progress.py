"""`Progress`: how far a run has come, in numbers and on one line."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
