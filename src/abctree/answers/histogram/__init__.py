"""The posterior as a step function on boxes: what it is, its draws, its marginals, its regions."""

from abctree.answers.histogram.folds import DenseBoxes, StepFold
from abctree.answers.histogram.posterior import StepPosterior
from abctree.answers.histogram.ranges import (
    cube_range,
    mean_density,
    mean_over,
    middle,
    out_of_support,
)

__all__ = [
    "DenseBoxes",
    "StepFold",
    "StepPosterior",
    "cube_range",
    "mean_density",
    "mean_over",
    "middle",
    "out_of_support",
]
