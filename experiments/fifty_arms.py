"""Fifty arms: who finds the best one (the paper's figure of Algorithm 3 on a finite space).

    python -m experiments.fifty_arms --workers 4     10⁴ repetitions, about 20 CPU minutes
    python -m experiments.fifty_arms --quick
    python -m experiments.fifty_arms --from-json     draw the picture again

The paper does not print its rates.  These have its described difficulty: .40 at arm 28, .389 beside
it, rivals of .37 and .359 elsewhere, the rest lower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from abctree import bandits
from experiments import command

NAME = "fifty_arms"
#: Arm 28 of the paper, counted from 0.
BEST = 27
PULLS = 10_000
CHECKPOINTS = [50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000]
GAMES = 100  #: in one task
RULES = {
    "thompson": "Thompson",
    "top-two": "top-two, b = ½",
    "top-two-adaptive": "top-two, b adaptive",
    "t3c": "T3C",
    "ucb": "UCB1",
    "uniform": "rejection",
}


def rates() -> np.ndarray:
    """(50,) Acceptance rates."""
    arm = np.arange(50)
    mu = 0.05 + 0.29 * np.exp(-0.5 * ((arm - BEST) / 6.0) ** 2)
    mu += 0.29 * np.exp(-0.5 * ((arm - 10) / 4.0) ** 2)
    mu = np.minimum(mu, 0.34)
    mu[[BEST - 1, BEST, BEST + 1]] = 0.389, 0.40, 0.389
    mu[[BEST - 2, BEST + 2]] = 0.359, 0.359
    mu[10] = 0.37
    return np.asarray(mu)


ARMS = rates()


def count(rule: str, seed: int) -> list[int]:
    """Of 100 games, those that know the best arm at each checkpoint."""
    return [int(n) for n in bandits.identified(rule, ARMS, CHECKPOINTS, GAMES, rng=seed)]


def measure(args: command.Options) -> dict[str, Any]:
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    right: dict[str, Any] = {rule: np.zeros(len(CHECKPOINTS), dtype=int) for rule in RULES}
    done = dict.fromkeys(RULES, 0)
    for (rule, _), answer in command.each(count, [(r, s) for r in RULES for s in seeds], args):
        right[rule] += answer
        done[rule] += GAMES
    path = bandits.top_two(ARMS, PULLS, rng=args.first_seed)
    return {
        "rates": ARMS,
        "checkpoints": CHECKPOINTS,
        "games": done,
        "right": right,
        "trajectory": path.arm[:: PULLS // 2_000] + 1,
        "pulls": path.pulls,
    }


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["rule", *(f"{n:,}".replace(",", " ") for n in numbers["checkpoints"])]
    rows = []
    for rule, right in numbers["right"].items():
        n = max(1, numbers["games"][rule])
        rows.append([RULES[rule], *(f"{r / n:.3f}" for r in right)])
    return {"right": command.markdown(head, rows)}


def draw(numbers: dict[str, Any]) -> Figure:
    """Rates; probability of the right arm; the arms that one run pulled."""
    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1)
    left, right = top.subplots(1, 2)
    arm = np.arange(1, len(numbers["rates"]) + 1)
    colours = np.where(arm == BEST + 1, "#c9482b", "#2f6f9f")
    left.bar(arm, numbers["rates"], color=colours)
    left.set(xlabel="arm", ylabel="acceptance rate")
    for rule, count_right in numbers["right"].items():
        n = max(1, numbers["games"][rule])
        right.plot(numbers["checkpoints"], np.array(count_right) / n, label=RULES[rule])
    right.set(xlabel="simulations", ylabel="probability of the right arm", ylim=(0.0, None))
    right.legend(fontsize="small")
    ax = bottom.subplots()
    path = np.array(numbers["trajectory"])
    at = np.linspace(0.0, PULLS, len(path), endpoint=False)
    ax.plot(at, path, ".", ms=2.0, color="#2f6f9f")
    ax.axhline(BEST + 1, color="#c9482b", lw=0.8)
    ax.set(xlabel="simulation", ylabel="arm that top-two pulls", ylim=(0.0, 51.0))
    return figure


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=100, quick_seeds=1)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
