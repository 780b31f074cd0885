"""What another process needs: a script that it can import, and the work as bytes."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import multiprocessing
import os
import pickle
import reprlib
import sys
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from abctree.errors import ParameterError
from abctree.protocols import Work

#: What workers of `Processes` are called, and the exit code of one that was about to begin the run.
WORKER, UNGUARDED = "abctree-worker", 87
#: What the user gave; how it is kept is not to be read in an error.
_GIVEN = {"prior", "simulator", "observed", "summary", "distance", "constraint"}
_DEEPEST = 12


# The script ----------------------------------------------------------------------------------


def unguarded(where: str = "it is not") -> ParameterError:
    """The error of a run that worker processes begin again."""
    return ParameterError(
        f'`executor` must be used under `if __name__ == "__main__":` in a script, but {where}, and '
        "worker processes, which import the script, would begin the run again. Put that line above "
        "the run."
    )


def check_guarded(context: BaseContext | None) -> None:
    """Refuse to start processes from a line that they would come to themselves.

    A worker that has come to it ends without a word: the process of the run says why.  Without a
    context it is not known how they are started, and those that are forked import nothing.
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


# The work ------------------------------------------------------------------------------------


def pack(work: Work) -> tuple[str, bytes]:
    """A token that says which work it is, and the work as bytes."""
    try:
        payload = _dumps(work)
    except Exception as error:
        raise ParameterError(_explained(work, error)) from error
    return hashlib.blake2b(payload, digest_size=16).hexdigest(), payload


def _dumps(value: Any) -> bytes:
    cloudpickle = _cloudpickle()
    if cloudpickle is not None:
        try:
            return bytes(cloudpickle.dumps(value))
        except Exception:  # noqa: BLE001, S110 - by name may work where by value does not
            pass
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _explained(work: Work, error: Exception) -> str:
    path, value = _culprit(work, ())
    given = [i for i, part in enumerate(path) if part in _GIVEN]
    name = ".".join(path[given[0] if given else 0 :]) or type(work).__name__
    advice = (
        "Make it inside the call, or use abctree.Threads or no executor"
        if _cloudpickle()
        else "Define it at module level, not as a lambda or inside a function, or install "
        "cloudpickle (pip install cloudpickle)"
    )
    return (
        f"`{name}` must be picklable to be sent to worker processes, but got "
        f"{reprlib.repr(value)} ({type(error).__name__}: {error}). {advice}."
    )


def _culprit(value: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """The innermost part that cannot be pickled, and the way to it."""
    for name, part in _parts(value) if len(path) < _DEEPEST else ():
        try:
            _dumps(part)
        except Exception:  # noqa: BLE001 - pickling may raise anything
            return _culprit(part, (*path, name))
    return path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of, by name."""
    if isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield "__self__", value.__self__
    elif isinstance(value, FunctionType):
        if _cloudpickle():  # pickled by value: what it closes over counts
            used = inspect.getclosurevars(value)
            yield from {**used.globals, **used.nonlocals}.items()
    else:
        # Not all that an object is need be sent.
        state = None if isinstance(value, type) else value.__getstate__()
        yield from (state if isinstance(state, dict) else getattr(value, "__dict__", {})).items()
        slots = getattr(type(value), "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)
