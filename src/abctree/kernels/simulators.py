"""Compiled simulators of the ready-made problems: one row of theta and one seed per simulation.

A row's result depends on its theta and its seed only, so it is the same in every batch.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.generator import exponential, normal, start_state, uniform
from abctree.kernels.jit import jit
from abctree.types import FloatArray, SeedArray

# --- plain draws ---------------------------------------------------------------------------------


@jit
def normal_draws(seeds: SeedArray, n: int) -> FloatArray:
    """The first n standard normals of each seed's stream (n_seeds, n)."""
    out = np.empty((len(seeds), n))
    state = np.empty(4, np.uint64)
    for i in range(len(seeds)):
        start_state(state, seeds[i])
        for j in range(n):
            out[i, j] = normal(state)
    return out


# --- toy models ----------------------------------------------------------------------------------


@jit
def gauss(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """y ~ N(theta, I): (n, d) -> (n, d)."""
    n, d = theta.shape
    out = np.empty((n, d))
    state = np.empty(4, np.uint64)
    for i in range(n):
        start_state(state, seeds[i])
        for j in range(d):
            out[i, j] = theta[i, j] + normal(state)
    return out


@jit
def gaussian_mixture(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """x ~ .3 N(theta, I) + .7 N(theta + 3, I/4): (n, d) -> (n, d)."""
    n, d = theta.shape
    out = np.empty((n, d))
    state = np.empty(4, np.uint64)
    for i in range(n):
        start_state(state, seeds[i])
        wide = uniform(state) < 0.3
        offset, sd = (0.0, 1.0) if wide else (3.0, 0.5)
        for j in range(d):
            out[i, j] = theta[i, j] + offset + sd * normal(state)
    return out


@jit
def banana(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """The five-dimensional banana, (n, 5) -> (n, 5)."""
    n = theta.shape[0]
    out = np.empty((n, 5))
    state = np.empty(4, np.uint64)
    for i in range(n):
        start_state(state, seeds[i])
        a, b, c, e, f = theta[i, 0], theta[i, 1], theta[i, 2], theta[i, 3], theta[i, 4]
        out[i, 0] = a + 0.5 * normal(state)
        out[i, 1] = b + a * a - 1.0 + 0.3 * normal(state)
        out[i, 2] = c + 0.5 * normal(state)
        out[i, 3] = math.sin(2.0 * e) + 0.3 * normal(state)
        out[i, 4] = f + 0.3 * c * f + 0.5 * normal(state)
    return out


@jit
def finite_normal(theta: FloatArray, seeds: SeedArray) -> FloatArray:
    """U ~ U(j - 1, j), x ~ N(U, variance 5): j (n, 1) -> (n, 1)."""
    n = theta.shape[0]
    out = np.empty((n, 1))
    state = np.empty(4, np.uint64)
    sd = math.sqrt(5.0)
    for i in range(n):
        start_state(state, seeds[i])
        u = theta[i, 0] - 1.0 + uniform(state)
        out[i, 0] = u + sd * normal(state)
    return out


# --- prey and predators --------------------------------------------------------------------------


@jit
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
        t += exponential(state) / total
        while k < m and times[k] < t:
            path[k, 0] = x
            path[k, 1] = y
            k += 1
        if k == m:
            return
        u = uniform(state) * total
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


@jit
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
        start_state(state, seeds[i])
        _jump_path(theta[i], start, times, max_events, state, out[i])
    return out


@jit
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


@jit
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
        start_state(state, seeds[i])
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


@jit
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
        a, b = normal(state), normal(state)
        returns[k] = (drift - 0.5 * positive) * dt + noise * a
        v += kappa * (xi - positive) * dt + sigma * noise * (rho * a + other * b)


@jit
def heston_returns(
    theta: FloatArray, seeds: SeedArray, n_steps: int, drift: float, dt: float
) -> FloatArray:
    """Log returns of the Heston model, (n, 5) -> (n, n_steps)."""
    n = theta.shape[0]
    out = np.empty((n, n_steps))
    state = np.empty(4, np.uint64)
    for i in range(n):
        start_state(state, seeds[i])
        _heston_path(theta[i], drift, dt, state, out[i])
    return out


@jit
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


@jit
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
        start_state(state, seeds[i])
        _heston_path(theta[i], drift, dt, state, returns)
        _heston_summary(returns, out[i])
    return out
