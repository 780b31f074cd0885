"""Kernels around accepted draws, which propose beside the boxes of a round.

Boxes resolve a posterior as finely as their rows are many; a narrow ridge in several dimensions has
too few.  Kernels follow it.  How much of a round they propose is decided for each round anew.

Nothing that a fold proposes has seen the fold's own rows: its kernels stand around rows of the
other folds, and their share is judged by rows of the other folds, each of them with the boxes and
the kernels of *its* fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from abctree.data import Table, mixture_weights
from abctree.proposals.cube_kernels import CubeKernels
from abctree.protocols import Policy
from abctree.tree.fold import Companion, Fold
from abctree.types import FloatArray, IntArray

#: Centres of kernels: fewer are no estimate of a density, more cost time.
_FEWEST, _MOST = 50, 1000
#: Shares of the kernels that are compared.
_SHARES = np.linspace(0.0, 0.95, 20)


def with_companions(
    table: Table,
    folds: Sequence[Fold],
    teachers: Sequence[IntArray],
    epsilon: float,
    policy: Policy,
    rng: np.random.Generator,
) -> tuple[Fold, ...]:
    """The folds, each with kernels around the accepted rows that it may learn from.

    Parameters
    ----------
    table : Table
        With all denominators up to date.
    folds : sequence of Fold
        At the start of a round.
    teachers : sequence of (m,) int
        For each fold the rows that it may learn from.
    epsilon : float
        Tolerance of the round.
    policy : Policy
        Says what the boxes propose.
    rng : Generator
        Picks the centres where more are accepted than are needed.
    """
    accepted = [rows[table.distance[rows] < epsilon] for rows in teachers]
    if min(len(rows) for rows in accepted) < _FEWEST:
        return tuple(folds)
    raw = mixture_weights(table)
    kernels = [_around(table, rows, raw[rows], rng) for rows in accepted]
    close = np.flatnonzero(table.distance < epsilon)
    of_boxes, of_kernels = np.empty(len(close)), np.empty(len(close))
    for f, fold in enumerate(folds):
        own = table.fold[close] == f
        cube = table.cube[close[own]]
        of_boxes[own] = _density(fold, policy, rng)[fold.partition.boxes.locate(cube)]
        of_kernels[own] = kernels[f](cube)
    n = np.count_nonzero(table.round == table.round[-1]) / len(folds)
    answer = []
    for f, fold in enumerate(folds):
        seen = np.isin(close, accepted[f])
        rows = close[seen]
        share = best_share(
            raw[rows], table.denominator[rows], n * of_boxes[seen], n * of_kernels[seen]
        )
        companion = Companion(kernels[f], share) if share > 0.0 else None
        answer.append(replace(fold, companion=companion))
    return tuple(answer)


def best_share(
    weight: FloatArray, known: FloatArray, boxes: FloatArray, kernels: FloatArray
) -> float:
    """λ under which accepted rows weigh most evenly when the round is over.

    It minimises the estimate ``Σ_i w_i / (M_i + (1 − λ) b_i + λ k_i)`` of the second moment of the
    weights, with b and k what the boxes and the kernels alone would add to M.
    """
    moment = [
        float(weight @ (1.0 / (known + (1.0 - share) * boxes + share * kernels)))
        for share in _SHARES
    ]
    return float(_SHARES[int(np.argmin(moment))])


def _density(fold: Fold, policy: Policy, rng: np.random.Generator) -> FloatArray:
    """What the boxes (K,) propose now, relative to the cube."""
    _, q = policy.pull(fold.beliefs.arms(), fold.partition, 0, rng)
    return np.asarray(fold.partition.cube_proposal(q) / fold.partition.boxes.volume)


def _around(
    table: Table, rows: IntArray, weight: FloatArray, rng: np.random.Generator
) -> CubeKernels:
    share = weight / weight.sum()
    if len(rows) > _MOST:
        chosen = np.sort(rng.choice(len(rows), _MOST, replace=False, p=share))
        rows, share = rows[chosen], np.full(_MOST, 1.0 / _MOST)
    return CubeKernels.around(table.cube[rows], share)
