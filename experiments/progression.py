"""Proposals over rounds and within them: the paper's figure "Evolution of the proposal".

    python -m experiments.progression           the picture and the numbers in the documents
    python -m experiments.progression --quick   a small version in a temporary folder
    python -m experiments.progression --from-json

Algorithm 2 with CART and ω¹ on Example 2.  A row is a round, with its partition and tolerance; from
left to right the proposal at its beginning, after a third and at its end.  Red dots were accepted
in the round until then.  The first round plays the one box Θ and is left out of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import abctree
from abctree import metrics, problems
from abctree.problems import truth
from experiments import command
from experiments.watching import Diary, Proposal

NAME = "progression"
EPSILONS = [4.0, 2.8, 2.0, 1.4, 1.0]
MOMENTS = {"at the beginning": 0.0, "after a third": 1 / 3, "at the end": 1.0}
LOW, WIDTH = -5.0, 10.0
#: Accepted draws in a panel, at most.
DOTS = 250


def run(quota: int, seed: int) -> tuple[Any, Diary]:
    """Five rounds as published, and every proposal that was played."""
    diary = Diary(Proposal(abctree.PosteriorMatch()))
    with command.quiet():
        result = abctree.abc_tree(
            problems.gaussian_mixture(2),
            n_simulations=100 * quota,
            rng=seed,
            preset="published",
            policy=diary,
            schedule=EPSILONS,
            max_rounds=len(EPSILONS),
            quota=quota,
            n_pilot=quota,
            block=max(1, quota // 100),
        )
    return result, diary


def panels_of(result: Any, diary: Diary, played: Any) -> list[dict[str, Any]]:
    """The proposal at three moments of a round, beside the truth."""
    partition = played.partitions[0]
    entries = [(n, q) for owner, n, q in diary.entries if owner is partition]
    known = truth.GaussianMixtureTruth(2)
    exact = (known.draws(50_000, played.epsilon, rng=0) - LOW) / WIDTH
    arm = partition.boxes.locate(exact)
    mass = np.bincount(arm, minlength=len(partition)) / len(arm)
    rate = mass * known.evidence(played.epsilon) / partition.prior_mass
    panels = []
    for moment, share in MOMENTS.items():
        i = round(share * (len(entries) - 1))
        q = entries[i][1]
        made = sum(n for n, _ in entries[: i + 1]) if i else 0
        rows = slice(played.first, played.first + made)
        near = result.table.distance[rows] < played.epsilon
        panels.append(
            {
                "moment": moment,
                "simulations": made,
                "accepted": int(near.sum()),
                "q": q,
                "TV to the box masses": metrics.total_variation(q, mass),
                "acceptance rate of q": float(q @ rate),
                "dots": result.table.theta[rows][near][-DOTS:],
            }
        )
    return panels


def measure(args: command.Options) -> dict[str, Any]:
    quota = 100 if args.quick else 1000
    result, diary = run(quota, args.first_seed)
    rounds = []
    for played in result.rounds[1:]:
        boxes = played.partitions[0].boxes
        rounds.append(
            {
                "epsilon": played.epsilon,
                "boxes": len(boxes),
                "simulations": played.n_simulations,
                "lower": LOW + WIDTH * boxes.lower,
                "upper": LOW + WIDTH * boxes.upper,
                "panels": panels_of(result, diary, played),
            }
        )
    settings = {"problem": "gaussian_mixture(2)", "quota": quota, "partitioner": "Cart()"}
    return {"settings": settings, "rounds": rounds}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["ε", "boxes", "simulations"]
    for moment in MOMENTS:
        head += [f"acceptance of q {moment}", "TV to the box masses"]
    rows = []
    for played in numbers["rounds"]:
        cells = [f"{played['epsilon']:g}", str(played["boxes"]), str(played["simulations"])]
        for panel in played["panels"]:
            cells += [
                f"{panel['acceptance rate of q']:.3f}",
                f"{panel['TV to the box masses']:.3f}",
            ]
        rows.append(cells)
    return {NAME: command.markdown(head, rows)}


def draw(numbers: dict[str, Any]) -> Figure:
    rounds = numbers["rounds"][1:]
    figure = Figure(figsize=(3.2 * len(MOMENTS), 3.0 * len(rounds)), layout="constrained")
    rows = figure.subplots(len(rounds), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    for axes, played in zip(rows, rounds, strict=True):
        lower, upper = np.array(played["lower"]), np.array(played["upper"])
        density = [np.array(p["q"]) / (upper - lower).prod(axis=1) for p in played["panels"]]
        most = np.quantile(np.concatenate(density), 0.99)
        for ax, panel, height in zip(axes, played["panels"], density, strict=True):
            patches = [
                Rectangle(low, *(high - low)) for low, high in zip(lower, upper, strict=True)
            ]
            boxes = PatchCollection(patches, cmap="Greys", edgecolor="#c8c8c8", linewidth=0.2)
            boxes.set_array(np.sqrt(height))
            boxes.set_clim(0.0, 1.8 * np.sqrt(most))
            ax.add_collection(boxes)
            dots = np.array(panel["dots"]).reshape(-1, 2)
            ax.plot(*dots.T, ".", color="#c0392b", ms=1.5)
            ax.set(xlim=(LOW, LOW + WIDTH), ylim=(LOW, LOW + WIDTH), xticks=[], yticks=[])
            ax.set_title(
                f"{panel['moment']}: {panel['accepted']} of {panel['simulations']}",
                fontsize="small",
            )
        axes[0].set_ylabel(f"ε = {played['epsilon']:g}, {played['boxes']} boxes")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=1, quick_seeds=1, argv=argv)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
