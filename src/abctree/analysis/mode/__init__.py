"""The posterior mode: how it is found in a lookup table, and how well it is known."""

from abctree.analysis.mode.answer import Candidate, Mode, ModeSummary
from abctree.analysis.mode.search import find_mode

__all__ = ["Candidate", "Mode", "ModeSummary", "find_mode"]
