"""Compiled simulators of the ready-made problems: one row of theta and one seed per simulation.

A row's result depends on its theta and its seed only, so it is the same in every batch.  The
generator is our own because numba's global state would tie a row to the rows before it:

- bits: xoshiro256++ 1.0 of Blackman and Vigna, "Scrambled linear pseudorandom number generators",
  ACM TOMS 47 (2021), started from the seed by SplitMix64 (Steele, Lea and Flood, "Fast splittable
  pseudorandom number generators", OOPSLA 2014), as its authors recommend;
- normals: the ziggurat of Marsaglia and Tsang, "The ziggurat method for generating random
  variables", J. Stat. Software 5(8) (2000), with 256 layers;
- exponentials: minus the logarithm of a uniform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np

from abctree.types import FloatArray, SeedArray

F = TypeVar("F", bound=Callable[..., object])


def _compiled(function: F) -> F:
    """Compile at the first call, keep the machine code on disk, and release the GIL."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


# --- the generator -------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Shift counts are uint64 as well: numba turns uint64 with a signed integer into a float.
_7, _11, _12, _17, _23, _27, _30, _31, _45 = (
    np.uint64(k) for k in (7, 11, 12, 17, 23, 27, 30, 31, 45)
)
_64 = np.uint64(64)
_LAYER_BITS = np.uint64(0xFF)
_TO_UNIT = 2.0**-52

_N_LAYERS = 256
_TAIL_START = 3.6541528853610088  # Marsaglia and Tsang's r for 256 layers


def _ziggurat() -> tuple[FloatArray, FloatArray]:
    """Edges x_0 > x_1 = r > ... > x_256 = 0 of layers of equal area, and the density there."""
    density_at_tail = math.exp(-0.5 * _TAIL_START**2)
    tail = math.sqrt(math.pi / 2) * math.erfc(_TAIL_START / math.sqrt(2))
    area = _TAIL_START * density_at_tail + tail
    edge = np.zeros(_N_LAYERS + 1)
    edge[0] = area / density_at_tail  # the base layer, tail included, as a rectangle
    edge[1] = _TAIL_START
    for i in range(2, _N_LAYERS):
        below = math.exp(-0.5 * edge[i - 1] ** 2)
        edge[i] = math.sqrt(-2.0 * math.log(area / edge[i - 1] + below))
    return edge, np.exp(-0.5 * edge**2)


_EDGE, _DENSITY = _ziggurat()


@_compiled
def _rotated(bits: np.uint64, k: np.uint64) -> np.uint64:
    return (bits << k) | (bits >> (_64 - k))


@_compiled
def _start(state: SeedArray, seed: np.uint64) -> None:
    """Fill the state (4,) of xoshiro256++ with four outputs of SplitMix64."""
    for i in range(4):
        seed += _GOLDEN
        z = seed
        z = (z ^ (z >> _30)) * _MIX_1
        z = (z ^ (z >> _27)) * _MIX_2
        state[i] = z ^ (z >> _31)


@_compiled
def _bits(state: SeedArray) -> np.uint64:
    """The next 64 bits."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    out: np.uint64 = _rotated(s0 + s3, _23) + s0
    t = s1 << _17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = _rotated(s3, _45)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return out


@_compiled
def _uniform(state: SeedArray) -> float:
    """A draw of the open interval (0, 1): the middle of one of 2^52 equal cells."""
    return (float(_bits(state) >> _12) + 0.5) * _TO_UNIT


@_compiled
def _exponential(state: SeedArray) -> float:
    return -math.log(_uniform(state))


@_compiled
def _normal_tail(state: SeedArray) -> float:
    """A normal beyond r (Marsaglia 1964)."""
    while True:
        beyond = -math.log(_uniform(state)) / _TAIL_START
        if -2.0 * math.log(_uniform(state)) >= beyond * beyond:
            return _TAIL_START + beyond


@_compiled
def _normal(state: SeedArray) -> float:
    while True:
        bits = _bits(state)
        # The low 8 bits choose the layer, the high 52 the place in it: no bit serves both.
        layer = np.int64(bits & _LAYER_BITS)
        u = 2.0 * ((float(bits >> _12) + 0.5) * _TO_UNIT) - 1.0
        x: float = u * _EDGE[layer]
        if abs(x) < _EDGE[layer + 1]:
            return x
        if layer == 0:
            return math.copysign(_normal_tail(state), u)
        low, high = _DENSITY[layer], _DENSITY[layer + 1]
        if low + _uniform(state) * (high - low) < math.exp(-0.5 * x * x):
            return x


@_compiled
def uniform_draws(seeds: SeedArray, n: int) -> FloatArray:
    """The first n uniforms of each seed's stream (n_seeds, n)."""
    out = np.empty((len(seeds), n))
    state = np.empty(4, np.uint64)
    for i in range(len(seeds)):
        _start(state, seeds[i])
        for j in range(n):
            out[i, j] = _uniform(state)
    return out


@_compiled
def normal_draws(seeds: SeedArray, n: int) -> FloatArray:
    """The first n standard normals of each seed's stream (n_seeds, n)."""
    out = np.empty((len(seeds), n))
    state = np.empty(4, np.uint64)
    for i in range(len(seeds)):
        _start(state, seeds[i])
        for j in range(n):
            out[i, j] = _normal(state)
    return out


@_compiled
def exponential_draws(seeds: SeedArray, n: int) -> FloatArray:
    """The first n standard exponentials of each seed's stream (n_seeds, n)."""
    out = np.empty((len(seeds), n))
    state = np.empty(4, np.uint64)
    for i in range(len(seeds)):
        _start(state, seeds[i])
        for j in range(n):
            out[i, j] = _exponential(state)
    return out


# --- toy models ----------------------------------------------------------------------------------


@_compiled
def gauss(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """y ~ N(theta, I): (n, d) -> (n, d)."""
    n, d = theta.shape
    out = np.empty((n, d))
    state = np.empty(4, np.uint64)
    for i in range(n):
        _start(state, seeds[i])
        for j in range(d):
            out[i, j] = theta[i, j] + _normal(state)
    return out


@_compiled
def gaussian_mixture(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """x ~ .3 N(theta, I) + .7 N(theta + 3, I/4): (n, d) -> (n, d)."""
    n, d = theta.shape
    out = np.empty((n, d))
    state = np.empty(4, np.uint64)
    for i in range(n):
        _start(state, seeds[i])
        wide = _uniform(state) < 0.3
        offset, sd = (0.0, 1.0) if wide else (3.0, 0.5)
        for j in range(d):
            out[i, j] = theta[i, j] + offset + sd * _normal(state)
    return out


@_compiled
def banana(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """The five-dimensional banana, (n, 5) -> (n, 5)."""
    n = theta.shape[0]
    out = np.empty((n, 5))
    state = np.empty(4, np.uint64)
    for i in range(n):
        _start(state, seeds[i])
        a, b, c, e, f = theta[i, 0], theta[i, 1], theta[i, 2], theta[i, 3], theta[i, 4]
        out[i, 0] = a + 0.5 * _normal(state)
        out[i, 1] = b + a * a - 1.0 + 0.3 * _normal(state)
        out[i, 2] = c + 0.5 * _normal(state)
        out[i, 3] = math.sin(2.0 * e) + 0.3 * _normal(state)
        out[i, 4] = f + 0.3 * c * f + 0.5 * _normal(state)
    return out


@_compiled
def finite_normal(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """U ~ U(j - 1, j), x ~ N(U, variance 5): j (n, 1) -> (n, 1)."""
    n = theta.shape[0]
    out = np.empty((n, 1))
    state = np.empty(4, np.uint64)
    sd = math.sqrt(5.0)
    for i in range(n):
        _start(state, seeds[i])
        u = theta[i, 0] - 1.0 + _uniform(state)
        out[i, 0] = u + sd * _normal(state)
    return out


# --- prey and predators --------------------------------------------------------------------------


@_compiled
def _jump_path(
    rates: FloatArray,
    start: FloatArray,
    times: FloatArray,
    max_events: int,
    state: SeedArray,
    path: FloatArray,
) -> None:
    """One exact path of the Lotka-Volterra jump process, recorded at `times` into path (m, 2).

    The four events are independent (Gillespie's direct method): prey + 1 at rates[0] x, prey - 1
    at rates[1] x y, predators + 1 at rates[2] x y, predators - 1 at rates[3] y.  After
    `max_events` events, or when nothing can happen any more, the state is held.
    """
    birth, predation, growth, death = rates[0], rates[1], rates[2], rates[3]
    x, y = start[0], start[1]
    m = len(times)
    k = 0
    t = 0.0
    for _ in range(max_events):
        a = birth * x
        b = a + predation * x * y
        c = b + growth * x * y
        total = c + death * y
        if total <= 0.0:
            break
        t += _exponential(state) / total
        while k < m and times[k] < t:
            path[k, 0] = x
            path[k, 1] = y
            k += 1
        if k == m:
            return
        u = _uniform(state) * total
        # Sums of selected numbers instead of branches: the next event cannot be predicted.
        in_a = 1.0 if u < a else 0.0
        in_b = 1.0 if u < b else 0.0
        in_c = 1.0 if u < c else 0.0
        x += 2.0 * in_a - in_b
        y += 2.0 * in_c - in_b - 1.0
    while k < m:
        path[k, 0] = x
        path[k, 1] = y
        k += 1


@_compiled
def jump_process(
    theta: FloatArray,
    seeds: SeedArray,
    start: FloatArray,
    times: FloatArray,
    max_events: int,
) -> FloatArray:
    """Prey and predators at increasing `times` (m,): rates (n, 4) -> counts (n, m, 2).

    `start` (2,) are the whole numbers of prey and predators at time 0.
    """
    n = theta.shape[0]
    out = np.empty((n, len(times), 2))
    state = np.empty(4, np.uint64)
    for i in range(n):
        _start(state, seeds[i])
        _jump_path(theta[i], start, times, max_events, state, out[i])
    return out


@_compiled
def _series_summary(series: FloatArray, summary: FloatArray) -> float:
    """Mean, log(variance + 1), autocorrelations at lags 1 and 2 (biased; 0 if constant)."""
    m = len(series)
    mean = 0.0
    for k in range(m):
        mean += series[k]
    mean /= m
    moment, lag_1, lag_2 = 0.0, 0.0, 0.0
    for k in range(m):
        here = series[k] - mean
        moment += here * here
        if k >= 1:
            lag_1 += here * (series[k - 1] - mean)
        if k >= 2:
            lag_2 += here * (series[k - 2] - mean)
    summary[0] = mean
    summary[1] = math.log(moment / m + 1.0)
    summary[2] = lag_1 / moment if moment > 0.0 else 0.0
    summary[3] = lag_2 / moment if moment > 0.0 else 0.0
    return float(moment)


@_compiled
def lotka_volterra(
    theta: FloatArray,
    seeds: SeedArray,
    start: FloatArray,
    times: FloatArray,
    max_events: int,
) -> FloatArray:
    """Nine summaries of the jump process, (n, 4) -> (n, 9).

    Means of x and y, log(variance + 1) of x and y, autocorrelations of x at lags 1 and 2, then of
    y, and the correlation of x and y (0 where a variance is 0).
    """
    n = theta.shape[0]
    out = np.empty((n, 9))
    state = np.empty(4, np.uint64)
    path = np.empty((len(times), 2))
    prey, predators = np.empty(4), np.empty(4)
    for i in range(n):
        _start(state, seeds[i])
        _jump_path(theta[i], start, times, max_events, state, path)
        var_x = _series_summary(path[:, 0], prey)
        var_y = _series_summary(path[:, 1], predators)
        cross = 0.0
        for k in range(len(times)):
            cross += (path[k, 0] - prey[0]) * (path[k, 1] - predators[0])
        constant = var_x <= 0.0 or var_y <= 0.0
        out[i, 0], out[i, 1] = prey[0], predators[0]
        out[i, 2], out[i, 3] = prey[1], predators[1]
        out[i, 4], out[i, 5] = prey[2], prey[3]
        out[i, 6], out[i, 7] = predators[2], predators[3]
        out[i, 8] = 0.0 if constant else cross / math.sqrt(var_x * var_y)
    return out


# --- stochastic volatility -----------------------------------------------------------------------


@_compiled
def _heston_path(
    theta: FloatArray, drift: float, dt: float, state: SeedArray, returns: FloatArray
) -> None:
    """One path of log returns by the full-truncation Euler scheme."""
    kappa, xi, v, rho, sigma = theta[0], theta[1], theta[2], theta[3], theta[4]
    root_dt = math.sqrt(dt)
    other = math.sqrt(max(0.0, 1.0 - rho * rho))
    for k in range(len(returns)):
        positive = max(v, 0.0)
        noise = math.sqrt(positive) * root_dt
        a, b = _normal(state), _normal(state)
        returns[k] = (drift - 0.5 * positive) * dt + noise * a
        v += kappa * (xi - positive) * dt + sigma * noise * (rho * a + other * b)


@_compiled
def heston_returns(
    theta: FloatArray, seeds: SeedArray, n_steps: int, drift: float, dt: float
) -> FloatArray:
    """Log returns of the Heston model, (n, 5) -> (n, n_steps)."""
    n = theta.shape[0]
    out = np.empty((n, n_steps))
    state = np.empty(4, np.uint64)
    for i in range(n):
        _start(state, seeds[i])
        _heston_path(theta[i], drift, dt, state, out[i])
    return out


@_compiled
def _heston_summary(r: FloatArray, out: FloatArray) -> None:
    n = len(r)
    mean_r, mean_s = 0.0, 0.0
    for k in range(n):
        mean_r += r[k]
        mean_s += r[k] * r[k]
    mean_r /= n
    mean_s /= n
    var_r, var_s, cross, lag_1, lag_2 = 0.0, 0.0, 0.0, 0.0, 0.0
    last, before = 0.0, 0.0
    for k in range(n):
        here_r = r[k] - mean_r
        here_s = r[k] * r[k] - mean_s
        var_r += here_r * here_r
        var_s += here_s * here_s
        cross += here_r * here_s
        lag_1 += here_s * last
        lag_2 += here_s * before
        before = last
        last = here_s
    # A floor far below any path keeps the logarithm finite when the returns are constant.
    tiny = 1e-300
    out[0] = mean_r
    out[1] = mean_s
    out[2] = 0.5 * math.log(max(var_r / n, tiny))
    out[3] = 0.5 * math.log(max(var_s / n, tiny))
    out[4] = lag_1 / var_s if var_s > 0.0 else 0.0
    out[5] = lag_2 / var_s if var_s > 0.0 else 0.0
    constant = var_r <= 0.0 or var_s <= 0.0
    out[6] = 0.0 if constant else cross / math.sqrt(var_r * var_s)


@_compiled
def heston(
    theta: FloatArray, seeds: SeedArray, n_steps: int, drift: float, dt: float
) -> FloatArray:
    """Seven summaries of the log returns r of the Heston model, (n, 5) -> (n, 7).

    Mean of r, mean of r², log sd of r, log sd of r², autocorrelations of r² at lags 1 and 2
    (biased), correlation of r and r².
    """
    n = theta.shape[0]
    out = np.empty((n, 7))
    state = np.empty(4, np.uint64)
    returns = np.empty(n_steps)
    for i in range(n):
        _start(state, seeds[i])
        _heston_path(theta[i], drift, dt, state, returns)
        _heston_summary(returns, out[i])
    return out
