"""What is said on stderr: notes, and errors in one line, with the line of the user's code."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import abctree
from abctree.errors import AbctreeError, AbctreeWarning

#: Packages whose lines are not the user's, and folders of such lines.
_NOT_THEIRS = {"abctree", "click", "numba", "numpy", "scipy", "sklearn", "stochtree"}
_OURS = (str(Path(abctree.__file__).parent), str(Path(os.__file__).parent), "<")


def to_stderr(message: str) -> None:
    """Say something beside the answer."""
    click.echo(message, err=True)


def teller(*, quiet: bool) -> Callable[[str], None]:
    """What says something beside the answer, or nothing."""
    return (lambda _: None) if quiet else to_stderr


@contextlib.contextmanager
def explained(place: Path) -> Iterator[None]:
    """Errors that can be expected, and those of the user's code, in one line; warnings, too."""
    try:
        with _plain_warnings():
            yield
    except AbctreeError as error:
        raise click.ClickException(one_line(error)) from error
    except Exception as error:
        if _line_of(error):
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


def one_line(error: BaseException) -> str:
    """The message of an error of ours, and the line of the user's, if it came from one."""
    text, _, trace = str(error).partition("\nTraceback ")
    places = [(file, line) for file, line in re.findall(r'File "(.+)", line (\d+)', trace)]
    where = _innermost(places) or _line_of(error.__cause__) or _line_of(error)
    return " ".join(text.split("\n", 1)[0].split()) + where


def blamed(doing: str, error: BaseException) -> str:
    """What raised, what, and where."""
    from abctree.problem.simulators import described

    return f"{doing} raised {described(error)}{_line_of(error)}"


def _line_of(error: BaseException | None) -> str:
    """The line of the user's code that an error came through, or nothing."""
    frames = traceback.walk_tb(error.__traceback__ if error else None)
    return _innermost([(frame.f_code.co_filename, str(line)) for frame, line in frames])


def _innermost(places: list[tuple[str, str]]) -> str:
    theirs = [f" ({file}, line {line})" for file, line in places if _is_file_of_theirs(file)]
    return theirs[-1] if theirs else ""


def _is_file_of_theirs(file: str) -> bool:
    installed = re.split(r"[/\\](?:site|dist)-packages[/\\]", file)
    if len(installed) > 1:
        return re.split(r"[/\\.]", installed[-1])[0] not in _NOT_THEIRS
    return not file.startswith(_OURS)
