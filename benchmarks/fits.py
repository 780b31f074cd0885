"""How often `fit()` doubts the model, of data that it made and of data that it did not.

    python -m benchmarks.fits            40 data sets of each, docs/explanation/readings.md
    python -m benchmarks.fits --quick    three, T = 1 000

Each data set is read after a default run.  Of models that are right a share of p ≤ .05 of at most
.05 is asked; of others as much as can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import abctree
from abctree.types import FloatArray
from experiments import command

NAME = "fits"
BUDGET = 5_000
#: Noise of the waves.
NOISE = 0.3
TIME = np.linspace(0.0, 10.0, 60)
#: A bend that the model does not have, of a spread of that of the noise.
TREND = NOISE * (TIME - 5.0) ** 2 / np.std((TIME - 5.0) ** 2)
CURVES = np.array([np.sin(2.0 * np.pi * TIME / 3.0 + 0.7), TIME, np.ones(60)])

Simulator = Callable[[FloatArray, np.random.Generator], FloatArray]


class Case(NamedTuple):
    """A model, and what makes the data: parameters, and what is done to the model's own data."""

    prior: dict[str, tuple[float, float]]
    simulate: Simulator
    drawn: tuple[tuple[float, float], ...]  #: ends of the parameters of the data
    #: Data, parameters and a generator -> data; None where the model is right.
    spoil: Callable[[FloatArray, FloatArray, np.random.Generator], FloatArray] | None = None


def normal(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    return theta + rng.standard_normal(theta.shape)


def with_a_check(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Two normals, and a summary between them that is always near 1."""
    noise = rng.standard_normal((len(theta), 3))
    return np.stack([theta[:, 0] + noise[:, 0], 1 + noise[:, 1] / 10, theta[:, 1] + noise[:, 2]], 1)


def wave(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    return theta @ CURVES + NOISE * rng.standard_normal((len(theta), 60))


def noisy_wave(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    return theta[:, :3] @ CURVES + theta[:, 3:] * rng.standard_normal((len(theta), 60))


SQUARE = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
WAVE = {"height": (0.0, 5.0), "slope": (-1.0, 1.0), "offset": (-5.0, 5.0)}
INSIDE = ((-4.9, 4.9),) * 2
WAVES = ((1.0, 3.0), (-0.5, 0.5), (-2.0, 2.0))
NOISY = WAVE | {"noise": (0.1, 1.0)}

CASES = {
    "two normals": Case(SQUARE, normal, INSIDE),
    "wave": Case(WAVE, wave, WAVES),
    "wave of unknown noise": Case(NOISY, noisy_wave, (*WAVES, (0.1, 1.0))),
    "wave of unknown, strong noise": Case(NOISY, noisy_wave, (*WAVES, (0.7, 1.0))),
    "3 sd outside": Case(SQUARE, normal, INSIDE, lambda *_: np.array([8.0, 0.0])),
    "another summary 6 sd off": Case(
        SQUARE, with_a_check, INSIDE, lambda x, *_: np.array([x[0], 1.6, x[2]])
    ),
    "noise × 1.5": Case(
        WAVE, wave, WAVES,
        lambda _, theta, rng: theta @ CURVES + 1.5 * NOISE * rng.standard_normal(60),
    ),
    "trend of .6 of the noise": Case(WAVE, wave, WAVES, lambda x, *_: x + 0.6 * TREND),
    "trend as large as the noise": Case(WAVE, wave, WAVES, lambda x, *_: x + TREND),
    "the same, noise unknown": Case(
        NOISY, noisy_wave, (*WAVES, (NOISE, NOISE)), lambda x, *_: x + TREND
    ),
}  # fmt: skip


def one(name: str, n_simulations: int, seed: int) -> float:
    """The p-value of a data set."""
    case = CASES[name]
    rng = np.random.default_rng(seed)
    theta = rng.uniform(*np.transpose(case.drawn))
    data = case.simulate(theta[None], rng)[0]
    if case.spoil is not None:
        data = case.spoil(data, theta, rng)
    problem = abctree.Problem(case.prior, case.simulate, data, vectorized=True)
    run = abctree.abc_tree(problem, n_simulations=n_simulations, rng=seed, keep_summaries=True)
    return run.fit().p_value


def measure(args: command.Options) -> dict[str, Any]:
    n = 1_000 if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(name, n, s) for name in CASES for s in seeds]
    found: dict[str, list[float]] = {}
    with command.quiet():
        for (name, *_), p_value in command.each(one, tasks, args):
            found.setdefault(name, []).append(p_value)
    return {"budget": n, "found": found}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    rows = []
    for name, found in numbers["found"].items():
        p = np.array(found)
        rows.append([
            name, "no" if CASES[name].spoil else "yes", str(len(p)),
            f"{(p <= 0.05).mean():.2f}", f"{(p <= 0.01).mean():.2f}", f"{np.median(p):.2f}",
        ])  # fmt: skip
    head = ["data", "made by the model", "data sets", "p ≤ .05", "p ≤ .01", "median p"]
    return {"all": command.markdown(head, rows)}


def main() -> None:
    args = command.chosen(command.parser(__doc__ or "", NAME, seeds=40, quick_seeds=3).parse_args())
    command.tabulate(NAME, args, measure, tables)


if __name__ == "__main__":
    main()
