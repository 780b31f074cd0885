"""Questions to a finished run.

Everything here takes arrays, not runs: parameters, distances and raw importance weights of all
simulations, so that the same questions can be put to a table made elsewhere.
"""

from abctree.answers.evidence import Evidence
from abctree.answers.histogram import StepFold, StepPosterior
from abctree.answers.posterior import Posterior

# The function `evidence` stays in its module: exported here it would hide the module's name.
__all__ = ["Evidence", "Posterior", "StepFold", "StepPosterior"]
