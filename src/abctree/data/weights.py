"""Importance weights of the rows of a table, and what they are worth."""

from __future__ import annotations

import numpy as np

from abctree.data.mixture import Mixture
from abctree.data.table import Table
from abctree.types import FloatArray


def mixture_weights(table: Table) -> FloatArray:
    """Raw weights (n,): ``n_f / M_f(θ)`` times the prior's density relative to the cube.

    M_f is the sum of all proposals of the row's fold (`Mixture`).  Their mean over rows accepted at
    ε estimates the evidence times `Region.normaliser`.
    """
    n_fold = np.bincount(table.fold)
    return np.asarray(n_fold[table.fold] / table.denominator * table.prior_weight)


def effective_sample_size(weight: FloatArray) -> float:
    """Kish's effective sample size of weights (n,), ``(Σ w)² / Σ w²``; 0 without draws.

    Weights may be in any unit, normalised or not.
    """
    largest = weight.max(initial=0.0)
    if largest == 0.0:
        return 0.0
    w = weight / largest  # squares of very small weights are lost
    return float(w.sum() ** 2 / np.dot(w, w))


def running_ess(weight: FloatArray) -> FloatArray:
    """Effective sample sizes (n,) of the first 1, 2, ... draws, of which one has weight."""
    w = weight / weight.max()
    return np.asarray(np.cumsum(w) ** 2 / np.maximum(np.cumsum(w * w), np.finfo(float).tiny))


def update_denominators(table: Table, mixtures: tuple[Mixture, ...], begin: int) -> None:
    """Bring M of all rows up to date after a round: old rows (before `begin`) miss its layer only.

    O(n log K) for the old rows and O(log K) for each earlier partition for the new ones.
    """
    denominator = table.denominator.copy()
    for f, mixture in enumerate(mixtures):
        old = np.flatnonzero(table.fold[:begin] == f)
        new = begin + np.flatnonzero(table.fold[begin:] == f)
        if mixture.layers:
            denominator[old] += mixture.newest(table.cube[old])
        denominator[new] = mixture(table.cube[new])
    table.set_denominator(denominator)
