"""The exceptions and warnings of abctree.

Running out of budget is not an error: it is `Result.stopped_because`.
"""

from __future__ import annotations


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
