"""Progress of a run on stderr: one line on a terminal, a line for every round elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from abctree.data import Progress
    from abctree.protocols import StoppingRule
    from abctree.types import NamedDict

#: Seconds between two states of the line on a terminal.
_REFRESH = 0.1


def progress_on_stderr(seconds: float | None) -> Callable[[Progress], None]:
    """A line that is rewritten on a terminal, a line for every round otherwise."""
    if sys.stderr.isatty():
        return Line(seconds)
    return lambda progress: click.echo(state(progress, seconds), err=True)


class Line:
    """One line that is written again and again, for terminals; also a rule that never stops."""

    every_block = True

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.shown = -1.0  #: seconds into the run when the line was last written

    def __call__(self, progress: Progress) -> None:
        """Write it over the former one."""
        import shutil

        room = shutil.get_terminal_size().columns - 1
        click.echo("\r\033[K" + state(progress, self.seconds)[:room], nl=False, err=True)
        self.shown = progress.seconds

    def reason(self, progress: Progress) -> None:
        """No reason to stop, but a chance to show how far the run is."""
        if progress.seconds - self.shown >= _REFRESH:
            self(progress)

    def clear(self) -> None:
        """Leave an empty line."""
        if self.shown >= 0.0:
            click.echo("\r\033[K", nl=False, err=True)


def state(progress: Progress, seconds: float | None) -> str:
    """A run on one line."""
    speed = []
    if progress.seconds > 0.0:  # else nothing was simulated by this process
        rate = progress.n_simulations / progress.seconds
        left = (progress.budget - progress.n_simulations) / rate
        if seconds is not None:
            left = min(left, max(0.0, seconds - progress.seconds))
        speed = [f"{rate:.3g} a second", f"{_duration(left)} left"]
    played = [
        f"round {progress.round}",
        f"epsilon {progress.epsilon:.3g}",
        f"accepted {progress.acceptance_rate:.2%}",
        f"ESS {progress.ess:.0f}",
    ]
    parts = [
        *(played if progress.round else ["pilot"]),
        f"{progress.n_simulations} of {progress.budget}",
        *speed[:1],
        f"{progress.n_failures} failed",
        *speed[1:],
    ]
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def watched(
    asked: NamedDict, *, quiet: bool
) -> Iterator[tuple[Callable[[Progress], None] | None, list[StoppingRule]]]:
    """Who is told of the progress, and the stopping rules; afterwards the line is empty."""
    from abctree.running.stopping import as_stopping_rules

    limits = dict(asked.get("stop", {}))
    if "seconds" in asked:
        limits["seconds"] = asked["seconds"]
    rules: list[StoppingRule] = list(as_stopping_rules(limits))
    progress = None if quiet else progress_on_stderr(limits.get("seconds"))
    if isinstance(progress, Line):
        rules.insert(0, progress)  # a rule that never stops sees every block, not only every round
    try:
        yield progress, rules
    finally:
        if isinstance(progress, Line):
            progress.clear()
