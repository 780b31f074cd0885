"""Our rejection and SMC-ABC against those of pyABC, on one problem with a known truth.

    pip install pyabc
    python -m benchmarks.pyabc_check --seeds 5

Two normals of different width in the plane (`abctree.problems.gaussian_mixture`), the Euclidean
distance, N = 200 particles, the median rule, pyABC's default kernel (a normal of the weighted
covariance times Silverman's factor) against our "silverman", and 2e4 simulations.  For each: the
tolerance reached, the effective sample size there, how far the marginals are from the truth (total
variation on 20 cells a parameter), and seconds.  pyABC ends after the population that passes the
budget, so our SMC is given as many simulations as it made; and its rejection has our tolerance.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import abctree
from abctree import problems
from abctree.problems import truth
from experiments import command

FIRST_SEED = 5000
CELLS = 20
NAME = "pyabc_check"
Measured = dict[str, float]


class Setting:
    """The problem, and draws of its posterior at a tolerance."""

    def __init__(self, simulations: int, particles: int) -> None:
        self.simulations, self.particles = simulations, particles
        self.problem = problems.gaussian_mixture(2)
        self.truth = truth.GaussianMixtureTruth(2)
        self.names = self.problem.names

    def distance_to_truth(self, theta: np.ndarray, weight: np.ndarray, epsilon: float) -> float:
        """Mean total variation of the marginals from those at the same ε."""
        exact = self.truth.draws(100_000, epsilon, np.random.default_rng(0))
        edges = np.linspace(-5.0, 5.0, CELLS + 1)
        apart = []
        for j in range(theta.shape[1]):
            ours, _ = np.histogram(theta[:, j], edges, weights=weight / weight.sum())
            known, _ = np.histogram(exact[:, j], edges)
            apart.append(0.5 * np.abs(ours - known / len(exact)).sum())
        return float(np.mean(apart))

    def row(
        self, theta: np.ndarray, weight: np.ndarray, epsilon: float, n: int, seconds: float
    ) -> Measured:
        w = weight / weight.sum()
        return {
            "epsilon": epsilon,
            "ESS": float(1.0 / (w @ w)),
            "TV": self.distance_to_truth(theta, w, epsilon),
            "simulations": float(n),
            "seconds": seconds,
        }


def our_smc(setting: Setting, seed: int, simulations: int) -> Measured:
    began = time.perf_counter()
    run = abctree.smc(
        setting.problem,
        n_simulations=simulations,
        n_particles=setting.particles,
        kernel="silverman",
        rng=seed,
    )
    draws = run.posterior()
    seconds = time.perf_counter() - began
    return setting.row(draws.theta, draws.weights, draws.epsilon, run.n_simulations, seconds)


def our_rejection(setting: Setting, seed: int) -> Measured:
    began = time.perf_counter()
    n = setting.simulations
    run = abctree.rejection(setting.problem, n_simulations=n, keep=setting.particles, rng=seed)
    draws = run.posterior()
    seconds = time.perf_counter() - began
    return setting.row(draws.theta, draws.weights, draws.epsilon, n, seconds)


def their_smc(setting: Setting, seed: int) -> Measured:
    import pyabc

    np.random.seed(seed % 2**32)  # noqa: NPY002  pyABC has no other seed
    priors = {name: pyabc.RV("uniform", -5.0, 10.0) for name in setting.names}
    abc = pyabc.ABCSMC(
        _simulator(setting, seed),
        pyabc.Distribution(**priors),
        _euclidean(setting),
        population_size=setting.particles,
        eps=pyabc.MedianEpsilon(),
        sampler=pyabc.SingleCoreSampler(),
    )
    with tempfile.TemporaryDirectory() as folder:
        abc.new(f"sqlite:///{folder}/run.db", {})
        began = time.perf_counter()
        history = abc.run(max_total_nr_simulations=setting.simulations)
        seconds = time.perf_counter() - began
        frame, weight = history.get_distribution(m=0)
        epsilon = float(history.get_all_populations()["epsilon"].iloc[-1])
        n = int(history.total_nr_simulations)
    theta = frame[list(setting.names)].to_numpy()
    return setting.row(theta, np.asarray(weight), epsilon, n, seconds)


def their_rejection(setting: Setting, seed: int, epsilon: float) -> Measured:
    """One population at a given tolerance."""
    import pyabc

    np.random.seed(seed % 2**32)  # noqa: NPY002
    priors = {name: pyabc.RV("uniform", -5.0, 10.0) for name in setting.names}
    abc = pyabc.ABCSMC(
        _simulator(setting, seed + 1),
        pyabc.Distribution(**priors),
        _euclidean(setting),
        population_size=setting.particles,
        eps=pyabc.ListEpsilon([epsilon]),
        sampler=pyabc.SingleCoreSampler(),
    )
    with tempfile.TemporaryDirectory() as folder:
        abc.new(f"sqlite:///{folder}/run.db", {})
        began = time.perf_counter()
        history = abc.run(max_nr_populations=1)
        seconds = time.perf_counter() - began
        frame, weight = history.get_distribution(m=0)
        n = int(history.total_nr_simulations)
    theta = frame[list(setting.names)].to_numpy()
    return setting.row(theta, np.asarray(weight), epsilon, n, seconds)


def measure(setting: Setting, seed: int) -> dict[str, Measured]:
    """All four: their rejection at our tolerance, our SMC with as many simulations as theirs."""
    rejection, smc = our_rejection(setting, seed), their_smc(setting, seed)
    return {
        "rejection, abctree": rejection,
        "rejection, pyABC": their_rejection(setting, seed, rejection["epsilon"]),
        "SMC-ABC, abctree": our_smc(setting, seed, int(smc["simulations"])),
        "SMC-ABC, pyABC": smc,
    }


def _simulator(setting: Setting, seed: int) -> Callable[[Any], dict[str, np.ndarray]]:
    """One simulation at a time, as pyABC calls it, of our compiled simulator."""
    number = iter(range(2**40))
    names = setting.names

    def simulate(parameters: Any) -> dict[str, np.ndarray]:
        theta = np.array([[parameters[name] for name in names]])
        made = setting.problem.simulate(theta, np.array([next(number)]), seed)
        return {"x": made.summary[0]}

    return simulate


def _euclidean(setting: Setting) -> Callable[[Any, Any], float]:
    observed = setting.problem.observed_summary
    return lambda x, _: float(np.linalg.norm(x["x"] - observed))


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    columns = list(next(iter(numbers["rows"].values()))[0])
    rows = [
        [label, *(command.cell([m[c] for m in measured], ".4g") for c in columns)]
        for label, measured in numbers["rows"].items()
    ]
    return {NAME: command.markdown(["method", *columns], rows)}


def main() -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=5, folder="benchmarks")
    parser.add_argument("--simulations", type=int, default=20_000)
    parser.add_argument("--particles", type=int, default=200)
    given = parser.parse_args()
    args = command.chosen(given)
    args = replace(args, first_seed=FIRST_SEED + args.first_seed - 1)

    def measured(args: command.Options) -> dict[str, Any]:
        import pyabc

        logging.getLogger("ABC").setLevel(logging.ERROR)
        warnings.simplefilter("ignore")
        settings = {
            "simulations": 2_000 if args.quick else given.simulations,
            "particles": given.particles,
        }
        setting = Setting(**settings)
        our_smc(setting, 0, 2_000)  # compiled before the clock runs
        found = [measure(setting, args.first_seed + i) for i in range(args.seeds)]
        rows = {label: [f[label] for f in found] for label in found[0]}
        return {"settings": {**settings, "pyabc": pyabc.__version__}, "rows": rows}

    command.tabulate(NAME, args, measured, tables)


if __name__ == "__main__":
    main()
