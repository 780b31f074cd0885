"""What methods cost beside the simulator: the paper's table of complexity, measured.

    python -m experiments.complexity --workers 4        everything (few workers: they are timed)
    python -m experiments.complexity --quick            a small version in a temporary folder
    python -m experiments.complexity --from-json

CPU time of one process, the smallest of three.  The simulator, a normal vector, takes about 20 ns
for each number.  "A round" is what happens once a tolerance level: cutting the boxes.  "A
simulation" is all the rest, the choice of an arm, the draw, the update of the beliefs, the weight.
Each line varies one quantity and fits the exponent of the cost in it, over the largest values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

import abctree
from abctree import problems
from experiments import command

NAME = "complexity"
REPEATS = 3

PARTITIONERS: dict[str, Callable[[], Any]] = {
    "CART": partial(abctree.Cart, max_leaves=1000, min_leaf=10),
    "dyadic": abctree.Dyadic,
    "soft tree (default)": abctree.SoftTree,
    "dynamic tree": abctree.DynamicTree,
}
#: What is varied, and over what.
ROWS, QUICK_ROWS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000), (500, 1_000)
DIMENSIONS, QUICK_DIMENSIONS = (2, 4, 8, 16), (2, 4)
BOXES, QUICK_BOXES = (10, 30, 100, 300, 1_000, 3_000), (10, 30)
PARTICLES, QUICK_PARTICLES = (100, 200, 400, 800, 1_600), (50, 100)
BUDGETS, QUICK_BUDGETS = (10_000, 20_000, 40_000, 80_000), (1_000, 2_000)


def run(method: Callable[..., Any], problem: Any, **settings: Any) -> Any:
    with command.quiet():
        return method(problem, rng=1, **settings)


def seconds_of(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The smallest CPU time, after one run that compiles and imports."""
    work()
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


# What is timed ----------------------------------------------------------------------------------


def cutting(label: str, n: int, d: int) -> float:
    """Seconds to cut n rows, uniform in the cube, in d dimensions, once and from scratch."""
    rng = np.random.default_rng(0)
    cube = rng.random((n, d))
    # A twentieth of the rows is accepted, around the middle.
    distance = np.linalg.norm(cube - 0.5, axis=1) + 0.1 * rng.random(n)
    epsilon = float(np.quantile(distance, 0.05))
    chosen = PARTITIONERS[label]()
    return seconds_of(
        lambda: chosen.partition(cube, distance, epsilon, None, np.random.default_rng(1))
    )


def playing(k: int, n: int, block: int, utility: str) -> float:
    """Seconds a simulation of Algorithm 1 on a grid of k boxes."""
    problem = problems.gauss(1)

    def game() -> None:
        run(
            abctree.abc_tree,
            problem,
            n_simulations=n,
            partitioner=abctree.Grid(k),
            utility=utility,
            beliefs=abctree.Counts(1, 1),
            schedule=[1.0],
            n_folds=1,
            n_pilot=100,
            quota=n,
            block=block,
        )

    return seconds_of(game) / n


def smc(particles: int, d: int, n: int) -> float:
    """Seconds a simulation of SMC-ABC."""
    problem = problems.gauss(d)
    settings = {"n_simulations": n, "n_particles": particles, "kernel": "silverman"}
    return seconds_of(lambda: run(abctree.smc, problem, **settings)) / n


def rejection(n: int, d: int) -> float:
    problem = problems.gauss(d)
    return seconds_of(lambda: run(abctree.rejection, problem, n_simulations=n)) / n


def whole(label: str, n: int, d: int) -> float:
    """Seconds of a whole run."""
    problem = problems.gauss(d)
    settings: dict[str, Any] = {"n_simulations": n}
    if label == "ABC-Tree, published, block 10":
        settings |= {"preset": "published", "block": 10}
        return seconds_of(lambda: run(abctree.abc_tree, problem, **settings), 1)
    settings |= {"proposal": "boxes", "partitioner": PARTITIONERS[label]()}
    return seconds_of(lambda: run(abctree.abc_tree, problem, **settings), 1)


def lines(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001
    """What is timed, in what, and the exponent of the paper's table ("claim").

    "call" names a function of this module and its arguments, with None for what is varied.
    """
    rows = QUICK_ROWS if quick else ROWS
    dims = QUICK_DIMENSIONS if quick else DIMENSIONS
    boxes = QUICK_BOXES if quick else BOXES
    particles = QUICK_PARTICLES if quick else PARTICLES
    budgets = QUICK_BUDGETS if quick else BUDGETS
    n_rows, n_play, n_smc = (1_000, 500, 1_000) if quick else (16_000, 2_000, 20_000)
    found: list[dict[str, Any]] = []

    def line(of: str, unit: str, variable: str, values: Sequence[int], claim: str, *call: Any):
        found.append(
            {"of": of, "unit": unit, "variable": variable, "values": list(values),
             "claim": claim, "call": call}
        )  # fmt: skip

    for label in PARTITIONERS:
        claim = {"CART": "1, and log", "dyadic": "0 (K)"}.get(label, "")
        line(f"cutting, {label}", "round", "rows", rows, claim, "cutting", label, None, 3)
        claim = {"CART": "1", "dyadic": "0"}.get(label, "")
        line(f"cutting, {label}", "round", "d", dims, claim, "cutting", label, n_rows, None)
    for utility in ("omega1", "omega2", "omega3", "ess"):
        line(f"Algorithm 1, {utility}, block 1", "simulation", "K", boxes, "1",
             "playing", None, n_play, 1, utility)  # fmt: skip
    line("Algorithm 1, ess, block T / 50", "simulation", "K", boxes, "",
         "playing", None, n_smc, n_smc // 50, "ess")  # fmt: skip
    line("SMC-ABC", "simulation", "B", particles, "1", "smc", None, 3, n_smc)
    line("SMC-ABC", "simulation", "d", dims, "1", "smc", particles[-2], None, n_smc)
    line("SMC-ABC", "simulation", "T", budgets, "0", "smc", particles[-2], 3, None)
    line("rejection", "simulation", "T", budgets, "0", "rejection", None, 3)
    # Whole runs with dynamic trees would take longer than all the rest.
    for label in ("CART", "dyadic", "soft tree (default)", "ABC-Tree, published, block 10"):
        claim = "1" if label in ("CART", "dyadic") or "published" in label else ""
        name = label if "published" in label else f"ABC-Tree, {label}"
        line(f"whole run, {name}", "run", "T", budgets, claim, "whole", label, None, 3)
    return found


def one_time(call: tuple[Any, ...], value: int) -> float:
    """The cost at a value of what is varied, which the call leaves open."""
    name, *given = call
    place = given.index(None)
    given[place] = value
    return float(globals()[name](*given))


def measure(args: command.Options) -> dict[str, Any]:
    chosen = lines(args.quick)
    tasks = [(line["call"], value) for line in chosen for value in line["values"]]
    done = command.each(one_time, tasks, args, tell=lambda t: " ".join(map(str, (*t[0], t[1]))))
    cost = dict(done)
    table = []
    for line in chosen:
        call = line.pop("call")
        values = [v for v in line["values"] if (call, v) in cost]
        seconds = [cost[call, v] for v in values]
        table.append(
            {**line, "values": values, "seconds": seconds, "exponent": slope(values, seconds)}
        )
    return {"settings": {"simulator": "gauss(d)", "repeats": REPEATS}, "lines": table}


def slope(values: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of the cost over the upper half of the values, at least two."""
    last = max(2, -(-len(values) // 2))
    if len(values) < 2:
        return float("nan")
    x, y = np.log(values[-last:]), np.log(np.maximum(seconds[-last:], 1e-12))
    return float(np.polyfit(x, y, 1)[0])


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["cost", "per", "in", "from", "to", "at the first", "at the last", "exponent", "paper"]
    rows = []
    for line in numbers["lines"]:
        values, seconds = line["values"], line["seconds"]
        rows.append(
            [
                line["of"],
                line["unit"],
                line["variable"],
                str(values[0]),
                str(values[-1]),
                duration(seconds[0]),
                duration(seconds[-1]),
                "–" if line["exponent"] is None else f"{line['exponent']:.2f}",
                line["claim"],
            ]
        )
    return {NAME: command.markdown(head, rows)}


def duration(seconds: float) -> str:
    """With a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def draw(numbers: dict[str, Any]) -> Figure:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in numbers["lines"]:
        groups.setdefault((line["unit"], line["variable"]), []).append(line)
    figure = Figure(figsize=(15.0, 7.0), layout="constrained")
    axes = figure.subplots(2, -(-len(groups) // 2)).ravel()
    for ax, ((unit, variable), members) in zip(axes, groups.items(), strict=False):
        for line in members:
            ax.plot(line["values"], line["seconds"], marker="o", ms=3, label=line["of"])
        ax.set(xscale="log", yscale="log", xlabel=variable, ylabel=f"seconds a {unit}")
        values = members[0]["values"]
        ax.set_xticks(values, [f"{v:g}" for v in values], rotation=45)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.legend(frameon=False, fontsize=6)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[len(groups) :]:
        ax.set_axis_off()
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=1, quick_seeds=1, argv=argv)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
