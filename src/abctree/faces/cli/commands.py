"""The commands and their options: what is asked for, checked, run, said and written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree import __version__
from abctree.errors import ParameterError
from abctree.faces.cli import options
from abctree.faces.cli.config import Config, read_config
from abctree.faces.cli.folder import FILES, Note, claim, clear, open_store
from abctree.faces.cli.settings import (
    DEFAULT,
    NAMES,
    function_of,
    method_of,
    of_methods,
    refusal,
    spelled,
)
from abctree.faces.cli.shared import (
    check_accepted,
    check_reading,
    clear_line,
    executor_of,
    explained,
    loaded,
    noted,
    progress_and_rules,
    silent,
    to_stderr,
)
from abctree.faces.cli.targets import READY, problem_of
from abctree.keywords import meant
from abctree.method import METHODS

if TYPE_CHECKING:
    from abctree.problem import Problem

#: Simulations for a problem of the user's own.
_N_SIMULATIONS = 10_000

_EXAMPLES = """\b
Examples:
  abctree check my_model:problem
  abctree run lotka-volterra --rng 1
  abctree run gaussian-mixture --n-simulations 50000 --preset published
  abctree run my_model:problem --seconds 600 --workers 4 --memory 2G --out runs/first
  abctree run my_model:problem --method map-tree --out runs/mode
  abctree run my_model:problem --method rejection -n 1000000 --keep 1000
  abctree run --config run.toml --out runs/second
  abctree resume runs/first --n-simulations 200000
  abctree summary runs/first --ess 500
  abctree plot runs/first
  abctree export runs/first --format npz --to first.npz

\b
Exit status: 0 success; 1 nothing accepted, the run failed, or a check found something; 2 wrong
usage.
"""


class _Command(click.Command):
    """A command that knows which of its options another library's word means."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As of any command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            word = error.option_name.lstrip("-").replace("-", "_")
            ours = meant(word, [str(param.name) for param in self.params])
            if ours is None:
                raise
            said = (
                f"No such option {error.option_name!r}. Did you mean '--{ours.replace('_', '-')}'?"
            )
            raise click.NoSuchOption(error.option_name, said, ctx=ctx) from error


class _Group(click.Group):
    command_class = _Command


@click.group(cls=_Group, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="abctree")
def main() -> None:
    """Posteriors from a prior and a simulator, with few simulations."""


# check ------------------------------------------------------------------------------------------


@main.command(epilog=_EXAMPLES, short_help="Try a problem before a run.")
@click.argument("problem")
@click.option("--rng", type=click.IntRange(min=0), metavar="SEED", help="Seed.  [default: random]")
def check(problem: str, rng: int | None) -> None:
    """Simulate a few prior draws of PROBLEM, and say what came back.

    PROBLEM is named as for abctree run. What is printed is the report of Problem.check: what is
    called and how, shapes, times, and what looks wrong. No file is written. The exit status is 1
    if there is anything to look at.
    """
    made = problem_of(problem)
    with explained(Path()):
        report = made.check(rng)
    click.echo(report)
    if not report.ok:
        click.get_current_context().exit(1)


# run --------------------------------------------------------------------------------------------


def _run_help() -> str:
    ready = "\n".join(
        f"  {name:<17} {ready.about}, {ready.n_simulations} simulations"
        for name, ready in READY.items()
    )
    methods = "\n".join(f"  {method_of(name):<17} {m.about}" for name, m in METHODS.items())
    return (
        "Infer the parameters of PROBLEM, print what was found, and write it to a directory.\n\n"
        f"PROBLEM is one of these, each with a budget by default:\n\n\b\n{ready}\n\n"
        "or module:name, where name is an abctree.Problem or a function that returns one. The "
        "module is looked for in the working directory first.\n\n"
        f"What is found, and how, depends on --method:\n\n\b\n{methods}\n\n"
        "Options below that end in names of methods are settings of these only; without them the "
        "defaults are those of Python.\n\n"
        "Writes summary.txt, summary.json, posterior.csv and posterior.png, or mode.csv and "
        "mode.png, and, in two dimensions, partition.png. Every block of simulations is kept "
        "beside them in run.journal before it counts, so that abctree resume can go on with a run "
        "that was killed, interrupted or stopped.\n\n"
        "A run in DIR is replaced without --force only by its own repetition: a finished run of "
        "the same problem, method, seed, budget and settings. One with fewer simulations than its "
        "budget never is.\n\n"
        "A file for --config has a table [problem] with the key name, and a table [settings] with "
        "the key method and arguments of that method. Options win over the file:\n\n\b\n"
        "  [problem]\n"
        '  name = "my_model:problem"\n'
        "  [settings]\n"
        '  method = "abc-tree"\n'
        "  n_simulations = 50000\n"
        '  partitioner = "cart"\n'
        "  stop = { seconds = 600 }"
    )


@main.command(help=_run_help(), epilog=_EXAMPLES, short_help="Infer the parameters of a problem.")
@click.argument("problem", required=False)
@click.option(
    "--method",
    type=click.Choice(NAMES),
    help=f"What to run.  [default: {DEFAULT}, or what FILE says]",
)
@options.budget
@click.option(
    "--rng",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of all randomness. The same seed gives the same run.  [default: random]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Problem and settings from a TOML file.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory to write to.  [default: NAME-output, or NAME-METHOD-output]",
)
@click.option("--force", is_flag=True, help="Replace whatever run is in DIR, finished or not.")
@click.option(
    "--store/--no-store",
    default=True,
    help="Whether to keep the simulations in DIR, for abctree resume.  [default: store]",
)
@options.reading
@options.seconds
@options.workers
@options.memory
@options.quiet
@options.as_json
@of_methods
def run(
    problem: str | None,
    method: str | None,
    config: Path | None,
    out: Path | None,
    workers: int | None,
    memory: float | None,
    *,
    force: bool,
    store: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """See `_run_help`."""
    from abctree.faces.cli.answers import answer_of

    named = read_config(config, method) if config else Config(method=method or DEFAULT)
    name, method = problem or named.problem, named.method
    settings = {**named.settings, **_said(given, method)}
    if name is None:
        raise click.UsageError("Missing argument 'PROBLEM', and no --config names one.")
    made = problem_of(name)
    ready = READY.get(name)
    settings.setdefault("n_simulations", ready.n_simulations if ready else _N_SIMULATIONS)
    seed = settings.pop("rng") if "rng" in settings else _fresh_seed()
    # Like the workers, it is not part of what the run is.
    simulated_by = settings.pop("executor", None)
    executor = executor_of(workers or simulated_by, memory)
    note = Note(name, seed, settings, method)
    directory = out or _directory(note)
    planned = _planned(made, note)
    former = claim(directory, note, planned if store else None, force=force)
    say = silent if quiet else to_stderr
    how = "" if method == DEFAULT else f" of {method}"
    say(f"{name}: {settings['n_simulations']} simulations{how}, seed {seed}")
    with explained(directory):
        clear(directory)
        note.write(directory)
        kept = open_store(directory, new=True) if store else None
        answer = answer_of(note, _play(made, note, kept, executor, quiet=quiet))
        click.echo(answer.json() if as_json else answer.text())
        written = answer.write(directory, say)
    replaced = ", replacing those of a former run" if former else ""
    say(f"Wrote {', '.join(written)} to {directory}{replaced}")
    check_accepted(answer)


def _said(given: dict[str, Any], method: str) -> dict[str, Any]:
    """The options that were given, if the method has them."""
    said = {key: value for key, value in given.items() if value is not None}
    check_reading(said, method)
    for key in said:
        why = refusal(key, method, spelled)
        if why is not None:
            raise click.UsageError(why)
    return said


def _directory(note: Note) -> Path:
    """Where to write by default: not where another method does."""
    name = note.problem.rpartition(":")[2]
    return Path(f"{name}-output" if note.method == DEFAULT else f"{name}-{note.method}-output")


def _play(problem: Problem, note: Note, kept: Any, executor: Any, *, quiet: bool) -> Any:
    """Call the method with what was asked for that it takes as it is."""
    from abctree import methods

    progress, rules = progress_and_rules(note.asked, quiet=quiet)
    apart = ("epsilon", "ess", "seconds", "stop")
    arguments = {key: value for key, value in note.asked.items() if key not in apart}
    try:
        return getattr(methods, function_of(note.method))(
            problem,
            rng=note.seed,
            executor=executor,
            stop=rules,
            progress=progress,
            store=kept,
            **arguments,
        )
    finally:
        clear_line(progress)
        if kept is not None:
            kept.close()


class _BegunError(Exception):
    """The settings are right."""


class _NoStore:
    """A store in which no run begins: it only learns what the run would be."""

    def __init__(self) -> None:
        self.planned: Mapping[str, Any] = {}

    def records(self) -> tuple[()]:
        """Nothing is kept."""
        return ()

    def append(self, kind: str, data: bytes, *, flush: bool) -> None:  # noqa: ARG002
        """Stop before anything is simulated."""
        self.planned = json.loads(data)
        raise _BegunError

    def close(self) -> None:
        """Nothing is open."""


def _planned(problem: Problem, note: Note) -> Mapping[str, Any]:
    """The manifest of a run; wrong settings are found before the files of a former are removed."""
    store = _NoStore()
    with explained(Path()), contextlib.suppress(_BegunError):
        try:
            _play(problem, note, store, None, quiet=True)
        except ParameterError as error:  # of a setting, for the problem was made
            raise click.UsageError(str(error)) from error
    return store.planned


def _fresh_seed() -> int:
    import secrets

    return secrets.randbits(32)


# resume -----------------------------------------------------------------------------------------


@main.command(epilog=_EXAMPLES, short_help="Go on with a run that was killed, or with more.")
@options.folder
@options.budget
@options.other_problem
@options.reading
@options.seconds
@options.workers
@options.memory
@options.quiet
@options.as_json
def resume(
    directory: Path,
    problem: str | None,
    n_simulations: int | None,
    workers: int | None,
    memory: float | None,
    *,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Go on with the run in DIR, and write its files anew.

    The run is the one that would have been without the interruption, in every number. With
    --n-simulations it gets a larger budget. A limit of seconds is that of the run if none is given,
    and its clock begins anew.
    """
    from abctree.faces.cli.answers import answer_of
    from abctree.methods import resume as go_on

    note = noted(directory, problem, given)
    made = problem_of(note.problem)
    executor = executor_of(workers, memory)
    say = silent if quiet else to_stderr
    say(f"{note.problem}: going on with {directory}")
    with explained(directory):
        progress, rules = progress_and_rules(note.asked, quiet=quiet)
        # Rules of a folder that was not made here are those that it holds.
        ours = "n_simulations" in note.asked or "seconds" in note.asked
        try:
            result = go_on(
                open_store(directory, new=False),
                made,
                n_simulations=n_simulations,
                executor=executor,
                stop=rules if ours else None,
                progress=progress,
            )
        finally:
            clear_line(progress)
        answer = answer_of(note, result)
        if "n_simulations" in note.asked:
            note.asked["n_simulations"] = answer.run.plan.n_simulations
        click.echo(answer.json() if as_json else answer.text())
        replace(note, method=method_of(answer.run.method)).write(directory)
        for name in FILES:
            (directory / name).unlink(missing_ok=True)
        written = answer.write(directory, say)
    say(f"Wrote {', '.join(written)} to {directory}")
    check_accepted(answer)


# summary, plot, export --------------------------------------------------------------------------


@main.command(epilog=_EXAMPLES, short_help="Print the summary of a run.")
@options.folder
@options.other_problem
@options.reading
@options.as_json
def summary(directory: Path, problem: str | None, *, as_json: bool, **given: Any) -> None:
    """Print the summary of the run in DIR; nothing is simulated, and nothing written.

    The run may be unfinished, or another process may be at work on it.
    """
    with explained(directory):
        answer = loaded(directory, problem, given)
        click.echo(answer.json() if as_json else answer.text())
    check_accepted(answer)


@main.command(epilog=_EXAMPLES, short_help="Draw the pictures of a run.")
@options.folder
@options.other_problem
@options.reading
@click.option(
    "--to",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory to write to.  [default: that of the run]",
)
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
    to_stderr(f"Wrote {', '.join(written)} to {to}")


@main.command(epilog=_EXAMPLES, short_help="Write a run for other programs.")
@options.folder
@options.other_problem
@options.reading
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "npz", "arviz"]),
    required=True,
    help="What was found as CSV, the whole run as npz, or a posterior as netCDF for ArviZ.",
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("--all", "whole", is_flag=True, help="All simulations instead of what was found.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def export(
    directory: Path,
    problem: str | None,
    kind: str,
    file: Path,
    *,
    whole: bool,
    force: bool,
    **given: Any,
) -> None:
    """Write the run in DIR to FILE; nothing is simulated.

    What was found are the draws of the posterior, or the candidates for the mode.
    """
    if whole and kind == "arviz":
        raise click.UsageError("--all goes with csv, and npz has all simulations anyway. Drop it.")
    if file.exists() and not force:
        raise click.UsageError(f"--to {file} exists. Name another file, or add --force.")
    with explained(file):
        loaded(directory, problem, given).export(kind, file, whole=whole)
    to_stderr(f"Wrote {file}")
