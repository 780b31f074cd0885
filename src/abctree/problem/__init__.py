"""`Problem`: what is to be inferred."""

from abctree.problem.check import CheckReport
from abctree.problem.measurement import Discrepancy, Measurement, finite_rows
from abctree.problem.problem import Problem
from abctree.problem.region import Region

__all__ = ["CheckReport", "Discrepancy", "Measurement", "Problem", "Region", "finite_rows"]
