"""The two kinds of answers: a posterior, and a mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from abctree.answers.mode import ModeSummary
from abctree.answers.summary import Summary, summarise, summarise_mode
from abctree.faces.cli.answer import NO_ESS, Answer
from abctree.method import METHODS

if TYPE_CHECKING:
    from abctree.answers.posterior import Posterior
    from abctree.answers.result import Result
    from abctree.faces.cli.folder import Note


def answer_of(note: Note, result: Result) -> Answer:
    """Read a run at the tolerance, or the effective sample size, that was asked for."""
    epsilon, ess = note.asked.get("epsilon"), note.asked.get("ess")
    if not METHODS[result.method].seeks_mode:
        return PosteriorAnswer(note, result, summarise(result, epsilon, ess))
    if ess is not None:
        raise click.UsageError(NO_ESS)
    return ModeAnswer(note, result, summarise_mode(result, result.mode(epsilon)))


@dataclass(frozen=True, eq=False)
class PosteriorAnswer(Answer):
    """Draws, and what they say."""

    summary: Summary

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

    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """The draws, or the whole run."""
        from abctree.faces.export import to_arviz, to_csv, to_npz

        if kind == "npz":
            to_npz(self.run, file)
        elif kind == "csv":
            to_csv(self.run if whole else self.posterior, file)
        else:
            to_arviz(self.posterior).to_netcdf(str(file))

    def write(self, directory: Path, say: Callable[[str], None]) -> list[str]:
        """Also the table of the summary."""
        from abctree.faces.export import to_csv

        summary, *others = super().write(directory, say)
        to_csv(self.summary, directory / "summary.csv")
        return [summary, "summary.csv", *others]

    def table(self) -> str:
        """Of the draws."""
        return "posterior.csv"

    def picture(self, directory: Path) -> str:
        """The pairs of parameters."""
        from abctree.faces import plots

        plots.pair(self.posterior).savefig(directory / "posterior.png", dpi=130)
        return "posterior.png"


@dataclass(frozen=True, eq=False)
class ModeAnswer(Answer):
    """A mode, and how well it is known."""

    summary: ModeSummary

    @property
    def is_empty(self) -> bool:
        """Whether there is no mode."""
        return not np.isfinite(self.summary.mode.theta).all()

    @property
    def epsilon(self) -> float:
        """The tolerance at which the run is read."""
        return self.summary.mode.epsilon

    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """The candidates, or all simulations; as npz both."""
        from abctree.faces.export import to_csv, to_npz

        if kind == "arviz":
            raise click.UsageError(
                "--format arviz writes a posterior, and this is a run of map-tree. Use csv or npz."
            )
        if kind == "npz":
            to_npz(self.summary.mode, file)
        else:
            to_csv(self.run if whole else self.summary.mode, file)

    def table(self) -> str:
        """Of the candidates."""
        return "mode.csv"

    def picture(self, directory: Path) -> str:
        """The mode over the draws."""
        from abctree.faces import plots

        plots.mode(self.summary.mode).savefig(directory / "mode.png", dpi=130)
        return "mode.png"
