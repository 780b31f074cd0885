"""The exceptions and warnings of abctree.

Running out of budget is not an error: it is `Result.stopped_because`.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Where the code of abctree is, and that of the cached properties it calls itself through.
_OURS = (str(Path(__file__).parent), functools.__file__)


class AbctreeError(Exception):
    """Base class of every exception raised by abctree."""


class ParameterError(AbctreeError, ValueError):
    """An argument breaks its rule.  The message names the rule, the value, and what to do."""


class SimulatorError(AbctreeError, RuntimeError):
    """The simulator, the summary or the distance cannot be used as given."""


class StoreError(AbctreeError, RuntimeError):
    """A run folder cannot be used: in use, damaged, foreign, newer, or of another run."""


class MissingDependencyError(AbctreeError, ImportError):
    """An optional dependency is needed; the message says how to install it."""


class AbctreeWarning(UserWarning):
    """A result that can be used, but not without knowing this."""


def wrong(name: str, rule: str, got: object, advice: str = "") -> ParameterError:
    """The error of an argument that breaks its rule: what it must, what it is, what to do."""
    return ParameterError(f"`{name}` must {rule}, but got {got}. {advice}".rstrip())


def needed(module: str, what: str, install: str) -> Any:
    """Import a module that is optional, or say how to install what is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{what}, which is not installed. Run: pip install {install}"
        ) from error


#: By thread, where messages go instead.
_kept: dict[int, list[str]] = {}


@contextmanager
def warnings_kept(messages: list[str] | None = None) -> Iterator[None]:
    """Put what this thread warns of into a list, which may be thrown away."""
    thread = threading.get_ident()
    outer = _kept.get(thread)
    _kept[thread] = [] if messages is None else messages
    try:
        yield
    finally:
        if outer is None:
            del _kept[thread]
        else:
            _kept[thread] = outer


def warn(message: str) -> None:
    """Raise an `AbctreeWarning` at the line of the user's code that called abctree."""
    if (messages := _kept.get(threading.get_ident())) is not None:
        messages.append(message)
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, AbctreeWarning, stacklevel=level)
