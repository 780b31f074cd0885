"""Example 1, a hundred arms: the paper's figures "Empirical regret comparison", with ω³.

    python -m experiments.finite --workers 16           everything, 50 repetitions
    python -m experiments.finite --quick                a small version in a temporary folder
    python -m experiments.finite --from-json            the picture again from stored numbers

Algorithm 1 with each utility, Thompson sampling, rejection, and our utility with our beliefs, all
on the same hundred arms at ε = 1.  The truth is in closed form.  The pilot's hundred prior draws
count as acceptances and for the weights, but not for the regret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import abctree
from abctree import metrics, problems
from abctree.problems import truth
from experiments import command
from experiments.watching import Losses, Proposal

NAME = "finite"
BUDGET, QUICK_BUDGET = 20_000, 2_000
BLOCK, PILOT, ARMS = 10, 100, 100

UTILITIES = {
    "ω¹": abctree.PosteriorMatch(),
    "ω²": abctree.SamplingEfficiency(),
    "ω³": abctree.AcceptanceMinusDivergence(),
    "ESS": abctree.EffectiveSampleSize(),
}
COUNTS = abctree.Counts(1, 1)  # the paper starts from α = β = 1
PLAYERS: dict[str, tuple[Any, Any]] = {
    "ω¹": (Proposal(UTILITIES["ω¹"]), COUNTS),
    "ω²": (Proposal(UTILITIES["ω²"]), COUNTS),
    "ω³": (Proposal(UTILITIES["ω³"]), COUNTS),
    "Thompson": (abctree.Thompson(), COUNTS),
    "rejection": (Proposal(abctree.EffectiveSampleSize(0.0)), COUNTS),
    "ours (ESS)": (Proposal(UTILITIES["ESS"], defensive=0.05), abctree.GlobalRate()),
}
COLOURS = ["#7fb069", "#3e8e5a", "#1f5f4a", "#d95f5f", "#8c8c8c", "#2458a6"]
#: Names of what is measured at every checkpoint.
MEASURES = (
    "acceptance rate",
    "TV, draw weights",
    "TV, mixture weights",
    "TV, histogram",
    *(f"regret, {u}" for u in UTILITIES),
)


def checkpoints(n: int) -> list[int]:
    """Simulations, the pilot included; multiples of the block."""
    points = np.geomspace(n / 50, n, 14) - PILOT
    return [int(p) for p in np.unique(np.round(points[points > 0] / BLOCK) * BLOCK)]


def one_run(label: str, seed: int, n: int) -> dict[str, list[float]]:
    known = truth.FiniteNormalTruth()
    rate, mass = known.rates(), np.full(ARMS, 1.0 / ARMS)
    policy, beliefs = PLAYERS[label]
    watched = Losses(policy, rate, mass, UTILITIES, checkpoints(n))
    with command.quiet():
        result = abctree.abc_tree(
            problems.finite_normal(),
            n_simulations=n,
            rng=seed,
            partitioner=abctree.Grid(ARMS),
            policy=watched,
            beliefs=beliefs,
            schedule=[1.0],
            n_folds=1,
            n_pilot=PILOT,
            quota=n,
            block=BLOCK,
        )
    rows = [at_checkpoint(result.table, kept, known.masses()) for kept in watched.kept]
    return {key: [row[key] for row in rows] for key in MEASURES}


def at_checkpoint(table: Any, kept: dict[str, Any], truth_mass: np.ndarray) -> dict[str, float]:
    """What the first rows of the table say, and the regret so far."""
    n = PILOT + kept["n"]
    accepted = np.flatnonzero(table.distance[:n] < 1.0)
    arm = table.theta[accepted, 0].astype(int) - 1
    by_draw = np.bincount(arm, weights=1.0 / table.proposal[accepted], minlength=ARMS)
    # Prior mass × acceptances / times offered: all proposals so far in the denominator.
    offered = kept["offered"] + PILOT / ARMS
    by_mixture = np.bincount(arm, minlength=ARMS) / offered / ARMS
    return {
        "acceptance rate": len(accepted) / n,
        "TV, draw weights": metrics.total_variation(_share(by_draw), truth_mass),
        "TV, mixture weights": metrics.total_variation(_share(by_mixture), truth_mass),
        "TV, histogram": metrics.total_variation(_share(kept["rate"]), truth_mass),
        **{f"regret, {u}": kept["regret"][u] for u in UTILITIES},
    }


def _share(mass: np.ndarray) -> np.ndarray:
    total = mass.sum()
    return mass / total if total > 0.0 else np.full(len(mass), 1.0 / len(mass))


def measure(args: command.Options) -> dict[str, Any]:
    n = QUICK_BUDGET if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(label, seed, n) for seed in seeds for label in PLAYERS]
    done = command.each(one_run, tasks, args, tell=lambda task: f"{task[0]}, seed {task[1]}")
    methods: dict[str, Any] = {}
    for label in PLAYERS:
        runs = [answer for (name, *_), answer in done if name == label]
        methods[label] = {key: _mean_and_error([run[key] for run in runs]) for key in MEASURES}
    settings = {
        "problem": "finite_normal()", "epsilon": 1.0, "block": BLOCK, "pilot": PILOT,
        "repetitions": len({seed for (_, seed, _), _ in done}),
        "simulations": [PILOT + p for p in checkpoints(n)],
    }  # fmt: skip
    return {"settings": settings, "methods": methods}


def _mean_and_error(runs: list[list[float]]) -> dict[str, np.ndarray]:
    stack = np.array(runs)
    error = stack.std(axis=0, ddof=1) / np.sqrt(len(stack)) if len(stack) > 1 else 0 * stack[0]
    return {"mean": stack.mean(axis=0), "error": error}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """The last checkpoint."""
    head = ["proposal", *MEASURES]
    rows = []
    for label, measured in numbers["methods"].items():
        cells = [_cell(measured[key]) for key in MEASURES]
        rows.append([label, *cells])
    return {NAME: command.markdown(head, rows)}


def _cell(measured: dict[str, list[float | None]]) -> str:
    mean, error = measured["mean"][-1], measured["error"][-1]
    return "∞" if mean is None else f"{mean:.3g} ± {error or 0.0:.1g}"


def draw(numbers: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(15.0, 7.0), layout="constrained")
    n = numbers["settings"]["simulations"]
    for ax, key in zip(figure.subplots(2, 4).ravel(), MEASURES, strict=True):
        for (label, measured), colour in zip(numbers["methods"].items(), COLOURS, strict=True):
            mean = np.array(measured[key]["mean"], dtype=float)
            error = np.array(measured[key]["error"], dtype=float)
            ax.plot(n, mean, color=colour, label=label)
            ax.fill_between(n, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, lw=0)
        ax.set(xscale="log", title=key, xlabel="simulations")
        if not key.startswith("acceptance"):
            ax.set_yscale("log")
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=50, argv=argv)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
