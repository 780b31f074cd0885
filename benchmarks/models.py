"""Probabilities of models against exact ones: a run over models, by two utilities, or a run each.

    python -m benchmarks.models            40 seeds, docs/explanation/readings.md
    python -m benchmarks.models --quick    two seeds, T = 1 000

All spend T simulations.  The exact probabilities are those at the same tolerance, by quadrature
over the prior, so that what is measured is the error of the estimate, and not of ABC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import comb
from typing import Any

import numpy as np
from scipy import stats

import abctree
from experiments import command

NAME = "models"
BUDGET = 4_000


@dataclass(frozen=True)
class Case:
    """Problems by name, a tolerance, and the exact evidences at it."""

    problems: Mapping[str, abctree.Problem]
    epsilon: float
    evidence: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """(m,) Probabilities of the models, equally likely before."""
        return self.evidence / self.evidence.sum()


def counts() -> Case:
    """Poisson against geometric: the sum of five counts, 12 give or take one."""
    high, n, total = 9.0, 5, 12
    sums = np.arange(total - 1, total + 2)
    mean = (np.arange(20_000) + 0.5) * high / 20_000
    laws = {
        "Poisson": (
            lambda theta, rng: rng.poisson(n * theta),
            stats.poisson(n * mean[:, None]).pmf(sums),
        ),
        "geometric": (
            lambda theta, rng: rng.negative_binomial(n, 1.0 / (1.0 + theta)),
            stats.nbinom(n, 1.0 / (1.0 + mean[:, None])).pmf(sums),
        ),
    }
    problems = {
        name: abctree.Problem({"mean": (0.0, high)}, simulator, [float(total)], vectorized=True)
        for name, (simulator, _) in laws.items()
    }
    return Case(problems, 1.5, np.array([pmf.sum(axis=1).mean() for _, pmf in laws.values()]))


def lines(slope_found: float = 0.5, epsilon: float = 0.25) -> Case:
    """A constant against a line, by the least-squares coefficients of ten points with known noise.

    The summaries are normal about the parameters, and priors are normal: P(d < ε) is that of a
    generalised chi-square, by quadrature over the disc.
    """
    x = np.linspace(-1.0, 1.0, 10)
    sd = 0.5 / np.sqrt([10.0, (x**2).sum()])  # of level and slope, which are independent
    observed, wide = np.array([0.6, slope_found]), 2.0

    def constant(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([theta[:, 0], np.zeros(len(theta))]) + sd * _normal(rng, theta)

    def line(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + sd * _normal(rng, theta)

    level, slope = stats.norm(0.0, wide), stats.norm(0.0, wide)
    problems = {
        "constant": abctree.Problem({"level": level}, constant, observed, vectorized=True),
        "line": abctree.Problem({"level": level, "slope": slope}, line, observed, vectorized=True),
    }
    first = np.hypot(wide, sd[0])
    evidence = [_disc(observed, epsilon, first, other) for other in (sd[1], np.hypot(wide, sd[1]))]
    return Case(problems, epsilon, np.array(evidence))


def _normal(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    return rng.standard_normal((len(theta), 2))


def _disc(centre: np.ndarray, radius: float, first: float, second: float) -> float:
    """Probability that independent normals about 0 with two sds are in a disc."""
    angle = np.pi * (np.arange(4_000) + 0.5) / 4_000  # x = r cos a, and dx = r sin a da
    x, half = centre[0] + radius * np.cos(angle), radius * np.sin(angle)
    inside = stats.norm.cdf(centre[1] + half, 0.0, second)
    inside -= stats.norm.cdf(centre[1] - half, 0.0, second)
    return float(np.sum(stats.norm.pdf(x, 0.0, first) * inside * half) * np.pi / 4_000)


SIZE, HOUSES = 4, 25


def households() -> Case:
    """Three epidemics in households of four with one first case, by final sizes of 25 of them.

    Reed–Frost, where each case infects; Greenwood, where the presence of cases does; and infection
    from outside alone.  How many households have 1, 2, 3, 4 cases is multinomial.
    """
    laws = {"Reed-Frost": reed_frost, "Greenwood": greenwood, "outside": outside}
    observed = np.array([8.0, 4.0, 5.0, 8.0])
    p = np.linspace(0.0, 1.0, 2_001)[1:-1]
    near = [
        state
        for state in product(range(HOUSES + 1), repeat=SIZE)
        if sum(state) == HOUSES and np.linalg.norm(np.array(state) - observed) < 3.0
    ]
    problems, evidence = {}, []
    for name, law in laws.items():

        def simulate(theta: np.ndarray, rng: np.random.Generator, law: Any = law) -> np.ndarray:
            return rng.multinomial(HOUSES, law(theta[:, 0]))

        problems[name] = abctree.Problem({"p": (0.0, 1.0)}, simulate, observed, vectorized=True)
        law_of_sizes = law(p)
        pmf = sum(stats.multinomial(HOUSES, law_of_sizes).pmf(state) for state in near)
        evidence.append(float(np.mean(pmf)))
    return Case(problems, 3.0, np.array(evidence))


def reed_frost(p: np.ndarray) -> np.ndarray:
    """(n, 4) Chances of 1 to 4 cases, where each escapes each case with 1 − p."""
    return _chain(p, lambda cases: 1.0 - (1.0 - p) ** cases)


def greenwood(p: np.ndarray) -> np.ndarray:
    """(n, 4) The same, where the number of cases does not matter."""
    return _chain(p, lambda _: p)


def _chain(p: np.ndarray, risk: Callable[[int], np.ndarray]) -> np.ndarray:
    sizes = np.zeros((len(p), SIZE))
    state = {(1, SIZE - 1): np.ones(len(p))}  # (cases now, still well) -> chance
    while state:
        later: dict[tuple[int, int], np.ndarray] = {}
        for (cases, well), chance in state.items():
            q = risk(cases)
            for new in range(well + 1):
                to = chance * comb(well, new) * q**new * (1.0 - q) ** (well - new)
                if new == 0 or new == well:
                    sizes[:, SIZE - 1 - well + new] += to
                else:
                    later[new, well - new] = later.get((new, well - new), 0.0) + to
        state = later
    return sizes


def outside(p: np.ndarray) -> np.ndarray:
    """(n, 4) The same, where all others are infected independently of each other."""
    return stats.binom(SIZE - 1, p[:, None]).pmf(np.arange(SIZE))


CASES = {
    "Poisson or geometric": counts,
    "constant or line": lines,
    "three epidemics": households,
    "constant, or line that is flat": partial(lines, 0.0, 0.1),
}
case = cache(lambda name: CASES[name]())


def one(n: int, name: str, seed: int) -> dict[str, Any]:
    """Probabilities by a run over models and by a run each, z-scores and intervals that hold."""
    exact, found = case(name), {}
    models = abctree.Models(exact.problems)
    m = len(exact.problems)
    ways: dict[str, Any] = {
        "one run": abctree.abc_tree(models, n_simulations=n, rng=seed),
        "one run for the probabilities": abctree.abc_tree(
            models, n_simulations=n, rng=seed, utility="models"
        ),
        "a run each": {
            label: abctree.abc_tree(problem, n_simulations=n // m, rng=[seed, i])
            for i, (label, problem) in enumerate(exact.problems.items())
        },
    }
    for way, run in ways.items():
        comparison = abctree.compare(run, epsilon=exact.epsilon)
        p = np.array(list(comparison.probability.values()))
        inside = [
            bool(low <= truth <= high)
            for (low, high), truth in zip(comparison.interval().values(), exact.exact, strict=True)
        ]
        z = [(e.log_estimate - np.log(t)) / e.relative_error
             for e, t in zip(comparison.evidences, exact.evidence, strict=True)]  # fmt: skip
        first, other = z[:2]
        errors = [e.relative_error for e in comparison.evidences[:2]]
        factor = (first * errors[0] - other * errors[1]) / np.hypot(*errors)
        found[way] = {"error": (p - exact.exact).tolist(), "z": float(factor), "inside": inside}
    return found


def measure(args: command.Options) -> dict[str, Any]:
    n = 1_000 if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    found: dict[str, list[dict[str, Any]]] = {}
    for (name, _), numbers in command.each(
        partial(one, n), [(name, s) for s in seeds for name in CASES], args
    ):
        found.setdefault(name, []).append(numbers)
    return {"budget": n, "found": found}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    head = ["", "", "rms error of the probabilities", "mean z", "largest z", "intervals that hold"]
    rows = []
    for name, runs in numbers["found"].items():
        for way in runs[0]:
            some = [run[way] for run in runs]
            square = np.square([run["error"] for run in some]).mean(axis=1)
            error = np.sqrt(square.mean())
            spread = square.std(ddof=1) / np.sqrt(len(square)) / (2.0 * error)
            z = np.array([run["z"] for run in some])
            rows.append([
                name, way, f"{error:.4f} ± {spread:.4f}",
                f"{z.mean():+.2f} ± {z.std() / np.sqrt(len(z)):.2f}",
                f"{np.abs(z).max():.1f}", f"{np.mean([run['inside'] for run in some]):.2f}",
            ])  # fmt: skip
    return {"exact": command.markdown(head, rows)}


def main() -> None:
    made = command.parser(__doc__ or "", NAME, seeds=40)
    command.tabulate(NAME, command.chosen(made.parse_args()), measure, tables)


if __name__ == "__main__":
    main()
