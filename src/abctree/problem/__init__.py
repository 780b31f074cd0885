"""`Problem`: what is to be inferred."""

from abctree.problem.check import CheckReport
from abctree.problem.core import Discrepancy, Problem, finite_rows

__all__ = ["CheckReport", "Discrepancy", "Problem", "finite_rows"]
