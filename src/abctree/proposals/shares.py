"""In which shares several proposals make accepted draws weigh most evenly."""

from __future__ import annotations

import numpy as np

from abctree.types import FloatArray

#: Steps of the fixed-point iteration.
_STEPS = 25
#: Least relative gain for which the standard shares are left, and what the first proposal keeps.
_GAIN, _KEPT = 0.07, 0.1


def best_shares(
    weight: FloatArray, known: FloatArray, added: FloatArray, standard: FloatArray
) -> FloatArray:
    """λ (k,) that minimises the second moment of the weights, or the standard.

    The estimate of the moment is ``Σ_i w_i / (M_i + λ · q_i)``, convex in λ; the iteration
    ``λ_j ← λ_j √(Σ_i w_i q_ij / (M_i + λ · q_i)²)`` never raises it.  A tenth of the answer is the
    first proposal alone: what the rows have not seen yet is worth something, too.

    Parameters
    ----------
    weight, known : (n,) array
        w, weights of accepted rows, and M, the sum of all proposals at them so far.
    added : (n, k) array
        What each proposal alone would add to M.
    standard : (k,) array
        Shares that are kept unless others are better by 7 %.
    """
    share = np.full(len(standard), 1.0 / len(standard))
    for _ in range(_STEPS):
        total = known + added @ share
        share = share * np.sqrt(np.maximum((weight / total**2) @ added, 0.0))
        share /= max(share.sum(), np.finfo(float).tiny)

    def moment(at: FloatArray) -> float:
        return float(weight @ (1.0 / (known + added @ at)))

    if not moment(share) <= (1.0 - _GAIN) * moment(standard):
        return standard
    return np.asarray(_KEPT * np.eye(len(standard))[0] + (1.0 - _KEPT) * share)
