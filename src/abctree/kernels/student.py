"""Student laws on the log-odds of the coordinates of the cube, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abctree.kernels.jit import jit

#: Distance that points keep from the faces of the cube.
EDGE = 1e-12


@jit
def write_log_odds(u: Any, y: Any) -> float:
    """``y = log(u / (1 − u))`` of the coordinates (d,) of a point; Π u (1 − u)."""
    slope = 1.0
    for a in range(len(u)):
        v = min(max(u[a], EDGE), 1.0 - EDGE)
        y[a] = math.log(v / (1.0 - v))
        slope *= v * (1.0 - v)
    return slope


@jit
def student_sums(
    cube: Any, whiten: Any, centre: Any, weight: Any, freedom: float, power: int, out: Any
) -> None:
    """``out_i = Σ_j w_j (1 + |W y_i − c_j|² / ν)^(−power) / Π u_i (1 − u_i)``.

    Parameters
    ----------
    cube : (n, d) array
        Points u, with log-odds y.
    whiten : (d, d) array
        W.
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
    square, y = weight.copy(), np.empty(d)
    for i in range(len(cube)):
        slope = write_log_odds(cube[i], y)
        square[:] = 0.0
        for c in range(d):
            at = 0.0
            for a in range(d):
                at += whiten[c, a] * y[a]
            for j in range(n_centres):
                away = at - centre[c, j]
                square[j] += away * away
        total = 0.0
        for j in range(n_centres):
            base = 1.0 / (1.0 + square[j] / freedom)
            value = weight[j]
            for _ in range(power):
                value *= base
            total += value
        out[i] = total / slope


@jit
def student_mixture(
    cube: Any, log_amplitude: Any, mean: Any, whiten: Any, freedom: float, power: float, out: Any
) -> None:
    """``out_i = Σ_k exp(a_k) (1 + |W_k (y_i − m_k)|² / ν)^(−power) / Π u_i (1 − u_i)``.

    Parameters
    ----------
    cube : (n, d) array
        Points u, with log-odds y.
    log_amplitude, mean, whiten : (K,), (K, d) and (K, d, d) array
        a, m, and W, lower triangular.
    freedom, power : float
        ν, and (ν + d) / 2.
    out : (n,) array
        Written to.
    """
    n, d = cube.shape
    y = np.empty(d)
    for i in range(n):
        slope = write_log_odds(cube[i], y)
        total = 0.0
        for k in range(len(mean)):
            square = 0.0
            for a in range(d):
                step = 0.0
                for b in range(a + 1):
                    step += whiten[k, a, b] * (y[b] - mean[k, b])
                square += step * step
            total += math.exp(log_amplitude[k] - power * math.log1p(square / freedom))
        out[i] = total / slope


@jit
def student_moments(
    y: Any, weight: Any, fixed: Any, log_amplitude: Any, mean: Any, whiten: Any, freedom: float,
    power: float,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Sums over points for a step of the EM algorithm; the first as in `student_mixture`.

    Each point (n, d) with its weight belongs to the laws in proportion to their densities there,
    beside that of a law which is `fixed` (n,), and pulls at them by (ν + d) / (ν + |W (y − m)|²).

    Returns
    -------
    mass, pull : (K,) array
        Weight that belongs to a law, and that times the pull.
    first, second : (K, d) and (K, d, d) array
        Sums of y − m and its square by the pull; the second is lower triangular.
    """
    k_all, d = mean.shape
    mass, pull = np.zeros(k_all), np.zeros(k_all)
    first, second = np.zeros((k_all, d)), np.zeros((k_all, d, d))
    density, square = np.empty(k_all), np.empty(k_all)
    for i in range(len(y)):
        total = fixed[i] + 1e-300
        for k in range(k_all):
            square[k] = 0.0
            for a in range(d):
                step = 0.0
                for b in range(a + 1):
                    step += whiten[k, a, b] * (y[i, b] - mean[k, b])
                square[k] += step * step
            density[k] = math.exp(log_amplitude[k] - power * math.log1p(square[k] / freedom))
            total += density[k]
        for k in range(k_all):
            member = weight[i] * density[k] / total
            mass[k] += member
            member *= 2.0 * power / (freedom + square[k])
            pull[k] += member
            for a in range(d):
                away = member * (y[i, a] - mean[k, a])
                first[k, a] += away
                for b in range(a + 1):
                    second[k, a, b] += away * (y[i, b] - mean[k, b])
    return mass, pull, first, second
