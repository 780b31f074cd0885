"""The posterior mode: how it is found in a lookup table, and how well it is known."""

from abctree.answers.mode.answer import Candidate, Mode, ModeSummary
from abctree.answers.mode.find import find_mode

__all__ = ["Candidate", "Mode", "ModeSummary", "find_mode"]
