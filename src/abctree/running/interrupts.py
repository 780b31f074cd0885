"""`Interrupts`: Ctrl-C, let through where the simulator runs and held back where the library does.

Between a block's rows and what is learned of them nothing may come, or the weights of a run that
returns what it has would be wrong.  So Ctrl-C waits until the run waits for simulations: there the
loops know what to do.  A second one does not wait.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class Interrupts:
    """While it is entered, `KeyboardInterrupt` is raised within `through` only.

    Without effect outside the main thread, and where Ctrl-C is handled by somebody else.  One that
    is still held back at the end is dropped: what it was to end has ended.
    """

    def __init__(self) -> None:
        self.through = _Through()
        self._is_ours = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._is_ours = self.through.has_come = False

    def _come(self, number: int, frame: FrameType | None) -> None:
        if self.through.is_open or self.through.has_come:
            signal.default_int_handler(number, frame)
        self.through.has_come = True


class _Through:
    """While it is entered, Ctrl-C is let through, also one that has come before."""

    def __init__(self) -> None:
        self.is_open = self.has_come = False

    def __enter__(self) -> None:
        self.is_open = True
        if self.has_come:
            self.is_open = self.has_come = False
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self.is_open = False
