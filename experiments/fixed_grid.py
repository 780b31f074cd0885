"""Algorithm 1 on grids of 10 to 1 000 bins: the paper's figure "Fixed grid".

    python -m experiments.fixed_grid           the picture and the numbers in the documents
    python -m experiments.fixed_grid --quick   a small version in a temporary folder

X ~ 0.8 N(100 θ, 3) + 0.2 N(100 θ + 5, 0.25), θ ~ U(0, 1); we read 3 and 0.25 as variances.  The
paper states neither x_obs nor ε: here they are 50 and 1.  The ε-posterior is known in closed form,
up to one integral, so every error is against the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde, norm

import abctree
from experiments import command
from experiments.scores import honest_gain

NAME = "fixed_grid"
X_OBS, EPSILON = 50.0, 1.0
BINS = [10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
SHOWN = [10, 100, 1000]
#: Cells to compare distributions on: .005 is a quarter of the sd of the wide mode.
EDGES = np.linspace(0.40, 0.60, 41)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    wide = rng.random(len(theta)) < 0.8
    centre = 100.0 * theta[:, 0] + np.where(wide, 0.0, 5.0)
    spread = np.where(wide, np.sqrt(3.0), 0.5)
    return (centre + spread * rng.standard_normal(len(theta)))[:, None]


def rate(theta: np.ndarray) -> np.ndarray:
    """P(|X - x_obs| < ε | θ)."""
    total = np.zeros_like(theta)
    for share, offset, sd in ((0.8, 0.0, np.sqrt(3.0)), (0.2, 5.0, 0.5)):
        law = norm(100.0 * theta + offset, sd)
        total += share * (law.cdf(X_OBS + EPSILON) - law.cdf(X_OBS - EPSILON))
    return total


class Truth:
    """The ε-posterior on a lattice of 2e5 points."""

    def __init__(self) -> None:
        self.theta = (np.arange(200_000) + 0.5) / 200_000
        self.rate = rate(self.theta)
        self.evidence = float(self.rate.mean())
        self.density = self.rate / self.evidence
        self.mass = self.masses(self.theta, self.density / len(self.theta))
        # Quantiles of the ε-posterior: as good as draws, and without noise.
        level = np.cumsum(self.density) / len(self.theta)
        self.quantiles = self.theta[np.searchsorted(level, (np.arange(2000) + 0.5) / 2000)]

    def masses(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Masses of the cells; what is missing from 1 lies outside."""
        return np.histogram(theta, EDGES, weights=weight)[0]

    def distance(self, mass: np.ndarray) -> float:
        return abctree.metrics.total_variation(mass, self.mass)


def problem() -> abctree.Problem:
    return abctree.Problem({"theta": (0.0, 1.0)}, simulate, [X_OBS], vectorized=True)


def run(bins: int, n: int, seed: int, utility: str) -> Any:
    """Algorithm 1: one tolerance, one partition, one round."""
    return abctree.abc_tree(
        problem(),
        n_simulations=n,
        rng=seed,
        partitioner=abctree.Grid(bins),
        utility=utility,
        schedule=[EPSILON],
        n_folds=1,
        n_pilot=100,
        quota=n,
        block=max(1, n // 200),
    )


def measured(result: Any, known: Truth) -> dict[str, float]:
    draws = result.posterior(epsilon=EPSILON)
    step = result.histogram()
    step_mass = np.maximum(np.diff(step.cdf("theta", EDGES)), 0.0)
    played = result.rounds[-1]
    return {
        "TV of the weighted draws": known.distance(known.masses(draws.theta[:, 0], draws.weights)),
        "TV of the step function": known.distance(step_mass),
        "ESS over rejection's": draws.ess / (result.n_simulations * known.evidence),
        "honest gain": honest_gain(result, known.quantiles[:, None]),
        "acceptance rate": played.acceptance_rate,
        "evidence, relative error": result.evidence(EPSILON).estimate / known.evidence - 1.0,
    }


def sweep(n: int, seeds: range, utility: str, known: Truth) -> dict[str, dict[str, list[float]]]:
    """For each number of bins the mean and the standard error over seeds."""
    table = {}
    for bins in BINS:
        rows = [measured(run(bins, n, seed, utility), known) for seed in seeds]
        table[str(bins)] = {
            key: [
                float(np.mean([row[key] for row in rows])),
                float(np.std([row[key] for row in rows], ddof=1) / np.sqrt(len(seeds))),
            ]
            for key in rows[0]
        }
    return table


def draw_densities(axes: Any, n: int, known: Truth) -> None:
    x = np.linspace(0.38, 0.62, 961)
    for ax, bins in zip(axes, SHOWN, strict=True):
        result = run(bins, n, 0, "omega1")
        draws = result.posterior(epsilon=EPSILON)
        smooth = gaussian_kde(draws.theta[:, 0], weights=draws.weights, bw_method=0.15)
        step = result.histogram().pdf(x[:, None])
        ax.fill_between(known.theta, known.density, color="#d9dee2", label="ε-posterior")
        ax.plot(x, step, color="#9aa7b0", lw=0.8, label="step function")
        ax.plot(x, smooth(x), color="#2f6f9f", lw=1.5, label="kernel estimate of the draws")
        ax.set(xlim=(0.38, 0.62), ylim=(0.0, 45.0), ylabel=f"{bins} bins")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize="small")
    axes[-1].set_xlabel("θ")


def draw_errors(axes: Any, tables: dict[str, Any]) -> None:
    panels = [
        ("TV of the weighted draws", "TV, weighted draws"),
        ("TV of the step function", "TV, step function"),
        ("honest gain", "honest gain over rejection"),
    ]
    for ax, (key, label) in zip(axes, panels, strict=True):
        for name, table in tables.items():
            mean, error = np.array([table[str(b)][key] for b in BINS]).T
            ax.errorbar(BINS, mean, error, marker="o", ms=3, lw=1, label=name)
        ax.set(xscale="log", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize="small")
    axes[-1].set_xlabel("bins")


def measure(args: command.Options) -> dict[str, Any]:
    known = Truth()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tables = {}
    with command.quiet():
        for n in [1000] if args.quick else [1000, 10_000]:
            for utility, name in (("omega1", "ω¹"), ("ess", "ESS")):
                tables[f"{name}, T = {n}"] = sweep(n, seeds, utility, known)
                print(f"done: {name}, T = {n}", flush=True)
    settings = {"x_obs": X_OBS, "epsilon": EPSILON, "seeds": len(seeds), "evidence": known.evidence}
    return {"settings": settings, "errors": tables}


def draw(numbers: dict[str, Any]) -> Figure:
    """Errors, beside the densities of three runs that are made for the picture."""
    figure = Figure(figsize=(11.0, 7.0), layout="constrained")
    axes = figure.subplots(3, 2)
    with command.quiet():
        draw_densities(axes[:, 0], 2000, Truth())
    draw_errors(axes[:, 1], numbers["errors"])
    return figure


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["bins", *(f"{name}: TV of the draws" for name in numbers["errors"]),
            *(f"{name}: TV of the step function" for name in numbers["errors"])]  # fmt: skip
    bins = list(next(iter(numbers["errors"].values())))
    rows = []
    for b in bins:
        cells = [b]
        for key in ("TV of the weighted draws", "TV of the step function"):
            for errors in numbers["errors"].values():
                mean, error = errors[b][key]
                cells.append(f"{mean:.3f} ± {error:.1g}")
        rows.append(cells)
    return {"fixed_grid": command.markdown(head, rows)}


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=20, quick_seeds=3)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
