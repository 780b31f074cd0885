"""Cholesky's factor, and what is solved by it.

NumPy's solver takes longer to compile than all that calls it, for the text of its messages; so does
an array that is assigned to a part of another.
"""

from __future__ import annotations

import math
from typing import Any

from abctree.kernels.jit import jit


@jit(inner=True)
def factor(a: Any) -> None:
    """Put the root L of ``A = L Lᵀ``, positive definite, in place of its lower triangle.

    What is above the diagonal is neither read nor written.  A is the upper part of a (p + s, p),
    and each row b below it becomes the solution of ``L x = b``.
    """
    n, p = a.shape
    for i in range(n):
        for j in range(i + 1 if i < p else p):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(total) if i == j else total / a[j, j]
