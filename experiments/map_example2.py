"""Example 2 of the paper by MAP-Tree: estimates and partitions as they evolve, and errors.

    python -m experiments.map_example2                 two runs, in a minute
    python -m experiments.map_example2 --quick
    python -m experiments.map_example2 --from-json     draw the picture again

One run with dyadic boxes and one with CART, as published, T = 20 000; and squared errors over
repetitions beside rejection, SMC-ABC and HOO, at the paper's settings and at better ones: those
that are stored in ``experiments/results/map_modes.json``, which ``python -m benchmarks.map_modes``
measures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import abctree
from abctree import problems
from abctree.answers.mode import find_mode
from experiments import command

NAME = "map_example2"
BUDGET = 20_000
FIRST_SEED = 20_000
TRUE_MODE = np.array([-1.0, -1.0])
#: Estimates in the picture, by the name under which the benchmark has them.
SHOWN = {
    "map_tree": "MAP-Tree, local-quadratic",
    "published dyadic, kernel": "MAP-Tree, dyadic, KDE",
    "published CART, kernel": "MAP-Tree, CART, KDE",
    "rejection + KDE, closest 2%": "rejection + KDE",
    "SMC + KDE, N = 1000, 0.9 ε": "SMC + KDE, paper",
    "SMC + KDE, N = T/20, median": "SMC + KDE, good",
    "HOO, ε = 6, ρ = ν₁ = 1": "HOO, paper",
    "HOO, ε = 1": "HOO, good",
}


@command.quiet()
def evolution(partitioner: str, n: int, seed: int) -> dict[str, Any]:
    """Estimates after each round of a published run, and three of its partitions."""
    settings: dict[str, Any] = {} if partitioner == "dyadic" else {"partitioner": abctree.Cart()}
    problem = problems.gaussian_mixture(2)
    run = abctree.map_tree(problem, n_simulations=n, rng=seed, preset="published", **settings)
    after, kernel, quadratic, epsilon = [], [], [], []
    for played in run.rounds[1:]:
        theta, distance = run.table.theta[: played.last], run.table.distance[: played.last]
        at = find_mode(theta, distance, kernel_epsilon=played.epsilon)
        after.append(played.last)
        epsilon.append(played.epsilon)
        kernel.append(at.estimates["kernel"])
        quadratic.append(at.theta)
    rounds = run.rounds[1:]
    shown = [rounds[i] for i in sorted({0, len(rounds) // 2, len(rounds) - 1})]
    return {
        "simulations": after,
        "epsilon": epsilon,
        "kernel": kernel,
        "quadratic": quadratic,
        "boxes": [
            {
                "round": played.index,
                "lower": 10.0 * played.partitions[0].boxes.lower - 5.0,
                "upper": 10.0 * played.partitions[0].boxes.upper - 5.0,
            }
            for played in shown
        ],
    }


def measure(args: command.Options) -> dict[str, Any]:
    n = 2_000 if args.quick else BUDGET
    tasks = [(name, n, args.first_seed) for name in ("dyadic", "CART")]
    runs = {name: answer for (name, *_), answer in command.each(evolution, tasks, args)}
    stored = command.read_json(command.RESULTS / "map_modes.json")
    again = {"errors": stored["about"]}
    return {"T": n, "evolution": runs, "estimates": stored["estimates"][str(n)], "again": again}


def squared_errors(estimates: list[list[float | None]]) -> np.ndarray:
    """(n,) Of estimates; nan where there is none."""
    at = np.array(estimates, dtype=float)
    return np.asarray(((at - TRUE_MODE) ** 2).sum(axis=1))


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    rows = []
    for label, at in numbers["estimates"].items():
        square = squared_errors(at)
        rows.append([label, command.cell([*square], ".2g"), str(int((square > 1.5**2).sum()))])
    head = ["estimate", f"MSE at T = {numbers['T']:,}".replace(",", " "), "wrong mode"]
    return {"errors": command.markdown(head, rows)}


def draw(numbers: dict[str, Any]) -> Figure:
    """Estimates over rounds, three partitions, for dyadic and CART; errors of all."""
    figure = Figure(figsize=(12.0, 9.0), layout="constrained")
    grid = figure.add_gridspec(3, 4)
    for row, (name, run) in enumerate(numbers["evolution"].items()):
        ax = figure.add_subplot(grid[row, 0])
        for key, colour in (("kernel", "#2f6f9f"), ("quadratic", "#26323b")):
            at = np.array(run[key], dtype=float)
            ax.plot(run["simulations"], at[:, 0], color=colour, label=key)
            ax.plot(run["simulations"], at[:, 1], color=colour, ls=":")
        ax.axhline(TRUE_MODE[0], color="#c9482b", lw=0.8)
        ax.set(title=name, xlabel="simulations", ylabel="estimate", ylim=(-3.0, 3.0))
        ax.legend(fontsize="small")
        for column, cut in enumerate(run["boxes"]):
            _draw_boxes(figure.add_subplot(grid[row, 1 + column]), cut)
    ax = figure.add_subplot(grid[2, :])
    shown = [label for label in SHOWN if label in numbers["estimates"]]
    square = [squared_errors(numbers["estimates"][label]) for label in shown]
    mean = [float(s.mean()) for s in square]
    error = [float(s.std() / np.sqrt(len(s))) for s in square]
    ax.errorbar(mean, range(len(shown)), xerr=error, fmt="o", color="#2f6f9f")
    ax.set_yticks(range(len(shown)), [SHOWN[label] for label in shown])
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel=f"mean squared error at T = {numbers['T']}")
    return figure


def _draw_boxes(ax: Any, cut: dict[str, Any]) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    patches = [
        Rectangle((x, y), right - x, top - y)
        for (x, y), (right, top) in zip(cut["lower"], cut["upper"], strict=True)
    ]
    ax.add_collection(PatchCollection(patches, facecolor="none", edgecolor="#9aa7b0", lw=0.5))
    ax.plot(*TRUE_MODE, "+", color="#c9482b")
    ax.set(xlim=(-5, 5), ylim=(-5, 5), aspect="equal", title=f"round {cut['round']}")


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=1, quick_seeds=1)
    args = replace(args, first_seed=FIRST_SEED + args.first_seed)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
