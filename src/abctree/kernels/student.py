"""Student laws on the log-odds of the coordinates of the cube, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abctree.kernels.cholesky import factor
from abctree.kernels.jit import jit

#: Distance that points keep from the faces of the cube.
EDGE = 1e-12
#: Slope above which it is known to all digits: of many coordinates at faces it is none of a double.
LEAST_SLOPE = 1e-290
#: Points of which a mixture is worked out together.
_AT_ONCE = 128


@jit(inner=True)
def write_log_odds(u: Any, y: Any) -> float:
    """``y = log(u / (1 − u))`` of the coordinates (d,) of a point; Π u (1 − u)."""
    slope = 1.0
    for a in range(len(u)):
        v = min(max(u[a], EDGE), 1.0 - EDGE)
        y[a] = math.log(v / (1.0 - v))
        slope *= v * (1.0 - v)
    return slope


@jit(inner=True)
def per_volume(density: float, u: Any, slope: float) -> float:
    """A density of log-odds as one of the point u (d,); slope is Π u (1 − u)."""
    if slope > LEAST_SLOPE:
        return density / slope
    for a in range(len(u)):
        v = min(max(u[a], EDGE), 1.0 - EDGE)
        density /= v * (1.0 - v)
    return density


@jit(inner=True)
def root_power(base: float, n: int) -> float:
    """``base^(n/2)`` for a whole number n, without a logarithm."""
    value = math.sqrt(base) if n % 2 else 1.0
    for _ in range(n // 2):
        value *= base
    return value


@jit(fastmath={"reassoc", "contract", "nsz"}, inner=True)
def _write_steps(whiten: Any, y: Any, at: Any) -> None:
    """``at = W y``."""
    for c in range(len(y)):
        at[c] = 0.0
        for a in range(len(y)):
            at[c] += whiten[c, a] * y[a]


@jit(fastmath={"reassoc", "contract", "nsz"})
def student_sums(
    cube: Any, whiten: Any, centre: Any, weight: Any, freedom: float, power: int, out: Any
) -> None:
    """``out_i = Σ_j w_j (1 + |W y_i − c_j|² / ν)^(−power) / Π u_i (1 − u_i)``, y the log-odds of u.

    Of points u (n, d).  Centres c (d, N) have one row a coordinate: loops over them are the inner
    ones, and are vectorised.  The power is a whole number of at least 3, so that no logarithm is
    taken.
    """
    d, n_centres = centre.shape
    rows = max(3, d + 1 - d % 2)  # those that are added are zero, at no distance of any point
    c = np.zeros((rows, n_centres))
    for a in range(d):
        for j in range(n_centres):
            c[a, j] = centre[a, j]
    square, value = np.full(n_centres, float(freedom)), np.empty(n_centres)
    y, at = np.empty(d), np.zeros(rows)
    is_fourth, is_fifth = power > 3, power > 4
    for i in range(len(cube)):
        slope, total = write_log_odds(cube[i], y), 0.0
        _write_steps(whiten, y, at)
        if power > 5:  # it has been written over
            square[:] = freedom
        for a in range(3, rows, 2):  # by two: squares are read and written half as often
            for j in range(n_centres):
                away, other = at[a] - c[a, j], at[a + 1] - c[a + 1, j]
                before = square[j] if a > 3 else freedom
                square[j] = before + away * away + other * other
        if power <= 5:  # a branch inside of the loop would keep it from being vectorised
            for j in range(n_centres):  # processors divide beside what else they do
                away, other, third = at[0] - c[0, j], at[1] - c[1, j], at[2] - c[2, j]
                base = freedom / (square[j] + away * away + other * other + third * third)
                two = base * base
                more = base if is_fifth else 1.0
                total += two * (two if is_fourth else base) * (more * weight[j])
        else:
            for j in range(n_centres):
                away, other, third = at[0] - c[0, j], at[1] - c[1, j], at[2] - c[2, j]
                base = freedom / (square[j] + away * away + other * other + third * third)
                two = base * base
                square[j], value[j] = base, two * two * (base * weight[j])
            for _ in range(power - 6):
                for j in range(n_centres):
                    value[j] *= square[j]
            for j in range(n_centres):
                total += value[j] * square[j]
        out[i] = per_volume(total, cube[i], slope)


@jit
def student_mixture(
    cube: Any, amplitude: Any, mean: Any, whiten: Any, freedom: int, out: Any
) -> None:
    """``out_i = Σ_k (a_k / (ν + |W_k (y_i − m_k)|²))^((ν + d)/2) / Π u_i (1 − u_i)``.

    With a (K,), m (K, d), and W (K, d, d), which are lower triangular; else as `student_sums`.
    Loops over some points are the inner ones, and are vectorised.
    """
    n, d = cube.shape
    y, point = np.empty((d, _AT_ONCE)), np.empty(d)
    slope, total, square = np.empty(_AT_ONCE), np.empty(_AT_ONCE), np.empty(_AT_ONCE)
    step, power = np.empty(_AT_ONCE), np.empty(_AT_ONCE)
    for first in range(0, n, _AT_ONCE):
        some = cube[first : first + _AT_ONCE]
        for i in range(len(some)):
            slope[i] = write_log_odds(some[i], point)
            total[i] = 0.0
            for a in range(d):
                y[a, i] = point[a]
        for k in range(len(mean)):
            square[:] = float(freedom)
            for a in range(d):
                step[:] = 0.0
                for b in range(a + 1):
                    scale, middle, away = whiten[k, a, b], mean[k, b], y[b]
                    for i in range(len(some)):
                        step[i] += scale * (away[i] - middle)
                for i in range(len(some)):
                    square[i] += step[i] * step[i]
            for i in range(len(some)):
                square[i] = amplitude[k] / square[i]
                power[i] = math.sqrt(square[i]) if (freedom + d) % 2 else 1.0
            for _ in range((freedom + d) // 2):
                for i in range(len(some)):
                    power[i] *= square[i]
            for i in range(len(some)):
                total[i] += power[i]
        for i in range(len(some)):
            out[first + i] = per_volume(total[i], some[i], slope[i])


def student_em(
    y: Any, weight: Any, fixed: Any, mean: Any, whole: Any, mass: Any, freedom: int,
    prior: float, ridge: float, least: float, n_steps: int,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Fit a mixture of Student laws, beside one whose density is `fixed`, by the EM algorithm.

    Points y (n, d) have weights of sum 1.  The laws start at `mean` (K, d) with shares `mass` and
    the covariance `whole` (d, d), to which each is shrunk with the strength of `prior` points; a
    variance gains `ridge` of itself and `least`.  The answer is the shares, the means, and lower
    triangular roots of the covariances (K, d, d).
    """
    n_laws, d = mean.shape
    mass, mean = mass.copy(), mean.copy()
    cov, root = np.stack([whole] * n_laws), np.zeros((n_laws, d, d))
    _student_em(
        y, weight, fixed, mean, whole, mass, freedom, prior, ridge, least, n_steps, cov, root
    )
    return mass, mean, root


@jit
def _student_em(
    y: Any, weight: Any, fixed: Any, mean: Any, whole: Any, mass: Any, freedom: int, prior: float,
    ridge: float, least: float, n_steps: int, cov: Any, root: Any,
) -> None:  # fmt: skip
    """Do the steps of `student_em` from covariances (K, d, d), all in place."""
    n_laws, d = mean.shape
    # Room that is made here is known to be no part of what is given: it is faster.
    whiten, second = np.empty((n_laws, d, d)), np.empty((n_laws, d, d))
    first = np.empty((n_laws, d))
    amplitude, density, square = np.empty(n_laws), np.empty(n_laws), np.empty(n_laws)
    member, pull = np.empty(n_laws), np.empty(n_laws)
    total = 0.0
    for i in range(len(weight)):
        total += weight[i] * weight[i]
    size = 1.0 / total  # points that all the weight is worth
    power = 0.5 * (freedom + d)
    norm = math.lgamma(power) - math.lgamma(0.5 * freedom) - 0.5 * d * math.log(math.pi * freedom)
    for step in range(n_steps + 1):
        total = 0.0
        for k in range(n_laws):
            total += mass[k]
            for a in range(d):
                for b in range(a + 1):
                    root[k, a, b] = cov[k, a, b]
                root[k, a, a] += ridge * cov[k, a, a] + least
            factor(root[k])
            amplitude[k] = math.log(mass[k]) + norm
            for a in range(d):
                amplitude[k] -= math.log(root[k, a, a])
                whiten[k, a, a] = 1.0 / root[k, a, a]
                for b in range(a):
                    whitened = 0.0
                    for c in range(b, a):
                        whitened -= root[k, a, c] * whiten[k, c, b]
                    whiten[k, a, b] = whitened * whiten[k, a, a]
            amplitude[k] = freedom * math.exp(amplitude[k] / power)
        if step == n_steps:
            break
        rest = 1.0 - total
        first[:] = 0.0
        second[:] = 0.0
        member[:] = 0.0
        pull[:] = 0.0
        for i in range(len(y)):
            total = rest * fixed[i] + 1e-300
            for k in range(n_laws):
                square[k] = 0.0
                for a in range(d):
                    away = 0.0
                    for b in range(a + 1):
                        away += whiten[k, a, b] * (y[i, b] - mean[k, b])
                    square[k] += away * away
                density[k] = root_power(amplitude[k] / (freedom + square[k]), freedom + d)
                total += density[k]
            for k in range(n_laws):
                share = weight[i] * density[k] / total
                member[k] += share
                share *= 2.0 * power / (freedom + square[k])
                pull[k] += share
                for a in range(d):
                    away = share * (y[i, a] - mean[k, a])
                    first[k, a] += away
                    for b in range(a + 1):
                        second[k, a, b] += away * (y[i, b] - mean[k, b])
        for k in range(n_laws):
            pulled = max(pull[k], 1e-300)
            for a in range(d):
                for b in range(a + 1):
                    scatter = second[k, a, b] - first[k, a] * (first[k, b] / pulled)
                    cov[k, a, b] = scatter * size + prior * whole[a, b]
                    cov[k, a, b] /= member[k] * size + prior
                mean[k, a] += first[k, a] / pulled
            mass[k] = (member[k] * size + 0.5) / (size + 0.5 * (n_laws + 1))
