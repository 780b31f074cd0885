"""Distances between summaries, or between whole samples; see `abctree.Problem`."""

from abctree.problem.combined import Combined
from abctree.problem.distances import (
    Energy,
    Euclidean,
    FunctionDistance,
    Mahalanobis,
    Minkowski,
    Scaled,
    Wasserstein,
)

__all__ = [
    "Combined",
    "Energy",
    "Euclidean",
    "FunctionDistance",
    "Mahalanobis",
    "Minkowski",
    "Scaled",
    "Wasserstein",
]
