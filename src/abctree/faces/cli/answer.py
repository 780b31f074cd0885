"""`Answer`: what a run says on the command line, as text, JSON, tables and pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abctree import __version__
from abctree.errors import MissingDependencyError
from abctree.faces.cli.folder import Note, to_json
from abctree.method import METHODS, Method

if TYPE_CHECKING:
    from abctree.answers.mode import ModeSummary
    from abctree.answers.result import Result
    from abctree.answers.summary import Summary


#: Said of a run of a method that seeks the mode.
NO_ESS = "--ess reads a posterior, and this is a run of map-tree. Use --epsilon."


@dataclass(frozen=True, eq=False)
class Answer(ABC):
    """What is printed and written, whatever the method."""

    note: Note  #: the problem as it was named, the seed, and what was asked for
    run: Result
    summary: Summary | ModeSummary

    # What depends on the kind of the answer -----------------------------------------------------

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is nothing to speak of."""

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The tolerance at which the run is read."""

    @abstractmethod
    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """Write it for other programs."""

    @abstractmethod
    def table(self) -> str:
        """The name of the CSV file of what was found."""

    @abstractmethod
    def picture(self, directory: Path) -> str:
        """Draw what was found; the name of the file."""

    # What does not ------------------------------------------------------------------------------

    @property
    def method(self) -> Method:
        """What tells its method apart."""
        return METHODS[self.run.method]

    def text(self) -> str:
        """The summary."""
        return str(self.summary)

    def json(self) -> str:
        """Everything as JSON; null for numbers that JSON does not have."""
        return to_json(
            {
                "abctree": __version__,
                "problem": self.note.problem,
                "method": self.run.method,
                "seed": self.note.seed,
                "settings": self.note.asked,
                "stopped_because": self.run.stopped_because,
                "seconds": self.run.seconds,
                "n_failures": self.run.failures.count,
                "rounds": [
                    {
                        "round": played.index,
                        "epsilon": played.epsilon,
                        "n_simulations": played.n_simulations,
                        "acceptance_rate": played.acceptance_rate,
                        "ess": played.ess,
                    }
                    for played in self.run.rounds[1:]
                ],
                **self.summary.to_dict(),
            }
        )

    def write(self, directory: Path, say: Callable[[str], None]) -> list[str]:
        """Files of this run; their names."""
        (directory / "summary.json").write_text(self.json() + "\n", encoding="utf-8")
        (directory / "summary.txt").write_text(self.text() + "\n", encoding="utf-8")
        self.export("csv", directory / self.table(), whole=False)
        written = ["summary.txt", "summary.json", self.table()]
        try:
            written += self.pictures(directory)
        except MissingDependencyError as error:
            say(f"No pictures: {error}")
        return written

    def pictures(self, directory: Path) -> list[str]:
        """What was found, and in two dimensions the partitions; the names of the files.

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        """
        drawn = [self.picture(directory)]
        if self.method.cuts_boxes and self.run.problem.d == 2:
            from abctree.faces import plots

            plots.partitions(self.run).savefig(directory / "partition.png", dpi=130)
            drawn.append("partition.png")
        return drawn

    def more_pictures(self, directory: Path) -> list[str]:
        """The progress, and the failures if there are any; the names of the files.

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        """
        from abctree.faces import plots

        drawn = []
        if self.method.has_rounds:
            plots.progress(self.run).savefig(directory / "progress.png", dpi=130)
            drawn.append("progress.png")
        # The closest simulations alone do not say where others failed.
        if self.run.failures.count and len(self.run.table) == self.run.n_simulations:
            from abctree.faces.plots.canvas import new_figure

            figure = new_figure(9.0, 3.4)
            by_round, where = figure.subplots(1, 2)
            plots.failures(self.run, ax=by_round)
            plots.failure_map(self.run, ax=where)
            figure.savefig(directory / "failures.png", dpi=130)
            drawn.append("failures.png")
        return drawn
