"""What tells the methods apart: their parts, and their loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abctree.answers.result import Result
from abctree.methods.loop_rejection import RejectionParts, play_stream
from abctree.methods.loop_smc import SmcParts, play_populations
from abctree.methods.loop_tree import play_rounds
from abctree.running.runner import Runner
from abctree.tree.outer_loop import Rules


@dataclass(frozen=True)
class Method:
    """One method, as far as it differs from the others."""

    parts: type[Any]  #: the dataclass that is `Settings.rules`
    loop: Callable[[Runner], Result]
    keeps_all: bool = True  #: whether the table has a row for every simulation


#: By the name of the function that a user calls.
METHODS = {
    "abc_tree": Method(Rules, play_rounds),
    "map_tree": Method(Rules, play_rounds),
    "smc": Method(SmcParts, play_populations),
    "rejection": Method(RejectionParts, play_stream, keeps_all=False),
}
