"""`PriorDensity`: the shape that a density prior or a constraint gives to a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.errors import ParameterError
from abctree.problem import Problem
from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class PriorDensity:
    """Density of a problem's prior relative to the cube; 0 where the constraint refuses."""

    problem: Problem

    def __call__(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,)."""
        problem = self.problem
        allowed = problem.region.feasible(problem.prior.from_cube(cube))
        return np.asarray(problem.region.weight(cube) * allowed / problem.region.normaliser[0])


def nowhere() -> ParameterError:
    """The error where no point with density is found."""
    return ParameterError(
        "`density` must be positive somewhere in the boxes with mass, but no such point was found. "
        "The constraint leaves too little of them: use the weighted draws of `Result.posterior`."
    )
