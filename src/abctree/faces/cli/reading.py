"""The commands that read a run: its summary, its pictures, its files for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree.faces.cli import options
from abctree.faces.cli.blame import explained, to_stderr
from abctree.faces.cli.folder import Note, named
from abctree.faces.cli.options import EXAMPLES, main
from abctree.faces.cli.settings import DEFAULT, check_reading
from abctree.faces.cli.targets import problem_of

if TYPE_CHECKING:
    from abctree.faces.cli.answer import Answer

#: Formats of files for other programs, by how their names end.
_ENDINGS = {".csv": "csv", ".npz": "npz", ".nc": "arviz"}


def loaded(directory: Path, problem: str | None, given: dict[str, Any]) -> Answer:
    """The run of a folder as far as it is, without a simulation."""
    from abctree.faces.cli.answer import Answer
    from abctree.methods import load

    note = noted(directory, problem, given)
    return Answer.of(note, load(directory, problem_of(note.problem)))


def noted(directory: Path, problem: str | None, given: dict[str, Any]) -> Note:
    """What a folder remembers, and what is asked for instead."""
    note = Note.read(directory)
    check_reading(given, DEFAULT if note is None else note.method)
    if note is None:
        from abctree.running.journal import Journal

        with explained(directory):
            Journal(directory, "read").close()  # or it holds no run
        note = Note("", None)
        if problem is None:
            raise click.UsageError(
                f"{named(directory)} does not say which problem its run is of: it was not made by "
                "abctree run. Add --problem module:name."
            )
    said = {key: value for key, value in given.items() if value is not None}
    asked = dict(note.asked)
    if "epsilon" in said or "ess" in said:  # one of them replaces both
        asked.pop("epsilon", None)
        asked.pop("ess", None)
    return replace(note, problem=problem or note.problem, asked={**asked, **said})


@main.command(epilog=EXAMPLES, short_help="Print the summary of a run.")
@options.of_folder
@options.as_json
def summary(directory: Path, problem: str | None, *, as_json: bool, **given: Any) -> None:
    """Print the summary of the run in DIR; nothing is simulated, and nothing written.

    The run may be unfinished, or another process may be at work on it.
    """
    with explained(directory):
        answer = loaded(directory, problem, given)
        answer.show(as_json=as_json)
    answer.check_accepted()


@main.command(epilog=EXAMPLES, short_help="Draw the pictures of a run.")
@options.of_folder
@options.written("--to", "target", "DIR", "Directory to write to.  [default: that of the run]")
def plot(directory: Path, problem: str | None, target: Path | None, **given: Any) -> None:
    """Draw what was found, the progress, the partitions and the failures of the run in DIR.

    Writes posterior.png, or mode.png with the error of the mode over the draws; progress.png where
    there are rounds; partition.png of trees in two dimensions; and failures.png if simulations
    failed; nothing is simulated.
    """
    to = target or directory
    with explained(to):
        answer = loaded(directory, problem, given)
        to.mkdir(parents=True, exist_ok=True)
        written = [*answer.pictures(to), *answer.more_pictures(to)]
    to_stderr(f"Wrote {', '.join(written)} to {named(to)}")


@main.command(epilog=EXAMPLES, short_help="Write the page of a run.")
@options.of_folder
@options.written("--to", "file", "FILE", "File to write.  [default: report.html in DIR]")
def report(directory: Path, problem: str | None, file: Path | None, **given: Any) -> None:
    """Write all that there is to see of the run in DIR as one HTML file that fetches nothing.

    Verdicts, the answer at every tolerance, its fit and calibration, the rounds, failures, the
    mode, and how to repeat the run. Nothing is simulated. The run may be unfinished, or another
    process may be at work on it. Needs Jinja2 and matplotlib: pip install 'abctree[report]'.
    """
    to = file or directory / "report.html"
    with explained(to):
        loaded(directory, problem, given).report(to)
    to_stderr(f"Wrote {named(to)}")


@main.command(epilog=EXAMPLES, short_help="Write a run for other programs.")
@options.of_folder
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_ENDINGS.values())),
    help="What was found as CSV, the whole run as npz, or a posterior as netCDF for ArviZ.  "
    f"[default: as FILE ends, in {', '.join(_ENDINGS)}]",
)
@options.written("--to", "file", "FILE", "File to write.", required=True)
@click.option("--all", "whole", is_flag=True, help="All simulations instead of what was found.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def export(
    directory: Path,
    problem: str | None,
    kind: str | None,
    file: Path,
    *,
    whole: bool,
    force: bool,
    **given: Any,
) -> None:
    """Write the run in DIR to FILE; nothing is simulated.

    What was found are the draws of the posterior, or the candidates for the mode.
    """
    kind = kind or _ENDINGS.get(file.suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"--to must end in {', '.join(_ENDINGS)}, but got {named(file)}. Or add --format."
        )
    if whole and kind == "arviz":
        raise click.UsageError("--all goes with csv, and npz has all simulations anyway. Drop it.")
    if file.exists() and not force:
        raise click.UsageError(f"--to {named(file)} exists. Name another file, or add --force.")
    with explained(file):
        loaded(directory, problem, given).export(kind, file, whole=whole)
    to_stderr(f"Wrote {named(file)}")
