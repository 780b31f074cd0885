"""The ten tasks of sbibm (Lueckmann et al. 2021): priors, simulators, observations, references.

Simulators are written anew from their definitions; the observations, the reference draws and the
tables of two tasks are read from a folder.  Each takes theta (n, p) and a generator, and returns
(n, m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

import abctree
from benchmarks.sbibm.odes import lotka_volterra_curves, sir_infected

Simulator = Callable[[np.ndarray, np.random.Generator], np.ndarray]

SQRT_HALF = float(np.sqrt(0.5))
N_OBSERVATIONS = 10
#: Tasks whose reference is that of another one: they see the same parameters and more data.
SAME_REFERENCE = {
    "slcp_distractors": "slcp",
    "bernoulli_glm_raw": "bernoulli_glm",
    "lotka_volterra_log": "lotka_volterra",
}


# Simulators -------------------------------------------------------------------------------------


def two_moons(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(theta)
    angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, n), rng.normal(0.1, 0.01, n)
    x = radius * np.cos(angle) + 0.25 - np.abs(theta[:, 0] + theta[:, 1]) * SQRT_HALF
    y = radius * np.sin(angle) + (theta[:, 1] - theta[:, 0]) * SQRT_HALF
    return np.stack([x, y], axis=1)


def slcp(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Four draws of a normal pair, one after the other."""
    s1, s2, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, np.tanh(theta[:, 4])
    z = rng.standard_normal((len(theta), 4, 2))
    # The root of [[s1², ρ s1 s2], [ρ s1 s2, s2²]] + 1e-6 I.
    first = np.sqrt(s1**2 + 1e-6)
    across = rho * s1 * s2 / first
    second = np.sqrt(np.maximum(s2**2 + 1e-6 - across**2, 0.0))
    x = theta[:, None, 0] + first[:, None] * z[:, :, 0]
    y = theta[:, None, 1] + across[:, None] * z[:, :, 0] + second[:, None] * z[:, :, 1]
    return np.stack([x, y], axis=2).reshape(len(theta), 8)


@dataclass(frozen=True)
class Distractors:
    """The 8 values of `slcp` among 92 of a mixture of multivariate t distributions."""

    order: np.ndarray  #: (100,)
    weights: np.ndarray  #: (20,)
    location: np.ndarray  #: (20, 92)
    freedom: np.ndarray  #: (20,)
    root: np.ndarray  #: (20, 92, 92)

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n = len(theta)
        data = np.empty((n, 100))
        data[:, :8] = slcp(theta, rng)
        data[:, 8:] = self.noise(n, rng)
        return data[:, self.order]

    def noise(self, n: int, rng: np.random.Generator) -> np.ndarray:
        component = rng.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        scale = np.sqrt(self.freedom[component] / rng.chisquare(self.freedom[component]))
        z = rng.standard_normal((n, self.location.shape[1])) * scale[:, None]
        noise = np.empty_like(z)
        for k in range(len(self.weights)):
            mine = component == k
            noise[mine] = self.location[k] + z[mine] @ self.root[k].T
        return noise


def gaussian_linear(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + np.sqrt(0.1) * rng.standard_normal(theta.shape)


def gaussian_mixture(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sd = np.where(rng.random(len(theta)) < 0.5, 1.0, 0.1)
    return theta + sd[:, None] * rng.standard_normal(theta.shape)


@dataclass(frozen=True)
class Spikes:
    """A neuron that answers a stimulus with 100 bits; their sufficient statistics, or the bits."""

    design: np.ndarray  #: (100, 10)
    raw: bool = False

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rate = expit(theta @ self.design.T)
        spikes = (rng.random(rate.shape) < rate).astype(float)
        return spikes if self.raw else spikes @ self.design


def sir(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positive tests of a thousand, every 17 days of an epidemic."""
    share = np.clip(sir_infected(np.ascontiguousarray(theta), 10, 17), 0.0, 1.0)
    return rng.binomial(1000, share).astype(float)


def lotka_volterra(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts of prey, then of predators, with log-normal noise."""
    curves = lotka_volterra_curves(np.ascontiguousarray(theta), 10, 2.1)
    return np.exp(np.log(np.clip(curves, 1e-10, 1e4)) + 0.1 * rng.standard_normal((len(theta), 20)))


# Priors -----------------------------------------------------------------------------------------


def _lognormal(mean: float, sd: float) -> Any:
    return stats.lognorm(s=sd, scale=np.exp(mean))


def _uniform(p: int, low: float, high: float) -> dict[Any, Any]:
    return {f"theta{j + 1}": (low, high) for j in range(p)}


def glm_covariance() -> np.ndarray:
    """(10, 10) Of the offset, and of a filter whose second differences are small."""
    m = np.arange(9)
    first_difference = np.eye(9) - np.eye(9, k=-1)
    root = first_difference @ first_difference + np.diag(np.sqrt(m / 9.0))
    precision = np.zeros((10, 10))
    precision[0, 0] = 0.5
    precision[1:, 1:] = root.T @ root
    covariance = np.linalg.inv(precision)
    return (covariance + covariance.T) / 2.0


def _prior(name: str) -> dict[Any, Any]:
    normal = abctree.MultivariateNormal
    ten = tuple(f"theta{j + 1}" for j in range(10))
    if name == "two_moons":
        return _uniform(2, -1.0, 1.0)
    if name in ("slcp", "slcp_distractors"):
        return _uniform(5, -3.0, 3.0)
    if name == "gaussian_linear":
        return {ten: normal(np.zeros(10), 0.1 * np.eye(10))}
    if name == "gaussian_linear_uniform":
        return _uniform(10, -1.0, 1.0)
    if name == "gaussian_mixture":
        return _uniform(2, -10.0, 10.0)
    if name in ("bernoulli_glm", "bernoulli_glm_raw"):
        return {ten: normal(np.zeros(10), glm_covariance())}
    if name == "sir":
        return {"beta": _lognormal(np.log(0.4), 0.5), "gamma": _lognormal(np.log(0.125), 0.2)}
    names = ("alpha", "beta", "gamma", "delta")
    return dict(zip(names, [_lognormal(m, 0.5) for m in (-0.125, -3.0, -0.125, -3.0)], strict=True))


# Tasks ------------------------------------------------------------------------------------------


def _simulator(name: str, folder: Path) -> Simulator:
    if name == "slcp_distractors":
        with np.load(folder / "slcp_distractors_noise.npz") as t:
            return Distractors(
                t["permutation_idx"],
                *(t[k].astype(float) for k in ("weights", "loc", "df", "scale_tril")),
            )
    if name.startswith("bernoulli_glm"):
        with np.load(folder / "bernoulli_glm_design.npz") as t:
            return Spikes(t["design_matrix"].astype(float), raw=name.endswith("raw"))
    plain: dict[str, Simulator] = {
        "two_moons": two_moons,
        "slcp": slcp,
        "gaussian_linear": gaussian_linear,
        "gaussian_linear_uniform": gaussian_linear,
        "gaussian_mixture": gaussian_mixture,
        "sir": sir,
        "lotka_volterra": lotka_volterra,
        "lotka_volterra_log": lotka_volterra,
    }
    return plain[name]


#: Name -> number of parameters.  The last is lotka_volterra seen through the logarithm of counts.
TASKS = {
    "two_moons": 2,
    "gaussian_mixture": 2,
    "sir": 2,
    "lotka_volterra": 4,
    "lotka_volterra_log": 4,
    "slcp": 5,
    "slcp_distractors": 5,
    "bernoulli_glm": 10,
    "bernoulli_glm_raw": 10,
    "gaussian_linear": 10,
    "gaussian_linear_uniform": 10,
}


@dataclass(frozen=True)
class Task:
    """A prior and a simulator with ten observations."""

    name: str
    prior: dict[Any, Any]
    simulator: Simulator
    observations: np.ndarray  #: (10, m)
    true_parameters: np.ndarray  #: (10, p)

    @classmethod
    def load(cls, name: str, folder: Path) -> Task:
        """The task `name` of `TASKS`, with what the folder has of it."""
        source = "lotka_volterra" if name == "lotka_volterra_log" else name
        with np.load(folder / f"{source}.npz") as found:
            observations = found["observation"].astype(float)
            truth = found["true_parameters"].astype(float)
        return cls(name, _prior(name), _simulator(name, folder), observations, truth)

    def problem(self, observation: int) -> abctree.Problem:
        """The problem of one observation, 0 to 9."""
        return abctree.Problem(
            self.prior,
            self.simulator,
            self.observations[observation],
            summary=np.log if self.name.endswith("_log") else None,
            vectorized=True,
        )


def make_problem(name: str, observed: np.ndarray, simulator: Simulator) -> abctree.Problem:
    """A task's problem for any observation, without the folder."""
    return Task(name, _prior(name), simulator, np.atleast_2d(observed), np.empty(0)).problem(0)


@cache
def references(name: str, folder: Path) -> np.ndarray:
    """(10, 10 000, p) Reference draws of each observation's posterior."""
    with np.load(folder / f"{SAME_REFERENCE.get(name, name)}.npz") as found:
        return np.asarray(found["reference"])
