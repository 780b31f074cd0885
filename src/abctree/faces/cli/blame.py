"""Errors of the user's code in one line, with the line of theirs that raised it."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import abctree

#: Packages whose lines are not the user's, and folders of such lines.
_NOT_THEIRS = {"abctree", "click", "numba", "numpy", "scipy", "sklearn", "stochtree"}
_OURS = (str(Path(abctree.__file__).parent), str(Path(os.__file__).parent), "<")


def one_line(error: BaseException) -> str:
    """The message of an error of ours, and the line of the user's, if it came from one."""
    text, _, trace = str(error).partition("\nTraceback ")
    places = [(file, line) for file, line in re.findall(r'File "(.+)", line (\d+)', trace)]
    where = _innermost(places) or _line_of(error.__cause__) or _line_of(error)
    return " ".join(text.split("\n", 1)[0].split()) + where


def blamed(doing: str, error: BaseException) -> str:
    """What raised, what, and where."""
    message = " ".join(str(error).split())
    return f"{doing} raised {type(error).__name__}: {message}{_line_of(error)}"


def is_theirs(error: BaseException) -> bool:
    """Whether an error came through the user's code."""
    return _line_of(error) != ""


def _line_of(error: BaseException | None) -> str:
    frames = traceback.walk_tb(error.__traceback__ if error else None)
    return _innermost([(frame.f_code.co_filename, str(line)) for frame, line in frames])


def _innermost(places: list[tuple[str, str]]) -> str:
    """The innermost line of the user's code, or nothing."""
    theirs = [f" ({file}, line {line})" for file, line in places if _is_file_of_theirs(file)]
    return theirs[-1] if theirs else ""


def _is_file_of_theirs(file: str) -> bool:
    installed = re.split(r"[/\\](?:site|dist)-packages[/\\]", file)
    if len(installed) > 1:
        return re.split(r"[/\\.]", installed[-1])[0] not in _NOT_THEIRS
    return not file.startswith(_OURS)
