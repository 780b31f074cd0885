"""Many draws from few: the published kernel density estimate, and ours.

Both choose one bandwidth by the leave-one-out log-likelihood of the draws.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import expit, logit

from abctree.answers.posterior import Posterior

#: Most draws that a bandwidth is chosen from; of more, a sample in proportion to their weights.
_MOST = 1000
#: Neighbours whose distance makes the size of a kernel.
_NEIGHBOURS = 20
#: Bandwidths that are tried, in standard deviations.
_OURS = np.geomspace(0.01, 1.0, 14)
_THEIRS = np.geomspace(0.004, 0.5, 30)


def published_kde(points: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (n, p) of the benchmark's estimate of points (m, p): one bandwidth, raw parameters.

    The benchmark looks for the bandwidth by cross-validation in 20 folds, between a tenth and half
    of the standard deviation of all numbers in `points`, and below where the lower end is best.
    """
    share = np.full(len(points), 1.0 / len(points))
    centred = points - points.mean(axis=0)
    each = np.ones(len(points))
    fits = [_log_likelihood(centred, h * each, share, keep=False) for h in _THEIRS * points.std()]
    h = _THEIRS[int(np.argmax(fits))] * points.std()
    picked = points[rng.integers(len(points), size=n)]
    return picked + h * rng.standard_normal(picked.shape)


def smooth_draws(
    posterior: Posterior, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Draws (n, p) of a kernel estimate that keeps the mean and the variances; its bandwidth.

    As `Posterior.sample(smooth=True)`, with two differences: the scale without bounds is the logit
    or the logarithm of a parameter, not the probit of its place in the cube; and the draws choose
    bandwidth and shape, so that several modes stay apart and a narrow one stays narrow.  The shape
    is the covariance of the draws or its diagonal, for all kernels alike or in proportion to the
    distance of each to its 20th neighbour.
    """
    z = unbound(posterior.theta, posterior.bounds)
    mean = posterior.weights @ z
    z -= mean
    covariance = _covariance(z, posterior.weights)
    few, count = np.unique(posterior.resample(_MOST, rng), return_counts=True)
    share = count / count.sum()
    best = (-np.inf, 1.0, np.eye(1), False)
    for root in (np.linalg.cholesky(covariance), np.diag(np.sqrt(np.diag(covariance)))):
        white = np.linalg.solve(root, z[few].T).T
        volume = float(np.log(np.diag(root)).sum())
        for local in (False, True):
            scale = _scales(white, white, share) if local else np.ones(len(few))
            for h in _OURS:
                fit = _log_likelihood(white, h * scale, share) - volume
                best = max(best, (fit, float(h), root, local), key=lambda found: found[0])
    _, h, root, local = best
    picked = z[posterior.resample(n, rng)]
    white = np.linalg.solve(root, z[few].T).T
    each = np.full(n, h)
    if local:
        each *= _scales(np.linalg.solve(root, picked.T).T, white, share)
    noise = each[:, None] * rng.standard_normal(picked.shape) @ root.T
    shrink = np.sqrt(max(0.0, 1.0 - float(np.mean(each**2))))
    return bound(mean + shrink * picked + noise, posterior.bounds), h


def _scales(points: np.ndarray, among: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Distance of each point to its 20th neighbour, relative to the geometric mean of `among`."""
    tree = cKDTree(among)
    k = min(_NEIGHBOURS, len(among))

    def reach(x: np.ndarray) -> np.ndarray:
        return np.maximum(np.reshape(tree.query(x, [k])[0], -1), 1e-12)

    typical = float(np.exp(share @ np.log(reach(among))))
    return np.clip(reach(points) / typical, 0.1, 10.0)


def _covariance(centred: np.ndarray, weight: np.ndarray) -> np.ndarray:
    covariance = (centred * weight[:, None]).T @ centred
    return covariance + 1e-9 * np.diag(np.diag(covariance))


def _log_likelihood(
    points: np.ndarray, h: np.ndarray, weight: np.ndarray, *, keep: bool = True
) -> float:
    """Mean log-density of each point under the kernels of all others, up to a constant.

    h (m,) are the bandwidths; with `keep` kernels are shrunk to the mean to keep the variances.
    """
    variance = h * h
    shrink = float(np.sqrt(max(0.0, 1.0 - weight @ variance))) if keep else 1.0
    norm = (points * points).sum(axis=1)
    square = norm[:, None] + shrink**2 * norm[None, :] - 2.0 * shrink * points @ points.T
    kernel = np.exp(square / (-2.0 * variance))
    np.fill_diagonal(kernel, 0.0)
    density = (kernel @ (weight / h ** points.shape[1])) / (1.0 - weight)
    # A point far from all others: a floor, so that one of them does not decide.
    return float(weight @ np.log(np.maximum(density, 1e-30)))


def unbound(theta: np.ndarray, bounds: np.ndarray | None) -> np.ndarray:
    """Two finite bounds: logit; a lower one: log."""
    z = theta.copy()
    for j, (low, high) in enumerate(_ends(theta, bounds)):
        if np.isfinite(low) and np.isfinite(high):
            z[:, j] = logit(np.clip((theta[:, j] - low) / (high - low), 1e-12, 1.0 - 1e-12))
        elif np.isfinite(low):
            z[:, j] = np.log(np.maximum(theta[:, j] - low, 1e-300))
    return z


def bound(z: np.ndarray, bounds: np.ndarray | None) -> np.ndarray:
    theta = z.copy()
    for j, (low, high) in enumerate(_ends(z, bounds)):
        if np.isfinite(low) and np.isfinite(high):
            theta[:, j] = low + (high - low) * expit(z[:, j])
        elif np.isfinite(low):
            theta[:, j] = low + np.exp(np.minimum(z[:, j], 700.0))
    return theta


def _ends(theta: np.ndarray, bounds: np.ndarray | None) -> np.ndarray:
    return np.tile([-np.inf, np.inf], (theta.shape[1], 1)) if bounds is None else bounds
