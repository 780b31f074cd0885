"""`Answer`: what a run says on the command line: text, JSON, tables, pictures, its repetition."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from abctree import __version__
from abctree.answers.mode import Mode, ModeSummary
from abctree.answers.posterior import Posterior
from abctree.answers.result import Result
from abctree.answers.summary import Summary
from abctree.errors import MissingDependencyError, SimulatorError
from abctree.faces.cli.folder import Note, to_json
from abctree.faces.cli.settings import DEFAULT, check_reading, method_of, spelled
from abctree.faces.export import to_arviz, to_csv, to_npz
from abctree.method import METHODS
from abctree.types import NamedDict

if TYPE_CHECKING:
    from abctree.faces.report import Repeat

#: Summaries that are a series, simulations of a picture of what is predicted, and most seconds.
_SERIES, _PREDICTED, _PATIENCE = 4, 200, 5.0


@dataclass(frozen=True, eq=False)
class Answer:
    """What is printed and written: draws and what they say, or a mode and how well it is known."""

    note: Note  #: the problem as it was named, the seed, and what was asked for
    run: Result
    summary: Summary | ModeSummary

    @classmethod
    def of(cls, note: Note, result: Result) -> Answer:
        """Read a run at the tolerance, or the effective sample size, that was asked for."""
        check_reading(note.asked, method_of(result.method))
        epsilon, ess = note.asked.get("epsilon"), note.asked.get("ess")
        return cls(note, result, result.summary(epsilon, ess))

    @property
    def found(self) -> Posterior | Mode:
        """The draws at that tolerance, or the mode."""
        if isinstance(self.summary, ModeSummary):
            return self.summary.mode
        return self.summary.posterior

    @property
    def name(self) -> str:
        """What the files of what was found are called."""
        return "mode" if isinstance(self.found, Mode) else "posterior"

    def check_accepted(self) -> None:
        """Exit with 1 if there is nothing to speak of."""
        found = self.found
        is_empty = not (
            len(found) if isinstance(found, Posterior) else np.isfinite(found.theta).all()
        )
        if is_empty:
            raise click.ClickException(f"Nothing was accepted below epsilon {found.epsilon:.4g}.")

    def show(self, *, as_json: bool) -> None:
        """Print the summary."""
        click.echo(self.json() if as_json else self.summary)

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

    def export(self, kind: str, file: Path, *, whole: bool) -> None:
        """Write what was found, or the whole run, for other programs; a mode as npz has both."""
        found = self.found
        if kind == "csv":
            to_csv(self.run if whole else found, file)
        elif kind == "npz":
            to_npz(found if isinstance(found, Mode) else self.run, file)
        elif isinstance(found, Mode):
            raise click.UsageError(
                "--format arviz writes a posterior, and this is a run of map-tree. Use csv or npz."
            )
        else:
            to_arviz(found).to_netcdf(str(file))

    def report(self, file: Path) -> str:
        """Write the page; the name of its file."""
        from abctree.faces.report import write

        write(self.run, file, repeat_of(self.note))
        return file.name

    def write(self, directory: Path, say: Callable[[str], None]) -> list[str]:
        """Files of this run; their names."""
        table = f"{self.name}.csv"
        (directory / "summary.txt").write_text(f"{self.summary}\n", encoding="utf-8")
        (directory / "summary.json").write_text(self.json() + "\n", encoding="utf-8")
        to_csv(self.found, directory / table)
        written = ["summary.txt", "summary.json", table]
        if isinstance(self.summary, Summary):
            to_csv(self.summary, directory / "summary.csv")
            written.insert(1, "summary.csv")
        try:
            written += self.pictures(directory) + self.predictions(directory)
        except MissingDependencyError as error:
            say(f"No pictures: {error}")
        return written

    def pictures(self, directory: Path) -> list[str]:
        """Draw what was found, and in two dimensions the partitions; the names of the files."""
        from abctree.faces import plots

        found, run = self.found, self.run
        drawn = {self.name: plots.mode(found) if isinstance(found, Mode) else plots.pair(found)}
        if METHODS[run.method].cuts_boxes and run.problem.d == 2:
            drawn["partition"] = plots.partitions(run)
        return _saved(drawn, directory)

    def predictions(self, directory: Path) -> list[str]:
        """Draw what a series is predicted to be, if that takes seconds; the names of the files."""
        from abctree.faces import plots

        found, run = self.found, self.run
        seconds = _PREDICTED * run.seconds / run.n_simulations
        is_series = run.problem.observed_summary.size >= _SERIES and seconds < _PATIENCE
        if isinstance(found, Mode) or found.ess == 0.0 or not is_series:
            return []
        with contextlib.suppress(SimulatorError):  # which made nothing of any draw
            return _saved({"predictive": plots.predictive(run)}, directory)
        return []

    def more_pictures(self, directory: Path) -> list[str]:
        """Draw the progress, and the failures if there are any; the names of the files."""
        from abctree.faces import plots
        from abctree.faces.plots.canvas import new_figure

        run, drawn = self.run, {}
        if METHODS[run.method].has_rounds:
            drawn["progress"] = plots.progress(run)
        # The closest simulations alone do not say where others failed.
        if run.failures.count and len(run.table) == run.n_simulations:
            drawn["failures"] = new_figure(9.0, 3.4)
            by_round, where = drawn["failures"].subplots(1, 2)
            plots.failures(run, ax=by_round)
            plots.failure_map(run, ax=where)
        return _saved(drawn, directory)


def _saved(drawn: NamedDict, directory: Path) -> list[str]:
    for name, figure in drawn.items():
        figure.savefig(directory / f"{name}.png", dpi=130)
    return [f"{name}.png" for name in drawn]


# How a run is made again --------------------------------------------------------------------------

#: How the answer is read, which is no setting of the run.
_READING = ("epsilon", "ess")


def repeat_of(note: Note) -> Repeat | None:
    """Of a run that the command line has made; None if it was made elsewhere."""
    from abctree.faces.report import Repeat

    if note.seed is None:
        return None
    said = {key: value for key, value in note.asked.items() if key not in _READING}
    return Repeat(command=_command(note, said), toml=_toml(note, said))


def _command(note: Note, said: dict[str, Any]) -> str:
    if "stop" in said:  # a table has no option
        return "abctree run --config run.toml"
    words = ["abctree", "run", note.problem, "--rng", str(note.seed)]
    if note.method != DEFAULT:
        words += ["--method", note.method]
    for name, value in said.items():
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: object) -> list[str]:
    flag = spelled(name)
    if isinstance(value, bool):
        return [flag, str(value).lower()]
    items = value if isinstance(value, list | tuple) else [value]
    return [flag, ",".join(str(item) for item in items)]


def _toml(note: Note, said: dict[str, Any]) -> str:
    stop = dict(said.get("stop", {}))
    if "seconds" in said:
        stop["seconds"] = said["seconds"]
    settings = {"method": note.method, **said, "rng": note.seed, "stop": stop}
    lines = [
        f"{name} = {_value(value)}"
        for name, value in settings.items()
        if name != "seconds" and (name != "stop" or stop)
    ]
    return "\n".join(["[problem]", f"name = {_value(note.problem)}", "[settings]", *lines])


def _value(value: object) -> str:
    """A value in TOML, which writes strings, numbers and lists as JSON does."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
