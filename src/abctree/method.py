"""What tells the methods apart, wherever it is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """One method, as far as others than its own loop see it differ."""

    about: str
    cuts_boxes: bool = False  #: whether there are partitions to read and draw
    seeks_mode: bool = False  #: whether it answers by a mode, not by draws
    has_rounds: bool = True  #: whether the tolerance falls on the way
    keeps_all: bool = True  #: whether the table has a row for every simulation


#: By the name of the function that a user calls.
METHODS = {
    "abc_tree": Method("the posterior, by bandits on a tree (default)", cuts_boxes=True),
    "map_tree": Method("its mode, by bandits on a tree", cuts_boxes=True, seeks_mode=True),
    "smc": Method("the posterior, by populations"),
    "rejection": Method(
        "the posterior, by the closest prior draws", has_rounds=False, keeps_all=False
    ),
}
