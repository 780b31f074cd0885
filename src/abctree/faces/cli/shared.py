"""What the commands share: reading a folder, telling of progress, errors without a traceback."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from abctree.errors import AbctreeError, AbctreeWarning
from abctree.faces.cli.answer import NO_ESS, Answer
from abctree.faces.cli.blame import blamed, is_theirs, one_line
from abctree.faces.cli.folder import Note
from abctree.faces.cli.progress_line import Line, progress_on_stderr
from abctree.faces.cli.settings import DEFAULT, function_of
from abctree.faces.cli.targets import problem_of
from abctree.method import METHODS


def check_reading(given: dict[str, Any], method: str = DEFAULT) -> None:
    """Refuse two answers to one question, and what the method cannot answer."""
    if given.get("epsilon") is not None and given.get("ess") is not None:
        raise click.UsageError("--epsilon and --ess exclude each other. Drop one.")
    if given.get("ess") is not None and METHODS[function_of(method)].seeks_mode:
        raise click.UsageError(NO_ESS)


def loaded(directory: Path, problem: str | None, given: dict[str, Any]) -> Answer:
    """The run of a folder as far as it is, without a simulation."""
    from abctree.faces.cli.answers import answer_of
    from abctree.methods import load

    note = noted(directory, problem, given)
    return answer_of(note, load(directory, problem_of(note.problem)))


def noted(directory: Path, problem: str | None, given: dict[str, Any]) -> Note:
    """What a folder remembers, and what is asked for instead."""
    note = Note.read(directory)
    check_reading(given, DEFAULT if note is None else note.method)
    if note is None:
        with explained(directory):
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
    from abctree.running.journal import Journal

    Journal.read(directory).close()


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


def progress_and_rules(
    asked: dict[str, Any], *, quiet: bool
) -> tuple[Callable[[Any], None] | None, list[Any]]:
    """Who is told of the progress, and the stopping rules."""
    from abctree.running.stopping import as_stopping_rules

    limits = dict(asked.get("stop", {}))
    if "seconds" in asked:
        limits["seconds"] = asked["seconds"]
    rules: list[Any] = list(as_stopping_rules(limits))
    progress = None if quiet else progress_on_stderr(limits.get("seconds"))
    if isinstance(progress, Line):
        rules.insert(0, progress)  # a rule that never stops sees every block, not only every round
    return progress, rules


def clear_line(progress: Any) -> None:
    """Leave an empty line, if there is one."""
    if isinstance(progress, Line):
        progress.clear()


@contextlib.contextmanager
def explained(place: Path) -> Iterator[None]:
    """Errors that can be expected, and those of the user's code, in one line; warnings, too."""
    try:
        with _plain_warnings():
            yield
    except AbctreeError as error:
        raise click.ClickException(one_line(error)) from error
    except Exception as error:
        if is_theirs(error):
            raise click.ClickException(blamed("A function of the problem", error)) from error
        if isinstance(error, OSError):
            raise click.ClickException(f"{place} cannot be written: {error}") from error
        raise  # a fault of ours, or an exit


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Say each warning of ours once, without a line of code."""
    said: set[str] = set()
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *more: Any, **kwargs: Any) -> None:
        if not issubclass(category, AbctreeWarning):
            others(message, category, *more, **kwargs)
        elif str(message) not in said:
            said.add(str(message))
            to_stderr(f"Note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def check_accepted(answer: Answer) -> None:
    """Exit with 1 if there is nothing to speak of."""
    if answer.is_empty:
        raise click.ClickException(f"Nothing was accepted below epsilon {answer.epsilon:.4g}.")


def silent(message: str) -> None:
    """Say nothing."""


def to_stderr(message: str) -> None:
    """Say something beside the answer."""
    click.echo(message, err=True)
