"""Conformance suites: run them on a part of your own before a run depends on it.

There is one for each protocol of `abctree.protocols`.  It returns None if the part keeps its
contract, and raises `AssertionError` with the rule that it breaks.
"""

from abctree.testing.beliefs import check_belief_rule
from abctree.testing.distance import check_distance
from abctree.testing.executor import check_executor
from abctree.testing.partitioner import check_partitioner
from abctree.testing.policy import check_policy
from abctree.testing.prior import check_prior
from abctree.testing.proposal import check_proposal
from abctree.testing.schedule import check_schedule
from abctree.testing.simulator import check_constraint, check_simulator
from abctree.testing.stopping import check_stopping_rule
from abctree.testing.store import check_store
from abctree.testing.utility import check_utility

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
