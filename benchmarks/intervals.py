"""How often 90 % intervals hold the parameters that the data were made from, in many data sets.

    python -m benchmarks.intervals            200 data sets of each, docs/explanation/readings.md
    python -m benchmarks.intervals --quick    six, T = 1 000

Parameters are drawn from the prior, data are simulated of them, a default run on the data is read:
simulation-based calibration (Talts et al. 2018) by `abctree.calibrate`.  Read are `answer()` and
the draws as they are; and `fit()` says whether the model makes data like these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import abctree
from abctree.answers.reading.calibration import ranks_of
from abctree.problems import gauss
from experiments import command

NAME = "intervals"
BUDGET = 5_000
TIME = np.linspace(0.0, 10.0, 60)


def many(n: int) -> abctree.Problem:
    """Four parameters in n summaries, most of which say little."""
    design = np.random.default_rng(7).normal(size=(4, n)) * np.geomspace(1.0, 0.01, n)

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta @ design + rng.standard_normal((len(theta), n))

    return abctree.Problem(
        dict.fromkeys("abcd", (-10.0, 10.0)), simulate, np.zeros(n), vectorized=True
    )


def sinusoid(*, known: bool) -> abctree.Problem:
    """A wave on a line at sixty times; of known noise, or not."""
    prior: dict[str, Any] = {
        "height": (0.5, 3.0), "period": (2.0, 4.0), "phase": (-1.5, 1.5), "slope": (-1.0, 1.0),
        "offset": (-5.0, 5.0), "noise": 0.3 if known else (0.1, 1.0),
    }  # fmt: skip

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        height, period, phase, slope, offset, noise = theta.T[:, :, None]
        curve = height * np.sin(2.0 * np.pi * TIME / period + phase) + slope * TIME + offset
        return curve + noise * rng.standard_normal(curve.shape)

    return abctree.Problem(prior, simulate, np.zeros(len(TIME)), vectorized=True)


def epidemic() -> abctree.Problem:
    """New cases in thirteen weeks of a chain-binomial epidemic among a thousand people."""

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        susceptible = np.full(len(theta), 990)
        infected = np.full(len(theta), 10)
        cases = []
        for _ in range(13):
            new = rng.binomial(susceptible, -np.expm1(-theta[:, 0] * infected / 1_000))
            infected += new - rng.binomial(infected, -np.expm1(-theta[:, 1]))
            susceptible -= new
            cases.append(new)
        return np.sqrt(np.column_stack(cases))

    prior = {"infection": (0.2, 3.0), "recovery": (0.1, 1.5)}
    return abctree.Problem(prior, simulate, np.zeros(13), vectorized=True)


def small(
    prior: dict[str, Any],
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    n: int = 1,
) -> abctree.Problem:
    return abctree.Problem(prior, simulate, np.ones(n), vectorized=True)


PROBLEMS: dict[str, Callable[[], abctree.Problem]] = {
    "normal, d = 2": partial(gauss, 2),
    "normal, d = 5": partial(gauss, 5),
    "normal and exponential priors": lambda: small(
        {"place": stats.norm(0.0, 2.0), "scale": stats.expon()},
        lambda t, rng: t[:, :1] + t[:, 1:] * rng.standard_normal((len(t), 8)),
        8,
    ),
    "30 summaries": partial(many, 30),
    "60 summaries": partial(many, 60),
    "wave, known noise": partial(sinusoid, known=True),
    "wave, unknown noise": partial(sinusoid, known=False),
    "bounded": lambda: small(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, lambda t, rng: t + 0.5 * rng.standard_normal(t.shape), 2
    ),
    "counts": lambda: small(
        {"rate": (0.0, 30.0)}, lambda t, rng: rng.poisson(t, size=(len(t), 1))
    ),
    "scale": lambda: small(
        {"scale": (0.01, 10.0)},
        lambda t, rng: np.log(t * np.sqrt(rng.chisquare(9, (len(t), 1)) / 9.0)),
    ),
    "two modes": lambda: small(
        {"a": (-3.0, 3.0), "b": (-3.0, 3.0)},
        lambda t, rng: np.abs(t) + 0.2 * rng.standard_normal(t.shape),
        2,
    ),
    "epidemic": epidemic,
}  # fmt: skip


def one(name: str, n_simulations: int, seed: int) -> dict[str, Any]:
    """Ranks of the parameters of one data set in both readings, and the p-value of the fit."""
    found: dict[str, Any] = {}

    def read(run: abctree.Result) -> Any:
        found["p_value"] = run.fit().p_value
        found["raw"] = run.posterior()
        return run.answer()

    settings = {"n_datasets": 1, "n_simulations": n_simulations, "keep_summaries": True}
    made = abctree.calibrate(PROBLEMS[name](), rng=seed, reading=read, **settings)
    raw = found.pop("raw")
    below = ranks_of(raw.theta, raw.weights, made.theta[0], np.random.default_rng(seed))
    free = raw.std() > 0.0
    return found | {"answer": made.ranks[0][free].tolist(), "raw": below[free].tolist()}


def measure(args: command.Options) -> dict[str, Any]:
    n = 1_000 if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(name, n, s) for name in PROBLEMS for s in seeds]
    found: dict[str, list[dict[str, Any]]] = {}
    with command.quiet():
        for (name, *_), numbers in command.each(one, tasks, args):
            found.setdefault(name, []).append(numbers)
    return {"budget": n, "found": found}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    head = ["", "data sets", "`answer()`", "least of a parameter", "largest", "draws as they are",
            "`fit()` doubts, %"]  # fmt: skip
    rows = []
    for name, sets in numbers["found"].items():
        held = {
            how: np.mean([np.abs(np.array(s[how]) - 0.5) < 0.45 for s in sets], axis=0)
            for how in ("answer", "raw")
        }
        doubts = np.mean([s["p_value"] <= 0.01 for s in sets])
        own = [
            held["answer"].mean(),
            held["answer"].min(),
            held["answer"].max(),
            held["raw"].mean(),
        ]
        rows.append([name, str(len(sets)), *(f"{v:.3f}" for v in own), f"{100 * doubts:.0f}"])
    return {"all": command.markdown(head, rows)}


def main() -> None:
    args = command.chosen(
        command.parser(__doc__ or "", NAME, seeds=200, quick_seeds=6).parse_args()
    )
    command.tabulate(NAME, args, measure, tables)


if __name__ == "__main__":
    main()
