"""Regressions of the summaries in the nodes of a tree, and the acceptance rates they imply.

Summaries are differences to the observation in units of the distance: z (n, s), whose Euclidean
norm is the distance.  Trees are the flat arrays of `abctree.data.SplitTree`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abctree.kernels.cholesky import solve
from abctree.kernels.jit import jit
from abctree.kernels.student import root_power

#: Degrees of freedom of the laws of residuals.
FREEDOM = 5


@jit
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
def fit_models(
    cube: Any, z: Any, usable: Any, row_box: Any, parent: Any, node_of_box: Any, p: int,
    least: float, strength: float,
) -> tuple[Any, Any]:  # fmt: skip
    """Least squares of z on p features in every node with `least` usable rows, and in the root.

    A node's coefficients β minimise ``Σ |z − β x|² + strength · |β − β_parent|²``, the last in the
    norm of the parent's mean Gram matrix.  Grams are summed where they are first needed, added
    upwards and solved downwards: O(n p²) in all, and O(p³) a model.  The answer is the model
    of each box (K,), that of its deepest node which has one, and β (M, p, s).
    """
    m, s = len(parent), z.shape[1]
    count = np.zeros(m)
    for i in range(len(z)):
        if usable[i]:
            count[node_of_box[row_box[i]]] += 1.0
    for i in range(m - 1, 0, -1):
        count[parent[i]] += count[i]
    model = np.empty(m, dtype=np.int64)  # of each node: its own, or the one above
    above = np.full(m, -1, dtype=np.int64)  # of each model: that of the parent
    rows = np.empty(m)  # of each model
    n_models = 0
    for i in range(m):
        if i == 0 or count[i] >= least:
            if i > 0:
                above[n_models] = model[parent[i]]
            rows[n_models] = count[i]
            model[i] = n_models
            n_models += 1
        else:
            model[i] = model[parent[i]]
    gram = np.zeros((n_models, p, p))
    moment = np.zeros((n_models, p, s))
    x = np.empty(p)
    for i in range(len(z)):
        if not usable[i]:
            continue
        j = model[node_of_box[row_box[i]]]
        write_features(cube[i], x)
        for a in range(p):
            value, row, sums, target = x[a], gram[j, a], moment[j, a], z[i]
            for b in range(a + 1):
                row[b] += value * x[b]
            for c in range(s):
                sums[c] += value * target[c]
    for j in range(n_models - 1, 0, -1):
        for a in range(p):
            for b in range(a + 1):
                gram[above[j], a, b] += gram[j, a, b]
            for c in range(s):
                moment[above[j], a, c] += moment[j, a, c]
    beta = np.zeros((n_models, p, s))
    left = np.empty((p, p))
    for j in range(n_models):
        up = above[j]
        worth = strength / rows[up] if j > 0 else 0.0
        for a in range(p):
            for c in range(s):
                beta[j, a, c] = moment[j, a, c]
            for b in range(a + 1):
                left[a, b] = gram[j, a, b]
                if j > 0:
                    prior = worth * gram[up, a, b]
                    left[a, b] += prior
                    for c in range(s):
                        beta[j, a, c] += prior * beta[up, b, c]
                        if b < a:
                            beta[j, b, c] += prior * beta[up, a, c]
            left[a, a] += 1e-10 * (1.0 + rows[j])
        solve(left, beta[j])
    model_of_box = np.empty(len(node_of_box), dtype=np.int64)
    for k in range(len(node_of_box)):
        model_of_box[k] = model[node_of_box[k]]
    return model_of_box, beta


@jit
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
    m, s, p = len(parent), z.shape[1], beta.shape[2]
    count = np.zeros(m)
    for i in order:
        count[node_of_box[row_box[i]]] += 1.0
    for i in range(m - 1, 0, -1):
        count[parent[i]] += count[i]
    of_node = np.full(m, -1, dtype=np.int64)
    list_of_box = np.empty(len(node_of_box), dtype=np.int64)
    n_lists = 0
    for k in range(len(node_of_box)):
        i = node_of_box[k]
        while parent[i] >= 0 and count[i] < size:
            i = parent[i]
        if of_node[i] < 0:
            of_node[i] = n_lists
            n_lists += 1
        list_of_box[k] = of_node[i]
    residual = np.full((n_lists, max(3, s + 1 - s % 2), size), np.inf, dtype=np.float32)
    residual[:, s:] = 0.0
    number = np.zeros(n_lists, dtype=np.int64)
    x, mean = np.empty(p), np.empty(s)
    for i in order:
        b = beta[model_of_box[row_box[i]]]
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
                predict(b, x, mean)
            if usable[i]:
                for c in range(s):
                    residual[j, c, number[j]] = z[i, c] - mean[c]
            number[j] += 1
    return list_of_box, residual, number


@jit(fastmath={"reassoc", "contract", "nsz"})
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
