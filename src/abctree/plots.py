"""`abctree.faces.plots` by its public name: the same module."""

import sys

from abctree.faces import plots
from abctree.faces.plots import *  # noqa: F403 - for type checkers and editors

sys.modules[__name__] = plots
