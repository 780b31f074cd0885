"""Sums of Gaussian kernels, compiled so that the loops over the kernels are vectorised."""

from __future__ import annotations

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray

#: Exponents below this count for nothing; exp of smaller ones is subnormal in the end.
_NOTHING = -600.0
_LOG2_E = 1.4426950408889634
#: Log(2) in two parts, the first with so few digits that its multiples are exact.
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Added to a float it leaves the nearest whole number in the last bits.
_TO_WHOLE = 1.5 * 2.0**52
_BIAS, _FRACTION = 1023, 52


@jit(fastmath={"contract"}, inner=True)
def _exp(x: FloatArray, power: FloatArray) -> None:
    """``exp(x)`` in place (n,), of x in [-600, 0]; `power` (n,) is room for 2^k.

    As exp(r) · 2^k with k whole and |r| <= log(2) / 2, of which the series has no loop and no
    branch: the compiler takes several numbers at once, which it does not with `math.exp`.
    """
    bits = power.view(np.int64)
    for j in range(len(x)):
        moved = x[j] * _LOG2_E + _TO_WHOLE
        k = moved - _TO_WHOLE
        power[j] = moved
        x[j] = (x[j] - k * _LOG_2) - k * _LOG_2_REST
    for j in range(len(x)):
        bits[j] = (bits[j] + _BIAS) << _FRACTION
    for j in range(len(x)):
        r = x[j]
        series = r * (1.0 / 479001600.0) + 1.0 / 39916800.0
        series = r * series + 1.0 / 3628800.0
        series = r * series + 1.0 / 362880.0
        series = r * series + 1.0 / 40320.0
        series = r * series + 1.0 / 5040.0
        series = r * series + 1.0 / 720.0
        series = r * series + 1.0 / 120.0
        series = r * series + 1.0 / 24.0
        series = r * series + 1.0 / 6.0
        series = r * series + 0.5
        series = r * series + 1.0
        series = r * series + 1.0
        x[j] = series * power[j]


@jit(inner=True)
def _squares(point: FloatArray, centre: FloatArray, found: FloatArray) -> None:
    """``|y − c_j|²`` (N,) of a point (d,), rounded as NumPy rounds it."""
    found[:] = 0.0
    for c in range(len(centre)):
        at = point[c]
        for j in range(len(found)):
            away = at - centre[c, j]
            found[j] += away * away


@jit
def squared_distances(y: FloatArray, centre: FloatArray) -> FloatArray:
    """``|y_i − c_j|²`` (n, N) of points (n, d), rounded as NumPy rounds it.

    Centres (d, N) have one row a coordinate.
    """
    found = np.empty((len(y), centre.shape[1]))
    for i in range(len(y)):
        _squares(y[i], centre, found[i])
    return found


@jit(fastmath={"reassoc", "contract"})
def gaussian_sums(
    y: FloatArray, centre: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """S (n,) and a (n,) with ``S_i exp(a_i) = Σ_j w_j exp(−|y_i − c_j|² / 2)``, of points (n, d).

    Centres (d, N) have one row a coordinate.  The largest term of a sum is exp(a_i) without its
    weight, so that no sum is lost to underflow.
    """
    n, d = y.shape
    n_centres = len(weight)
    total, largest = np.empty(n), np.empty(n)
    x, power = np.empty(n_centres), np.empty(n_centres)
    for i in range(n):
        x[:] = 0.0
        for c in range(d):
            at = y[i, c]
            for j in range(n_centres):
                away = at - centre[c, j]
                x[j] += away * away
        least = x[0]
        for j in range(n_centres):
            least = min(least, x[j])
        for j in range(n_centres):
            x[j] = max(-0.5 * (x[j] - least), _NOTHING)
        _exp(x, power)
        terms = 0.0
        for j in range(n_centres):
            terms += weight[j] * x[j]
        total[i] = terms
        largest[i] = -0.5 * least
    return total, largest
