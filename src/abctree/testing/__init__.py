"""Conformance suites: run them on a part of your own before a run depends on it.

Each function returns None if the part keeps its contract, and raises `AssertionError` with the rule
that it breaks.
"""

from abctree.testing.conformance import check_partitioner, check_prior, check_utility

__all__ = ["check_partitioner", "check_prior", "check_utility"]
