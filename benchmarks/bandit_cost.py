"""What a Thompson pull costs, and what is lost by pulling in blocks.

    python -m benchmarks.bandit_cost             the tables of docs/explanation/map-tree.md
    python -m benchmarks.bandit_cost --quick     fewer arms and games

Times are the fastest of several, in one process, beside a NumPy draw of K Beta variates in the same
run.  Beliefs are those of a game under way: most arms are known to be poor, a few are in play.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from abctree import bandits
from abctree.kernels import bandits as kernel
from experiments import command
from experiments.fifty_arms import ARMS

NAME = "bandit_cost"
SIZES = (10, 100, 1_000, 10_000, 100_000)
BLOCKS = (1, 10, 50, 200, 1_000)
PULLS = 200


def fastest(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of several calls, after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def rates(k: int) -> np.ndarray:
    return 0.4 * np.random.default_rng(0).beta(1.0, 4.0, k)


def budget(k: int) -> int:
    """Pulls of a game: twenty an arm, as far as a benchmark can wait."""
    return min(20 * k, 20_000)


def beliefs(k: int) -> tuple[np.ndarray, np.ndarray]:
    """α and β after a game of Thompson sampling."""
    game = bandits.thompson_sampling(rates(k), budget(k), rng=1)
    accepted = np.bincount(game.arm, game.reward, k)
    return 1.0 + accepted, 1.0 + game.pulls - accepted


def costs(k: int) -> dict[str, float]:
    """Microseconds for one pull at K arms."""
    rng = np.random.default_rng(1)
    alpha, beta = beliefs(k)
    even = np.ones(k)
    found = {
        "NumPy draw of K variates": fastest(lambda: rng.beta(alpha, beta)),
        f"Thompson, block of {PULLS}": fastest(
            lambda: kernel.pulls(alpha, beta, even, PULLS, 1.0, False, rng)  # noqa: FBT003
        ) / PULLS,
        f"top-two, block of {PULLS}": fastest(
            lambda: kernel.pulls(alpha, beta, even, PULLS, 0.5, False, rng)  # noqa: FBT003
        ) / PULLS,
        f"T3C, block of {PULLS}": fastest(
            lambda: kernel.pulls(alpha, beta, even, PULLS, 0.5, True, rng)  # noqa: FBT003
        ) / PULLS,
    }  # fmt: skip
    # A game brings its beliefs up to date after every pull: the mean over a whole game.
    mu = rates(k)
    game = fastest(lambda: bandits.thompson_sampling(mu, budget(k), rng=1), 3)
    found["Thompson, beliefs updated at every pull"] = game / budget(k)
    return {name: 1e6 * seconds for name, seconds in found.items()}


def block_losses(block: int, rule: str, n_games: int, seed: int) -> list[int]:
    """Games that know the best of the fifty arms after 10³, 3·10³ and 10⁴ pulls."""
    answer = bandits.identified(rule, ARMS, [1_000, 3_000, 10_000], n_games, block=block, rng=seed)
    return [int(right) for right in answer]


def work(what: str, *how: Any) -> Any:
    return costs(*how) if what == "cost" else block_losses(*how)


def measure(args: command.Options) -> dict[str, Any]:
    sizes = SIZES[:3] if args.quick else SIZES
    cost = {str(k): costs(k) for k in sizes}  # alone on the machine, as far as that is possible
    chunk = 20 if args.quick else 100
    tasks = [
        ("block", block, rule, chunk, args.first_seed + i)
        for block in BLOCKS
        for rule in ("thompson", "top-two")
        for i in range(args.seeds)
    ]
    right: dict[str, dict[str, Any]] = {}
    for (_, block, rule, n, _), answer in command.each(work, tasks, args):
        line = right.setdefault(rule, {}).setdefault(str(block), [0, np.zeros(3, dtype=int)])
        line[0] += n
        line[1] = line[1] + answer
    return {"microseconds": cost, "right": right}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    cost = numbers["microseconds"]
    names = list(next(iter(cost.values())))
    head = ["K", *(f"{name}, µs" for name in names)]
    rows = [[k, *(f"{cost[k][name]:.3g}" for name in names)] for k in cost]
    blocks = []
    for rule, lines in numbers["right"].items():
        for block, (n, right) in lines.items():
            share = [r / n for r in right]
            error = [(s * (1 - s) / n) ** 0.5 for s in share]
            cells = [f"{s:.3f} ± {e:.3f}" for s, e in zip(share, error, strict=True)]
            blocks.append([rule, block, *cells])
    return {
        "cost": command.markdown(head, rows),
        "blocks": command.markdown(["rule", "block", "T = 1 000", "3 000", "10 000"], blocks),
    }


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=20, quick_seeds=1)
    command.tabulate(NAME, args, measure, tables)


if __name__ == "__main__":
    main()
