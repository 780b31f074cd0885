"""What a run says of its own errors: claims against the errors that it makes.

    python -m benchmarks.errors --workers 4          the tables of docs/explanation/errors.md
    python -m benchmarks.errors --only default       one group of cells, into the numbers kept
    python -m benchmarks.errors --quick              a few cells, in seconds
    python -m benchmarks.errors --from-json          print the tables again

Every truth is that of the ε-posterior, at the ε at which the run is read by default: exact draws
where there are any (`abctree.problems.truth`), a fine grid where there is one parameter.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

import abctree
from abctree import problems
from abctree.problems import truth
from experiments import command

NAME = "errors"
FIRST_SEED = 91_000
#: Runs of one task of a process.
BATCH = 20
#: What is claimed of each parameter.
ANSWERS = ("mean", "sd", "5 %", "95 %")
LEVELS = {"5 %": 0.05, "95 %": 0.95}
#: The interval of the evidence used to cover .72 here: it is judged on more runs.
HEADLINE = ("two normals, d = 5", 5_000)
#: Coverage of the evidence's interval that is asked for.
LEVEL = 0.9


# Problems ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Truth by exact draws, at tolerances of a grid with 5 % steps and between them."""

    known: Any
    n: int = 40_000

    def evidence(self, epsilon: float) -> float:
        """A power of ε between neighbours, as Z is for small ε."""
        share, below, above = self._around(epsilon, _evidence)
        return float(below ** (1.0 - share) * above**share)

    def answers(self, epsilon: float) -> np.ndarray:
        """(4, p) `ANSWERS`, linearly between neighbours."""
        share, below, above = self._around(epsilon, _answers)
        return np.asarray((1.0 - share) * below + share * above)

    def _around(self, epsilon: float, of: Callable[..., Any]) -> tuple[float, Any, Any]:
        step = np.log(epsilon) / np.log(1.05)
        low = int(np.floor(step))
        below, above = (of(self.known, self.n, 1.05 ** (low + k)) for k in (0, 1))
        return step - low, below, above


@functools.cache
def _evidence(known: Any, _: int, epsilon: float) -> float:
    return float(known.evidence(epsilon))


@functools.cache
def _answers(known: Any, n: int, epsilon: float) -> np.ndarray:
    draws = known.draws(n, epsilon, rng=0)
    return np.array([draws.mean(0), draws.std(0), *np.quantile(draws, list(LEVELS.values()), 0)])


@dataclass(frozen=True)
class OnGrid:
    """Truth of one parameter, uniform on (low, high), from the cdf of its data."""

    low: float
    high: float
    observed: float
    cdf: Callable[[Any, np.ndarray], np.ndarray]  #: (data, θ); right-continuous

    def _likelihood(self, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        edge = np.linspace(self.low, self.high, 4_001)
        theta = (edge[1:] + edge[:-1]) / 2
        # Distances strictly below ε: the point at the upper end does not count.
        upper = np.nextafter(self.observed + epsilon, -np.inf)
        return theta, self.cdf(upper, theta) - self.cdf(self.observed - epsilon, theta)

    def evidence(self, epsilon: float) -> float:
        return float(self._likelihood(epsilon)[1].mean())

    def answers(self, epsilon: float) -> np.ndarray:
        """(4, 1) `ANSWERS`."""
        theta, rate = self._likelihood(epsilon)
        mass = rate / rate.sum()
        mean = float(mass @ theta)
        at = theta[np.searchsorted(np.cumsum(mass), list(LEVELS.values()))]
        return np.array([mean, np.sqrt(mass @ (theta - mean) ** 2), *at])[:, None]


def free(simulate: Callable[..., Any], prior: dict[str, Any], observed: Any) -> abctree.Problem:
    return abctree.Problem(prior, simulate, observed, vectorized=True)


def square(d: int, width: float = 10.0) -> dict[str, Any]:
    return {f"theta{j + 1}": (-width, width) for j in range(d)}


#: Name: how the problem is made, and what is known of it.
WITH_TRUTH: dict[str, tuple[Callable[[], abctree.Problem], Any]] = {
    "two normals, d = 2": (
        lambda: problems.gaussian_mixture(2),
        Drawn(truth.GaussianMixtureTruth(2)),
    ),
    "two normals, d = 5": (
        lambda: problems.gaussian_mixture(5),
        Drawn(truth.GaussianMixtureTruth(5)),
    ),
    "banana, d = 5": (problems.banana, Drawn(truth.BananaTruth())),
    "normal, d = 1": (lambda: problems.gauss(1), Drawn(truth.GaussTruth(1))),
    "normal, d = 3": (lambda: problems.gauss(3), Drawn(truth.GaussTruth(3))),
    "Poisson rate": (
        lambda: free(
            lambda theta, rng: rng.poisson(theta).astype(float), {"rate": (0.0, 30.0)}, [4.0]
        ),
        OnGrid(0.0, 30.0, 4.0, stats.poisson.cdf),
    ),
    "scale": (
        lambda: free(
            lambda theta, rng: theta * np.sqrt(rng.chisquare(9, theta.shape) / 9),
            {"scale": (0.01, 10.0)},
            [1.0],
        ),
        OnGrid(
            0.01,
            10.0,
            1.0,
            lambda x, theta: stats.chi2.cdf(9 * (max(float(x), 0.0) / theta) ** 2, 9),
        ),
    ),
    "probability": (
        lambda: free(
            lambda theta, rng: rng.binomial(100, theta).astype(float), {"share": (0.0, 1.0)}, [12.0]
        ),
        OnGrid(0.0, 1.0, 12.0, lambda x, theta: stats.binom.cdf(x, 100, theta)),
    ),
}

#: Simulators without noise: a place, two and four places, a ridge, a plane, a sphere, waves.
WITHOUT_NOISE: dict[str, Callable[[], abctree.Problem]] = {
    "identity, d = 2": lambda: free(lambda t, _: t, square(2), [0.3, 0.2]),
    "identity, d = 5": lambda: free(lambda t, _: t, square(5), [0.3, 0.2, -1.0, 2.0, 0.0]),
    "squares, d = 2": lambda: free(lambda t, _: t**2, square(2), [4.0, 9.0]),
    "product, d = 2": lambda: free(
        lambda t, _: t[:, :1] * t[:, 1:], {"b": (0.0, 10.0), "n": (0.0, 10.0)}, [6.0]
    ),
    "sum, d = 3": lambda: free(lambda t, _: t.sum(axis=1), square(3), 1.0),
    "norm, d = 3": lambda: free(lambda t, _: np.linalg.norm(t, axis=1), square(3), 5.0),
    "wave, d = 2": lambda: free(
        lambda t, _: np.sin(3.0 * t[:, 0]) + 0.3 * t[:, 1], square(2, 3.0), 0.5
    ),
}


# Cells ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Runs of one kind."""

    group: str  #: of the table of alarms; all of the first group have claims
    problem: str
    n_simulations: int
    given: tuple[tuple[str, Any], ...] = ()
    times: int = 1  #: as many runs as elsewhere

    @property
    def name(self) -> str:
        return f"{self.group}: {self.problem}, T = {self.n_simulations}"


def cells() -> list[Cell]:
    default = [
        Cell("default", problem, n, times=3 if (problem, n) == HEADLINE else 1)
        for problem in WITH_TRUTH
        for n in (2_000, 5_000, 10_000)
    ]
    hard = ("two normals, d = 2", "two normals, d = 5", "banana, d = 5")
    boxes = (("proposal", "boxes"),)
    more = [replace(cell, group="boxes", given=boxes) for cell in default]
    more += [Cell("no noise", problem, 5_000) for problem in WITHOUT_NOISE]
    more += [Cell("no noise, boxes", problem, 5_000, boxes) for problem in WITHOUT_NOISE]
    more += [Cell("n_folds = 1", problem, 5_000, (("n_folds", 1),)) for problem in hard]
    # Blocks of one simulation take a minute a run here; twenty make the same weights.
    published = (("preset", "published"), ("block", 20), ("quota", 200))
    more += [Cell("published", problem, 5_000, published) for problem in hard[:2]]
    return default + more


def one(cell: Cell, seed: int) -> dict[str, Any]:
    """Errors, claims, whether intervals of the evidence hold it, and whether it is said biased."""
    make, known = WITH_TRUTH.get(cell.problem) or (WITHOUT_NOISE[cell.problem], None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        result = abctree.abc_tree(
            make(), n_simulations=cell.n_simulations, rng=seed, **dict(cell.given)
        )
        draws = result.posterior()
    row: dict[str, Any] = {"alarm": result.bias_alarm() is not None}
    if known is None:
        return row
    found = np.array([draws.mean(), draws.std(), *draws.quantile(list(LEVELS.values()))])
    claim = [draws.mcse(), draws.mcse("std")]
    claim += [draws.mcse("quantile", level) for level in LEVELS.values()]
    for place, epsilon in (("default", draws.epsilon), ("last", result.epsilon)):
        z, exact = result.evidence(epsilon, "mixture"), known.evidence(epsilon)
        low, high = z.interval(LEVEL)
        row[f"evidence, {place}"] = [z.estimate / exact - 1.0, high < exact, low > exact]
    return row | {
        "error": found - known.answers(draws.epsilon),
        "claim": np.array(claim),
        "old claim": draws.std() / np.sqrt(draws.ess),
    }


def batch(cell: Cell, seeds: Sequence[int]) -> list[dict[str, Any]]:
    return [one(cell, seed) for seed in seeds]


# Numbers and tables -----------------------------------------------------------------------------


def ratio(error: np.ndarray, claim: np.ndarray) -> list[float]:
    """Root mean square of errors (n, p) over that of claims, and its standard error (jackknife)."""

    def of(kept: np.ndarray) -> float:
        e, c = error[kept], claim[kept]
        return float(np.sqrt(np.mean((e**2).mean(axis=0) / (c**2).mean(axis=0))))

    n = len(error)
    groups = np.arange(n) % min(n, 20)
    without = [of(groups != g) for g in range(groups.max() + 1)]
    k = len(without)
    return [of(groups >= 0), float(np.sqrt((k - 1) * np.var(without)))]


def numbers_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"runs": len(rows), "alarms": sum(row["alarm"] for row in rows)}
    if "error" not in rows[0]:
        return found
    error = np.array([row["error"] for row in rows])
    claim = np.array([row["claim"] for row in rows])
    for k, answer in enumerate(ANSWERS):
        found[answer] = ratio(error[:, k], claim[:, k])
    found["old"] = ratio(error[:, 0], np.array([row["old claim"] for row in rows]))
    for key in rows[0]:
        if ", " in key:
            values = np.array([row[key] for row in rows], dtype=float)
            bias = [values[:, 0].mean(), values[:, 0].std(ddof=1) / np.sqrt(len(rows))]
            found[key] = [*bias, values[:, 1].sum(), values[:, 2].sum()]
    return found


def measure(args: command.Options) -> dict[str, Any]:
    chosen = [c for c in cells() if args.only in (None, c.group)][:: 9 if args.quick else 1]
    first = args.first_seed
    tasks = [
        (c, range(first + i, min(first + i + BATCH, first + c.times * args.seeds)))
        for c in chosen
        for i in range(0, c.times * args.seeds, BATCH)
    ]
    rows: dict[Cell, list[dict[str, Any]]] = {}
    for (cell, _), answer in command.each(batch, tasks, args, tell=lambda task: task[0].name):
        rows.setdefault(cell, []).extend(answer)
    return {
        "cells": [
            {"group": c.group, "problem": c.problem, "T": c.n_simulations} | numbers_of(r)
            for c, r in rows.items()
        ]
    }


def join(stored: dict[str, Any], new: dict[str, Any], group: str) -> dict[str, Any]:
    """Cells of one group among the stored ones."""
    others = [c for c in stored["cells"] if c["group"] != group]
    groups = [c["group"] for c in stored["cells"]]
    place = groups.index(group) if group in groups else 0
    cells = [*others[:place], *new["cells"], *others[place:]]
    return command.joined(stored, new, group) | {"cells": cells}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    done = numbers["cells"]
    return {
        "claims": claims_table([c for c in done if c["group"] == "default"]),
        "evidence": evidence_table([c for c in done if "evidence, last" in c]),
        "alarms": alarms_table(done),
    }


def claims_table(done: list[dict[str, Any]]) -> str:
    head = ["problem", "T", "runs", *ANSWERS, "mean, by sd / √ESS"]
    rows = [
        [
            c["problem"],
            str(c["T"]),
            str(c["runs"]),
            *(_cell(*c[answer]) for answer in (*ANSWERS, "old")),
        ]
        for c in done
    ]
    return command.markdown(head, rows)


def _cell(value: float, error: float) -> str:
    return f"{value:.2f} ± {error:.2f}"


def evidence_table(done: list[dict[str, Any]]) -> str:
    head = ["runs", "problem", "T", "bias of Z, %", "interval holds Z", "below it, above it",
            "bias at the last ε, %", "interval holds Z", "below it, above it"]  # fmt: skip
    rows = []
    for c in done:
        row = [c["group"], c["problem"], str(c["T"])]
        for place in ("default", "last"):
            bias, error, low, high = c[f"evidence, {place}"]
            row += [
                f"{100 * bias:+.1f} ± {100 * error:.1f}",
                f"{1 - (low + high) / c['runs']:.3f}",
                f"{low:.0f}, {high:.0f}",
            ]
        rows.append(row)
    return command.markdown(head, rows)


def alarms_table(done: list[dict[str, Any]]) -> str:
    rows = []
    for group in dict.fromkeys(c["group"] for c in done):
        own = [c for c in done if c["group"] == group]
        runs, alarms = sum(c["runs"] for c in own), sum(c["alarms"] for c in own)
        rows.append([group, str(len(own)), str(runs), str(alarms)])
    return command.markdown(["runs", "cells", "runs in all", "said to be biased"], rows)


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=200, quick_seeds=3)
    args = replace(args, first_seed=FIRST_SEED + args.first_seed)
    command.tabulate(NAME, args, measure, tables, join)


if __name__ == "__main__":
    main()
