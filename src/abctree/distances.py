"""`abctree.problem.distances` by its public name: the same module."""

import sys

from abctree.problem import distances
from abctree.problem.distances import *  # noqa: F403 - for type checkers and editors

sys.modules[__name__] = distances
