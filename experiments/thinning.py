"""A round of the adaptive proposal on a narrow ridge: what boxes draw, and what is left of it.

    python -m experiments.thinning           the picture of docs/explanation/how-it-works.md
    python -m experiments.thinning --quick   a small version in a temporary folder

The data are the parameters with normal noise whose correlation is .99.  Shown is the last round of
one fold: its boxes, with draws that they make, and the candidates of its thinned law, with those
that are kept.  The numbers are the acceptance rate of each, and its gain over rejection, were all
draws its own, by exact draws of the ε-posterior.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import abctree
from abctree.proposals.proposal import OnBoxes
from abctree.proposals.thinned import Thinned
from experiments import command
from experiments.ridge import WIDE, Ridge

NAME = "thinning"
RIDGE = Ridge(2, 0.99)
BUDGET, QUICK_BUDGET = 5_000, 1_000
SEED = 1
COUNTED, SHOWN = 4_000, 500
#: Half of the window that is shown.
HALF = 4.0
BLUE, GREY = "#2458a6", "#b9c2c9"


@cache
def last_round(n: int) -> Any:
    with command.quiet():
        return abctree.abc_tree(RIDGE.problem(), n_simulations=n, rng=SEED).rounds[-1]


def thinned_of(played: Any) -> Thinned:
    """Of the first fold."""
    return next(law for _, law in played.mixtures[0].layers[-1] if isinstance(law, Thinned))


def draws_of(played: Any) -> dict[str, np.ndarray]:
    """Points (n, 2) in θ: of the boxes, candidates, and those that are kept."""
    thinned, rng = thinned_of(played), np.random.default_rng(SEED)
    boxes, _ = boxes_of(thinned).draw(COUNTED, rng)
    candidates, kept = thinned.draw(int(1.3 * COUNTED * thinned.n_candidates), rng)
    return {
        "boxes": in_theta(boxes),
        "candidates": in_theta(candidates),
        "kept": in_theta(candidates[kept][:COUNTED]),
    }


def boxes_of(thinned: Thinned) -> OnBoxes:
    """The law of the boxes that the candidates' law is blended with."""
    return next(law for _, law in thinned.base.parts if isinstance(law, OnBoxes))


def in_theta(cube: np.ndarray) -> np.ndarray:
    return np.asarray(WIDE * (2.0 * cube - 1.0))


def acceptance(theta: np.ndarray, epsilon: float) -> float:
    """Share of one simulation at each point (n, 2) that is closer than ε."""
    data = theta + RIDGE.noise(len(theta), np.random.default_rng(0))
    return float(np.mean(np.hypot(*data.T) < epsilon))


def measure(args: command.Options) -> dict[str, Any]:
    n = QUICK_BUDGET if args.quick else BUDGET
    played = last_round(n)
    thinned, found = thinned_of(played), draws_of(played)
    exact = RIDGE.draws(COUNTED, played.epsilon, np.random.default_rng(1))
    cube = (exact / WIDE + 1.0) / 2.0
    density = {
        "boxes": boxes_of(thinned).density(cube),
        "candidates": thinned.base.density(cube),
        "kept": thinned.n_candidates * thinned.density(cube),
    }
    return {
        "settings": {"simulations": n, "seed": SEED, "epsilon": played.epsilon},
        "candidates": thinned.n_candidates,
        "laws": {
            label: {
                "acceptance": acceptance(theta, played.epsilon),
                "gain": float(1.0 / np.mean(1.0 / density[label])),
            }
            for label, theta in found.items()
        },
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """The run is made again where only its numbers are known."""
    played = last_round(numbers["settings"]["simulations"])
    found, boxes = draws_of(played), boxes_of(thinned_of(played)).boxes
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax in (left, right):
        ax.add_collection(edges(in_theta(boxes.lower), in_theta(boxes.upper)))
        ax.set(xlim=(-HALF, HALF), ylim=(-HALF, HALF), xlabel="t1", aspect="equal")
    left.set_ylabel("t2")
    dots(left, found["boxes"][:SHOWN], BLUE)
    n = int(SHOWN * numbers["candidates"])
    dots(right, found["candidates"][:n], GREY)
    dots(right, found["kept"][:SHOWN], BLUE)
    left.set_title(f"{SHOWN} draws of the boxes", fontsize="medium")
    right.set_title(f"{SHOWN} kept of {n} candidates", fontsize="medium")
    return figure


def edges(lower: np.ndarray, upper: np.ndarray) -> LineCollection:
    (a, b), (c, d) = lower.T, upper.T
    corners = np.stack([a, b, c, b, c, d, a, d, a, b], axis=1).reshape(-1, 5, 2)
    return LineCollection(corners, colors="#8c979e", linewidths=0.4)


def dots(ax: Any, theta: np.ndarray, colour: str) -> None:
    ax.plot(*theta.T, ".", ms=4.0, color=colour, mew=0.0)


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    names = {
        "boxes": "boxes",
        "candidates": "candidates",
        "kept": f"candidates that are kept, one of {numbers['candidates']:.1f}",
    }
    rows = [
        [names[label], f"{100.0 * law['acceptance']:.2g} %", f"{law['gain']:.2g}"]
        for label, law in numbers["laws"].items()
    ]
    return {NAME: command.markdown(["draws of", "accepted", "gain over rejection"], rows)}


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=1, quick_seeds=1)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
