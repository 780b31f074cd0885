"""`Cell`: one way to read a table; `Choice`: which one was taken, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from abctree.answers.reading.regression import Method
from abctree.problem.ridge import Regressor
from abctree.types import FloatArray, IntArray

#: What draws are near in and regressed on.
Summaries = Literal["own", "sorted", "local", "learned"]

#: A reading by local summaries is a fair one if its energy score is no more above the default's.
_FAIR = 0.1


class Reread(NamedTuple):
    """A table by other summaries than the run's own: those of the observation are 0."""

    distance: FloatArray  #: (T,) inf where there are none
    summary_of: Callable[[IntArray], FloatArray]  #: rows (k,) -> (k, m)
    observed: FloatArray  #: (m,)


class Cell(NamedTuple):
    """One way to read a table: how draws are moved (None: not at all), and how many there are."""

    method: Method | Regressor | None
    ess: float  #: effective sample size, before the weights of the regression
    summaries: Summaries = "own"

    def __str__(self) -> str:
        how = self.method or "raw"
        name = how if isinstance(how, str) else type(how).__name__
        on = {"own": "", "sorted": " on sorted numbers"}.get(self.summaries, " on local summaries")
        return f"{name}{on} at ESS {self.ess:.0f}"


@dataclass(frozen=True)
class Choice:
    """Which reading of a table was taken, against what, and by how much."""

    chosen: Cell
    default: Cell
    #: Of every other reading: how much its energy score is above that of the default, as a share of
    #: it, and the standard error.  Below 0 it is better.  Of two kinds of rows that stand in, near
    #: by the run's own summaries or by local ones, those are told that speak least for it.
    scores: dict[Cell, tuple[float, float]]
    #: Rows that stood in for the observation; a reading that was worse at a third was left there.
    n: int

    @property
    def local_is_fair(self) -> bool:
        """Whether the table could be read by local summaries, if the default is not by these."""
        gaps = {cell: gap for cell, (gap, _) in self.scores.items()} | {self.default: 0.0}
        return any(gap < _FAIR for cell, gap in gaps.items() if cell.summaries == "local")

    @property
    def is_sorted(self) -> bool:
        """Whether numbers without an order were compared sorted."""
        return any(cell.summaries == "sorted" for cell in (self.default, *self.scores))

    def __str__(self) -> str:
        best = min(self.scores, key=lambda cell: self.scores[cell][0], default=None)
        if best is None:
            return f"Read as {self.chosen}: the table is too small to try others."
        gap, error = self.scores[best]
        gain = f"{-100 * gap:.2g} ± {100 * error:.1g} %"
        judged = f"at {self.n} rows that stand in for the observation"
        if self.chosen != self.default:
            return (
                f"Read as {self.chosen}, which is {gain} better than the default, {self.default}, "
                f"{judged}."
            )
        if gap >= 0.0:
            return f"Read as {self.chosen}: none of {len(self.scores)} others is better {judged}."
        return (
            f"Read as {self.chosen}: the best of {len(self.scores)} others, {best}, is only {gain} "
            f"better {judged}."
        )
