"""Conformance suites: run them on a part of your own before a run depends on it.

There is one for each protocol of `abctree.protocols`; what a part may have beside its protocol is
checked with it.  A check returns None if the part keeps its contract, and raises `AssertionError`
with the rule that it breaks.
"""

from abctree.testing.partitioner import check_partitioner
from abctree.testing.prior import check_prior
from abctree.testing.problem import check_constraint, check_distance, check_simulator
from abctree.testing.running import check_executor, check_stopping_rule, check_store
from abctree.testing.schedule import check_schedule
from abctree.testing.tree import check_belief_rule, check_policy, check_proposal, check_utility

__all__ = [
    "check_belief_rule",
    "check_constraint",
    "check_distance",
    "check_executor",
    "check_partitioner",
    "check_policy",
    "check_prior",
    "check_proposal",
    "check_schedule",
    "check_simulator",
    "check_stopping_rule",
    "check_store",
    "check_utility",
]
