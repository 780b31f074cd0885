"""What a user calls: settings in, a run of an algorithm, a result out."""

from abctree.methods.calibrate import calibrate
from abctree.methods.from_table import from_table
from abctree.methods.run_abc_tree import abc_tree
from abctree.methods.run_folder import load, resume
from abctree.methods.run_map_tree import map_tree
from abctree.methods.run_rejection import rejection
from abctree.methods.run_smc import smc

__all__ = [
    "abc_tree",
    "calibrate",
    "from_table",
    "load",
    "map_tree",
    "rejection",
    "resume",
    "smc",
]
