"""`Answer`: what a run says on the command line, as text, JSON, draws and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abctree import __version__
from abctree.errors import MissingDependencyError

if TYPE_CHECKING:
    from abctree.analysis.posterior import Posterior
    from abctree.analysis.result import Result
    from abctree.analysis.summary import Summary
    from abctree.edges.cli.folder import Note
    from abctree.edges.demo import Prediction


@dataclass(frozen=True, eq=False)
class Answer:
    """What is printed and written."""

    note: Note  #: the problem as it was named, the seed, and what was asked for
    result: Result
    summary: Summary
    prediction: Prediction | None  #: of hare-lynx only
    story: str  #: the paragraph of hare-lynx

    @classmethod
    def of(cls, note: Note, result: Result) -> Answer:
        """Read a run at the tolerance, or the effective sample size, that was asked for."""
        asked = note.asked
        summary = result.summary(epsilon=asked.get("epsilon"), ess=asked.get("ess"))
        prediction, story = None, ""
        if note.problem == "hare-lynx":
            from abctree.edges import demo

            seed = result.root if note.seed is None else note.seed
            prediction = demo.predict(summary.posterior, rng=seed)
            story = demo.paragraph(result, summary.posterior, prediction)
        return cls(note, result, summary, prediction, story)

    @property
    def posterior(self) -> Posterior:
        """The draws at that tolerance."""
        return self.summary.posterior

    def text(self) -> str:
        """The summary, and the paragraph if there is one."""
        import textwrap

        story = f"\n\n{textwrap.fill(self.story, 88)}" if self.story else ""
        return f"{self.summary}{story}"

    def json(self) -> str:
        """Everything as JSON; null for numbers that JSON does not have."""
        return to_json(self._to_dict())

    def _to_dict(self) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.prediction is not None:
            more = {"prediction": self.prediction.to_dict(), "paragraph": self.story}
        return {
            "abctree": __version__,
            "problem": self.note.problem,
            "seed": self.note.seed,
            "settings": self.note.asked,
            "stopped_because": self.result.stopped_because,
            "seconds": self.result.seconds,
            "n_failures": self.result.failures.count,
            "rounds": [
                {
                    "round": played.index,
                    "epsilon": played.epsilon,
                    "n_simulations": played.n_simulations,
                    "acceptance_rate": played.acceptance_rate,
                    "ess": played.ess,
                }
                for played in self.result.rounds[1:]
            ],
            **self.summary.to_dict(),
            **more,
        }

    def write(self, directory: Path, say: Callable[[str], None]) -> list[str]:
        """Files of this run; their names."""
        from abctree.edges.export import to_csv

        (directory / "summary.json").write_text(self.json() + "\n", encoding="utf-8")
        (directory / "summary.txt").write_text(self.text() + "\n", encoding="utf-8")
        to_csv(self.posterior, directory / "posterior.csv")
        written = ["summary.txt", "summary.json", "posterior.csv"]
        try:
            written += self.pictures(directory)
        except MissingDependencyError as error:
            say(f"No pictures: {error}")
        return written

    def pictures(self, directory: Path) -> list[str]:
        """The posterior, and in two dimensions the partitions; the names of the files.

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        """
        from abctree.edges import plots

        if self.prediction is None:
            figure = plots.pair(self.posterior)
        else:
            from abctree.edges import demo

            figure = demo.picture(self.posterior, self.prediction)
        figure.savefig(directory / "posterior.png", dpi=130)
        if self.result.problem.d != 2:
            return ["posterior.png"]
        plots.partitions(self.result).savefig(directory / "partition.png", dpi=130)
        return ["posterior.png", "partition.png"]


def to_json(value: Any) -> str:
    """JSON with null for numbers that it does not have."""
    import json

    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
