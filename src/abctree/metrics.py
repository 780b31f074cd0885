"""`abctree.answers.metrics` by its public name: the same module."""

import sys

from abctree.answers import metrics
from abctree.answers.metrics import *  # noqa: F403 - for type checkers and editors

sys.modules[__name__] = metrics
