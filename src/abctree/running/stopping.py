"""Stopping rules: why a run ends before its budget of simulations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from abctree.data import Progress
from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.numbers import checked_number
from abctree.protocols import HasEveryBlock, StoppingRule
from abctree.types import NamedDict


def is_hurried(rule: StoppingRule) -> bool:
    """Whether a rule is to be asked after every block, not only between rounds."""
    return isinstance(rule, HasEveryBlock) and rule.every_block


@checks_keywords
@dataclass(frozen=True)
class Seconds:
    """Stop `limit` seconds (positive) after the first simulation began; asked after every block."""

    limit: float
    every_block = True

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        return f"{self.limit:g} seconds passed" if progress.seconds >= self.limit else None


@checks_keywords
@dataclass(frozen=True)
class Rounds:
    """Stop after `limit` rounds, at least 1, the pilot not counted (S_max)."""

    limit: int

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        return f"{self.limit} rounds played" if progress.round >= self.limit else None


@checks_keywords
@dataclass(frozen=True)
class Epsilon:
    """Stop when a round has been played at a tolerance of at most `limit`, in distance."""

    limit: float

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        if progress.round == 0 or progress.epsilon > self.limit:
            return None
        return f"epsilon {progress.epsilon:g} reached {self.limit:g}"


@checks_keywords
@dataclass(frozen=True)
class AcceptanceRate:
    """Stop when a round accepted less than the share `limit`, in (0, 1), of its simulations."""

    limit: float

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        if progress.round == 0 or progress.acceptance_rate >= self.limit:
            return None
        return f"acceptance rate {progress.acceptance_rate:.3g} fell below {self.limit:g}"


@checks_keywords
@dataclass(frozen=True)
class TargetESS:
    """Stop when the draws below the round's tolerance reach an effective sample size.

    Parameters
    ----------
    limit : float
        Effective sample size.  At a large tolerance it is soon reached.
    epsilon : float
        Only once the tolerance is at most this.
    """

    limit: float
    epsilon: float = float("inf")

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        if progress.round == 0 or progress.epsilon > self.epsilon or progress.ess < self.limit:
            return None
        return f"effective sample size {progress.ess:.0f} reached {self.limit:g}"


__all__ = ["AcceptanceRate", "Epsilon", "Rounds", "Seconds", "TargetESS", "as_stopping_rules"]

_BY_NAME: NamedDict = {
    "seconds": Seconds,
    "rounds": Rounds,
    "epsilon": Epsilon,
    "acceptance_rate": AcceptanceRate,
    "ess": TargetESS,
}


@checks_keywords
def as_stopping_rules(
    spec: StoppingRule | Mapping[str, float] | Iterable[StoppingRule] | None,
) -> tuple[StoppingRule, ...]:
    """Rules from one, several, or a dict such as ``{"seconds": 60, "epsilon": 0.1}``.

    Raises
    ------
    ParameterError
        If a name is unknown, a limit is not positive, or an object has no `reason`.
    """
    if spec is None:
        return ()
    if isinstance(spec, Mapping):
        for name, limit in spec.items():
            if name not in _BY_NAME or not checked_number(f"stop[{name!r}]", limit) > 0:
                raise ParameterError(
                    f"`stop` must give positive limits to names of {sorted(_BY_NAME)}, "
                    f"but got {name!r}: {limit!r}."
                )
        return tuple(_BY_NAME[name](limit) for name, limit in spec.items())
    given: Any = spec
    several = isinstance(given, Iterable) and not isinstance(given, str)
    rules: tuple[Any, ...] = tuple(given) if several else (given,)
    for rule in rules:
        if not hasattr(rule, "reason"):
            raise wrong(
                "stop", "hold rules with a method `reason(progress)`", repr(rule),
                'Or write stop={"seconds": 60}.',
            )  # fmt: skip
    return rules
