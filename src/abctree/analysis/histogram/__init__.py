"""The posterior as a step function on boxes: what it is, its draws, its marginals, its regions."""

from abctree.analysis.histogram.density import PriorDensity
from abctree.analysis.histogram.folds import StepFold
from abctree.analysis.histogram.posterior import StepPosterior
from abctree.analysis.histogram.ranges import (
    cube_range,
    mean_density,
    mean_over,
    middle,
    out_of_support,
)
from abctree.analysis.histogram.region import Region

__all__ = [
    "PriorDensity",
    "Region",
    "StepFold",
    "StepPosterior",
    "cube_range",
    "mean_density",
    "mean_over",
    "middle",
    "out_of_support",
]
