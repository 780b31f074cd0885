"""Ready-made problems: with known truth, with a reference from very long runs, or with real data.

Each function returns a `Problem`.  `abctree.problems.truth` has exact draws, densities and
evidences to judge a method by.
"""

from abctree.problems.encoding import linear_nonlinear
from abctree.problems.pelts import hare_lynx, hare_lynx_data, hare_lynx_series
from abctree.problems.predator_prey import lotka_volterra
from abctree.problems.toys import banana, finite_normal, gauss, gaussian_mixture
from abctree.problems.volatility import heston

__all__ = [
    "banana",
    "finite_normal",
    "gauss",
    "gaussian_mixture",
    "hare_lynx",
    "hare_lynx_data",
    "hare_lynx_series",
    "heston",
    "linear_nonlinear",
    "lotka_volterra",
]
