"""Priors: maps of the unit cube, with names.

`Product` reads a dict and is what almost everyone needs.  `PriorTransform` takes a map of your own
and `DensityPrior` a density of your own (Remark 1).
"""

from abctree.problem.priors.continuous import Periodic
from abctree.problem.priors.discrete import Categorical, Integers
from abctree.problem.priors.functions import DensityPrior, PriorTransform
from abctree.problem.priors.joint import Dirichlet, MultivariateNormal
from abctree.problem.priors.product import Product, as_prior

__all__ = [
    "Categorical",
    "DensityPrior",
    "Dirichlet",
    "Integers",
    "MultivariateNormal",
    "Periodic",
    "PriorTransform",
    "Product",
    "as_prior",
]
