"""Regressions of the summaries in the nodes of a tree, and the acceptance rates they imply.

Summaries are differences to the observation in units of the distance: z (n, s), whose Euclidean
norm is the distance.  Trees are the flat arrays of `abctree.data.SplitTree`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abctree.kernels.cholesky import factor
from abctree.kernels.jit import jit
from abctree.kernels.student import root_power

#: Degrees of freedom of the laws of residuals.
FREEDOM = 5


@jit(inner=True)
def write_features(u: Any, x: Any) -> None:
    """``x = (1, v, v_a v_b)`` at a point, v = u − ½; the products if x (p,) has room for them."""
    d = len(u)
    x[0] = 1.0
    for a in range(d):
        x[a + 1] = u[a] - 0.5
    k = d + 1
    if k == len(x):
        return
    for a in range(d):
        for b in range(a, d):
            x[k] = x[a + 1] * x[b + 1]
            k += 1


@jit
def _count_rows(
    row: Any, row_box: Any, parent: Any, node_of_box: Any, least: float, count: Any, node: Any
) -> None:
    """Add the number of these rows in each node to a count (m,).

    And write of each box the deepest node (K,) with so many, or the root.
    """
    for i in range(len(row)):
        count[node_of_box[row_box[row[i]]]] += 1.0
    for i in range(len(parent) - 1, 0, -1):
        count[parent[i]] += count[i]
    for k in range(len(node)):
        i = node_of_box[k]
        while i > 0 and count[i] < least:
            i = parent[i]
        node[k] = i


def fit_models(
    cube: Any, z: Any, usable: Any, row_box: Any, parent: Any, node_of_box: Any, p: int,
    least: float, strength: float,
) -> tuple[Any, Any]:  # fmt: skip
    """Least squares of z on p features in every node with `least` usable rows, and in the root.

    A node's coefficients β minimise ``Σ |z − β x|² + strength · |β − β_parent|²``, the last in the
    norm of the parent's mean Gram matrix.  Grams are summed where they are first needed, added
    upwards and solved downwards: O(n p²) in all, and O(p³) a model.  The answer is the model
    of each box (K,), that of its deepest node which has one, and β (M, s, p).
    """
    # What needs no loop of its own is NumPy's here and below: it is quick enough for what happens
    # once a round, and to compile it takes a second.
    s, count, node = z.shape[1], np.zeros(len(parent)), np.empty_like(node_of_box)
    _count_rows(np.flatnonzero(usable), row_box, parent, node_of_box, least, count, node)
    has_model = count >= least
    has_model[0] = True
    number = np.cumsum(has_model) - 1
    above = number[np.maximum(parent[has_model], 0)]  # for who has so many rows, the parent has
    model_of_box = number[node]
    sums, beta = np.zeros((len(above), p + s, p)), np.zeros((len(above), s, p))
    rows, left, x = count[has_model], np.empty((p + s, p)), np.empty(p + s)
    _fit_models(cube, z, usable, row_box, model_of_box, above, rows, strength, sums, left, x, beta)
    return model_of_box, beta


@jit
def _fit_models(
    cube: Any, z: Any, usable: Any, row_box: Any, model_of_box: Any, above: Any, rows: Any,
    strength: float, sums: Any, left: Any, x: Any, beta: Any,
) -> None:  # fmt: skip
    """Write β of models of so many rows (M,) and with these above them.

    Each has Σ x xᵀ, its lower triangle, and below that Σ z xᵀ, in `sums` (M, p + s, p); `left` is
    room for one of them, and `x` for the features of a row and its z.
    """
    s, p = beta.shape[1], beta.shape[2]
    features = x[:p]
    for i in range(len(z)):
        if not usable[i]:
            continue
        write_features(cube[i], features)
        for c in range(s):
            x[p + c] = z[i, c]
        own = sums[model_of_box[row_box[i]]]
        for a in range(p + s):
            value, row = x[a], own[a]
            for b in range(a + 1 if a < p else p):
                row[b] += value * x[b]
    for j in range(len(rows) - 1, 0, -1):
        for a in range(p + s):
            for b in range(p):
                sums[above[j], a, b] += sums[j, a, b]
    for j in range(len(rows)):
        up, start = sums[above[j]], beta[above[j]]
        worth = strength / rows[above[j]] if j > 0 else 0.0
        for a in range(p):
            for b in range(a + 1):
                left[a, b] = sums[j, a, b] + worth * up[a, b]
            left[a, a] += 1e-10 * (1.0 + rows[j])
            for c in range(s):
                total = sums[j, p + c, a]
                for b in range(p):
                    total += worth * (up[a, b] if b < a else up[b, a]) * start[c, b]
                left[p + c, a] = total
        factor(left)
        for i in range(p - 1, -1, -1):
            for c in range(s):
                total = left[p + c, i]
                for k in range(i + 1, p):
                    total -= left[k, i] * beta[j, c, k]
                beta[j, c, i] = total / left[i, i]


def residual_lists(
    cube: Any, z: Any, usable: Any, row_box: Any, order: Any, parent: Any, node_of_box: Any,
    model_of_box: Any, beta: Any, size: int,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Up to `size` residuals z − β x for each box, from its deepest node with so many rows.

    They are the first in the given order, of all rows or some.  A row that is not usable is a
    residual of infinite size.  The answer is the list of each box (K,), the residuals
    (L, s, size), one row a summary, so that the loop over residuals is the inner one, and how many
    are in each list (L,).  Rows of zeros make s an odd number of at least 3.
    """
    count, node = np.zeros(len(parent)), np.empty_like(node_of_box)
    _count_rows(order, row_box, parent, node_of_box, float(size), count, node)
    has_list = np.zeros(len(parent), dtype=bool)
    has_list[node] = True
    of_node = np.where(has_list, np.cumsum(has_list) - 1, -1)
    n_lists = np.count_nonzero(has_list)
    s = beta.shape[1]
    residual: Any = np.full((n_lists, max(3, s + 1 - s % 2), size), np.inf, dtype=np.float32)
    residual[:, s:] = 0.0
    number = np.zeros(n_lists, dtype=np.int64)
    _fill_lists(
        cube, z, usable, row_box, order, parent, node_of_box, model_of_box, beta, of_node,
        residual, number,
    )  # fmt: skip
    return of_node[node], residual, number


@jit
def _fill_lists(
    cube: Any, z: Any, usable: Any, row_box: Any, order: Any, parent: Any, node_of_box: Any,
    model_of_box: Any, beta: Any, of_node: Any, residual: Any, number: Any,
) -> None:  # fmt: skip
    """Put the residual of each row into the lists of the nodes that it is in."""
    size = residual.shape[2]
    x, mean = np.empty(beta.shape[2]), np.empty(beta.shape[1])
    for i in order:
        known = False
        node = node_of_box[row_box[i]]
        while node >= 0:
            j = of_node[node]
            node = parent[node]
            if j < 0 or number[j] == size:
                continue
            if usable[i] and not known:
                known = True
                write_features(cube[i], x)
                predict(beta[model_of_box[row_box[i]]], x, mean)
            if usable[i]:
                for c in range(len(mean)):
                    residual[j, c, number[j]] = z[i, c] - mean[c]
            number[j] += 1


@jit(fastmath={"reassoc", "contract", "nsz"}, inner=True)
def predict(b: Any, x: Any, mean: Any) -> None:
    """``mean = b x`` for coefficients b (s, p)."""
    for c in range(len(mean)):
        total = 0.0
        for a in range(len(x)):
            total += b[c, a] * x[a]
        mean[c] = total


@jit(fastmath={"reassoc", "contract", "nsz"})
def acceptance_rates(
    cube: Any, box: Any, model_of_box: Any, beta: Any, list_of_box: Any, residual: Any,
    number: Any, law_mean: Any, law_whiten: Any, law_amplitude: Any, box_rate: Any,
    softness: float, law_worth: float, box_worth: float, out: Any,
) -> None:  # fmt: skip
    """``out_i = (Σ_j k(|β x_i + e_j|) + a_S η_S + a_0 η_box) / (R + a_S + a_0)``.

    z and e are in units of ε.  ``k(r) = 1`` for r < 1 and beyond
    ``max(0, 1 − ((r − 1) / softness)²)²``, which has no branch.  η_S is
    ``(a / (5 + |W (z + m)|²))^((5 + s)/2)`` at ``z = β x_i``, the rate under a Student law, and at
    most 1.  O(R s + s² + p s) a point.
    """
    s, p = beta.shape[1], beta.shape[2]
    x, mean = np.empty(p), np.empty(s)
    rows = residual.shape[1]
    shift = np.zeros(rows, dtype=np.float32)
    square = np.zeros(residual.shape[2], dtype=np.float32)
    one, zero, steep = np.float32(1.0), np.float32(0.0), np.float32(1.0 / softness)
    far = np.float32((1.0 + softness) ** 2)
    for i in range(len(cube)):
        k = box[i]
        j = list_of_box[k]
        write_features(cube[i], x)
        predict(beta[model_of_box[k]], x, mean)
        for c in range(s):
            shift[c] = mean[c]
        e, total = residual[j], zero
        if rows > 3:
            square[:] = zero
        for c in range(3, rows, 2):  # by two: squares are read and written half as often
            for r in range(len(square)):
                t, other = e[c, r] + shift[c], e[c + 1, r] + shift[c + 1]
                square[r] += t * t + other * other
        for r in range(len(square)):
            t, other, third = e[0, r] + shift[0], e[1, r] + shift[1], e[2, r] + shift[2]
            away = square[r] + t * t + other * other + third * third
            t = max(np.float32(math.sqrt(away)) - one, zero) * steep
            t = one - t * t
            total += t * t if away < far else zero  # of inf − inf, too
        squared = float(FREEDOM)
        for a in range(s):
            step = 0.0
            for b in range(a + 1):
                step += law_whiten[j, a, b] * (mean[b] + law_mean[j, b])
            squared += step * step
        law = min(1.0, root_power(law_amplitude[j] / squared, FREEDOM + s))
        hits = total + law_worth * law + box_worth * box_rate[k]
        out[i] = hits / (number[j] + law_worth + box_worth)
