"""The loop of each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abctree.answers.result import Result
from abctree.methods.loop_rejection import play_stream
from abctree.methods.loop_smc import play_populations
from abctree.methods.loop_tree import play_rounds
from abctree.running.runner import Runner

#: By the name of the function that a user calls.
LOOPS: Mapping[str, Callable[[Runner], Result]] = {
    "abc_tree": play_rounds,
    "map_tree": play_rounds,
    "smc": play_populations,
    "rejection": play_stream,
}
