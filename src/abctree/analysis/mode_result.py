"""`ModeResult`: a run that seeks the mode, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from abctree.analysis.failures import Failures
from abctree.analysis.mode import Candidate, Mode, ModeSummary, posterior_mode
from abctree.analysis.result import Result
from abctree.data import Partition, Round, Table
from abctree.keywords import checks_keywords_of_methods
from abctree.problem import Problem
from abctree.types import FloatArray


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False)
class ModeResult:
    """A run of MAP-Tree and the posterior mode that it found.

    All that a `Mode` says can be asked of it directly.
    """

    run: Result  #: the table and the rounds, as of `abctree.abc_tree`
    mode: Mode

    @classmethod
    def of(cls, run: Result) -> ModeResult:
        """The mode of a finished run of MAP-Tree."""
        run = replace(run, method="map_tree")
        return cls(run, _noted_mode(run, None))

    # The mode -------------------------------------------------------------------------------

    @property
    def theta(self) -> FloatArray:
        """(p,) The mode; nan if nothing was accepted."""
        return self.mode.theta

    @property
    def covariance(self) -> FloatArray | None:
        """(p, p) Of the error of `theta`; None where it is not elliptic."""
        return self.mode.covariance

    @property
    def std(self) -> FloatArray:
        """(p,) Standard errors of `theta`."""
        return self.mode.std

    @property
    def spread(self) -> FloatArray | None:
        """(p, p) Covariance of the ε-posterior around the mode."""
        return self.mode.spread

    @property
    def box(self) -> tuple[FloatArray, FloatArray] | None:
        """Corners (p,), (p,) of the box of the largest average density."""
        return self.mode.box

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Modes with their densities relative to the best, which is the first."""
        return self.mode.candidates

    @property
    def estimates(self) -> dict[str, FloatArray]:
        """By name, "quadratic", "kernel" and "box" (p,)."""
        return self.mode.estimates

    @property
    def epsilon(self) -> float:
        """Tolerance of the answer."""
        return self.mode.epsilon

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know, in plain words."""
        return self.mode.notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """The same as `notes`."""
        return self.mode.notes

    def contains(self, theta: Sequence[float] | FloatArray, level: float = 0.9) -> bool:
        """Whether a point is in the error ellipse; see `Mode.contains`."""
        return self.mode.contains(theta, level)

    def at(self, epsilon: float) -> Mode:
        """The mode read from the same table at a tolerance."""
        return _noted_mode(self.run, epsilon)

    # The run --------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """With its distance fitted."""
        return self.run.problem

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return self.mode.names

    @property
    def table(self) -> Table:
        """One row for every simulation."""
        return self.run.table

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Round 0 is the pilot."""
        return self.run.rounds

    @property
    def partition(self) -> Partition:
        """The last one."""
        return self.run.partition

    @property
    def n_simulations(self) -> int:
        """Simulations made."""
        return self.run.n_simulations

    @property
    def failures(self) -> Failures:
        """Simulations that gave nothing usable."""
        return self.run.failures

    @property
    def stopped_because(self) -> str:
        """Why the run ended."""
        return self.run.stopped_because

    @property
    def seconds(self) -> float:
        """Wall time of the run, simulator included."""
        return self.run.seconds

    def summary(self) -> ModeSummary:
        """The mode, its error, its rivals and what to know; print it."""
        line = (
            f"{self.n_simulations} simulations in {len(self.rounds) - 1} rounds and "
            f"{self.seconds:.3g} s; {self.stopped_because}"
        )
        failed = f"{self.failures.count} simulations failed and count as rejected"
        return ModeSummary(self.mode, (line, failed) if self.failures.count else (line,))

    def __repr__(self) -> str:
        return f"ModeResult({self.mode!r}; {self.n_simulations} simulations)"


def _noted_mode(run: Result, epsilon: float | None) -> Mode:
    """The mode, with what there is to know of the run."""
    mode = posterior_mode(run, epsilon)
    more = (note for note in run.run_notes if note not in mode.notes)
    return replace(mode, notes=(*mode.notes, *more))
