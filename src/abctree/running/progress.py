"""Who is told how far a run is: a bar on a terminal and in a notebook, a function, a log."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Never, TypeAlias

from abctree.data import Failure, Progress
from abctree.errors import ParameterError, warn
from abctree.kernels.jit import when_compiling
from abctree.problem.simulators import described
from abctree.protocols import HasEveryBlock

if TYPE_CHECKING:
    from tqdm import tqdm

#: What a method takes as `progress`: a bar where somebody looks (None), a bar, nothing, a function.
ProgressLike: TypeAlias = bool | Callable[[Progress], None] | None

#: Rounds and how a run ended (INFO), failures and lost workers (WARNING).
log = logging.getLogger("abctree")

_COMPILING = (
    "abctree compiles its kernels, once after an installation: up to half a minute.\n"
    "`abctree warm-up` does it ahead."
)
#: Reasons of failures that are logged.
_REASONS = 10
#: Seconds between two states of the bar.
_REFRESH = 0.1


def check_progress(progress: object) -> None:
    """Raise `ParameterError` unless it is True, False, None or a function."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ParameterError(
            "`progress` must be True, False, None or a function of an abctree.Progress, but got "
            f"{progress!r}. Try progress=print."
        )


def log_failures(failures: Iterable[Failure], known: Collection[str]) -> None:
    """Log the first failure of each reason that is not known, as long as these are few."""
    new = {failure.reason: failure for failure in failures if failure.reason not in known}
    for failure in list(new.values())[: max(_REASONS - len(known), 0)]:
        log.warning("simulation %d failed: %s", failure.index, failure.reason)


class Listener:
    """Who is told of a run."""

    def __init__(self, progress: ProgressLike) -> None:
        shown = progress is True or (progress is None and somebody_looks())
        if shown:
            when_compiling(_say_compiling)
        self._told: Callable[[Progress], None] | None = None
        if shown:
            self._told = Bar()
        elif callable(progress):
            self._told = progress
        self._has_warned = False  # of what a function raised
        #: Whether to tell whenever simulations come back, and not only after rounds.
        self.is_told_all = _wants_all(self._told)

    def tell(self, now: Callable[[], Progress]) -> None:
        """Tell what is now; what a function of the user's raises is a warning, the first time."""
        if self._told is None:
            return
        progress = now()
        try:
            self._told(progress)
        except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
            if not self._has_warned:
                self._has_warned = True
                warn(f"`progress` raised {described(error)}. The run goes on without it.")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if isinstance(self._told, Bar):
            self._told.close()


def _say_compiling() -> None:
    from tqdm import tqdm

    tqdm.write(_COMPILING, file=sys.stderr)  # above the bar


def _wants_all(told: object) -> bool:
    return isinstance(told, HasEveryBlock) and told.every_block


def somebody_looks() -> bool:
    """Whether this is a notebook, or a terminal that belongs to no worker's parent."""
    if multiprocessing.parent_process() is not None:
        return False
    return _is_notebook() or (bool(sys.stderr) and sys.stderr.isatty())


def _is_notebook() -> bool:
    shell: Any = sys.modules.get("IPython")
    kernel = shell and shell.get_ipython()
    return kernel is not None and "IPKernelApp" in kernel.config


class Bar:
    """A line that is written again and again; what it says fits 80 columns."""

    every_block = True

    def __init__(self) -> None:
        self._bar: tqdm[Never] | None = None

    def __call__(self, progress: Progress) -> None:
        """Show a state, unless the last one is only just shown."""
        is_first = self._bar is None
        bar = self._bar = self._bar or _new_bar(progress.budget)
        bar.set_description_str(f"{progress}  ", refresh=is_first)
        bar.update(progress.n_simulations - bar.n)

    def close(self) -> None:
        """Take it away: the result is what stays."""
        if self._bar is not None:
            self._bar.close()


def _new_bar(total: int) -> tqdm[Never]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a notebook without widgets has a line of text
        from tqdm.auto import tqdm

        return tqdm(
            total=total,
            bar_format="{desc}{bar}",
            dynamic_ncols=True,
            leave=False,
            miniters=1,
            mininterval=_REFRESH,
        )
