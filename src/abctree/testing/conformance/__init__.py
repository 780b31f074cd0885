"""Conformance checks for partitioners, utilities and priors of your own."""

from abctree.testing.conformance.partitioner import check_partitioner
from abctree.testing.conformance.prior import check_prior
from abctree.testing.conformance.utility import check_utility

__all__ = ["check_partitioner", "check_prior", "check_utility"]
