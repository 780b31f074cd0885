"""`abctree.faces.export` by its public name: the same module."""

import sys

from abctree.faces import export
from abctree.faces.export import *  # noqa: F403 - for type checkers and editors

sys.modules[__name__] = export
