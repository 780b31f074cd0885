"""Example 2 of the paper, cut by each partitioner: its figure "Sequential refinements".

    python -m experiments.partitions           the picture and the numbers in the documents
    python -m experiments.partitions --quick   a small version in a temporary folder

The paper's rows are CART, BART and dyadic; the default, dynamic trees and a plain grid are ours.
All play the same tolerances, and each ends a round after as many acceptances, so that what differs
is how many simulations a round takes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import abctree
from abctree import problems
from abctree.problems import truth
from experiments import command
from experiments.scores import honest_gain
from experiments.watching import Timed

NAME = "partitions"
EPSILONS = [4.0, 2.8, 2.0, 1.4, 1.0]
SEED = 1
QUOTA, QUICK_QUOTA = 1000, 100


def partitioners(quota: int) -> dict[str, Any]:
    burn_in = 50 if quota < QUOTA else 1000
    return {
        "CART, pruned by cross-validation": abctree.Cart(prune=True),
        f"BART, 5 trees, {burn_in} burn-in": abctree.Bart(n_trees=5, n_burn_in=burn_in),
        "dyadic, 10 cuts a round": abctree.Dyadic(n_splits=10),
        "dynamic tree": abctree.DynamicTree(n_trees=1),
        "five dynamic trees, refined": abctree.DynamicTree(),
        "soft tree (the default)": abctree.SoftTree(),
        "grid, 20 x 20": abctree.Grid(20),
    }


@cache
def run(label: str, quota: int) -> tuple[Any, float]:
    """A run of one round at each tolerance, and the seconds that cutting took."""
    partitioner = partitioners(quota)[label]
    rng = np.random.default_rng(0)  # once before the clock runs: compiles, imports
    partitioner.partition(rng.random((100, 2)), rng.random(100), 0.5, None, rng)
    timed = Timed(partitioner)
    result = abctree.abc_tree(
        problems.gaussian_mixture(2),
        n_simulations=100 * quota,
        rng=SEED,
        proposal="boxes",
        partitioner=timed,
        # A grid does not learn where to cut, and its cells are believed each for itself.
        beliefs=abctree.GlobalRate() if isinstance(partitioner, abctree.Grid) else None,
        schedule=EPSILONS,
        max_rounds=len(EPSILONS),
        quota=quota,
        n_pilot=quota,
        block=max(20, quota // 10),
    )
    return result, timed.seconds


def numbers_of(result: Any, seconds: float) -> dict[str, Any]:
    known, epsilon = truth.GaussianMixtureTruth(2), EPSILONS[-1]
    draws = known.draws(4000, epsilon, rng=0)
    posterior = result.posterior(epsilon=epsilon)
    z = known.evidence(epsilon)
    played = result.rounds[1:]  # round 0 is the pilot
    return {
        "epsilon": [r.epsilon for r in played],
        "boxes, mean over folds": [float(np.mean([len(p) for p in r.partitions])) for r in played],
        "simulations": [r.n_simulations for r in played],
        "acceptance rate": [r.acceptance_rate for r in played],
        "simulations in all": result.n_simulations,
        "ESS": posterior.ess,
        "honest gain": honest_gain(result, draws),
        "evidence, relative error": result.evidence(epsilon).estimate / z - 1.0,
        "TV20": known.tv20(posterior.theta, posterior.weights),
        "seconds of cutting": seconds,
    }


def draw_row(axes: Any, label: str, result: Any) -> None:
    abctree.plots.partitions(result, rounds=range(1, len(result.rounds)), axes=axes)
    for ax, played in zip(axes, result.rounds[1:], strict=True):
        ax.set_title(
            f"ε = {played.epsilon:g}, {len(played.partitions[0])} boxes, "
            f"{played.acceptance_rate:.0%} accepted",
            fontsize="small",
        )
        ax.set(xlabel="", xticks=[-5, 0, 5], yticks=[-5, 0, 5])
    axes[0].set_ylabel(label)


def measure(args: command.Options) -> dict[str, Any]:
    quota = QUICK_QUOTA if args.quick else QUOTA
    table = {}
    with command.quiet():
        for label in partitioners(quota):
            result, seconds = run(label, quota)
            table[label] = numbers_of(result, seconds)
            print(f"{label}: {result.n_simulations}, {seconds:.1f} s of cutting", flush=True)
    settings = {"problem": "gaussian_mixture(2)", "quota": quota, "seed": SEED}
    return {"settings": settings, "partitioners": table}


def draw(numbers: dict[str, Any]) -> Figure:
    """The partitions of the runs, which are made again where only their numbers are known."""
    figure = Figure(figsize=(13.0, 2.75 * len(numbers["partitioners"])), layout="constrained")
    rows = figure.subplots(len(numbers["partitioners"]), len(EPSILONS), sharex=True, sharey=True)
    with command.quiet():
        for axes, label in zip(rows, numbers["partitioners"], strict=True):
            draw_row(axes, label, run(label, numbers["settings"]["quota"])[0])
    return figure


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["partitioner", "boxes in the last round", "simulations", "honest gain", "Z err, %",
            "TV20", "s of cutting"]  # fmt: skip
    rows = [
        [
            label,
            f"{row['boxes, mean over folds'][-1]:.0f}",
            str(row["simulations in all"]),
            f"{row['honest gain']:.2f}",
            f"{100 * row['evidence, relative error']:+.1f}",
            f"{row['TV20']:.3f}",
            f"{row['seconds of cutting']:.2g}",
        ]
        for label, row in numbers["partitioners"].items()
    ]
    return {"partitions": command.markdown(head, rows)}


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=1, quick_seeds=1)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
