"""Mean curves of the two tasks that are differential equations, compiled, one row at a time."""

from __future__ import annotations

import numba
import numpy as np

#: Relative and absolute error of a step of the Lotka-Volterra curves.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-12
#: Most steps of a curve; what needs more is far from any observation and ends as nan.
_MOST_STEPS = 20_000
#: Steps of a day of the epidemic.
_PER_DAY = 6
# The tableau of Dormand and Prince: stages 5 and 6, the solution, and its difference from order 4.
_A51, _A52, _A53, _A54 = 19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729
_A61, _A62, _A63, _A64, _A65 = 9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656
_B1, _B3, _B4, _B5, _B6 = 35 / 384, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
_E1, _E3, _E4 = 71 / 57600, -71 / 16695, 71 / 1920
_E5, _E6, _E7 = -17253 / 339200, 22 / 525, -1 / 40


@numba.njit(cache=True, nogil=True)
def sir_infected(theta: np.ndarray, n_times: int, days_between: int) -> np.ndarray:
    """Shares of a million that are infected: (n, 2) rates of contact, recovery -> (n, n_times).

    One is infected at the start, which is the first time.  Runge-Kutta of fourth order, 6 steps a
    day: the rates of the prior are below one or two a day.
    """
    out = np.empty((len(theta), n_times))
    h = 1.0 / _PER_DAY
    for i in range(len(theta)):
        b, g = theta[i, 0], theta[i, 1]
        y, s = 1e-6, 1.0 - 1e-6
        out[i, 0] = y
        for k in range(1, n_times):
            for _ in range(days_between * _PER_DAY):
                s1 = -b * s * y
                y1 = -s1 - g * y
                s2 = -b * (s + 0.5 * h * s1) * (y + 0.5 * h * y1)
                y2 = -s2 - g * (y + 0.5 * h * y1)
                s3 = -b * (s + 0.5 * h * s2) * (y + 0.5 * h * y2)
                y3 = -s3 - g * (y + 0.5 * h * y2)
                s4 = -b * (s + h * s3) * (y + h * y3)
                y4 = -s4 - g * (y + h * y3)
                s += h / 6.0 * (s1 + 2.0 * s2 + 2.0 * s3 + s4)
                y += h / 6.0 * (y1 + 2.0 * y2 + 2.0 * y3 + y4)
            out[i, k] = y
    return out


@numba.njit(cache=True, nogil=True)
def lotka_volterra_curves(theta: np.ndarray, n_times: int, between: float) -> np.ndarray:
    """Prey, then predators, from (30, 1): (n, 4) -> (n, 2 n_times).

    x' = a x - b x y, y' = -c y + d x y, by the pair of orders 5 and 4 of Dormand and Prince (1980)
    with steps that keep the error below 1e-6 of each value: booms are fast for a while.
    """
    out = np.full((len(theta), 2 * n_times), np.nan)
    for i in range(len(theta)):
        a, b, c, d = theta[i, 0], theta[i, 1], theta[i, 2], theta[i, 3]
        x, y, h, steps = 30.0, 1.0, 0.05, 0
        x1, y1 = x * (a - b * y), y * (d * x - c)
        out[i, 0], out[i, n_times] = x, y
        for k in range(1, n_times):
            left = between
            while left > 0.0 and steps < _MOST_STEPS:
                steps += 1
                s = min(h, left)
                u, v = x + s * x1 / 5.0, y + s * y1 / 5.0
                x2, y2 = u * (a - b * v), v * (d * u - c)
                u = x + s * (3.0 / 40.0 * x1 + 9.0 / 40.0 * x2)
                v = y + s * (3.0 / 40.0 * y1 + 9.0 / 40.0 * y2)
                x3, y3 = u * (a - b * v), v * (d * u - c)
                u = x + s * (44.0 / 45.0 * x1 - 56.0 / 15.0 * x2 + 32.0 / 9.0 * x3)
                v = y + s * (44.0 / 45.0 * y1 - 56.0 / 15.0 * y2 + 32.0 / 9.0 * y3)
                x4, y4 = u * (a - b * v), v * (d * u - c)
                u = x + s * (_A51 * x1 + _A52 * x2 + _A53 * x3 + _A54 * x4)
                v = y + s * (_A51 * y1 + _A52 * y2 + _A53 * y3 + _A54 * y4)
                x5, y5 = u * (a - b * v), v * (d * u - c)
                u = x + s * (_A61 * x1 + _A62 * x2 + _A63 * x3 + _A64 * x4 + _A65 * x5)
                v = y + s * (_A61 * y1 + _A62 * y2 + _A63 * y3 + _A64 * y4 + _A65 * y5)
                x6, y6 = u * (a - b * v), v * (d * u - c)
                u = x + s * (_B1 * x1 + _B3 * x3 + _B4 * x4 + _B5 * x5 + _B6 * x6)
                v = y + s * (_B1 * y1 + _B3 * y3 + _B4 * y4 + _B5 * y5 + _B6 * y6)
                x7, y7 = u * (a - b * v), v * (d * u - c)
                e = s * (_E1 * x1 + _E3 * x3 + _E4 * x4 + _E5 * x5 + _E6 * x6 + _E7 * x7)
                f = s * (_E1 * y1 + _E3 * y3 + _E4 * y4 + _E5 * y5 + _E6 * y6 + _E7 * y7)
                error = max(
                    abs(e) / (_ABSOLUTE + _RELATIVE * max(abs(x), abs(u))),
                    abs(f) / (_ABSOLUTE + _RELATIVE * max(abs(y), abs(v))),
                )
                if s == h or error > 1.0:
                    h = s * (5.0 if error < 1e-4 else min(5.0, max(0.2, 0.9 * error**-0.2)))
                if error <= 1.0:
                    x, y, x1, y1 = u, v, x7, y7
                    left = 0.0 if s == left else left - s
            if steps >= _MOST_STEPS:
                break
            out[i, k], out[i, n_times + k] = x, y
    return out
