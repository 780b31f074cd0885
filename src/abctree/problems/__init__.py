"""Ready-made problems, with known truth or with a reference from very long runs.

Each function returns a `Problem`.  `abctree.problems.truth` has exact draws, densities and
evidences to judge a method by.
"""

from abctree.problems.encoding import linear_nonlinear
from abctree.problems.predator_prey import lotka_volterra
from abctree.problems.toys import banana, finite_normal, gauss, gaussian_mixture
from abctree.problems.volatility import heston

__all__ = [
    "banana",
    "finite_normal",
    "gauss",
    "gaussian_mixture",
    "heston",
    "linear_nonlinear",
    "lotka_volterra",
]
