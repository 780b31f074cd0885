"""The commands and their options: what is asked for, checked, run, said and written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree import __version__
from abctree.edges.cli import options
from abctree.edges.cli.answer import Answer
from abctree.edges.cli.config import read_config
from abctree.edges.cli.folder import FILES, Note, claim, clear, open_store
from abctree.edges.cli.targets import READY, problem_of
from abctree.edges.cli.watch import Line, watcher
from abctree.errors import AbctreeError

if TYPE_CHECKING:
    from abctree.analysis.result import Result
    from abctree.parts.stores import SqliteStore
    from abctree.problem import Problem

#: Simulations for a problem of the user's own.
_N_SIMULATIONS = 10_000

_EXAMPLES = """\b
Examples:
  abctree run hare-lynx --rng 1
  abctree run gaussian-mixture --n-simulations 50000 --preset published
  abctree run my_model:problem --seconds 600 --workers 4 --out runs/first
  abctree run --config run.toml --out runs/second
  abctree resume runs/first --n-simulations 200000
  abctree summary runs/first --ess 500
  abctree plot runs/first
  abctree export runs/first --format npz --to first.npz

\b
Exit status: 0 success; 1 nothing accepted, or the run failed; 2 wrong usage.
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="abctree")
def main() -> None:
    """Posteriors from a prior and a simulator, with few simulations."""


# run --------------------------------------------------------------------------------------------


def _run_help() -> str:
    listed = "\n".join(
        f"  {name:<17} {ready.about}, {ready.n_simulations} simulations"
        for name, ready in READY.items()
    )
    return (
        "Infer the parameters of PROBLEM, print the posterior, and write it to a directory.\n\n"
        f"PROBLEM is one of these, each with a budget by default:\n\n\b\n{listed}\n\n"
        "or module:name, where name is an abctree.Problem or a function that returns one. The "
        "module is looked for in the working directory first.\n\n"
        f"Writes {', '.join(FILES[:4])} and, in two dimensions, {FILES[4]}. Every block of "
        "simulations is kept beside them in run.sqlite before it counts, so that abctree resume "
        "can go on with a run that was killed.\n\n"
        "A file for --config has a table [problem] with the key name, and a table [settings] whose "
        "keys are arguments of abctree.abc_tree. Options win over the file:\n\n\b\n"
        "  [problem]\n"
        '  name = "my_model:problem"\n'
        "  [settings]\n"
        "  n_simulations = 50000\n"
        '  partitioner = "cart"\n'
        "  stop = { seconds = 600 }"
    )


@main.command(help=_run_help(), epilog=_EXAMPLES, short_help="Infer the parameters of a problem.")
@click.argument("problem", required=False)
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
    help="Directory to write to.  [default: NAME-output]",
)
@click.option("--force", is_flag=True, help="Replace whatever run is in DIR.")
@click.option(
    "--store/--no-store",
    default=True,
    help="Whether to keep the simulations in DIR, for abctree resume.  [default: store]",
)
@click.option("--preset", type=click.Choice(["published"]), help="The settings of the paper.")
@click.option(
    "--partitioner",
    type=click.Choice(["soft", "dyadic", "cart"]),
    help="Rule that cuts the parameter space.",
)
@click.option(
    "--utility",
    type=click.Choice(["ess", "omega1", "omega2", "omega3"]),
    help="What a proposal is optimised for.",
)
@options.reading
@options.seconds
@options.workers
@options.quiet
@options.as_json
def run(
    problem: str | None,
    config: Path | None,
    out: Path | None,
    workers: int | None,
    *,
    force: bool,
    store: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """See `_run_help`."""
    _check_reading(given)
    named, settings = (None, {}) if config is None else read_config(config)
    settings |= {key: value for key, value in given.items() if value is not None}
    name = problem or named
    if name is None:
        raise click.UsageError("Missing argument 'PROBLEM', and no --config names one.")
    made = problem_of(name)
    ready = READY.get(name)
    settings.setdefault("n_simulations", ready.n_simulations if ready else _N_SIMULATIONS)
    executor = settings.pop("executor", None) if workers is None else workers
    seed = settings.pop("rng") if "rng" in settings else _fresh_seed()
    settings.pop("executor", None)  # like the workers, it is not part of what the run is
    note = Note(name, seed, settings)
    directory = out or Path(f"{name.rpartition(':')[2]}-output")
    former = claim(directory, name, force=force)
    say = _silent if quiet else _to_stderr
    say(f"{name}: {settings['n_simulations']} simulations, seed {seed}")
    with _explained(directory):
        _check_settings(made, note)
        clear(directory)
        note.write(directory)
        kept = open_store(directory, new=True) if store else None
        answer = Answer.of(note, _sample(made, note, kept, executor, quiet=quiet))
        click.echo(answer.json() if as_json else answer.text())
        written = answer.write(directory, say)
    replaced = ", replacing those of a former run" if former else ""
    say(f"Wrote {', '.join(written)} to {directory}{replaced}")
    _check_accepted(answer)


def _check_settings(problem: Problem, note: Note) -> None:
    """Find wrong settings before the files of a former run are removed."""
    from abctree.methods.run_abc_tree import recipe_for

    given = _arguments(note)
    apart = ("preset", "on_failure", "keep_summaries")
    named = {key: given.pop(key) for key in apart if key in given}
    _, rules = _watched(note.asked, quiet=True)
    recipe_for(problem, given.pop("n_simulations"), note.seed, given, stop=rules, **named)


def _sample(
    problem: Problem, note: Note, kept: SqliteStore | None, executor: Any, *, quiet: bool
) -> Result:
    from abctree.methods import abc_tree

    watch, rules = _watched(note.asked, quiet=quiet)
    try:
        return abc_tree(
            problem,
            rng=note.seed,
            executor=executor,
            stop=rules,
            progress=watch,
            store=kept,
            **_arguments(note),
        )
    finally:
        _clear_line(watch)
        if kept is not None:
            kept.close()


def _arguments(note: Note) -> dict[str, Any]:
    """What was asked for that `abctree.abc_tree` takes as it is."""
    apart = ("epsilon", "ess", "seconds", "stop")
    return {key: value for key, value in note.asked.items() if key not in apart}


def _check_reading(given: dict[str, Any]) -> None:
    if given.get("epsilon") is not None and given.get("ess") is not None:
        raise click.UsageError("--epsilon and --ess exclude each other. Drop one.")


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
@options.quiet
@options.as_json
def resume(
    directory: Path,
    problem: str | None,
    n_simulations: int | None,
    workers: int | None,
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
    from abctree.methods import resume as go_on

    note = _noted(directory, problem, given)
    made = problem_of(note.problem)
    say = _silent if quiet else _to_stderr
    say(f"{note.problem}: going on with {directory}")
    with _explained(directory):
        watch, rules = _watched(note.asked, quiet=quiet)
        # Rules of a folder that was not made here are those that it holds.
        ours = "n_simulations" in note.asked or "seconds" in note.asked
        try:
            result = go_on(
                open_store(directory, new=False),
                made,
                n_simulations=n_simulations,
                executor=workers,
                stop=rules if ours else None,
                progress=watch,
            )
        finally:
            _clear_line(watch)
        if "n_simulations" in note.asked:
            note.asked["n_simulations"] = result.plan.n_simulations
        answer = Answer.of(note, result)
        click.echo(answer.json() if as_json else answer.text())
        note.write(directory)
        for name in FILES:
            (directory / name).unlink(missing_ok=True)
        written = answer.write(directory, say)
    say(f"Wrote {', '.join(written)} to {directory}")
    _check_accepted(answer)


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
    with _explained(directory):
        answer = _loaded(directory, problem, given)
        click.echo(answer.json() if as_json else answer.text())
    _check_accepted(answer)


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
    """Draw the posterior, the progress and, in two dimensions, the partitions of the run in DIR.

    Writes posterior.png, progress.png and partition.png; nothing is simulated.
    """
    to = target or directory
    with _explained(to):
        answer = _loaded(directory, problem, given)
        to.mkdir(parents=True, exist_ok=True)
        written = answer.pictures(to)

        from abctree.edges import plots

        plots.progress(answer.result).savefig(to / "progress.png", dpi=130)
    _to_stderr(f"Wrote {', '.join([*written, 'progress.png'])} to {to}")


@main.command(epilog=_EXAMPLES, short_help="Write a run for other programs.")
@options.folder
@options.other_problem
@options.reading
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "npz", "arviz"]),
    required=True,
    help="The posterior as CSV, the whole run as npz, or the posterior as netCDF for ArviZ.",
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("--all", "whole", is_flag=True, help="All simulations instead of the posterior.")
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
    """Write the run in DIR to FILE; nothing is simulated."""
    if whole and kind == "arviz":
        raise click.UsageError("--all goes with csv, and npz has all simulations anyway. Drop it.")
    if file.exists() and not force:
        raise click.UsageError(f"--to {file} exists. Name another file, or add --force.")
    from abctree.edges.export import to_arviz, to_csv, to_npz

    with _explained(file):
        answer = _loaded(directory, problem, given)
        if kind == "npz":
            to_npz(answer.result, file)
        elif kind == "csv":
            to_csv(answer.result if whole else answer.posterior, file)
        else:
            to_arviz(answer.posterior).to_netcdf(str(file))
    _to_stderr(f"Wrote {file}")


# What they share --------------------------------------------------------------------------------


def _loaded(directory: Path, problem: str | None, given: dict[str, Any]) -> Answer:
    """The run of a folder as far as it is, without a simulation."""
    from abctree.methods import load

    note = _noted(directory, problem, given)
    return Answer.of(note, load(directory, problem_of(note.problem)))


def _noted(directory: Path, problem: str | None, given: dict[str, Any]) -> Note:
    """What a folder remembers, and what is asked for instead."""
    _check_reading(given)
    note = Note.read(directory)
    if note is None:
        with _explained(directory):
            _check_holds_run(directory)
        note = Note("", None)
        if problem is None:
            raise click.UsageError(
                f"{directory} does not say which problem its run is of: it was not made by abctree "
                "run. Add --problem module:name."
            )
    said = {key: value for key, value in given.items() if value is not None}
    asked = dict(note.asked)
    if "epsilon" in said or "ess" in said:  # one of them replaces both
        asked.pop("epsilon", None)
        asked.pop("ess", None)
    return replace(note, problem=problem or note.problem, asked={**asked, **said})


def _check_holds_run(directory: Path) -> None:
    from abctree.parts.stores import SqliteStore

    SqliteStore.read(directory).close()


def _watched(
    asked: dict[str, Any], *, quiet: bool
) -> tuple[Callable[[Any], None] | None, list[Any]]:
    """Who is told of the progress, and the stopping rules."""
    from abctree.parts.stopping import as_stopping_rules

    limits = dict(asked.get("stop", {}))
    if "seconds" in asked:
        limits["seconds"] = asked["seconds"]
    rules: list[Any] = list(as_stopping_rules(limits))
    watch = None if quiet else watcher(limits.get("seconds"))
    if isinstance(watch, Line):
        rules.insert(0, watch)  # a rule that never stops sees every block, not only every round
    return watch, rules


def _clear_line(watch: Any) -> None:
    if isinstance(watch, Line):
        watch.clear()


@contextlib.contextmanager
def _explained(place: Path) -> Iterator[None]:
    """Errors that can be expected, without a traceback."""
    try:
        yield
    except AbctreeError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{place} cannot be written: {error}") from error


def _check_accepted(answer: Answer) -> None:
    posterior = answer.posterior
    if len(posterior) == 0:
        raise click.ClickException(f"Nothing was accepted below epsilon {posterior.epsilon:.4g}.")


def _silent(message: str) -> None:
    """Say nothing."""


def _to_stderr(message: str) -> None:
    click.echo(message, err=True)
