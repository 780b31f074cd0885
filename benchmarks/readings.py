"""How far readings of one table are from the posterior: `answer()` beside all that it might be.

    python -m benchmarks.readings --sbibm DIR    ten tasks, docs/explanation/readings.md
    python -m benchmarks.readings --quick        three tasks with exact posteriors, T = 2 000

A table of `abc_tree` is read as it is, adjusted by ridge regression, with scaled residuals, and by
local summaries, each at an effective sample size of 100, 300, 1 000, 3 000 and 10 000 where the
table has as much.  The error of a reading is the energy distance of its draws to reference draws,
in units of their spread, on the scores of the unit cube.  The best of these readings cannot be
known without the reference, and as the least of some fifteen noisy numbers it is better than any
rule can be.  It is told twice: of readings by the run's own summaries, which are what the default
was made among, and of these and those by local summaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtri

import abctree
from abctree.answers.reading.choice import Cell
from abctree.answers.reading.rows import Reading, Rows
from abctree.answers.reading.veto import default_cell
from abctree.answers.selection import default_ess
from abctree.near import systematic
from abctree.problems import gaussian_mixture
from abctree.problems.truth import GaussianMixtureTruth
from abctree.proposals.ranges import cube_range, middle
from benchmarks.sbibm.tasks import Task, references
from experiments import command

NAME = "readings"
BUDGETS = (10_000, 100_000)
#: Tasks of sbibm, by what each observation of it is read.
SBIBM = (
    "two_moons", "gaussian_mixture", "gaussian_linear_uniform", "bernoulli_glm", "slcp", "sir",
    "lotka_volterra_log",
)  # fmt: skip
SIZES = (100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
#: Draws that a distance is computed with, and the least distance that is told from zero.  A third
#: of them would do for the mean: but where a table is read well, noise alone makes one reading
#: eight times as far away as another.
DRAWS, LEAST = 4_500, 5e-4

Case = tuple[abctree.Problem, np.ndarray]


def mixture(d: int, seed: int) -> Case:
    """Two normals of different width, and draws of their exact posterior."""
    truth = GaussianMixtureTruth(d)
    return gaussian_mixture(d), truth.draws(5_000, 0.0, np.random.default_rng([77, seed]))


def line(seed: int) -> Case:
    """A wave and a line through sixty measurements: three parameters, a normal posterior."""
    rng, x = np.random.default_rng([77, seed]), np.linspace(0.0, 10.0, 60)
    design = np.column_stack([np.sin(2.0 * np.pi * x / 3.0 + 0.7), x, np.ones(60)])

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta @ design.T + 0.3 * rng.standard_normal((len(theta), 60))

    low, high = np.array([0.0, -1.0, -5.0]), np.array([5.0, 1.0, 5.0])
    observed = simulate(rng.uniform([[1.0, -0.5, -2.0]], [[3.0, 0.5, 2.0]]), rng)[0]
    scatter = np.linalg.inv(design.T @ design)
    draws = rng.multivariate_normal(scatter @ design.T @ observed, 0.09 * scatter, 20_000)
    draws = draws[((draws > low) & (draws < high)).all(axis=1)][:5_000]
    prior = {name: (low[i], high[i]) for i, name in enumerate(("wave", "slope", "offset"))}
    return abctree.Problem(prior, simulate, observed, vectorized=True), draws


def task(name: str, folder: Path, observation: int) -> Case:
    """A task of sbibm, with its reference draws."""
    problem = Task.load(name, folder).problem(observation % 10)
    return problem, references(name, folder)[observation % 10][:5_000]


def cases(folder: Path | None) -> dict[str, Callable[[int], Case]]:
    """What is inferred, by a seed or the number of an observation."""
    found: dict[str, Callable[[int], Case]] = {
        "two normals, d = 2": partial(mixture, 2),
        "two normals, d = 5": partial(mixture, 5),
        "wave and line": line,
    }
    return found | ({} if folder is None else {n: partial(task, n, folder) for n in SBIBM})


class Distance:
    """Energy distance of weighted draws to reference draws, in units of their spread."""

    def __init__(self, reference: np.ndarray) -> None:
        self.mean, self.unit = reference.mean(axis=0), reference.std(axis=0)
        self.reference = (reference[:DRAWS] - self.mean) / self.unit
        self.within = pdist(self.reference).mean()

    def __call__(self, reading: Reading, rng: np.random.Generator) -> float:
        z, weight = reading.z, reading.weight
        if len(z) > DRAWS:
            z, weight = z[systematic(weight, DRAWS, rng.random())], np.ones(DRAWS)
        weight = weight / weight.sum()
        z = (z - self.mean) / self.unit
        own = weight @ cdist(z, z) @ weight
        between = weight @ cdist(z, self.reference).mean(axis=1)
        return max(0.0, float(2.0 * between - own - self.within)) + LEAST


def one(folder: Path | None, name: str, n_simulations: int, seed: int) -> dict[str, float]:
    """Errors of one table's readings and of the best of them, and CPU seconds of `answer()`."""
    problem, reference = cases(folder)[name](seed)
    settings = {"n_simulations": n_simulations, "rng": 1_000 + seed, "keep_summaries": True}
    run = abctree.abc_tree(problem, **settings)
    began = time.process_time()
    chosen = run.answer().reading.chosen
    seconds = time.process_time() - began
    rows, rng = Rows.of(run), np.random.default_rng(seed)
    distance = Distance(ndtri(np.clip(middle(*cube_range(problem.prior, reference)), 1e-9, None)))

    @cache
    def error(cell: Cell) -> float:
        return distance(rows.at_observation(cell), rng)

    sizes = [e for e in SIZES if e <= rows.largest_ess]
    own = min(error(Cell(m, e)) for m in (None, "ridge", "heteroscedastic") for e in sizes)
    local = [] if rows.local is None else [error(Cell("ridge", e, "local")) for e in sizes]
    return {
        "draws as they are": error(Cell(None, default_ess(n_simulations))),
        "adjusted": error(default_cell(rows)),
        "answer": error(chosen),
        "own": own,
        "all": min([own, *local]),
        "seconds": seconds,
    }


def measure(args: command.Options, folder: Path | None = None) -> dict[str, Any]:
    budgets = (2_000,) if args.quick else BUDGETS
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(name, n, s) for n in budgets for s in seeds for name in cases(folder)]
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for (name, n, _), errors in command.each(partial(one, folder), tasks, args):
        found.setdefault(str(n), {}).setdefault(name, []).append(errors)
    return {"errors": found}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    labels = ("draws as they are", "adjusted", "answer")
    head = ["T", "tables", "best of", *(word for label in labels for word in (label, "worst"))]
    rows, seconds = [], []
    for n, found in numbers["errors"].items():
        every = [errors for of_one in found.values() for errors in of_one]
        size = f"{int(n):,}".replace(",", " ")
        for best in ("own", "all"):
            cells = [size, str(len(every)), best]
            for label in labels:
                log = np.log([errors[label] / errors[best] for errors in every])
                error = np.exp(log.mean()) * log.std() / np.sqrt(len(log))
                cells += [f"{np.exp(log.mean()):.2f} ± {error:.2f}", f"{np.exp(log.max()):.1f}"]
            rows.append(cells)
        times = [np.median([errors["seconds"] for errors in of_one]) for of_one in found.values()]
        seconds.append([size, *(f"{time:.1f}" for time in times)])
    return {
        "all": command.markdown(head, rows),
        "seconds": command.markdown(["T", *found], seconds),
    }


def main() -> None:
    made = command.parser(__doc__ or "", NAME, seeds=4)
    made.add_argument("--sbibm", type=Path, help="folder of sbibm's observations and references")
    words = made.parse_args()
    args = command.chosen(words)
    command.tabulate(NAME, args, partial(measure, folder=words.sbibm), tables)


if __name__ == "__main__":
    main()
