"""Scripts without ``if __name__ == "__main__":``, which worker processes would begin again."""

from __future__ import annotations

import ast
import multiprocessing
import os
import sys
from multiprocessing.context import BaseContext
from pathlib import Path

from abctree.errors import ParameterError

#: What workers of `Processes` are called.
WORKER = "abctree-worker"
#: With this code a worker ends that was about to begin the run again.
UNGUARDED = 87


def unguarded(where: str = "it is not") -> ParameterError:
    """The error of a run that worker processes begin again."""
    return ParameterError(
        f'`executor` must be used under `if __name__ == "__main__":` in a script, but {where}, and '
        "worker processes, which import the script, would begin the run again. Put that line above "
        "the run."
    )


def check_guarded(context: BaseContext | None) -> None:
    """Refuse to start processes from a line that they would come to themselves.

    A worker that has come to it ends without a word: the process of the run says why.

    Parameters
    ----------
    context : multiprocessing context or None
        How they are started, if that is known: those that are forked import nothing.

    Raises
    ------
    ParameterError
        If it is sure that processes which import the script come to the line, or this one did.
    """
    if context is None or context.get_start_method() == "fork":
        return
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):  # it is importing the script
        if process.name == WORKER:
            os._exit(UNGUARDED)
        raise unguarded()
    if (line := _open_line()) is not None:
        script = Path(sys.modules["__main__"].__file__ or "").name
        raise unguarded(f"line {line} of {script} is not")


def _open_line() -> int | None:
    """The line of the script that is executed, if whoever imports the script comes to it."""
    main = sys.modules["__main__"]
    path, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    # A package's __main__ is not imported by workers; without a file there is nothing to import.
    if path is None or (spec is not None and spec.name.rpartition(".")[2] == "__main__"):
        return None
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>" or frame.f_globals is not main.__dict__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    line = frame.f_lineno
    try:
        script = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    here = [s for s in script.body if s.lineno <= line <= (s.end_lineno or s.lineno)]
    is_script = Path(frame.f_code.co_filename).name == Path(path).name
    return line if is_script and here and not any(map(_may_guard, ast.walk(here[0]))) else None


def _may_guard(node: ast.AST) -> bool:
    """Whether a part of the statement may keep those who import it out."""
    return isinstance(node, ast.If) or (isinstance(node, ast.Name) and node.id == "__name__")
