"""Where to look for modes: local acceptance rates, the kernel mode, and the best box.

All take the rows of a table as arrays.  Local rates and boxes do not depend on how the rows were
proposed; the kernel mode does, unless it is given importance weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from abctree.data import Arms, Partition
from abctree.types import FloatArray, IntArray

#: Accepted rows at which a local rate is worked out, and draws of a kernel density estimate.
_MOST = 1500
#: Fewest and most neighbours in a local rate; between them the square root of the rows.
_FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 20, 150
#: Steps of a mean shift.
_SHIFTS = 200


def n_neighbours(n: int) -> int:
    """How many of n rows a local rate is of: about √n."""
    return min(n, int(np.clip(np.sqrt(n), _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS)))


def local_rates(
    x: FloatArray, accepted: IntArray, log_prior: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Rates among the k nearest rows of each accepted row, k about √n, the highest first.

    Of rows x (n, r), of which the accepted ones are given by number; of more than 1500 an even
    selection is looked at.  The answers are numbers (m,), log-densities (m,), the log-prior (n,)
    included, and distances (m,) to the farthest of the neighbours.
    """
    k = n_neighbours(len(x))
    chosen = accepted[:: 1 + (len(accepted) - 1) // _MOST]
    distance, neighbour = cKDTree(x).query(x[chosen], k=[*range(1, k + 1)])
    distance, neighbour = np.asarray(distance), np.asarray(neighbour)
    hit = np.zeros(len(x))
    hit[accepted] = 1.0
    share = max(len(accepted) / len(x), 1e-12)
    # Shrunk towards the rate of all rows by one acceptance: few neighbours are no evidence.
    log_rate = np.log((hit[neighbour].sum(axis=1) + 1.0) / (k + 1.0 / share))
    density = log_rate + log_prior[chosen]
    order = np.argsort(-density, kind="stable")
    return chosen[order], density[order], distance[order, -1]


def kernel_mode(x: FloatArray, weight: FloatArray) -> FloatArray:
    """The largest point of a normal kernel density estimate of draws (m, r): (r,).

    Of more than 1500 draws an even selection is looked at.  The bandwidth is Silverman's rule on
    the whitened draws, with the effective sample size in the place of their number.  With fewer
    than three different draws the mode is the heaviest of them.
    """
    step = 1 + (len(x) - 1) // _MOST
    x, weight = x[::step], weight[::step]
    heaviest = x[int(np.argmax(weight))]
    w = weight / weight.sum()
    centred = x - w @ x
    scatter = (centred * w[:, None]).T @ centred
    value, vector = np.linalg.eigh(scatter)
    moves = value > 1e-12 * value.max(initial=0.0)
    if len(np.unique(x, axis=0)) < 3 or not moves.any():
        return np.asarray(heaviest)
    r = int(moves.sum())
    white = centred @ (vector[:, moves] / np.sqrt(value[moves]))
    n = 1.0 / float(w @ w)
    h = (4.0 / ((r + 2.0) * n)) ** (1.0 / (r + 4.0))
    start = white[int(np.argmax(_kernel_density(white, white, w, h)))]
    mode = _mean_shift(start, white, w, h)
    return np.asarray(w @ x + (vector[:, moves] * np.sqrt(value[moves])) @ mode)


def _kernel_density(at: FloatArray, x: FloatArray, w: FloatArray, h: float) -> FloatArray:
    square = (at**2).sum(axis=1)[:, None] + (x**2).sum(axis=1)[None, :] - 2.0 * at @ x.T
    return np.asarray(np.exp(-0.5 * square / h**2) @ w)


def _mean_shift(start: FloatArray, x: FloatArray, w: FloatArray, h: float) -> FloatArray:
    """The local maximum that a mean shift climbs to."""
    at = start
    for _ in range(_SHIFTS):
        kernel = w * np.exp(-0.5 * ((x - at) ** 2).sum(axis=1) / h**2)
        new = kernel @ x / kernel.sum()
        if np.abs(new - at).max() < 1e-6:
            break
        at = new
    return np.asarray(at)


@dataclass(frozen=True)
class BestBox:
    """The box of the largest average density, k̂ of the paper."""

    lower: FloatArray  #: (d,) in the cube
    upper: FloatArray  #: (d,)
    log_density: float  #: average density in θ space, up to a constant


def best_box(partitions: tuple[Partition, ...], arms: tuple[Arms, ...]) -> BestBox | None:
    """k̂ = argmax_k π_k η_k / |Ω_k| over all boxes of all folds; None if none is bounded.

    Where the prior cannot say volumes, those of the cube stand for them.
    """
    best: BestBox | None = None
    for partition, belief in zip(partitions, arms, strict=True):
        with np.errstate(divide="ignore"):
            volume = partition.log_volume
            volume = np.log(partition.boxes.volume) if np.isnan(volume).any() else volume
            density = np.log(belief.mean) + np.log(partition.prior_mass / partition.feasible)
        density = np.where(np.isfinite(volume), density - volume, -np.inf)
        k = int(np.argmax(density))
        if np.isfinite(density[k]) and (best is None or density[k] > best.log_density):
            boxes = partition.boxes
            best = BestBox(boxes.lower[k], boxes.upper[k], float(density[k]))
    return best
