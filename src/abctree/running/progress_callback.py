"""`ProgressCallback`: the user's progress callback, which must not cost a run its simulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abctree.data import Progress
from abctree.errors import ParameterError, warn
from abctree.problem.simulators import described


class ProgressCallback:
    """Tells of the progress; what the callback raises is a warning, the first time.

    Ctrl-C in it is one, as anywhere in a run.
    """

    def __init__(self, callback: Callable[[Progress], None] | None) -> None:
        self._callback = callback
        self._warned = False

    def __call__(self, now: Progress) -> None:
        """Tell of it."""
        if self._callback is None:
            return
        try:
            self._callback(now)
        except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
            if not self._warned:
                self._warned = True
                warn(
                    f"`progress` raised {described(error)}. The run goes on without it.",
                )


def check_progress(progress: Any) -> None:
    """Raise `ParameterError` unless it is a function or None."""
    if progress is not None and not callable(progress):
        raise ParameterError(
            f"`progress` must be a function of an abctree.Progress, but got {progress!r}. "
            "Try progress=print."
        )
