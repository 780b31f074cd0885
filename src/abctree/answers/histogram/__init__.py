"""The posterior as a step function on boxes: what it is, its draws, its marginals, its regions."""

from abctree.answers.histogram.folds import DenseBoxes, StepFold
from abctree.answers.histogram.posterior import StepPosterior

__all__ = ["DenseBoxes", "StepFold", "StepPosterior"]
