"""`abctree.running.stopping` by its public name: the same module."""

import sys

from abctree.running import stopping
from abctree.running.stopping import *  # noqa: F403 - for type checkers and editors

sys.modules[__name__] = stopping
