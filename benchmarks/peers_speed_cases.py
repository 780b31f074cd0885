"""What `benchmarks.peers_speed` times: one problem, in the words of each library.

A process of it answers lines of JSON, ``[case, n, seed]``, with the CPU seconds of the case and
what came out: the simulations that were made, the draws, their weights and the largest of their
distances, which is ε here whatever a library calls so.  Each library is imported in one place.

The simulator is Example 2 of the paper, .3 N(θ, I) + .7 N(θ + 3, I/4): for arrays in NumPy and in
torch, and for one point in plain Python.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

LOW, HIGH, OBSERVED = -5.0, 5.0, 2.0
#: Simulations in one call of a simulator of arrays, where that may be chosen.
BATCH = 10_000
#: Draws, weights, ε, simulations that were made.
Answer = tuple[Any, Any, float, int]


def draws_of(n: int) -> int:
    """Draws asked of n simulations: the closest ones, or the particles of a population."""
    return min(1_000, 3 * n // 100)


def simulate(theta: np.ndarray, rng: Any) -> np.ndarray:
    """Of arrays; `rng` is a Generator or a RandomState."""
    wide = rng.random(len(theta)) < 0.3
    away, sd = np.where(wide, 0.0, 3.0), np.where(wide, 1.0, 0.5)
    return theta + away[:, None] + sd[:, None] * rng.standard_normal(theta.shape)


def simulate_one(a: float, b: float, rng: np.random.Generator) -> tuple[float, float]:
    """One point at a time."""
    away, sd = (0.0, 1.0) if rng.random() < 0.3 else (3.0, 0.5)
    return a + away + sd * rng.standard_normal(), b + away + sd * rng.standard_normal()


def bare(simulator: Callable[[Any], Any], theta: Any, n: int) -> None:
    """A simulator alone, on a batch of points that are there."""
    for _ in range(-(-n // len(theta))):
        simulator(theta)


# abctree ----------------------------------------------------------------------------------------


def ours(method: str, *, one: bool = False, **given: Any) -> Callable[[int, int], Answer]:
    """A method of abctree; SMC-ABC answers by its last population, the others as `draws_of`."""

    def run(n: int, seed: int) -> Answer:
        import abctree

        problem = abctree.Problem(
            {"a": (LOW, HIGH), "b": (LOW, HIGH)},
            (lambda theta, rng: simulate_one(theta[0], theta[1], rng)) if one else simulate,
            [OBSERVED, OBSERVED],
            vectorized=not one,
        )
        count = {"smc": "n_particles", "rejection": "keep"}.get(method)
        said = {**given, **({count: draws_of(n)} if count else {})}
        result = getattr(abctree, method)(problem, n_simulations=n, rng=seed, **said)
        draws = result.posterior(**({} if count else {"ess": draws_of(n)}))
        return draws.theta, draws.weights, draws.epsilon, result.n_simulations

    return run


def numpy_alone(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bare(lambda theta: simulate(theta, rng), rng.uniform(LOW, HIGH, (BATCH, 2)), n)


# pyABC ------------------------------------------------------------------------------------------


def pyabc_smc(n: int, seed: int, limit: int) -> Answer:
    """Populations until the limit is passed; the last one is completed."""
    import pyabc

    logging.getLogger("ABC").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002  pyABC has no other seed
    rng = np.random.default_rng(seed)

    def model(point: Any) -> dict[str, float]:
        x, y = simulate_one(point["a"], point["b"], rng)
        return {"x": x, "y": y}

    def distance(one: Any, other: Any) -> float:
        return math.hypot(one["x"] - other["x"], one["y"] - other["y"])

    run = pyabc.ABCSMC(
        model,
        pyabc.Distribution(**{name: pyabc.RV("uniform", LOW, HIGH - LOW) for name in "ab"}),
        distance,
        population_size=draws_of(n),
        eps=pyabc.QuantileEpsilon(alpha=0.3),
        sampler=pyabc.SingleCoreSampler(),
    )
    run.new("sqlite://", {"x": OBSERVED, "y": OBSERVED})  # in memory
    history = run.run(max_total_nr_simulations=limit)
    frame, weights = history.get_distribution(m=0)
    epsilon = history.get_weighted_distances()["distance"].max()
    return frame[["a", "b"]].to_numpy(), weights, epsilon, history.total_nr_simulations


# ELFI -------------------------------------------------------------------------------------------


def elfi_model() -> tuple[Any, Any]:
    """The library, and the distance at the end of the graph."""
    import elfi

    def simulator(a: Any, b: Any, batch_size: int, random_state: Any) -> np.ndarray:  # noqa: ARG001
        return simulate(np.column_stack([a, b]), random_state)

    model = elfi.ElfiModel()
    priors = [elfi.Prior("uniform", LOW, HIGH - LOW, model=model, name=name) for name in "ab"]
    observed = np.full((1, 2), OBSERVED)
    x = elfi.Simulator(simulator, *priors, observed=observed, model=model, name="x")
    return elfi, elfi.Distance("euclidean", x, model=model, name="d")


def elfi_rejection(n: int, seed: int) -> Answer:
    elfi, distance = elfi_model()
    found = elfi.Rejection(distance, batch_size=min(n, BATCH), seed=seed).sample(
        draws_of(n), n_sim=n, bar=False
    )
    return found.samples_array, np.ones(draws_of(n)), found.discrepancies.max(), found.n_sim


def elfi_smc(n: int, seed: int) -> Answer:
    """ELFI's SMC is told quantiles: here the median, or what the rest of n allows.

    A population at the quantile q of the last one's distances takes about 1/q times its simulations
    if the proposal gains nothing.
    """
    elfi, distance = elfi_model()
    run = elfi.SMC(distance, batch_size=max(1, n // 20), seed=seed)
    found = run.sample(draws_of(n), quantiles=[5 * draws_of(n) / n], bar=False)
    last = used = run.state["n_sim"]
    while used + last <= n:
        found = run.sample(draws_of(n), quantiles=[max(0.5, last / (n - used))], bar=False)
        last = run.state["n_sim"] - used
        used += last
    return found.samples_array, found.weights, found.discrepancies.max(), used


def elfi_alone(n: int, seed: int) -> None:
    rng = np.random.RandomState(seed)  # what ELFI hands to a simulator
    bare(lambda theta: simulate(theta, rng), rng.uniform(LOW, HIGH, (BATCH, 2)), n)


# sbi --------------------------------------------------------------------------------------------


def sbi_sampler(method: str, seed: int) -> tuple[Callable[..., Any], Any, Any]:
    """MCABC or SMCABC of a torch simulator, the observation, and the simulator."""
    import torch
    from sbi import inference
    from sbi.utils import BoxUniform

    torch.manual_seed(seed)

    def simulator(theta: Any) -> Any:
        wide = torch.rand(len(theta), 1) < 0.3
        away, sd = torch.where(wide, 0.0, 3.0), torch.where(wide, 1.0, 0.5)
        return theta + away + sd * torch.randn_like(theta)

    prior = BoxUniform(torch.full((2,), LOW), torch.full((2,), HIGH))
    sampler = getattr(inference, method)(
        simulator, prior, simulation_batch_size=BATCH, show_progress_bars=False
    )
    return sampler, torch.full((1, 2), OBSERVED), simulator


def sbi_rejection(n: int, seed: int) -> Answer:
    sampler, observed, _ = sbi_sampler("MCABC", seed)
    theta, told = sampler(
        observed, num_simulations=n, quantile=draws_of(n) / n, return_summary=True
    )
    return theta.numpy(), np.ones(len(theta)), float(told["distances"].max()), n


def sbi_smc(n: int, seed: int) -> Answer:
    """A population that the end of n cuts short is filled up from the one before, as by default."""
    sampler, observed, _ = sbi_sampler("SMCABC", seed)
    theta, told = sampler(
        observed, num_simulations=n, num_particles=draws_of(n), num_initial_pop=draws_of(n),
        epsilon_decay=0.1, distance_based_decay=True, return_summary=True,
    )  # fmt: skip
    weights = told["weights"][-1].exp().numpy()
    return theta.numpy(), weights, float(told["distances"][-1].max()), n


def sbi_alone(n: int, seed: int) -> None:
    import torch

    _, _, simulator = sbi_sampler("MCABC", seed)
    bare(simulator, LOW + (HIGH - LOW) * torch.rand(BATCH, 2), n)


CASES: dict[str, Callable[[int, int], Answer | None]] = {
    "abctree, default": ours("abc_tree"),
    "abctree, boxes": ours("abc_tree", proposal="boxes"),
    "abctree, default, one at a time": ours("abc_tree", one=True),
    "abctree, smc": ours("smc"),
    "abctree, rejection": ours("rejection"),
    "abctree, simulator": numpy_alone,
    "pyABC, ABCSMC, limit T/2": lambda n, seed: pyabc_smc(n, seed, n // 2),
    "pyABC, ABCSMC, limit T": lambda n, seed: pyabc_smc(n, seed, n),
    "ELFI, SMC": elfi_smc,
    "ELFI, Rejection": elfi_rejection,
    "ELFI, simulator": elfi_alone,
    "sbi, SMCABC": sbi_smc,
    "sbi, MCABC": sbi_rejection,
    "sbi, simulator": sbi_alone,
}


def told(answer: Answer | None) -> dict[str, Any]:
    """As JSON."""
    if answer is None:
        return {}
    theta, weights, epsilon, made = answer
    return {
        "theta": np.asarray(theta, dtype=float).tolist(),
        "weights": np.asarray(weights, dtype=float).tolist(),
        "epsilon": float(epsilon),
        "made": int(made),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is no answer
    for line in sys.stdin:
        case, n, seed = json.loads(line)
        began = time.process_time()
        answer = CASES[case](n, seed)
        seconds = time.process_time() - began
        print(json.dumps([seconds, told(answer)]), file=answers, flush=True)


if __name__ == "__main__":
    main()
