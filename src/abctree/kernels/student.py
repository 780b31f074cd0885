"""Sums of Student kernels, compiled."""

from __future__ import annotations

from typing import Any

from abctree.kernels.jit import jit


@jit
def student_sums(y: Any, centre: Any, weight: Any, freedom: float, power: int, out: Any) -> None:
    """``out_i = Σ_j w_j (1 + |y_i − c_j|² / ν)^(−power)``.

    Parameters
    ----------
    y : (n, d) array
        Points.
    centre : (d, N) array
        One row a coordinate: the loop over centres is the inner one, and is vectorised.
    weight : (N,) array
    freedom : float
        ν.
    power : int
        A whole number, so that no logarithm is taken.
    out : (n,) array
        Written to.
    """
    d, n_centres = centre.shape
    square = weight.copy()
    for i in range(len(y)):
        for j in range(n_centres):
            away = y[i, 0] - centre[0, j]
            square[j] = away * away
        for c in range(1, d):
            for j in range(n_centres):
                away = y[i, c] - centre[c, j]
                square[j] += away * away
        total = 0.0
        for j in range(n_centres):
            base = 1.0 / (1.0 + square[j] / freedom)
            value = weight[j]
            for _ in range(power):
                value *= base
            total += value
        out[i] = total
