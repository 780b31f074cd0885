"""Distances between summaries, or between whole samples; see `abctree.Problem`."""

from abctree.problem import distances as _own
from abctree.problem.combined import Combined
from abctree.problem.distances import *  # noqa: F403 - what it says by its own `__all__`

__all__ = ["Combined"]
__all__ += _own.__all__
