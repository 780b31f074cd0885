"""The commands that simulate: a problem is tried, a run is made, a run goes on."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree.errors import ParameterError
from abctree.faces.cli import options
from abctree.faces.cli.blame import explained, teller, to_stderr
from abctree.faces.cli.folder import FILES, Note, claim, clear, named
from abctree.faces.cli.live import PAGE, Live, live_page
from abctree.faces.cli.options import EXAMPLES, main
from abctree.faces.cli.reading import noted
from abctree.faces.cli.settings import (
    DEFAULT,
    NAMES,
    Config,
    check_has,
    check_reading,
    function_of,
    method_of,
    of_methods,
    read_config,
    spelled,
)
from abctree.faces.cli.targets import READY, problem_of
from abctree.method import METHODS

if TYPE_CHECKING:
    from abctree.faces.cli.answer import Answer
    from abctree.problem import Problem
    from abctree.types import NamedDict

#: Simulations for a problem of the user's own.
_N_SIMULATIONS = 10_000
#: Simulations in whose rounds every kernel of a method is called.
_N_WARM = 1_000


def executor_of(workers: int | str | None, memory: float | None) -> Any:
    """Who simulates: so many processes, what a file names, or processes of limited memory."""
    if memory is None:
        return workers
    n_workers = workers if isinstance(workers, int) else None
    if n_workers is None and workers != "processes":
        raise click.UsageError("--memory limits worker processes. Add --workers K.")
    from abctree.running.executors import Processes

    with explained(Path()):
        return Processes(n_workers, memory=memory)


# check ------------------------------------------------------------------------------------------


@main.command(epilog=EXAMPLES, short_help="Try a problem before a run.")
@click.argument("problem")
@options.seed
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


# warm-up ----------------------------------------------------------------------------------------


@main.command("warm-up", short_help="Compile ahead what the first runs do else.")
def warm_up() -> None:
    """Compile what abc-tree and map-tree run, and say how many seconds of CPU it took.

    The machine code is kept beside the package, or in the folder that NUMBA_CACHE_DIR names: once
    after an installation is enough.
    """
    from abctree import abc_tree, map_tree, problems

    for method in (abc_tree, map_tree):
        begun = time.process_time()
        method(problems.gauss(2), n_simulations=_N_WARM, rng=0, progress=False)
        seconds = time.process_time() - begun
        click.echo(f"{method_of(method.__name__)} is compiled: {seconds:.1f} s")


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
        "mode.png; in two dimensions partition.png; and predictive.png, where there are at least "
        "four summaries and 200 new simulations take less than five seconds. Every block of "
        "simulations is kept "
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


@main.command(help=_run_help(), epilog=EXAMPLES, short_help="Infer the parameters of a problem.")
@click.argument("problem", required=False)
@click.option(
    "--method",
    type=click.Choice(NAMES),
    help=f"What to run.  [default: {DEFAULT}, or what FILE says]",
)
@options.budget
@options.seed
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Problem and settings from a TOML file.",
)
@options.written(
    "--out",
    "out",
    "DIR",
    "Directory to write to.  [default: NAME-output, or NAME-METHOD-output; of module:problem NAME "
    "is that of the module]",
)
@click.option("--force", is_flag=True, help="Replace whatever run is in DIR, finished or not.")
@click.option(
    "--store/--no-store",
    default=True,
    help="Whether to keep the simulations in DIR, for abctree resume.  [default: store]",
)
@options.live
@options.reading
@options.making
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
    live: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """See `_run_help`."""
    from abctree.faces.cli.answer import Answer

    here = Path.cwd()  # now, see `options.absolute`
    found = read_config(config, method) if config else Config(method=method or DEFAULT)
    name, method = problem or found.problem, found.method
    settings = {**found.settings, **_said(given, method)}
    if name is None:
        raise click.UsageError("Missing argument 'PROBLEM', and no --config names one.")
    made = problem_of(name)
    ready = READY.get(name)
    settings.setdefault("n_simulations", ready.n_simulations if ready else _N_SIMULATIONS)
    seed = settings.pop("rng") if "rng" in settings else secrets.randbits(32)
    # Like the workers, it is not part of what the run is.
    simulated_by = settings.pop("executor", None)
    executor = executor_of(workers or simulated_by, memory)
    if live and not store:
        raise click.UsageError("--live reads the simulations in DIR. Drop --no-store.")
    note = Note(name, seed, settings, method)
    directory = out or here / _directory(note)
    planned = _planned(made, note, executor)
    former = claim(directory, note, planned if store else None, force=force)
    say = teller(quiet=quiet)
    how = "" if method == DEFAULT else f" of {method}"
    say(f"{name}: {settings['n_simulations']} simulations{how}, seed {seed}")
    with explained(directory):
        clear(directory)
        note.write(directory)
        kept = directory if store else None
        with live_page(directory) if live else contextlib.nullcontext() as shown:
            answer = Answer.of(note, _play(made, note, kept, executor, quiet=quiet))
            answer.show(as_json=as_json)
            written = _written(answer, directory, say, shown)
    replaced = ", replacing those of a former run" if former else ""
    say(f"Wrote {', '.join(written)} to {named(directory)}{replaced}")
    answer.check_accepted()


def _written(
    answer: Answer, directory: Path, say: Callable[[str], None], shown: Live | None
) -> list[str]:
    """The names of the files of an answer, once they are there."""
    written = answer.write(directory, say)
    if shown is not None:
        shown.end_pages()
        written.append(answer.report(directory / PAGE))
    return written


def _said(given: dict[str, Any], method: str) -> dict[str, Any]:
    """The options that were given, if the method has them."""
    said = {key: value for key, value in given.items() if value is not None}
    check_reading(said, method)
    for key in said:
        check_has(key, method, spelled)
    return said


def _directory(note: Note) -> Path:
    """Where to write by default: not where another method, or problem, of the module does."""
    module, _, name = note.problem.rpartition(":")
    last = module.rpartition(".")[2]
    name = last if last and name == "problem" else "-".join(filter(None, (last, name)))
    return Path(f"{name}-output" if note.method == DEFAULT else f"{name}-{note.method}-output")


def _play(problem: Problem, note: Note, kept: Any, executor: Any, *, quiet: bool) -> Any:
    """Call the method with what was asked for that it takes as it is."""
    from abctree import methods

    method, progress = getattr(methods, function_of(note.method)), _progress(quiet=quiet)
    return method(problem, executor=executor, progress=progress, store=kept, **_arguments(note))


def _arguments(note: Note) -> NamedDict:
    """What was asked for, as a method takes it."""
    apart = ("epsilon", "ess", "seconds", "stop")
    asked = {key: value for key, value in note.asked.items() if key not in apart}
    return {**asked, "rng": note.seed, "stop": _limits(note)}


def _limits(note: Note) -> NamedDict:
    """The stopping rules that were asked for."""
    limits = dict(note.asked.get("stop", {}))
    return {**limits, "seconds": note.asked["seconds"]} if "seconds" in note.asked else limits


def _progress(*, quiet: bool) -> Any:
    """Who is told how far a run is: a bar on a terminal, a line for every round elsewhere."""
    from abctree.running.progress import somebody_looks

    if quiet or somebody_looks():
        return not quiet
    return lambda progress: to_stderr(str(progress))


def _planned(problem: Problem, note: Note, executor: Any) -> NamedDict:
    """The manifest of a run; wrong settings are found before the files of a former are removed."""
    from abctree.running.executors import executor_for
    from abctree.running.manifest import manifest_of
    from abctree.running.spec import RunSpec

    with explained(Path()):
        try:
            executor_for(problem, executor)
            given = {"problem": problem, "executor": executor, **_arguments(note)}
            return manifest_of(RunSpec.of(function_of(note.method), given), problem)
        except ParameterError as error:  # of a setting, for the problem was made
            raise click.UsageError(str(error)) from error


# resume -----------------------------------------------------------------------------------------


@main.command(epilog=EXAMPLES, short_help="Go on with a run that was killed, or with more.")
@options.of_folder
@options.budget
@options.live
@options.making
@options.as_json
def resume(
    directory: Path,
    problem: str | None,
    n_simulations: int | None,
    workers: int | None,
    memory: float | None,
    *,
    live: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Go on with the run in DIR, and write its files anew.

    The run is the one that would have been without the interruption, in every number. With
    --n-simulations it gets a larger budget. A limit of seconds is that of the run if none is given,
    and its clock begins anew.
    """
    from abctree.faces.cli.answer import Answer
    from abctree.methods import resume as go_on

    note = noted(directory, problem, given)
    made = problem_of(note.problem)
    executor = executor_of(workers, memory)
    say = teller(quiet=quiet)
    say(f"{note.problem}: going on with {named(directory)}")
    # Rules of a folder that was not made here are those that it holds.
    ours = "n_simulations" in note.asked or "seconds" in note.asked
    with (
        explained(directory),
        live_page(directory) if live else contextlib.nullcontext() as shown,
    ):
        result = go_on(
            directory,
            made,
            n_simulations=n_simulations,
            executor=executor,
            stop=_limits(note) if ours else None,
            progress=_progress(quiet=quiet),
        )
        answer = Answer.of(note, result)
        if "n_simulations" in note.asked:
            note.asked["n_simulations"] = answer.run.plan.n_simulations
        answer.show(as_json=as_json)
        replace(note, method=method_of(answer.run.method)).write(directory)
        for name in FILES:
            (directory / name).unlink(missing_ok=True)
        written = _written(answer, directory, say, shown)
    say(f"Wrote {', '.join(written)} to {named(directory)}")
    answer.check_accepted()
