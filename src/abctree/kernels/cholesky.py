"""Cholesky's factor, and what is solved by it.

NumPy's solver takes longer to compile than all that calls it, for the text of its messages; so does
an array that is assigned to a part of another.
"""

from __future__ import annotations

import math
from typing import Any

from abctree.kernels.jit import jit


@jit
def factor(a: Any) -> None:
    """Put the root L of ``a = L Lᵀ``, positive definite, in place of its lower triangle.

    What is above the diagonal is neither read nor written.
    """
    for i in range(len(a)):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(total) if i == j else total / a[j, j]


@jit
def solve(a: Any, b: Any) -> None:
    """Put the solution of ``a x = b`` in place of b (p, s), and the root of a (p, p) in its own."""
    factor(a)
    p, s = b.shape
    for i in range(p):
        for k in range(i):
            for c in range(s):
                b[i, c] -= a[i, k] * b[k, c]
        for c in range(s):
            b[i, c] /= a[i, i]
    for i in range(p - 1, -1, -1):
        for k in range(i + 1, p):
            for c in range(s):
                b[i, c] -= a[k, i] * b[k, c]
        for c in range(s):
            b[i, c] /= a[i, i]
