"""The command line: ``abctree check | run | resume | summary | plot | report | export``.

Heavy imports are inside the commands, so that ``abctree --help`` answers at once.
"""

from abctree.faces.cli import commands as commands  # which puts them on `main`
from abctree.faces.cli.options import main
from abctree.faces.cli.targets import READY

__all__ = ["READY", "main"]
