"""The two kinds of answers: a posterior, and a mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from abctree.analysis.mode_result import ModeResult
from abctree.edges.cli.answer import NO_ESS, Answer

if TYPE_CHECKING:
    from abctree.analysis.posterior import Posterior
    from abctree.analysis.result import Result
    from abctree.analysis.summary import Summary
    from abctree.edges.cli.folder import Note


def answer_of(note: Note, result: Result | ModeResult) -> Answer:
    """Read a run at the tolerance, or the effective sample size, that was asked for."""
    if isinstance(result, ModeResult):
        return ModeAnswer.of(note, result)
    return PosteriorAnswer.of(note, result)


@dataclass(frozen=True, eq=False)
class PosteriorAnswer(Answer):
    """Draws, and what they say."""

    summary: Summary

    @classmethod
    def of(cls, note: Note, result: Result) -> PosteriorAnswer:
        """See `answer_of`."""
        asked = note.asked
        summary = result.summary(epsilon=asked.get("epsilon"), ess=asked.get("ess"))
        return cls(note, result, summary)

    @property
    def posterior(self) -> Posterior:
        """The draws at that tolerance."""
        return self.summary.posterior

    @property
    def is_empty(self) -> bool:
        """Whether there are no draws."""
        return len(self.posterior) == 0

    @property
    def epsilon(self) -> float:
        """The tolerance at which the run is read."""
        return self.posterior.epsilon

    def text(self) -> str:
        """The summary."""
        return str(self.summary)

    def found(self) -> dict[str, Any]:
        """The summary."""
        return self.summary.to_dict()

    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """The draws, or the whole run."""
        from abctree.edges.export import to_arviz, to_csv, to_npz

        if kind == "npz":
            to_npz(self.run, file)
        elif kind == "csv":
            to_csv(self.run if whole else self.posterior, file)
        else:
            to_arviz(self.posterior).to_netcdf(str(file))

    def write(self, directory: Path, say: Callable[[str], None]) -> list[str]:
        """Also the table of the summary."""
        from abctree.edges.export import to_csv

        summary, *others = super().write(directory, say)
        to_csv(self.summary, directory / "summary.csv")
        return [summary, "summary.csv", *others]

    def table(self) -> str:
        """Of the draws."""
        return "posterior.csv"

    def picture(self, directory: Path) -> str:
        """The pairs of parameters."""
        from abctree.edges import plots

        plots.pair(self.posterior).savefig(directory / "posterior.png", dpi=130)
        return "posterior.png"


@dataclass(frozen=True, eq=False)
class ModeAnswer(Answer):
    """A mode, and how well it is known."""

    result: ModeResult

    @classmethod
    def of(cls, note: Note, result: ModeResult) -> ModeAnswer:
        """See `answer_of`."""
        if "ess" in note.asked:
            raise click.UsageError(NO_ESS)
        if "epsilon" in note.asked:
            result = replace(result, mode=result.at(note.asked["epsilon"]))
        return cls(note, result.run, result)

    @property
    def is_empty(self) -> bool:
        """Whether there is no mode."""
        return not np.isfinite(self.result.theta).all()

    @property
    def epsilon(self) -> float:
        """The tolerance at which the run is read."""
        return self.result.epsilon

    def text(self) -> str:
        """The summary."""
        return str(self.result.summary())

    def found(self) -> dict[str, Any]:
        """The summary."""
        return self.result.summary().to_dict()

    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """The candidates, or all simulations; as npz both."""
        from abctree.edges.export import to_csv, to_npz

        if kind == "arviz":
            raise click.UsageError(
                "--format arviz writes a posterior, and this is a run of map-tree. Use csv or npz."
            )
        if kind == "npz":
            to_npz(self.result, file)
        else:
            to_csv(self.run if whole else self.result, file)

    def table(self) -> str:
        """Of the candidates."""
        return "mode.csv"

    def picture(self, directory: Path) -> str:
        """The mode over the draws."""
        from abctree.edges import plots

        plots.mode(self.result).savefig(directory / "mode.png", dpi=130)
        return "mode.png"
